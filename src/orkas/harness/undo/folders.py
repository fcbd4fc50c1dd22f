"""The folders of a working folder, each opened once for all that is in it: no path is walked again and again.

Nothing is reached through a link. Whoever goes through paths in their order, or against it, pays for each folder once,
however deep the tree; what is deeper than a path of the system may be long is reached too.
"""

from __future__ import annotations

import os
import stat as st
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from types import TracebackType

from orkas.infra.home import home
from orkas.infra.paths import Folder

__all__ = ["Folders", "InTheWay", "OnALink", "Refused"]

_HELD = 128
"""Descriptors at a time."""


class Refused(Exception):
    """This path is left as it is; the words say why."""


class InTheWay(Refused):
    """Something that is no folder is on the way to the path."""


class OnALink(InTheWay):
    """It is a link."""


class Folders:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = ""
        self._names: list[str] = []
        self._open: list[Folder] = []  # the root, then a folder for each name; those far above may be closed
        self._closed = 0  # how many of them, from the second on

    def __enter__(self) -> Folders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.forget("")

    def parent(self, path: str) -> Folder:
        """The folder that holds the path, open until the next call.

        Raises:
            InTheWay: a folder on the way is none now.
            FileNotFoundError: it is not there.
        """
        above = path.rpartition("/")[0]
        if not self._open:
            self._open.append(Folder.at(self._root))
        elif above == self._path and self._closed < len(self._names):
            return self._open[-1]
        try:
            if self._path.startswith(f"{above}/") and self._closed <= above.count("/"):
                self._cut(above.count("/") + 1)
            else:
                self._go(above.split("/") if above else [])
        finally:
            self._path = "/".join(self._names)
        return self._open[-1]

    def make_way(self, path: str) -> None:
        """Make the folders that it is in, where they are missing."""
        parts = path.split("/")[:-1]
        for above in ("/".join(parts[:n]) for n in range(1, len(parts) + 1)):
            self.parent(above).down(above.rpartition("/")[2], create=True, keep=True).close()

    @contextmanager
    def parents(self, one: str, other: str) -> Iterator[tuple[Folder, Folder]]:
        """The folders that hold two paths."""
        here = self.parent(one)
        held = Folder(here.path, None if here.handle is None else os.dup(here.handle))
        try:
            yield held, self.parent(other)
        finally:
            held.close()

    def forget(self, path: str) -> None:
        """The folder of this path may be another one now, or none; "": all."""
        if not path:
            self._cut(0)
            while self._open:
                self._open.pop().close()
        elif self._path == path or self._path.startswith(f"{path}/"):
            self._cut(path.count("/"))

    def _cut(self, count: int) -> None:
        """Keep the root and this many folders below it."""
        if len(self._names) == count:
            return
        while len(self._names) > count:
            self._names.pop()
            self._open.pop().close()
        self._closed = min(self._closed, count)
        self._path = "/".join(self._names)

    def _go(self, names: list[str]) -> None:
        count = len(self._names)
        if names[:count] != self._names:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(names, self._names, strict=False))
            count = sum(1 for _ in same)
        self._cut(count)
        if self._closed == count:  # the way back is longer than what was held open: from the root again
            self._cut(0)
            count = 0
        for name in names[count:]:
            self._open.append(self._below(self._open[-1], name))
            self._names.append(name)
            if len(self._names) - self._closed > _HELD:
                self._closed += 1
                self._open[self._closed].close()

    def _below(self, folder: Folder, name: str) -> Folder:
        if folder.handle is None and not (folder.path / name).is_dir():
            raise FileNotFoundError(name)
        try:
            below = folder.down(name, keep=True)
        except OSError:
            with suppress(FileNotFoundError):
                mode = folder.stat(name).st_mode
                if st.S_ISLNK(mode):
                    raise OnALink("a folder on the way to it is a link now") from None
                if not st.S_ISDIR(mode):
                    raise InTheWay("a folder on the way to it is a file now") from None
            raise
        if _is_own(below):
            below.close()
            raise Refused("it lies among the data of Orkas itself")
        return below


def _is_own(folder: Folder) -> bool:
    with suppress(OSError):
        stat = folder.path.stat() if folder.handle is None else os.fstat(folder.handle)
        return os.path.samestat(stat, home().stat())
    return False
