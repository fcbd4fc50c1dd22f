"""What has another name since the turn: files of which no content was kept, and folders that are not looked into.

They are told by their inode over all changes, whatever had or has the old or the new name, so that chains, swaps and
cycles are known as such. Each is taken back through a name of its own in a folder that nobody removes: that name
follows from what is moved alone, so that an undo which was cut off finds it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import takewhile

import msgspec

from orkas.harness.undo.records import Changed, Kept

__all__ = ["Move", "Moves"]

Stamp = tuple[int, int, int]


class Move(msgspec.Struct, frozen=True):
    source: str
    """Its name after the turn."""
    target: str
    """Its name before, which it gets back."""
    parked: str
    """The name that it has in between."""
    inode: int
    stamp: Stamp | None
    """Of a file; None: a folder."""

    def is_it(self, found: Kept | None) -> bool:
        if found is None or found.state.inode != self.inode:
            return False
        return found.state.is_folder if self.stamp is None else found.state.is_file and found.stamp == self.stamp


class Moves:
    """``has``: whether the content of a hash is kept, and whole."""

    def __init__(
        self, changes: Mapping[str, Changed], moved: Mapping[str, tuple[str, int]], has: Callable[[str], bool],
        name: str,
    ) -> None:  # fmt: skip
        self.from_: dict[str, Move] = {}
        self.to: dict[str, Move] = {}
        self.links: dict[str, str] = {}
        """Further names that one file had before, each with the name that is brought back first."""
        for new, (was, inode) in moved.items():
            if new in changes and was in changes:
                self._add(Move(new, was, _parked(new, was, name), inode, None))
        made = _by_stamp(changes, lambda change: change.after, lambda change: change.before)
        gone = _by_stamp(changes, lambda change: change.before, lambda change: change.after)
        for stamp in gone.keys() & made.keys():
            targets = [path for path in gone[stamp] if not _is_kept(changes[path], has)]
            for new, was in zip(made[stamp], targets, strict=False):
                self._add(Move(new, was, _parked(new, was, name), stamp[2], stamp))
            for was in targets[len(made[stamp]) :]:
                self.links[was] = targets[0]

    def _add(self, move: Move) -> None:
        if move.source not in self.from_ and move.target not in self.to:
            self.from_[move.source] = self.to[move.target] = move

    def drop(self, move: Move) -> None:
        """It is not taken back."""
        del self.from_[move.source], self.to[move.target]

    def ends(self, path: str) -> set[str]:
        """The other names that go together with this one."""
        found = {self.links[path]} if path in self.links else {p for p, first in self.links.items() if first == path}
        if path in self.from_:
            found.add(self.from_[path].target)
        if path in self.to:
            found.add(self.to[path].source)
        return found


def _by_stamp(
    changes: Mapping[str, Changed], one: Callable[[Changed], Kept | None], other: Callable[[Changed], Kept | None]
) -> dict[Stamp, list[str]]:
    """The paths that were a file on one side of the turn, and another one or none on the other side."""
    found: dict[Stamp, list[str]] = {}
    for path in sorted(changes):
        kept, there = one(changes[path]), other(changes[path])
        if kept is not None and kept.state.is_file and not (there is not None and there.stamp == kept.stamp):
            found.setdefault(kept.stamp, []).append(path)
    return found


def _is_kept(change: Changed, has: Callable[[str], bool]) -> bool:
    assert change.before is not None
    return change.before.digest is not None and has(change.before.digest)


def _parked(new: str, was: str, name: str) -> str:
    """In the deepest folder that both names lie in: it is there before and after."""
    folders = zip(new.split("/")[:-1], was.split("/")[:-1], strict=False)
    above = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], folders)]
    sign = hashlib.blake2b(f"{name}\0{new}\0{was}".encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return "/".join([*above, f".undo-{sign}.moved"])
