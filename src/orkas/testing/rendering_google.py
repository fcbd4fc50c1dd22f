"""A scripted reply in the words of generateContent."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall, Usage, encode
from orkas.testing.rules.google import generation
from orkas.testing.say import Say, arguments_of, plain

__all__ = ["google_body", "google_events", "google_list"]


def google_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """One event for each piece, then one with the finish reason and the usage."""
    for chunk in _chunks(say, request):
        yield chunk if isinstance(chunk, float) else b"data: %s\r\n\r\n" % plain(chunk)


def google_list(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The same as one JSON list, which is what a stream is without ``alt=sse``."""
    begun = False
    for chunk in _chunks(say, request):
        if isinstance(chunk, float):
            yield chunk
        else:
            yield (b",\r\n" if begun else b"[") + plain(chunk)
            begun = True
    yield b"]"


def google_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The whole reply in one body: texts joined where no signature stands between them."""
    parts: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    for chunk in _chunks(say, request):
        if isinstance(chunk, float):
            continue
        last = chunk
        for part in chunk["candidates"][0]["content"]["parts"]:
            before = parts[-1] if parts else {}
            if "text" in part and part.keys() == before.keys() and "thoughtSignature" not in part:
                before["text"] += part["text"]
            elif part != {"text": ""}:
                parts.append(dict(part))
    last["candidates"][0]["content"]["parts"] = parts
    return last


def _chunks(say: Say, request: dict[str, Any]) -> Iterator[dict[str, Any] | float]:
    model = str(request.get("model", ""))
    frame = {"modelVersion": model, "responseId": "fake"}
    reason, parts = say.stop("google"), _parts(say, model)
    for part in parts:
        if isinstance(part, float):
            yield part
        elif part is None:
            reason = "MALFORMED_FUNCTION_CALL"
        else:
            yield {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], **frame}
    last = {"content": {"role": "model", "parts": [_ending(say, model)]}, "finishReason": reason, "index": 0}
    yield {"candidates": [last], "usageMetadata": _usage(say.usage), **frame}


def _parts(say: Say, model: str) -> list[dict[str, Any] | float | None]:
    """The parts; None where a call's arguments are no object, which has no form on this wire."""
    out: list[dict[str, Any] | float | None] = []
    unsigned = _thinks(say, model)
    for piece in say.pieces:
        match piece:
            case str():
                out.append({"text": piece})
            case Thinking():
                out.append({"text": piece.text, "thought": True})
            case ToolCall():
                part = _call(piece, model)
                if part is not None and (piece.signature or unsigned):  # the first call of a group carries it
                    part["thoughtSignature"] = piece.signature or _signed(say)
                unsigned = unsigned and part is None
                out.append(part)
            case _:
                out.append(float(piece))
    return out


def _call(call: ToolCall, model: str) -> dict[str, Any] | None:
    try:
        args = json.loads(arguments_of(call) or "{}")
    except ValueError:
        return None
    if not isinstance(args, dict):
        return None
    shown = {"name": call.name, "args": args}
    return {"functionCall": {**shown, "id": call.id} if generation(model) >= (3, 0) else shown}


def _ending(say: Say, model: str) -> dict[str, Any]:
    """The last part: empty, with the signature of an answer in words."""
    calls = any(isinstance(p, ToolCall) for p in say.pieces)
    return {"text": ""} if calls or not _thinks(say, model) else {"text": "", "thoughtSignature": _signed(say)}


def _thinks(say: Say, model: str) -> bool:
    return generation(model) >= (3, 0) or any(isinstance(p, Thinking) for p in say.pieces)


def _signed(say: Say) -> str:
    """A signature that stands for what was said: the script's own where a block of thinking has one."""
    own = next((p.signature for p in say.pieces if isinstance(p, Thinking) and p.signature), None)
    if own:
        return own
    said = repr([p if isinstance(p, str) else encode(p) for p in say.pieces if not isinstance(p, float | int)])
    return base64.b64encode(hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest() * 2).decode()


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write))
    output, thoughts = usage.output or 0, usage.reasoning or 0
    counts = {
        "promptTokenCount": prompt, "candidatesTokenCount": output - thoughts, "totalTokenCount": prompt + output,
        "cachedContentTokenCount": usage.cache_read, "thoughtsTokenCount": usage.reasoning,
    }  # fmt: skip
    return {name: count for name, count in counts.items() if count is not None}
