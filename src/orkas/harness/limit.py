"""The limit of a model's output: a text that it cut goes on once, a call that it cut never runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import TypeAlias

from msgspec.structs import replace

from orkas.harness.refusal import is_refusal
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    calls_of,
    new_id,
    now,
    text_of,
    user_message,
)
from orkas.providers.base import CompletionParams, Part, TextPart

__all__ = [
    "EMPTY", "STILL_CUT", "Seam", "continuation", "cut_call", "is_cut", "is_empty", "is_silent_overflow", "joined",
]  # fmt: skip

LEAST, MOST = 12, 4096
"""Characters that the end of a text and the beginning of its continuation may have in common and still be taken for
said twice, unless it is the whole text. Less is coincidence."""

STILL_CUT = "The answer is longer than the model may write at once and stops before its end. Say “continue” to go on."

EMPTY = "The model gave an empty answer. Ask again in other words, or take another model."
"""Told where nothing else was said in the turn."""

_GO_ON = (
    "Your last message was cut off at the output limit. Go on exactly where it stops, in the same language and form: "
    "no introduction, no repetition, no tool calls. If it was complete already, finish its last sentence."
)
_ANSWER_NOW = (
    "Your last reply used up the output limit before any visible answer. Answer the request now, briefly and directly, "
    "without tool calls."
)
_PIECES = (12_000, 6_000)
"""Characters of one call's arguments that the model is told to keep to, the first time and from then on."""


def is_cut(reply: AssistantMessage) -> bool:
    """The output limit ended it in its text or before any. A reply with calls is no such: its calls are answered."""
    return reply.stop_reason == "length" and not calls_of(reply)


def is_empty(reply: AssistantMessage) -> bool:
    """The model ended it as an answer, and there is nothing to see or to do in it."""
    if reply.stop_reason != "stop" or calls_of(reply) or is_refusal(reply):
        return False
    return not text_of(reply).strip()


def is_silent_overflow(reply: AssistantMessage) -> bool:
    """Some servers end the reply to a request that fills the window before its first token, and call that a success."""
    usage = reply.usage
    return reply.stop_reason == "length" and not reply.content and usage is not None and usage.output == 0


def cut_call(times: int) -> str:
    """What the model is told of a call that the limit cut, the ``times``-th time (from 1) in a turn."""
    return (
        "Not run: the output limit cut this call off before its end. Make it again in smaller pieces, each with at "
        f"most {_PIECES[min(times, len(_PIECES)) - 1]:,} characters of arguments; for a file, write the first piece "
        "and add the others one after another."
    )


def continuation(params: CompletionParams, first: AssistantMessage) -> CompletionParams:
    """The request for the rest of ``first``. Its words of ours stand behind everything and are never stored; the tools
    stay in it, forbidden, so that the cached prefix holds."""
    said = bool(text_of(first).strip())
    tail = [first, user_message(_GO_ON)] if said else [user_message(_ANSWER_NOW)]
    thinking = "low" if not said and params.thinking in ("medium", "high") else params.thinking
    return replace(params, messages=[*params.messages, *tail], tool_choice="none", thinking=thinking)


def joined(first: AssistantMessage, second: AssistantMessage) -> AssistantMessage:
    """One message of a text and its continuation: what both say, once, and the calls of the second that came whole.
    Its thinking belongs to a request that is not in the history, so it stays only where there was no text before it;
    and with it goes what its vendor knows the rest of the reply by."""
    rest: list[Block] = [b for b in second.content if not isinstance(b, ToolCall) or _runs(b, second.stop_reason)]
    before: list[Block] = list(first.content)
    if text_of(first):
        if any(isinstance(b, Thinking) for b in rest):
            rest = [replace(b, vendor=None) for b in rest if not isinstance(b, Thinking | Opaque)]
        rest = _without(rest, overlap(text_of(first), text_of(second)))
    else:
        before = [Thinking(text=b.text) for b in first.content if isinstance(b, Thinking) and b.text]
    reason = "stop" if second.stop_reason == "tool_use" else second.stop_reason
    if any(isinstance(b, ToolCall) for b in rest):
        reason = "tool_use"
    return replace(
        second, content=_sewn([*before, *rest]), usage=_usage(first, second), id=new_id(), ts=now(), stop_reason=reason,
        vendor={**(first.vendor or {}), **(second.vendor or {})} or None,
    )  # fmt: skip


def _runs(call: ToolCall, reason: str) -> bool:
    """Whether a call in a continuation is one that the model wants, and whole."""
    return reason in ("tool_use", "stop") or (reason == "length" and call.arguments is not None)


def _usage(first: AssistantMessage, second: AssistantMessage) -> Usage | None:
    """What describes the one message in the history: the prompt before it, and all that was generated for it."""
    if not text_of(first) or first.usage is None or second.usage is None:
        return second.usage or first.usage
    both = first.usage.plus(second.usage)
    return replace(first.usage, output=both.output, reasoning=both.reasoning, cost_usd=both.cost_usd)


def _without(blocks: Iterable[Block], characters: int) -> list[Block]:
    """The blocks less the first ``characters`` of their text."""
    left: list[Block] = []
    for block in blocks:
        if isinstance(block, Text) and characters:
            dropped = min(characters, len(block.text))
            characters -= dropped
            block = replace(block, text=block.text[dropped:], vendor=None)  # noqa: PLW2901 - notes on places do not hold
        if not isinstance(block, Text) or block.text:
            left.append(block)
    return left


def _sewn(blocks: Iterable[Block]) -> list[Block]:
    """Neighbouring plain texts made one."""
    made: list[Block] = []
    for block in blocks:
        last = made[-1] if made else None
        if isinstance(block, Text) and isinstance(last, Text) and block.vendor is None and last.vendor is None:
            made[-1] = Text(text=last.text + block.text)
        else:
            made.append(block)
    return made


def overlap(first: str, second: str) -> int:
    """Characters at the beginning of ``second`` that repeat the end of ``first``, as ``Seam`` finds them."""
    seam = Seam(first)
    seam.feed(second)
    seam.end()
    return seam.overlap


_Place: TypeAlias = tuple[int, int]
"""Where a repetition may begin: in the first text, and behind how many characters of the continuation."""


def _period(text: str) -> int:
    """The smallest distance at which the text, as far as it goes, is the same as itself."""
    at = text.find(text[:LEAST], 1)
    while at > 0:
        if text.startswith(text[at:]):
            return at
        at = text.find(text[:LEAST], at + 1)
    return next((n for n in range(max(1, len(text) - LEAST + 1), len(text)) if text.startswith(text[n:])), len(text))


class Seam:
    """Takes the repetition out of a continuation as it comes. Its beginning is held back until the overlap is known.

    What is said twice is the longest end of the first text, or the first text as a whole, that the continuation begins
    with, white space before it or not. Where the text repeats itself there anyway (a row of zeros, the rules of a
    table), nobody can tell a repetition from what comes next: then nothing is taken out, for to say something twice is
    better than to lose it.

    ``overlap``: characters that were taken out, once known.
    """

    __slots__ = ("_agreed", "_decided", "_first", "_held", "_place", "_places", "overlap")

    def __init__(self, first: str) -> None:
        self._first = first
        self._places: Iterator[_Place] | None = None  # where it may begin, the longest first; each is looked at once
        self._place: _Place | None = None
        self._agreed = 0  # characters of the continuation that agree with this place
        self._held = ""
        self._decided = False
        self.overlap = 0

    def feed(self, text: str) -> str:
        """What of ``text``, and of what was held back before it, may be told."""
        if self._decided:
            return text
        self._held += text
        return self._settle(ended=False)

    def end(self) -> str:
        """The continuation is over: what is still to be told."""
        return "" if self._decided else self._settle(ended=True)

    def sift(self, batch: Sequence[Part]) -> Iterator[Part]:
        """``feed`` for the parts of one read."""
        for part in batch:
            if type(part) is not TextPart:
                yield part
            elif text := self.feed(part.text):
                yield TextPart(text)

    def _settle(self, *, ended: bool) -> str:
        """Tell all that was held back but for the overlap, if what is there decides; else nothing yet."""
        held = self._held
        if self._places is None:
            blank = len(held) - len(held.lstrip())
            if blank == len(held) and not ended:
                return ""
            self._places = merge(self._found(held[:LEAST], 0), self._found(held[blank:][:LEAST], blank))
            self._place = next(self._places, None)
        while self._place is not None:
            at, skip = self._place
            size = len(self._first) - at
            there = skip + size <= len(held)
            if not self._agrees(at, skip) or (ended and not there):
                self._place, self._agreed = next(self._places, None), 0
                continue
            self._agreed = len(held)
            alone = self._alone(size, skip, ended=ended) if there else None
            if alone is None:
                return ""
            self.overlap = skip + size if alone else 0
            break
        self._decided, self._held = True, ""
        return held[self.overlap :]

    def _found(self, key: str, skip: int) -> Iterator[_Place]:
        """Where in the first text that may begin which the continuation says behind ``skip`` characters."""
        first = self._first
        base = max(0, len(first) - MOST)
        for beginning in sorted({0, len(first) - len(first.lstrip())}):
            if beginning < base and first.startswith(key, beginning):
                yield beginning, skip
        at = first.find(key, base) if key else -1
        while 0 <= at <= len(first) - LEAST:
            yield at, skip
            at = first.find(key, at + 1)

    def _agrees(self, at: int, skip: int) -> bool:
        """From here the first text and the continuation are the same, as far as both go."""
        begin = max(self._agreed, skip)
        length = min(len(self._held) - begin, len(self._first) - at - (begin - skip))
        return length <= 0 or self._first.startswith(self._held[begin : begin + length], at + begin - skip)

    def _alone(self, size: int, skip: int, *, ended: bool) -> bool | None:
        """Whether an overlap stands in no row of its like; None: what comes next will tell.

        A row: with the text before and behind it, it goes on with a period of its own for two periods or more. Its
        periods are its smallest one and its whole length.
        """
        same = self._held[skip : skip + size]
        if any(self._in_row(size, skip, period) for period in {_period(same), size}):
            return False
        return None if skip + size == len(self._held) and not ended else True

    def _in_row(self, size: int, skip: int, period: int) -> bool:
        first, held = self._first, self._held
        row = size
        while row < 2 * period and row < len(first) and first[-row - 1] == first[period - row - 1]:
            row += 1
        at = skip + size
        while row < 2 * period and at < len(held) and held[at] == held[at - period]:
            row, at = row + 1, at + 1
        return row >= 2 * period
