"""What a folder tree looks like: one pass of the file system's own records, no content read.

Left out, whole: the history of git, which has its own way back; what a tool makes again from the rest (installed
packages, caches), told by name or by the mark that such folders carry; and our own data.
"""

from __future__ import annotations

import os
import stat as st
import time
from pathlib import Path

import msgspec

from orkas.infra.home import home

__all__ = ["MAX_ENTRIES", "State", "TooLarge", "Tree", "scan", "state_of"]

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


class Tree(msgspec.Struct):
    """All entries by their path relative to the root, and the time, in ns since 1970, at which looking began."""

    states: dict[str, State]
    began: int
    left_out: dict[str, tuple[int, int]] = {}
    """Folders that were not looked into, each with its inode and the time of its last change."""

    @property
    def settled(self) -> int:
        """What changed after this time, in ns, is too young to be told from a later version of itself by its times."""
        return self.began - _TICK_NS


class TooLarge(Exception):
    """The tree has more than ``MAX_ENTRIES`` entries."""


def state_of(stat: os.stat_result) -> State:
    return State(stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_nlink)


def scan(root: Path, *, most: int = MAX_ENTRIES, since: Tree | None = None) -> Tree:
    """Everything below ``root``; no link is followed. What cannot be looked at is left out. ``since``: how it was
    before: what was looked into then is looked into now, what was left out is left out, under any name.

    Raises:
        TooLarge: there are more than ``most``.
        OSError: the root itself cannot be read.
    """
    began = time.time_ns()
    try:
        own = (home().stat().st_dev, home().stat().st_ino)
    except OSError:
        own = None
    states: dict[str, State] = {}
    left_out: dict[str, tuple[int, int]] = {}
    before = since or Tree({}, 0)
    once = frozenset(before.left_out.values())
    folders: list[tuple[str, str]] = [("", str(root))]
    while folders:
        prefix, path = folders.pop()
        try:
            below = _entries(path)
        except OSError:
            if not prefix:
                raise
            continue
        above = prefix[:-1]
        if prefix and not _MARKS.isdisjoint(below) and (above not in before.states or above in before.left_out):
            left_out[above] = states[above].inode, states[above].mtime
            continue
        for name, stat in below.items():
            kind = st.S_IFMT(stat.st_mode)
            if kind == st.S_IFDIR:
                if (stat.st_dev, stat.st_ino) == own:
                    continue
                now = stat.st_ino, stat.st_mtime_ns
                if name in _REBUILT or now in once or prefix + name in before.left_out:
                    left_out[prefix + name] = now
                    if name in _REBUILT:
                        continue
                else:
                    folders.append((f"{prefix}{name}/", f"{path}/{name}"))
            states[prefix + name] = State(
                stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_nlink
            )
        if len(states) > most:
            raise TooLarge
    return Tree(states, began, left_out)


def _entries(path: str) -> dict[str, os.stat_result]:
    with os.scandir(path) as entries:
        found = {}
        for entry in entries:
            try:
                found[entry.name] = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone since the folder was read
        return found
