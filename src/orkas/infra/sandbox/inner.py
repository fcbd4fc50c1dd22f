"""The git folders of worktrees and submodules: they lie in the git folder of the repository that they belong to.

One that a command made stays where it is only what ``git worktree add`` and ``git submodule add`` make: then nothing in
it leads git anywhere else, and what it holds beside that is looked at as in every new repository.
"""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

from msgspec import Struct

from orkas.infra.sandbox.beneath import Beneath, is_aside
from orkas.infra.sandbox.gitconfig import entries
from orkas.infra.sandbox.repositories import is_git_folder

__all__ = ["INNER", "Inside", "inside", "is_honest", "is_tree", "steps_that_run", "work_tree"]

INNER = ("modules", "worktrees")
_MOST = 20_000
"""Folders that are looked at in those of one repository."""
_DEEPEST = 40
_RUNS = re.compile(r"^[ \t]*(?:x|exec)(?:[ \t\r].*)?$", re.MULTILINE)
_BACK = "../.."
"""From the git folder of a worktree to that of its repository, as git writes it."""


class Inside(Struct):
    """What lies in ``modules`` and ``worktrees`` of a git folder."""

    folders: list[Path]
    """Git folders, and those in them; who holds another comes before it."""
    odd: list[Path]
    """What cannot be looked into and might be followed by git: links, folders that cannot be listed, and the like."""
    whole: bool = True
    """Everything was looked at."""


def inside(beneath: Beneath, git: Path) -> Inside:
    """Look for them, never through a link."""
    found = Inside([], [])
    waiting = deque[Path]()
    _enter(beneath, git, waiting, found, of_git=True)
    for _ in range(_MOST):
        if not waiting:
            return found
        here = waiting.popleft()
        if len(here.parts) - len(git.parts) > _DEEPEST and not is_aside(here.name):
            found.odd.append(here)
        else:
            _enter(beneath, here, waiting, found, of_git=False)
    found.whole = False
    return found


def _enter(beneath: Beneath, folder: Path, waiting: deque[Path], found: Inside, *, of_git: bool) -> None:
    kinds = beneath.kinds(folder)
    if kinds is None:
        unseen = [folder / name for name in INNER] if of_git else [folder]
        found.odd += [path for path in unseen if beneath.seen(path).kind != "missing" and not is_aside(path.name)]
        return
    if is_git_folder(kinds) and not of_git:
        found.folders.append(folder)
        of_git = True
    for name in INNER if of_git else kinds:
        if kinds.get(name) == "folder":
            waiting.append(folder / name)
        elif kinds.get(name) in ("link", "other") and not is_aside(name):
            found.odd.append(folder / name)


def is_tree(beneath: Beneath, git: Path) -> bool:
    """It lies where the git folder of a worktree does."""
    return git.parent.name == "worktrees" and is_git_folder(beneath.kinds(git.parent.parent) or ())


def is_honest(beneath: Beneath, git: Path) -> bool:
    """This new git folder leads nowhere but where git would have let it lead: a worktree to the repository that it lies
    in and to a folder in the working folder, a submodule nowhere."""
    kinds = beneath.kinds(git) or {}
    if kinds.get("HEAD") != "file":
        return False
    if not is_tree(beneath, git):
        return "commondir" not in kinds
    back, tree = beneath.text(git / "commondir"), beneath.text(git / "gitdir")
    if back is None or tree is None or back.strip() != _BACK:
        return False
    place = _meant(git, tree.strip())
    return place.name == ".git" and beneath.root in place.parents


def steps_that_run(beneath: Beneath, git: Path) -> dict[Path, set[str]]:
    """Of a rebase under way: files whose steps would run programs as soon as somebody goes on with it, and what they
    say; what cannot be read counts."""
    found = {}
    for folder, name in (("rebase-merge", "git-rebase-todo"), ("sequencer", "todo")):
        kind = beneath.seen(git / folder).kind
        if kind in ("link", "other"):
            found[git / folder] = {kind}
        elif kind == "folder" and (seen := beneath.seen(path := git / folder / name)).kind != "missing":
            text = beneath.text(path)
            runs = [seen.kind] if text is None else _RUNS.findall(text)
            if runs:
                found[path] = set(runs)
    return found


def work_tree(beneath: Beneath, git: Path, config: str) -> str:
    """The folder that a submodule's settings name as its work tree, as they spell it; empty: they name none, or one
    whose ``.git`` does not lead back here."""
    named = [entry.value for entry in entries(config) if (entry.section, entry.key) == ("core", "worktree")]
    if len(named) != 1 or not named[0]:
        return ""
    tree = _meant(git, named[0])
    if beneath.root not in (tree, *tree.parents):
        return ""
    said = beneath.text(tree / ".git") or ""
    back = said.removeprefix("gitdir:").strip()
    return named[0] if said.startswith("gitdir:") and _meant(tree, back) == git else ""


def _meant(folder: Path, path: str) -> Path:
    return Path(os.path.normpath(folder / path.replace("\0", "")))
