"""What stays of a history and what is replaced: decided before anybody is asked for a summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from orkas.harness.context.fold import clip
from orkas.harness.context.policy import Budgets
from orkas.harness.pairing import cut_points, is_tool_image, speaks, turn_start
from orkas.harness.taint import file_stem, is_foreign
from orkas.infra.messages import Block, Image, Message, Text, ToolMessage, calls_of, text_of

__all__ = ["Plan", "Scales", "clean_start", "make", "too_large"]


class Scales(msgspec.Struct, frozen=True):
    """How sizes are told, and where a text is kept whole."""

    messages: Callable[[Sequence[Message]], int]
    text: Callable[[str], int]
    keep: Callable[[str, str], str | None]
    """``(text, name)`` → the name of its file among the files of the session; None: it has none."""


class Plan(msgspec.Struct, eq=False):
    """One way to split a history."""

    older: list[Message]
    """What is replaced, in order; the summary that the history begins with is not among them."""
    staying: list[Message]
    """What follows the summary: the running request where it is older than the tail, then the tail."""
    clipped: bool
    """Something that stays had to be quoted in part."""

    @property
    def pointless(self) -> bool:
        return not self.older and not self.clipped


def clean_start(messages: Sequence[Message], at: int) -> int:
    """The last boundary at or before ``at`` at which the kept part may begin."""
    return max(point for point in cut_points(messages) if point <= max(at, 0))


def make(messages: Sequence[Message], budgets: Budgets, limit: int, scales: Scales) -> Plan:
    """Split a paired history so that what stays fits the budgets.

    The newest messages stay, at least the last round if it can be made to fit; the words of the running request stay
    verbatim, unless with them ``limit`` could not be kept.
    """
    start = _tail_start(messages, budgets.tail, scales)
    request = _request(messages, start, budgets, limit, scales)
    tail = list(messages[start:])
    if (spoken := _last_spoken(tail)) is not None:
        tail[spoken] = _quoted(tail[spoken], budgets, limit, scales)
    tail = _fitting(tail, budgets.tail, scales)
    staying = [*request, *tail]
    known = {id(m) for m in messages}
    kept = {id(m) for m in staying} | {m.id for m in staying if id(m) not in known and m.id}
    older = [m for m in messages if id(m) not in kept and m.id not in kept and getattr(m, "origin", "") != "summary"]
    return Plan(older, staying, any(id(m) not in known for m in staying))


def _last_spoken(messages: Sequence[Message]) -> int | None:
    return next((i for i in range(len(messages) - 1, -1, -1) if speaks(messages[i])), None)


def _tail_start(messages: Sequence[Message], tokens: int, scales: Scales) -> int:
    """Where the tail begins: the most that fits, else the last round, if that is one that can be made smaller."""
    points = [p for p in cut_points(messages) if p < len(messages)]
    if not points:
        return len(messages)
    weight, end, start = 0, len(messages), points[-1]
    for point in reversed(points):
        weight += scales.messages(messages[point:end])
        if weight > tokens or getattr(messages[point], "origin", None) == "summary":
            break
        start = end = point
    last = messages[points[-1]]
    if start == points[-1] and calls_of(last) and scales.messages([last]) > tokens:
        return len(messages)  # what the model itself wrote is never cut: this round goes into the summary
    return start


def _request(messages: Sequence[Message], start: int, budgets: Budgets, limit: int, scales: Scales) -> list[Message]:
    """The words of the running request that stand before the tail: the last always, earlier ones as there is room."""
    own = [m for m in messages[turn_start(messages) : start] if speaks(m)]
    if not own:
        return []
    inside = _last_spoken(messages[start:]) is not None
    kept = [] if inside else [_quoted(own.pop(), budgets, limit, scales)]
    room = budgets.request // 2 - scales.messages(kept)
    for message in reversed(own):
        room -= scales.messages([message])
        if room < 0:
            break
        kept.insert(0, message)
    return kept


def _quoted(message: Message, budgets: Budgets, limit: int, scales: Scales) -> Message:
    """The message as it is, or, where it leaves no room for anything else, in part and with the file of the whole."""
    weight = scales.messages([message])
    rest = budgets.tail + budgets.summary + budgets.ledger
    if weight <= budgets.request or weight + rest <= limit:
        return message
    return _shortened(message, budgets.request // 2, "user", scales)


def _fitting(tail: list[Message], tokens: int, scales: Scales) -> list[Message]:
    """The tail with its results cut until it fits, the longest first; pictures go when that is not enough."""
    over = scales.messages(tail) - tokens
    spoken = sum(scales.messages([m]) for m in tail if not _cuttable(m))
    if over <= 0:
        return tail
    cuttable = sorted((scales.messages([m]) for m in tail if _cuttable(m)), reverse=True)
    share = _share(cuttable, max(0, tokens - spoken))
    large = [_cuttable(m) and scales.messages([m]) > share for m in tail]
    return [_shortened(m, share, _name(m, tail), scales) if cut else m for m, cut in zip(tail, large, strict=True)]


def _cuttable(message: Message) -> bool:
    return type(message) is ToolMessage or is_tool_image(message)


def _share(weights: Sequence[int], room: int) -> int:
    """The weight to which all must be cut so that together they fit; ``weights`` largest first."""
    rest = sum(weights)
    for count, weight in enumerate(weights, 1):
        rest -= weight
        share = (room - rest) // count
        following = weights[count] if count < len(weights) else 0
        if share >= following:
            return max(share, _LEAST)
    return _LEAST


_LEAST = 48
"""Tokens that a cut result keeps: little more than the note of where the whole is."""


def _name(message: Message, tail: Sequence[Message]) -> str:
    call = getattr(message, "tool_call_id", None)
    name = next((c.name for m in tail for c in calls_of(m) if c.id == call), "result")
    return file_stem(name, foreign=is_foreign(message))


def _shortened(message: Message, tokens: int, name: str, scales: Scales) -> Message:
    """The message with its texts cut to about ``tokens``, the whole in a file where the session has one; same id."""
    pictures = [b for b in message.content if type(b) is Image]
    bare = scales.messages([replace(message, content=[b for b in message.content if type(b) is not Text])])
    drop = bool(pictures) and bare > tokens
    content: list[Block] = []
    for block in message.content:
        if type(block) is Text:
            content.append(_cut(block, max(_LEAST, tokens - (0 if drop else bare)), name, scales))
        elif drop and type(block) is Image:
            content.append(Text(text="[a picture stood here; it is in the archive of this session]"))
        else:
            content.append(block)
    return replace(message, content=content)


def _cut(block: Text, tokens: int, name: str, scales: Scales) -> Text:
    if scales.text(block.text) <= tokens:
        return block
    file = block.file or scales.keep(block.text, name)
    size = block.bytes or (len(block.text.encode("utf-8", "replace")) if file else None)
    where = f"left out here; the whole is kept as {file} among the files of this session" if file else (
        "left out here; the whole is in the archive of this session"
    )
    return replace(block, text=clip(block.text, tokens, scales.text, note=where), file=file, bytes=size)


def too_large(messages: Sequence[Message], scales: Scales) -> str:
    """Which part of a history is the large one, in words."""
    spoken = [m for m in messages if speaks(m)]
    largest = max(messages, key=lambda m: scales.messages([m]))
    who = "your message" if largest in spoken[-1:] else "one message"
    return f"{who} of {len(text_of(largest)):,} characters takes about {scales.messages([largest]):,} tokens"
