"""Replies in the form of Chat Completions, read as they come."""

from __future__ import annotations

from collections.abc import Iterable
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
    scrub,
    well_formed,
)  # fmt: skip
from orkas.providers.base import Part, TextPart, ThinkingPart
from orkas.providers.openai_chat.request import API
from orkas.providers.openai_chat.wire import Choice, Chunk, Delta, Function, decode, decode_all, tolerant, usage_of
from orkas.providers.reading.body import is_utf8, whole_pairs
from orkas.providers.reading.calls import Calls, settle
from orkas.providers.reading.payloads import decoded
from orkas.providers.reading.reply import EventReply

__all__ = ["ChatReader"]


_STOPS: dict[str, StopReason] = {
    "length": "length", "max_tokens": "length", "model_length": "length",
    "content_filter": "content_filter", "sensitive": "content_filter", "guardrail_intervened": "content_filter",
    "refusal": "refusal", "pause_turn": "pause", "model_context_window_exceeded": "overflow",
}  # fmt: skip
_FAULTS = {"error": "server_error", "insufficient_system_resource": "overloaded", "network_error": "server_error"}
"""Finish reasons that are failures, and the error type they stand for."""


class ChatReader(EventReply):
    """Reads one reply, streamed or whole."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._text: list[str] = []
        self._held = ""  # half of a surrogate pair whose other half is in the next delta
        self._held_thought = ""
        self._thinking: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._refusal: list[str] = []
        self._calls = Calls()
        self._extra: dict[str, Any] | None = None
        self._finish: str | None = None
        self._blank = False  # a finish reason came that is an empty text
        self._usage: dict[str, Any] | None = None
        self._index: int | None = None
        self._unsure = False  # bytes of what is being read are damaged: no call in it may run

    # -------------------------------------------------------------- feeding

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        ended = payloads[-1] == b"[DONE]"
        if ended:
            payloads.pop()
        if payloads:
            self._chunks(payloads, parts, last=last)
        if parts:
            self.brisk = True
        self.done = self.done or ended

    def _chunks(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        chunks = decoded(payloads, decode, decode_all)
        if chunks is not None:
            self._take(chunks, parts)
            return
        for payload in payloads:
            if not self.done:
                self._read_one(payload, parts, last=last)

    def _read_one(self, payload: bytes, parts: list[Part], *, last: bool) -> None:
        """The careful way: ``[DONE]``, odd types, lone surrogates, garbage."""
        if payload.strip() == b"[DONE]":
            self.done = True
            return
        chunk = self._odd(payload, decode, tolerant, last=last)
        if chunk is None:
            return
        if chunk.error is not None:
            self._fail(payload)
        self._unsure = not is_utf8(payload)
        self._take([chunk], parts)
        self._unsure = False

    def _take(self, chunks: Iterable[Chunk], parts: list[Part]) -> None:
        add, text = parts.append, self._text.append
        for chunk in chunks:
            choices = chunk.choices
            if choices:
                choice = choices[0]
                delta = choice.delta
                if choice.index != self._index and not self._is_ours(choice):
                    continue
                if delta is None:
                    delta = choice.message
                if delta is not None:
                    content = delta.content
                    if content:
                        if type(content) is str and not self._held:
                            text(content)
                            add(TextPart(content))
                        else:
                            self._odd_content(content, parts)
                    if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
                        self._think(delta, parts)
                    if delta.tool_calls is not None or delta.function_call is not None:
                        self._call(delta)
                    if delta.refusal:
                        self._refusal.append(delta.refusal)
                    if delta.extra_content is not None:
                        self._extra = delta.extra_content
                if choice.finish_reason:
                    self._finish = choice.finish_reason
                elif choice.finish_reason is not None:  # empty, in every chunk of some servers: no end by itself
                    self._blank = True
                if choice.usage is not None:
                    self._usage = choice.usage
            if chunk.usage is not None:
                self._usage = chunk.usage
            if chunk.x_groq is not None and isinstance(usage := chunk.x_groq.get("usage"), dict):
                self._usage = usage
            if chunk.error is not None:
                self._fail(encode({"error": chunk.error}))
                return

    def _is_ours(self, choice: Choice) -> bool:
        """Of several choices the first that came is read, the others are not."""
        if self._index is None:
            self._index = choice.index
        return choice.index == self._index

    def _odd_content(self, content: str | list[Any], parts: list[Part]) -> None:
        """Content in typed parts (Mistral), and text whose surrogate pairs are split over deltas."""
        if isinstance(content, list):
            for item in content:
                if isinstance(item, dict) and isinstance(text := item.get("text"), str):
                    self._say(text, parts)
                elif isinstance(item, dict) and "thinking" in item:
                    self._muse(_thinking_text(item["thinking"]), parts)
        else:
            self._say(content, parts)

    def _say(self, text: str, parts: list[Part]) -> None:
        text, self._held = whole_pairs(self._held + text)
        if text:
            self._text.append(text)
            parts.append(TextPart(text))

    def _muse(self, text: str, parts: list[Part]) -> None:
        text, self._held_thought = whole_pairs(self._held_thought + text)
        if text:
            self._thinking.append(text)
            parts.append(ThinkingPart(text))

    def _think(self, delta: Delta, parts: list[Part]) -> None:
        plain = delta.reasoning_content or delta.reasoning or ""
        for detail in delta.reasoning_details or ():
            self._detail(detail)
            if not plain:
                shown = detail.get("text") or detail.get("summary")
                self._muse(shown if isinstance(shown, str) else "", parts)
        self._muse(plain, parts)

    def _detail(self, detail: dict[str, Any]) -> None:
        """Pieces of one reasoning item are put together; they go back as the whole item."""
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(k) != detail.get(k, last.get(k)) for k in ("type", "index", "id")):
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            old = last.get(key)
            if key in ("text", "summary", "data", "signature") and isinstance(old, str) and isinstance(value, str):
                last[key] = old + value
            elif value is not None:
                last[key] = value

    def _call(self, delta: Delta) -> None:
        self.brisk = True
        for call in delta.tool_calls or ():
            function = call.function or Function()
            extra = {"extra_content": call.extra_content} if call.extra_content else None
            self._calls.add(call.index, call.id, function.name, function.arguments, extra, damaged=self._unsure)
        if (old := delta.function_call) is not None:  # the form before tool_calls: one call, no id
            self._calls.add(-1, None, old.name, old.arguments, damaged=self._unsure)

    # -------------------------------------------------------------- whole bodies and errors

    def _read_whole(self, body: bytes, parts: list[Part]) -> None:
        chunk = tolerant(body)
        if chunk is not None and chunk.choices and chunk.error is None:
            for choice in chunk.choices:
                if choice.message is not None:
                    choice.delta = choice.message
            self._unsure = not is_utf8(body)
            self._take([chunk], parts)
            self.done = True
            self._finish = self._finish or ""
        else:
            self._fail(body)

    # -------------------------------------------------------------- closing

    def close(self) -> AssistantMessage:
        if self._finish in _FAULTS and self._error is None:
            self._fail(encode({"error": {"type": _FAULTS[self._finish], "message": self._finish}}))
        self._end_of(self._finish is not None or self._ended() or None)
        return self._message(_stop(self._finish or "", bool(self._calls)))

    def _ended(self) -> bool:
        """An end marker without a reason is the end of an answer in words. It vouches for no call, unless this server
        gives its reasons as empty texts, and it makes no answer out of nothing."""
        if not self.done:
            return False
        return self._blank or bool((self._text or self._held or self._refusal) and not self._calls)

    def _message(self, reason: StopReason) -> AssistantMessage:
        content: list[Block] = self._thoughts()
        text = well_formed("".join(self._text) + self._held)
        if text:
            content.append(Text(text=text))
        calls = self._calls.build()
        settle(calls, reason)
        content.extend(calls)
        vendor: dict[str, Any] = {}
        if self._refusal:
            vendor["refusal"] = well_formed("".join(self._refusal))
        if self._extra:
            vendor["extra_content"] = scrub(self._extra)
        usage = usage_of(self._usage) if self._usage else None
        return AssistantMessage(
            content, self._model, API, reason, usage, id=new_id(), ts=now(), vendor=vendor or None
        )

    def _thoughts(self) -> list[Block]:
        """Reasoning as blocks; items with a form of their own know how they go back."""
        plain = well_formed("".join(self._thinking) + self._held_thought)
        shown = "".join(_shown(d) for d in self._details)
        blocks: list[Block] = []
        if plain and plain != shown:
            blocks.append(Thinking(text=plain))
        blocks.extend(_block(d, hidden=plain != shown) for d in self._details)
        return blocks


def _shown(detail: dict[str, Any]) -> str:
    shown = detail.get("text") or detail.get("summary")
    return well_formed(shown) if isinstance(shown, str) else ""


def _block(detail: dict[str, Any], *, hidden: bool) -> Thinking:
    """One reasoning item. Its words, signature and blob live in the block, the rest beside it."""
    rest: dict[str, Any] = scrub(detail)
    text = ""
    if not hidden and (text := _shown(detail)):
        rest.pop("text" if detail.get("text") else "summary")
    signature, encrypted = rest.get("signature"), rest.get("data")
    rest = {k: v for k, v in rest.items() if k not in ("signature", "data")}
    return Thinking(
        text=text,
        signature=signature if isinstance(signature, str) and signature else None,
        encrypted=encrypted if isinstance(encrypted, str) and encrypted else None,
        vendor={"reasoning_detail": rest},
    )


def _thinking_text(value: Any) -> str:
    """Mistral: a string, or a list of text parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(p["text"] for p in value if isinstance(p, dict) and isinstance(p.get("text"), str))
    return ""


def _stop(finish: str, calls: bool) -> StopReason:
    if finish in _STOPS:
        return _STOPS[finish]
    return "tool_use" if calls else "stop"
