"""Watching the working folder while tools change it, so that a turn can be taken back.

Nothing is done before the first tool that can change files. For one that names its files those alone are looked at;
for a command the whole tree is: contents that were not kept yet are kept before it runs, and what differs afterwards
is the turn's doing. What cannot be kept is told once.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from orkas.harness import trash
from orkas.harness.undo import records
from orkas.harness.undo.complete import complete, note_moved, same
from orkas.harness.undo.folders import Folders, InTheWay, Refused
from orkas.harness.undo.records import Changed, Index, Kept, Shelf, TurnRecord
from orkas.harness.undo.scan import Mark, State, TooLarge, Tree, scan, state_of
from orkas.infra import files
from orkas.infra.amounts import counted
from orkas.infra.errors import OrkasError
from orkas.infra.paths import shown

__all__ = ["MAX_FILE", "MAX_KEEPING_S", "MAX_TREE", "Keeper"]

_log = logging.getLogger("orkas.undo")

MAX_FILE = 16 * 1024 * 1024
"""Bytes of a file whose content is kept."""
MAX_TREE = 512 * 1024 * 1024
"""Bytes of the files of one tree whose contents are kept, the smallest first."""
MAX_KEEPING_S = 10.0
"""Seconds that the first look at a tree may take for keeping contents."""
_TIDIED_S = 86_400.0
_FAR = 2_048
"""Bytes of a path that may be too long for the system as it is, and is gone through folder by folder."""


class Keeper:
    """Of one agent in one working folder. Its methods block: they belong in a thread, one call of a tool at a time."""

    def __init__(self, root: Path, session: str, *, in_memory: bool = False) -> None:
        self._shelf = Shelf(root)
        self._root = root
        self._session = session
        self._pid = os.getpid() if in_memory else None
        self._lock = threading.Lock()
        self._record: TurnRecord | None = None
        self._page: Path | None = None
        self._pages: set[Path] = set()
        self._index: Index | None = None
        self._base: Index | None = None  # the tree before the command that runs
        self._tree: Tree | None = None  # and how it looked
        self._began = 0.0
        self._named: dict[str, Kept | None] = {}  # the named files before the tool that runs
        self._unwatched = self._written = False
        self._said: set[str] = set()
        self._told: list[str] = []
        self.scans = 0
        """Passes over the whole tree so far."""
        self.contents = 0
        """Contents read so far."""

    def begin(self) -> None:
        """A turn begins: what follows is taken back together."""
        with self._lock:
            self._record = self._page = None

    def told(self) -> list[str]:
        """What the user has to know, each thing once; empty nearly always."""
        told, self._told = self._told, []
        return told

    def before(self, tool: str, touched: Iterable[Path] | None) -> None:
        """A tool is about to run that changes these files; None: any. Never raises: undo is a help, no gate."""
        with self._lock:
            try:
                self._before(tool, touched)
            except Exception as error:  # noqa: BLE001 - undo is a help, no gate: no fault of its own stops a tool
                self._fail(error)

    def after(self) -> None:
        """It has ended, in whatever way. Never raises."""
        with self._lock:
            try:
                self._after()
            except Exception as error:  # noqa: BLE001 - the tool has run, and its result counts
                self._fail(error)
            finally:
                self._base, self._named = None, {}

    def forget(self) -> None:
        """The session lived in memory and is gone."""
        if self._pid is not None:
            with self._lock:
                self._record = self._page = None
                for page in self._pages:
                    with suppress(OSError):
                        page.unlink(missing_ok=True)

    def _fail(self, error: Exception) -> None:
        self._say(f"What this turn changes cannot be taken back with undo: {error}.")
        _log.warning("undo: %s", error)

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._told.append(text)

    def _before(self, tool: str, touched: Iterable[Path] | None) -> None:
        self._start()
        if touched is not None:
            self._named = {path: self._look(path) for path in self._with_folders(touched)}
            self._note_foreign(self._named)
            return
        if self._unwatched:
            return
        if self._index is None:
            self._index = self._shelf.index()
        tree = self._scan(known=self._index.left_out.values())
        if tree is None:
            return
        last, self._base, self._tree, self._began = self._index, self._known(tree), tree, time.time()
        if last != self._base or not self._written:
            self._shelf.write_index(self._base)
            self._written = True
        self._index = self._base
        self._note_foreign(self._base.files)
        assert self._record is not None and self._page is not None
        self._shelf.hold(self._page)
        self._record.open = tool
        self._write()

    def _start(self) -> None:
        if self._record is None:
            self._record = TurnRecord(str(self._root), self._session, time.time(), pid=self._pid)
            self._page = self._shelf.page(self._record)
            for page in self._shelf.cut_off():
                complete(self._shelf, page)
            _tidy_sometimes()

    def _scan(self, *, since: Tree | None = None, known: Iterable[Mark] = ()) -> Tree | None:
        self.scans += 1
        try:
            return scan(self._root, since=since, known=known)
        except TooLarge:
            self._unwatched = True
            self._say(
                "The working folder has more than 50,000 files and folders, so undo can take back what the file tools"
                " change in it, and not what shell commands do."
            )
        except FileNotFoundError:
            pass  # a command may make it again
        return None

    def _known(self, tree: Tree) -> Index:
        """Every path with its content kept, as far as the limits allow."""
        known = self._index.files if self._index is not None else {}
        found: dict[str, Kept] = {}
        new: list[str] = []
        room, settled = MAX_TREE, tree.settled
        for path, state in tree.states.items():
            old = known.get(path)
            if old is not None and old.state == state and state.mtime < settled and state.ctime < settled:
                found[path] = old
                room -= state.size if old.digest else 0
            elif state.is_file:
                new.append(path)
            else:
                found[path] = Kept(state, target=self._target(path) if state.is_link else None)
        missed = []
        give_up = time.monotonic() + MAX_KEEPING_S
        for path in sorted(new, key=lambda p: tree.states[p].size) if len(new) > 1 else new:
            state = tree.states[path]
            digest = None
            if state.size <= min(MAX_FILE, room) and time.monotonic() < give_up:
                digest = self._put(path)
            if digest is None:
                missed.append(path)
            else:
                room -= state.size
            found[path] = Kept(state, digest)
        if missed:
            self._tell_missed(missed)
        return Index(found, tree.left_out)

    def _tell_missed(self, missed: list[str]) -> None:
        names = ", ".join(shown(path) for path in missed[-3:]) + (", …" if len(missed) > 3 else "")
        count = counted(len(missed), "file")
        self._say(
            f"Undo does not keep the content of {count} here ({names}): it keeps files up to {MAX_FILE // 2**20} MB,"
            f" {MAX_TREE // 2**20} MB together, that it can read."
        )

    def _put(self, path: str) -> str | None:
        self.contents += 1
        try:
            return self._put_deep(path) if _is_far(path) else self._shelf.vault.put(self._root / path)
        except (PermissionError, FileNotFoundError, Refused):
            return None

    def _put_deep(self, path: str) -> str:
        with Folders(self._root) as folders:
            descriptor = folders.parent(path).open(path.rpartition("/")[2])
            try:
                return self._shelf.vault.put_open(descriptor)
            finally:
                os.close(descriptor)

    def _target(self, path: str) -> str:
        try:
            if _is_far(path):
                with Folders(self._root) as folders:
                    return folders.parent(path).link_target(path.rpartition("/")[2])
            return os.readlink(self._root / path)  # noqa: PTH115 - a Path would tidy it
        except (OSError, Refused):
            return ""

    def _state(self, path: str) -> State | None:
        try:
            if _is_far(path):
                with Folders(self._root) as folders:
                    return state_of(folders.parent(path).stat(path.rpartition("/")[2]))
            return state_of((self._root / path).lstat())
        except (FileNotFoundError, NotADirectoryError, InTheWay):
            return None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # nothing can have such a name
                return None
            raise

    def _with_folders(self, touched: Iterable[Path]) -> list[str]:
        """The paths relative to the root, each behind the folders it is in."""
        found: dict[str, None] = {}
        for path in touched:
            if path == self._root or not path.is_relative_to(self._root):
                continue
            parts = path.relative_to(self._root).parts
            for i in range(1, len(parts) + 1):
                found["/".join(parts[:i])] = None
        return list(found)

    def _look(self, path: str) -> Kept | None:
        """One path as it is now, its content kept."""
        state = self._state(path)
        if state is None:
            return None
        if state.is_link:
            return Kept(state, target=self._target(path))
        if not state.is_file:
            return Kept(state)
        old = self._index.files.get(path) if self._index is not None else None
        if old is not None and old.state == state and time.time_ns() - max(state.mtime, state.ctime) > 10**9:
            return old
        if state.size > MAX_FILE:
            self._tell_missed([path])
            return Kept(state)
        return Kept(state, self._put(path))

    def _note_foreign(self, now: Mapping[str, Kept | None]) -> None:
        """What is not as the turn left it was changed by somebody else meanwhile."""
        assert self._record is not None
        for path, change in self._record.changes.items():
            if path in now or self._base is not None:
                current = now[path] if path in now else self._look(path)  # it may lie where no scan looks
                if not same(current, change.after):
                    change.foreign = True

    def _after(self) -> None:
        if self._record is None:
            return
        was_open, self._record.open = self._record.open, ""
        changed = False
        if self._base is not None:
            tree = self._scan(since=self._tree)
            if tree is not None:
                now = self._known(tree)
                changed = self._compare(self._base.files, now.files)
                changed |= note_moved(self._record, self._base, now)
                self._note_others(now.files)
                self._index = now
        else:
            changed = self._compare(self._named, {path: self._look(path) for path in self._named})
        if self._page is not None and was_open:
            self._shelf.release(self._page)
        if changed:
            self._write()
        elif was_open and self._page is not None:
            if self._record.changes or self._record.moved:
                self._write()
            else:
                self._page.unlink(missing_ok=True)

    def _note_others(self, now: Mapping[str, Kept]) -> None:
        """What another conversation wrote down while the command ran is not of this turn."""
        assert self._record is not None
        for other in self._shelf.others(self._began, self._session):
            for path, change in other.changes.items():
                mine = self._record.changes.get(path)
                if mine is not None and not change.foreign and same(now.get(path), change.after):
                    mine.foreign = True

    def _compare(self, before: Mapping[str, Kept | None], after: Mapping[str, Kept | None]) -> bool:
        assert self._record is not None
        changed = False
        for path in before.keys() | after.keys():
            old, new = before.get(path), after.get(path)
            if old is new or same(old, new):
                continue
            changed = True
            earlier = self._record.changes.setdefault(path, Changed(old, new, named=self._base is None))
            earlier.after, earlier.named = new, earlier.named and self._base is None
        return changed

    def _write(self) -> None:
        if self._record is not None and self._page is not None:
            self._shelf.write(self._page, self._record)
            self._pages.add(self._page)


def _is_far(path: str) -> bool:
    return len(path) > _FAR // 4 and len(os.fsencode(path)) > _FAR


def _tidy_sometimes() -> None:
    """Once a day, beside everything else."""
    mark = records.folder() / ".tidied"
    with suppress(OSError):
        if time.time() - mark.stat().st_mtime < _TIDIED_S:
            return
    with suppress(OrkasError):
        files.put(mark, b"")
        threading.Thread(target=_tidy, name="orkas-tidy", daemon=True).start()


def _tidy() -> None:
    with suppress(OSError, OrkasError):
        records.tidy()
        trash.tidy()
