"""What was used, as it happens: a line for each model call and each round of tools.

The lines lie in ``<home>/stats``, a file a month, as JSON. They hold numbers and names of sessions, models and tools,
nothing of what was said. Lines add up: a month that is over is replaced by its sums, one for each day, session and
model. They are never flushed to the device: a power cut may cost the last ones, and nothing else.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.home import home
from orkas.infra.messages import AssistantMessage, encode

if TYPE_CHECKING:
    from orkas.harness.sessions.session import Session

__all__ = ["Line", "Read", "Recorder", "ToolUse", "check", "day_of", "folder", "read", "summed"]

_log = logging.getLogger("orkas.statistics")

_NAME = 64
"""Characters of a tool's name that are kept: a model may call what does not exist by any name."""
_SETTLED_S = 2 * 86_400
"""So long after its end a month is left as it is: a clock may be slow, a turn may run over midnight."""
_SUMMED = b'{"summed":true}\n'
"""The first line of a month that was replaced by its sums."""

_MOST, _MOST_USD = 2**53, 1e12
"""No line and no sum tells more: whatever does is a mistake. Every reader of JSON knows such numbers exactly."""

K = TypeVar("K", bound=Hashable)
Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Cost = Annotated[float, msgspec.Meta(ge=0, le=_MOST_USD)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=250_000_000_000)]


class ToolUse(msgspec.Struct, array_like=True, gc=False):
    """How often a tool ran, said that it could not (information for the model), and broke or hung."""

    calls: Count = 0
    failed: Count = 0
    faults: Count = 0


class Line(msgspec.Struct, omit_defaults=True, gc=False):
    """What happened at one moment, or the sum of what happened on a day."""

    t: Seconds
    """Unix time."""
    session: str
    model: str = ""
    """``vendor/model``; empty where it is not known."""
    calls: Count = 0
    """Replies of the model."""
    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    reasoning: Count = 0
    cost_usd: Cost = 0.0
    """Of the replies whose cost is known."""
    unpriced: Count = 0
    """Replies whose cost is not known."""
    uncounted: Count = 0
    """Replies of which the vendor gave no count of tokens."""
    retries: Count = 0
    compactions: Count = 0
    tools: dict[str, ToolUse] = msgspec.field(default_factory=dict)

    def add(self, other: Line) -> None:
        """Take the numbers of another line in; time, session and model stay."""
        for name in _NUMBERS:
            most = _MOST_USD if name == "cost_usd" else _MOST
            setattr(self, name, min(most, getattr(self, name) + getattr(other, name)))
        for tool, use in other.tools.items():
            mine = self.tools.setdefault(tool, ToolUse())
            mine.calls = min(_MOST, mine.calls + use.calls)
            mine.failed = min(_MOST, mine.failed + use.failed)
            mine.faults = min(_MOST, mine.faults + use.faults)


_NUMBERS = [f for f in Line.__struct_fields__ if f not in ("t", "session", "model", "tools")]


class _Row(msgspec.Struct, array_like=True, gc=False):
    """A line as it is written: every field in its place, without names, zeros at the end left out. A round costs half
    of what its names would take."""

    t: Seconds
    session: str
    model: str = ""
    tools: dict[str, ToolUse | Count] = msgspec.field(default_factory=dict)
    """A number alone: so many calls and nothing amiss."""
    calls: Count = 0
    input: Count = 0
    output: Count = 0
    unpriced: Count = 0
    cost_usd: Cost = 0.0
    cache_read: Count = 0
    cache_write: Count = 0
    reasoning: Count = 0
    uncounted: Count = 0
    retries: Count = 0
    compactions: Count = 0


_decode = msgspec.json.Decoder(Line).decode
_decode_row = msgspec.json.Decoder(_Row).decode
_encode = msgspec.json.Encoder().encode
_NUMBERED = _Row.__struct_fields__[4:]
_in_row = attrgetter(*_NUMBERED)


class Recorder:
    """Writes for one session. A session in memory leaves no trace.

    Nothing here raises: a turn is never disturbed by its statistics. What could not be written is told by ``trouble``.
    """

    def __init__(self, session: Session | None = None) -> None:
        self.session = session
        self._model = ""
        self._tools: dict[str, ToolUse] = {}
        self._file = _File()
        self._told = False

    def heard(self, reply: AssistantMessage) -> None:
        """A reply of the model, also one that only summarises."""
        self._model = reply.model
        if not self._keeps:
            return
        used = reply.usage
        line = self._line(calls=1)
        if used is None or (used.input is None and used.output is None):
            line.uncounted = 1
        if used is not None:
            line.input, line.output = _sane(used.input), _sane(used.output)
            line.cache_read, line.cache_write = _sane(used.cache_read), _sane(used.cache_write)
            line.reasoning = _sane(used.reasoning)
        cost = None if used is None else used.cost_usd
        if cost is not None and 0 <= cost <= _MOST_USD:
            line.cost_usd = cost
        else:
            line.unpriced = 1
        self._write(line)

    def retried(self, model: str = "") -> None:
        """A request was made again. ``model``: whom it went to; empty: the one that spoke last."""
        line = self._line(retries=1)
        line.model = model or line.model
        self._write(line)

    def compacted(self) -> None:
        """Messages were replaced by a summary."""
        self._write(self._line(compactions=1))

    def used(self, tool: str, *, error: str) -> None:
        """A tool has run. ``error``: empty, ``failed`` (it said it could not) or ``fault`` (it broke or hung).

        Written with the next reply or by ``close``, so that a round costs one write.
        """
        use = self._tools.setdefault(tool[:_NAME], ToolUse())
        use.calls += 1
        use.failed += error == "failed"
        use.faults += error == "fault"

    def paid(self, usd: float) -> None:
        """A tool has spent so much."""
        if self._keeps and 0 <= usd <= _MOST_USD:
            line = self._line()
            line.cost_usd = usd
            self._write(line)

    def close(self) -> None:
        """Write what waits and let the file go; it is opened again when it is needed. At the end of each turn."""
        if self._tools:
            self._write()
        self._file.close()

    def trouble(self) -> str:
        """Why lines could not be written, in the system's words: once, then empty."""
        if self._told or not self._file.trouble:
            return ""
        self._told = True
        return self._file.trouble

    @property
    def _keeps(self) -> bool:
        return self.session is not None and self.session.path is not None

    def _line(self, calls: int = 0, retries: int = 0, compactions: int = 0) -> Line:
        name = self.session.id if self.session is not None else ""
        return Line(int(time.time()), name, self._model, calls, retries=retries, compactions=compactions)

    def _write(self, line: Line | None = None) -> None:
        """The tools that have run and the line, in one write."""
        if not self._keeps:
            self._tools.clear()
            return
        data = b""
        if self._tools:
            ran = line if line is not None and line.model == self._model else self._line()
            ran.tools, self._tools = self._tools, {}
            data = b"" if ran is line else _line_of(ran)
        self._file.append(data if line is None else data + _line_of(line))


def _sane(count: int | None) -> int:
    return count if count is not None and 0 <= count <= _MOST else 0


def _line_of(line: Line) -> bytes:
    tools = {name: use if use.failed or use.faults else use.calls for name, use in line.tools.items()}
    row = [line.t, line.session, line.model, tools, *[number or 0 for number in _in_row(line)]]
    while not row[-1]:
        row.pop()
    try:
        return _encode(row) + b"\n"
    except UnicodeEncodeError:  # halves of surrogate pairs in a name
        return encode(row) + b"\n"


def _read_line(raw: bytes) -> Line:
    """A line in either form: that of earlier releases names its fields."""
    if not raw.startswith(b"["):
        return _decode(raw)
    row = _decode_row(raw)
    tools = {name: ToolUse(use) if isinstance(use, int) else use for name, use in row.tools.items()}
    return Line(row.t, row.session, row.model, tools=tools, **dict(zip(_NUMBERED, _in_row(row), strict=True)))


class _File:
    """The file of the running month. Each line goes in one write to its end, so several processes may add to it."""

    def __init__(self) -> None:
        self.trouble = ""
        self._fd = -1
        self._path: Path | None = None
        self._same = (0, 0)  # what tells the file we hold from others
        self._until = 0.0

    def append(self, data: bytes) -> None:
        try:
            if self._fd < 0 or time.time() >= self._until or not self._current():
                data = self._open() + data
            if os.write(self._fd, data) != len(data):
                raise OSError("the disk is full")
        except (OSError, StorageError) as error:
            self.close()  # the next line looks first whether the last one is whole
            if not self.trouble:
                _log.warning("the statistics cannot be kept: %s", error)
            self.trouble = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):
                os.close(fd)

    def _current(self) -> bool:
        """False: what we hold was replaced by its sums, which a clock that is ahead may do too early, or removed."""
        try:
            return self._path is not None and files.identity(self._path.stat()) == self._same
        except OSError:
            return False

    def _open(self) -> bytes:
        """Open this month's file; returns the newline that a torn last line lacks."""
        self.close()
        moment = time.gmtime()
        self._until = _month_end(moment.tm_year, moment.tm_mon)
        place = folder()
        files.make_folder(place)
        path = self._path = place / f"{moment.tm_year:04}-{moment.tm_mon:02}.jsonl"
        self._fd = files.OPS.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        found = os.fstat(self._fd)
        self._same = files.identity(found)
        if not (end := found.st_size):
            return b""
        os.lseek(self._fd, end - 1, os.SEEK_SET)
        return b"" if os.read(self._fd, 1) == b"\n" else b"\n"

    def __del__(self) -> None:
        self.close()


def _month_end(year: int, month: int) -> float:
    from calendar import timegm

    return float(timegm((year + month // 12, month % 12 + 1, 1, 0, 0, 0)))


def folder() -> Path:
    """Where the statistics lie. Not created here."""
    return home() / "stats"


def check() -> str:
    """Why statistics cannot be kept, in the system's words; empty: they can, as far as can be told without writing."""
    place = folder()
    if not place.exists():
        return ""
    if not place.is_dir():
        return "it is no folder"
    for path in [place, *_named()]:
        if path != place and not path.is_file():
            return f"{path.name} is no file"
        if not os.access(path, os.W_OK):
            return f"{path.name} cannot be written"
    return ""


class Read(msgspec.Struct):
    """All that was kept. ``skipped``: lines that could not be read, torn ones and those of others."""

    lines: list[Line]
    skipped: int = 0


def read(since: float = 0.0) -> Read:
    """The lines from that moment on, Unix time, in the order they were written. Months that are over become sums.

    A month of sums counts whole days: by the time of the first thing that happened on that day.

    Raises:
        StorageError: they are there and cannot be read.
    """
    found = Read([])
    for path in _months():
        year, month = int(path.stem[:4]), int(path.stem[5:])
        if _month_end(year, month) <= since:
            continue
        lines, skipped = _lines_of(path)
        found.skipped += skipped
        found.lines += [line for line in lines if line.t >= since]
    return found


def _months() -> list[Path]:
    return [path for path in _named() if path.is_file()]


def _named() -> list[Path]:
    """What has the name of a month, whatever it is."""
    try:
        paths = sorted(folder().iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError(
            f"the statistics cannot be read: {error.strerror}", hint=f"check the mode of {str(folder())!r}"
        ) from error
    return [path for path in paths if _is_month(path.name)]


def _is_month(name: str) -> bool:
    year, month = name[:4], name[5:7]
    digits = year.isdecimal() and month.isdecimal() and name.isascii()
    return digits and name == f"{year}-{month}.jsonl" and int(year) > 0 and 1 <= int(month) <= 12


def _lines_of(path: Path) -> tuple[list[Line], int]:
    """The lines of a month, and how many could not be read."""
    try:
        data = files.read(path)
    except OSError as error:
        raise StorageError(
            f"the statistics cannot be read: {path.name}: {error.strerror}", hint=f"check {str(path)!r}"
        ) from error
    lines, others = _told(data)
    if not data.startswith(_SUMMED) and _is_over(path):
        lines = _sums(lines)
        with suppress(OSError, StorageError):  # it is done the next time
            _replace(path)
    return lines, len(others)


def _told(data: bytes) -> tuple[list[Line], list[bytes]]:
    """The lines, and those that are none of ours or of a release to come, as they are."""
    lines: list[Line] = []
    others: list[bytes] = []
    for raw in data.removeprefix(_SUMMED).split(b"\n"):
        if raw:
            try:
                lines.append(_read_line(raw))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                others.append(raw)
    return lines, others


def _is_over(path: Path) -> bool:
    return time.time() > _month_end(int(path.stem[:4]), int(path.stem[5:])) + _SETTLED_S


def _sums(lines: Iterable[Line]) -> list[Line]:
    return list(summed(lines, lambda line: (day_of(line), line.session, line.model)).values())


def _replace(path: Path) -> None:
    """Put the sums of a month in its place, with all that could not be read. One process at a time; what another one
    adds to the old file meanwhile goes into the new one."""
    with files.Lock(path.with_suffix(".lock")), os.fdopen(files.OPS.open(path, os.O_RDONLY), "rb") as old:
        data = old.read()
        if data.startswith(_SUMMED):
            return
        lines, others = _told(data)
        kept = [_line_of(line) for line in _sums(lines)] + [other + b"\n" for other in others]
        files.replace(path, _SUMMED + b"".join(kept))
        if late := old.read():
            files.append(path, late)


def day_of(line: Line) -> str:
    """The day on the clock of this machine, as 2026-11-30."""
    return time.strftime("%Y-%m-%d", time.localtime(line.t))


def summed(lines: Iterable[Line], key: Callable[[Line], K]) -> dict[K, Line]:
    """One sum for each value of ``key``, in the order in which they first come; the lines stay as they are."""
    sums: dict[K, Line] = {}
    for line in lines:
        mine = sums.get(of := key(line))
        if mine is None:
            mine = sums[of] = Line(line.t, line.session, line.model)
        mine.add(line)
    return sums
