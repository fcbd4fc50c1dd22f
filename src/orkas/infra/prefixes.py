"""What programs put in front of each line: numbers (``cat -n``, ``nl``, ``grep -n``), paths, times, names, marks.

What goes over several lines is broken by them. So a text is looked at without them, too, and what is found there is
told as it stands in the text as it came.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeAlias

from orkas.infra.patterns import lazy

__all__ = ["BOX", "Lines", "back", "peeled", "unmarked"]

Span: TypeAlias = tuple[int, int]
_DEEP = 3
"""Prefixes of one line, each in front of the next one."""
_MOST = 8
"""How many times longer than its content a text with prefixes may be."""
_APART = b"\n\x01\n"
"""Between parts that were not next to each other: nothing goes over it."""

BOX = rb"\xe2[\x94\x95][\x80-\xbf]"
"""Lines drawn around a text."""
_TIME = rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]{0,12}+\]?[ \t]"
_COUNT = (
    rb"\d{1,5}+(?:[\t:\-.)\]>]|[ ]{0,3}(?:\||" + BOX + rb"|\xe2\x86\x92)|[ ]{1,2})"
    rb"|\d{6,9}+(?:\t|(?<!\d{8})(?:[:\-]|[ ]?(?:[|]|" + BOX + rb")))"
)
"""Of six digits or more, the place of a table has a blank behind it; of eight, a colon."""
_AFTER = rb"-\d{1,7}-|:\d{1,7}:|:(?=[^\s:/]|[ ]{1,3}[0-9a-fA-F]{2})|[ ]{0,20}\|[ ]"
_NAME = rb"[^\s:|\-]{1,120}+(?:-[^\s:|\-]{1,120}+){0,8}?(?:" + _AFTER + b")"
_PREFIX = rb"\n[ \t<>|#*+\-\xe2\x80-\xbf]{0,60}+(?>(?=[\[\d])(?>" + _TIME + b"|" + _COUNT + b")|" + _NAME + b")"
"""With letters or digits, after any marks."""
_ONE = lazy(_PREFIX)
_LINE = _PREFIX + rb"[^\n]*+"
_RUN = lazy(_LINE + b"(?:" + _LINE + b")*+")  # begins with a letter, which is looked for fast
_FRAME = rb"[ \t<>|#*\xe2\x80-\xbf]"
_MARKS = (lazy(rb"\n[+\- ]"), lazy(rb"\n" + _FRAME + b"++"), lazy(rb"\n[+\- ]" + _FRAME + b"*+"))
"""Signs of a diff; quotes, frames and indents; both."""
_BITS = lazy(rb" [01]{8} [01]{8}")
_LONGER = lazy(_PREFIX + rb"|(?: [01]{8})++")
"""What makes a line longer than what it holds: a prefix, and the bits of ``xxd -b``."""


class Lines:
    """Lines of a text without what stood in front of them."""

    def __init__(self, data: bytes, prefix: re.Pattern[bytes], parts: list[Span], under: Lines | None = None) -> None:
        self._data, self._prefix, self._parts, self._under = data, prefix, parts, under
        self.text = _APART.join([prefix.sub(b"\n", data[start:stop]) for start, stop in parts])
        self._kept: list[int] = []
        self._from: list[int] = []

    def span(self, span: Span) -> Span:
        """Where this stood, with the prefixes inside of it."""
        return self.place(span[0]), self.place(span[1] - 1) + 1

    def place(self, at: int) -> int:
        """Where a byte stood."""
        if not self._kept:
            self._measure()
        n = bisect_right(self._kept, at) - 1
        place = max(0, self._from[n] + at - self._kept[n] - 1)  # the first line end was put there
        return self._under.place(place) if self._under else place

    def _measure(self) -> None:
        size = 0
        for start, stop in self._parts:
            at = start
            for found in self._prefix.finditer(self._data, start, stop):
                self._kept += [size, size + found.start() - at]
                self._from += [at, found.start()]
                size += found.start() - at + 1
                at = found.end()
            self._kept.append(size)
            self._from.append(at)
            size += stop - at + len(_APART)


def peeled(data: bytes) -> Iterator[Lines]:
    """Those lines that have a prefix, each with the line before it, without the first prefix, without the second one,
    and so on. Marks alone are none."""
    lines: Lines | None = None
    for _ in range(_DEEP):
        data = b"\n" + data
        if not (parts := _parts(data)):
            return
        yield (lines := Lines(data, _ONE, parts, lines))
        data = lines.text


def _parts(data: bytes) -> list[Span]:
    parts: list[Span] = []
    last = 0
    for run in _RUN.finditer(data):
        start = max(last, data.rfind(b"\n", last, run.start()))
        if parts and start == last:
            parts[-1] = parts[-1][0], run.end()
        else:
            parts.append((start, run.end()))
        last = run.end()
    return parts


def unmarked(data: bytes) -> Iterator[Lines]:
    """All lines, without the marks in front of them: as they may be meant."""
    data = b"\n" + data
    for marks in _MARKS:
        if marks.search(data):
            yield Lines(data, marks, [(0, len(data))])


def back(data: bytes, stop: int, size: int) -> int:
    """From where on there is so much before ``stop``, without prefixes."""
    start = max(0, stop - size)
    if not start or not (_ONE.search(data, start, stop) or _BITS.search(data, start, stop)):
        return start
    for most in (2, 4, _MOST):
        start = _counted(data, max(0, stop - most * size), stop, size)
        if start > stop - most * size:
            break
    return start


def _counted(data: bytes, least: int, stop: int, size: int) -> int:
    for found in reversed([*_LONGER.finditer(data, least, stop)]):
        if stop - found.end() >= size:
            break
        size -= stop - found.end()
        stop = found.start()
    return max(least, stop - size)
