"""Replies in the form of OpenAI Responses, read as they come."""

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
    encode,
    new_id,
    now,
    scrub,
    well_formed,
)  # fmt: skip
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.openai_responses.request import API
from orkas.providers.openai_responses.wire import (
    DELTAS,
    FINAL,
    SPOKEN,
    TEXT_DELTA,
    Event,
    decode,
    decode_all,
    loads,
    response_of,
    said_in,
    tolerant,
    usage_of,
)
from orkas.providers.reading.body import is_utf8, whole_pairs
from orkas.providers.reading.calls import parse_arguments, settled, spelled, take_back, tell_apart
from orkas.providers.reading.payloads import decoded
from orkas.providers.reading.reply import EventReply

__all__ = ["ResponsesReader"]


class _Words:
    """One text of an item under construction. Its pieces are kept in a list and joined once."""

    __slots__ = ("held", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.held = ""  # half of a surrogate pair whose other half is in the next delta

    def whole(self) -> str:
        return well_formed("".join(self.pieces) + self.held)


class _Item:
    """One output item under construction, ``raw`` as its last complete form has it."""

    __slots__ = ("closed", "index", "pieces", "raw", "unsure", "words")

    def __init__(self, index: int, raw: dict[str, Any]) -> None:
        self.index = index
        self.raw = raw
        self.closed = False
        self.unsure = False  # bytes of it were damaged on the way
        self.words: dict[tuple[str, int], _Words] = {}
        self.pieces: list[str] = []  # of a call's arguments or input

    @property
    def kind(self) -> str:
        return _str(self.raw.get("type"))

    def at(self, kind: str, index: int) -> _Words:
        key = (kind, index)
        if key not in self.words:
            self.words[key] = _Words()
        return self.words[key]


_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls that are ours to run, and where each holds what it is given."""


class ResponsesReader(EventReply):
    """Reads one reply, streamed or whole. Items are told apart by their place: some servers change ids on the way."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._items: list[_Item] = []
        self._at: dict[int, _Item] = {}
        self._place: tuple[int | None, int] | None = None  # of the text that is being written
        self._words = _Words()
        self._stop: StopReason | None = None
        self._usage: dict[str, Any] | None = None

    # -------------------------------------------------------------- feeding

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        events = decoded(payloads, decode, decode_all)
        if events is None:
            for payload in payloads:
                if not self.done:
                    self._careful(payload, parts, last=last)
            return
        for event, payload in zip(events, payloads, strict=True):
            if event.type == TEXT_DELTA and (event.output_index, event.content_index) == self._place:
                if (text := event.delta) and not self._words.held:
                    self._words.pieces.append(text)
                    parts.append(TextPart(text))
                elif text:
                    self._say(self._words, text, TextPart, parts)
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
        if (item := self._item(event)) is not None and not is_utf8(payload):
            item.unsure = True

    def _take(self, event: Event, payload: bytes, parts: list[Part]) -> None:
        kind = event.type
        if kind in SPOKEN:
            self._spoken(event, parts)
        elif kind in DELTAS:
            self._given(event)
        elif kind == "response.output_item.added":
            self._open(event.output_index, loads(event.item))
        elif kind == "response.output_item.done":
            self._close_item(event, parts)
        elif kind in FINAL:
            self._end(event, payload, parts)
        elif kind == "error" or loads(event.error) is not None:
            self._fail(payload)

    def _item(self, event: Event) -> _Item | None:
        """The item that an event belongs to; without a place of its own, the last one."""
        if event.output_index is None:
            return self._items[-1] if self._items else None
        return self._at.get(event.output_index)

    def _open(self, index: int | None, raw: Any) -> _Item:
        known = {k: v for k, v in raw.items() if k != "encrypted_content"} if isinstance(raw, dict) else {}
        item = _Item(len(self._items) if index is None else index, known)  # a seal may be half written until the end
        self._items.append(item)
        self._at[item.index] = item
        self._place = None
        self.brisk = False  # what it is of may take its time: thought, a tool of the vendor's
        return item

    def _spoken(self, event: Event, parts: list[Part]) -> None:
        """A piece of text, or all of it again: ``done`` events repair what their deltas left out."""
        kind, whole = SPOKEN[event.type]
        index = event.summary_index if kind == "summary_text" else event.content_index
        owner = "reasoning" if kind in _THOUGHTS else "message"
        item = self._item(event) or self._open(event.output_index, {})
        item.raw = item.raw or {"type": owner}
        if item.kind != owner:
            return  # never shown as what it is not, never a part of a call
        words = item.at(kind, index)
        text = (event.refusal if kind == "refusal" else event.text) if whole else event.delta
        if whole:
            self._complete(kind, words, text or "", parts)
            return
        self._add(kind, words, text or "", parts)
        self.brisk = owner == "message"
        if kind == "output_text":
            self._place, self._words = (event.output_index, event.content_index), words

    def _given(self, event: Event) -> None:
        """A piece of what a call or a tool of the vendor's own is given, or all of it."""
        item = self._item(event)
        if item is None or item.kind in ("message", "reasoning"):
            return
        if event.delta is not None:
            item.pieces.append(event.delta)
            self.brisk = item.kind in _CALLS
        elif event.type.endswith(".done") and (text := event.arguments if event.input is None else event.input):
            item.pieces = [text]
            item.closed = item.kind in _CALLS

    def _add(self, kind: str, words: _Words, text: str, parts: list[Part]) -> None:
        if kind == "output_text":
            self._say(words, text, TextPart, parts)
        elif kind in _THOUGHTS:
            self._say(words, text, ThinkingPart, parts)
        else:
            words.pieces.append(text)

    def _say(self, words: _Words, text: str, part: type[TextPart] | type[ThinkingPart], parts: list[Part]) -> None:
        text, words.held = whole_pairs(words.held + text)
        if text:
            words.pieces.append(text)
            parts.append(part(text))

    def _complete(self, kind: str, words: _Words, text: str, parts: list[Part]) -> None:
        """Add what a complete text has more than its pieces. What contradicts them is not believed: it was shown."""
        told = "".join(words.pieces)
        if len(text) > len(told) and (text := well_formed(text)).startswith(told):
            words.held = ""
            self._add(kind, words, text[len(told) :], parts)

    def _close_item(self, event: Event, parts: list[Part]) -> None:
        raw = loads(event.item)
        if not isinstance(raw, dict):
            return
        item = self._item(event)
        if item is None or (item.kind and item.kind != _str(raw.get("type"))):
            item = self._open(event.output_index, {})
        self._fill(item, raw, parts)
        item.unsure = item.unsure or not is_utf8(bytes(event.item))

    def _fill(self, item: _Item, raw: dict[str, Any], parts: list[Part]) -> None:
        """Take the complete form of an item, and tell what of its texts was not told yet."""
        item.raw, item.closed = {**item.raw, **raw}, True
        for kind, index, text in said_in(item.raw):
            self._complete(kind, item.at(kind, index), text, parts)
        if (name := _CALLS.get(item.kind)) and (given := raw.get(name)):
            item.pieces = [given if isinstance(given, str) else spelled(given)]

    # -------------------------------------------------------------- the end, whole bodies and errors

    def _end(self, event: Event, payload: bytes, parts: list[Part]) -> None:
        response = response_of(event.response)
        status = response.status or event.type.removeprefix("response.")
        if status in ("failed", "cancelled", "error") or response.error:
            self._fail(encode({"error": response.error or {"code": "server_error", "message": f"response {status}"}}))
            return
        self._usage = response.usage
        self._stop = _stop(status, response.incomplete_details)
        if not self._items or not all(i.closed for i in self._items):
            output = loads(response.output)
            self._catch_up(output if isinstance(output, list) else [], parts)
        self.done = True

    def _catch_up(self, output: list[Any], parts: list[Part]) -> None:
        """Take from the final list of items what the events before it did not bring."""
        mine = sorted(self._items, key=lambda i: i.index)
        theirs = [raw for raw in output if isinstance(raw, dict)]
        if any(m.kind != _str(t.get("type")) for m, t in zip(mine, theirs, strict=False) if m.kind):
            return
        for place, raw in enumerate(theirs):
            item = mine[place] if place < len(mine) else self._open(None, {})
            if not item.closed:
                self._fill(item, raw, parts)

    def _read_whole(self, body: bytes, parts: list[Part]) -> None:
        value = loads(body)
        if not isinstance(value, dict) or not isinstance(value.get("output"), list) or value.get("error"):
            self._fail(body)
            return
        if (status := _str(value.get("status")) or "completed") not in ("completed", "incomplete"):
            self._fail(encode({"error": {"code": "server_error", "message": f"response {status}"}}))
            return
        self._catch_up(value["output"], parts)
        for item in self._items:
            item.unsure = not is_utf8(body)
        usage, details = value.get("usage"), value.get("incomplete_details")
        self._usage = usage if isinstance(usage, dict) else None
        self._stop = _stop(status, details if isinstance(details, dict) else None)
        self.done = True

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        return self._message(self._end_of(self._stop if self.done else None))

    def _message(self, reason: StopReason) -> AssistantMessage:
        items = sorted(self._items, key=lambda i: i.index)
        content = [block for item in items for block in _blocks(item)]
        calls = [b for b in content if type(b) is ToolCall]
        tell_apart(calls)
        reason = settled(calls, reason)
        refusal = "".join(w.whole() for i in items for (kind, _), w in sorted(i.words.items()) if kind == "refusal")
        usage = usage_of(self._usage) if self._usage else None
        return AssistantMessage(
            content, self._model, API, reason, usage, id=new_id(), ts=now(),
            vendor={"refusal": refusal} if refusal else None,
        )  # fmt: skip


_THOUGHTS = ("summary_text", "reasoning_text")
_ENVELOPE = ("type", "status", "call_id", "name", "arguments", "input")


def _blocks(item: _Item) -> list[Block]:
    """The blocks that one item becomes. Their ``vendor`` holds what it needs besides to be written back."""
    if item.kind == "message":
        rest = {k: v for k in ("id", "phase") if (v := _str(item.raw.get(k)))}
        notes = item.raw.get("content")
        return [
            Text(text=text, vendor=scrub({**rest, **_annotations(notes, index)}) or None)
            for (kind, index), words in sorted(item.words.items())
            if kind == "output_text" and (text := words.whole())
        ]
    if item.kind == "reasoning":
        return _thoughts(item)
    if item.kind in _CALLS:
        return [_call(item)]
    if not (raw := item.raw):
        return []
    if item.pieces and not item.closed:
        raw = {**raw, "arguments": "".join(item.pieces)}
    return [Opaque(kind=item.kind or "unknown", vendor=scrub(raw))]


def _annotations(content: Any, index: int) -> dict[str, Any]:
    """Sources that a text cites."""
    part = content[index] if isinstance(content, list) and 0 <= index < len(content) else None
    found = part.get("annotations") if isinstance(part, dict) else None
    return {"annotations": found} if isinstance(found, list) and found else {}


def _thoughts(item: _Item) -> list[Block]:
    """One block for each text of a reasoning item, summaries first. The first holds the item's id and seal; a seal is
    whole only in an item that was closed."""
    sealed = item.raw.get("encrypted_content") if item.closed else None
    texts = [(kind, text) for (kind, _), w in sorted(item.words.items(), key=_summaries_first) if (text := w.whole())]
    first: dict[str, Any] = {"item": well_formed(_str(item.raw.get("id")))}
    blocks: list[Block] = []
    for kind, text in texts or ([("", "")] if sealed or first["item"] else []):
        vendor = {**({} if blocks else first), **({"part": kind} if kind else {})}
        seal = sealed if isinstance(sealed, str) and sealed and not blocks else None
        blocks.append(Thinking(text=text, encrypted=well_formed(seal) if seal else None, vendor=vendor))
    return blocks


def _summaries_first(words: tuple[tuple[str, int], _Words]) -> tuple[bool, int]:
    (kind, index), _ = words
    return kind != "summary_text", index


def _call(item: _Item) -> ToolCall:
    raw, text = item.raw, well_formed("".join(item.pieces))
    custom = item.kind == "custom_tool_call"  # given as free text: nothing of ours can run on it
    rest = {k: v for k, v in raw.items() if k not in _ENVELOPE and v is not None}
    call = ToolCall(
        id=well_formed(_str(raw.get("call_id"))),
        name=well_formed(_str(raw.get("name"))),
        arguments=None if custom else parse_arguments(text),
        arguments_raw=text,
        vendor=scrub({**({"type": item.kind} if custom else {}), **rest}) or None,
    )
    if item.unsure or not item.closed or raw.get("status") in ("incomplete", "in_progress"):
        take_back(call)
    return call


def _stop(status: str, details: dict[str, Any] | None) -> StopReason:
    if status == "incomplete":
        return "content_filter" if (details or {}).get("reason") == "content_filter" else "length"
    return "stop"


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
