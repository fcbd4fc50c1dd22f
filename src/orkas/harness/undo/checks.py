"""Which paths of a turn may be touched: those that are as the turn left them, and whose content nobody would lose."""

from __future__ import annotations

import stat as st

from orkas.harness import trash
from orkas.harness.undo.complete import same
from orkas.harness.undo.folders import Folders, InTheWay, Refused
from orkas.harness.undo.looking import look
from orkas.harness.undo.moves import Move, Moves
from orkas.harness.undo.records import Changed, Kept
from orkas.infra.paths import shown

__all__ = ["Checks"]

_LAST = "it may be what is left of a file whose content was not kept"


class Checks:
    """``wanted``: paths to take back. ``over``: those that are as they were before already. ``soft``: those whose
    content cannot be brought back; what is there now may still get its old name. Moves that cannot be taken back whole
    are dropped."""

    def __init__(self, folders: Folders, changes: dict[str, Changed], moves: Moves, *, resumed: bool) -> None:
        self._folders, self._changes, self._moves, self._resumed = folders, changes, moves, resumed
        self._now: dict[str, Kept | None] = {}
        self._ends = {path: moves.ends(path) for path in changes}
        self.wanted: dict[str, None] = {}
        self.over: set[str] = set()
        self.soft: set[str] = set()

    def ends(self, path: str) -> set[str]:
        """The paths that this one goes together with."""
        return self._ends[path]

    def goes(self, path: str) -> bool:
        """What the turn left there has to make room for what was there before."""
        change = self._changes[path]
        if change.after is None:
            return False
        if change.before is None or path in self._moves.to or path in self._moves.links:
            return True
        return st.S_IFMT(change.before.state.mode) != st.S_IFMT(change.after.state.mode)

    def look_at(self, path: str) -> None:
        """Raises Refused: it is not as the turn left it, or cannot be brought back."""
        change = self._changes[path]
        self._now[path] = now = self._look(path, change)
        if change.foreign:
            raise Refused("somebody else changed it during the turn")
        if self._is_before(path, now):
            self.over.add(path)
            return
        if not self._is_after(path, now):
            raise Refused("it was changed after the turn")
        self.wanted[path] = None
        try:
            self._check_content(path, change, now)
        except Refused:
            if path not in self._moves.from_:
                del self.wanted[path]
            else:
                self.soft.add(path)
            raise

    def _look(self, path: str, change: Changed) -> Kept | None:
        hashed = any(kept is not None and kept.digest is not None for kept in (change.before, change.after))
        try:
            return look(self._folders.parent(path), path, hashed=hashed)
        except FileNotFoundError:
            return None  # its folder is gone too
        except InTheWay:
            if not self._is_below_one_of_ours(path):
                raise
            return None

    def _is_below_one_of_ours(self, path: str) -> bool:
        """A folder above it became something else by this turn, which goes."""
        return any(one in self.wanted and (self.goes(one) or one in self._moves.from_) for one in _above(path))

    def _is_before(self, path: str, now: Kept | None) -> bool:
        into, out = self._moves.to.get(path), self._moves.from_.get(path)
        if into is not None and into.stamp is None:
            return into.is_it(now)
        if out is not None and out.stamp is None and out.is_it(now):
            return False
        return same(now, self._changes[path].before)

    def _is_after(self, path: str, now: Kept | None) -> bool:
        change, out = self._changes[path], self._moves.from_.get(path)
        if self._resumed and now is None and (out is not None or self.goes(path)):
            return True  # it has made room already
        if self._resumed and now is not None and now.state.is_folder and self._was_folder(change):
            return True  # its mode is still to come
        if self._resumed and now is not None and now.state.is_file and not now.state.size and self._was_file(change):
            return True  # its content never reached the disk
        return out.is_it(now) if out is not None and out.stamp is None else same(now, change.after)

    @staticmethod
    def _was_file(change: Changed) -> bool:
        return change.before is not None and change.before.state.is_file and change.before.digest is not None

    @staticmethod
    def _was_folder(change: Changed) -> bool:
        return change.before is not None and change.before.state.is_folder

    def _check_content(self, path: str, change: Changed, now: Kept | None) -> None:
        before = change.before
        if before is None or not before.state.is_file or path in self._moves.to or path in self._moves.links:
            return
        if now is not None and now.state.is_file:
            if before.same_content(now):
                return
            if path not in self._moves.from_ and now.state.links - trash.names_of(now.state.inode) > 1:
                raise Refused("it has other names (hard links), which would be cut off")
        if before.digest is None:
            raise Refused("its content before the turn was not kept")

    # -------------------------------------------------------------- all together

    def is_parked(self, move: Move) -> bool:
        """An undo that did not end left it there."""
        if not self._resumed:
            return False
        try:
            return move.is_it(look(self._folders.parent(move.parked), move.parked, hashed=False))
        except (OSError, Refused):
            return False

    def refused(self, left: set[str]) -> list[tuple[str, str]]:
        """Paths that have to stay because of others, each with the reason, so that they are asked for again; none:
        nothing is in the way of the rest."""
        found: dict[str, str] = {}
        for move in list(self._moves.to.values()):
            if move.target in self.over:
                self._moves.drop(move)  # it was taken back before
            elif not self.is_parked(move):
                self._check_move(move, left - self.soft, found)
        for path, first in list(self._moves.links.items()):
            if first in left:
                del self._moves.links[path]
                found[path] = f"it was the same file as {shown(first)}, which was not brought back"
        found |= dict.fromkeys(self._without_folder(left), "a folder on the way to it was left as it is")
        for path in self._last_ones():
            found.setdefault(path, _LAST)
        for path in found:
            self.wanted.pop(path, None)
            self.soft.discard(path)
        return list(found.items())

    def _check_move(self, move: Move, left: set[str], found: dict[str, str]) -> None:
        if move.target in left:
            why = f"it was {shown(move.target)} before the turn, which is left as it is"
            if move.source not in left:
                found[move.source] = why
        elif move.source in left:
            found[move.target] = f"it is {shown(move.source)} now, which is not as the turn left it"
        elif not move.is_it(self._now.get(move.source)):
            found[move.target] = f"it was {shown(move.source)} after the turn, which is gone"
        else:
            return
        self._moves.drop(move)

    def _without_folder(self, left: set[str]) -> list[str]:
        """Paths that would come back, but whose folder does not."""
        were = {path for path in left if self._was_folder(self._changes[path])}
        missing = {path for path in were if not _is_folder(self._now.get(path))}
        if not missing:
            return []
        return [
            path for path in self.wanted
            if self._changes[path].before is not None and not missing.isdisjoint(_above(path))
        ]  # fmt: skip

    def _last_ones(self) -> list[str]:
        """Files that would go, and may be all that is left of one whose content was not kept."""
        lost = [change.before for path, change in self._changes.items() if self._is_lost(path, change)]
        sizes = {kept.state.size for kept in lost if kept is not None}
        inodes = {kept.state.inode for kept in lost if kept is not None}
        return [path for path in self.wanted if sizes and self._is_last(path, sizes, inodes)]

    def _is_lost(self, path: str, change: Changed) -> bool:
        before, now = change.before, self._now.get(path)
        if before is None or not before.state.is_file or before.digest is not None or path in self.over:
            return False
        if now is not None and now.state.is_file and now.stamp == before.stamp:
            return False
        return path not in self._moves.to and path not in self._moves.links

    def _is_last(self, path: str, sizes: set[int], inodes: set[int]) -> bool:
        now, after = self._now.get(path), self._changes[path].after
        if now is None or after is None or not now.state.is_file or path in self._moves.from_ or path in self.soft:
            return False
        before = self._changes[path].before
        if before is not None and before.state.is_file and before.same_content(now):
            return False
        return now.state.size in sizes or (now.state.inode in inodes and after.digest is None)


def _is_folder(kept: Kept | None) -> bool:
    return kept is not None and kept.state.is_folder


def _above(path: str) -> list[str]:
    """The folders that it is in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]
