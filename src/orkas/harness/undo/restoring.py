"""The paths of a turn, each as it was before; what somebody else has changed since is left alone and named.

Nothing is lost by it: what goes, or is replaced, lies in the trash, and what no content was kept of stays, or gets its
name back. Nothing is written through a link or into a second name of another file.
"""

from __future__ import annotations

import errno
import os
import stat as st
from collections.abc import Callable, Iterable
from contextlib import suppress

from orkas.harness.undo.checks import Checks
from orkas.harness.undo.folders import Folders, Refused
from orkas.harness.undo.looking import look
from orkas.harness.undo.moves import Move, Moves
from orkas.harness.undo.records import Changed, Shelf, TurnRecord
from orkas.harness.undo.undone import Undone
from orkas.harness.undo.writing import TEMPORARY, chmod, make_link, make_special, sentence, throw_away, write
from orkas.infra.errors import OrkasError, StorageError
from orkas.infra.paths import Folder, shown

__all__ = ["Restoring", "retaken"]

_TO_USE = 0o300
"""What of a folder's rights it takes to change what is in it."""
_MANY = 200
"""So many files are flushed to the disk all at once, and not each by itself."""


def retaken(shelf: Shelf, record: TurnRecord, *, resumed: bool) -> Undone:
    """Take back what a record tells, and leave in it what failed and may go right the next time. ``resumed``: it was
    tried before, and did not end whole."""
    inside = {path for path, change in record.changes.items() if change.named and _above(path, record.moved)}
    outer = {path: change for path, change in record.changes.items() if path not in inside}
    done = Undone(record.root, record.started)
    with Folders(shelf.root) as folders:
        first = Restoring(shelf, folders, done, outer, record, resumed=resumed)
        first.run()
        inner = {}
        for path in inside:
            above = _above(path, record.moved)
            was = record.moved[above][0]
            if was in first.over:
                inner[was + path[len(above) :]] = record.changes[path]
            elif was in first.failed:
                first.kept[path] = record.changes[path]
            else:
                done.refused.append(f"{shown(path)}: the folder {shown(above)} was not put back")
        second = Restoring(shelf, folders, done, inner, None, resumed=resumed)
        second.run()
    record.changes = first.kept | second.kept
    record.moved = {new: move for new, move in record.moved.items() if new in first.kept}
    done.restored.sort()
    done.removed.sort()
    return done


def _above(path: str, moved: Iterable[str]) -> str:
    return next((new for new in moved if path.startswith(f"{new}/")), "")


class Restoring:
    """``over``: paths that are as they were before. ``failed``: those of which something went wrong that may go right
    the next time. ``kept``: what has to be known for that."""

    def __init__(
        self, shelf: Shelf, folders: Folders, done: Undone, changes: dict[str, Changed], record: TurnRecord | None, *,
        resumed: bool,
    ) -> None:  # fmt: skip
        self._shelf, self._root, self._folders, self._done = shelf, shelf.root, folders, done
        self._changes, self._resumed = changes, resumed
        moved = {} if record is None else record.moved
        self._moves = Moves(changes, moved, shelf.vault.has, "" if record is None else f"{record.started}")
        self._checks = Checks(folders, changes, self._moves, resumed=resumed)
        self._parked: dict[str, Move] = {}  # by the target
        self._back: set[str] = set()  # what is there has its other name again
        self._flush = True
        self._left: set[str] = set()
        self.over: set[str] = set()
        self.failed: set[str] = set()
        self.kept: dict[str, Changed] = {}

    def run(self) -> None:
        """What only has another name is parked. Then what goes makes room, the deepest before its folder; then folders
        come, then what is in them."""
        self._look_at_all(sorted(self._changes))
        for move in list(self._moves.to.values()):
            self._try(move.target, self._park)
            if move.target not in self._parked:
                self._left.add(move.source)  # it is still there
        for path in reversed(self._checks.wanted):
            if self._goes(path):
                self._try(path, self._take_away)
        self._return_parked()
        self._bring_all_back(list(self._checks.wanted))
        self._sync()
        self._keep_failed()

    def _look_at_all(self, paths: list[str]) -> None:
        for path in paths:
            self._try(path, self._give_rights)
        if self._resumed:
            self._tidy({path.rpartition("/")[0] for path in paths})
        for path in paths:
            if path not in self.over:
                self._try(path, self._checks.look_at)
        self._settle()

    def _bring_all_back(self, wanted: list[str]) -> None:
        folders = [path for path in wanted if self._is_folder(path)]
        for path in folders:
            if not self._ended(path):
                self._try(path, self._make_folder)
        for move in list(self._parked.values()):
            self._try(move.target, self._place)
        self._return_parked()
        self._flush = len(wanted) < _MANY or not hasattr(os, "sync")
        for path in wanted:
            if self._changes[path].before is not None and not self._ended(path):
                self._try(path, self._bring_back)
        for path in reversed(folders):
            self._try(path, self._give_mode)

    # -------------------------------------------------------------- what came of it

    def _ended(self, path: str) -> bool:
        return path in self._left or path in self.over

    def _try(self, path: str, work: Callable[[str], None]) -> None:
        if path in self._left:
            return
        try:
            work(path)
        except Refused as why:
            self._leave(path, str(why))
        except OSError as error:
            self._leave(path, sentence(error))
            self.failed.add(path)
        except OrkasError as error:
            self._leave(path, str(error))
            self.failed.add(path)

    def _restored(self, path: str) -> None:
        if path not in self.over:
            self._done.restored.append(path)
        self.over.add(path)

    def _removed(self, path: str) -> None:
        self.over.add(path)
        self._done.removed.append(path)

    def _leave(self, path: str, why: str) -> None:
        self._left.add(path)
        self._done.refused.append(f"{shown(path)}: {why}")

    def _keep_failed(self) -> None:
        """What failed, and whatever it goes together with."""
        more = list(self.failed)
        while more:
            path = more.pop()
            if path not in self.kept:
                self.kept[path] = self._changes[path]
                more += [end for end in self._checks.ends(path) if end in self._changes]

    def _sync(self) -> None:
        """What has come back is on the disk itself before that is written down."""
        if not self._flush:
            os.sync()
            return
        for above in sorted({path.rpartition("/")[0] for path in self.over & set(self._done.restored)}):
            with suppress(Refused, OSError):
                self._folders.parent(f"{above}/x" if above else "x").sync()

    def _tidy(self, folders: set[str]) -> None:
        """What the attempt before was writing when it was killed."""
        for path in sorted(folders):
            with suppress(Refused, OSError, OrkasError):
                folder = self._folders.parent(f"{path}/x" if path else "x")
                for name in folder.names():
                    if TEMPORARY.fullmatch(name):
                        folder.unlink(name)

    # -------------------------------------------------------------- before anything is done

    def _give_rights(self, path: str) -> None:
        """A folder whose rights the turn changed gets them back first, so that what is in it can be reached."""
        before, after = self._changes[path].before, self._changes[path].after
        if before is None or after is None or not (before.state.is_folder and after.state.is_folder):
            return
        if self._moves.ends(path) or before.state.mode & _TO_USE != _TO_USE:
            return
        with suppress(Refused, FileNotFoundError):
            folder, name = self._folders.parent(path), path.rpartition("/")[2]
            if folder.stat(name).st_mode == after.state.mode != before.state.mode and not self._changes[path].foreign:
                folder.chmod(name, st.S_IMODE(before.state.mode))
                self._restored(path)

    def _settle(self) -> None:
        """Moves that cannot be taken back whole are not begun, and what may be the last of a file stays."""
        while refused := self._checks.refused(self._left):
            for path, why in refused:
                if path not in self._left:
                    self._leave(path, why)
        self.over |= self._checks.over

    # -------------------------------------------------------------- moving

    def _park(self, path: str) -> None:
        move = self._moves.to[path]
        if self._checks.is_parked(move):
            self._parked[path] = move
            return
        with self._folders.parents(move.source, move.parked) as (here, there):
            name = move.source.rpartition("/")[2]
            if not move.is_it(look(here, move.source, hashed=False)):
                raise Refused(f"it was {shown(move.source)} after the turn, and that was changed just now")
            here.move(name, there, move.parked.rpartition("/")[2])
        self._folders.forget(move.source)
        self._parked[path] = move

    def _return_parked(self) -> None:
        """What cannot get its place back stays under the name that it had."""
        while blocked := [move for move in self._parked.values() if self._is_blocked(move)]:
            for move in blocked:
                there = self._moves.from_.get(move.target)
                if there is not None and there.target in self.failed:
                    self.failed.add(move.target)
                said = move.target in self._left and move.target not in self._back
                self._unpark(move, "" if said else "what is there now could not be moved away")

    def _is_blocked(self, move: Move) -> bool:
        if move.target in self._left and move.target not in self._checks.soft:
            return True
        there = self._moves.from_.get(move.target)
        return there is not None and there.target not in self._parked and there.target not in self.over

    def _unpark(self, move: Move, why: str) -> None:
        """``why``: it is left; empty: that was said already."""
        del self._parked[move.target]
        after = self._changes[move.source].after
        try:
            self._make_way(move.source)
            with self._folders.parents(move.parked, move.source) as (here, there):
                name = move.parked.rpartition("/")[2]
                if after is not None:
                    chmod(here, name, after)
                here.move(name, there, move.source.rpartition("/")[2])
        except (OSError, OrkasError, Refused):
            self._leave(move.target, f"{why or 'it could not get its name back'}; it is {shown(move.parked)} for now")
            self.failed.add(move.target)
        else:
            if why:
                self._leave(move.target, why)
        if move.source not in self._left:
            self._left.add(move.source)
            self._back.add(move.source)

    def _make_way(self, path: str) -> None:
        """The folders that it is in, which were taken away already."""
        self._folders.make_way(path)
        for above in [one for one in self._done.removed if path.startswith(f"{one}/")]:
            self._done.removed.remove(above)
            self.over.discard(above)
            self.failed.add(above)

    def _place(self, path: str) -> None:
        move = self._parked[path]
        try:
            self._reach(path)
            with self._folders.parents(move.parked, path) as (here, there):
                name = move.parked.rpartition("/")[2]
                chmod(here, name, self._changes[path].before)
                here.move(name, there, path.rpartition("/")[2])
        except (OSError, Refused) as error:
            if isinstance(error, OSError) and not isinstance(error, FileExistsError):
                self.failed.add(path)
            self._unpark(move, sentence(error) if isinstance(error, OSError) else str(error))
            return
        del self._parked[path]
        self._folders.forget(path)
        self._restored(path)

    def _reach(self, path: str) -> Folder:
        """The folder of what comes back, made where somebody has removed it."""
        try:
            return self._folders.parent(path)
        except FileNotFoundError:
            self._folders.make_way(path)
            return self._folders.parent(path)

    # -------------------------------------------------------------- taking away, bringing back

    def _goes(self, path: str) -> bool:
        """What is there now makes room, and has no other name to get back."""
        if self._ended(path) or path in self._moves.from_:
            return False
        return self._checks.goes(path)

    def _is_folder(self, path: str) -> bool:
        before = self._changes[path].before
        return before is not None and before.state.is_folder and path not in self._moves.to

    def _take_away(self, path: str) -> None:
        change = self._changes[path]
        assert change.after is not None
        with suppress(FileNotFoundError):
            folder, name = self._folders.parent(path), path.rpartition("/")[2]
            if change.after.state.is_folder:
                self._remove_folder(folder, name, path)
            elif not st.S_ISDIR(folder.stat(name).st_mode):  # else it has come back already
                throw_away(folder, name, self._root, path)
        if change.before is None:
            self._removed(path)

    def _remove_folder(self, folder: Folder, name: str, path: str) -> None:
        try:
            folder.remove_folder(name)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                if any(self._is_in(path, failed) for failed in self.failed):
                    self.failed.add(path)  # it goes with them
                ours = any(self._is_in(path, left) for left in self._left)
                raise Refused(
                    "the folder holds what was left" if ours else "the folder holds files that are not of this turn"
                ) from None
            raise
        self._folders.forget(path)

    def _is_in(self, folder: str, path: str) -> bool:
        return any(one.startswith(f"{folder}/") for one in (path, *self._checks.ends(path)))

    def _make_folder(self, path: str) -> None:
        before = self._changes[path].before
        assert before is not None
        folder, name = self._reach(path), path.rpartition("/")[2]
        folder.down(name, create=True, keep=True).close()
        if before.state.mode & _TO_USE == _TO_USE:
            chmod(folder, name, before)
        self._restored(path)

    def _give_mode(self, path: str) -> None:
        """Of a folder in which nobody can change anything: when all is in it."""
        before = self._changes[path].before
        if before is not None and before.state.mode & _TO_USE != _TO_USE and path in self.over:
            chmod(self._folders.parent(path), path.rpartition("/")[2], before)

    def _bring_back(self, path: str) -> None:
        change = self._changes[path]
        before = change.before
        assert before is not None
        folder, name = self._reach(path), path.rpartition("/")[2]
        if path in self._moves.links:
            self._link(self._moves.links[path], path)
        elif before.state.is_link:
            make_link(folder, name, self._root, path, before)
        elif not before.state.is_file:
            make_special(folder, name, before)
        elif change.after is not None and change.after.state.is_file and before.same_content(change.after):
            folder.chmod(name, st.S_IMODE(before.state.mode))
        else:
            write(folder, name, self._root, path, self._content(before.digest), before, flush=self._flush)
        self._restored(path)

    def _link(self, first: str, path: str) -> None:
        """A further name of a file that has its first one back."""
        if first not in self.over:
            if first in self.failed:
                self.failed.add(path)
            raise Refused(f"it was the same file as {shown(first)}, which was not brought back")
        with self._folders.parents(first, path) as (here, there):
            name, new = first.rpartition("/")[2], path.rpartition("/")[2]
            if here.handle is None:
                os.link(here.path / name, there.path / new)
            else:
                os.link(name, new, src_dir_fd=here.handle, dst_dir_fd=there.handle, follow_symlinks=False)

    def _content(self, digest: str | None) -> bytes:
        try:
            return self._shelf.vault.get(digest or "")
        except StorageError as error:  # no waiting brings it back
            raise Refused(str(error)) from None
