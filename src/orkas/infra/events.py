"""Everything a run can tell its caller, as one closed union.

An event is a fact about the past: made of plain data, the same in Python, on the wire and in a test.
The last event of every run is exactly one ``Done``; nothing follows it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, get_args

import msgspec

from orkas.infra.errors import ErrorClass
from orkas.infra.messages import Usage

__all__ = [
    "Approval", "Compaction", "Done", "ErrorClass", "ErrorInfo", "Event", "Fallback", "Notice", "Outcome", "Retry",
    "TextDelta", "ThinkingDelta", "ToolCount", "ToolEnd", "ToolProgress", "ToolStart", "UserInput", "decode",
    "encode",
]  # fmt: skip

Outcome: TypeAlias = Literal["completed", "aborted", "failed"]


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class _Event(msgspec.Struct, tag_field="type", tag=_snake, gc=False):
    seq: int
    """Position in the run, from 0, without gaps: a reader that reconnects asks for ``seq > n``."""

    type: ClassVar[str]
    """The event's name on the wire: ``text_delta``, ``tool_start``, …"""


class TextDelta(_Event, gc=False):
    """A piece of the answer, as it arrives."""

    text: str


class ThinkingDelta(_Event, gc=False):
    """A piece of the model's visible reasoning. Never part of ``Done.text``."""

    text: str


class Approval(_Event, gc=False):
    """A call waits for a person: ``agent.answer(id, …)`` with one of ``scopes``, or ``no``. It has not begun."""

    id: str
    """What the answer names."""
    call_id: str
    tool: str
    question: list[str]
    """The lines to show: what would be done, with every character visible."""
    reasons: list[str]
    """Why it is asked, as clauses."""
    rule: str
    """What would be allowed from then on, where the answer is ``session`` or ``always``; empty where it cannot be."""
    scopes: list[Literal["once", "session", "always"]]


class ToolStart(_Event, gc=False):
    """A call is about to run. The assistant message that holds it is already durable."""

    id: str
    name: str
    input: dict[str, Any] | None


class ToolProgress(_Event, gc=False):
    """A running tool is alive and says so."""

    id: str
    text: str


class ToolEnd(_Event, gc=False):
    """A call has its result, and the result is already durable."""

    id: str
    name: str
    result: str
    is_error: bool = False


class Compaction(_Event, gc=False):
    """Older messages were replaced, and kept in the archive. Sizes in estimated tokens of the messages.

    ``method``: ``summary``, written by the model; ``fold``, made without one, which says what was left out.
    """

    tokens_before: int
    tokens_after: int
    method: Literal["summary", "fold"] = "summary"


class UserInput(_Event, gc=False):
    """A message that was steered or queued is now part of the conversation: it goes out with the next request."""

    id: str
    text: str


class Retry(_Event, gc=False):
    """A request failed and will be made again after ``wait_s`` seconds."""

    attempt: int
    reason: str
    wait_s: float
    discard: int = 0
    """Characters of already told text that are taken back."""


class Fallback(_Event, gc=False):
    """Another model is asked from here on, until the end of the turn or until it fails, too."""

    model: str
    """``vendor/model`` that takes over."""
    reason: str
    """Why the one before it is not asked any more."""


class Notice(_Event, gc=False):
    """Something the user must know that does not end the turn: a failed save, a clipped result."""

    level: Literal["info", "warning", "error"]
    text: str


class ToolCount(msgspec.Struct):
    calls: int = 0
    errors: int = 0


class ErrorInfo(msgspec.Struct, rename={"class_": "class"}):
    """What ended a failed turn. ``status``: the HTTP status where there was one."""

    class_: ErrorClass
    message: str
    status: int | None = None


class Done(_Event, gc=False):
    """The end of the turn, exactly once. ``text``: visible text of the last assistant message of the turn."""

    outcome: Outcome
    text: str
    stop_reason: str
    model: str
    session: str
    rounds: int
    usage: Usage
    tools: dict[str, ToolCount]
    error: ErrorInfo | None = None
    output: Any = None
    """The answer as plain data, where one in a given form was asked for and came. Left out on the wire otherwise."""


Event: TypeAlias = (
    TextDelta | ThinkingDelta | Approval | ToolStart | ToolProgress | ToolEnd | Compaction | UserInput | Retry
    | Fallback | Notice | Done
)
for _kind in get_args(Event):
    _kind.type = _snake(_kind.__name__)

_encoder = msgspec.json.Encoder()
decode = msgspec.json.Decoder(Event).decode


def encode(event: Event) -> bytes:
    """One event as one line of JSON (without the newline). ``usage`` of ``done`` names every figure, null included;
    ``output`` stands there where there is one."""
    if isinstance(event, Done):
        plain = msgspec.to_builtins(event)
        plain["usage"] = {name: getattr(event.usage, name) for name in Usage.__struct_fields__}
        if event.output is None:
            del plain["output"]
        return _encoder.encode(plain)
    return _encoder.encode(event)
