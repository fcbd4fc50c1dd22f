"""The wire form of generateContent: typed for what Google means to send, tolerant for everything else."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import msgspec

from orkas.infra.messages import StopReason, Usage
from orkas.providers.reading.calls import parse_arguments
from orkas.providers.reading.payloads import loads

__all__ = [
    "Candidate", "Chunk", "Counts", "FunctionCall", "Grown", "Part", "decode", "decode_all", "elements",
    "reason_name", "stop_reason", "tolerant", "usage_of",
]  # fmt: skip


class FunctionCall(msgspec.Struct, gc=False):
    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    partialArgs: list[dict[str, Any]] | None = None
    willContinue: bool | None = None


class Part(msgspec.Struct, gc=False):
    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: FunctionCall | None = None


class Content(msgspec.Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False):
    content: Content | None = None
    finishReason: str | int | None = None
    finishMessage: str | None = None
    index: int | None = None


class Counts(msgspec.Struct, gc=False):
    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    cachedContentTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    toolUsePromptTokenCount: int | None = None


class Chunk(msgspec.Struct, gc=False):
    candidates: list[Candidate] | None = None
    usageMetadata: Counts | None = None
    promptFeedback: dict[str, Any] | None = None
    error: Any = None


decode = msgspec.json.Decoder(Chunk).decode
decode_all = msgspec.json.Decoder(list[Chunk]).decode
_pieces = msgspec.json.Decoder(list[msgspec.Raw]).decode


def elements(body: bytes) -> list[bytes]:
    """The chunks of a whole body: the elements of a list, or the one object it is."""
    if not body.lstrip().startswith(b"["):
        return [body]
    try:
        return [bytes(piece) for piece in _pieces(body)]
    except msgspec.DecodeError:
        value = loads(body)
        return [json.dumps(item).encode() for item in value] if isinstance(value, list) else [body]


def tolerant(payload: bytes) -> Chunk | None:
    """A chunk of whatever of it has the right form; None when it is no JSON object."""
    value = loads(payload)
    if not isinstance(value, dict):
        return None
    usage = value.get("usageMetadata")
    return Chunk(
        candidates=[_candidate(c) for c in _dicts(value.get("candidates"))],
        usageMetadata=Counts(*(_int(usage.get(n)) for n in Counts.__struct_fields__))
        if isinstance(usage, dict)
        else None,
        promptFeedback=_dict(value.get("promptFeedback")),
        error=value.get("error"),
    )


def _candidate(value: dict[str, Any]) -> Candidate:
    content, reason = _dict(value.get("content")) or {}, value.get("finishReason")
    return Candidate(
        content=Content([_part(p) for p in _dicts(content.get("parts"), keep=True)]),
        finishReason=reason if isinstance(reason, str | int) and not isinstance(reason, bool) else None,
        finishMessage=_str(value.get("finishMessage")),
        index=_int(value.get("index")),
    )


def _part(value: dict[str, Any]) -> Part:
    call = _dict(value.get("functionCall"))
    return Part(
        text=_str(value.get("text")),
        thought=value.get("thought") is True,
        thoughtSignature=_str(value.get("thoughtSignature")),
        functionCall=None if call is None else _call(call),
    )


def _call(value: dict[str, Any]) -> FunctionCall:
    """``args`` that are no object are told from none at all: the call then has a part that cannot be applied."""
    args = value.get("args")
    given = parse_arguments(args) if isinstance(args, str) else args
    odd = args is not None and not isinstance(given, dict)
    partial = _dicts(value.get("partialArgs"))
    return FunctionCall(
        id=_str(value.get("id")),
        name=_str(value.get("name")),
        args=_dict(given),
        partialArgs=[*partial, {"jsonPath": None}] if odd else partial or None,
        willContinue=value.get("willContinue") is True,
    )


def _dicts(value: Any, *, keep: bool = False) -> list[dict[str, Any]]:
    """The objects of a list. ``keep``: what is none counts as an empty one, so that places stay."""
    if not isinstance(value, list):
        return []
    return [v if isinstance(v, dict) else {} for v in value if keep or isinstance(v, dict)]


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _int(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        value = int(value)  # 64-bit numbers are texts in Google's JSON
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


# ------------------------------------------------------------------ meaning

_NUMBERS = (
    "FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST",
    "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS", "IMAGE_PROHIBITED_CONTENT", "IMAGE_OTHER", "NO_IMAGE", "IMAGE_RECITATION",
    "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE",
)  # fmt: skip
"""``FinishReason`` of the v1beta interface by number: endpoints that translate gRPC send these in place of names."""

_STOPS: dict[str, StopReason] = {
    "STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter",
    "RECITATION": "content_filter", "LANGUAGE": "content_filter", "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter", "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter", "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter", "OTHER": "error", "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error", "TOO_MANY_TOOL_CALLS": "error", "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error", "IMAGE_OTHER": "error", "NO_IMAGE": "error",
}  # fmt: skip


def reason_name(reason: str | int) -> str:
    """The name of a finish reason that may be a number."""
    if isinstance(reason, str):
        return reason
    return _NUMBERS[reason] if 0 <= reason < len(_NUMBERS) else "OTHER"


def stop_reason(reason: str | int) -> StopReason:
    """What a finish reason means, calls left aside. One we do not know ends an answer like any other."""
    return _STOPS.get(reason_name(reason), "stop")


def usage_of(counts: Counts) -> Usage:
    """Google counts the cache inside the prompt, thinking outside the answer, results of its own tools beside both."""
    prompt = (counts.promptTokenCount or 0) + (counts.toolUsePromptTokenCount or 0)
    cached, thoughts = counts.cachedContentTokenCount or 0, counts.thoughtsTokenCount
    answer = (counts.candidatesTokenCount or 0) + (thoughts or 0)
    return Usage(max(prompt - cached, 0), answer, cached, 0, thoughts)


# ------------------------------------------------------------------ arguments in pieces

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_VALUES = ("numberValue", "boolValue")


class Grown:
    """Arguments that come value by value, each with its place as a JSON path (``$.steps[2].name``).

    ``broken``: a piece had no place or no value, or its place does not fit what is there. Such arguments are never
    whole.
    """

    __slots__ = ("_growing", "broken", "value")

    def __init__(self, start: dict[str, Any] | None) -> None:
        self.value: dict[str, Any] = start or {}
        self.broken = False
        self._growing = ""

    def take(self, piece: dict[str, Any]) -> None:
        path, text = piece.get("jsonPath"), piece.get("stringValue")
        steps = _steps(path) if isinstance(path, str) else None
        if steps is None:
            self.broken = True
        elif isinstance(text, str):
            self._put(steps, text, more=path == self._growing)
            self._growing = str(path) if piece.get("willContinue") is True else ""
        elif (value := next((piece[n] for n in _VALUES if n in piece), None)) is not None or "nullValue" in piece:
            self._put(steps, value, more=False)
        else:
            self.broken = True

    def _put(self, steps: list[str | int], value: Any, *, more: bool) -> None:
        place: Any = self.value
        for step, following in pairwise(steps):
            place = self._enter(place, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        old = self._enter(place, last, value)
        if not self.broken:
            place[last] = old + value if more and isinstance(old, str) else value

    def _enter(self, place: Any, step: str | int, new: Any) -> Any:
        """What stands at ``step``, put there if nothing does."""
        if isinstance(place, dict) and isinstance(step, str):
            return place.setdefault(step, new)
        if isinstance(place, list) and isinstance(step, int) and step <= len(place):
            if step == len(place):
                place.append(new)
            return place[step]
        self.broken = True
        return new


def _steps(path: str) -> list[str | int] | None:
    """``$.a[0]['b']`` as its steps; None when it is no such path."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, number, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(int(number) if number else name if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    return steps if path.startswith("$") and steps and isinstance(steps[0], str) else None
