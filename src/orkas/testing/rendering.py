"""A scripted reply in the words of a vendor: events of a stream, or one JSON body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall, Usage
from orkas.testing.rendering_responses import response_body, response_events
from orkas.testing.rules.base import Api
from orkas.testing.say import Piece, Say, arguments_of, fragments, plain, signature_of

__all__ = ["Piece", "Say", "as_json", "as_stream", "signature_of"]

def as_stream(say: Say, api: Api, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events, one each, with the script's pauses in seconds between them."""
    events = {"anthropic": _anthropic_events, "responses": response_events, "openai": _openai_events}[api]
    return events(say, request)


def as_json(say: Say, api: Api, request: dict[str, Any]) -> bytes:
    body = {"anthropic": _anthropic_body, "responses": response_body, "openai": _openai_body}[api]
    return plain(body(say, request))


def _openai_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
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
        yield b"data: %s\n\n" % plain({**frame, "choices": [], "usage": _openai_usage(say.usage)})
    yield b"data: [DONE]\n\n"


def _openai_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
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
        "choices": [choice], "usage": _openai_usage(say.usage), "system_fingerprint": "fp_fake",
    }  # fmt: skip


def _openai_usage(usage: Usage) -> dict[str, Any]:
    prompt = sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write))
    output = usage.output or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }


def _anthropic_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    def event(kind: str, **fields: Any) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), plain({"type": kind, **fields}))

    message = {**_anthropic_frame(request), "content": [], "stop_reason": None, "stop_sequence": None}
    usage = _anthropic_usage(say.usage)
    yield event("message_start", message={**message, "usage": {**usage, "output_tokens": 1}})
    yield event("ping")
    index, in_text = -1, False
    for piece in [*say.pieces, None]:
        if in_text and not isinstance(piece, str | float | int):
            yield event("content_block_stop", index=index)
            in_text = False
        match piece:
            case None:
                break
            case str():
                if not in_text:
                    index, in_text = index + 1, True
                    yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
                yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
            case Thinking() | ToolCall():
                index += 1
                start, deltas = _anthropic_block(piece, say.fragment)
                yield event("content_block_start", index=index, content_block=start)
                for delta in deltas:
                    yield event("content_block_delta", index=index, delta=delta)
                yield event("content_block_stop", index=index)
            case _:
                yield float(piece)
    yield event("message_delta", delta={"stop_reason": say.stop("anthropic"), "stop_sequence": None}, usage=usage)
    yield event("message_stop")


def _anthropic_block(piece: Thinking | ToolCall, fragment: int | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins, and its deltas."""
    if isinstance(piece, ToolCall):
        parts = fragments(arguments_of(piece), fragment)
        start = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
        return start, [{"type": "input_json_delta", "partial_json": part} for part in ("", *parts)]
    if piece.redacted is not None:
        return {"type": "redacted_thinking", "data": piece.redacted}, []
    deltas = [{"type": "thinking_delta", "thinking": piece.text}] if piece.text else []
    deltas.append({"type": "signature_delta", "signature": signature_of(piece)})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _anthropic_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for piece in say.pieces:
        match piece:
            case str() if content and content[-1]["type"] == "text":
                content[-1]["text"] += piece
            case str():
                content.append({"type": "text", "text": piece})
            case ToolCall():
                arguments = json.loads(arguments_of(piece))
                content.append({"type": "tool_use", "id": piece.id, "name": piece.name, "input": arguments})
            case Thinking() if piece.redacted is not None:
                content.append({"type": "redacted_thinking", "data": piece.redacted})
            case Thinking():
                content.append({"type": "thinking", "thinking": piece.text, "signature": signature_of(piece)})
    return {
        **_anthropic_frame(request), "content": content, "stop_reason": say.stop("anthropic"), "stop_sequence": None,
        "usage": _anthropic_usage(say.usage),
    }  # fmt: skip


def _anthropic_frame(request: dict[str, Any]) -> dict[str, Any]:
    return {"id": "msg_fake", "type": "message", "role": "assistant", "model": request.get("model", "")}


def _anthropic_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input or 0,
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.output or 0,
    }
