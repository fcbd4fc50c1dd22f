"""The wire form of Cohere's chat, version 2: typed for what it means to send, tolerant for everything else."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.messages import StopReason, Usage
from orkas.providers.reading.calls import spelled

__all__ = [
    "Call", "Content", "Counts", "Delta", "Event", "call_of", "counts", "decode", "decode_all", "stop_reason",
    "tolerant", "usage_of",
]  # fmt: skip


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct, gc=False):
    id: str | None = None
    function: Function | None = None


class Content(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class Message(msgspec.Struct, gc=False):
    """Of a stream: one piece each. The lists of a beginning are empty."""

    content: Content | list[Any] | None = None
    tool_plan: str | None = None
    tool_calls: Call | list[Any] | None = None


class Tokens(msgspec.Struct, gc=False):
    input_tokens: float | None = None
    output_tokens: float | None = None


class Counts(msgspec.Struct, gc=False):
    tokens: Tokens | None = None
    cached_tokens: float | None = None


class Delta(msgspec.Struct, gc=False):
    message: Message | None = None
    finish_reason: str | None = None
    usage: Counts | None = None
    error: str | None = None


class Event(msgspec.Struct, gc=False):
    type: str | None = None
    index: int | None = None
    delta: Delta | None = None
    message: str | None = None
    """Of an error in the place of an event."""


decode = msgspec.json.Decoder(Event).decode
decode_all = msgspec.json.Decoder(list[Event]).decode


def tolerant(value: Any) -> Event | None:
    """An event of whatever of it has the right form; None when it is no JSON object."""
    if not isinstance(value, dict):
        return None
    delta = _dict(value.get("delta"))
    return Event(
        _str(value.get("type")), _int(value.get("index")), None if delta is None else _delta(delta),
        _str(value.get("message")),
    )  # fmt: skip


def _delta(value: dict[str, Any]) -> Delta:
    message, usage = _dict(value.get("message")), _dict(value.get("usage"))
    return Delta(
        None if message is None else _message(message), _str(value.get("finish_reason")),
        None if usage is None else counts(usage), _str(value.get("error")),
    )  # fmt: skip


def _message(value: dict[str, Any]) -> Message:
    content, call = _dict(value.get("content")), _dict(value.get("tool_calls"))
    said = None if content is None else Content(*(_str(content.get(n)) for n in Content.__struct_fields__))
    return Message(said, _str(value.get("tool_plan")), None if call is None else call_of(call))


def call_of(value: dict[str, Any]) -> Call:
    """One call of plain data. Arguments that are no text are written as one."""
    function = _dict(value.get("function")) or {}
    given = function.get("arguments")
    arguments = given if isinstance(given, str) or given is None else spelled(given)
    return Call(_str(value.get("id")), Function(_str(function.get("name")), arguments))


def counts(value: dict[str, Any]) -> Counts:
    tokens = _dict(value.get("tokens")) or {}
    return Counts(
        Tokens(_number(tokens.get("input_tokens")), _number(tokens.get("output_tokens"))),
        _number(value.get("cached_tokens")),
    )  # fmt: skip


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53 else None


_STOPS: dict[str, StopReason] = {
    "COMPLETE": "stop", "STOP_SEQUENCE": "stop", "MAX_TOKENS": "length", "TOOL_CALL": "tool_use", "ERROR": "error",
    "TIMEOUT": "error", "USER_CANCEL": "error", "ERROR_TOXIC": "content_filter", "ERROR_LIMIT": "overflow",
}  # fmt: skip


def stop_reason(reason: str) -> StopReason:
    """What a finish reason means, calls left aside. One we do not know ends an answer like any other."""
    return _STOPS.get(reason, "stop")


def usage_of(found: Counts) -> Usage | None:
    """Cohere counts the cache inside the prompt. What it bills is another figure than what was there."""
    if found.tokens is None:
        return None
    cached = int(found.cached_tokens or 0)
    prompt, output = int(found.tokens.input_tokens or 0), int(found.tokens.output_tokens or 0)
    return Usage(max(prompt - cached, 0), output, cached, 0)
