"""Bytes into the messages of an AWS event stream, incrementally (``application/vnd.amazon.eventstream``).

A message: total length, length of its headers, CRC-32 of these two, headers, payload, CRC-32 of all before it. Both
sums are checked: what they do not confirm is never read.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

__all__ = ["Frame", "Frames"]

_PRELUDE = struct.Struct(">III")
_OVERHEAD = 16
"""Bytes of a message beside its headers and its payload."""
_LONGEST = 25 * 1024 * 1024
"""Longer than any message may be (16 MiB of payload, 128 KiB of headers): such a length is damage."""
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; types 6 and 7 carry their length."""
_KNOWN = 128
"""Headers kept as they were read: a stream repeats a handful of them."""


class Frame(NamedTuple):
    """One message. ``kind``: ``event``, ``exception`` or ``error``; ``name``: which."""

    kind: str
    name: str
    payload: bytes
    said: str = ""
    """The message of an ``error``, which has it in its headers."""


class Frames:
    """One stream. ``feed`` gives the messages that a network read completed; ``damaged`` is set at the first one that
    is not as it was sent, and nothing is read from then on."""

    __slots__ = ("_have", "_known", "_need", "_tail", "damaged")

    def __init__(self) -> None:
        self.damaged = False
        self._tail: list[bytes] = []
        self._have = 0
        self._need = 12
        self._known: dict[bytes, tuple[str, str, str] | None] = {}

    def feed(self, data: bytes) -> list[Frame]:
        self._tail.append(data)
        self._have += len(data)
        if self._have < self._need or self.damaged:
            return []
        data = b"".join(self._tail) if len(self._tail) > 1 else data
        frames: list[Frame] = []
        at, end, view, known = 0, len(data), memoryview(data), self._known
        while end - at >= 12:
            total, size, told = _PRELUDE.unpack_from(data, at)
            if not _OVERHEAD + size <= total <= _LONGEST or crc32(view[at : at + 8]) != told:
                self.damaged = True
                return frames
            if end - at < total:
                break
            last = at + total - 4
            if crc32(view[at:last]) != int.from_bytes(view[last : at + total]):
                self.damaged = True
                return frames
            start = at + 12 + size
            raw = data[at + 12 : start]
            if (head := known[raw] if raw in known else self._headers(raw)) is not None:
                frames.append(Frame(head[0], head[1], data[start:last], head[2]))
            at = last + 4
        self._keep(data[at:] if at else data)
        return frames

    def _keep(self, rest: bytes) -> None:
        self._tail = [rest] if rest else []
        self._have = len(rest)
        self._need = int.from_bytes(rest[:4]) if len(rest) >= 12 else 12

    def _headers(self, raw: bytes) -> tuple[str, str, str] | None:
        """Kind, name and words of headers not seen before; None for a message of a kind to come."""
        found = _read(raw)
        if len(self._known) < _KNOWN:
            self._known[raw] = found
        return found


def _read(raw: bytes) -> tuple[str, str, str] | None:
    texts: dict[str, str] = {}
    at, end = 0, len(raw)
    while at < end:
        name = raw[at + 1 : (at := at + 1 + raw[at])].decode("utf-8", "replace")
        kind = raw[at] if at < end else -1
        at += 1
        if kind in (6, 7):
            size = int.from_bytes(raw[at : at + 2])
            texts[name] = raw[at + 2 : at + 2 + size].decode("utf-8", "replace")
            at += 2 + size
        elif kind in _SIZES:
            at += _SIZES[kind]
        else:
            break  # a type to come: where the next header begins is not known
    kind_ = texts.get(":message-type", "")
    named = texts.get(":exception-type") or texts.get(":error-code") or texts.get(":event-type") or ""
    return (kind_, named, texts.get(":error-message", "")) if kind_ in ("event", "exception", "error") else None
