"""Taking a turn's changes back, path by path; what somebody else has changed since is left alone and named.

Nothing is lost by it: what goes, or is replaced, lies in the trash. Nothing is written through a link or into a
second name of another file: every path is opened folder by folder, and contents get their place by a rename.
"""

from __future__ import annotations

import os
import secrets
import stat as st
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from orkas.harness import trash
from orkas.harness.undo import records
from orkas.harness.undo.records import Changed, Kept, Shelf, TurnRecord
from orkas.harness.undo.scan import TooLarge, scan, state_of
from orkas.harness.undo.vault import hash_of
from orkas.infra.errors import OrkasError, ToolFailed, UsageError
from orkas.infra.paths import Folder, Place, shown

__all__ = ["Undone", "undo"]


class Undone(msgspec.Struct):
    """What was taken back. Paths are relative to ``root``."""

    root: str
    started: float
    """When the turn changed its first file, in seconds since 1970."""
    restored: list[str] = []
    """Changed or deleted by the turn: as they were before it."""
    removed: list[str] = []
    """Made by the turn: in the trash now."""
    refused: list[str] = []
    """A sentence for each path that was left as it is."""
    cut: bool = False
    """The program was killed during a command: all that changed since it began was taken back."""

    @property
    def lines(self) -> list[str]:
        """For people, a line each."""
        lines = [f"restored {shown(path)}" for path in self.restored]
        lines += [f"removed {shown(path)} (it is in the trash)" for path in self.removed]
        if self.cut:
            lines.append(
                "the program was ended during a command, so all that changed since that began was taken back; what was"
                " replaced lies in the trash"
            )
        return lines + [f"left {text}" for text in self.refused] or ["there was nothing left to take back"]


def undo(session: str) -> Undone:
    """Take back what the newest turn of the session changed that was not taken back yet.

    Raises:
        UsageError: there is none.
        StorageError: that it was taken back could not be written down; asked again, it finds nothing left to do.
    """
    found = records.newest(session)
    if found is None:
        raise UsageError(
            "there is nothing to take back: no turn of this conversation has changed files, or all were taken back",
            hint=f"files that were deleted lie in {trash.folder()} for 30 days",
        )
    page, record = found
    root = Path(record.root)
    if not root.is_dir():
        raise UsageError(f"the working folder {root} is gone", hint="make it again, then undo")
    shelf = Shelf(root)
    cut = bool(record.open)
    if cut:
        _complete(shelf, record)
    done = _Restoring(shelf, record).run()
    done.cut = cut
    record.undone, record.open = True, ""
    shelf.write(page, record)
    return done


def _complete(shelf: Shelf, record: TurnRecord) -> None:
    """We were killed during a command: all that differs from what was before it counts as its doing."""
    before = shelf.index()
    try:
        states = scan(shelf.root).states
    except (TooLarge, OSError):
        return
    for path in before.keys() | states.keys():
        old, state = before.get(path), states.get(path)
        if old is not None and state is not None and old.state == state:
            continue
        new = None
        with suppress(OSError, OrkasError), _parent(shelf.root, path) as folder:
            new = _look(folder, path)
        if (old is None) == (new is None) and (old is None or new is None or old.same(new)):
            continue
        earlier = record.changes.get(path)
        if earlier is None:
            record.changes[path] = Changed(old, new)
        else:
            earlier.after = new


class _Refused(Exception):
    """This path is left as it is; the words say why."""


class _Restoring:
    def __init__(self, shelf: Shelf, record: TurnRecord) -> None:
        self._shelf = shelf
        self._record = record
        self._root = shelf.root
        self._done = Undone(record.root, record.started)

    def run(self) -> Undone:
        """What goes makes room first, the deepest before its folder; then folders come, then what is in them."""
        paths = sorted(self._record.changes)
        wanted = [path for path in paths if self._agreed(path)]
        for path in reversed(wanted):
            if self._goes(path):
                self._try(path, self._take_away)
        for path in sorted(wanted, key=lambda p: (not self._is_folder(p), p)):
            if self._record.changes[path].before is not None and not self._refused(path):
                self._try(path, self._bring_back)
        self._done.restored.sort()
        self._done.removed.sort()
        return self._done

    def _goes(self, path: str) -> bool:
        change = self._record.changes[path]
        if change.after is None:
            return False
        return change.before is None or st.S_IFMT(change.before.state.mode) != st.S_IFMT(change.after.state.mode)

    def _is_folder(self, path: str) -> bool:
        before = self._record.changes[path].before
        return before is not None and before.state.is_folder

    def _refused(self, path: str) -> bool:
        return any(text.startswith(f"{shown(path)}: ") for text in self._done.refused)

    def _try(self, path: str, work: object) -> None:
        try:
            work(path)  # type: ignore[operator]
        except _Refused as why:
            self._done.refused.append(f"{shown(path)}: {why}")
        except OSError as error:
            self._done.refused.append(f"{shown(path)}: {error.strerror or error}")
        except OrkasError as error:
            self._done.refused.append(f"{shown(path)}: {error}")

    def _agreed(self, path: str) -> bool:
        """It is as the turn left it; False also where it already is as it was before the turn."""
        change = self._record.changes[path]
        try:
            if change.foreign:
                raise _Refused("somebody else changed it during the turn")
            with _parent(self._root, path) as folder:
                now = _look(folder, path)
            if _equal(now, change.before):
                return False
            if not _equal(now, change.after):
                raise _Refused("it was changed after the turn")
            if now is not None and now.state.is_file and now.state.links > 1:
                raise _Refused("it has other names (hard links), which would be cut off")
            if change.before is not None and change.before.state.is_file and change.before.digest is None:
                raise _Refused("its content before the turn was not kept")
        except FileNotFoundError:
            return change.after is None and change.before is not None  # its folder is gone too
        except _Refused as why:
            self._done.refused.append(f"{shown(path)}: {why}")
            return False
        except (OSError, OrkasError) as error:
            self._done.refused.append(f"{shown(path)}: {error}")
            return False
        return True

    def _take_away(self, path: str) -> None:
        change = self._record.changes[path]
        assert change.after is not None
        name = path.rpartition("/")[2]
        with _parent(self._root, path) as folder:
            if change.after.state.is_folder:
                try:
                    folder.remove_folder(name)
                except OSError:
                    raise _Refused("the folder holds files that are not of this turn") from None
            else:
                trash.keep(folder, name, root=self._root, path=path)
                folder.unlink(name)
        if change.before is None:
            self._done.removed.append(path)

    def _bring_back(self, path: str) -> None:
        before = self._record.changes[path].before
        assert before is not None
        name = path.rpartition("/")[2]
        with _parent(self._root, path) as folder:
            if before.state.is_folder:
                folder.down(name, create=True, keep=True).close()
                _chmod(folder, name, before)
            elif before.state.is_link:
                self._make_room(folder, name, path)
                folder.link(name, before.target or "")
            else:
                assert before.digest is not None
                self._write(folder, name, path, self._shelf.vault.get(before.digest), before)
            folder.sync()
        self._done.restored.append(path)

    def _make_room(self, folder: Folder, name: str, path: str) -> None:
        with suppress(FileNotFoundError):
            folder.stat(name)
            trash.keep(folder, name, root=self._root, path=path)
            folder.unlink(name)

    def _write(self, folder: Folder, name: str, path: str, data: bytes, before: Kept) -> None:
        temporary = f".{name[:80]}.{secrets.token_hex(4)}.tmp"
        descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, st.S_IMODE(before.state.mode))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            with suppress(FileNotFoundError):
                folder.stat(name)
                trash.keep(folder, name, root=self._root, path=path)
            folder.replace(temporary, name)
        except BaseException:
            with suppress(OSError):
                folder.unlink(temporary)
            raise


def _chmod(folder: Folder, name: str, before: Kept) -> None:
    if folder.handle is None:
        return
    below = folder.down(name, keep=True)
    try:
        if below.handle is not None:
            os.fchmod(below.handle, st.S_IMODE(before.state.mode))
    finally:
        below.close()


@contextmanager
def _parent(root: Path, path: str) -> Iterator[Folder]:
    """The folder that holds the path; a link on the way is refused, wherever it leads."""
    above = path.rpartition("/")[0]
    real = Path(os.path.realpath(root / above))
    if real != root / above:
        raise _Refused("a folder on the way to it is a link now")
    place = Place(root, above)
    if not place.real.is_dir():
        raise FileNotFoundError(above)
    with place.folder() as folder:
        yield folder


def _look(folder: Folder, path: str) -> Kept | None:
    name = path.rpartition("/")[2]
    try:
        state = state_of(folder.stat(name))
    except FileNotFoundError:
        return None
    if state.is_link:
        return Kept(state, target=folder.link_target(name))
    if not state.is_file:
        return Kept(state)
    try:
        descriptor = folder.open(name)
    except ToolFailed as error:
        raise _Refused(str(error)) from None
    try:
        return Kept(state, hash_of(descriptor))
    finally:
        os.close(descriptor)


def _equal(one: Kept | None, other: Kept | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.same(other)
