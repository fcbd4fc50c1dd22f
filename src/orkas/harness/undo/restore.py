"""Taking the last turn of a conversation back, and saying what came of it."""

from __future__ import annotations

from pathlib import Path

from orkas.harness.undo import records
from orkas.harness.undo.complete import complete
from orkas.harness.undo.records import Shelf
from orkas.harness.undo.restoring import retaken
from orkas.harness.undo.undone import Undone
from orkas.infra.errors import UsageError

__all__ = ["Undone", "undo"]


def undo(session: str) -> Undone:
    """Take back what the newest turn of the session changed that was not taken back yet.

    Raises:
        UsageError: there is none.
        StorageError: it could not be written down that it begins, or how it ended; asked again, it goes on. Or the
            record of that turn is damaged; asked again, the turn before it comes.
    """
    found = records.newest(session)
    if found is None:
        raise UsageError(
            "there is nothing to take back: no turn of this conversation is known to have changed files, or all were"
            " taken back (what a command in the background changes after its call returned is not known)",
            hint="`orkas trash list` shows files that were deleted in the last 30 days",
        )
    page, record = found
    root = Path(record.root)
    if not root.is_dir():
        raise UsageError(f"the working folder {root} is gone", hint="make it again, then undo")
    shelf = Shelf(root)
    if record.open:
        complete(shelf, page)
        record = records.read(page) or record
    record.tries += 1
    shelf.write(page, record)
    done = retaken(shelf, record, resumed=record.tries > 1)
    done.cut = record.cut or bool(record.open)
    if done.restored or done.removed:
        record.tries = 1
    done.again = bool(record.changes) and record.tries < records.MAX_TRIES
    record.undone, record.open = not done.again, ""
    shelf.write(page, record)
    return done
