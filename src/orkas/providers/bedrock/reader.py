"""Replies in the form of Bedrock Converse, read as they come."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Opaque,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    encode,
    new_id,
    now,
    scrub,
    well_formed,
)  # fmt: skip
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.bedrock.eventstream import Frame, Frames
from orkas.providers.bedrock.invoke import Invoked, converse_body
from orkas.providers.bedrock.request import API
from orkas.providers.bedrock.wire import (
    Delta,
    Event,
    Start,
    decode,
    decode_all,
    exception_status,
    stop_reason,
    tolerant,
    usage_of,
)
from orkas.providers.reading.body import Body, broken_off, is_utf8, whole_pairs
from orkas.providers.reading.calls import given, new_call_id, parse_arguments, settled, spelled, take_back
from orkas.providers.reading.payloads import loads
from orkas.providers.reading.reply import Reply

__all__ = ["ConverseReader"]


class _Open:
    """One block under construction. Texts are kept in pieces and joined once."""

    __slots__ = ("damaged", "held", "id", "input", "kind", "name", "pieces", "raw", "redacted", "signature")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.held = ""  # half of a surrogate pair whose other half is in the next delta
        self.signature = ""
        self.redacted = ""
        self.id = ""
        self.name = ""
        self.input: Any = None
        """Arguments that came whole."""
        self.damaged = False
        self.raw: dict[str, Any] = {}


class ConverseReader(Reply):
    """Reads one reply: an event stream, or one JSON body."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._frames: Frames | None = None
        self._body: Body | None = None
        self._blocks: dict[int, _Open] = {}
        self._order: list[_Open] = []
        self._invoked: Invoked | None = None
        self._stop: str | None = None
        self._usage: Any = None
        self._unsure = False  # what is being read is not UTF-8: no call in it may run

    # -------------------------------------------------------------- feeding

    def feed(self, data: bytes) -> list[Part]:
        parts: list[Part] = []
        if self.done:
            return parts
        if self._frames is None and self._body is None and data:
            if data[0] > 1:  # a message's length begins with a byte of nothing; text does not
                self._body = Body()
            else:
                self._frames = Frames()
        if self._frames is not None:
            self._read(self._frames.feed(data), parts)
            if self._frames.damaged and not self.done:
                self._fail_with(broken_off(self._vendor, "a part of the reply arrived damaged"))
        elif self._body is not None:
            self._body.feed(data)
            if not data:
                self._read_whole(self._body, parts)
        elif not data:
            self._fail_with(broken_off(self._vendor, "the reply is empty"))
        return parts

    def _read(self, frames: list[Frame], parts: list[Part]) -> None:
        events: list[Event] = []
        if len(frames) > 1 and all(frame.kind == "event" and frame.name != "chunk" for frame in frames):
            try:
                events = decode_all(b"[" + b",".join([frame.payload for frame in frames]) + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                events = []
        careful = len(events) != len(frames)
        for i, frame in enumerate(frames):
            if self.done:
                return
            if frame.kind != "event":
                self._exception(frame)
            elif frame.name == "chunk":
                self._chunk(frame.payload, parts)
            elif not careful:
                self._take(events[i], parts)
            else:
                self._careful(frame.payload, parts)

    def _chunk(self, payload: bytes, parts: list[Part]) -> None:
        """An event in Claude's own form."""
        invoked = self._invoked = self._invoked or Invoked()
        if (event := invoked.event(payload)) is not None:
            self._take(event, parts)
        if invoked.error is not None:
            self._fail(invoked.error)

    def _careful(self, payload: bytes, parts: list[Part]) -> None:
        """One event by itself; odd types, lone surrogates, garbage."""
        try:
            event = decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = tolerant(loads(payload))
            if found is None:  # of a kind to come
                return
            event = found
            self._unsure = not is_utf8(payload)
        self._take(event, parts)
        self._unsure = False

    def _take(self, event: Event, parts: list[Part]) -> None:
        delta = event.delta
        if delta is not None:
            block = self._blocks.get(event.contentBlockIndex or 0)
            text = delta.text
            if text and block is not None and block.kind == "text" and not block.held and text.isascii():
                block.pieces.append(text)
                parts.append(TextPart(text))
                return
            self._grow(event.contentBlockIndex or 0, delta, parts)
        elif event.start is not None:
            self._start(event.contentBlockIndex or 0, event.start)
        if event.stopReason is not None:
            self._stop = event.stopReason
        if event.usage is not None:
            self._usage = event.usage
            self.done = self._stop is not None  # the figures come last

    def _start(self, index: int, start: Start) -> None:
        self.brisk = False
        if (use := start.toolUse) is not None:
            old = self._blocks.get(index)
            calling = old is not None and old.kind in ("call", "server")
            if old is not None and calling and old.id and old.id == use.toolUseId:  # said twice
                old.damaged = old.damaged or bool(old.pieces)
                return
            block = self._open(index, "call" if not use.type or use.type == "tool_use" else "server")
            block.damaged = calling and old is not None and not old.name  # part of it came before its start
            block.id, block.name = use.toolUseId or "", use.name or ""
            block.raw = {"type": use.type}
        elif start.toolResult is not None:
            block = self._open(index, "result")
            block.raw = {**start.toolResult, "content": []}

    def _grow(self, index: int, delta: Delta, parts: list[Part]) -> None:
        if delta.text is not None:
            self._say(self._block(index, "text"), delta.text, TextPart, parts)
        elif (reasoning := delta.reasoningContent) is not None:
            block = self._block(index, "thinking")
            if reasoning.text:
                self._say(block, reasoning.text, ThinkingPart, parts)
            block.signature += reasoning.signature or ""
            block.redacted += reasoning.redactedContent or ""
        elif delta.toolUse is not None:
            block = self._block(index, "call", "server")
            block.pieces.append(delta.toolUse.input or "")
            block.damaged = block.damaged or self._unsure or not block.name
        elif delta.toolResult is not None:
            self._block(index, "result").raw.setdefault("content", []).extend(delta.toolResult)

    def _block(self, index: int, *kinds: str) -> _Open:
        """The block with this number. One of another kind ends where this one begins."""
        block = self._blocks.get(index)
        return block if block is not None and block.kind in kinds else self._open(index, kinds[0])

    def _open(self, index: int, kind: str) -> _Open:
        block = self._blocks[index] = _Open(kind)
        self._order.append(block)
        return block

    def _say(self, block: _Open, text: str, part: type[TextPart] | type[ThinkingPart], parts: list[Part]) -> None:
        text, block.held = whole_pairs(block.held + text)
        if text:
            block.pieces.append(text)
            parts.append(part(text))
            self.brisk = True

    # -------------------------------------------------------------- whole bodies and errors

    def _read_whole(self, whole: Body, parts: list[Part]) -> None:
        body = whole.whole or b""
        if (error := whole.not_a_reply(self._vendor)) is not None:
            self._fail_with(error)
            return
        value = loads(body)
        if isinstance(value, dict) and value.get("type") == "message":
            value = converse_body(value)
        event = tolerant(value)
        try:
            content = value["output"]["message"]["content"]
        except (TypeError, KeyError, IndexError):
            content = None
        if event is None or event.stopReason is None or not isinstance(content, list):
            self._fail(body)
            return
        self._unsure = not is_utf8(body)
        for index, block in enumerate(content):
            if isinstance(block, dict):
                self._whole_block(index, block, parts)
        self._stop, self._usage, self.done = event.stopReason, event.usage, True

    def _whole_block(self, index: int, block: dict[str, Any], parts: list[Part]) -> None:
        use, result, reasoning = (block.get(name) for name in ("toolUse", "toolResult", "reasoningContent"))
        if isinstance(text := block.get("text"), str):
            self._grow(index, Delta(text), parts)
        elif isinstance(cited := block.get("citationsContent"), dict):
            content = cited.get("content")
            for part in content if isinstance(content, list) else ():
                if isinstance(part, dict):
                    self._whole_block(index, {"text": part.get("text")}, parts)
        elif isinstance(reasoning, dict):
            words = reasoning.get("reasoningText")
            flat = {**reasoning, **(words if isinstance(words, dict) else {})}
            if (made := tolerant({"delta": {"reasoningContent": flat}})) is not None and made.delta is not None:
                self._grow(index, made.delta, parts)
        elif isinstance(use, dict):
            if (made := tolerant({"start": {"toolUse": use}})) is not None and made.start is not None:
                self._start(index, made.start)
                self._blocks[index].input = use.get("input", {})
                self._blocks[index].damaged = self._unsure
        elif isinstance(result, dict):
            self._open(index, "result").raw = result

    def _exception(self, frame: Frame) -> None:
        """An exception or an error in the place of an event: its name says what it is, its payload why."""
        value = loads(frame.payload)
        said = value if isinstance(value, dict) else {}
        if frame.said:
            said = {"message": frame.said, **said}
        self._fail(encode({"__type": frame.name, "status": exception_status(frame.name), **scrub(said)}))

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        return self._message(stop_reason(self._end_of(self._stop)))

    def _message(self, reason: StopReason) -> AssistantMessage:
        seen: set[str] = set()
        made = [_built(block, seen) for block in self._order]
        content = [block for block in made if block is not None]
        calls = [b for b in content if type(b) is ToolCall]
        reason = settled(calls, reason)
        usage = usage_of(self._usage) if self._usage is not None else None
        return AssistantMessage(content, self._model, API, reason, usage, id=new_id(), ts=now())


def _built(block: _Open, seen: set[str]) -> Block | None:
    text = "".join(block.pieces) + well_formed(block.held)
    if block.kind == "text":
        return Text(text=text) if text else None
    if block.kind == "thinking":
        if not (text or block.signature or block.redacted):
            return None
        return Thinking(text=text, signature=block.signature or None, redacted=block.redacted or None)
    if block.kind == "call":
        return _tool_call(block, text, seen)
    if block.kind == "result":
        return Opaque(kind="toolResult", vendor={"toolResult": scrub(block.raw)})
    given = block.input if block.input is not None else parse_arguments(text)
    use = {"toolUseId": block.id, "name": block.name, "input": given, **block.raw}
    return Opaque(kind=f"toolUse:{block.raw.get('type')}", vendor={"toolUse": scrub(use)})


def _tool_call(block: _Open, raw: str, seen: set[str]) -> ToolCall:
    id, whole = well_formed(block.id), block.input
    arguments: dict[str, Any] | None = None
    written: str | None = well_formed(raw)
    if whole is None:
        arguments = parse_arguments(raw)
    elif isinstance(whole, dict):
        arguments, written = given(whole)
    else:
        written = spelled(whole)
    call = ToolCall(
        id=id if id and id not in seen else new_call_id(),
        name=well_formed(block.name),
        arguments=arguments,
        arguments_raw=written,
    )
    seen.add(call.id)
    if block.damaged:
        take_back(call)
    return call
