"""Replies in the form of Gemini generateContent, read as they come."""

from __future__ import annotations

from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
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
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.google.request import API, SIGNED
from orkas.providers.google.wire import (
    Candidate,
    Chunk,
    Counts,
    FunctionCall,
    Grown,
    decode,
    decode_all,
    elements,
    reason_name,
    stop_reason,
    tolerant,
    usage_of,
)
from orkas.providers.google.wire import Part as WirePart
from orkas.providers.reading.body import broken_off, is_utf8, whole_pairs
from orkas.providers.reading.calls import given, new_call_id, settled, take_back
from orkas.providers.reading.payloads import decoded, loads
from orkas.providers.reading.reply import EventReply

__all__ = ["ContentReader"]


class _Open:
    """One block under construction. Texts are kept in pieces and joined once."""

    __slots__ = ("args", "damaged", "grown", "id", "kind", "name", "pieces", "raw", "signature", "signed")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.signed: list[tuple[int, str]] = []
        """Signatures of a text, each with the place of the piece it came with."""
        self.signature = ""
        self.id = ""
        self.name = ""
        self.args: dict[str, Any] = {}
        self.grown: Grown | None = None
        self.damaged = False
        self.raw: dict[str, Any] = {}


class ContentReader(EventReply):
    """Reads one reply: events, a JSON list of chunks, or one body."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._blocks: list[_Open] = []
        self._last = _Open("")
        self._growing: _Open | None = None
        self._held = ""  # half of a surrogate pair whose other half is in the next part
        self._finish: str | int | None = None
        self._finish_message = ""
        self._feedback: dict[str, Any] = {}
        self._usage: Counts | None = None
        self._index: int | None = None
        self._unsure = False  # bytes of what is being read are damaged: no call in it may run

    # -------------------------------------------------------------- feeding

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        chunks = decoded(payloads, decode, decode_all)
        for i, payload in enumerate(payloads):
            if self.done:
                return
            if chunks is None:
                self._careful(payload, parts, last=last)
            else:
                self._take(chunks[i], payload, parts)
            if parts:
                self.brisk = True

    def _careful(self, payload: bytes, parts: list[Part], *, last: bool) -> None:
        """Odd types, lone surrogates, garbage."""
        chunk = self._odd(payload, decode, tolerant, last=last)
        if chunk is None:
            return
        self._unsure = not is_utf8(payload)
        self._take(chunk, payload, parts)
        self._unsure = False

    def _take(self, chunk: Chunk, payload: bytes, parts: list[Part]) -> None:
        for place, candidate in enumerate(chunk.candidates or ()):
            if self._index is None:
                self._index = candidate.index or 0
            if (candidate.index or 0) == self._index:  # of several answers one is read
                self._answer(candidate, place, payload, parts)
        usage = chunk.usageMetadata
        if usage is not None and (self._usage is None or usage.promptTokenCount is not None):
            self._usage = usage
        if chunk.promptFeedback is not None:
            self._feedback = chunk.promptFeedback
        if chunk.error is not None:
            self._fail(payload)

    def _answer(self, candidate: Candidate, place: int, payload: bytes, parts: list[Part]) -> None:
        content = candidate.content
        for i, part in enumerate(content.parts or ()) if content is not None else ():
            text = part.text
            if text is None or part.functionCall is not None or part.thought or part.thoughtSignature is not None:
                self._special(part, (place, i), payload, parts)
            elif self._last.kind == "text" and text and not self._held:
                text, self._held = (text, "") if text.isascii() else whole_pairs(text)
                self._last.pieces.append(text)
                parts.append(TextPart(text))
            elif text or self._held:
                self._say("text", text, TextPart, parts)
        if candidate.finishReason is not None:
            self._finish = candidate.finishReason
        if candidate.finishMessage:
            self._finish_message = candidate.finishMessage

    def _special(self, part: WirePart, place: tuple[int, int], payload: bytes, parts: list[Part]) -> None:
        """Whatever is not plain text."""
        signature = part.thoughtSignature or ""
        if part.functionCall is not None:
            self._call(part.functionCall, signature)
        elif part.text is None:
            self._other(_raw_part(payload, place), signature)
        elif part.thought:
            if signature or self._last.signature:  # a signature covers its own part, no more
                self._last = _Open("")
            self._say("thinking", part.text, ThinkingPart, parts)
            self._block("thinking").signature = signature
        else:
            self._sign(part.text, signature, parts)

    def _sign(self, text: str, signature: str, parts: list[Part]) -> None:
        """A text with a signature, an empty one too."""
        block = self._block("text")
        before = len(block.pieces)
        self._say("text", text, TextPart, parts)
        if len(block.pieces) == before:
            block.pieces.append("")
        block.signed.append((len(block.pieces) - 1, signature))

    def _block(self, kind: str) -> _Open:
        """The last block if it is of this kind, else a new one."""
        if self._last.kind != kind:
            self._settle_held()
            self._last = _Open(kind)
            self._blocks.append(self._last)
        return self._last

    def _settle_held(self) -> None:
        """The other half of a surrogate pair will not come."""
        if self._held:
            self._last.pieces.append(well_formed(self._held))
            self._held = ""

    def _say(self, kind: str, text: str, part: type[TextPart] | type[ThinkingPart], parts: list[Part]) -> None:
        block = self._block(kind)
        text, self._held = whole_pairs(self._held + text)
        if text:
            block.pieces.append(text)
            parts.append(part(text))

    def _call(self, call: FunctionCall, signature: str) -> None:
        """A call comes whole; or its name comes first, then its arguments piece by piece until nothing continues."""
        block = self._growing
        if call.name or (block is None and (call.args or call.partialArgs)):
            self._last = block = _Open("call")
            self._blocks.append(block)
            block.id, block.name, block.args = call.id or "", call.name or "", call.args or {}
            block.signature = signature
            if call.willContinue or call.partialArgs:
                block.grown = Grown(block.args)
        elif block is None:
            return
        elif call.args and block.grown is not None:
            block.grown.value.update(call.args)
        if (grown := block.grown) is not None:
            for piece in call.partialArgs or ():
                grown.take(piece)
        block.damaged = block.damaged or self._unsure
        self._growing = block if call.willContinue else None

    def _other(self, raw: dict[str, Any], signature: str) -> None:
        """Pictures, code that Google ran, files, and kinds to come: kept as they are, never run."""
        kinds = [k for k in raw if k not in _BESIDE and raw[k] is not None]
        if kinds or signature:
            self._last = block = _Open("other" if kinds else "text")
            block.raw = raw
            if not kinds:
                block.pieces, block.signed = [""], [(0, signature)]
            self._blocks.append(block)

    # -------------------------------------------------------------- whole bodies and errors

    def _read_whole(self, body: bytes, parts: list[Part]) -> None:
        if self._body.not_a_reply(self._vendor) is not None:
            self._fail(body)
            return
        for payload in elements(body):
            if not self.done:
                self._careful(payload, parts, last=False)
        if not self._ended and self._error is None:
            if loads(body) is None:
                self._error = broken_off(self._vendor)
            else:
                self._fail(body)
        self.done = True

    # -------------------------------------------------------------- closing

    @property
    def _ended(self) -> bool:
        return self._finish is not None or bool(self._feedback.get("blockReason"))

    def close(self) -> AssistantMessage:
        self._end_of(self._ended or None)
        return self._message("content_filter" if self._finish is None else stop_reason(self._finish))

    def _message(self, reason: StopReason) -> AssistantMessage:
        content = self._content()
        calls = [b for b in content if type(b) is ToolCall]
        reason = settled(calls, reason)
        usage = usage_of(self._usage) if self._usage is not None else None
        return AssistantMessage(content, self._model, API, reason, usage, id=new_id(), ts=now(), vendor=self._details())

    def _details(self) -> dict[str, Any] | None:
        """Why the reply ended, where that is not plain."""
        if self._finish is None:
            if not self._feedback:
                return None
            reason, words = (_words(self._feedback.get(f)) for f in ("blockReason", "blockReasonMessage"))
            return scrub({**self._feedback, "refusal": words or f"the prompt was blocked ({reason})"})  # type: ignore[no-any-return]
        name = reason_name(self._finish)
        if name in ("STOP", "MAX_TOKENS"):
            return None
        details = {"finishReason": well_formed(name)}
        if self._finish_message:
            details["finishMessage"] = well_formed(self._finish_message)
        if stop_reason(self._finish) == "content_filter":
            details["refusal"] = details.get("finishMessage") or f"it ended with {details['finishReason']}"
        return details

    def _content(self) -> list[Block]:
        self._settle_held()
        seen: set[str] = set()
        made = (_built(block, seen, growing=block is self._growing) for block in self._blocks)
        return [block for block in made if block is not None]


def _words(said: object) -> str:
    return said if isinstance(said, str) else ""


_BESIDE = ("thoughtSignature", "thought", "videoMetadata", "mediaResolution", "partMetadata")
"""Fields of a part that say something about it, not what it is."""


def _raw_part(payload: bytes, place: tuple[int, int]) -> dict[str, Any]:
    """The part at this place as it came, of a chunk that was read already."""
    try:
        part = loads(payload)["candidates"][place[0]]["content"]["parts"][place[1]]
    except (TypeError, KeyError, IndexError):
        return {}
    return part if isinstance(part, dict) else {}


def _built(block: _Open, seen: set[str], *, growing: bool) -> Block | None:
    if block.kind == "call":
        return _tool_call(block, seen, growing=growing)
    if block.kind == "other":
        return _kept(scrub(block.raw))
    text = "".join(block.pieces)
    if block.kind == "thinking":
        return Thinking(text=text, signature=block.signature or None) if text or block.signature else None
    vendor = {SIGNED: _spans(block)} if block.signed else None
    return Text(text=text, vendor=vendor) if text or vendor else None


def _spans(block: _Open) -> list[list[Any]]:
    """Which part of the text each signature came with: first character, the one after its last, signature."""
    ends = [0]
    for piece in block.pieces:
        ends.append(ends[-1] + len(piece))
    return [[ends[place], ends[place + 1], signature] for place, signature in block.signed]


def _kept(raw: dict[str, Any]) -> Block:
    blob = raw.get("inlineData")
    if isinstance(blob, dict) and not raw.get("thought"):
        kind, data = blob.get("mimeType"), blob.get("data")
        if isinstance(kind, str) and kind.startswith("image/") and isinstance(data, str):
            signature = raw.get("thoughtSignature")
            return Image(media_type=kind, data=data, vendor={"thoughtSignature": signature} if signature else None)
    return Opaque(kind=next(k for k in raw if k not in _BESIDE and raw[k] is not None), vendor=raw)


def _tool_call(block: _Open, seen: set[str], *, growing: bool) -> ToolCall:
    """Google's own id where it is there and no other call of the reply has it; it also goes back as it came."""
    id = well_formed(block.id)
    arguments, raw = given(block.args if block.grown is None else block.grown.value)
    call = ToolCall(
        id=id if id and id not in seen else new_call_id(),
        name=well_formed(block.name),
        arguments=arguments,
        arguments_raw=raw,
        signature=block.signature or None,
        vendor={"id": id} if id else None,
    )
    seen.add(call.id)
    if growing or block.damaged or (block.grown is not None and block.grown.broken):
        take_back(call)
    return call
