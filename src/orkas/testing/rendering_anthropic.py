"""A scripted reply as Anthropic Messages: blocks, their events, and one JSON body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall, Usage
from orkas.testing.say import Say, arguments_of, fragments, plain, signature_of

__all__ = ["anthropic_body", "anthropic_events"]


def anthropic_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events of a stream, one each, with the script's pauses between them."""
    def event(kind: str, **fields: Any) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), plain({"type": kind, **fields}))

    message = {**_frame(request), "content": [], "stop_reason": None, "stop_sequence": None}
    usage = _usage(say.usage)
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
                start, deltas = _block(piece, say.fragment)
                yield event("content_block_start", index=index, content_block=start)
                for delta in deltas:
                    yield event("content_block_delta", index=index, delta=delta)
                yield event("content_block_stop", index=index)
            case _:
                yield float(piece)
    yield event("message_delta", delta={"stop_reason": say.stop("anthropic"), "stop_sequence": None}, usage=usage)
    yield event("message_stop")


def _block(piece: Thinking | ToolCall, fragment: int | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
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


def anthropic_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The same as one JSON body."""
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
        **_frame(request), "content": content, "stop_reason": say.stop("anthropic"), "stop_sequence": None,
        "usage": _usage(say.usage),
    }  # fmt: skip


def _frame(request: dict[str, Any]) -> dict[str, Any]:
    return {"id": "msg_fake", "type": "message", "role": "assistant", "model": request.get("model", "")}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input or 0,
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.output or 0,
    }
