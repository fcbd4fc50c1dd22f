"""What a script may say, before any vendor's words are put on it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orkas.infra.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, Usage, encode
from orkas.testing.rules.base import Api

__all__ = ["Piece", "Say", "arguments_of", "fragments", "plain", "signature_of"]

Piece: TypeAlias = str | float | Thinking | ToolCall
"""A text delta, a pause in seconds, a block of thinking, a tool call."""

_STOPS = {
    "anthropic": {
        "stop": "end_turn", "tool_use": "tool_use", "length": "max_tokens", "refusal": "refusal",
        "content_filter": "refusal", "pause": "pause_turn", "overflow": "model_context_window_exceeded",
    },
    "responses": {
        "stop": "completed", "tool_use": "completed", "refusal": "completed", "length": "max_output_tokens",
        "overflow": "max_output_tokens",
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


def signature_of(thinking: Thinking) -> str:
    """The signature that the fake vendor gives to a block: the script's, else one made from its text."""
    return thinking.signature or base64.b64encode(hashlib.sha256(thinking.text.encode()).digest() * 2).decode()


def plain(value: Any) -> bytes:
    """JSON as vendors write it: UTF-8, but for half surrogate pairs, which only an escape can carry."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def arguments_of(call: ToolCall) -> str:
    return call.arguments_raw if call.arguments_raw is not None else encode(call.arguments or {}).decode()


def fragments(text: str, size: int | None) -> Iterator[str]:
    step = size or len(text) or 1
    for start in range(0, len(text), step):
        yield text[start : start + step]
