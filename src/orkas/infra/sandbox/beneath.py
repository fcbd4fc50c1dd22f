"""One folder and what lies beneath it, reached by descriptors alone: no component of a path is ever a link.

What looks at a working folder from outside the walls must not be led out of it, also while a command in the background
exchanges folders and links all the time. So every step is opened from the one before, without following; what was a
folder of the working folder when it was opened is worked on, wherever its name leads meanwhile.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

__all__ = ["MISSING", "Beneath", "Seen", "is_aside"]

MOST_BYTES = 1 << 20
"""Of a file that is kept to be put back; a larger one is only known by its size and time."""
_MOST_ENTRIES = 200
_SUFFIX = ".set-aside"
_ASIDE = re.compile(r"\.set-aside(-[0-9a-f]{8})?\Z")
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Seen(Struct, frozen=True):
    """What stood at a path."""

    kind: str
    """missing, file, link, folder or other."""
    mode: int = 0
    content: Any = None
    """Bytes, the target of a link, what lies in a folder; of a large file its size and time."""


MISSING = Seen("missing")


def is_aside(name: str) -> bool:
    """A name under which something was set aside."""
    return _ASIDE.search(name) is not None


class Beneath:
    """A folder, held open; paths are given as they are, absolute, and lie below it. Closed as a context manager."""

    def __init__(self, root: Path) -> None:
        """Raises OSError: it is no folder, or cannot be opened."""
        self.root = root
        self._root = os.open(root, _STEP)

    def __enter__(self) -> Beneath:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    @property
    def identity(self) -> tuple[int, int]:
        """Device and number of the folder."""
        info = os.fstat(self._root)
        return info.st_dev, info.st_ino

    def places(self, path: Path) -> list[tuple[Path, int, int]]:
        """Each step to a path and the path itself, with device and number; empty: it is not there without links."""
        found: list[tuple[Path, int, int]] = []
        here = self.root
        try:
            with self._steps(path.relative_to(self.root).parts[:-1]) as descriptors:
                for name, descriptor in zip(path.relative_to(self.root).parts, descriptors, strict=True):
                    here = here / name
                    info = os.lstat(name, dir_fd=descriptor)
                    found.append((here, info.st_dev, info.st_ino))
            return [] if stat.S_ISLNK(info.st_mode) else found
        except OSError:
            return []

    @contextmanager
    def _steps(self, names: tuple[str, ...]) -> Iterator[list[int]]:
        """The root and each folder on the way, open."""
        descriptors = [self._root]
        try:
            for name in names:
                descriptors.append(os.open(name, _STEP, dir_fd=descriptors[-1]))
            yield descriptors
        finally:
            for descriptor in descriptors[1:]:
                os.close(descriptor)

    @contextmanager
    def _parent(self, path: Path) -> Iterator[tuple[int, str]]:
        """The folder in which a path lies, open, and its name there.

        Raises:
            OSError: a step is missing, or no folder.
        """
        parts = path.relative_to(self.root).parts
        with self._steps(parts[:-1]) as descriptors:
            yield descriptors[-1], parts[-1]

    def seen(self, path: Path) -> Seen:
        """What stands there now."""
        try:
            with self._parent(path) as (folder, name):
                return _seen(folder, name, [_MOST_ENTRIES], path.parent.name)
        except OSError:
            return MISSING

    def text(self, path: Path) -> str | None:
        """A regular file as text; None: it is none, or too large."""
        seen = self.seen(path)
        return seen.content.decode(errors="replace") if isinstance(seen.content, bytes) else None

    def names(self, path: Path) -> list[str]:
        """What lies in a folder; nothing in what is none."""
        try:
            with self._steps(path.relative_to(self.root).parts) as descriptors:
                return _listed(".", descriptors[-1])
        except OSError:
            return []

    def kinds(self, path: Path) -> dict[str, str] | None:
        """What lies in a folder, each with its kind as of ``Seen``; nothing in what is none; None: it cannot be listed,
        though others may go through it."""
        try:
            with self._steps(path.relative_to(self.root).parts) as descriptors:
                return {name: _kind(descriptors[-1], name) for name in _listed(".", descriptors[-1])}
        except PermissionError:
            return None
        except OSError:
            return {}

    def set_aside(self, path: Path) -> str:
        """Rename it to a name that nobody obeys, beside itself; returns that.

        Raises:
            OSError: it cannot be.
        """
        with self._parent(path) as (folder, name):
            return _set_aside(folder, name)

    def write(self, path: Path, seen: Seen) -> bool:
        """Make it as it was, where nothing is now; False: some of it was too large to be kept.

        Raises:
            OSError: it cannot be, or something is there.
        """
        with self._parent(path) as (folder, name):
            return _write(folder, name, seen)

    def clear_the_way(self, path: Path) -> None:
        """Folders above it that became something else are set aside and made anew.

        Raises:
            OSError: that is not possible.
        """
        parts = path.relative_to(self.root).parts[:-1]
        descriptor = os.dup(self._root)
        try:
            for name in parts:
                deeper = _entered(descriptor, name)
                os.close(descriptor)
                descriptor = deeper
        finally:
            os.close(descriptor)


def _entered(folder: int, name: str) -> int:
    for _ in range(3):  # who runs in the background may be busy at the same name
        try:
            return os.open(name, _STEP, dir_fd=folder)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
        except OSError:
            _set_aside(folder, name)
    return os.open(name, _STEP, dir_fd=folder)


def _set_aside(folder: int, name: str) -> str:
    aside = os.fsdecode(os.fsencode(name)[:200]) + _SUFFIX  # systems count bytes
    try:
        os.lstat(aside, dir_fd=folder)
        aside += f"-{secrets.token_hex(4)}"
    except FileNotFoundError:
        pass
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    return aside


def _listed(name: str, folder: int) -> list[str]:
    descriptor = os.open(name, _LOOK | os.O_DIRECTORY, dir_fd=folder)
    try:
        return sorted(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def _kind(folder: int, name: str) -> str:
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except OSError:
        return "missing"
    kinds = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "folder"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _seen(folder: int, name: str, left: list[int], within: str) -> Seen:
    left[0] -= 1
    try:
        info = os.lstat(name, dir_fd=folder)
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISLNK(info.st_mode):
            return Seen("link", 0, os.readlink(name, dir_fd=folder))
        if stat.S_ISREG(info.st_mode):
            large = info.st_size > MOST_BYTES
            return Seen("file", mode, (info.st_size, info.st_mtime_ns) if large else _content(folder, name))
        if stat.S_ISDIR(info.st_mode):
            return Seen("folder", mode, _inside(folder, name, left, within))
        return Seen("other", mode)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError:
        return Seen("other")


def _content(folder: int, name: str) -> bytes:
    with open(os.open(name, _LOOK, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it became something else meanwhile")
        return file.read(MOST_BYTES)


_IN_MODULES = re.compile(r"^(config(\.worktree)?|commondir|gitdir|HEAD|hooks)$")


def _inside(folder: int, name: str, left: list[int], within: str) -> dict[str, Seen]:
    """What lies in a folder; of the git folders in ``modules`` and ``worktrees`` what git obeys."""
    found = {}
    descriptor = os.open(name, _STEP, dir_fd=folder)
    try:
        for inner in _listed(".", descriptor):
            if left[0] <= 0:
                break
            if within not in ("modules", "worktrees") or _IN_MODULES.match(inner):
                found[inner] = _seen(descriptor, inner, left, name)
    finally:
        os.close(descriptor)
    return found


def _write(folder: int, name: str, seen: Seen) -> bool:
    match seen.kind:
        case "link":
            os.symlink(seen.content, name, dir_fd=folder)
        case "file" if isinstance(seen.content, bytes):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(seen.content)
                os.fchmod(file.fileno(), seen.mode)
        case "folder":
            os.mkdir(name, 0o700, dir_fd=folder)
            descriptor = os.open(name, _LOOK | os.O_DIRECTORY, dir_fd=folder)
            try:
                wholes = [_write(descriptor, inner, one) for inner, one in seen.content.items()]
                os.fchmod(descriptor, seen.mode)
            finally:
                os.close(descriptor)
            return all(wholes)
        case _:
            return False
    return True
