"""A scripted reply as Chat Completions: chunks of a stream, and one JSON body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall, Usage
from orkas.testing.say import Say, arguments_of, fragments, plain

__all__ = ["chat_body", "chat_events"]


def chat_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events of a stream, one each, with the script's pauses between them."""
    usage_wanted = bool((request.get("stream_options") or {}).get("include_usage"))
    frame: dict[str, Any] = {
        "id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1760000000,
        "model": request.get("model", ""), "system_fingerprint": "fp_fake",
    }  # fmt: skip
    if usage_wanted:
        frame["usage"] = None

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: %s\n\n" % plain({**frame, "choices": [choice]})

    yield event({"role": "assistant", "content": "", "refusal": None})
    index = 0
    for piece in say.pieces:
        match piece:
            case str():
                yield event({"content": piece})
            case Thinking():
                yield event({"reasoning_content": piece.text})
            case ToolCall():
                head = {"name": piece.name, "arguments": ""}
                yield event({"tool_calls": [{"index": index, "id": piece.id, "type": "function", "function": head}]})
                for part in fragments(arguments_of(piece), say.fragment):
                    yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                index += 1
            case _:
                yield float(piece)
    yield event({}, say.stop("openai"))
    if usage_wanted:
        yield b"data: %s\n\n" % plain({**frame, "choices": [], "usage": _usage(say.usage)})
    yield b"data: [DONE]\n\n"


def chat_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The same as one JSON body."""
    text = "".join(p for p in say.pieces if isinstance(p, str))
    calls = [p for p in say.pieces if isinstance(p, ToolCall)]
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
    if thinking := "".join(p.text for p in say.pieces if isinstance(p, Thinking)):
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments_of(c)}} for c in calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": say.stop("openai")}
    return {
        "id": "chatcmpl-fake", "object": "chat.completion", "created": 1760000000, "model": request.get("model", ""),
        "choices": [choice], "usage": _usage(say.usage), "system_fingerprint": "fp_fake",
    }  # fmt: skip


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write))
    output = usage.output or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }
