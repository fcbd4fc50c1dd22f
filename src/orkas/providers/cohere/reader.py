"""Replies in the form of Cohere's chat, read as they come."""

from __future__ import annotations

from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    StopReason,
    Text,
    Thinking,
    encode,
    new_id,
    now,
    well_formed,
)  # fmt: skip
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.cohere.request import API, PLAN
from orkas.providers.cohere.wire import (
    Call,
    Content,
    Counts,
    Delta,
    Event,
    call_of,
    counts,
    decode,
    decode_all,
    stop_reason,
    tolerant,
    usage_of,
)
from orkas.providers.reading.body import is_utf8, whole_pairs
from orkas.providers.reading.calls import Calls, settled, take_back
from orkas.providers.reading.payloads import decoded, loads
from orkas.providers.reading.reply import EventReply

__all__ = ["ChatReader"]


class _Open:
    """A stretch of text or thinking, in pieces."""

    __slots__ = ("held", "kind", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.held = ""  # half of a surrogate pair whose other half is in the next delta


def _tolerant(payload: bytes) -> Event | None:
    return tolerant(loads(payload))


class ChatReader(EventReply):
    """Reads one reply, streamed or whole."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._blocks: list[_Open] = []
        self._at: dict[int, _Open] = {}
        self._plan: list[str] = []
        self._writing: dict[int | None, str] = {}  # ids of calls that have begun and not ended
        self._calls = Calls()
        self._finish: str | None = None
        self._usage: Counts | None = None
        self._unsure = False  # bytes of what is being read are damaged: no call in it may run

    # -------------------------------------------------------------- feeding

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        events = decoded(payloads, decode, decode_all)
        for i, payload in enumerate(payloads):
            if self.done:
                return
            if events is None:
                self._careful(payload, parts, last=last)
            else:
                self._take(events[i], payload, parts)

    def _careful(self, payload: bytes, parts: list[Part], *, last: bool) -> None:
        """Odd types, lone surrogates, garbage."""
        event = self._odd(payload, decode, _tolerant, last=last)
        if event is None:
            return
        self._unsure = not is_utf8(payload)
        self._take(event, payload, parts)
        self._unsure = False

    def _take(self, event: Event, payload: bytes, parts: list[Part]) -> None:
        delta = event.delta
        if delta is None:
            if event.type == "error" or (event.type is None and event.message):
                self._fail(payload)
            elif event.type == "tool-call-end":
                self._writing.pop(event.index, None)
            return
        if (message := delta.message) is not None:
            content = message.content
            if type(content) is Content:
                self._say(event, content, parts)
            elif message.tool_plan:
                self._plan.append(message.tool_plan)
            if type(call := message.tool_calls) is Call:
                self._call(event.index, call)
                self.brisk = True
                if event.type == "tool-call-start":
                    self._writing[event.index] = call.id or ""
        if delta.finish_reason is not None:
            self._end(delta)

    def _say(self, event: Event, content: Content, parts: list[Part]) -> None:
        kind = "thinking" if content.thinking is not None or content.type == "thinking" else "text"
        block = self._at.get(event.index or 0)
        if block is None or block.kind != kind or event.type == "content-start":
            block = self._open(event.index or 0, kind)
        text = content.thinking if kind == "thinking" else content.text
        if not text:
            return
        if block.held or not text.isascii():
            text, block.held = whole_pairs(block.held + text)
        if text:
            block.pieces.append(text)
            parts.append(TextPart(text) if kind == "text" else ThinkingPart(text))
            self.brisk = True

    def _open(self, index: int, kind: str) -> _Open:
        block = self._at[index] = _Open(kind)
        self._blocks.append(block)
        return block

    def _call(self, index: int | None, call: Call) -> None:
        function = call.function
        name, arguments = (function.name, function.arguments) if function is not None else (None, None)
        self._calls.add(index, call.id, name, arguments, damaged=self._unsure)

    def _end(self, delta: Delta) -> None:
        self._finish, self._usage, self.done = delta.finish_reason, delta.usage, True
        if delta.error:
            self._fail(encode({"message": delta.error, "type": delta.finish_reason}))

    # -------------------------------------------------------------- whole bodies and errors

    def _read_whole(self, body: bytes, parts: list[Part]) -> None:
        value = loads(body)
        message = value.get("message") if isinstance(value, dict) else None
        if not isinstance(message, dict) or not isinstance(value.get("finish_reason"), str):
            self._fail(body)
            return
        self._unsure = not is_utf8(body)
        content, calls, plan = message.get("content"), message.get("tool_calls"), message.get("tool_plan")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            event = tolerant({"index": index, "delta": {"message": {"content": block}}})
            if event is not None:
                self._take(event, body, parts)
        if isinstance(plan, str):
            self._plan.append(plan)
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self._call(index, call_of(call))
        usage: Any = value.get("usage")
        self._end(Delta(finish_reason=value["finish_reason"], usage=counts(usage) if isinstance(usage, dict) else None))

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        return self._message(stop_reason(self._end_of(self._finish)))

    def _message(self, reason: StopReason) -> AssistantMessage:
        content: list[Block] = [
            Text(text=text) if block.kind == "text" else Thinking(text=text)
            for block in self._blocks
            if (text := "".join(block.pieces) + well_formed(block.held))
        ]
        calls = self._calls.build()
        for call in calls:  # without its end, a call that has no arguments yet may have had some
            if call.arguments_raw == "" and call.id in self._writing.values():
                take_back(call)
        reason = settled(calls, reason)
        plan = well_formed("".join(self._plan))
        usage = usage_of(self._usage) if self._usage is not None else None
        return AssistantMessage(
            [*content, *calls], self._model, API, reason, usage, id=new_id(), ts=now(),
            vendor={PLAN: plan} if plan else None,
        )  # fmt: skip
