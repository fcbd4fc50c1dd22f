"""A scripted reply as Bedrock Converse says it: binary messages of an event stream, or one JSON body."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from orkas.infra.messages import Thinking, ToolCall, Usage
from orkas.testing.say import Say, arguments_of, plain, signature_of

__all__ = ["bedrock_body", "bedrock_frames", "frame"]


def frame(name: str, payload: bytes, kind: str = "event") -> bytes:
    """One message of an event stream. ``kind``: ``event`` or ``exception``."""
    texts = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(_header(k, v) for k, v in texts.items())
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()


def bedrock_frames(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events, one message each."""

    def event(name: str, **fields: Any) -> bytes:
        return frame(name, plain({**fields, "p": "abcdefgh"}))

    yield event("messageStart", role="assistant")
    index, in_text = -1, False
    for piece in [*say.pieces, None]:
        if in_text and not isinstance(piece, str | float | int):
            yield event("contentBlockStop", contentBlockIndex=index)
            in_text = False
        match piece:
            case None:
                break
            case str():
                index, in_text = index + (not in_text), True
                yield event("contentBlockDelta", contentBlockIndex=index, delta={"text": piece})
            case Thinking() | ToolCall():
                index += 1
                if isinstance(piece, ToolCall):
                    start = {"toolUse": {"toolUseId": piece.id, "name": piece.name}}
                    yield event("contentBlockStart", contentBlockIndex=index, start=start)
                for delta in _deltas(piece, say.fragment):
                    yield event("contentBlockDelta", contentBlockIndex=index, delta=delta)
                yield event("contentBlockStop", contentBlockIndex=index)
            case _:
                yield float(piece)
    yield event("messageStop", stopReason=say.stop("bedrock"))
    yield event("metadata", usage=_usage(say.usage), metrics={"latencyMs": 1})


def _deltas(piece: Thinking | ToolCall, size: int | None) -> Iterator[dict[str, Any]]:
    if isinstance(piece, ToolCall):
        raw = arguments_of(piece)
        step = size or len(raw) or 1
        for at in range(0, len(raw), step):
            yield {"toolUse": {"input": raw[at : at + step]}}
    elif piece.redacted is not None:
        yield {"reasoningContent": {"redactedContent": _blob(piece.redacted)}}
    else:
        if piece.text:
            yield {"reasoningContent": {"text": piece.text}}
        yield {"reasoningContent": {"signature": signature_of(piece)}}


def bedrock_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The whole reply in one body."""
    content: list[dict[str, Any]] = []
    for piece in say.pieces:
        match piece:
            case str() if content and "text" in content[-1]:
                content[-1]["text"] += piece
            case str():
                content.append({"text": piece})
            case ToolCall():
                use = {"toolUseId": piece.id, "name": piece.name, "input": json.loads(arguments_of(piece))}
                content.append({"toolUse": use})
            case Thinking() if piece.redacted is not None:
                content.append({"reasoningContent": {"redactedContent": _blob(piece.redacted)}})
            case Thinking():
                words = {"text": piece.text, "signature": signature_of(piece)}
                content.append({"reasoningContent": {"reasoningText": words}})
    message = {"role": "assistant", "content": content}
    body = {"output": {"message": message}, "stopReason": say.stop("bedrock"), "usage": _usage(say.usage)}
    return {**body, "metrics": {"latencyMs": 1}}


def _blob(text: str) -> str:
    """As base64, which Amazon takes nothing but: the script's own where it is that."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return base64.b64encode(text.encode()).decode()
    return text


def _usage(usage: Usage) -> dict[str, int]:
    counts = {
        "inputTokens": usage.input or 0, "outputTokens": usage.output or 0,
        "cacheReadInputTokens": usage.cache_read or 0, "cacheWriteInputTokens": usage.cache_write or 0,
    }  # fmt: skip
    return {**counts, "totalTokens": sum(counts.values())}
