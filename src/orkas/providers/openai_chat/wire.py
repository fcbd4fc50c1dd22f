"""The wire form of Chat Completions: typed for what vendors mean to send, tolerant for what some of them do send."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.messages import Usage
from orkas.providers.reading.calls import spelled
from orkas.providers.reading.payloads import loads

__all__ = ["Call", "Choice", "Chunk", "Delta", "Function", "decode", "decode_all", "tolerant", "usage_of"]


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: dict[str, Any] | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[Call] | None = None
    refusal: str | None = None
    function_call: Function | None = None
    extra_content: dict[str, Any] | None = None


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None


decode = msgspec.json.Decoder(Chunk).decode
decode_all = msgspec.json.Decoder(list[Chunk]).decode


def tolerant(payload: bytes) -> Chunk | None:
    """A chunk of whatever of it has the right form; None when it is no JSON object."""
    value = loads(payload)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if not isinstance(value, dict):
        return None
    choices = [_choice(c) for c in _items(value.get("choices"))]
    return Chunk(choices, _dict(value.get("usage")), value.get("error"), _dict(value.get("x_groq")))


def _choice(value: dict[str, Any]) -> Choice:
    delta, message = value.get("delta"), value.get("message")
    return Choice(
        index=_count(value, "index") or 0,
        delta=_delta(delta) if isinstance(delta, dict) else None,
        message=_delta(message) if isinstance(message, dict) else None,
        finish_reason=_str(value.get("finish_reason")),
        usage=_dict(value.get("usage")),
    )


def _delta(value: dict[str, Any]) -> Delta:
    content = value.get("content")
    if isinstance(content, dict):
        content = [content]
    function, calls = value.get("function_call"), value.get("tool_calls")
    # in this form text goes through _odd_content, which joins split pairs
    return Delta(
        content=[{"text": content}] if isinstance(content, str) else _list(content),
        reasoning_content=_str(value.get("reasoning_content")),
        reasoning=_str(value.get("reasoning")),
        reasoning_details=_items(value.get("reasoning_details")),
        tool_calls=[_tool_call(c) for c in _items([calls] if isinstance(calls, dict) else calls)] or None,
        refusal=_str(value.get("refusal")),
        function_call=_function(function) if isinstance(function, dict) else None,
        extra_content=_dict(value.get("extra_content")),
    )


def _tool_call(value: dict[str, Any]) -> Call:
    id, function = value.get("id"), value.get("function")
    return Call(
        index=_count(value, "index"),
        id=str(id) if isinstance(id, str | int) and id != "" else None,
        function=_function(function) if isinstance(function, dict) else None,
        extra_content=_dict(value.get("extra_content")),
    )


def _function(value: dict[str, Any]) -> Function:
    arguments = value.get("arguments")
    if arguments is not None and not isinstance(arguments, str | dict):
        arguments = spelled(arguments)
    return Function(_str(value.get("name")), arguments)


def _items(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def usage_of(said: dict[str, Any]) -> Usage:
    """Tokens. The vendor counts the cache inside the prompt; xAI counts reasoning outside the completion."""
    prompt = _count(said, "prompt_tokens")
    output = _count(said, "completion_tokens")
    details = _details(said, "prompt_tokens_details")
    reasoning = _count(_details(said, "completion_tokens_details"), "reasoning_tokens")
    read = _first(
        _count(details, "cached_tokens"), _count(said, "prompt_cache_hit_tokens"), _count(said, "num_cached_tokens"),
        _count(said, "cached_tokens"),
    )  # fmt: skip
    write = _first(_count(details, "cache_write_tokens"), _count(said, "cache_creation_input_tokens"))
    if prompt is None and output is None:
        return Usage()
    total = _count(said, "total_tokens")
    if reasoning and total is not None and prompt is not None and output is not None:
        output += reasoning if total == prompt + output + reasoning else 0
    fresh = None if prompt is None else max(0, prompt - (read or 0) - (write or 0))
    cost = said.get("cost")
    if isinstance(cost, dict):  # Perplexity
        cost = cost.get("total_cost")
    return Usage(
        fresh, output, read or 0, write or 0, reasoning,
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9 else None,
    )  # fmt: skip


def _count(said: dict[str, Any], name: str) -> int | None:
    """A figure that can be a number of tokens, or None."""
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)


def _first(*values: int | None) -> int | None:
    return next((v for v in values if v is not None), None)


def _details(said: dict[str, Any], name: str) -> dict[str, Any]:
    value = said.get(name)
    return value if isinstance(value, dict) else {}
