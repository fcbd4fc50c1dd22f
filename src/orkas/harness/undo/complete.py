"""What a turn did, told from what was there before it and what is there now; also for one that was killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from orkas.harness.undo.folders import Folders, Refused
from orkas.harness.undo.looking import look
from orkas.harness.undo.records import Changed, Index, Kept, Shelf, TurnRecord, read
from orkas.harness.undo.scan import TooLarge, Tree, scan
from orkas.infra.errors import OrkasError

__all__ = ["complete", "note_moved", "same"]


def note_moved(record: TurnRecord, before: Index, after: Index) -> bool:
    """Folders that are not looked into and were given another name are told from new ones by their marks."""
    were = {mark.inode: (path, mark) for path, mark in before.left_out.items()}
    found: dict[str, str] = {}
    for path, mark in after.left_out.items():
        was, old = were.get(mark.inode, (path, mark))
        if was != path and mark.is_of(old):
            found[path] = was
    moved = dict(record.moved)
    for was in found.values():
        moved.pop(was, None)
    for path, was in found.items():
        first, inode = record.moved.get(was, (was, after.left_out[path].inode))
        moved[path] = first, inode
        for end in (path, was):
            record.changes.setdefault(end, Changed(before.files.get(end), after.files.get(end)))
    record.moved = {
        path: (was, inode) for path, (was, inode) in moved.items()
        if path != was and path in after.left_out and after.left_out[path].inode == inode
    }  # fmt: skip
    _rename_named(record, found)
    return bool(found)


def _rename_named(record: TurnRecord, found: dict[str, str]) -> None:
    """What tools changed in such a folder goes on under the name that it has now."""
    now = {was: path for path, was in found.items()}
    renamed = {}
    for path, change in record.changes.items():
        above = next((was for was in now if change.named and path.startswith(f"{was}/")), None)
        renamed[path if above is None else now[above] + path[len(above) :]] = change
    record.changes = renamed


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
        with Folders(shelf.root) as folders:
            _compare(record, base, tree, folders)
        ends = {path: Kept(tree.states[path]) for path in {*base.left_out, *tree.left_out} if path in tree.states}
        note_moved(record, base, Index(ends, tree.left_out))
        record.open, record.cut = "", True
        shelf.write(page, record)
    shelf.release(page)


def _compare(record: TurnRecord, base: Index, tree: Tree, folders: Folders) -> None:
    for path in sorted(base.files.keys() | tree.states.keys()):
        old, state = base.files.get(path), tree.states.get(path)
        if old is not None and state is not None and old.state == state:
            continue
        new = None
        with suppress(OSError, OrkasError, Refused):
            new = look(folders.parent(path), path, hashed=old is None or old.digest is not None)
        if not same(old, new):
            earlier = record.changes.setdefault(path, Changed(old, new))
            earlier.after, earlier.named = new, False
