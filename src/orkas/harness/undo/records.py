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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from orkas.harness.undo.scan import Mark, State
from orkas.harness.undo.vault import Vault
from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.home import home

__all__ = [
    "MAX_AGE_S", "MAX_BYTES", "MAX_TRIES", "MAX_TURNS", "Changed", "Index", "Kept", "Shelf", "TurnRecord", "newest",
    "tidy", "usage",
]  # fmt: skip

T = TypeVar("T")
_MARK = b"bytes:"
MAX_AGE_S = 30 * 24 * 3_600.0
"""How long a turn can be taken back."""
MAX_TURNS = 100
"""Turns a working folder keeps."""
MAX_TRIES = 3
"""Attempts without any success after which a turn is given up, and the one before it comes next."""
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
        return not self.state.is_file or self.same_content(other)

    def same_content(self, other: Kept) -> bool:
        """Of two files."""
        if self.digest is None or other.digest is None:
            return self.stamp == other.stamp
        return self.digest == other.digest

    @property
    def stamp(self) -> tuple[int, int, int]:
        """What a rename leaves as it is, and a change does not."""
        return self.state.size, self.state.mtime, self.state.inode


class Changed(msgspec.Struct, array_like=True):
    """One path before a turn and after it; None: nothing was there."""

    before: Kept | None
    after: Kept | None
    foreign: bool = False
    """Somebody else changed it in the midst of the turn."""
    named: bool = False
    """Known from a tool that named it, and from no look at the whole tree."""


class Index(msgspec.Struct):
    """A working folder as last seen."""

    files: dict[str, Kept] = {}
    left_out: dict[str, Mark] = {}
    """Folders that were not looked into."""


class TurnRecord(msgspec.Struct):
    root: str
    session: str
    started: float
    changes: dict[str, Changed] = {}
    open: str = ""
    """The tool that ran when this was written."""
    moved: dict[str, tuple[str, int]] = {}
    """Folders that are not looked into and have another name now: by that, the one before and the inode."""
    undone: bool = False
    tries: int = 0
    """How often taking it back was begun, without success since the last one; what failed is tried again."""
    cut: bool = False
    """The program was killed during a command: what changed until it was seen again counts as its doing."""
    pid: int | None = None
    """Of a session that lives in memory: the record goes with its process."""


class Shelf:
    """What is kept for one working folder."""

    def __init__(self, root: Path) -> None:
        name = hashlib.blake2b(os.fsencode(root), digest_size=10).hexdigest()
        self.root = root
        self.folder = folder() / name
        self.vault = Vault(self.folder / "contents")

    def index(self) -> Index:
        """The files as last seen; only those whose content is still here."""
        found = _index(self.folder / "index")
        there = {digest: stat.st_size for digest, stat in self.vault.contents()}
        found.files = {
            path: kept for path, kept in found.files.items()
            if kept.digest is None or there.get(kept.digest) == kept.state.size
        }  # fmt: skip
        return found

    def write_index(self, index: Index) -> None:
        files.put(self.folder / "root", os.fsencode(self.root))
        files.put(self.folder / "index", encode(index))

    def write(self, page: Path, record: TurnRecord) -> None:
        files.put(page, encode(record))

    def hold(self, page: Path) -> None:
        """The index as it stands is what the command of this turn began with, whatever comes into the index later."""
        base = _base(page)
        base.unlink(missing_ok=True)
        base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.link(self.folder / "index", base)
        except OSError:  # no second names here
            shutil.copyfile(self.folder / "index", base)

    def release(self, page: Path) -> None:
        """The command has ended, and what it did is written down."""
        with contextlib.suppress(OSError):
            _base(page).unlink()

    def held(self, page: Path) -> Index | None:
        """What the command of this turn began with, where it never ended and that can be read."""
        try:
            return decode(files.read(_base(page)), Index)
        except (OSError, msgspec.DecodeError):
            return None

    def cut_off(self) -> list[Path]:
        """Turns whose program is gone and whose command never ended."""
        with contextlib.suppress(OSError):
            return [
                page for base in (self.folder / "open").iterdir()
                if not _alive(base.name) and (page := self.folder / "turns" / base.name).exists()
            ]  # fmt: skip
        return []

    def others(self, since: float, session: str) -> list[TurnRecord]:
        """Turns of other conversations here that were written down since this time, in seconds since 1970."""
        found = []
        with contextlib.suppress(OSError):
            for page in (self.folder / "turns").iterdir():
                with contextlib.suppress(OSError):
                    if page.stat().st_mtime >= since and (record := read(page)) and record.session != session:
                        found.append(record)
        return found

    def page(self, record: TurnRecord) -> Path:
        return self.folder / "turns" / f"{record.started:.6f}-{_sign(record.session)}-{os.getpid()}"


def folder() -> Path:
    return home() / "undo"


def _base(page: Path) -> Path:
    return page.parent.parent / "open" / page.name


def _sign(session: str) -> str:
    """Tells the session of a page, should it be damaged."""
    return hashlib.blake2b(session.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def _alive(page: str) -> bool:
    """Whether the program that wrote a page of this name still runs, as far as can be told."""
    try:
        os.kill(int(page.rpartition("-")[2]), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def encode(value: Index | TurnRecord) -> bytes:
    """A name that is no text is kept by its bytes, behind a NUL, which no name has."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_renamed(msgspec.to_builtins(value), _marked))


def decode(data: bytes, type_: type[T]) -> T:
    """Raises DecodeError: it is damaged."""
    if b"\0" + _MARK not in data:
        return msgspec.msgpack.decode(data, type=type_)
    try:
        return msgspec.convert(_renamed(msgspec.msgpack.decode(data), _unmarked), type_)
    except (msgspec.ValidationError, ValueError) as error:
        raise msgspec.DecodeError(str(error)) from None


def _marked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0" + _MARK.decode() + os.fsencode(text).decode("latin-1")
    return text


def _unmarked(text: str) -> str:
    mark = "\0" + _MARK.decode()
    return os.fsdecode(text[len(mark) :].encode("latin-1")) if text.startswith(mark) else text


def _renamed(value: Any, how: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return how(value)
    if isinstance(value, dict):
        return {_renamed(key, how): _renamed(one, how) for key, one in value.items()}
    return [_renamed(one, how) for one in value] if isinstance(value, list | tuple) else value


def _index(path: Path) -> Index:
    try:
        return decode(files.read(path), Index)
    except (OSError, msgspec.DecodeError):
        return Index()


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
        record = decode(files.read(page), TurnRecord)
    except (OSError, msgspec.DecodeError):
        return None
    paths = [*record.changes, *record.moved, *(was for was, _ in record.moved.values())]
    return record if all(map(_is_inside, paths)) else None


def _is_inside(path: str) -> bool:
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def newest(session: str) -> tuple[Path, TurnRecord] | None:
    """The last turn of a session that changed files and was not taken back, in whatever folder.

    Raises:
        StorageError: its record is damaged. The one before it comes next.
    """
    pages = sorted((page for shelf in _shelves() for page in _pages(shelf)), key=_time_of, reverse=True)
    for page in pages:
        record = read(page)
        if record is None and page.exists() and f"-{_sign(session)}-" in page.name:
            with contextlib.suppress(StorageError):
                files.remove(page)
            raise StorageError(
                "what the last turn changed cannot be taken back: the record of it is damaged",
                hint="undo again takes back the turn before it; `orkas trash list` shows files that were deleted",
            )
        if record is None or record.session != session or record.undone:
            continue
        if record.changes or record.moved or record.open:
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
        bases = [shelf / "index", *((shelf / "open").iterdir() if (shelf / "open").is_dir() else ())]
        wanted |= {kept.digest for base in bases for kept in _index(base).files.values() if kept.digest}
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
