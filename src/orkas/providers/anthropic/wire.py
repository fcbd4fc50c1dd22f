"""Anthropic Messages on the wire: only what is read."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.messages import Usage
from orkas.providers.reading.payloads import loads

__all__ = ["Delta", "Event", "decode", "decode_all", "dicts", "str_of", "tolerant", "usage_of"]


class Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


decode = msgspec.json.Decoder(Event).decode
decode_all = msgspec.json.Decoder(list[Event]).decode


def usage_of(said: dict[str, Any]) -> Usage:
    """Anthropic counts the cache outside the input and thinking inside the output, without a share of its own."""
    return Usage(
        _int(said.get("input_tokens")),
        _int(said.get("output_tokens")),
        _int(said.get("cache_read_input_tokens")) or 0,
        _int(said.get("cache_creation_input_tokens")) or 0,
    )


def tolerant(payload: bytes) -> Event | None:
    """An event of whatever of it has the right form; None when it is no JSON object."""
    value = loads(payload)
    if not isinstance(value, dict):
        return None
    delta = value.get("delta")
    names = ("text", "partial_json", "thinking", "signature", "stop_reason")
    return Event(
        type=str_of(value.get("type")),
        index=_int(value.get("index")) or 0,
        delta=Delta(str_of(delta.get("type")), *(d if isinstance(d := delta.get(n), str) else None for n in names))
        if isinstance(delta, dict)
        else None,
        content_block=_dict(value.get("content_block")),
        message=_dict(value.get("message")),
        usage=_dict(value.get("usage")),
        error=value.get("error"),
    )


def dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def str_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
