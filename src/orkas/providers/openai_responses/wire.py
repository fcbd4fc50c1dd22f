"""The wire form of Responses: typed for what vendors mean to send, tolerant for what some of them do send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from orkas.infra.messages import Usage
from orkas.providers.reading import payloads
from orkas.providers.reading.calls import spelled

__all__ = [
    "DELTAS", "FINAL", "SPOKEN", "TEXT_DELTA", "Event", "decode", "decode_all", "loads", "response_of", "said_in",
    "tolerant", "usage_of",
]  # fmt: skip

TEXT_DELTA = "response.output_text.delta"
SPOKEN: dict[str, tuple[str, bool]] = {
    TEXT_DELTA: ("output_text", False),
    "response.output_text.done": ("output_text", True),
    "response.refusal.delta": ("refusal", False),
    "response.refusal.done": ("refusal", True),
    "response.reasoning_summary_text.delta": ("summary_text", False),
    "response.reasoning_summary_text.done": ("summary_text", True),
    "response.reasoning_text.delta": ("reasoning_text", False),
    "response.reasoning_text.done": ("reasoning_text", True),
}
"""Events that carry text: which part of an item it belongs to, and whether it is all of it."""
DELTAS = frozenset(
    f"response.{name}.{what}"
    for name in ("function_call_arguments", "custom_tool_call_input", "mcp_call_arguments")
    for what in ("delta", "done")
)
"""Events that carry what a call is given."""
FINAL = frozenset(f"response.{what}" for what in ("completed", "incomplete", "failed", "cancelled", "done"))
"""Events after which nothing matters."""

_NOTHING = msgspec.Raw(b"null")


class Event(msgspec.Struct, gc=False):
    """One event. What only few events need is parsed when they need it."""

    type: str = ""
    output_index: int | None = None
    content_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: msgspec.Raw = _NOTHING
    response: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


class Response(msgspec.Struct, gc=False):
    """The parts of a response that its end tells."""

    status: str | None = None
    error: Any = None
    usage: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    output: msgspec.Raw = _NOTHING


decode = msgspec.json.Decoder(Event).decode
decode_all = msgspec.json.Decoder(list[Event]).decode
_decode_response = msgspec.json.Decoder(Response).decode
_decode = msgspec.json.Decoder().decode


def loads(data: bytes | msgspec.Raw) -> Any:
    """Plain data of one JSON text, damaged characters replaced; None when it is none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return payloads.loads(bytes(data))


def tolerant(payload: bytes) -> Event | None:
    """An event of whatever of it has the right form; None when it is no JSON object."""
    value = loads(payload)
    if not isinstance(value, dict):
        return None
    return Event(
        type=_str(value.get("type")) or "",
        output_index=_count(value.get("output_index")),
        content_index=_count(value.get("content_index")) or 0,
        summary_index=_count(value.get("summary_index")) or 0,
        delta=_str(value.get("delta")),
        text=_str(value.get("text")),
        refusal=_str(value.get("refusal")),
        arguments=_str(value.get("arguments")),
        input=_str(value.get("input")),
        item=msgspec.Raw(spelled(value.get("item")).encode()),
        response=msgspec.Raw(spelled(value.get("response")).encode()),
        error=msgspec.Raw(spelled(value.get("error")).encode()),
    )


def response_of(raw: msgspec.Raw) -> Response:
    try:
        return _decode_response(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = loads(raw)
    if not isinstance(value, dict):
        return Response()
    return Response(
        _str(value.get("status")),
        value.get("error"),
        _dict(value.get("usage")),
        _dict(value.get("incomplete_details")),
        msgspec.Raw(spelled(value.get("output")).encode()),
    )


def said_in(item: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Every text of a complete item: what kind, its place, its words."""
    for field in ("summary", "content"):
        parts = item.get(field)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in _FIELDS.get(_str(item.get("type")) or "", ()):
                text = part.get("refusal" if kind == "refusal" else "text")
                if isinstance(text, str):
                    yield kind, index, text


_FIELDS = {"message": ("output_text", "refusal"), "reasoning": ("summary_text", "reasoning_text")}


def usage_of(said: dict[str, Any]) -> Usage:
    """Tokens. The vendor counts the cache inside the input and reasoning inside the output."""
    whole, output = _count(said.get("input_tokens")), _count(said.get("output_tokens"))
    details = _dict(said.get("input_tokens_details")) or {}
    read, write = _count(details.get("cached_tokens")) or 0, _count(details.get("cache_write_tokens")) or 0
    if whole is None and output is None:
        return Usage()
    cost = said.get("cost")
    return Usage(
        None if whole is None else max(0, whole - read - write), output, read, write,
        _count((_dict(said.get("output_tokens_details")) or {}).get("reasoning_tokens")),
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )  # fmt: skip


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    """A figure that can be a number of tokens or a place, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)
