"""A scripted reply in the words of a vendor: events of a stream, or one JSON body."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orkas.infra.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, Usage, encode
from orkas.testing.rules.base import Api

__all__ = ["Piece", "Say", "as_json", "as_stream", "plain", "signature_of"]

Piece: TypeAlias = str | float | Thinking | ToolCall
"""A text delta, a pause in seconds, a block of thinking, a tool call."""

_STOPS = {
    "anthropic": {
        "stop": "end_turn", "tool_use": "tool_use", "length": "max_tokens", "refusal": "refusal",
        "content_filter": "refusal", "pause": "pause_turn", "overflow": "model_context_window_exceeded",
    },
    "openai": {"stop": "stop", "tool_use": "tool_calls", "length": "length", "content_filter": "content_filter"},
    "google": {
        "stop": "STOP", "tool_use": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "SAFETY",
        "error": "OTHER",
    },
    "ollama": {"tool_use": "stop"},
    "bedrock": {
        "stop": "end_turn", "length": "max_tokens", "content_filter": "content_filtered", "refusal": "content_filtered",
        "overflow": "model_context_window_exceeded",
    },
    "cohere": {
        "stop": "COMPLETE", "tool_use": "TOOL_CALL", "length": "MAX_TOKENS", "content_filter": "ERROR_TOXIC",
        "error": "ERROR",
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Say:
    """What the model says: text, thinking and tool calls in this order.

    ``fragment``: characters of a call's arguments per delta, None for all at once. A call's ``arguments_raw`` goes out
    as it is, broken JSON included. ``stop_reason``: ours, or a vendor's own word; empty: what the content means.
    """

    pieces: Sequence[Piece]
    fragment: int | None = 24
    stop_reason: str = ""
    usage: Usage = Usage(input=10, output=5)  # noqa: RUF009 - never changed

    @classmethod
    def message(cls, message: AssistantMessage) -> Say:
        """The reply that this message came from."""
        pieces = [b.text if isinstance(b, Text) else b for b in message.content if not isinstance(b, Opaque)]
        return cls([p for p in pieces if isinstance(p, str | Thinking | ToolCall)], stop_reason=message.stop_reason)

    def stop(self, api: Api) -> str:
        calls = any(isinstance(p, ToolCall) for p in self.pieces)
        reason = self.stop_reason or ("tool_use" if calls else "stop")
        return _STOPS[api].get(reason, reason)


def as_stream(say: Say, api: Api, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events, one each, with the script's pauses in seconds between them."""
    if api == "google":
        from orkas.testing.google_rendering import google_events

        return google_events(say, request)
    if api == "ollama":
        from orkas.testing.ollama_rendering import ollama_lines

        return ollama_lines(say, request)
    if api == "bedrock":
        from orkas.testing.bedrock_rendering import bedrock_frames

        return bedrock_frames(say)
    if api == "cohere":
        from orkas.testing.cohere_rendering import cohere_events

        return cohere_events(say)
    return _anthropic_events(say, request) if api == "anthropic" else _openai_events(say, request)


def as_json(say: Say, api: Api, request: dict[str, Any]) -> bytes:
    if api == "google":
        from orkas.testing.google_rendering import google_body

        return google_body(say, request)
    if api == "ollama":
        from orkas.testing.ollama_rendering import ollama_body

        return ollama_body(say, request)
    if api == "bedrock":
        from orkas.testing.bedrock_rendering import bedrock_body

        return bedrock_body(say)
    if api == "cohere":
        from orkas.testing.cohere_rendering import cohere_body

        return cohere_body(say)
    return plain(_anthropic_body(say, request) if api == "anthropic" else _openai_body(say, request))


def signature_of(thinking: Thinking) -> str:
    """The signature that the fake vendor gives to a block: the script's, else one made from its text."""
    return thinking.signature or base64.b64encode(hashlib.sha256(thinking.text.encode()).digest() * 2).decode()


def plain(value: Any) -> bytes:
    """JSON as vendors write it: UTF-8, but for half surrogate pairs, which only an escape can carry."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _arguments(call: ToolCall) -> str:
    return call.arguments_raw if call.arguments_raw is not None else encode(call.arguments or {}).decode()


def _fragments(text: str, size: int | None) -> Iterator[str]:
    step = size or len(text) or 1
    for start in range(0, len(text), step):
        yield text[start : start + step]


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
                for part in _fragments(_arguments(piece), say.fragment):
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
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _arguments(c)}} for c in calls
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
        parts = _fragments(_arguments(piece), fragment)
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
                arguments = json.loads(_arguments(piece))
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
