"""Where files of the user go that we take away: into the trash below the home folder, with their origin.

A file is in the trash before it goes from its place. ``put_back`` returns it; what is old or too much is removed by
``tidy``, the oldest first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat as st
import time
from pathlib import Path

import msgspec

from orkas.infra import files
from orkas.infra.errors import StorageError, UsageError
from orkas.infra.home import home
from orkas.infra.messages import new_id
from orkas.infra.paths import Folder, Place, shown

__all__ = ["MAX_AGE_S", "MAX_BYTES", "Entry", "drop", "entries", "folder", "keep", "names_of", "put_back", "tidy"]

MAX_AGE_S = 30 * 24 * 3_600.0
MAX_BYTES = 1024**3
_CONTENT, _ORIGIN = "content", "origin.json"
_CHUNK = 1024 * 1024


class Entry(msgspec.Struct):
    """One file in the trash."""

    id: str
    root: str
    """The working folder that it was in."""
    path: str
    """Relative to ``root``."""
    taken: float
    """Seconds since 1970."""
    bytes: int = 0


def folder() -> Path:
    return home() / "trash" / "files"


def keep(source: Folder, name: str, *, root: Path, path: str) -> str:
    """Put a copy of a file or link into the trash, a second name of it where the file system has such; returns its id.

    Raises:
        OSError, StorageError: it could not be kept; the file itself is untouched.
    """
    id_ = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{new_id()[:8]}"
    within = folder()
    files.make_folder(within)
    place = within / id_
    place.mkdir(0o700)
    try:
        origin = {"root": str(root), "path": path, "taken": time.time()}
        (place / _ORIGIN).write_bytes(json.dumps(origin).encode())  # nobody reads an entry without its content
        _copy(source, name, place / _CONTENT)
    except BaseException:
        drop(id_)
        raise
    return id_


def _copy(source: Folder, name: str, target: Path) -> None:
    stat = source.stat(name)
    if st.S_ISLNK(stat.st_mode):
        target.symlink_to(source.link_target(name))
        return
    if stat.st_nlink == 1 and _named_again(source, name, target):
        return
    descriptor = source.open(name)
    with os.fdopen(descriptor, "rb") as old, target.open("xb") as new:
        shutil.copyfileobj(old, new, _CHUNK)
        new.flush()
        os.fsync(new.fileno())
        stat = os.fstat(old.fileno())
    target.chmod(st.S_IMODE(stat.st_mode) & 0o777)
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _named_again(source: Folder, name: str, target: Path) -> bool:
    """A second name in place of a copy; not where others name the file too, for they may write into it."""
    here = {"src_dir_fd": source.handle} if source.handle is not None else {}
    origin = name if source.handle is not None else str(source.path / name)
    try:
        os.link(origin, target, follow_symlinks=False, **here)
    except (OSError, NotImplementedError):  # another file system, or one without second names
        return False
    return True


def drop(id_: str) -> None:
    """Remove it for good."""
    shutil.rmtree(folder() / id_, ignore_errors=True)


def entries() -> list[Entry]:
    """All that lies there, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        for place in folder().iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                origin = json.loads(files.read(place / _ORIGIN, most=100_000))
                size = (place / _CONTENT).lstat().st_size
                found.append(Entry(place.name, str(origin["root"]), str(origin["path"]), float(origin["taken"]), size))
    return sorted(found, key=lambda entry: entry.taken, reverse=True)


def names_of(inode: int) -> int:
    """How many files here are second names of this one: it was about to be replaced, and was not."""
    found = 0
    with contextlib.suppress(OSError):
        for place in folder().iterdir():
            with contextlib.suppress(OSError):
                found += (place / _CONTENT).lstat().st_ino == inode
    return found


def put_back(id_: str, *, to: Path | None = None) -> Path:
    """Return a file to where it was, or to another place; returns that.

    Raises:
        UsageError: there is no such entry, or something is in its place by now.
        StorageError: it could not be written; it stays in the trash.
    """
    entry = next((e for e in entries() if e.id == id_), None)
    if entry is None:
        raise UsageError(f"there is nothing {id_!r} in the trash", hint="`orkas trash list` shows what there is")
    content = folder() / id_ / _CONTENT
    there = Path(entry.root) / entry.path if to is None else to.absolute()
    place = Place(Path(entry.root), entry.path) if to is None else Place(there.parent, there.name)
    with place.parent(create=True) as parent:
        name = place.parts[-1]
        with contextlib.suppress(FileNotFoundError):
            parent.stat(name)
            raise UsageError(
                f"{shown(str(there))} is there, so the one in the trash was not put back",
                hint="move it away, or give another place with --to PATH",
            )
        try:
            shutil.move(content, parent.path / name)
        except OSError as error:
            raise StorageError(f"{shown(entry.path)} could not be put back: {error.strerror}") from error
    drop(id_)
    return place.real


def tidy(now_s: float | None = None) -> int:
    """Remove what is older than ``MAX_AGE_S`` or beyond ``MAX_BYTES`` together; how many files went."""
    now_s = time.time() if now_s is None else now_s
    total, gone = 0, 0
    for entry in entries():
        total += entry.bytes
        if now_s - entry.taken > MAX_AGE_S or total > MAX_BYTES:
            drop(entry.id)
            gone += 1
    return gone
