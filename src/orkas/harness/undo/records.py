"""What turns changed, on disk: a file a turn, grouped by working folder, with the contents that were there before.

``<home>/undo/<folder>/``: ``root`` (which folder it is), ``index`` (its files as last seen), ``contents`` and
``turns``. Written without flushing: a kill loses nothing, a power cut may lose the newest turn's way back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from orkas.harness.undo.scan import State
from orkas.harness.undo.vault import Vault
from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.home import home

__all__ = ["MAX_AGE_S", "MAX_BYTES", "MAX_TURNS", "Changed", "Kept", "Shelf", "TurnRecord", "newest", "tidy", "usage"]

MAX_AGE_S = 30 * 24 * 3_600.0
"""How long a turn can be taken back."""
MAX_TURNS = 100
"""Turns a working folder keeps."""
MAX_BYTES = 2 * 1024**3
"""Of all kept contents together; beyond it the folder that was used longest ago loses all of its."""


class Kept(msgspec.Struct, array_like=True, frozen=True):
    """One path as it was."""

    state: State
    digest: str | None = None
    """Of a file's content; None: too large to be kept."""
    target: str | None = None
    """Of a link."""

    def same(self, other: Kept) -> bool:
        """Equal for a user: kind, permissions and content."""
        if self.state.mode != other.state.mode or self.target != other.target:
            return False
        if not self.state.is_file:
            return True
        if self.digest is None or other.digest is None:
            return _stamp(self.state) == _stamp(other.state)
        return self.digest == other.digest


def _stamp(state: State) -> tuple[int, int, int]:
    return state.size, state.mtime, state.inode


class Changed(msgspec.Struct, array_like=True):
    """One path before a turn and after it; None: nothing was there."""

    before: Kept | None
    after: Kept | None
    foreign: bool = False
    """Somebody else changed it in the midst of the turn."""


class TurnRecord(msgspec.Struct):
    root: str
    session: str
    started: float
    changes: dict[str, Changed] = {}
    open: str = ""
    """The tool that ran when this was written."""
    undone: bool = False
    pid: int | None = None
    """Of a session that lives in memory: the record goes with its process."""


class Shelf:
    """What is kept for one working folder."""

    def __init__(self, root: Path) -> None:
        name = hashlib.blake2b(os.fsencode(root), digest_size=10).hexdigest()
        self.root = root
        self.folder = folder() / name
        self.vault = Vault(self.folder / "contents")

    def index(self) -> dict[str, Kept]:
        """The files as last seen; only those whose content is still here."""
        try:
            found = msgspec.msgpack.decode(files.read(self.folder / "index"), type=dict[str, Kept])
        except (OSError, msgspec.DecodeError):
            return {}
        there = {digest for digest, _ in self.vault.contents()}
        return {path: kept for path, kept in found.items() if kept.digest is None or kept.digest in there}

    def write_index(self, index: dict[str, Kept]) -> None:
        files.put(self.folder / "root", os.fsencode(self.root))
        files.put(self.folder / "index", msgspec.msgpack.encode(index))

    def write(self, page: Path, record: TurnRecord) -> None:
        files.put(page, msgspec.msgpack.encode(record))

    def page(self, record: TurnRecord) -> Path:
        return self.folder / "turns" / f"{record.started:.6f}-{os.getpid()}"


def folder() -> Path:
    return home() / "undo"


def _shelves() -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in folder().iterdir() if path.is_dir()]
    return []


def _pages(shelf: Path) -> list[Path]:
    """The newest first."""
    with contextlib.suppress(OSError):
        pages = [page for page in (shelf / "turns").iterdir() if not page.name.startswith(".")]
        return sorted(pages, key=_time_of, reverse=True)
    return []


def _time_of(page: Path) -> float:
    with contextlib.suppress(ValueError):
        return float(page.name.partition("-")[0])
    return 0.0


def read(page: Path) -> TurnRecord | None:
    """None: it is damaged."""
    try:
        return msgspec.msgpack.decode(files.read(page), type=TurnRecord)
    except (OSError, msgspec.DecodeError):
        return None


def newest(session: str) -> tuple[Path, TurnRecord] | None:
    """The last turn of a session that changed files and was not taken back, in whatever folder."""
    pages = sorted((page for shelf in _shelves() for page in _pages(shelf)), key=_time_of, reverse=True)
    for page in pages:
        record = read(page)
        if record and record.session == session and not record.undone and (record.changes or record.open):
            return page, record
    return None


def usage() -> tuple[int, int, int]:
    """Working folders, turns and bytes that are kept."""
    shelves = _shelves()
    size = sum(stat.st_size for shelf in shelves for _, stat in Vault(shelf / "contents").contents())
    return len(shelves), sum(len(_pages(shelf)) for shelf in shelves), size


def tidy(now_s: float | None = None, *, most: int = MAX_BYTES, young_s: float | None = None) -> int:
    """Remove turns that are too old or too many, and contents that nobody needs; how many bytes went."""
    now_s = time.time() if now_s is None else now_s
    freed = 0
    sizes: list[tuple[float, int, Path]] = []
    for shelf in _shelves():
        wanted = {digest for page in _current(shelf, now_s) for digest in _digests(page)}
        used = _last_used(shelf)
        if not wanted and now_s - used > MAX_AGE_S:
            freed += _cleared(shelf)
            continue
        with contextlib.suppress(OSError, msgspec.DecodeError):
            index = msgspec.msgpack.decode(files.read(shelf / "index"), type=dict[str, Kept])
            wanted |= {kept.digest for kept in index.values() if kept.digest}
        vault = Vault(shelf / "contents")
        freed += vault.forget_all_but(wanted) if young_s is None else vault.forget_all_but(wanted, young_s=young_s)
        sizes.append((used, sum(stat.st_size for _, stat in vault.contents()), shelf))
    total = 0
    for place, (_, size, shelf) in enumerate(sorted(sizes, reverse=True)):
        gone = 0
        if total + size > most:
            gone = _cleared(shelf) if place else _slimmed(shelf, most)  # the folder in use keeps what fits
        freed += gone
        total += size - gone
    return freed


def _slimmed(shelf: Path, most: int) -> int:
    """Forget the oldest turns until the contents fit, but not the newest turn; how many bytes went."""
    vault = Vault(shelf / "contents")
    sizes = {digest: stat.st_size for digest, stat in vault.contents()}
    pages = _pages(shelf)
    wanted: set[str] = set()
    kept = 0
    for page in pages:
        with_page = wanted | set(_digests(page))
        if kept and sum(sizes.get(digest, 0) for digest in with_page) > most:
            break
        wanted, kept = with_page, kept + 1
    for page in pages[kept:]:
        with contextlib.suppress(StorageError):
            files.remove(page)
    return vault.forget_all_but(wanted, young_s=0)


def _last_used(shelf: Path) -> float:
    times = [_time_of(page) for page in _pages(shelf)]
    for path in (shelf, shelf / "index"):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=0.0)


def _current(shelf: Path, now_s: float) -> Iterator[Path]:
    for place, page in enumerate(_pages(shelf)):
        if place >= MAX_TURNS or now_s - _time_of(page) > MAX_AGE_S or _orphaned(page):
            with contextlib.suppress(StorageError):
                files.remove(page)
        else:
            yield page


def _orphaned(page: Path) -> bool:
    """Of a session that lived in the memory of a process that is gone."""
    record = read(page)
    if record is None or record.pid is None or record.pid == os.getpid():
        return False
    try:
        os.kill(record.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _digests(page: Path) -> Iterator[str]:
    record = read(page)
    for change in record.changes.values() if record else ():
        for kept in (change.before, change.after):
            if kept is not None and kept.digest:
                yield kept.digest


def _cleared(shelf: Path) -> int:
    size = sum(stat.st_size for _, stat in Vault(shelf / "contents").contents())
    shutil.rmtree(shelf, ignore_errors=True)
    return size
