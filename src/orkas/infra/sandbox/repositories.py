"""Which git folders lie in a working folder, however they are called: what git would take for one counts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from orkas.infra.sandbox.folders import is_below, text_of
from orkas.infra.sandbox.gitconfig import Entry, entries

__all__ = ["Repositories", "hooks_and_settings", "is_git_folder", "leads", "led_to", "search", "trail"]

LOOK = 8_000
"""Folder entries that are looked at, nearest first; git folders deeper in a larger tree are not found."""
LOOK_AFTER = 400_000
"""The same after a command, where all was found before it: what it made does not hide in the crowd."""
_LAST = frozenset({"node_modules", ".venv", "venv", "__pycache__", "target", "dist", "build", ".tox", ".cache"})
"""Looked into after everything else."""
_REMEMBERED = 2_000

_known: dict[Path, dict[Path, None]] = {}
"""Git folders found earlier: they are looked at again, also when others crowd them out."""


class Repositories(Struct, frozen=True):
    """What was found, nearest first. ``pointers``: whatever is called ``.git``; ``folders``: what git reads, without
    links, in the working folder; ``whole``: everything was looked at."""

    pointers: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    whole: bool = True


def search(cwd: Path, most: int = LOOK) -> Repositories:
    """Look for them. What a ``.git`` file or link leads to counts with it, where that lies in ``cwd``."""
    pointers: dict[Path, None] = {}
    folders: dict[Path, None] = {}
    if os.path.lexists(git := cwd / ".git"):
        pointers[git] = None
    near, far = deque([cwd]), deque[Path]()
    while (near or far) and most > 0:
        here = near.popleft() if near else far.popleft()
        try:
            looked, names, inner = _looked_at(here, most)
        except OSError:  # it cannot be listed, but git may go through it
            looked, names, inner = 1, {name for name in _OF_GIT if os.path.lexists(here / name)}, []
        most -= looked
        if ".git" in names:
            pointers[here / ".git"] = None
        if is_git_folder(names):
            folders[here] = None
        for path in inner:
            if path.name == ".git":
                near += [path / name for name in ("modules", "worktrees")]
            else:
                (far if path.name in _LAST else near).append(path)
    _remember(cwd, pointers, folders)
    return Repositories(tuple(pointers), tuple(folders), most > 0)


def _looked_at(folder: Path, most: int) -> tuple[int, set[str], list[Path]]:
    """How many entries were looked at, the names among them that count, and the folders."""
    looked, names, inner = 0, set[str](), list[Path]()
    with os.scandir(folder) as entries:
        for entry in entries:
            looked += 1
            if entry.name in _OF_GIT:
                names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                inner.append(Path(entry.path))
            if looked >= most:
                break
    return looked, names, inner


def _remember(cwd: Path, pointers: dict[Path, None], folders: dict[Path, None]) -> None:
    """Add those known from earlier that are still there, and what all of them lead to."""
    earlier = _known.setdefault(cwd, {})
    for path in earlier:
        if path.name == ".git" and os.path.lexists(path):
            pointers[path] = None
        elif is_git_folder({name for name in _OF_GIT if os.path.lexists(path / name)}):
            folders[path] = None
    for path in [*pointers, *folders]:
        folders |= dict.fromkeys(led_to(cwd, path) or ())
    for path in [*pointers, *folders][: max(0, _REMEMBERED - len(earlier))]:
        earlier[path] = None


_OF_GIT = frozenset({".git", "HEAD", "objects", "refs", "commondir"})


def is_git_folder(names: Container[str]) -> bool:
    """git takes a folder with these names in it for a git folder."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def led_to(cwd: Path, pointer: Path) -> list[Path] | None:
    """The folders that a ``.git`` stands for, without links: itself, what it names, and what that shares; None: one of
    them lies outside of the working folder."""
    target = Path(os.path.realpath(leads(pointer)[-1]))
    if cwd not in target.parents and target != cwd:
        return None
    common = text_of(target / "commondir").strip()
    shared = Path(os.path.realpath(target / common)) if common and "\0" not in common else target
    return list(dict.fromkeys((target, shared))) if is_below(shared, [cwd]) else None


def leads(pointer: Path) -> list[Path]:
    """A ``.git``, and what it names where it is a file."""
    target = Path(os.path.realpath(pointer))
    said = text_of(target).removeprefix("gitdir:").strip() if os.path.isfile(target) else ""
    return [pointer, target.parent / said] if said and "\0" not in said else [pointer]


_MOST_LINKS = 40
"""As many as the kernel follows."""


def trail(cwd: Path, path: Path) -> list[Path]:
    """What must stay so that a path leads where it leads, as far as it lies in the working folder: each link on the
    way, and in the end what is there."""
    found: list[Path] = []
    here = Path("/")
    waiting = deque(os.fspath(path).split("/"))
    while waiting and len(found) <= _MOST_LINKS:
        name = waiting.popleft()
        if name in ("", ".", ".."):
            here = here.parent if name == ".." else here
            continue
        try:
            target = os.readlink(here / name)
        except OSError:
            here = here / name
            continue
        found.append(here / name)
        here = Path("/") if target.startswith("/") else here
        waiting.extendleft(reversed(target.split("/")))
    return [step for step in [*found, here] if cwd in step.parents]


_MOST_INCLUDES = 20


def hooks_and_settings(cwd: Path, git: Path, trees: Iterable[Path], users: Iterable[Path]) -> list[Path]:
    """What the settings of a git folder, and those of the user (``users``), make git obey elsewhere in the working
    folder: folders of hooks, and further settings. ``trees``: folders whose ``.git`` leads there."""
    found: list[Path] = []
    trees = [git.parent, git, *trees]
    own = list(_settings(git / "config")) + list(_settings(git / "config.worktree"))
    for file, entry in own:
        if entry.section == "core" and entry.key == "worktree":
            trees.append(Path(os.path.normpath(git / entry.value)))
        elif _is_include(entry):
            found.append(_meant(file.parent, entry.value))
    for _, entry in [*own, *(one for user in users for one in _settings(user))]:
        if entry.section == "core" and entry.key == "hookspath" and entry.value:
            found += [_meant(tree, entry.value) for tree in trees]
    return [path for path in dict.fromkeys(found) if cwd in path.parents]


def _settings(file: Path) -> Iterator[tuple[Path, Entry]]:
    """Every variable of a file and of those that it includes, on whatever condition."""
    waiting, seen = deque([file]), set[Path]()
    while waiting and len(seen) < _MOST_INCLUDES:
        here = waiting.popleft()
        if here in seen:
            continue
        seen.add(here)
        for entry in entries(text_of(here)):
            yield here, entry
            if _is_include(entry):
                waiting.append(_meant(here.parent, entry.value))


def _is_include(entry: Entry) -> bool:
    return entry.section in ("include", "includeif") and entry.key == "path" and bool(entry.value)


def _meant(folder: Path, value: str) -> Path:
    """A path of a setting, relative to a folder."""
    value = value.replace("\0", "")
    return Path(os.path.normpath(folder / (os.path.expanduser(value) if value.startswith("~") else value)))
