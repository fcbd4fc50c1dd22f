"""The bytes of a session file → its records, whatever happened to them.

Reads, never writes. Bytes are split on LF only and decoded line by line, so damage costs the line it hits and nothing
behind it. Line numbers are physical and count from 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO, FileIO
from typing import Any

import msgspec

from orkas.infra.messages import Message, decode_message, encode, loads, whole

__all__ = ["VERSION", "Record", "Recovered", "records_of", "recover", "sound"]

VERSION = 1
"""The version of the session file that this release writes."""

_BOM = b"\xef\xbb\xbf"
_decode_lines = msgspec.json.Decoder(Message).decode_lines
_lenient = json.JSONDecoder(strict=False, parse_int=whole)  # allows raw control characters inside strings
_BLOCK = 256 * 1024
"""Bytes of a sound file that are read at once: they lie in the processor's cache while they are decoded."""
_MOST_LINES = 100_000
"""How many physical lines one broken record may span."""
_MOST_JOINS = 8
"""How many starts are tried within one stretch of bad lines."""


class Record(msgspec.Struct, eq=False):
    """One record: its bytes as one line, and the message it holds. No message: a record of another type."""

    raw: bytes
    message: Message | None


class Recovered(msgspec.Struct, eq=False):
    """What was found in a session file."""

    messages: list[Message] = msgspec.field(default_factory=list)
    """In the order of the lines; not yet paired."""
    header: dict[str, Any] = msgspec.field(default_factory=dict)
    damaged: list[int] = msgspec.field(default_factory=list)
    """Lines that could not be read as they stand."""
    lost: int = 0
    """How many of the damaged lines gave no record."""
    duplicates: int = 0
    """Records left out because one with the same id came before."""
    end: int = 0
    """Where the last complete line or record ends, in bytes."""
    torn: bytes = b""
    """What follows ``end``: a record cut short."""
    complete: bool = True
    """False: the last record lacks its newline."""
    questions: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Approvals that were asked for and, as far as the file says, never answered, by their id."""
    lossy: list[Message] = msgspec.field(default_factory=list)
    """Messages next to which something could not be read. What was cut at the very end is not among that: it was never
    acknowledged."""

    @property
    def version(self) -> int:
        """Version of the file. Whatever does not say a whole number counts as newer; nothing said is the first."""
        version = self.header.get("version")
        if isinstance(version, str) and version.isascii() and version.isdecimal() and len(version) < 10:
            return int(version)
        if isinstance(version, float) and version.is_integer():
            return int(version)
        return 1 if version is None else version if isinstance(version, int) else VERSION + 1

    @property
    def newer(self) -> bool:
        return self.version > VERSION


def sound(file: FileIO | BytesIO, block: int = _BLOCK) -> Recovered | None:
    """A session file about which nothing is unusual, read from its beginning block by block, so that a long one never
    lies in memory as bytes too. None for any other: ``recover`` reads that.
    """
    found = Recovered()
    buffer, filled = bytearray(block), 0
    while size := file.readinto(memoryview(buffer)[filled:]):
        found.end += size
        end = buffer.rfind(b"\n", filled, filled + size) + 1
        filled += size
        if end:
            start = _header(buffer, found) if found.end == filled else 0
            if start is None or not _decoded(memoryview(buffer)[start:end], found):
                return None
            buffer[: filled - end] = buffer[end:filled]
            filled -= end
        elif filled == len(buffer):  # a long line
            buffer += bytes(filled)
    return found if not filled and _unique(found.messages) else None


def recover(data: bytes) -> Recovered:
    """Read a whole session file. Never raises: what cannot be read is reported."""
    return _at_once(data) or _careful(data)[0]


def records_of(data: bytes) -> list[Record]:
    """All records of the file that can be read, of every type, duplicates left out; the header is among them.

    The messages are those of ``recover``.
    """
    records = _careful(data)[1]
    quick = _at_once(data)
    if quick and not _same(quick.messages, [r.message for r in records if r.message is not None]):
        # laid out in a way that only reading at once makes out: such a file holds messages and nothing else
        head = [Record(encode(quick.header), None)] if quick.header else []
        return head + [Record(encode(m), m) for m in quick.messages]
    return records


def _same(some: list[Message], others: list[Message]) -> bool:
    try:
        return some == others
    except RecursionError:  # nested more deeply than can be compared
        return [m.id for m in some] == [m.id for m in others]


def _at_once(data: bytes) -> Recovered | None:
    """The whole file but for a record cut short at its end; None when there is anything else about it."""
    return _quick(data) if data.endswith((b"\n", b"}")) else _cut_at_end(data)


def _quick(data: bytes) -> Recovered | None:
    """The whole file in one go; None when anything about it is unusual."""
    found = Recovered(end=len(data), complete=not data or data.endswith(b"\n"))
    start = _header(data, found)
    if start is None or not _decoded(memoryview(data)[start:], found):
        return None
    return found if _unique(found.messages) else None


def _header(data: bytes | bytearray, found: Recovered) -> int | None:
    """Take the header in; returns where the messages begin. None: it cannot be read."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    if not data.startswith(b'{"type":"session"', start):
        return start
    line_end = data.find(b"\n", start) + 1 or len(data)
    try:
        found.header = json.loads(data[start:line_end])
    except (ValueError, RecursionError):
        return None
    return line_end


def _decoded(lines: memoryview, found: Recovered) -> bool:
    """Whether these are messages, and approvals, and nothing else; then they are taken in."""
    try:
        found.messages += _decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _with_approvals(bytes(lines), found)
    return True


_APPROVAL = b'{"type":"approval"'


def _with_approvals(data: bytes, found: Recovered) -> bool:
    if _APPROVAL not in data:
        return False
    lines = data.split(b"\n")
    try:
        messages = _decode_lines(b"\n".join(line for line in lines if not line.startswith(_APPROVAL)))
        records = [json.loads(line) for line in lines if line.startswith(_APPROVAL)]
    except (ValueError, msgspec.DecodeError, RecursionError):
        return False
    found.messages += messages
    for record in records:
        _question(record, found)
    return True


def _question(record: dict[str, Any], found: Recovered) -> None:
    """Take in that something was asked, or answered."""
    asked = str(record.get("id", ""))
    if "answer" in record:
        found.questions.pop(asked, None)
    else:
        found.questions[asked] = record


def _unique(messages: list[Message]) -> bool:
    ids = [m.id for m in messages if m.id]
    return len(set(ids)) == len(ids)


def _cut_at_end(data: bytes) -> Recovered | None:
    """A file that is sound up to a record cut short at its end, as a crash leaves it; None when it is anything else."""
    at = data.rfind(b"\n") + 1
    torn = data[at:]
    if not at or not torn.strip() or _read_line(torn, last=True).records or (found := _quick(data[:at])) is None:
        return None
    found.damaged, found.lost, found.torn = [data.count(b"\n") + 1], 1, torn
    return found


def _careful(data: bytes) -> tuple[Recovered, list[Record]]:
    """Line by line."""
    found = Recovered(end=len(data))
    records: list[Record] = []
    seen: set[str] = set()
    lines = data.removeprefix(_BOM).split(b"\n")
    read = None
    for read in _Lines(lines):
        newest = found.messages[-1:]
        if read.harmed:
            found.damaged.extend(range(read.first, read.last + 1))
        if not read.records:
            found.lost += 1
        for record in read.records:
            _admit(record, found, records, seen)
        if read.harmed and read.last < len(lines):
            found.lossy += newest + found.messages[-1:]
    tail = lines[-1]
    if tail.strip() and read is not None:
        found.torn = read.rest if read.records else tail
        found.end -= len(found.torn)
    found.complete = len(found.torn) == len(tail)
    return found, records


def _admit(record: Record, found: Recovered, records: list[Record], seen: set[str]) -> None:
    """Take a record in, once per record id. The first header counts."""
    message = record.message
    if message is None:
        head = loads(record.raw)
        if head["type"] == "session" and not found.header:
            found.header = head
        elif head["type"] == "approval":
            _question(head, found)
    elif message.id in seen:
        found.duplicates += 1
        return
    else:
        if message.id:
            seen.add(message.id)
        found.messages.append(message)
    records.append(record)


class _Read(msgspec.Struct, eq=False):
    """One or more physical lines and what they gave."""

    records: list[Record]
    harmed: bool = False
    """The lines are not what a writer meant, even if every record in them could be saved."""
    rest: bytes = b""
    """What follows the records on the very last line: one more, cut short."""
    first: int = 0
    last: int = 0


class _Lines:
    """Walks the physical lines, blank ones left out."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._count = len(lines)
        self._joins = 0
        self._joined_to = 0
        self._laid_out_to = 0

    def __iter__(self) -> Iterator[_Read]:
        i = 0
        while i < self._count:
            line = self._lines[i]
            if not line or line.isspace():
                i += 1
                continue
            read = _read_line(line, last=i == self._count - 1)
            read.first = i + 1
            if read.harmed and not read.records:
                i += self._join(i, read)
            i += 1
            read.last = i
            yield read

    def _join(self, i: int, read: _Read) -> int:
        """A record that spans several lines, as far as it can be read. Returns how many further lines it took."""
        if not self._lines[i].lstrip(b"\0").startswith(b"{"):  # what is indented lies inside another record
            return 0
        return self._laid_out(i, read) or (self._broken(i, read) if self._may_join(i) else 0)

    def _laid_out(self, i: int, read: _Read) -> int:
        """A record laid out by an editor: up to the line with its closing brace. No line is tried twice."""
        if i < self._laid_out_to:
            return 0
        stop = min(self._count, i + _MOST_LINES)
        end = next((j for j in range(i + 1, stop) if self._lines[j].startswith(b"}")), stop)
        self._laid_out_to = end + 1
        if end == stop:
            return 0
        records, rest = _objects(_joined(self._lines[i : end + 1]))
        behind = next((line for line in self._lines[end + 1 : end + 3] if line.strip()), b"")
        if not records or rest or _inside(behind):
            return 0
        read.records = records
        return end - i

    def _broken(self, i: int, read: _Read) -> int:
        """Records whose strings hold raw line breaks: the lines up to the next good one, read as one."""
        stop = max(i + 1, self._joined_to)
        while stop < min(self._count, i + _MOST_LINES) and not _starts_record(self._lines[stop]):
            stop += 1
        self._joined_to = stop
        while stop > i + 1 and not self._lines[stop - 1].strip():
            stop -= 1
        if stop == i + 1:
            return 0
        data = _joined(self._lines[i:stop])
        records, rest = _objects(data)
        if not records or _inside(rest):
            return 0
        read.records = records
        if not rest:
            return stop - i - 1
        taken = data[: len(data) - len(rest)]
        lines = taken.count(b"\n")
        if not taken[taken.rfind(b"\n") + 1 :].strip(b"\0 \t\r"):
            return lines - 1  # what follows has lines of its own
        rest = rest.partition(b"\n")[0]
        if i + lines == self._count - 1:
            read.rest = rest
        else:
            read.records += _welded(rest)
        return lines

    def _may_join(self, i: int) -> bool:
        """A few attempts within one stretch of bad lines, so that a long one costs linear time."""
        self._joins = self._joins + 1 if i < self._joined_to else 0
        return self._joins < _MOST_JOINS


def _joined(lines: list[bytes]) -> bytes:
    return b"\n".join(lines).lstrip(b"\0 \t\r")


def _inside(rest: bytes) -> bool:
    """Whether what stands before this is part of something larger, and no record however much it looks like one."""
    return rest.lstrip(b"\0 \t\r\n")[:1] in (b",", b"]", b"}", b":")


def _read_line(line: bytes, *, last: bool) -> _Read:
    """The records of one physical line. The last line may be cut anywhere, so nothing is guessed from its inside."""
    try:
        return _Read([Record(line.strip(), decode_message(line))])
    except (ValueError, RecursionError):
        pass
    records, rest = _objects(line.lstrip(b"\0 \t\r"))
    if last:
        return _Read(records, harmed=bool(rest) or not records or b"\0" in line, rest=rest)
    return _Read(records + _welded(rest), harmed=bool(rest) or b"\0" in line)


def _starts_record(line: bytes) -> bool:
    return line.lstrip().startswith(b'{"') and not _read_line(line, last=True).rest


def _objects(data: bytes) -> tuple[list[Record], bytes]:
    """The complete records at the start, and what follows them."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
    records: list[Record] = []
    at = 0
    with suppress(ValueError, RecursionError):
        while at < len(text):
            value, end = _lenient.raw_decode(text, at)
            records.append(_record(value))
            at = end
            while at < len(text) and text[at] in " \t\r\n\0":
                at += 1
    return records, data[len(text[:at].encode()) :] if at else data


def _record(value: Any) -> Record:
    message = decode_message(value)
    return Record(encode(value), message)


def _welded(line: bytes) -> list[Record]:
    """The records behind a fragment that lost its newline: they must reach to the very end of the line."""
    at = len(line)
    tried = 0
    best: list[Record] = []
    while (at := line.rfind(b'{"role":', 0, at)) > 0 and tried < 4 * len(line):
        tried += len(line) - at
        records, rest = _objects(line[at:])
        best = best if rest else records
    return best
