"""The limit of a model's output: a text that it cut goes on once, a call that it cut never runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

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

__all__ = ["STILL_CUT", "Seam", "continuation", "cut_call", "is_cut", "is_silent_overflow", "joined"]

LEAST, MOST = 12, 4096
"""Characters that the end of a text and the beginning of its continuation may have in common and still be taken for
said twice. Less is coincidence."""

STILL_CUT = "The answer is longer than the model may write at once and stops before its end. Say “continue” to go on."

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
    """One message of a text and its continuation: what both say, once; no call of the second. Its thinking belongs to a
    request that is not in the history, so it stays only where there was no text before it; and with it
    goes what its vendor knows the rest of the reply by."""
    rest: list[Block] = [b for b in second.content if not isinstance(b, ToolCall)]
    before: list[Block] = list(first.content)
    if text_of(first):
        if any(isinstance(b, Thinking) for b in rest):
            rest = [replace(b, vendor=None) for b in rest if not isinstance(b, Thinking | Opaque)]
        rest = _without(rest, overlap(text_of(first), text_of(second)))
    else:
        before = [Thinking(text=b.text) for b in first.content if isinstance(b, Thinking) and b.text]
    return replace(
        second, content=_sewn([*before, *rest]), usage=_usage(first, second), id=new_id(), ts=now(),
        stop_reason="stop" if second.stop_reason == "tool_use" else second.stop_reason,
        vendor={**(first.vendor or {}), **(second.vendor or {})} or None,
    )  # fmt: skip


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
    """Characters at the beginning of ``second`` that repeat the end of ``first``; 0 for less than ``LEAST``."""
    seam = Seam(first)
    seam.feed(second)
    seam.end()
    return seam.overlap


class Seam:
    """Takes the repetition out of a continuation as it comes. Its beginning is held back until the overlap is known.

    ``overlap``: characters that were taken out, once known.
    """

    __slots__ = ("_candidates", "_decided", "_held", "_tail", "overlap")

    def __init__(self, first: str) -> None:
        self._tail = first[-MOST:]
        self._candidates: Sequence[int] = range(len(self._tail) - LEAST + 1)
        self._held = ""
        self._decided = False
        self.overlap = 0

    def feed(self, text: str) -> str:
        """What of ``text``, and of what was held back before it, may be told."""
        if self._decided:
            return text
        self._held += text
        self._candidates = [at for at in self._candidates if self._agrees(at)]
        longer = bool(self._candidates) and len(self._tail) - self._candidates[0] > len(self._held)
        return "" if longer or not self._held else self._decide()

    def end(self) -> str:
        """The continuation is over: what is still to be told."""
        return "" if self._decided else self._decide()

    def sift(self, batch: Sequence[Part]) -> Iterator[Part]:
        """``feed`` for the parts of one read."""
        for part in batch:
            if type(part) is not TextPart:
                yield part
            elif text := self.feed(part.text):
                yield TextPart(text)

    def _agrees(self, at: int) -> bool:
        """The tail from here and the continuation are the same, as far as both go."""
        length = min(len(self._tail) - at, len(self._held))
        return self._tail.startswith(self._held[:length], at)

    def _decide(self) -> str:
        """The longest candidate that is there whole is the overlap."""
        self._decided = True
        sizes = (len(self._tail) - at for at in self._candidates)
        self.overlap = next((size for size in sizes if size <= len(self._held)), 0)
        held, self._held = self._held, ""
        return held[self.overlap :]
