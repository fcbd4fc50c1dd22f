"""The paths of a turn, each as it was before; what somebody else has changed since is left alone and named.

Nothing is lost by it: what goes, or is replaced, lies in the trash, and what no content was kept of stays. Nothing is
written through a link or into a second name of another file: every path is opened folder by folder, and contents get
their place by a rename.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat as st
from collections.abc import Callable
from contextlib import suppress

import msgspec

from orkas.harness import trash
from orkas.harness.undo.complete import same
from orkas.harness.undo.looking import OnALink, Refused, look, parent
from orkas.harness.undo.records import Changed, Kept, Shelf, TurnRecord
from orkas.infra.errors import OrkasError, StorageError
from orkas.infra.paths import Folder, shown

__all__ = ["Restoring", "Undone"]


_TEMPORARY = re.compile(r"\.undo-[0-9a-f]{16}\.tmp")


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
    again: bool = False
    """Some of it failed for a reason that may go away; the next undo tries it again."""

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
        lines += [f"left {text}" for text in self.refused]
        if self.again:
            lines.append("what failed is tried again by the next undo")
        return lines or ["there was nothing left to take back"]


class Restoring:
    """``failed``: paths of which something went wrong that may go right the next time. ``resumed``: it was tried before
    and did not end whole."""

    def __init__(self, shelf: Shelf, record: TurnRecord, *, resumed: bool) -> None:
        self._shelf = shelf
        self._root = shelf.root
        self._record = record
        self._resumed = resumed
        self._changes = {_before_move(path, record.moved): change for path, change in record.changes.items()}
        self._moves = _moves(self._changes)
        self._still = frozenset(self._moves.values())
        self._wanted: dict[str, None] = {}
        self._done = Undone(record.root, record.started)
        self._left: set[str] = set()
        self._over: set[str] = set()
        self._lost = {
            change.before.state.size for path, change in self._changes.items()
            if path not in self._moves and change.before is not None and _is_gone(change)
        }  # fmt: skip
        self.failed: set[str] = set()

    def run(self) -> Undone:
        """What only has another name gets its own back. Then what goes makes room, the deepest before its folder; then
        folders come, then what is in them."""
        for new, was in self._record.moved.items():
            self._try(new, lambda _, new=new, was=was: self._rename(new, was))  # type: ignore[misc]
        paths = sorted(self._changes)
        for path in paths:
            self._try(path, self._give_rights)
        if self._resumed:
            self._tidy({path.rpartition("/")[0] for path in paths})
        for path in paths:
            self._try(path, self._look_at)
        for path in self._moves:
            if path in self._wanted:
                self._try(path, self._move_back)
        for path in reversed(self._wanted):
            if self._goes(path) and not self._ended(path):
                self._try(path, self._take_away)
        for path in sorted(self._wanted, key=lambda p: (not self._is_folder(p), p)):
            if self._changes[path].before is not None and not self._ended(path):
                self._try(path, self._bring_back)
        self._done.restored.sort()
        self._done.removed.sort()
        return self._done

    def _goes(self, path: str) -> bool:
        change = self._changes[path]
        if change.after is None:
            return False
        return change.before is None or st.S_IFMT(change.before.state.mode) != st.S_IFMT(change.after.state.mode)

    def _is_folder(self, path: str) -> bool:
        before = self._changes[path].before
        return before is not None and before.state.is_folder

    def _ended(self, path: str) -> bool:
        return path in self._left or path in self._over

    def _try(self, path: str, work: Callable[[str], None]) -> None:
        if path in self._left:
            return
        try:
            work(path)
        except Refused as why:
            self._leave(path, str(why))
        except OSError as error:
            self._leave(path, error.strerror or str(error))
            self.failed.add(path)
        except OrkasError as error:
            self._leave(path, str(error))
            self.failed.add(path)

    def _restored(self, path: str) -> None:
        self._over.add(path)
        self._done.restored.append(path)

    def _removed(self, path: str) -> None:
        self._over.add(path)
        self._done.removed.append(path)

    def _leave(self, path: str, why: str) -> None:
        self._left.add(path)
        self._done.refused.append(f"{shown(path)}: {why}")

    def _tidy(self, folders: set[str]) -> None:
        """What the attempt before was writing when it was killed."""
        for path in folders:
            with suppress(Refused, OSError, OrkasError), parent(self._root, f"{path}/x" if path else "x") as folder:
                for name in folder.names():
                    if _TEMPORARY.fullmatch(name):
                        folder.unlink(name)

    # -------------------------------------------------------------- looking

    def _give_rights(self, path: str) -> None:
        """A folder whose rights the turn changed gets them back first, so that what is in it can be reached."""
        before, after = self._changes[path].before, self._changes[path].after
        if before is None or after is None or not (before.state.is_folder and after.state.is_folder):
            return
        with suppress(Refused, FileNotFoundError), parent(self._root, path) as folder:
            name = path.rpartition("/")[2]
            if folder.stat(name).st_mode == after.state.mode and not self._changes[path].foreign:
                folder.chmod(name, st.S_IMODE(before.state.mode))
                self._restored(path)

    def _look_at(self, path: str) -> None:
        if not self._ended(path) and self._agreed(path, self._changes[path]):
            self._wanted[path] = None

    def _agreed(self, path: str, change: Changed) -> bool:
        """It is as the turn left it; False where it already is as it was before the turn.

        Raises:
            Refused: it is not, or cannot be brought back.
        """
        if change.foreign:
            raise Refused("somebody else changed it during the turn")
        try:
            with parent(self._root, path) as folder:
                now = look(folder, path)
        except FileNotFoundError:
            now = None  # its folder is gone too
        except OnALink:
            if not self._behind_a_link_of_ours(path):
                raise
            now = None
        if same(now, change.before):
            return False
        half_done = self._resumed and now is None and self._goes(path)
        if not (same(now, change.after) or half_done):
            raise Refused("it was changed after the turn")
        self._check_content(path, change, now)
        return True

    def _behind_a_link_of_ours(self, path: str) -> bool:
        """A folder above it became a link by this turn, which goes."""
        parts = path.split("/")
        above = ("/".join(parts[:n]) for n in range(1, len(parts)))
        return any(one in self._wanted and self._goes(one) and _is_link(self._changes[one].after) for one in above)

    def _check_content(self, path: str, change: Changed, now: Kept | None) -> None:
        before = change.before
        if before is None:
            if now is not None and now.state.is_file and now.state.size in self._lost and path not in self._still:
                raise Refused("it may be what is left of a file whose content was not kept")
            return
        if now is not None and now.state.is_file and before.state.is_file:
            if before.same_content(now):
                return
            if now.state.links - trash.names_of(now.state.inode) > 1:
                raise Refused("it has other names (hard links), which would be cut off")
        if before.state.is_file and before.digest is None and path not in self._moves:
            raise Refused("its content before the turn was not kept")

    # -------------------------------------------------------------- moving

    def _move_back(self, path: str) -> None:
        """A file of which no content was kept still has it under another name."""
        new = self._moves[path]
        if new not in self._wanted:
            raise Refused(f"it is {shown(new)} now, which is not as the turn left it")
        parts = path.split("/")
        for above in ("/".join(parts[:n]) for n in range(1, len(parts))):
            if above in self._wanted and not self._ended(above):
                self._try(above, self._bring_back)
        self._rename(new, path)
        before = self._changes[path].before
        with parent(self._root, path) as folder:
            if before is not None:
                folder.chmod(parts[-1], st.S_IMODE(before.state.mode))
        self._removed(new)

    def _rename(self, new: str, was: str) -> None:
        with parent(self._root, new) as here, parent(self._root, was) as there:
            here.move(new.rpartition("/")[2], there, was.rpartition("/")[2])
        self._restored(was)

    # -------------------------------------------------------------- taking away, bringing back

    def _take_away(self, path: str) -> None:
        change = self._changes[path]
        assert change.after is not None
        name = path.rpartition("/")[2]
        with parent(self._root, path) as folder:
            if change.after.state.is_folder:
                self._remove_folder(folder, name, path)
            else:
                with suppress(FileNotFoundError):
                    if change.after.state.is_file or change.after.state.is_link:  # a pipe holds nothing
                        trash.keep(folder, name, root=self._root, path=path)
                    folder.unlink(name)
        if change.before is None:
            self._removed(path)

    def _remove_folder(self, folder: Folder, name: str, path: str) -> None:
        try:
            folder.remove_folder(name)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                if any(failed.startswith(f"{path}/") for failed in self.failed):
                    self.failed.add(path)  # it goes with them
                raise Refused("the folder holds files that are not of this turn") from None
            raise

    def _bring_back(self, path: str) -> None:
        change = self._changes[path]
        before = change.before
        assert before is not None
        name = path.rpartition("/")[2]
        with parent(self._root, path) as folder:
            if before.state.is_folder:
                folder.down(name, create=True, keep=True).close()
                folder.chmod(name, st.S_IMODE(before.state.mode))
            elif before.state.is_link:
                self._make_room(folder, name, path)
                folder.link(name, before.target or "")
            elif not before.state.is_file:
                self._make_special(folder, name, before)
            elif change.after is not None and change.after.state.is_file and before.same_content(change.after):
                folder.chmod(name, st.S_IMODE(before.state.mode))
            else:
                assert before.digest is not None
                self._write(folder, name, path, self._content(before.digest), before)
            folder.sync()
        self._restored(path)

    def _content(self, digest: str) -> bytes:
        try:
            return self._shelf.vault.get(digest)
        except StorageError as error:  # no waiting brings it back
            raise Refused(str(error)) from None

    def _make_special(self, folder: Folder, name: str, before: Kept) -> None:
        if not st.S_ISFIFO(before.state.mode):
            raise Refused("a socket or a device cannot be made again")
        os.mkfifo(name, st.S_IMODE(before.state.mode), dir_fd=folder.handle)

    def _make_room(self, folder: Folder, name: str, path: str) -> None:
        with suppress(FileNotFoundError):
            folder.stat(name)
            trash.keep(folder, name, root=self._root, path=path)
            folder.unlink(name)

    def _write(self, folder: Folder, name: str, path: str, data: bytes, before: Kept) -> None:
        temporary = f".undo-{secrets.token_hex(8)}.tmp"
        descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                _take_over(folder, name, descriptor)
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, st.S_IMODE(before.state.mode))
                if os.utime in os.supports_fd:
                    os.utime(descriptor, ns=(before.state.mtime, before.state.mtime))
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


def _before_move(path: str, moved: dict[str, str]) -> str:
    """The name of a path once the folders above it that were moved have their own names again."""
    for new, was in moved.items():
        if path.startswith(f"{new}/"):
            return was + path[len(new) :]
    return path


def _moves(changes: dict[str, Changed]) -> dict[str, str]:
    """Files that vanished with a content that was not kept, and the names under which they still are."""
    made = {
        change.after.stamp: path for path, change in changes.items()
        if change.before is None and change.after is not None and change.after.state.is_file
    }  # fmt: skip
    gone = {
        path: change.before.stamp for path, change in changes.items()
        if change.before is not None and _is_gone(change)
    }  # fmt: skip
    return {path: made[stamp] for path, stamp in gone.items() if stamp in made}


def _is_gone(change: Changed) -> bool:
    """A file that vanished, and of which no content was kept."""
    before = change.before
    return change.after is None and before is not None and before.state.is_file and before.digest is None


def _is_link(kept: Kept | None) -> bool:
    return kept is not None and kept.state.is_link


def _take_over(folder: Folder, name: str, new: int) -> None:
    """The attributes of the file that is replaced, as far as the system lets us."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError, OrkasError):
        old = folder.open(name)
        try:
            for attribute in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(new, attribute, os.getxattr(old, attribute))
        finally:
            os.close(old)
