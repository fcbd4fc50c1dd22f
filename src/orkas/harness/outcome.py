"""What is true of a call that has no result, in plain words for the model: as much as the records prove, never more.

The calls of a round run one after another, and each record is durable before the next call begins. The record before a
call names it in ``starts`` when nothing else stands between the two; "" there says that the round keeps such marks and
that nothing begins with this record. A call that had to wait for somebody gets a ``mark`` of its own when it begins.
Calls that only read run side by side; the record before the first of them says in ``reads`` how many they are. Those
without a result have done no harm, begun or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from orkas.infra.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage

__all__ = [
    "HARMLESS", "INTERRUPTED", "NOT_STARTED", "STOPPED", "UNKNOWN", "Mark", "begun", "cut_short", "fate", "interrupted",
    "mark", "named", "without_marks",
]  # fmt: skip

Mark: TypeAlias = tuple[int, str | None, int]
"""What one record says of calls that begin: its place, -1 for the message that calls; ``starts``; ``reads``."""

INTERRUPTED = "interrupted: this call did not finish and its result is lost; it may or may not have had an effect"
"""Nothing is known: the round keeps no marks, or lines of it cannot be read."""
UNKNOWN = (
    "interrupted: outcome unknown. This call was started, and the program ended before its result was saved. "
    "Check what it did before repeating it."
)
NOT_STARTED = "interrupted: not started. The run ended before this tool was started. It did nothing."
STOPPED = (
    "interrupted: outcome unknown. The run was stopped while this tool was running. "
    "Check what it did before repeating it."
)
HARMLESS = (
    "interrupted: no result. The run ended before the result of this call was saved. The tool only reads and changed "
    "nothing: call it again if its result is still needed."
)
_DONE = "interrupted: this call was done, but its result was cut while it was being saved."


def interrupted(call: ToolCall, text: str = INTERRUPTED) -> ToolMessage:
    """The result of a call that has none. The same call gives the same message, so a cached prefix stays."""
    return ToolMessage(call.id, [Text(text=text)], is_error=True, synthetic=True, id=f"{call.id}-interrupted")


def cut_short(call: ToolCall, saved: Text) -> ToolMessage:
    """The result of a call that was done, with what is left of its real one: ``saved``, empty if nothing is."""
    rest = f"What was saved of it:\n{saved.text}" if saved.text else "Nothing of it was saved."
    block = Text(text=f"{_DONE} {rest}", file=saved.file, bytes=saved.bytes)
    return ToolMessage(call.id, [block], is_error=True, synthetic=True, id=f"{call.id}-interrupted")


def mark(call: ToolCall) -> ToolMessage:
    """The record that says: this call begins now. Its result if no other follows; else ``without_marks`` drops it."""
    return ToolMessage(
        call.id, [Text(text=UNKNOWN)], is_error=True, synthetic=True, id=f"{call.id}-started", starts=call.id
    )


def without_marks(messages: Sequence[Message]) -> Sequence[Message]:
    """The history without the marks whose call has another result; the same object when there are none."""
    marks = [m for m in messages if type(m) is ToolMessage and m.synthetic and m.starts == m.tool_call_id]
    if not marks:
        return messages
    idle: set[int] = set()
    answered: set[str] = set()
    wanted = {id(m) for m in marks}
    for m in reversed(messages):
        if type(m) is AssistantMessage:
            answered.clear()
        elif type(m) is ToolMessage:
            if id(m) in wanted and m.tool_call_id in answered:
                idle.add(id(m))
            answered.add(m.tool_call_id)
    return [m for m in messages if id(m) not in idle]


def named(starts: str, ids: Sequence[str], after: int = -1) -> int | None:
    """The place of the call that ``starts`` names: behind place ``after`` if it can be, for ids may be repeated."""
    places = [i for i, call_id in enumerate(ids) if call_id == starts]
    return next((i for i in places if i > after), places[0] if places else None)


def begun(ids: Sequence[str], marks: Iterable[Mark]) -> dict[int, bool] | None:
    """The places of the calls that may have begun, each with whether it only reads; None when the round does not tell.

    ``ids``: of its calls, in declared order.
    """
    kept = False
    places: dict[int, bool] = {}
    for place, starts, reads in marks:
        if starts is None:
            continue
        kept = True
        at = named(starts, ids, place)
        if at is not None:
            places.update(dict.fromkeys(range(at, min(at + max(reads, 1), len(ids))), reads > 0))
        elif starts:
            return None  # it names no call of this round: whatever made it, it is no proof
    return places if kept else None


def fate(place: int, begun: Mapping[int, bool] | None, *, lossy: bool = False) -> str:
    """What to say of the call at that place, which has no result. ``lossy``: something of its round could not be read,
    so that a mark which is not there proves nothing.
    """
    if begun is not None and place in begun:
        return HARMLESS if begun[place] else UNKNOWN
    return INTERRUPTED if begun is None or lossy else NOT_STARTED
