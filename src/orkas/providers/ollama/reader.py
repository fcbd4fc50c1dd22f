"""Replies in the form of Ollama's own chat, read as they come."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    new_id,
    now,
    well_formed,
)  # fmt: skip
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.ollama.request import API
from orkas.providers.ollama.wire import Call, Chunk, Lines, decode, decode_lines, stop_reason, tolerant, usage_of
from orkas.providers.reading.body import Body, broken_off, is_damaged, is_utf8, whole_pairs
from orkas.providers.reading.calls import given, new_call_id, settled, take_back
from orkas.providers.reading.reply import Reply

__all__ = ["LinesReader"]


class _Spoken:
    """A stretch of text or thinking, in pieces, or one call."""

    __slots__ = ("call", "kind", "pieces")

    def __init__(self, kind: str, call: ToolCall | None = None) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.call = call


class LinesReader(Reply):
    """Reads one reply: a line a piece, or one JSON object in any spelling.

    Never brisk: a call is written in silence and comes whole.
    """

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._lines = Lines()
        self._whole: Body | None = None
        self._spoken: list[_Spoken] = []
        self._held = ""  # half of a surrogate pair whose other half is in the next line
        self._begun = False
        self._last: Chunk | None = None
        self._unsure = False  # bytes of what is being read are damaged: no call in it may run
        self._seen: set[str] = set()

    # -------------------------------------------------------------- feeding

    def feed(self, data: bytes) -> list[Part]:
        parts: list[Part] = []
        if self.done:
            return parts
        if self._whole is not None:
            self._whole.feed(data)
        elif block := self._lines.feed(data):
            self._read(block, parts, last=not data)
        if not data and not self.done:
            if self._whole is not None:
                self._whole.feed(b"")
                self._read_whole(self._whole, parts)
            elif not self._begun:
                self._fail_with(broken_off(self._vendor, "the reply is empty"))
        return parts

    def _read(self, block: bytes, parts: list[Part], *, last: bool) -> None:
        try:
            chunks = decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._careful(block, parts, last=last)
            return
        for chunk in chunks:
            if self.done:
                return
            if chunk.error is not None:  # the table wants the line as it came
                self._careful(block, parts, last=last, skip=chunks.index(chunk))
                return
            self._take(chunk, parts)

    def _careful(self, block: bytes, parts: list[Part], *, last: bool, skip: int = 0) -> None:
        """Line by line: odd types, lone surrogates, errors, garbage; and a body that is no lines at all."""
        lines = [line for line in block.split(b"\n") if line.strip()]
        for i, line in enumerate(lines[skip:], skip):
            if self.done:
                return
            try:
                chunk = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                found = tolerant(line)
                if found is None and not self._begun:
                    self._whole = Body()
                    self._whole.feed(b"\n".join(lines[i:]) + b"\n" + self._lines.feed(b""))
                    return
                if found is None:  # a keep-alive of some kind, or the torn end of a cut stream
                    if not last and is_damaged(line):
                        self._fail_with(broken_off(self._vendor, "a part of the reply arrived damaged"))
                    continue
                chunk = found
            if chunk.error is not None:
                self._fail(line)
                return
            self._unsure = not is_utf8(line)
            self._take(chunk, parts)
            self._unsure = False

    def _take(self, chunk: Chunk, parts: list[Part]) -> None:
        self._begun = True
        if (said := chunk.message) is not None:
            if said.thinking:
                self._say("thinking", said.thinking, ThinkingPart, parts)
            if said.content:
                self._say("text", said.content, TextPart, parts)
            for call in said.tool_calls or ():
                self._call(call)
        if chunk.done:
            self._last = chunk
            self.done = True

    def _say(self, kind: str, text: str, part: type[TextPart] | type[ThinkingPart], parts: list[Part]) -> None:
        spoken = self._spoken
        if not spoken or spoken[-1].kind != kind:
            self._settle_held()
            spoken.append(_Spoken(kind))
        if self._held or not text.isascii():
            text, self._held = whole_pairs(self._held + text)
        if text:
            spoken[-1].pieces.append(text)
            parts.append(part(text))

    def _settle_held(self) -> None:
        """The other half of a surrogate pair will not come."""
        if self._held:
            self._spoken[-1].pieces.append(well_formed(self._held))
            self._held = ""

    def _call(self, call: Call) -> None:
        """A call comes whole. Few versions give it an id; that goes back as it came."""
        function = call.function
        if function is None or not (function.name or function.arguments):
            return
        self._settle_held()
        id = well_formed(call.id or "")
        arguments, raw = given(function.arguments or {})
        made = ToolCall(
            id=id if id and id not in self._seen else new_call_id(),
            name=well_formed(function.name or ""),
            arguments=arguments,
            arguments_raw=raw,
            vendor={"id": id} if id else None,
        )
        self._seen.add(made.id)
        if self._unsure or function.odd is True:
            take_back(made)
        self._spoken.append(_Spoken("call", made))

    # -------------------------------------------------------------- whole bodies and errors

    def _read_whole(self, whole: Body, parts: list[Part]) -> None:
        body = whole.whole or b""
        error = whole.not_a_reply(self._vendor)
        chunk = tolerant(body) if error is None else None
        if chunk is None or chunk.error is not None or chunk.message is None:
            self._fail_with(error) if error is not None else self._fail(body)
            return
        self._unsure = not is_utf8(body)
        self._take(chunk, parts)

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        return self._message(stop_reason(self._end_of(self._last).done_reason))

    def _message(self, reason: StopReason) -> AssistantMessage:
        self._settle_held()
        content: list[Block] = []
        for piece in self._spoken:
            if piece.call is not None:
                content.append(replace(piece.call))  # a copy: what is taken back in a part stays whole here
            elif joined := "".join(piece.pieces):
                content.append(Text(text=joined) if piece.kind == "text" else Thinking(text=joined))
        reason = settled([b for b in content if type(b) is ToolCall], reason)
        usage = usage_of(self._last) if self._last is not None else None
        return AssistantMessage(content, self._model, API, reason, usage, id=new_id(), ts=now())
