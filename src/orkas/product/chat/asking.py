"""The agent's questions at the terminal: what is shown, and what the answers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from orkas.infra.events import Approval

if TYPE_CHECKING:
    from orkas.product.chat.screen import Screen

__all__ = ["Answer", "answer_of", "show"]

Answer = Literal["once", "session", "always", "no"]
_WORDS: dict[str, Answer] = {
    "y": "once", "yes": "once", "once": "once", "s": "session", "session": "session", "a": "always",
    "always": "always", "n": "no", "no": "no",
}  # fmt: skip


def show(screen: Screen, asked: Approval) -> None:
    """The question, whole, with the rule that an answer for longer would store."""
    screen.say(f"May this run?  {asked.tool}", "bold")
    for line in asked.question:
        screen.say(f"  {line}")
    screen.say(f"because {'; '.join(asked.reasons)}", "dim")
    keys = ["y once"]
    if "session" in asked.scopes:
        keys.append("s in this session")
    if "always" in asked.scopes:
        keys.append("a always")
    screen.say(screen.joined(*keys, "n no", "n WORDS: no, and tell the model why") + ", then Enter", "warning")
    if asked.rule:
        screen.say(f"s and a would allow from now on: {asked.rule}", "dim")


def answer_of(text: str, asked: Approval) -> tuple[Answer, str] | None:
    """The answer in a typed line, and words for the model; None: it is none to this question."""
    word, _, rest = text.strip().partition(" ")
    answer = _WORDS.get(word.lower().rstrip(":,"))
    if answer is None or (rest and answer != "no"):
        return None
    return (answer, rest.strip()) if answer == "no" or answer in asked.scopes else None
