"""The git folders of worktrees and submodules: they lie in the git folder of the repository that they belong to.

One that a command made stays where it is only what ``git worktree add`` and ``git submodule add`` make: then nothing in
it leads git anywhere else, and what it holds beside that is looked at as in every new repository.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from orkas.infra.sandbox.beneath import Beneath, is_aside
from orkas.infra.sandbox.gitconfig import entries
from orkas.infra.sandbox.repositories import is_git_folder

__all__ = ["INNER", "Inside", "inside", "is_honest", "work_tree"]

INNER = ("modules", "worktrees")
_MOST = 20_000
"""Folders that are looked at in those of one repository."""
_BACK = "../.."
"""From the git folder of a worktree to that of its repository, as git writes it."""


class Inside(Struct):
    """What lies in ``modules`` and ``worktrees`` of a git folder."""

    folders: list[Path]
    """Git folders, and those in them; who holds another comes before it."""
    odd: list[Path]
    """What is no folder: a link that git would follow, and the like."""
    whole: bool = True
    """Everything was looked at."""


def inside(beneath: Beneath, git: Path) -> Inside:
    """Look for them, never through a link."""
    found = Inside([], [])
    waiting = deque[Path]()
    _enter(git, beneath.kinds(git), INNER, waiting, found)
    for _ in range(_MOST):
        if not waiting:
            return found
        here = waiting.popleft()
        kinds = beneath.kinds(here)
        if is_git_folder(kinds):
            found.folders.append(here)
        _enter(here, kinds, INNER if is_git_folder(kinds) else kinds, waiting, found)
    found.whole = False
    return found


def _enter(folder: Path, kinds: dict[str, str], names: Iterable[str], waiting: deque[Path], found: Inside) -> None:
    for name in names:
        if kinds.get(name) == "folder":
            waiting.append(folder / name)
        elif kinds.get(name) in ("link", "other") and not is_aside(name):
            found.odd.append(folder / name)


def is_honest(beneath: Beneath, git: Path) -> bool:
    """This new git folder leads nowhere but where git would have let it lead: a worktree to the repository that it lies
    in and to a folder in the working folder, a submodule nowhere."""
    kinds = beneath.kinds(git)
    if kinds.get("HEAD") != "file":
        return False
    if git.parent.name != "worktrees":
        return "commondir" not in kinds
    back, tree = beneath.text(git / "commondir"), beneath.text(git / "gitdir")
    if back is None or tree is None or back.strip() != _BACK:
        return False
    place = _meant(git, tree.strip())
    return place.name == ".git" and beneath.root in place.parents


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
