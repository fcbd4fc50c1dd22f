"""What one append will add to a history: checked and complete before any of it is added."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from orkas.harness.outcome import Mark, begun, fate, interrupted, named
from orkas.harness.pairing import fresh_id, is_tool_image
from orkas.harness.sessions.attachments import Attachments
from orkas.harness.sessions.store import LINE_CAP, SPILL_CAP
from orkas.harness.taint import file_stem, is_foreign
from orkas.infra.errors import StorageError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    calls_of,
    encode,
    new_id,
    settled,
)  # fmt: skip

__all__ = ["Draft", "Round", "place"]

_LONG_TEXT = 1_000_000
"""Characters of one spoken text that a record holds; a longer one (half a megabyte of tokens) is previewed too."""


class _Call(msgspec.Struct, eq=False):
    call: ToolCall
    given: str
    """The id the caller knows it by."""
    open: bool = True


class Round(msgspec.Struct, eq=False):
    """The newest group of calls, and the ids that are taken."""

    calls: list[_Call] = msgspec.field(default_factory=list)
    call_ids: set[str] = msgspec.field(default_factory=set)
    record_ids: set[str] = msgspec.field(default_factory=set)
    numbers: dict[str, int] = msgspec.field(default_factory=dict)
    """See ``fresh_id``."""
    marks: list[Mark] = msgspec.field(default_factory=list)
    """What the records of the group say of calls that begin, for ``outcome.begun``."""

    @classmethod
    def after(cls, messages: Sequence[Message]) -> Round:
        """The state behind a paired history: no call is open."""
        made = cls(record_ids={m.id for m in messages})
        for m in messages:
            if type(m) is AssistantMessage and (calls := calls_of(m)):
                made.calls = [_Call(c, c.id, open=False) for c in calls]
                made.call_ids.update([c.id for c in calls])
        return made


class Draft:
    """Collects messages for one append.

    ``lines``: all that will be stored, each with its JSON; ``given``: those the caller gave, as they will be stored.
    """

    def __init__(self, round: Round, attachments: Attachments) -> None:
        self.round = round
        self._before = round.calls, [c.open for c in round.calls], round.marks, len(round.marks)
        self.lines: list[tuple[Message, bytes]] = []
        self.given: list[Message] = []
        self._attachments = attachments
        self._new_call_ids: list[str] = []
        self._new_record_ids: list[str] = []

    def undo(self) -> None:
        """Forget the draft: the round is as it was, the ids it took are free again."""
        self.round.calls, opened, self.round.marks, marked = self._before
        for call, is_open in zip(self.round.calls, opened, strict=True):
            call.open = is_open
        del self.round.marks[marked:]
        self.round.call_ids.difference_update(self._new_call_ids)
        self.round.numbers.clear()
        self.round.record_ids.difference_update(self._new_record_ids)

    def add(self, message: Message) -> None:
        """Take one message in.

        Raises:
            ValueError: a result that answers no open call.
        """
        message, line = settled(message)
        as_given = message
        if isinstance(message, ToolMessage):
            message = self._answer(message)
        elif is_tool_image(message) and (place := self._find(message.tool_call_id)):  # type: ignore[union-attr]
            message = _named(message, place.call.id)
        else:
            self._close_open()
            if isinstance(message, AssistantMessage):
                message = self._register(message)
        message = self._slim(message)
        if message.id and message.id in self.round.record_ids:
            message = replace(message, id=new_id())
        self._put(message, line if message is as_given else encode(message))
        self.given.append(message)

    def check_sizes(self, lines: Sequence[tuple[Message, bytes]]) -> None:
        """Raise StorageError when a line would be longer than ``LINE_CAP``."""
        longest = max((len(line) for _, line in lines), default=0)
        if longest > LINE_CAP:
            raise StorageError(
                f"a message of {longest / 1e6:.1f} MB is more than one record of a session may hold",
                hint="put the material into a file and name the file in the message",
            )

    def _put(self, message: Message, line: bytes) -> None:
        if message.id and message.id not in self.round.record_ids:
            self.round.record_ids.add(message.id)
            self._new_record_ids.append(message.id)
        self.lines.append((message, line))

    def _close_open(self) -> None:
        if not [call for call in self.round.calls if call.open]:
            return
        known = begun([c.call.id for c in self.round.calls], self.round.marks)
        for place, call in enumerate(self.round.calls):
            if call.open:
                call.open = False
                result = interrupted(call.call, fate(place, known))
                self._put(result, encode(result))

    def _register(self, message: AssistantMessage) -> AssistantMessage:
        """The message with ids of its own for all calls, which are open from now on."""
        calls = []
        taken = self.round.call_ids
        for call in calls_of(message):
            own = call
            if not call.id or call.id in taken:
                own = replace(call, id=fresh_id(call.id, taken, len(taken) + 1, self.round.numbers))
            taken.add(own.id)
            self._new_call_ids.append(own.id)
            calls.append(_Call(own, call.id))
        if not calls:
            return message
        self.round.calls = calls
        starts = self._starts(message.starts)
        self.round.marks = [(-1, starts, message.reads)]
        if all(c.call.id == c.given for c in calls):
            return message
        owns = iter(calls)
        content = [next(owns).call if type(b) is ToolCall else b for b in message.content]
        return replace(message, content=content, starts=starts)

    def _starts(self, starts: str | None, after: int = -1) -> str | None:
        """The mark with the id under which the call that it names is stored."""
        if starts is None:
            return None
        calls = self.round.calls
        if after + 1 < len(calls) and calls[after + 1].call.id == starts:  # nearly always
            return starts
        own, given = (named(starts, ids, after) for ids in ([c.call.id for c in calls], [c.given for c in calls]))
        places = [place for place in (own, given) if place is not None]
        place = next((p for p in places if p > after), places[0] if places else None)
        return starts if place is None else calls[place].call.id

    def _answer(self, message: ToolMessage) -> Message:
        call = self._find(message.tool_call_id, only_open=True)
        if call is None:
            raise ValueError(f"no open call {message.tool_call_id!r} for this result")
        call.open = False
        place = self.round.calls.index(call)
        starts = self._starts(message.starts, place)
        self.round.marks.append((place, starts, message.reads))
        if starts != message.starts:
            message = replace(message, starts=starts)
        return _named(message, call.call.id)

    def _find(self, call_id: str | None, *, only_open: bool = False) -> _Call | None:
        """The call of this round with that id: by the id we gave it, else by the one the caller knows."""
        for call in self.round.calls:
            if call.call.id == call_id and (call.open or not only_open):
                return call
        for call in self.round.calls:
            if call.given == call_id and (call.open or not only_open):
                return call
        return None

    def _slim(self, message: Message) -> Message:
        """The message with large pictures and texts in files; the same object when nothing is large."""
        if _is_small(message):
            return message
        result = type(message) is ToolMessage
        cap = SPILL_CAP if result else _LONG_TEXT
        content = message.content
        texts = [len(b.text) for b in content if type(b) is Text]
        if len(texts) > 1 and sum(texts) > cap:
            if result:
                content = _joined(content)
            else:
                cap //= len(texts)
        content = [self._slim_block(b, cap, message) for b in content]
        if len(content) != len(message.content):
            return replace(message, content=content)
        if all(new is old for new, old in zip(content, message.content, strict=True)):
            return message
        return replace(message, content=content)

    def _slim_block(self, block: Block, cap: int, message: Message) -> Block:
        if type(block) is Image:
            return self._attachments.store_image(block)
        if type(block) is Text and len(block.text) > max(cap, _SHORT):
            if type(message) is not ToolMessage and self._attachments.folder is None:
                return block
            short = self._attachments.shorten(block.text, self._name(message), cap=max(cap, _SHORT))
            return replace(block, text=short.text, file=block.file or short.file, bytes=block.bytes or short.bytes)
        return block

    def _name(self, message: Message) -> str:
        """What a spilled text is called after: the tool, or who spoke."""
        if not isinstance(message, ToolMessage):
            return "user" if isinstance(message, UserMessage) else "assistant"
        name = next((c.call.name for c in self.round.calls if c.call.id == message.tool_call_id), "result")
        return file_stem(name, foreign=is_foreign(message))


_SHORT = 13_000
"""Not worth a preview: that would hardly be shorter."""


def _is_small(message: Message) -> bool:
    """Nothing in it could be large."""
    size = 0
    for block in message.content:
        if type(block) is Text:
            size += len(block.text)
        elif type(block) is Image:
            return False
    return size <= _SHORT


def _joined(content: list[Block]) -> list[Block]:
    """All texts as one, in the place of the first: so they are previewed and kept as one."""
    texts = [b for b in content if type(b) is Text]
    whole = Text(text="\n".join(b.text for b in texts))
    return [whole if b is texts[0] else b for b in content if type(b) is not Text or b is texts[0]]


def _named(message: Message, call_id: str) -> Message:
    if message.tool_call_id == call_id:  # type: ignore[union-attr]
        return message
    return replace(message, tool_call_id=call_id)


def place(messages: list[Message], message: Message) -> None:
    """Put a message at the end; a result or a picture among its group, in declared order."""
    at = len(messages)
    if type(message) is ToolMessage or is_tool_image(message):
        start = next((i for i in range(at, 0, -1) if type(messages[i - 1]) is AssistantMessage), 0)
        order = {c.id: n for n, c in enumerate(calls_of(messages[start - 1]))} if start else {}
        mine = _rank(message, order)
        if mine is not _LAST:
            at = start
            while at < len(messages) and _rank(messages[at], order) <= mine:
                at += 1
    messages.insert(at, message)


_LAST = (2, 0)


def _rank(message: Message, order: dict[str, int]) -> tuple[int, int]:
    """Results come first, then pictures, each in the order of the calls, then everything else."""
    if isinstance(message, AssistantMessage) or message.tool_call_id not in order:
        return _LAST
    if isinstance(message, ToolMessage):
        return 0, order[message.tool_call_id]
    return (1, order[message.tool_call_id]) if is_tool_image(message) else _LAST
