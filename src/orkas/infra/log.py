"""The log: JSON lines in ``home()/logs/orkas.log``, secrets taken out before anything reaches the disk.

Five files of 1 MB, readable by the user alone, shared by all processes of the user. Nothing is opened before the
first record, and a log that cannot be written never disturbs a run: ``check`` says what is wrong with it.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from orkas.infra.home import home, make_private

__all__ = ["FILES", "MAX_BYTES", "check", "path", "setup"]

MAX_BYTES = 1_000_000
"""Size at which a file is put aside."""
FILES = 5
"""Files kept, the current one included."""
MAX_TEXT = 16_000
"""Characters of one message or traceback; the rest is cut, and that is said."""

def path() -> Path:
    """The current log file; it may not exist yet."""
    return home() / "logs" / "orkas.log"


def setup(*, debug: bool = False) -> None:
    """Send the records of this process to the log, and with ``debug`` in readable form to stderr too.

    For programs; a library leaves logging to the program it is part of. Calling it again replaces the set-up.
    """
    logging.raiseExceptions = debug
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, (_File, _Screen))]:
        root.removeHandler(handler)
        handler.close()
    root.addHandler(_File())
    logging.getLogger("orkas").setLevel(logging.DEBUG if debug else logging.INFO)
    logging.captureWarnings(True)
    if debug:
        root.addHandler(_Screen(sys.stderr))


def check() -> str | None:
    """Why the log cannot be written, as a phrase; None when it can, or nothing stands in the way of creating it."""
    where = path()
    nearest = next(p for p in (where, *where.parents) if p.exists())
    if nearest == where and not where.is_file():
        return f"{where} is no file"
    if nearest != where and not nearest.is_dir():
        return f"{nearest} is no folder"
    return None if os.access(nearest, os.W_OK) else f"{nearest} is not writable"


class _Lines(logging.Formatter):
    """One record as one line of JSON: time (UTC), level, logger, process, message, what was passed as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "msg": _clean(record.getMessage()),
        }
        plain = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}
        line |= {k: _clean(str(v)) for k, v in vars(record).items() if k not in plain}
        if record.exc_info:
            line["exc"] = _clean(self.formatException(record.exc_info))
        try:
            return msgspec.json.encode(line).decode()
        except UnicodeEncodeError:
            from orkas.infra.messages import encode

            return encode(line).decode()


class _Readable(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        from orkas.infra.redact import redact
        from orkas.infra.terminal import inert

        return inert(redact(super().format(record)))


class _Screen(logging.StreamHandler[Any]):
    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.setFormatter(_Readable())


class _File(logging.Handler):
    """Appends one line with one write; looks at the file each time, so that several processes can put it aside."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Lines())
        self._file: int | None = None
        self._path: Path | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode("utf-8", "replace")
            os.write(self._current(), line)
        except OSError:
            self._drop()  # a full disk, a read-only home: the run goes on, ``check`` tells
        except Exception:  # noqa: BLE001 - logging must never break what it reports on
            self.handleError(record)

    def close(self) -> None:
        self._drop()
        super().close()

    def _current(self) -> int:
        """The open file, a fresh one if ours was put aside or is full."""
        where = path()
        if self._file is not None and (where != self._path or not _same(self._file, where)):
            self._drop()
        if self._file is None:
            self._file, self._path = _open(where), where
        if os.fstat(self._file).st_size >= MAX_BYTES and _put_aside(self._file, where):
            self._drop()
            self._file = _open(where)
        return self._file

    def _drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


_PLAINLY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
"""Wait at no pipe."""


def _open(where: Path) -> int:
    make_private(where.parent)
    return os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAINLY, 0o600)


def _same(file: int, where: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), where.stat())
    except FileNotFoundError:
        return False


def _put_aside(file: int, where: Path) -> bool:
    """Shift ``orkas.log`` to ``.1`` and so on. One process does it, the others find the new file; else all go on."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass  # no such locks on this system: rename alone decides
    except OSError:
        return False
    if not _same(file, where):
        return True
    try:
        for n in range(FILES - 1, 0, -1):
            older = where.with_name(f"{where.name}.{n}")
            source = where if n == 1 else where.with_name(f"{where.name}.{n - 1}")
            if source.exists():
                source.replace(older)
    except OSError:
        return False
    return True


def _utc(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when)) + f".{int(when % 1 * 1000):03d}Z"


def _clean(text: str) -> str:
    """Redacted first, then cut: a cut must not leave half a secret that no pattern knows."""
    from orkas.infra.redact import redact  # its patterns take a while to compile, and most runs log nothing

    text = redact(text)
    more = len(text) - MAX_TEXT
    return f"{text[:MAX_TEXT]} … +{more} characters" if more > 0 else text
