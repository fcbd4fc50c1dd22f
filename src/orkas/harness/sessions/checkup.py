"""All sessions looked over: which need a repair, which are left alone, what lies beside them and belongs to none."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from orkas._version import __version__
from orkas.harness.sessions import shelf
from orkas.harness.sessions.names import sessions_folder
from orkas.harness.sessions.recovery import VERSION
from orkas.harness.sessions.session import Loaded, Session
from orkas.infra import files
from orkas.infra.errors import OrkasError, SessionLocked, SessionMissing, StorageError
from orkas.infra.home import home
from orkas.infra.messages import encode

__all__ = ["Finding", "Mended", "State", "look_over", "mend", "paths", "strays"]

State = Literal["broken", "newer", "open", "unreadable"]
"""``broken``: ``shelf.repair`` mends it. The others are left as they are."""

_LINES_NAMED = 5
_SETTLED_S = 2.0
"""The coarsest clock of a file system in use."""
_FRESH_S = 600.0
"""A temporary file younger than this may still be at work."""


class Finding(msgspec.Struct):
    """What is to be said of one session. A healthy one gives none."""

    session: str
    path: Path
    state: State
    text: str
    """What is wrong, without the name of the session and without a full stop."""
    repair: str = ""
    """What a repair does about it, as something done."""


class Mended(msgspec.Struct):
    """What a repair did. ``original``: where the file as it was is kept; empty: nothing had to be done, or could be."""

    session: str
    text: str
    original: str = ""
    problem: bool = False
    """It could not be repaired; ``text`` says why."""


def paths() -> list[Path]:
    """The files of all sessions, by name.

    Raises:
        StorageError: they cannot be listed.
    """
    return [p for p in _beside_each_other() if p.name.endswith(".jsonl") and p.name[0] != "."]


def look_over(*, thorough: bool = False) -> Iterator[Finding]:
    """Read every session that nobody has open, and tell of those that are not well. Changes no session.

    Which ones were well is remembered with their size and time: unless ``thorough``, those that have not changed since
    are not read again.

    Raises:
        StorageError: the folder cannot be listed.
    """
    known = {} if thorough else _remembered()
    well: dict[str, _Stamp] = {}
    for path in paths():
        name = path.name.removesuffix(".jsonl")
        if owner := files.holder(path.with_name(f"{name}.lock")):
            yield Finding(name, path, "open", f"is open ({owner}) and was not looked at")
            continue
        stamp = _stamp(path)
        found = None if stamp is not None and known.get(name) == stamp else _look(path, name)
        if found is not None:
            yield found
        elif stamp is not None:
            well[name] = stamp
    if well != known:
        _remember(well)


_Stamp = tuple[int, int]
"""Size, and time of the last change in ns."""


_MEMORY_BYTES = 64_000_000
"""What is larger is none of ours: half a million sessions take less."""


class _Memory(msgspec.Struct):
    release: str
    """The one that looked: another may see more."""
    well: dict[str, _Stamp]


def _memory_path() -> Path:
    return home() / "cache" / "sessions.json"


def _remembered() -> dict[str, _Stamp]:
    try:
        memory = msgspec.json.decode(files.read(_memory_path(), most=_MEMORY_BYTES), type=_Memory)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return memory.well if memory.release == __version__ else {}


def _remember(well: dict[str, _Stamp]) -> None:
    with suppress(StorageError):  # then they are read again
        files.replace(_memory_path(), encode(_Memory(__version__, well)))


def _stamp(path: Path) -> _Stamp | None:
    """None: it is gone, or was changed so lately that a further change could leave the same time."""
    with suppress(OSError):
        status = path.stat()
        if time.time() - status.st_mtime > _SETTLED_S:
            return status.st_size, status.st_mtime_ns
    return None


def mend(found: Finding) -> Mended | None:
    """Repair what ``look_over`` called broken; None: it has been put right, opened or taken away since."""
    try:
        done = shelf.repair(found.path)
    except (SessionLocked, SessionMissing):
        return None
    except OrkasError as error:
        return Mended(found.session, str(error), problem=True)
    return Mended(found.session, found.repair, done.original) if done.original else None


def _look(path: Path, name: str) -> Finding | None:
    try:
        session = Session.read(path)
    except SessionMissing:
        return None
    except StorageError as error:
        return Finding(name, path, "unreadable", str(error))
    wrong, repair = _wrong(session.loaded)
    if session.loaded.version > VERSION:
        also = f" ({wrong})" if wrong else ""
        return Finding(name, path, "newer", f"was written by a newer release and is left as it is{also}")
    return Finding(name, path, "broken", wrong, repair) if wrong else None


def _wrong(loaded: Loaded) -> tuple[str, str]:
    """What is wrong, and what a repair does about it; empty: nothing."""
    lines = loaded.damaged
    shown = ", ".join(map(str, lines[:_LINES_NAMED])) + (", …" if len(lines) > _LINES_NAMED else "")
    rows = (
        (len(lines), "damaged line{s} (" + shown + ")", "damaged line{s} set aside (" + shown + ")"),
        (loaded.synthesized, "call{s} without result", "result{s} made up as “interrupted”"),
        (loaded.dropped, "result{s} without call", "result{s} without call dropped"),
        (loaded.reordered, "message{s} out of place", "message{s} moved into place"),
        (loaded.renamed, "call{s} under an id already taken", "call{s} given another id"),
        (loaded.duplicates, "record{s} stored twice", "record{s} stored twice dropped"),
    )
    plural = [(n, "s" if n > 1 else "", wrong, done) for n, wrong, done in rows if n]
    wrong = ", ".join(f"{n} {text.replace('{s}', s)}" for n, s, text, _ in plural)
    return wrong, ", ".join(f"{n} {text.replace('{s}', s)}" for n, s, _, text in plural)


def strays() -> list[str]:
    """What lies in the folder and belongs to no session: locks and files of sessions that are gone, and what is none
    of ours. Nobody holds any of it.

    Raises:
        StorageError: the folder cannot be listed.
    """
    entries = _beside_each_other()
    names = {p.name for p in entries}
    return [p.name for p in entries if not _belongs(p, names)]


def _belongs(path: Path, names: set[str]) -> bool:
    name = path.name
    if re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", name):
        with suppress(OSError):
            return time.time() - path.stat().st_mtime < _FRESH_S
        return True  # gone meanwhile
    if name.endswith(".lock"):
        return name.removesuffix(".lock") + ".jsonl" in names or files.holder(path) is not None
    if name.endswith(".files"):
        return name.removesuffix(".files") + ".jsonl" in names
    if owner := shelf.owner_of(name):
        return f"{owner}.jsonl" in names
    return name.endswith(".jsonl") and name[0] != "."


def _beside_each_other() -> list[Path]:
    try:
        return sorted(sessions_folder().iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"the sessions cannot be listed: {error.strerror}", hint="check ORKAS_HOME") from error
