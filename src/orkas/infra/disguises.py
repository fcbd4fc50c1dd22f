"""What a secret looks like in the output of programs, and where it stands in a text.

Known are the ways in which programs print bytes, whatever the program: escaped for JSON, HTML, a URL, a shell, a
pattern; base64 and base32, also inside of a longer text and in lines of any width; bytes as hexadecimal, octal or
decimal numbers between any marks (``4b 78``, ``4b:78``, ``0x4b, 0x78``, ``\\x4b``, ``%4B``, ``&#75;``); spread over
lines; and the tables of ``dumps``; each also where the lines have a prefix (``prefixes``). Not known: what somebody
makes on purpose (reversed, shifted, compressed, encoded twice).

Two steps, so that an honest text costs little: a few short needles are looked for in the text and in a form of it
that has no blanks, marks and case (``_bare``); only where one is there, a pattern says exactly what is the secret. So
what does not hold one is never touched. Each pattern takes time in proportion to the text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import TypeAlias

import msgspec

from orkas.infra import dumps, prefixes
from orkas.infra.patterns import lazy

__all__ = ["Finder", "Span", "finder", "merged"]

Span: TypeAlias = tuple[int, int]
"""Where something begins and ends, in bytes."""
PIECE = 12
"""Characters of a beginning or an end that are not met by chance, where they look drawn by lot."""
_HALVED = 24
"""Characters from which on half a value tells too much, whatever it looks like."""
_LEAST = 4
"""Characters of a needle in the bare text; a shorter one is in every text."""
_PER_BYTE = 8
"""Bytes of the longest disguise for one of the value: ``\\u004b, ``."""
_LONGEST = 4_096
"""Bytes of a value up to which its disguises are looked for; a longer one is no key, and is looked for as it is."""
_PREFIX = 250
"""Bytes of the longest prefix of a line."""
_HELD = 6
"""Characters of the bare text from which on an end of it is taken for the beginning of a disguise."""

_GONE = bytes(b for b in range(128) if not chr(b).isalnum()) + b"0xXuUnNrR" + "│┃║".encode()
"""What stands between the parts of a disguise, with the letters of ``0x``, ``\\u``, ``\\n`` and ``\\r``."""
_LOWER = bytes(b + 32 if 65 <= b <= 90 else b for b in range(256))


def _bare(data: bytes) -> bytes:
    return data.translate(_LOWER, _GONE)


def _raw(text: str) -> bytes:
    """As it stands in bytes, odd halves of characters included."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # not from an environment
        return text.encode("utf-8", "surrogatepass")


class _Needle(msgspec.Struct):
    """``text`` is where ``spans`` may find something, and nowhere else."""

    text: bytes
    spans: Callable[[bytes], Iterable[Span]]


class _Value(msgspec.Struct):
    """What is looked for because of one value."""

    plain: list[_Needle]
    bare: list[_Needle]
    dumped: list[Callable[[bytes], Iterable[Span]]]
    """Finds it in what the tables of ``dumps`` hold."""
    openings: list[bytes]
    """What the disguises are in the bare text, from their beginning."""
    run: bytes
    """How an escaped one begins; it goes on to the next blank, as far as can be told."""
    reach: int
    """Bytes of the longest disguise."""


class Finder:
    """Where any of these values stands in a text, in any disguise."""

    def __init__(self, values: tuple[str, ...]) -> None:
        looks = [_value(value) for value in values]
        self._plain = _unique(needle for one in looks for needle in one.plain)
        self._bare = _unique(needle for one in looks for needle in one.bare)
        self._dumped = [finds for one in looks for finds in one.dumped]
        self._openings = list(dict.fromkeys(opening for one in looks for opening in one.openings))
        self._runs = list(dict.fromkeys(one.run for one in looks if one.run))
        self._beginnings = _beginnings([*(n for one in values for n in _exact(one))])
        self.reach = max((one.reach for one in looks), default=0)
        """Bytes that a disguise may be long."""

    def spans(self, data: bytes) -> list[Span]:
        """All of them, in order; none touches another's inside."""
        if not self._plain:
            return []
        found: list[Span] = []
        for text, spans in self._plain:
            if text in data:
                for one in spans:
                    found += one(data)
        found += self._disguised(data)
        for lines in prefixes.peeled(data):
            found += map(lines.span, self._disguised(lines.text))
        return merged(found) if found else found

    def _disguised(self, data: bytes) -> Iterator[Span]:
        short = _bare(data)
        if here := [one for text, spans in self._bare if text in short for one in spans]:
            for one in here:
                yield from one(data)
            for lines in prefixes.unmarked(data):
                for one in here:
                    yield from map(lines.span, one(lines.text))
        if dumps.may_be_in(data):
            yield from dumps.spans(data, self._dumped)

    def back(self, data: bytes, stop: int) -> int:
        """Bytes from which on a disguise may go to ``stop``."""
        return prefixes.back(data, stop, self.reach)

    def begins(self, data: bytes) -> int:
        """Bytes from which on ``data`` may be the beginning of a value or a disguise; its length: nowhere."""
        end = len(data)
        for first, values in self._beginnings.items():
            at = data.find(first, max(0, end - len(values[0])))
            while 0 <= at < end:
                if any(value.startswith(data[at:]) for value in values):
                    end = at
                at = data.find(first, at + 1)
        before = self.back(data, end)
        last = data[before:]
        end = min(end, before + self._opens(last), dumps.last_lines(data))
        for run in self._runs:
            if (at := last.rfind(run)) >= 0 and not _BLANK.search(last, at):
                end = min(end, before + at)
        return min([end, *(before + at for at in self._opens_in_lines(last))])

    def _opens(self, data: bytes) -> int:
        """Where the beginning of a disguise is with which ``data`` ends; its length: it ends with none."""
        short = _bare(data)
        most = max((_overlap(short, text) for text in self._openings), default=0)
        return _place(data, len(short) - most) if most else len(data)

    def _opens_in_lines(self, data: bytes) -> Iterator[int]:
        """The same where lines have prefixes; the last line may have come with only some of its own."""
        for text in (data, data[: data.rfind(b"\n") + 1]):
            if len(data) - len(text) > _PREFIX:
                return
            for lines in prefixes.peeled(text):
                if (at := min(self._opens(lines.text), dumps.last_lines(lines.text))) < len(lines.text):
                    yield lines.place(at)
            if text is not data and (at := self._opens(text)) < len(text):
                yield at


@lru_cache(maxsize=8)
def finder(values: tuple[str, ...]) -> Finder:
    return Finder(values)


def _unique(needles: Iterable[_Needle]) -> list[tuple[bytes, list[Callable[[bytes], Iterable[Span]]]]]:
    """Each text once, with all that it may be."""
    found: dict[bytes, list[Callable[[bytes], Iterable[Span]]]] = {}
    for needle in needles:
        found.setdefault(needle.text, []).append(needle.spans)
    return list(found.items())


def _beginnings(values: list[bytes]) -> dict[bytes, list[bytes]]:
    """By their first byte, longest first."""
    found: dict[bytes, list[bytes]] = {}
    for value in sorted(values, key=len, reverse=True):
        found.setdefault(value[:1], []).append(value)
    return found


def _overlap(text: bytes, needle: bytes) -> int:
    """How much of a needle's beginning, or all of it, a text ends with; 0: too little to say so."""
    at = text.find(needle[:_HELD], max(0, len(text) - len(needle)))
    while at >= 0:
        if needle.startswith(text[at:]):
            return len(text) - at
        at = text.find(needle[:_HELD], at + 1)
    return 0


def _place(data: bytes, count: int) -> int:
    """Where in ``data`` so many characters of its bare form are past."""
    kept = (at for at, byte in enumerate(data) if byte not in _GONE)
    return next(islice(kept, count, None), len(data))


def merged(found: list[Span]) -> list[Span]:
    """In order, those that overlap as one."""
    found.sort()
    whole = [found[0]]
    for start, stop in found[1:]:
        if start < whole[-1][1]:
            whole[-1] = whole[-1][0], max(stop, whole[-1][1])
        elif stop > start:
            whole.append((start, stop))
    return whole


# One value


@lru_cache(maxsize=2_048)
def _value(value: str) -> _Value:
    exact = _exact(value)
    data = exact[0]
    plain = [_Needle(one, partial(_places, one)) for one in exact[1:]]
    reach = max(map(len, exact))
    if len(data) > _LONGEST:
        return _Value([_Needle(data, partial(_places, data)), *plain], [], [], [], b"", reach)
    anchor = max(_RUNS.findall(data), key=len, default=b"") or max(exact, key=len)
    if anchor == data:
        plain.append(_Needle(data, partial(_places, data)))
    elif len(anchor) > 2:
        plain.append(_Needle(anchor, partial(_matches, lazy(_escaped(value)))))
    else:
        plain.append(_Needle(data, partial(_places, data)))
    pieces = _pieces(value)
    cut = [_Needle(one, partial(_grown, data, one, first=first)) for one, first in pieces]
    looks = [look for look in _looks(data) if len(look.needle) >= _LEAST]
    found = [_Needle(look.needle, partial(_matches, lazy(look.pattern))) for look in looks]
    run = _RUNS.match(data) if anchor != data else None
    dumped: list[Callable[[bytes], Iterable[Span]]] = [partial(_places, data), *(one.spans for one in cut)]
    openings = [look.opening or look.needle for look in looks]
    reach = max(reach, _PER_BYTE * len(data) + 200)
    return _Value([*plain, *cut], found, dumped, openings, run[0] if run and run.end() >= _LEAST else b"", reach)


_RUNS = re.compile(rb"[A-Za-z0-9]+")
_BLANK = re.compile(rb"\s")


def _exact(value: str) -> list[bytes]:
    """As bytes: of the environment's kind, and of the kind that a text of ours is looked at in."""
    return list(dict.fromkeys([_raw(value), value.encode("utf-8", "surrogatepass")]))


def _places(text: bytes, data: bytes) -> Iterator[Span]:
    at = data.find(text)
    while at >= 0:
        yield at, at + len(text)
        at = data.find(text, at + len(text))


def _matches(pattern: re.Pattern[bytes], data: bytes) -> Iterator[Span]:
    for found in pattern.finditer(data):
        yield found.span()


_PUBLIC = re.compile(r"(?:[a-z]{2,8}[-_](?:(?:api\d\d|v\d|live|test)[-_])?){0,2}")
"""What a vendor writes before the part that is drawn by lot."""


def _pieces(value: str) -> list[tuple[bytes, bool]]:
    """A beginning and an end that tell of the value, because they are met nowhere else: what a cut leaves of it."""
    start = len(_PUBLIC.match(value)[0])  # type: ignore[index]  # it matches nothing, at least
    sizes = range(PIECE, min(2 * PIECE, len(value) - start - 4) + 1)
    half = len(value) // 2 if len(value) >= _HALVED else 0
    first = next((start + n for n in sizes if _drawn(value[start : start + n])), half)
    last = next((n for n in sizes if _drawn(value[-n:])), len(value) - half if half else 0)
    return [(_raw(value[:first]), True)] * bool(first) + [(_raw(value[-last:]), False)] * bool(last)


def _drawn(piece: str) -> bool:
    """Whether letters and digits change as they do where they are drawn by lot, and never in words."""
    kinds = [0 if c.isdecimal() else 1 if c.islower() else 2 for c in piece if c.isalnum()]
    return sum(a != b for a, b in pairwise(kinds)) >= 3


def _grown(value: bytes, piece: bytes, data: bytes, *, first: bool) -> Iterator[Span]:
    """Where a piece is, with all that belongs to the value beside it."""
    for start, stop in _places(piece, data):
        size = len(piece)
        if first:
            while size < len(value) and data[start + size : start + size + 1] == value[size : size + 1]:
                size += 1
            yield start, start + size
        else:
            while size < min(len(value), stop) and data[stop - size - 1] == value[-size - 1]:
                size += 1
            yield stop - size, stop


# Patterns


def _escaped(value: str) -> bytes:
    """The value with whatever is not a letter or a digit of ASCII escaped in any of the usual ways, or not."""
    return b"".join(c.encode() if c.isascii() and c.isalnum() else b"(?>" + _escapes(c) + b")" for c in value)


def _escapes(char: str) -> bytes:
    from html.entities import codepoint2name

    data = _raw(char)
    code = ord(char)
    units = char.encode("utf-16-be", "surrogatepass").hex()
    entity = rb"#(?:0*%d|[xX]0*(?i:%x))" % (code, code)
    if name := "apos" if char == "'" else codepoint2name.get(code):
        entity = name.encode() + b"|" + entity
    found = [
        b"".join(rb"%%(?:25)*(?i:%02x)" % b for b in data),
        b"".join(rb"=%02X" % b for b in data),
        b"".join(rb"\\{1,2}u(?i:%s)" % units[n : n + 4].encode() for n in range(0, len(units), 4)),
        b"".join(rb"\\{1,2}x(?i:%02x)" % b for b in data),
        b"".join(rb"\\{1,2}%03o" % b for b in data),
        rb"&(?:amp;)*(?:%s);?" % entity,
        *_SHELL.get(char, ()),
        rb"\\{0,3}" + re.escape(data),
    ]
    return b"|".join(found)


_SHELL = {
    "'": (rb"'\\+''", b"'\"'\"'"), "\n": (rb"\\+n",), "\t": (rb"\\+t",), "\r": (rb"\\+r",), " ": (rb"\+",),
    "\\": (rb"\\{1,8}",),
}  # fmt: skip
_BETWEEN = rb"(?>0[xX0]|\\+[uxX](?:00)?|&\#[xX]?|[\s:,;.\-_\"'|%\\=\[\](){}$+]|" + prefixes.BOX + b")"
"""Marks between numbers that are bytes; also the empty halves of wide characters."""
_BREAK = rb"(?>\\+[nrt](?=[\\\s\"'A-Za-z0-9+/_=-])|\\+(?=[\s\"'])|=(?=\r?\n)|[\s\"',>|#*]|" + prefixes.BOX + b")"
"""What stands between the lines of what was encoded."""
_FOLD = rb"(?:(?:[ \t|>#*+\\=]|" + prefixes.BOX + rb")*\r?\n(?:[ \t|<>#*+-]|" + prefixes.BOX + rb")*)?"
"""The end of a line within a value, with the frame of a table or the indent of a text."""


class _Look(msgspec.Struct):
    """A disguise: what is looked for in the bare text, and what is exactly meant."""

    needle: bytes
    pattern: bytes
    opening: bytes = b""
    """What it begins with in the bare text; empty: with ``needle``."""


def _looks(data: bytes) -> Iterator[_Look]:
    yield _Look(_bare(data), _FOLD.join(map(_byte, data)))
    yield _Look(_bare(data), rb"[ \t\r\n]+".join(map(_byte, data)))
    digits = [rb"%02x" % b for b in data]
    yield _Look(_bare(b"".join(digits)), b"(?i)" + (_BETWEEN + b"*+").join(digits))
    for form in (rb"%o", rb"%d"):
        numbers = [form % b for b in data]
        yield _Look(_bare(b"".join(numbers)), rb"(?<!\d)0*" + (_BETWEEN + rb"++0*").join(numbers) + rb"(?!\d)")
    yield from (_in_words(data, before) for before in range(2))
    yield from (_in_base64(data, before) for before in range(3))
    yield from (_in_base32(data, before) for before in range(5))


def _byte(byte: int) -> bytes:
    return re.escape(bytes([byte]))


def _in_words(data: bytes, before: int) -> _Look:
    """Words of two bytes, the second one first, as small-endian machines show them; ``before``: bytes of the first
    word that are not of it."""
    inside = data[before : len(data) - (len(data) - before) % 2]
    digits = [rb"%02x%02x" % (inside[n + 1], inside[n]) for n in range(0, len(inside), 2)]
    pattern = b"(?i)" + (_BETWEEN + b"*+").join(digits)
    if before:
        pattern = rb"(?i)(?:%02x[0-9a-f]{2}%s*+)?" % (data[0], _BETWEEN) + pattern.removeprefix(b"(?i)")
    if before + len(inside) < len(data):
        pattern += rb"(?:%s*+[0-9a-f]{2}%02x)?" % (_BETWEEN, data[-1])
    return _Look(_bare(b"".join(digits)), pattern)


_SIGNS = {ord("+"): rb"(?:[+-]|%2[bB])", ord("/"): rb"(?:\\{0,3}/|_|%2[fF])"}


def _in_base64(data: bytes, before: int) -> _Look:
    """What is there for sure where so many bytes of a group of three stand before it."""
    whole = base64.b64encode(bytes(before) + data)
    inside = whole[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
    pattern = (_BREAK + b"*+").join(_SIGNS.get(c, bytes([c])) for c in inside)
    if not before and (rest := whole[len(inside) :].rstrip(b"=")):
        pattern += rb"(?:%s(?:=+|(?![A-Za-z0-9+/_])))?" % rest
    return _Look(max(map(_bare, re.split(rb"[+/]", inside)), key=len), pattern, _bare(inside))


def _in_base32(data: bytes, before: int) -> _Look:
    whole = base64.b32encode(bytes(before) + data)
    inside = whole[-(-8 * before // 5) : 8 * (before + len(data)) // 5]
    return _Look(_bare(inside), b"(?i)" + (_BREAK + b"*+").join(bytes([c]) for c in inside))
