"""Where a conversation stands that is gone on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orkas.infra.amounts import counted
from orkas.infra.messages import AssistantMessage, UserMessage, text_of
from orkas.product.chat.words import one_line

if TYPE_CHECKING:
    from orkas.harness.sessions.session import Session
    from orkas.product.chat.screen import Screen

__all__ = ["recap", "tell_cut_off"]


def tell_cut_off(session: Session, screen: Screen) -> None:
    """What a crash left behind: calls without a result, words that the model has not got."""
    if count := session.loaded.synthesized:
        calls = "A tool call was" if count == 1 else f"{count} tool calls were"
        screen.say(f"{calls} cut off when this conversation ended; the model is told what is known.", "warning")
    if count := len(session.inbox.waiting()):
        said = "A message of yours waits and goes" if count == 1 else f"{count} messages of yours wait and go"
        screen.say(f"{said} first with the next one.", "warning")


def recap(session: Session, screen: Screen) -> None:
    """Where an old conversation stands: its size, and the last thing that each side said."""
    messages = session.messages
    asked = [m for m in messages if isinstance(m, UserMessage) and m.origin is None]
    if not asked:
        return
    said = [text for m in messages if isinstance(m, AssistantMessage) and (text := text_of(m).strip())]
    last = one_line(text_of(asked[-1]), 200)
    screen.say(f"{counted(len(messages), 'message')} so far; the last question: {last}", "dim")
    if said:
        screen.say(f"the last answer: {one_line(said[-1], 400)}", "dim")
