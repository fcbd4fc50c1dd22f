"""The pairing invariant as pure functions: every tool call is followed at once by exactly one result.

Append, load, compaction, fork, import and the moment before sending call these functions; nobody else repairs.
All of them are deterministic and leave the messages they are given untouched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from orkas.harness.outcome import Mark, begun, fate, interrupted, named
from orkas.infra.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, calls_of

__all__ = [
    "Check", "Repaired", "cut_points", "fresh_id", "interrupted", "is_clean_cut", "is_paired", "is_tool_image",
    "open_calls", "repair", "speaks", "turn_start",
]  # fmt: skip


class Repaired(msgspec.Struct, eq=False):
    """What ``repair`` made of a history. ``messages`` holds the very objects given wherever nothing had to change."""

    messages: list[Message]
    synthesized: int = 0
    """Calls that got an "interrupted" result because there was no real one."""
    dropped: int = 0
    """Results left out: their call is gone, or the call already has a better one."""
    reordered: int = 0
    """Messages that had to move: the smallest number of moves that explains the new order."""
    renamed: int = 0
    """Calls that got an id of their own because theirs was empty or already taken."""

    @property
    def changed(self) -> bool:
        return bool(self.synthesized or self.dropped or self.reordered or self.renamed)


def is_paired(messages: Sequence[Message]) -> bool:
    """True exactly when ``repair`` would change nothing."""
    return Check().holds(messages)


class Check:
    """``is_paired`` for a history that grows: what held before is not walked again, so that it may run before each
    request. A history that does not continue the last one that held is walked whole.
    """

    __slots__ = ("_count", "_first", "_ids", "_known", "_last", "_length", "_rank", "_spoken")

    def __init__(self) -> None:
        self._length = 0
        self._last: Message | None = None
        self._ids: list[str | None] = []  # the ids of all calls so far
        self._known: set[str | None] = {""}  # the same as a set; an empty id is no id
        self._first = self._count = 0  # where the ids of the newest group begin; how many there are
        self._rank = -1  # place of the newest picture of that group
        self._spoken = False  # the user has spoken since the group

    def holds(self, messages: Sequence[Message]) -> bool:
        """Whether ``messages`` are paired."""
        n = self._length
        if n > len(messages) or (n and messages[n - 1] is not self._last):
            self.__init__()  # type: ignore[misc]  # from the beginning
        if not self._walk(messages):
            self.__init__()  # type: ignore[misc]
            return False
        self._length = len(messages)
        self._last = messages[-1] if messages else None
        return True

    def _walk(self, messages: Sequence[Message]) -> bool:
        """Go over what is new. Local names: this is the one loop that sees each message of a long session."""
        ids, known = self._ids, self._known
        first, count, rank, spoken = self._first, self._count, self._rank, self._spoken
        answered = count
        for m in messages[self._length :] if self._length else messages:
            kind = type(m)
            if kind is ToolMessage:
                if answered == count or m.tool_call_id != ids[answered]:  # type: ignore[union-attr]  # narrowing costs
                    return False
                answered += 1
                continue
            if answered != count:
                return False
            if kind is AssistantMessage:
                start = count
                for block in m.content:
                    if type(block) is ToolCall:
                        if block.id in known:
                            return False
                        known.add(block.id)
                        ids.append(block.id)
                        count += 1
                if count != start:
                    first, rank, spoken = start, -1, False
                else:
                    first = count
            elif (place := _picture_place(m, ids, first)) < 0:
                spoken = True
            elif spoken or place < rank:
                return False
            else:
                rank = place
        self._first, self._count, self._rank, self._spoken = first, count, rank, spoken
        return answered == count


def _picture_place(message: Message, ids: list[str | None], first: int) -> int:
    """The place of the call that a picture belongs to; -1 when the message is no picture of the newest group."""
    if type(message) is not UserMessage or message.origin != "tool_image":
        return -1
    return ids.index(message.tool_call_id, first) if message.tool_call_id in ids[first:] else -1


def is_tool_image(message: Message) -> bool:
    """A picture that a tool returned: it belongs to the group of results before it."""
    return type(message) is UserMessage and message.origin == "tool_image"


def speaks(message: Message) -> bool:
    """These are the words of the user: no picture of a tool, no summary."""
    return type(message) is UserMessage and message.origin is None


def turn_start(messages: Sequence[Message]) -> int:
    """Where the newest turn begins: at the first words of the user behind the last final answer; 0 without any."""
    start = len(messages)
    spoken = False
    for i in range(len(messages) - 1, -1, -1):
        m = messages[i]
        if speaks(m):
            start, spoken = i, True
        elif spoken and type(m) is AssistantMessage and m.stop_reason not in _GOES_ON and not calls_of(m):
            break
    return start if spoken else 0


_GOES_ON = ("tool_use", "pause")


def cut_points(messages: Sequence[Message]) -> list[int]:
    """All ``i`` at which the history may be cut into ``messages[:i]`` and ``messages[i:]``, ends included.

    No cut lies inside a group: an assistant message with its results and their pictures stays whole.
    """
    points = []
    waiting = 0
    for i, m in enumerate(messages):
        if type(m) is ToolMessage:
            waiting -= 1
            continue
        if waiting <= 0 and not is_tool_image(m):
            points.append(i)
        if type(m) is AssistantMessage:
            waiting = len(calls_of(m))
    if waiting <= 0:
        points.append(len(messages))
    return points


def is_clean_cut(messages: Sequence[Message], i: int) -> bool:
    """Whether ``i`` is one of ``cut_points(messages)``, without walking the whole history."""
    if not 0 <= i <= len(messages):
        return False
    if i < len(messages) and (type(messages[i]) is ToolMessage or is_tool_image(messages[i])):
        return False
    results = 0
    while i > 0 and type(messages[i - 1]) is not AssistantMessage:
        i -= 1
        results += type(messages[i]) is ToolMessage
    return i == 0 or results >= len(calls_of(messages[i - 1]))


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls of the newest assistant message that have no result yet, in declared order."""
    answered = set()
    for message in reversed(messages):
        if type(message) is ToolMessage:
            answered.add(message.tool_call_id)
        elif not is_tool_image(message):
            return [c for c in calls_of(message) if c.id not in answered]
    return []


def fresh_id(given: str, taken: set[str], place: int, numbers: dict[str, int]) -> str:
    """An id for a call whose own is empty or taken: ``given_2``, ``given_3``, …, or ``call_<place>`` and so on.

    ``numbers`` remembers where counting may go on for each beginning, so that an id used in every round costs no more
    each time. Keep it as long as ``taken``, and clear it when ids are taken out of that.
    """
    base = given or f"call_{place}"
    if not given and base not in taken:
        return base
    n = numbers.get(base, 2)
    while f"{base}_{n}" in taken:
        n += 1
    numbers[base] = n + 1
    return f"{base}_{n}"


def repair(messages: Sequence[Message], lossy: Collection[Message] = ()) -> Repaired:
    """The history with every call answered at once, in declared order; idempotent, and never loses spoken words.

    Results are matched by id with the nearest call before them, by position where an id is repeated. A real result
    beats a synthetic one. Pictures of tools stand behind all results of their group, in the order of the results;
    what the user said in between comes after them. A repeated or empty id is replaced in call and result; the first
    holder keeps it, so everything before the damage keeps its bytes.

    A call without a result gets one that says what the marks of its round prove (see ``outcome``). ``lossy``: messages
    behind which something could not be read; in a round with one of them, a missing mark proves nothing.
    """
    if is_paired(messages):
        return Repaired(list(messages))
    groups, renamed = _groups(messages)
    _match(messages, groups)
    return _Composer(messages, groups, renamed, {id(m) for m in lossy}).compose()


class _Slot(msgspec.Struct, eq=False):
    """One call, and the index of the message that answers it."""

    call: ToolCall
    given: str
    """The id as it was stored."""
    result: int | None = None


class _Pool(msgspec.Struct, eq=False):
    """Calls of one turn that share an id, and the results that name it."""

    turn: int
    slots: list[_Slot] = msgspec.field(default_factory=list)
    results: list[int] = msgspec.field(default_factory=list)
    early: list[int] = msgspec.field(default_factory=list)
    """Results that stand directly before the message that calls."""

    def settle(self, messages: Sequence[Message]) -> None:
        """Give each slot its result: by position, real before synthetic, an early one where there is no other."""
        count = len(self.slots)
        real = [i for i in self.results if not _synthetic(messages[i])]
        if len(real) >= count:
            chosen: list[int | None] = list(real[:count])
            spare: list[int] = []
        else:
            chosen = [*self.results[:count], *[None] * (count - len(self.results))]
            spare = [i for i in self.results[count:] if not _synthetic(messages[i])]
        spare += self.early
        for slot, index in zip(self.slots, chosen, strict=True):
            weak = index is None or _synthetic(messages[index])
            slot.result = spare.pop(0) if weak and spare else index


def _synthetic(message: Message) -> bool:
    return type(message) is ToolMessage and message.synthetic


def _groups(messages: Sequence[Message]) -> tuple[dict[int, list[_Slot]], int]:
    """The calls of each assistant message that has any, under ids that are unique; how many were renamed."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    groups: dict[int, list[_Slot]] = {}
    place = renamed = 0
    for i, m in enumerate(messages):
        for call in calls_of(m):
            place += 1
            given = call.id
            if not given or given in taken:
                call = replace(call, id=fresh_id(given, taken, place, numbers))  # noqa: PLW2901
                renamed += 1
            taken.add(call.id)
            groups.setdefault(i, []).append(_Slot(call, given))
    return groups, renamed


def _match(messages: Sequence[Message], groups: dict[int, list[_Slot]]) -> None:
    """Find the result of every slot."""
    pools: dict[str, _Pool] = {}
    settled: list[_Pool] = []
    early: dict[str, list[int]] = {}
    turn = 0
    for i, m in enumerate(messages):
        if isinstance(m, ToolMessage):
            if pool := pools.get(m.tool_call_id):
                pool.results.append(i)
            else:
                early.setdefault(m.tool_call_id, []).append(i)
            continue
        for slot in groups.get(i, ()):
            known = pools.get(slot.given)
            if known is None or known.results or known.turn != turn:
                known = pools[slot.given] = _Pool(turn, early=early.pop(slot.given, []))
                settled.append(known)
            known.slots.append(slot)
        early.clear()
        if not is_tool_image(m) and isinstance(m, UserMessage):
            turn += 1
    for pool in settled:
        pool.settle(messages)


class _Composer:
    """Writes the repaired history in order and keeps the counts."""

    def __init__(
        self, messages: Sequence[Message], groups: dict[int, list[_Slot]], renamed: int, lossy: set[int]
    ) -> None:
        self._messages = messages
        self._groups = groups
        self._lossy = lossy
        self._out: list[Message] = []
        self._order: list[int] = []
        self._report = Repaired(self._out, renamed=renamed)

    def compose(self) -> Repaired:
        moved: set[int] = set()
        results = 0
        for i, m in enumerate(self._messages):
            if isinstance(m, ToolMessage):
                results += 1
            elif i in self._groups:
                moved.update(self._group(i, self._groups[i]))
            elif i not in moved:
                self._keep(i, m)
        used = sum(slot.result is not None for slots in self._groups.values() for slot in slots)
        self._report.dropped = results - used
        self._report.reordered = len(self._order) - _longest_run(self._order)
        return self._report

    def _keep(self, index: int, message: Message) -> None:
        self._out.append(message)
        self._order.append(index)

    def _group(self, i: int, slots: list[_Slot]) -> list[int]:
        """One assistant message, its results, its pictures. Returns where the pictures stood."""
        self._keep(i, _with_calls(self._messages[i], slots))
        fates = self._fates(i, slots)
        for place, slot in enumerate(slots):
            if slot.result is None:
                self._out.append(interrupted(slot.call, fates[place]))
                self._report.synthesized += 1
            else:
                self._keep(slot.result, _result_of(self._messages[slot.result], slots, place))
        pictures = sorted(_pictures(self._messages, i, slots), key=lambda found: found[0])
        for rank, j in pictures:
            self._keep(j, _answering(self._messages[j], slots[rank].call.id))
        return [j for _, j in pictures]

    def _fates(self, i: int, slots: list[_Slot]) -> list[str]:
        """What can be said of each call of a group; empty when all have results."""
        if all(slot.result is not None for slot in slots):
            return []
        marks = [_mark(-1, self._messages[i])]
        marks += [_mark(p, self._messages[s.result]) for p, s in enumerate(slots) if s.result is not None]
        known = begun([slot.given for slot in slots], marks)
        lossy = bool(self._lossy) and self._has_lost(i)
        return [fate(place, known, lossy=lossy) for place in range(len(slots))]

    def _has_lost(self, i: int) -> bool:
        """Whether something that stood in this round could not be read."""
        while id(self._messages[i]) not in self._lossy:
            i += 1
            if i == len(self._messages) or not _in_round(self._messages[i]):
                return False
        return True


def _in_round(message: Message) -> bool:
    return type(message) is ToolMessage or is_tool_image(message)


def _mark(place: int, message: Message) -> Mark:
    return place, _starts(message), 0 if isinstance(message, UserMessage) else message.reads


def _starts(message: Message) -> str | None:
    return None if isinstance(message, UserMessage) else message.starts


def _with_calls(message: Message, slots: list[_Slot]) -> Message:
    """The message with the ids of its slots; the same object when they are its own."""
    if not _renamed(slots):
        return message
    calls = iter(slots)
    content = [next(calls).call if type(b) is ToolCall else b for b in message.content]
    return replace(message, content=content, starts=_own(_starts(message), slots, -1))


def _result_of(message: Message, slots: list[_Slot], place: int) -> Message:
    """The result of the call at ``place`` under its id; the same object when nothing was renamed."""
    if not _renamed(slots):
        return _answering(message, slots[place].call.id)
    return replace(message, tool_call_id=slots[place].call.id, starts=_own(_starts(message), slots, place))


def _renamed(slots: list[_Slot]) -> bool:
    return any(slot.call.id != slot.given for slot in slots)


def _own(starts: str | None, slots: list[_Slot], after: int) -> str | None:
    """The mark with the new id of the call that it names."""
    place = None if starts is None else named(starts, [slot.given for slot in slots], after)
    return starts if place is None else slots[place].call.id


def _answering(message: Message, call_id: str) -> Message:
    """A result or picture under this call id; the same object when it already has it."""
    if getattr(message, "tool_call_id", None) == call_id:
        return message
    return replace(message, tool_call_id=call_id)


def _pictures(messages: Sequence[Message], i: int, slots: list[_Slot]) -> Iterator[tuple[int, int]]:
    """(place of the call, index) of each picture of this group before the assistant speaks again."""
    places: dict[str | None, list[int]] = {}
    for place, slot in enumerate(slots):
        places.setdefault(slot.given, []).append(place)
    for place, slot in enumerate(slots):
        places.setdefault(slot.call.id, [place])
    for j in range(i + 1, len(messages)):
        m = messages[j]
        if type(m) is AssistantMessage:
            return
        if type(m) is UserMessage and m.origin == "tool_image" and (found := places.get(m.tool_call_id)):
            yield (found.pop(0) if len(found) > 1 else found[0]), j


def _longest_run(order: list[int]) -> int:
    """Length of the longest increasing subsequence: what need not move."""
    ends: list[int] = []
    for index in order:
        at = bisect_left(ends, index)
        ends[at : at + 1] = [index]
    return len(ends)
