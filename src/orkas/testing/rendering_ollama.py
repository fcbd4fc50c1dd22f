"""A scripted reply as Ollama's own chat says it: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall
from orkas.testing.say import Say, arguments_of, plain

__all__ = ["ollama_body", "ollama_lines"]

_AT = "2026-01-01T00:00:00Z"


def ollama_lines(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """A line a piece; the last one has the reason and the figures."""
    frame = {"model": request.get("model", ""), "created_at": _AT}
    for said in _said(say):
        if isinstance(said, float):
            yield said
        else:
            yield plain({**frame, "message": {"role": "assistant", "content": "", **said}, "done": False}) + b"\n"
    yield plain({**frame, "message": {"role": "assistant", "content": ""}, **_ending(say)}) + b"\n"


def ollama_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The whole reply in one object."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for said in _said(say):
        for name, value in {} if isinstance(said, float) else said.items():
            message[name] = message[name] + value if name in message else value
    return {"model": request.get("model", ""), "created_at": _AT, "message": message, **_ending(say)}


def _said(say: Say) -> Iterator[dict[str, Any] | float]:
    for piece in say.pieces:
        match piece:
            case str():
                yield {"content": piece}
            case Thinking():
                yield {"thinking": piece.text}
            case ToolCall():
                yield _call(piece)
            case _:
                yield float(piece)


def _call(call: ToolCall) -> dict[str, Any]:
    """A call; what cannot be parsed as one stays words of the model, as with the real server."""
    raw = arguments_of(call)
    try:
        arguments = json.loads(raw or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return {"content": raw}
    return {"tool_calls": [{"function": {"name": call.name, "arguments": arguments}}]}


def _ending(say: Say) -> dict[str, Any]:
    usage = say.usage
    prompt = sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write))
    return {
        "done": True, "done_reason": say.stop("ollama"), "total_duration": 2_000_000, "load_duration": 1_000_000,
        "prompt_eval_count": prompt, "prompt_eval_duration": 500_000, "eval_count": usage.output or 0,
        "eval_duration": 500_000,
    }  # fmt: skip
