"""What of a working folder other programs obey: not for commands to write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from orkas.infra.sandbox.beneath import Beneath
from orkas.infra.sandbox.folders import homes
from orkas.infra.sandbox.inner import INNER, inside
from orkas.infra.sandbox.repositories import Repositories, hooks_and_settings, leads, led_to, trail

__all__ = ["NAMES", "held", "protected"]

NAMES = (
    ".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc",
    ".zprofile", ".zshenv", ".zlogin", ".envrc", ".ripgreprc", ".mcp.json",
    ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".orkas", ".claude", ".codex", ".cursor", ".gemini",
    ".windsurf",
)  # fmt: skip
"""At the top of the working folder: what shells, editors and agents obey as soon as it is there."""
IN_GIT = ("config", "config.worktree", "hooks", "commondir", "gitdir", "info/attributes")
"""In every git folder, of worktrees and submodules too: what makes git run programs, or look elsewhere for what it
obeys."""
MOST_MOUNTS = 200
"""Places that are held by mounts: each makes the start slower by all those before it. What is beyond, the deepest
repositories of many, is put back after the command."""
_MOST_LENGTH = 200_000
"""Characters of all their paths: they are told to the sandbox through a pipe."""


def protected(cwd: Path, found: Repositories) -> list[Path]:
    """Everything protected below ``cwd``, whether it is there or not; what a link leads to with the link."""
    paths = [cwd / name for name in NAMES]
    for folder in homes():
        if folder == cwd or cwd in folder.parents:
            paths += _links(folder)
    trees: dict[Path, list[Path]] = {}
    for pointer in found.pointers:
        if os.path.islink(pointer) or os.path.isfile(pointer):
            for folder in led_to(cwd, pointer) or ():
                trees.setdefault(folder, []).append(pointer.parent)
            paths += [pointer, *(step for named in leads(pointer) for step in trail(cwd, named)[:-1])]
    users = tuple(folder / name for folder in homes() for name in (".gitconfig", ".config/git/config"))
    users += (Path("/etc/gitconfig"),)
    gits: dict[Path, None] = {}
    with Beneath(cwd) as beneath:
        for git in found.folders:
            gits[git] = None
            inner = inside(beneath, git)
            gits |= dict.fromkeys(inner.folders)
            paths += inner.odd if inner.whole else [git / name for name in INNER]
    for git in [*gits, *([] if os.path.lexists(cwd / ".git") else [cwd / ".git"])]:
        paths += [git / name for name in IN_GIT]
        for path in hooks_and_settings(cwd, git, trees.get(git, ()), users):
            paths += [path, *trail(cwd, path)]
    led = [step for path in paths if os.path.islink(path) for step in trail(cwd, path)]
    return list(dict.fromkeys([*paths, *led]))


def _links(folder: Path) -> list[Path]:
    """Links in a home whose name begins with a dot."""
    try:
        with os.scandir(folder) as entries:
            return [Path(e.path) for e in entries if e.name.startswith(".") and e.name != ".git" and e.is_symlink()]
    except OSError:
        return []


def held(cwd: Path, paths: Iterable[Path], hidden: Iterable[Path]) -> list[tuple[Path, int, int]]:
    """The working folder and the places in it that mounts hold: protected paths, the nearest first, and the folders
    above them; each as path, device, number. Only what is there, and to which no link leads; of what is hidden the
    folders above it alone."""
    hidden = set(hidden)
    found: dict[Path, tuple[Path, int, int]] = {}
    left = _MOST_LENGTH
    with Beneath(cwd) as beneath:
        found[cwd] = (cwd, *beneath.identity)
        for path in [*(path for path in hidden if cwd in path.parents), *paths]:
            if not os.path.lexists(path) or cwd not in path.parents:
                continue
            places = {place[0]: place for place in beneath.places(path)}
            fresh = [place for place in places if place not in found]
            left -= sum(len(os.fspath(place)) for place in fresh)
            if path not in hidden and (left < 0 or len(found) + len(fresh) > MOST_MOUNTS):
                break
            found |= {place: one for place, one in places.items() if place not in hidden}
    return list(found.values())
