"""The agent's questions at the terminal: what is shown, and what the answers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from orkas.infra.events import Approval
from orkas.product.chat.words import Tone

__all__ = ["Answer", "answer_of", "is_answer", "shown"]

Answer = Literal["once", "session", "always", "no"]
_WORDS: dict[str, Answer] = {
    "y": "once", "yes": "once", "once": "once", "s": "session", "session": "session", "a": "always",
    "always": "always", "n": "no", "no": "no",
}  # fmt: skip


def shown(asked: Approval, joined: Callable[..., str]) -> Iterator[tuple[str, Tone]]:
    """The question, whole, line by line, each with its tone; last the rule that an answer for longer would store.
    ``joined``: puts choices beside one another."""
    yield f"May this run?  {asked.tool}", "bold"
    for line in asked.question:
        yield f"  {line}", "plain"
    yield f"because {'; '.join(asked.reasons)}", "dim"
    keys = ["y once"]
    if "session" in asked.scopes:
        keys.append("s in this session")
    if "always" in asked.scopes:
        keys.append("a always")
    yield joined(*keys, "n no", "n WORDS: no, and tell the model why") + ", then Enter", "warning"
    if asked.rule:
        yield f"s and a would allow from now on: {asked.rule}", "dim"


def is_answer(text: str) -> bool:
    """Whether a line is an answer to some question, or means to be one (a letter, a key too many), so that it is not
    said to the model by mistake."""
    word = text.strip().lower().rstrip(":,")
    return word in _WORDS or len(word) <= 2


def answer_of(text: str, asked: Approval) -> tuple[Answer, str] | None:
    """The answer in a typed line, and words for the model; None: it is none to this question."""
    word, _, rest = text.strip().partition(" ")
    answer = _WORDS.get(word.lower().rstrip(":,"))
    if answer is None or (rest and answer != "no"):
        return None
    return (answer, rest.strip()) if answer == "no" or answer in asked.scopes else None
