"""Walking the working folder: no link is followed, ignored files are left out and counted, memory stays small."""

from __future__ import annotations

import os
import stat as st
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from orkas.infra.abort import Abort
from orkas.infra.home import home
from orkas.infra.paths import Folder, Place
from orkas.tools.globs import Rules

__all__ = ["Entry", "Ignore", "Walk"]

MAX_DEPTH = 60
"""Folders in folders; each holds one descriptor open while it is walked."""
_IGNORE_BYTES = 256 * 1024


@dataclass(slots=True)
class Entry:
    """Something in a folder. ``name`` is relative to the working folder, ``folder`` is open while it is visited."""

    name: str
    stat: os.stat_result
    folder: Folder

    @property
    def last(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        return st.S_ISDIR(self.stat.st_mode)

    @property
    def is_file(self) -> bool:
        return st.S_ISREG(self.stat.st_mode)


class Ignore:
    """The ``.gitignore`` files from the working folder down; the deepest one that has an opinion decides."""

    def __init__(self) -> None:
        self._levels: list[tuple[str, Rules]] = []

    def enter(self, folder: Folder, name: str) -> bool:
        """Read the rules of a folder; True when it has some, which ``leave`` takes back."""
        with suppress(Exception):  # an unreadable or odd .gitignore ignores nothing
            descriptor = folder.open(".gitignore")
            try:
                text = os.read(descriptor, _IGNORE_BYTES).decode("utf-8-sig", "replace")
            finally:
                os.close(descriptor)
            self._levels.append((f"{name}/" if name != "." else "", Rules(text.split("\n"))))
            return True
        return False

    def leave(self) -> None:
        self._levels.pop()

    def forget(self) -> None:
        """Ignore nothing from here on but what deeper folders say."""
        self._levels.clear()

    def ignores(self, name: str, *, is_folder: bool) -> bool:
        for prefix, spec in reversed(self._levels):
            opinion = spec.opinion(name[len(prefix) :], is_folder=is_folder)
            if opinion is not None:
                return opinion
        return False


@dataclass(slots=True)
class Walk:
    """Everything below a place, folder by folder, names in order. What was left out is counted."""

    abort: Abort
    ignore: Ignore | None = None
    depth: int = MAX_DEPTH
    ignored: int = 0
    unreadable: list[str] = field(default_factory=list)
    too_deep: int = 0

    own: int = 0
    """Folders of our own data; nobody looks into them."""
    _home: os.stat_result | None = None

    def below(self, place: Place) -> Iterator[Entry]:
        with suppress(OSError):
            self._home = home().stat()
        with place.folder() as folder:
            if self.ignore is not None:
                self._enter_ancestors(place)
            yield from self._inside(folder, "/".join(place.parts), 1)

    def _enter_ancestors(self, place: Place) -> None:
        """Rules of the folders above the start. A start that they ignore was asked for by name: then none count."""
        assert self.ignore is not None
        folder = Folder.at(place.root)
        try:
            for i, part in enumerate(place.parts):
                self.ignore.enter(folder, "/".join(place.parts[:i]) or ".")
                folder = folder.down(part)
        finally:
            folder.close()
        if any(self.ignore.ignores("/".join(place.parts[: i + 1]), is_folder=True) for i in range(len(place.parts))):
            self.ignore.forget()

    def _inside(self, folder: Folder, name: str, level: int) -> Iterator[Entry]:
        self.abort.check()
        entered = self.ignore.enter(folder, name or ".") if self.ignore else False
        try:
            for entry in self._entries(folder, name):
                yield entry
                if entry.is_folder and not (self.ignore and entry.last == ".git"):
                    yield from self._down(folder, entry, level)
        finally:
            if entered and self.ignore:
                self.ignore.leave()

    def _entries(self, folder: Folder, name: str) -> Iterator[Entry]:
        for found in sorted(folder.entries(), key=lambda e: e.name):
            self.abort.check()
            path = f"{name}/{found.name}" if name else found.name
            try:
                stat = found.stat(follow_symlinks=False)
            except OSError:
                continue  # gone since the folder was read
            entry = Entry(path, stat, folder)
            if self.ignore and self.ignore.ignores(path, is_folder=entry.is_folder):
                self.ignored += 1
                continue
            yield entry

    def _down(self, folder: Folder, entry: Entry, level: int) -> Iterator[Entry]:
        if self._home is not None and os.path.samestat(entry.stat, self._home):
            self.own += 1
            return
        if level >= self.depth:
            self.too_deep += 1
            return
        try:
            below = folder.down(entry.last, keep=True)
        except OSError:
            self.unreadable.append(entry.name)
            return
        try:
            yield from self._inside(below, entry.name, level + 1)
        finally:
            below.close()
