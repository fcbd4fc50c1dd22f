"""Claude's own form inside Bedrock's, as InvokeModel answers: JSON events in base64, one a message.

Gateways in front of Bedrock answer so too. Each event is told in the words of Converse.
"""

from __future__ import annotations

import base64
from typing import Any

from orkas.providers.bedrock.wire import Event, tolerant
from orkas.providers.reading.payloads import loads

__all__ = ["Invoked", "converse_body"]

_COUNTS = {
    "input_tokens": "inputTokens", "output_tokens": "outputTokens", "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheWriteInputTokens",
}  # fmt: skip


class Invoked:
    """One stream. The reason and the figures come before the end; they are given with it."""

    __slots__ = ("_counts", "_reason", "error")

    def __init__(self) -> None:
        self._counts: dict[str, Any] = {}
        self._reason: Any = None
        self.error: bytes | None = None
        """An error that came in the place of an event."""

    def event(self, payload: bytes) -> Event | None:
        """What one message says; None where that is nothing to Converse."""
        value = loads(payload)
        try:
            raw = base64.b64decode(value["bytes"], validate=True)
        except (TypeError, KeyError, ValueError):
            return None
        said = loads(raw)
        if not isinstance(said, dict):
            return None
        kind = said.get("type")
        if kind == "error":
            self.error = raw
        elif kind == "message_start" and isinstance(message := said.get("message"), dict):
            self._counts |= _counts(message.get("usage"))
        elif kind == "message_delta":
            self._counts |= _counts(said.get("usage"))
            delta = said.get("delta")
            self._reason = (delta.get("stop_reason") if isinstance(delta, dict) else None) or self._reason
        elif kind == "message_stop":
            return tolerant({"stopReason": self._reason, "usage": self._counts})
        elif kind in ("content_block_start", "content_block_delta"):
            name = "content_block" if kind == "content_block_start" else "delta"
            if isinstance(block := said.get(name), dict):
                return tolerant({"contentBlockIndex": said.get("index"), **_block(block)})
        return None


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """The beginning of a block, or what is added to it, as Converse tells it."""
    match block.get("type"):
        case "text" | "text_delta":
            return {"delta": {"text": block.get("text")}}
        case "thinking" | "thinking_delta" | "signature_delta":
            return {"delta": {"reasoningContent": _reasoning(block)}}
        case "redacted_thinking":
            return {"delta": {"reasoningContent": {"redactedContent": block.get("data")}}}
        case "input_json_delta":
            return {"delta": {"toolUse": {"input": block.get("partial_json")}}}
        case "tool_use" | "server_tool_use" as kind:
            return {"start": {"toolUse": {"toolUseId": block.get("id"), "name": block.get("name"), "type": kind}}}
        case str(kind) if kind.endswith("_result"):
            return {"start": {"toolResult": block}}
    return {}


def _reasoning(block: dict[str, Any]) -> dict[str, Any]:
    return {"text": block.get("thinking"), "signature": block.get("signature")}


def _counts(usage: Any) -> dict[str, Any]:
    if not isinstance(usage, dict):
        return {}
    return {ours: usage[theirs] for theirs, ours in _COUNTS.items() if usage.get(theirs) is not None}


def converse_body(value: dict[str, Any]) -> dict[str, Any]:
    """A whole message of Claude's as a whole reply of Converse."""
    blocks = value.get("content")
    content = [_whole(block) for block in (blocks if isinstance(blocks, list) else ()) if isinstance(block, dict)]
    usage = _counts(value.get("usage"))
    return {"output": {"message": {"content": content}}, "stopReason": value.get("stop_reason"), "usage": usage}


def _whole(block: dict[str, Any]) -> dict[str, Any]:
    match block.get("type"):
        case "tool_use" | "server_tool_use" as kind:
            use = {"toolUseId": block.get("id"), "name": block.get("name"), "input": block.get("input"), "type": kind}
            return {"toolUse": use}
        case "thinking":
            return {"reasoningContent": {"reasoningText": _reasoning(block)}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block.get("data")}}
        case str(kind) if kind.endswith("_result"):
            return {"toolResult": block}
    return {"text": block.get("text")}
