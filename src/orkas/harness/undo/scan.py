"""What a folder tree looks like: one pass of the file system's own records, no content read.

Left out, whole: the history of git, which has its own way back; what a tool makes again from the rest (installed
packages, caches), told by name or by the mark that such folders carry; and our own data.
"""

from __future__ import annotations

import os
import stat as st
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from orkas.infra.home import home

__all__ = ["MAX_ENTRIES", "Mark", "State", "TooLarge", "Tree", "scan", "state_of"]

MAX_ENTRIES = 50_000
"""Files and folders; beyond that a tree is not watched as a whole. Scanning so many takes about 300 ms."""
_REBUILT = frozenset({
    ".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", "__pycache__", ".tox", ".nox", ".mypy_cache",
    ".ruff_cache", ".pytest_cache", ".gradle", ".next", ".nuxt", ".turbo", ".parcel-cache", ".terraform",
})  # fmt: skip
_MARKS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
"""Who makes a cache or a virtual environment leaves one of these in it."""
_TICK_NS = 50_000_000
"""A file changed so shortly before it was looked at may change again without another time: clocks tick coarsely."""
_FAR = 2_048
"""Bytes of a path, from where deeper folders are reached from one that is held open."""
_WITNESSES = 8
_UP = "/"


class State(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One entry as the file system describes it."""

    mode: int
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0
    links: int = 1

    @property
    def is_file(self) -> bool:
        return st.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        return st.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return st.S_ISLNK(self.mode)


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """What tells a folder that was not looked into, under whatever name."""

    inode: int
    mtime: int
    witnesses: tuple[tuple[int, int], ...] = ()
    """Inode and time of the last change of some of its entries: an inode is used again, but not with that time."""

    def is_of(self, other: Mark) -> bool:
        """Both tell the same folder, though its entries may have changed."""
        if self.inode != other.inode:
            return False
        return self.mtime == other.mtime or not set(self.witnesses).isdisjoint(other.witnesses)


class Tree(msgspec.Struct):
    """All entries by their path relative to the root, and the time, in ns since 1970, at which looking began."""

    states: dict[str, State]
    began: int
    left_out: dict[str, Mark] = {}
    """Folders that were not looked into."""

    @property
    def settled(self) -> int:
        """What changed after this time, in ns, is too young to be told from a later version of itself by its times."""
        return self.began - _TICK_NS


class TooLarge(Exception):
    """The tree has more than ``MAX_ENTRIES`` entries."""


def state_of(stat: os.stat_result) -> State:
    return State(stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_nlink)


def scan(root: Path, *, most: int = MAX_ENTRIES, since: Tree | None = None, known: Iterable[Mark] = ()) -> Tree:
    """Everything below ``root``, however deep; no link is followed. What cannot be looked at is left out. ``known``:
    folders that were left out before, and are under any name. ``since``: how it was before: what was looked into then
    is looked into now, what was left out is left out.

    Raises:
        TooLarge: there are more than ``most``.
        OSError: the root itself cannot be read.
    """
    before = since or Tree({}, 0)
    walk = _Walk(root, most, before, [*before.left_out.values(), *known])
    try:
        walk.run()
    finally:
        walk.close()
    return walk.tree


class _Walk:
    def __init__(self, root: Path, most: int, before: Tree, marks: Iterable[Mark]) -> None:
        self.tree = Tree({}, time.time_ns())
        self._root, self._most, self._before = root, most, before
        self._marks = {mark.inode: mark for mark in marks}
        self._looked_into = {
            state.inode for path, state in before.states.items() if state.is_folder and path not in before.left_out
        } if before.left_out else set()  # fmt: skip
        self._own = _own()
        self._anchors: list[tuple[int, int]] = []  # descriptors of deep folders, and how long the paths to them are

    def run(self) -> None:
        folders = [""]
        while folders:
            path = folders.pop()
            if path == _UP:
                os.close(self._anchors.pop()[0])
                continue
            try:
                if self._anchor(path):
                    folders.append(_UP)
                below = self._entries(path)
            except OSError:
                if not path:
                    raise
                continue
            if path and not _MARKS.isdisjoint(below) and self._is_new(path):
                self._leave_out(path, self.tree.states[path], below)
            else:
                self._take_in(path, below, folders)

    def close(self) -> None:
        while self._anchors:
            os.close(self._anchors.pop()[0])

    def _take_in(self, path: str, below: dict[str, os.stat_result], folders: list[str]) -> None:
        states = self.tree.states
        prefix = f"{path}/" if path else ""
        for name, stat in below.items():
            if st.S_ISDIR(stat.st_mode) and (stat.st_dev, stat.st_ino) == self._own:
                continue
            states[prefix + name] = state = state_of(stat)
            if st.S_ISDIR(stat.st_mode):
                if name in _REBUILT or self._was_left_out(prefix + name, state):
                    self._leave_out(prefix + name, state, None)
                else:
                    folders.append(prefix + name)
        if len(states) > self._most:
            raise TooLarge

    def _is_new(self, path: str) -> bool:
        """It was not looked into before."""
        return path not in self._before.states or path in self._before.left_out

    def _was_left_out(self, path: str, state: State) -> bool:
        if path in self._before.left_out and state.inode not in self._looked_into:
            return True
        mark = self._marks.get(state.inode)
        return mark is not None and (mark.mtime == state.mtime or mark.is_of(self._mark(path, state, None)))

    def _leave_out(self, path: str, state: State, below: dict[str, os.stat_result] | None) -> None:
        self.tree.left_out[path] = self._mark(path, state, below)

    def _mark(self, path: str, state: State, below: dict[str, os.stat_result] | None) -> Mark:
        if below is None:
            with suppress(OSError):
                below = self._entries(path, most=_WITNESSES)
        some = sorted(below or ())[:_WITNESSES]
        return Mark(state.inode, state.mtime, tuple((below[n].st_ino, below[n].st_ctime_ns) for n in some if below))

    def _anchor(self, path: str) -> bool:
        """The system takes no path beyond 4,096 bytes: what lies deeper is reached from a folder held open."""
        length = len(os.fsencode(path))
        if length - (self._anchors[-1][1] if self._anchors else 0) < _FAR:
            return False
        self._anchors.append((self._opened(path), length))
        return True

    def _opened(self, path: str) -> int:
        flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
        if not self._anchors:
            return os.open(self._root / path, flags)
        handle, length = self._anchors[-1]
        return os.open(os.fsencode(path)[length:].lstrip(b"/"), flags, dir_fd=handle)

    def _entries(self, path: str, *, most: int | None = None) -> dict[str, os.stat_result]:
        """What is in a folder, or some of it."""
        if not self._anchors:
            return _entries(f"{self._root}/{path}" if path else str(self._root), most)
        handle = self._opened(path) if len(os.fsencode(path)) > self._anchors[-1][1] else os.dup(self._anchors[-1][0])
        try:
            return _entries(handle, most)
        finally:
            os.close(handle)


def _own() -> tuple[int, int] | None:
    try:
        stat = home().stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _entries(path: str | int, most: int | None) -> dict[str, os.stat_result]:
    with os.scandir(path) as entries:
        found = {}
        for entry in entries if most is None else sorted(entries, key=lambda e: e.name)[:most]:
            try:
                found[entry.name] = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone since the folder was read
        return found
