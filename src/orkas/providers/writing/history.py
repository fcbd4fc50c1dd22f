"""A history as the bytes of a request, built on what the request before it had.

A conversation grows at its end, so the bytes of its beginning are kept as one piece and only new messages are
written. After a compaction or a rewind everything is written again, from the bytes of each message.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from orkas.infra.messages import Message, encode
from orkas.providers.base import CompletionParams, Kept, ToolDef

__all__ = ["History", "Piece", "ToolBytes", "Writer"]

_RUNNING = 8
"""Conversations whose beginning is kept at the same time (a main one and its helpers)."""

_PIECES = 64
"""Pieces that are joined with each request before they are made one: a join copies them all."""


Piece: TypeAlias = bytes | memoryview


class Writer:
    """Writes messages one by one. A dialect adds how."""

    def __init__(self) -> None:
        self.images = True
        self._pieces: list[Piece] = []
        self._told = 0
        self._kept = Kept()

    @property
    def empty(self) -> bool:
        return not self._pieces

    @property
    def unwritten(self) -> int:
        """Pieces that no request has had yet."""
        return len(self._pieces) - self._told

    def write(self, *pieces: Piece) -> None:
        self._pieces.extend(pieces)

    def written(self) -> list[Piece]:
        """What stands so far, in pieces. Those of the request before are made one, so a single request joins once."""
        if self._told > _PIECES:
            self._pieces[: self._told] = [b"".join(self._pieces[: self._told])]
        self._told = len(self._pieces)
        return self._pieces

    def use(self, kept: Kept) -> None:
        self._kept = kept

    def kept(self, message: Message) -> bytes | None:
        return self._kept.get(message)

    @property
    def keeps_nothing(self) -> bool:
        return self._kept.empty

    def keep(self, message: Message, data: bytes) -> bytes:
        return self._kept.put(message, data)

    def add(self, message: Message) -> None:
        raise NotImplementedError

    def extend(self, messages: Sequence[Message]) -> None:
        """Write many. A dialect may do this faster than one by one."""
        for message in messages:
            self.add(message)

    def finish(self) -> list[Piece]:
        """The messages so far, closed, in pieces to be joined. May be called again after more messages."""
        raise NotImplementedError


class _Running:
    __slots__ = ("messages", "writer")

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.messages: list[Message] = []


class History:
    """The running conversations of one dialect, and the bytes of their messages."""

    def __init__(self) -> None:
        self._running: dict[str, list[_Running]] = {}
        self._kept: dict[str, Kept] = {}
        self.current: Writer | None = None
        """The writer of the last request."""

    def join(self, params: CompletionParams, make: Callable[[], Writer], *, images: bool = True) -> list[Piece]:
        """The messages of a request, in pieces to be joined. ``make``: a writer for a conversation that is new here."""
        messages = list(params.messages)
        key = f"{params.model}|{images}"
        running = self._find(key, messages) or self._start(key, make(), images)
        try:
            running.writer.extend(messages[len(running.messages) :])
        except BaseException:  # half a message may be written: nothing may be built on that
            self._running[key].remove(running)
            raise
        running.messages = messages
        self.current = running.writer
        self._kept[key].prune(messages)
        return running.writer.finish()

    def _find(self, key: str, messages: list[Message]) -> _Running | None:
        """The conversation that these messages continue: all it has are their beginning, the same objects."""
        rows = self._running.get(key, [])
        for i, row in enumerate(rows):
            known = row.messages
            if len(known) <= len(messages) and all(map(operator.is_, known, messages)):
                rows.insert(0, rows.pop(i))
                return row
        return None

    def _start(self, key: str, writer: Writer, images: bool) -> _Running:
        if key not in self._kept:
            if len(self._kept) >= _RUNNING:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._running.pop(oldest, None)
            self._kept[key] = Kept()
        writer.images = images
        writer.use(self._kept[key])
        row = _Running(writer)
        rows = self._running.setdefault(key, [])
        rows.insert(0, row)
        del rows[_RUNNING:]
        return row


class ToolBytes:
    """The tools of a request as bytes, written again only when they change."""

    def __init__(self, shape: Callable[[ToolDef], dict[str, Any]]) -> None:
        self._shape = shape
        self._tools: tuple[ToolDef, ...] = ()
        self._bytes = b""

    def get(self, tools: Sequence[ToolDef]) -> bytes:
        """A JSON list, or nothing where there are no tools."""
        key = tuple(tools)
        if key != self._tools:
            self._tools = key
            self._bytes = encode([self._shape(t) for t in key]) if key else b""
        return self._bytes
