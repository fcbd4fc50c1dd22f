"""Replies in the form of Anthropic Messages, read as they come."""

from __future__ import annotations

from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Opaque,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    new_id,
    now,
    scrub,
    well_formed,
)  # fmt: skip
from orkas.providers.anthropic.request import API
from orkas.providers.anthropic.wire import Event, decode, decode_all, dicts, str_of, tolerant, usage_of
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.reading.body import is_utf8, whole_pairs
from orkas.providers.reading.calls import given, new_call_id, parse_arguments, settle, take_back, tell_apart
from orkas.providers.reading.payloads import decoded, loads
from orkas.providers.reading.reply import EventReply

__all__ = ["MessagesReader"]


_STOPS: dict[str, StopReason] = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_use", "max_tokens": "length", "refusal": "refusal",
    "pause_turn": "pause", "compaction": "pause", "model_context_window_exceeded": "overflow",
}  # fmt: skip


class _Open:
    """One content block under construction. Texts are kept in a list and joined once."""

    __slots__ = ("held", "kind", "pieces", "raw", "signature", "stopped", "unsure")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.kind = str_of(raw.get("type"))
        self.stopped = False
        self.unsure = False  # bytes of it were damaged on the way
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.held = ""  # half of a surrogate pair whose other half is in the next delta


class MessagesReader(EventReply):
    """Reads one reply, streamed or whole."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._begun = False
        self._calling = False  # a call is being written: its arguments come whole, after a silence
        self._blocks: dict[int, _Open] = {}
        self._earlier: list[_Open] = []  # whose number another one has taken
        self._stop: str | None = None
        self._details: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._streamed = True

    # -------------------------------------------------------------- feeding

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        self._events(payloads, parts, last=last)
        self._begun = self._begun or bool(parts)
        self.brisk = self._begun and not self._calling

    def _events(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        events = decoded(payloads, decode, decode_all)
        if events is None:
            for payload in payloads:
                if not self.done:
                    self._careful(payload, parts, last=last)
            return
        blocks = self._blocks
        for event, payload in zip(events, payloads, strict=True):
            delta = event.delta
            block = blocks.get(event.index)
            if delta is not None and delta.type == "text_delta" and block is not None and block.kind == "text":
                if text := delta.text:
                    if block.held:
                        self._say(block, text, TextPart, parts)
                    else:
                        block.pieces.append(text)
                        parts.append(TextPart(text))
            else:
                self._take(event, payload, parts)
                if self.done:
                    return

    def _careful(self, payload: bytes, parts: list[Part], *, last: bool) -> None:
        """Odd types, lone surrogates, garbage."""
        event = self._odd(payload, decode, tolerant, last=last)
        if event is None:
            return
        self._take(event, payload, parts)
        block = self._blocks.get(event.index)
        if block is not None and event.type.startswith("content_block") and not is_utf8(payload):
            block.unsure = True

    def _take(self, event: Event, payload: bytes, parts: list[Part]) -> None:
        kind = event.type
        if kind == "content_block_delta":
            self._delta(event, payload, parts)
        elif kind == "content_block_start":
            block = self._open(event.index, event.content_block or {})
            self._calling = block.kind not in _SPOKEN
            self._begin(block, parts)
        elif kind == "content_block_stop":
            if (stopped := self._blocks.get(event.index)) is not None:
                stopped.stopped = True
                self._calling = False
        elif kind == "message_start":
            message = event.message or {}
            self._count(message.get("usage"))
            for index, raw in enumerate(dicts(message.get("content"))):
                self._blocks[index] = whole = _Open(raw)
                whole.stopped = True
        elif kind == "message_delta":
            self._end(event, payload)
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or event.error is not None:
            self._fail(payload)

    def _open(self, index: int, raw: dict[str, Any]) -> _Open:
        """The block that begins. A number that is used again, or a start that comes behind what it starts, loses no
        words, and makes no call of a part of its arguments."""
        block, old = _Open(raw), self._blocks.get(index)
        if old is not None and (old.pieces or old.signature):
            if old.kind == block.kind and not old.stopped and block.kind in _SPOKEN:
                old.raw, block = raw, old
            elif old.stopped or old.kind in _SPOKEN:
                self._earlier.append(old)
            else:
                block.unsure = True
        self._blocks[index] = block
        return block

    def _begin(self, block: _Open, parts: list[Part]) -> None:
        kind = block.kind
        if kind == "text":
            self._say(block, str_of(block.raw.get("text")), TextPart, parts)
        elif kind == "thinking":
            self._say(block, str_of(block.raw.get("thinking")), ThinkingPart, parts)
            if signature := str_of(block.raw.get("signature")):
                block.signature.append(signature)

    def _delta(self, event: Event, payload: bytes, parts: list[Part]) -> None:
        block, delta = self._blocks.get(event.index), event.delta
        if delta is None:
            return
        if block is None or not block.raw:
            block = self._blocks[event.index] = _Open(_IMPLIED.get(delta.type, {}).copy())
        kind = block.kind
        if delta.type == "input_json_delta":
            if kind not in _SPOKEN:  # calls, and whatever a vendor's own tools are given
                block.pieces.append(delta.partial_json or "")
        elif kind != _FITS.get(delta.type):  # never shown as what it is not, never a part of a call
            if delta.type not in _FITS or kind not in (*_SPOKEN, "tool_use"):
                _merge_unknown(block.raw, payload)
        elif delta.type == "text_delta":
            self._say(block, delta.text or "", TextPart, parts)
        elif delta.type == "thinking_delta":
            self._say(block, delta.thinking or "", ThinkingPart, parts)
        else:
            block.signature.append(delta.signature or "")

    def _say(self, block: _Open, text: str, part: type[TextPart] | type[ThinkingPart], parts: list[Part]) -> None:
        text, block.held = whole_pairs(block.held + text)
        if text:
            block.pieces.append(text)
            parts.append(part(text))

    def _end(self, event: Event, payload: bytes) -> None:
        self._count(event.usage)
        if event.delta is not None and event.delta.stop_reason is not None:
            self._stop = event.delta.stop_reason
        value = loads(payload)
        delta = value.get("delta") if isinstance(value, dict) else None
        if isinstance(delta, dict):
            self._details.update({k: v for k, v in delta.items() if k in _DETAILS and v is not None})

    def _count(self, usage: object) -> None:
        """Usage is cumulative and may come in parts: the last figure of each counts."""
        if isinstance(usage, dict):
            self._usage.update({k: v for k, v in usage.items() if v is not None})

    def _read_whole(self, body: bytes, parts: list[Part]) -> None:
        value = loads(body)
        if not isinstance(value, dict) or not isinstance(value.get("content"), list) or value.get("error") is not None:
            self._fail(body)
            return
        self._streamed, damaged = False, not is_utf8(body)
        self._count(value.get("usage"))
        for index, raw in enumerate(dicts(value["content"])):
            self._blocks[index] = block = _Open(raw)
            block.stopped, block.unsure = True, damaged
            self._begin(block, parts)
        self._stop = str_of(value.get("stop_reason")) or "end_turn"
        self._details.update({k: v for k, v in value.items() if k in _DETAILS and v is not None})
        self.done = True

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        self._end_of((self.done and (self._stop is not None or self._spoken())) or None)
        return self._message()

    def _spoken(self) -> bool:
        """Without a stop reason the end marker is the end of an answer in words: it vouches for no call, and it makes
        no answer out of nothing."""
        kinds = {b.kind for b in (*self._earlier, *self._blocks.values())}
        return "text" in kinds and "tool_use" not in kinds

    def _message(self, reason: StopReason | None = None) -> AssistantMessage:
        content = [self._block(b) for b in (*self._earlier, *(self._blocks[i] for i in sorted(self._blocks)))]
        calls = [b for b in content if type(b) is ToolCall]
        reason = reason or _STOPS.get(self._stop or "", "stop")
        if reason in ("stop", "tool_use"):
            reason = "tool_use" if calls else "stop"
        tell_apart(calls)
        settle(calls, reason)
        vendor = scrub(self._details) or None
        if vendor and reason == "refusal" and (why := _explained(vendor.get("stop_details"))):
            vendor["refusal"] = why
        usage = usage_of(self._usage) if self._usage else None
        return AssistantMessage(content, self._model, API, reason, usage, id=new_id(), ts=now(), vendor=vendor)

    def _block(self, block: _Open) -> Block:
        raw, text = block.raw, well_formed("".join(block.pieces) + block.held)
        kind = block.kind
        if kind == "text":
            return Text(text=text, vendor=_rest(raw, "type", "text"))
        if kind == "thinking":
            rest = _rest(raw, "type", "thinking", "signature")
            return Thinking(text=text, signature="".join(block.signature) or None, vendor=rest)
        if kind == "redacted_thinking":
            return Thinking(redacted=str_of(raw.get("data")), vendor=_rest(raw, "type", "data"))
        if kind == "tool_use":
            return self._tool_use(block, text)
        if text:
            raw = {**raw, "input": parse_arguments(text) or {}}
        return Opaque(kind=kind or "unknown", vendor=scrub(raw))

    def _tool_use(self, block: _Open, text: str) -> ToolCall:
        raw, held = block.raw, block.raw.get("input")
        arguments = parse_arguments(text)
        written: str | None = text
        if isinstance(held, dict) and not text and (held or not self._streamed):
            arguments, written = given(held)
        call = ToolCall(
            id=well_formed(str_of(raw.get("id"))) or new_call_id(),
            name=well_formed(str_of(raw.get("name"))),
            arguments=arguments,
            arguments_raw=written,
            vendor=_rest(raw, "type", "id", "name", "input"),
        )
        if block.unsure or not block.stopped:
            take_back(call)
        return call


_DETAILS = ("stop_sequence", "stop_details", "container")


def _explained(details: object) -> str:
    """Why the model refused, as far as the vendor says."""
    if not isinstance(details, dict):
        return ""
    why, kind = details.get("explanation"), details.get("category")
    if isinstance(why, str) and why:
        return why
    return kind.replace("_", " ") if isinstance(kind, str) else ""


_IMPLIED: dict[str, dict[str, Any]] = {
    "text_delta": {"type": "text"},
    "thinking_delta": {"type": "thinking"},
    "input_json_delta": {"type": "unknown"},
}
"""The block that a delta belongs to, when its start was never seen."""
_FITS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
"""The kind of block that a delta may add to."""
_SPOKEN = ("text", "thinking", "redacted_thinking")


def _merge_unknown(raw: dict[str, Any], payload: bytes) -> None:
    """A delta of a kind we do not know, applied as its like are: texts grow, lists grow, the rest is replaced."""
    value = loads(payload)
    delta = value.get("delta") if isinstance(value, dict) else None
    if not isinstance(delta, dict):
        return
    for key, new in delta.items():
        if key == "type":
            continue
        if key == "citation":
            raw["citations"] = [*(raw.get("citations") or []), new]
        elif isinstance(new, str) and isinstance(old := raw.get(key), str):
            raw[key] = old + new
        elif new is not None:
            raw[key] = new


def _rest(raw: dict[str, Any], *known: str) -> dict[str, Any] | None:
    """What the vendor put into a block besides its known fields: it goes back as it came."""
    rest = {k: v for k, v in raw.items() if k not in known and v is not None}
    return scrub(rest) if rest else None
