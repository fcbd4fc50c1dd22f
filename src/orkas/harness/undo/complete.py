"""What a turn did, told from what was there before it and what is there now; also for one that was killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from orkas.harness.undo.looking import Refused, look, parent
from orkas.harness.undo.records import Changed, Index, Kept, Shelf, TurnRecord, read
from orkas.harness.undo.scan import TooLarge, Tree, scan
from orkas.infra.errors import OrkasError

__all__ = ["complete", "note_moved", "same"]


def note_moved(record: TurnRecord, before: Index, after: Index) -> bool:
    """Folders that are not looked into and were given another name are told from new ones by their inode and time."""
    were = {mark: path for path, mark in before.left_out.items()}
    found = {
        path: were[mark] for path, mark in after.left_out.items()
        if mark in were and were[mark] != path and were[mark] not in after.left_out
    }  # fmt: skip
    for path, was in found.items():
        record.moved[path] = record.moved.pop(was, was)
        record.changes.pop(path, None)
        record.changes.pop(was, None)
    return bool(found)


def same(one: Kept | None, other: Kept | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.same(other)


def complete(shelf: Shelf, page: Path) -> None:
    """The program was killed during a command of this turn: what differs from what was before it counts as its doing,
    up to now and no further. Nothing is read but what differs."""
    record, base = read(page), shelf.held(page)
    if record is not None and record.open and base is not None:
        try:
            before = Tree({path: kept.state for path, kept in base.files.items()}, 0, base.left_out)
            tree = scan(shelf.root, since=before)
        except (TooLarge, OSError):
            return
        for path in base.files.keys() | tree.states.keys():
            old, state = base.files.get(path), tree.states.get(path)
            if old is not None and state is not None and old.state == state:
                continue
            new = None
            with suppress(OSError, OrkasError, Refused), parent(shelf.root, path) as folder:
                new = look(folder, path)
            if not same(old, new):
                earlier = record.changes.setdefault(path, Changed(old, new))
                earlier.after = new
        note_moved(record, base, Index({}, tree.left_out))
        record.open, record.cut = "", True
        shelf.write(page, record)
    shelf.release(page)
