"""Anthropic Messages."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.errors import ProviderError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Opaque,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
    new_id,
    now,
    scrub,
    well_formed,
)  # fmt: skip
from orkas.providers.anthropic_request import AnthropicRequests
from orkas.providers.base import CompletionParams, Part, Reader, Request, TextPart, ThinkingPart
from orkas.providers.body import Body, broken_off, is_utf8, whole_pairs
from orkas.providers.calls import new_call_id, parse_arguments, settle, take_back
from orkas.providers.payloads import decoded, loads, odd
from orkas.providers.vendors import Quirks

__all__ = ["Anthropic"]

API = "anthropic_messages"


class Anthropic:
    """The dialect. ``quirks`` are the row's switches."""

    api = API

    def __init__(self, vendor: str = "anthropic", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = AnthropicRequests(vendor, quirks or Quirks(ids="anthropic"), key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return MessagesReader(model)


# ------------------------------------------------------------------ wire types, only what is read


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_all = msgspec.json.Decoder(list[_Event]).decode

_STOPS: dict[str, StopReason] = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_use", "max_tokens": "length", "refusal": "refusal",
    "pause_turn": "pause", "compaction": "pause", "model_context_window_exceeded": "overflow",
}  # fmt: skip


class _Open:
    """One content block under construction. Texts are kept in a list and joined once."""

    __slots__ = ("held", "kind", "pieces", "raw", "signature", "stopped", "unsure")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.kind = _str(raw.get("type"))
        self.stopped = False
        self.unsure = False  # bytes of it were damaged on the way
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.held = ""  # half of a surrogate pair whose other half is in the next delta


class MessagesReader:
    """Reads one reply, streamed or whole."""

    def __init__(self, model: str) -> None:
        self.done = False
        self.brisk = False
        self._begun = False
        self._calling = False  # a call is being written: its arguments come whole, after a silence
        self._model = model
        self._vendor = model.partition("/")[0]
        self._body = Body()
        self._blocks: dict[int, _Open] = {}
        self._earlier: list[_Open] = []  # whose number another one has taken
        self._stop: str | None = None
        self._details: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._streamed = True
        self._error: ProviderError | None = None

    # -------------------------------------------------------------- feeding

    def feed(self, data: bytes) -> list[Part]:
        payloads = self._body.feed(data)
        if self.done or (not payloads and data):
            return []
        parts: list[Part] = []
        if payloads:
            self._read(payloads, parts, last=not data)
            self._begun = self._begun or bool(parts)
            self.brisk = self._begun and not self._calling
        if not data and self._body.whole is not None:
            self._read_whole(self._body.whole, parts)
        return parts

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        events = decoded(payloads, _decode, _decode_all)
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
        try:
            event = odd(payload, _decode, _tolerant, vendor=self._vendor, last=last)
        except ProviderError as error:
            self._error, self.done = error, True
            return
        if event is None:
            return
        self._take(event, payload, parts)
        block = self._blocks.get(event.index)
        if block is not None and event.type.startswith("content_block") and not is_utf8(payload):
            block.unsure = True

    def _take(self, event: _Event, payload: bytes, parts: list[Part]) -> None:
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
            for index, raw in enumerate(_dicts(message.get("content"))):
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
            self._say(block, _str(block.raw.get("text")), TextPart, parts)
        elif kind == "thinking":
            self._say(block, _str(block.raw.get("thinking")), ThinkingPart, parts)
            if signature := _str(block.raw.get("signature")):
                block.signature.append(signature)

    def _delta(self, event: _Event, payload: bytes, parts: list[Part]) -> None:
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

    def _end(self, event: _Event, payload: bytes) -> None:
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
        for index, raw in enumerate(_dicts(value["content"])):
            self._blocks[index] = block = _Open(raw)
            block.stopped, block.unsure = True, damaged
            self._begin(block, parts)
        self._stop = _str(value.get("stop_reason")) or "end_turn"
        self._details.update({k: v for k, v in value.items() if k in _DETAILS and v is not None})
        self.done = True

    def _fail(self, payload: bytes) -> None:
        """The stream carried an error. It is raised at the end, after the parts that came before it."""
        from orkas.providers.errors import classify  # only a failure needs the table

        if self._error is None:
            self._error = self._body.not_a_reply(self._vendor) or classify(self._vendor, 200, {}, payload)
        self.done = True

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        if self._error is not None:
            raise self._error
        if not self.done or (self._stop is None and not self._spoken()):
            raise broken_off(self._vendor)
        return self._message()

    def _spoken(self) -> bool:
        """Without a stop reason the end marker is the end of an answer in words: it vouches for no call, and it makes
        no answer out of nothing."""
        kinds = {b.kind for b in (*self._earlier, *self._blocks.values())}
        return "text" in kinds and "tool_use" not in kinds

    def partial(self) -> AssistantMessage:
        return self._message("error")

    def _message(self, stop_reason: StopReason | None = None) -> AssistantMessage:
        content = [self._block(b) for b in (*self._earlier, *(self._blocks[i] for i in sorted(self._blocks)))]
        calls = [b for b in content if type(b) is ToolCall]
        reason = stop_reason or _STOPS.get(self._stop or "", "stop")
        if reason in ("stop", "tool_use"):
            reason = "tool_use" if calls else "stop"
        settle(calls, reason)
        vendor = scrub(self._details) or None
        if vendor and reason == "refusal" and (why := _explained(vendor.get("stop_details"))):
            vendor["refusal"] = why
        usage = _usage(self._usage) if self._usage else None
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
            return Thinking(redacted=_str(raw.get("data")), vendor=_rest(raw, "type", "data"))
        if kind == "tool_use":
            return self._tool_use(block, text)
        if text:
            raw = {**raw, "input": parse_arguments(text) or {}}
        return Opaque(kind=kind or "unknown", vendor=scrub(raw))

    def _tool_use(self, block: _Open, text: str) -> ToolCall:
        raw, given = block.raw, block.raw.get("input")
        whole = isinstance(given, dict) and not text and (bool(given) or not self._streamed)
        call = ToolCall(
            id=well_formed(_str(raw.get("id"))) or new_call_id(),
            name=well_formed(_str(raw.get("name"))),
            arguments=scrub(given) if whole else parse_arguments(text),
            arguments_raw=None if whole else text,
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
    return _str(details.get("explanation")) or _str(details.get("category")).replace("_", " ")


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


def _usage(said: dict[str, Any]) -> Usage:
    """Anthropic counts the cache outside the input and thinking inside the output, without a share of its own."""
    return Usage(
        _int(said.get("input_tokens")),
        _int(said.get("output_tokens")),
        _int(said.get("cache_read_input_tokens")) or 0,
        _int(said.get("cache_creation_input_tokens")) or 0,
    )


def _tolerant(payload: bytes) -> _Event | None:
    """An event of whatever of it has the right form; None when it is no JSON object."""
    value = loads(payload)
    if not isinstance(value, dict):
        return None
    delta = value.get("delta")
    names = ("text", "partial_json", "thinking", "signature", "stop_reason")
    return _Event(
        type=_str(value.get("type")),
        index=_int(value.get("index")) or 0,
        delta=_Delta(
            _str(delta.get("type")), *(d if isinstance(d := delta.get(n), str) else None for n in names)
        )
        if isinstance(delta, dict)
        else None,
        content_block=_dict(value.get("content_block")),
        message=_dict(value.get("message")),
        usage=_dict(value.get("usage")),
        error=value.get("error"),
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
