"""Puts back, after a command, what could not be held while it ran.

A mount can hold what is there. It cannot hold a name that is missing without leaving something on the disk, nor a
link; and Landlock holds nothing inside the working folder. So what other programs would obey is looked at before and
after: what is new is set aside beside itself, where nobody obeys it; what was changed is written back as it was; a
repository made by the command keeps its history and loses what would run programs, and so does a worktree or submodule.
Each is told, nothing is deleted.

Commands in the background go on meanwhile, so every look and every change goes through ``beneath``; and what one of
them has changed already is not how it was: who begins while others run takes over from them what they saw.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from orkas.infra.sandbox.beneath import Beneath, Seen, is_aside
from orkas.infra.sandbox.folders import homes, is_below
from orkas.infra.sandbox.gitconfig import harmless, names_submodules
from orkas.infra.sandbox.inner import INNER, inside, is_honest, is_tree, steps_that_run, work_tree
from orkas.infra.sandbox.profile import Profile
from orkas.infra.sandbox.repositories import LOOK, LOOK_AFTER, led_to, search

__all__ = ["Restorer"]

_TRIES = 3
"""Somebody in the background may make it again meanwhile."""
_PASSES = 20
_MOST_CONFIG = 200_000
_CROWD = "the command made so many files that not all repositories among them were found"
_BROKEN = {
    of_tree: f"the {what} does not work any more; with outside: true git may make it, and the user is asked"
    for of_tree, what in ((True, "worktree"), (False, "submodule"))
}


class Restorer:
    """Looks when it is made, ``settle`` looks again. ``notes`` gets the sentences, from any thread."""

    def __init__(self, profile: Profile, *, everything: bool, notes: list[str]) -> None:
        """Raises OSError: the working folder cannot be opened."""
        self._cwd = profile.cwd
        self._notes = notes
        self._settled = False
        self._moved = 0
        """So often something was set aside."""
        self._lock = threading.Lock()
        self._whole = profile.repositories.whole
        self._known = {*profile.repositories.pointers, *profile.repositories.folders}
        self._gits: list[Path] = []
        """Whose worktrees and submodules are all known."""
        self._steps: dict[Path, set[str]] = {}
        """What their rebases under way would run."""
        held = set() if everything else {place for place, _, _ in profile.held}
        self._homes = [folder for folder in homes() if profile.cwd in (folder, *folder.parents)]
        with Beneath(profile.cwd) as beneath:
            self._identity = beneath.identity
            self._before = {
                path: beneath.seen(path)
                for path in profile.protected
                if path not in held and _counts(profile.cwd, path)
            }
            self._dotted = {folder: set(self._dots(beneath, folder)) for folder in self._homes}
            for git in profile.repositories.folders:
                if (found := inside(beneath, git)).whole:
                    self._gits.append(git)
                    self._known.update(found.folders, found.odd)
                    for folder in found.folders:
                        self._steps |= steps_that_run(beneath, folder)
        self._take_over()

    def _take_over(self) -> None:
        with _lock:
            for other in _running():
                self._before |= {path: seen for path, seen in other._before.items() if self._cwd in path.parents}
                for folder, names in other._dotted.items():
                    if folder in self._dotted:
                        self._dotted[folder] &= names
                for path in self._steps:
                    if is_below(path, [other._cwd]):
                        self._steps[path] &= other._steps.get(path, set())
                self._known -= {path for path in self._known if is_below(path, [other._cwd])} - other._known
            _active.append(weakref.ref(self))

    def _leave(self) -> None:
        with _lock:
            _active[:] = [one for one in _active if one() not in (None, self)]

    def settle(self) -> None:
        """Put back and tell; once, when nobody of the command is left."""
        with self._lock:
            if self._settled:
                return
            self._settled = True
        try:
            with Beneath(self._cwd) as beneath:
                if beneath.identity != self._identity:
                    raise OSError(0, "another folder stands in its place")
                self._settle(beneath)
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error
            self._notes.append(f"what the command left in the working folder was not looked at ({why}): look at it")
        finally:
            self._leave()

    def _settle(self, beneath: Beneath) -> None:
        for path, before in self._before.items():
            try:
                self._compare(beneath, path, before)
            except OSError as error:
                self._notes.append(f"{self._name(path)} was changed and could not be put back: {error.strerror}")
        for folder, known in self._dotted.items():
            for name in self._dots(beneath, folder):
                if name not in known:
                    self._refuse(beneath, folder / name)
        self._look_for_new(beneath)

    def _dots(self, beneath: Beneath, folder: Path) -> list[str]:
        """Names in a home that shells and programs obey: those that begin with a dot."""
        return [n for n in beneath.names(folder) if n.startswith(".") and n != ".git" and not is_aside(n)]

    def _compare(self, beneath: Beneath, path: Path, before: Seen) -> None:
        for left in reversed(range(_TRIES)):
            now = beneath.seen(path)
            if now == before:
                return
            try:
                if before.kind == "missing":
                    if not _only_names_submodules(beneath, path):
                        self._refuse(beneath, path)
                else:
                    self._put_back(beneath, path, before)
                return
            except OSError:
                if not left:
                    raise

    def _refuse(self, beneath: Beneath, path: Path, so: str = "") -> None:
        try:
            aside = self._set_aside(beneath, path)
        except FileNotFoundError:
            return
        self._tell(f"{self._name(path)} is not for commands to make; it lies in {aside} now{so}")

    def _set_aside(self, beneath: Beneath, path: Path) -> str:
        aside = beneath.set_aside(path)
        self._moved += 1
        return aside

    def _tell(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _put_back(self, beneath: Beneath, path: Path, before: Seen) -> None:
        beneath.clear_the_way(path)
        aside = ""
        if beneath.seen(path).kind != "missing":
            aside = f"; what the command wrote lies in {self._set_aside(beneath, path)}"
        if beneath.write(path, before):
            self._notes.append(f"{self._name(path)} is not for commands to change; it was put back{aside}")
        else:
            said = "was changed and could not be put back whole: look at it"
            self._notes.append(f"{self._name(path)} {said}{aside}")

    # repositories that the command made

    def _look_for_new(self, beneath: Beneath) -> None:
        for _ in range(_PASSES):  # what was set aside has another name now, which something else may lead to
            moved = self._moved
            self._look_once(beneath)
            if moved == self._moved:
                return
        self._tell("the command left so much to be set aside that not all of it was looked at: look at it")

    def _look_once(self, beneath: Beneath) -> None:
        for git in self._gits:
            self._look_inside(beneath, git)
        now = search(self._cwd, LOOK_AFTER if self._whole else LOOK)
        if self._whole and not now.whole:
            self._tell(_CROWD)
        for pointer in now.pointers:
            if pointer not in self._known and led_to(self._cwd, pointer) is None:
                self._outside(beneath, pointer)
        for folder in now.folders:
            if folder not in self._known:
                self._make_harmless(beneath, folder)
                self._look_inside(beneath, folder)

    def _look_inside(self, beneath: Beneath, git: Path) -> None:
        """Worktrees and submodules that the command made: they stay where git itself would have made them so."""
        found = inside(beneath, git)
        for folder in found.folders:
            for path, steps in steps_that_run(beneath, folder).items():
                if not steps <= self._steps.get(path, set()):
                    self._refuse_new(beneath, path)
            if folder in self._known:
                continue
            if is_honest(beneath, folder) or is_aside(folder.name):
                self._make_harmless(beneath, folder)
            else:
                self._refuse_new(beneath, folder, f", and {_BROKEN[is_tree(beneath, folder)]}")
        for path in found.odd:
            if path not in self._known:
                self._refuse_new(beneath, path)
        if not found.whole:
            self._refuse_crowd(beneath, git)

    def _refuse_crowd(self, beneath: Beneath, git: Path) -> None:
        for name in INNER:
            if any(git / name in path.parents for path in self._known):
                self._tell(_CROWD)
            elif beneath.seen(git / name).kind != "missing":
                self._refuse_new(beneath, git / name)

    def _refuse_new(self, beneath: Beneath, path: Path, so: str = "") -> None:
        try:
            self._refuse(beneath, path, so)
        except OSError as error:
            self._tell(f"{self._name(path)} is new and could not be set aside: {error.strerror}")

    def _make_harmless(self, beneath: Beneath, folder: Path) -> None:
        for left in reversed(range(_TRIES)):
            try:
                return self._disarm(beneath, folder)
            except OSError as error:
                if not left:
                    self._give_up(beneath, folder, error)

    def _give_up(self, beneath: Beneath, folder: Path, error: OSError) -> None:
        """What cannot be made harmless, in a folder that nobody may write, is set aside as a whole."""
        told = f"{self._name(folder)} is new and could not be made harmless"
        try:
            if folder == self._cwd or is_aside(folder.name):
                raise error
            aside = self._set_aside(beneath, folder)
        except OSError:
            self._tell(f"{told}: {error.strerror}")
        else:
            self._tell(f"{told}; it lies in {aside} now")

    def _outside(self, beneath: Beneath, pointer: Path) -> None:
        try:
            aside = self._set_aside(beneath, pointer)
        except OSError as error:
            self._tell(f"{self._name(pointer)} leads out of the working folder: {error.strerror}")
            return
        self._tell(f"{self._name(pointer)} leads out of the working folder; it lies in {aside} now")

    def _disarm(self, beneath: Beneath, git: Path) -> None:
        """Nothing in a new git folder makes git run programs."""
        for name in ("config", "config.worktree"):
            path = git / name
            seen = beneath.seen(path)
            text = beneath.text(path) if seen.kind == "file" else ""
            whole = text is not None and len(text) <= _MOST_CONFIG
            kept = harmless(text, work_tree(beneath, git, text)) if whole and text else ""
            if seen.kind == "missing" or (seen.kind == "file" and whole and kept == text):
                continue
            self._defuse(beneath, path)
            beneath.write(path, Seen("file", 0o644, kept.encode()))
        if led_to(self._cwd, git) is None:
            self._outside(beneath, git / "commondir")
        hooks = git / "hooks"
        if beneath.seen(hooks).kind in ("link", "other"):
            self._defuse(beneath, hooks)
        for name in beneath.names(hooks):
            if not (name.endswith(".sample") or is_aside(name)):
                self._defuse(beneath, hooks / name)

    def _defuse(self, beneath: Beneath, path: Path) -> None:
        aside = self._set_aside(beneath, path)
        self._tell(f"{self._name(path)} would run programs; it lies in {aside} now")

    def _name(self, path: Path) -> str:
        return os.fspath(path.relative_to(self._cwd)) if path != self._cwd else "the working folder"


_active: list[weakref.ref[Restorer]] = []
"""Of the commands that run now; those that never started go with whoever made them."""
_lock = threading.Lock()


def _running() -> list[Restorer]:
    """The last to begin first: what the first saw counts most."""
    return [one for one in (ref() for ref in reversed(_active)) if one is not None]


def _only_names_submodules(beneath: Beneath, path: Path) -> bool:
    text = beneath.text(path) if path.name == ".gitmodules" else None
    return text is not None and len(text) <= _MOST_CONFIG and names_submodules(text)


def _counts(cwd: Path, path: Path) -> bool:
    """Not what belongs to a repository that is not there: one that appears is looked at as a whole."""
    git = next((p for p in (path, *path.parents) if p.name == ".git" and cwd in p.parents), None)
    return git is None or os.path.isdir(git) or os.path.isfile(git) or os.path.islink(git)
