"""The wire form of Converse: typed for what Amazon means to send, tolerant for everything else."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.messages import StopReason, Usage

__all__ = [
    "Delta", "Event", "Start", "decode", "decode_all", "exception_status", "stop_reason", "tolerant",
    "usage_of",
]  # fmt: skip


class ToolDelta(msgspec.Struct, gc=False):
    input: str | None = None


class ReasoningDelta(msgspec.Struct, gc=False):
    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None


class Delta(msgspec.Struct, gc=False):
    text: str | None = None
    toolUse: ToolDelta | None = None
    reasoningContent: ReasoningDelta | None = None
    toolResult: list[Any] | None = None


class ToolUse(msgspec.Struct, gc=False):
    toolUseId: str | None = None
    name: str | None = None
    type: str | None = None


class Start(msgspec.Struct, gc=False):
    toolUse: ToolUse | None = None
    toolResult: dict[str, Any] | None = None


class Counts(msgspec.Struct, gc=False):
    inputTokens: int | None = None
    outputTokens: int | None = None
    cacheReadInputTokens: int | None = None
    cacheWriteInputTokens: int | None = None


class Event(msgspec.Struct, gc=False):
    """Any event of the stream: which fields there are tells what it is."""

    contentBlockIndex: int | None = None
    delta: Delta | None = None
    start: Start | None = None
    stopReason: str | None = None
    usage: Counts | None = None


decode = msgspec.json.Decoder(Event).decode
decode_all = msgspec.json.Decoder(list[Event]).decode


def tolerant(value: Any) -> Event | None:
    """An event of whatever of it has the right form; None when it is no JSON object."""
    if not isinstance(value, dict):
        return None
    delta, start, usage = (_dict(value.get(name)) for name in ("delta", "start", "usage"))
    return Event(
        contentBlockIndex=_int(value.get("contentBlockIndex")),
        delta=None if delta is None else _delta(delta),
        start=None if start is None else _start(start),
        stopReason=_str(value.get("stopReason")),
        usage=None if usage is None else Counts(*(_int(usage.get(n)) for n in Counts.__struct_fields__)),
    )


def _delta(value: dict[str, Any]) -> Delta:
    tool, reasoning, result = _dict(value.get("toolUse")), _dict(value.get("reasoningContent")), value.get("toolResult")
    return Delta(
        _str(value.get("text")),
        None if tool is None else ToolDelta(_str(tool.get("input"))),
        None
        if reasoning is None
        else ReasoningDelta(*(_str(reasoning.get(n)) for n in ReasoningDelta.__struct_fields__)),
        result if isinstance(result, list) else None,
    )


def _start(value: dict[str, Any]) -> Start:
    tool = _dict(value.get("toolUse"))
    named = None if tool is None else ToolUse(*(_str(tool.get(n)) for n in ToolUse.__struct_fields__))
    return Start(named, _dict(value.get("toolResult")))


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


_STOPS: dict[str, StopReason] = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_use", "max_tokens": "length",
    "guardrail_intervened": "content_filter", "content_filtered": "content_filter", "refusal": "refusal",
    "model_context_window_exceeded": "overflow", "malformed_model_output": "error", "malformed_tool_use": "error",
}  # fmt: skip


def stop_reason(reason: str) -> StopReason:
    """What a stop reason means, calls left aside. One we do not know ends an answer like any other."""
    return _STOPS.get(reason, "stop")


_EXCEPTIONS = {
    "validationexception": 400, "accessdeniedexception": 403, "resourcenotfoundexception": 404,
    "modeltimeoutexception": 408, "modelerrorexception": 424, "modelstreamerrorexception": 424,
    "throttlingexception": 429, "modelnotreadyexception": 429, "servicequotaexceededexception": 400,
    "internalserverexception": 500, "serviceunavailableexception": 503,
}  # fmt: skip


def exception_status(name: str) -> int:
    """The HTTP status that an exception has where it comes before a stream. Source: Amazon's page on Converse."""
    return _EXCEPTIONS.get(name.lower(), 500)


def usage_of(counts: Counts) -> Usage:
    """Amazon counts what was read from and written to the cache beside the input."""
    return Usage(
        counts.inputTokens or 0, counts.outputTokens or 0,
        counts.cacheReadInputTokens or 0, counts.cacheWriteInputTokens or 0,
    )  # fmt: skip
