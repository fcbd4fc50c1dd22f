"""Several files changed as one: all of them or none, also when we are killed in the middle.

First every new content is written beside its file under a temporary name, which is where a disk is full. Then the
names are switched, each old file kept under a second name until all are. What goes wrong is taken back by renames
alone. Before the first step the plan is durable in the journal below the home folder; ``heal`` takes back what a
killed process left half-done, and never touches a file that somebody else has changed since.
"""

from __future__ import annotations

import json
import os
import secrets
import stat as st
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from orkas.harness import trash
from orkas.infra import files
from orkas.infra.errors import OrkasError, SessionLocked, StorageError, ToolFailed
from orkas.infra.home import home
from orkas.infra.paths import Folder, Place, said, shown
from orkas.tools.files import (
    Draft,
    Seen,
    check_new_name,
    check_same,
    check_writable,
    shortened,
    sweep,
    temporary_name,
)  # fmt: skip

__all__ = ["Change", "apply", "heal", "journal"]

Stamp = tuple[int, int, int, int]
"""Of what we made ourselves: second names change the last time of a file."""


class Change(msgspec.Struct, eq=False):
    """What is to become of one file."""

    place: Place
    data: bytes | None
    """The new content; None: the file goes, into the trash unless it ``moves``."""
    old: os.stat_result | None = None
    """The file as it was looked at; None: there is none yet."""
    was: bytes | None = None
    """What was in it, where known."""
    source: Change | None = None
    """The file that it comes from, whose mode, owner and attributes it takes over."""
    link: str | None = None
    """It becomes a link that leads there."""
    moves: bool = False
    executable: bool = False


class _Step:
    """One change under way."""

    def __init__(self, change: Change, folder: Folder) -> None:
        self.change = change
        self.folder = folder
        self.name = change.place.parts[-1]
        self.temporary = temporary_name(self.name)
        self.kept = f".{shortened(self.name)}.{secrets.token_hex(4)}.old"
        self.draft: Draft | None = None
        self.new: Stamp | None = None

    @property
    def stays(self) -> bool:
        """Something has this name afterwards."""
        return self.change.data is not None or self.change.link is not None

    def line(self) -> dict[str, Any]:
        path = "/".join(self.change.place.parts)
        return {"path": path, "temporary": self.temporary, "kept": self.kept, "new": self.new}


def journal() -> Path:
    """Where plans lie while they are carried out."""
    return home() / "patches"


def _nothing(_what: str) -> None:
    pass


def apply(changes: Sequence[Change], seen: Seen, *, before: Callable[[str], None] = _nothing) -> None:
    """Make all changes, or none.

    ``before`` is called with a word before each step that changes something on disk; what it raises is a failure of
    that step.

    Raises:
        ToolFailed: a file is read-only or was changed meanwhile, the disk is full and the like, or the taking back
            failed too; then the sentence says what is where. Without such words the files are as before.
    """
    with ExitStack() as stack:
        plan = _Plan(changes[0].place.root, before, write_down=len(changes) > 1)
        try:
            plan.make_folders(changes)
            for change in changes:
                plan.steps.append(_Step(change, stack.enter_context(change.place.parent())))
            plan.prepare()
            plan.switch()
        except OSError as error:
            failed = said(error, plan.at)
            plan.take_back(failed)
            raise ToolFailed(f"{failed}; nothing was changed") from None
        except BaseException as error:
            plan.take_back(error)
            raise
        finally:
            plan.close()
        plan.finish(seen)


class _Plan:
    def __init__(self, root: Path, before: Callable[[str], None], *, write_down: bool) -> None:
        self.root = root
        self.steps: list[_Step] = []
        self.made: list[str] = []
        self.trashed: list[str] = []
        self.at = ""
        """The file or folder that is worked on."""
        self._before = before
        self._page = journal() / f"{secrets.token_hex(8)}.json" if write_down else None
        self._lock = files.Lock(self._page.with_suffix(".lock")) if self._page else None

    def make_folders(self, changes: Sequence[Change]) -> None:
        """Make the missing folders of new files; remembered, so that they go again with them."""
        missing = set()
        for change in changes:
            at = change.place.real.parent
            while at != self.root and at.is_relative_to(self.root) and not at.exists():
                missing.add(at.relative_to(self.root).as_posix())
                at = at.parent
        self.made = sorted(missing)
        if self.made:
            self._write("making")
        for path in self.made:
            self.at = path
            self._before("mkdir")
            with Place(self.root, path).parent() as folder:
                trouble = _make(folder, Path(path).name)
            if trouble is not None:
                raise trouble

    def _write(self, state: str) -> None:
        if self._page is None or self._lock is None:
            return
        self._before("journal")
        self._lock.acquire()
        page = {
            "root": str(self.root), "state": state, "made": self.made, "trashed": self.trashed,
            "steps": [step.line() for step in self.steps],
        }  # fmt: skip
        files.replace(self._page, json.dumps(page).encode())

    def prepare(self) -> None:
        self._write("writing")
        for step in self.steps:
            self.at = step.change.place.name
            self._check(step)
            self._draft(step)
        self._write("switching")

    def _check(self, step: _Step) -> None:
        old = step.change.old
        if old is None:
            check_new_name(step.change.place)
            return
        if not st.S_ISLNK(old.st_mode):  # a link has no mode of its own
            check_writable(step.folder, step.name, old)
        sweep(step.folder, step.name)

    def _draft(self, step: _Step) -> None:
        change = step.change
        if change.link is not None:
            self._before("draft")
            step.folder.link(step.temporary, change.link)
            step.new = _stamp(step.folder, step.temporary)
        elif change.data is not None:
            self._before("draft")
            step.draft = Draft(step.folder, step.temporary)
            self._before("write")
            self._fill(step, step.draft, change, change.data)
            stat = os.fstat(step.draft.descriptor)
            step.new = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        elif not change.moves:
            self._before("trash")
            path = "/".join(change.place.parts)
            self.trashed.append(trash.keep(step.folder, step.name, root=self.root, path=path))

    def _fill(self, step: _Step, draft: Draft, change: Change, data: bytes) -> None:
        source = next((s for s in self.steps if s.change is change.source), None)
        if source is not None:
            draft.fill(data, old_name=source.name, old=source.change.old, origin=source.folder)
        else:
            draft.fill(data, old_name=step.name, old=change.old)
            if change.executable and change.old is None and hasattr(os, "fchmod"):
                os.fchmod(draft.descriptor, os.fstat(draft.descriptor).st_mode | 0o111)

    def switch(self) -> None:
        """Files that go make room first: on some systems two names that differ in case are one."""
        for step in sorted(self.steps, key=lambda s: s.stays):
            self.at = step.change.place.name
            check_same(step.folder, step.name, step.change.old, step.change.was)
            if step.change.old is not None:
                self._before("keep")
                _keep(step, copy=step.stays)
            if step.stays:
                self._before("rename")
                step.folder.replace(step.temporary, step.name)
        self._write("done")

    def take_back(self, error: BaseException) -> None:
        trouble = [text for step in self.steps if (text := _taken_back(step.folder, step.name, step.line()))]
        self.close()
        for step in self.steps:  # what follows needs descriptors, and there may be none left
            step.folder.close()
        _remove_made(self.root, self.made)
        if trouble:
            raise ToolFailed(f"the patch failed ({error}) and could not be taken back whole: {'; '.join(trouble)}")
        for id_ in self.trashed:
            trash.drop(id_)
        self._forget()

    def finish(self, seen: Seen) -> None:
        """All is switched: let go of the old files. Nothing here can fail the change."""
        for step in self.steps:
            with suppress(OSError):
                if step.change.old is not None:
                    step.folder.unlink(step.kept)
            with suppress(OSError, ToolFailed):
                if step.change.data is not None:
                    descriptor = step.folder.open(step.name)
                    try:
                        seen.note(step.change.place, descriptor)
                    finally:
                        os.close(descriptor)
                step.folder.sync()
        self._forget()

    def close(self) -> None:
        for step in self.steps:
            if step.draft is not None:
                step.draft.close()

    def _forget(self) -> None:
        if self._page is not None and self._lock is not None:
            with suppress(StorageError):
                files.remove(self._page)
            self._lock.release()


def _make(folder: Folder, name: str) -> OSError | None:
    """Make a folder; what kept it from being made, given back since the open parent would tell it as its own."""
    try:
        folder.down(name, create=True, keep=True).close()
    except OSError as error:
        return error
    return None


def _keep(step: _Step, *, copy: bool) -> None:
    """Give the old file its second name; without ``copy`` it loses the first."""
    folder = step.folder
    if copy:
        with suppress(OSError, NotImplementedError):  # no second names here: then there is a moment without the file
            here = {"src_dir_fd": folder.handle, "dst_dir_fd": folder.handle} if folder.handle is not None else {}
            old, kept = (step.name, step.kept) if here else (str(folder.path / step.name), str(folder.path / step.kept))
            os.link(old, kept, follow_symlinks=False, **here)
            return
    folder.replace(step.name, step.kept)


def _taken_back(folder: Folder, name: str, line: dict[str, Any]) -> str:
    """Undo one step, as far as it got; what is in the way, in words. A step that was never begun is left alone: where
    it could not be done it cannot be undone."""
    kept = None
    try:
        now, kept = _stamp(folder, name), _stamp(folder, line["kept"])
        new = tuple(line["new"]) if line["new"] else None
        if kept is not None:
            if now is not None and now != new and now[:2] != kept[:2]:
                return f"{shown(name)} was changed by somebody else; its old content is in {folder.path / line['kept']}"
            folder.replace(line["kept"], name)
            with suppress(FileNotFoundError):
                folder.unlink(line["kept"])  # two names of one file: the rename did nothing
        elif now is not None and now == new:
            folder.unlink(name)
        if _stamp(folder, line["temporary"]) is not None:
            folder.unlink(line["temporary"])
        folder.sync()
    except OSError as error:
        old = f"; its old content is in {folder.path / line['kept']}" if kept is not None else ""
        return f"{shown(name)} ({error.strerror}){old}"
    return ""


def _stamp(folder: Folder, name: str) -> Stamp | None:
    try:
        stat = folder.stat(name)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _remove_made(root: Path, made: Sequence[str]) -> None:
    for path in reversed(made):
        with suppress(OSError, OrkasError), Place(root, path).parent() as folder:
            folder.remove_folder(Path(path).name)


@contextmanager
def _alone(page: Path) -> Iterator[bool]:
    """Whether the process that wrote this page is gone."""
    lock = files.Lock(page.with_suffix(".lock"))
    try:
        lock.acquire()
    except SessionLocked:
        yield False
        return
    try:
        yield page.exists()
    finally:
        lock.release()


def heal() -> list[str]:
    """Take back what killed processes left half-done; a sentence for each patch. Without any: one look at a folder."""
    told = []
    try:
        pages = sorted(journal().glob("*.json"))
    except OSError:
        return []
    for page in pages:
        with suppress(StorageError, OSError), _alone(page) as gone:
            if gone:
                told.append(_healed(page))
    return told


def _healed(page: Path) -> str:
    try:
        plan = json.loads(files.read(page))
        root, lines = Path(plan["root"]), list(plan["steps"])
        names = ", ".join(shown(line["path"]) for line in lines[:5]) + (", …" if len(lines) > 5 else "")
        done = plan["state"] == "done"
        trouble = [text for line in lines if (text := _settled(root, line, done=done))]
        if not done:
            _remove_made(root, plan["made"])
        if not done and not trouble:
            for id_ in plan["trashed"]:
                trash.drop(id_)
    except (OSError, ValueError, KeyError, TypeError):
        return _unreadable(page)
    files.remove(page)
    if trouble:
        return f"A patch of {names} was cut off and could not be taken back whole: {'; '.join(trouble)}."
    if done:
        return f"A patch of {names} was cut off after it was done; what it left behind was removed."
    return f"A patch of {names} was cut off when the program was killed; the files are as they were before it."


def _unreadable(page: Path) -> str:
    aside = page.with_suffix(".damaged")
    page.replace(aside)
    return f"The journal of a patch is damaged and was put aside as {aside}; look at what changed last."


def _settled(root: Path, line: dict[str, Any], *, done: bool) -> str:
    try:
        place = Place(root, line["path"])
        with place.parent() as folder:
            if not done:
                return _taken_back(folder, place.parts[-1], line)
            for name in (line["kept"], line["temporary"]):
                with suppress(FileNotFoundError):
                    folder.unlink(name)
    except ToolFailed as error:
        return "" if not root.exists() or not (root / line["path"]).parent.exists() else str(error)
    except OSError as error:
        return f"{shown(line['path'])}: {error.strerror}"
    return ""
