"""Tables of bytes, as ``xxd``, ``hexdump`` and ``od`` print them: a place, numbers, and often the text beside them.

A value spreads over several lines there, with places and text in between; a line that holds some of it is hidden but
for its place, and what is in front of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TypeAlias

from orkas.infra.patterns import lazy

__all__ = ["last_lines", "may_be_in", "spans"]

_Finds: TypeAlias = Callable[[bytes], Iterable[tuple[int, int]]]
_PLACE = rb"[0-9a-fA-F]{6,16}:?[ \t]"
_LEAD = rb"[^0-9a-fA-F\r\n]{0,40}+"
"""Marks, blanks and other letters in front of the place."""
_FIRST = re.compile(_LEAD + _PLACE)
_LATER = re.compile(b"\n" + _LEAD + _PLACE)
_BEGUN = re.compile(_LEAD + rb"(?:[0-9a-fA-F]{1,16}:?)?")
_LINE = lazy(b"(?m)^" + _LEAD + rb"[0-9a-fA-F]{6,16}(:?)[ \t]+(?! *$)([^\r\n]+)")
_FRAMES = tuple(f" {line}".encode() for line in "│┃║")
"""A line drawn around a text, where it ends."""
_FRAME = len(_FRAMES[0])
_BORDER = b" \t|" + b"".join(_FRAMES)
_MARKS = b"*+-<>|# \t\r\n"
"""What the line may consist of that stands for lines like the one before it, and what is between two files."""
_WIDE = 4
"""Columns of a character in ``od -c``."""


def may_be_in(data: bytes) -> bool:
    """Whether a line begins as those of a table do."""
    return _FIRST.match(data) is not None or _LATER.search(data) is not None


def last_lines(data: bytes) -> int:
    """Where the table begins with which ``data`` ends; its length: it ends with none. A last line that has only begun
    goes with those before it."""
    start = data.rfind(b"\n") + 1
    end = len(data) if start == len(data) or not _BEGUN.fullmatch(data, start) else start
    first = len(data)
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if _FIRST.match(data, start):
            first = start
        elif data[start:end].strip(_MARKS) or b"*" not in data[start:end]:
            break
        end = start
    return first


def spans(data: bytes, values: list[_Finds]) -> Iterator[tuple[int, int]]:
    """What of the lines is to be hidden because a value, or a piece of it, stands there."""
    for block in _blocks(data):
        for lines in _sides(block):
            yield from {span for read in _READERS for span in _found(lines, [*read(lines)], values)}


def _sides(block: list[re.Match[bytes]]) -> Iterator[list[re.Match[bytes]]]:
    """The lines; of a diff also those of each file alone."""
    yield block
    first = [line[0][:1] for line in block]
    if b"+" in first and b"-" in first:
        for other in (b"+", b"-"):
            yield [line for line, mark in zip(block, first, strict=True) if mark != other]


def _blocks(data: bytes) -> Iterator[list[re.Match[bytes]]]:
    """Lines of one table each."""
    block: list[re.Match[bytes]] = []
    for line in _LINE.finditer(data):
        if block and data[block[-1].end() : line.start()].strip(_MARKS):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _found(block: list[re.Match[bytes]], read: list[bytes], values: list[_Finds]) -> Iterator[tuple[int, int]]:
    whole = b"".join(read)
    ends: list[int] = []
    for finds in values:
        for begin, end in finds(whole):
            ends = ends or [*accumulate(map(len, read))]
            for n in range(bisect_right(ends, begin), bisect_right(ends, end - 1) + 1):
                yield block[n].span(2)


# How the lines may be meant: each gives what they hold, line by line, or too little where they mean something else


def _cells(line: re.Match[bytes]) -> bytes:
    """The numbers of a line, without the text beside them."""
    rest = line[2].rstrip(_BORDER)
    if line[1]:
        return rest.partition(b"  ")[0]
    return rest.partition(b"|")[0].partition(b"  >")[0]


def _hexadecimal(block: list[re.Match[bytes]]) -> Iterator[bytes]:
    for line in block:
        yield _hex(_cells(line))


def _hex(cells: bytes) -> bytes:
    try:
        return bytes.fromhex(cells.decode("ascii"))
    except ValueError:  # the text beside it, or other numbers
        found = _HEX_CELLS.match(cells)
        return bytes.fromhex(found[0].decode()) if found else b""


_HEX_CELLS = lazy(rb"(?:[0-9a-fA-F]{2}[ \t]{1,3}){1,16}(?![0-9a-fA-F]{2}[ \t\r\n])")


def _bits(block: list[re.Match[bytes]]) -> Iterator[bytes]:
    """``xxd -b``."""
    for line in block:
        bits = b"".join(_cells(line).split())
        if len(bits) % 8 or bits.strip(b"01"):
            return
        yield int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""


def _words(block: list[re.Match[bytes]]) -> Iterator[bytes]:
    """Hexadecimal words of a machine that writes the low byte first: ``hexdump``, ``od -x``."""
    for line in block:
        cells = _cells(line).split()
        wide = len(cells[0]) if cells else 0
        if wide not in (4, 8, 16):
            return
        yield b"".join(_hex(cell)[::-1] for cell in cells)


def _octal(block: list[re.Match[bytes]]) -> Iterator[bytes]:
    """``od``, ``od -b``."""
    for line in block:
        try:
            cells = _cells(line).split()
            wide = 2 if cells and len(cells[0]) == 6 else 1
            yield b"".join(int(cell, 8).to_bytes(wide, "little") for cell in cells)
        except (ValueError, OverflowError):
            return


def _decimal(block: list[re.Match[bytes]]) -> Iterator[bytes]:
    """``od -tu1``, ``od -d``."""
    for line in block:
        try:
            numbers = [int(cell) for cell in _cells(line).split()]
            yield b"".join(n.to_bytes(1 + (max(numbers) > 255), "little") for n in numbers)
        except (ValueError, OverflowError):
            return


def _characters(block: list[re.Match[bytes]]) -> Iterator[bytes]:
    """``od -c``, ``od -a``, ``hexdump -c``: each in its column."""
    for line in block:
        text = line[0][line.start(1) - line.start() :]
        text = text[:-_FRAME] if text.endswith(_FRAMES) else text
        yield b"".join(_meant(text[n : n + _WIDE]) for n in range(0, len(text), _WIDE))


def _meant(cell: bytes) -> bytes:
    text = cell.strip()
    if not text or text == b"sp":
        return b" "
    if len(text) == 1:
        return text
    return _NAMED.get(text, b"") or (bytes([int(text, 8) & 255]) if _OCTAL.fullmatch(text) else b"\n")


_NAMED = {rb"\n": b"\n", rb"\t": b"\t", rb"\r": b"\r", rb"\0": b"\0", b"nl": b"\n", b"ht": b"\t", b"cr": b"\r"}
_OCTAL = re.compile(rb"[0-7]{3}")
_READERS: tuple[Callable[[list[re.Match[bytes]]], Iterator[bytes]], ...] = (
    _hexadecimal, _bits, _words, _octal, _decimal, _characters,
)  # fmt: skip
