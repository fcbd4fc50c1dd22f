"""What the text of a command cannot tell and the disk can: where a path really leads, which file a program name runs,
what the settings of a repository would start. Only looks; a doubt counts against the command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orkas.harness.commands.known import plain_name
from orkas.harness.commands.reading import BUILTINS
from orkas.harness.policy.matching import MAX_MATCHES, is_pattern
from orkas.harness.policy.repository import is_another_for_each, settings_that_run
from orkas.infra.paths import is_ours
from orkas.infra.process import environment

if TYPE_CHECKING:
    from orkas.harness.commands.effects import Effects

__all__ = ["harmful", "is_our_data", "makes_repository"]

_SYSTEM = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"})
"""Programs of the system, also where the whole disk is the working folder."""


def leads_out(path: str, cwd: Path, *, existing: bool) -> bool:
    """Whether a path of a command leads out of the working folder, links followed. ``existing``: only if it is there,
    for what is read may be no path at all."""
    whole = os.path.join(cwd, os.path.expanduser(path))  # noqa: PTH111, PTH118 - kept as written until it is resolved
    if existing and not os.path.lexists(whole):
        return False
    inside = Path(os.path.realpath(whole)).is_relative_to(os.path.realpath(cwd))
    return not inside or is_another_for_each(Path(whole))


def _matches_lead_out(pattern: str, cwd: Path) -> bool:
    """Whether a name, or one that a pattern stands for, is a link out of the working folder."""
    if not is_pattern(pattern):
        return leads_out(pattern, cwd, existing=True)
    import glob

    for n, path in enumerate(glob.iglob(pattern, root_dir=cwd, include_hidden=True)):  # noqa: PTH207 - from this folder
        if n >= MAX_MATCHES or leads_out(path, cwd, existing=True):
            return True
    return False


def is_our_data(path: str, cwd: Path) -> bool:
    """Whether a path leads into Orkas' own data."""
    return is_ours(Path(os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))))  # noqa: PTH111, PTH118


def program_of_workspace(name: str, cwd: Path, search: str) -> bool:
    """Whether the name of a program may run a file of the working folder."""
    if "/" in name:
        return True
    root = os.path.realpath(cwd)
    for folder in search.split(":"):
        found = os.path.join(cwd, folder, name)  # noqa: PTH118
        if os.access(found, os.X_OK) and not os.path.isdir(found):  # noqa: PTH112
            if folder in _SYSTEM:
                return False
            inside = not os.path.isabs(folder) or _within(os.path.realpath(found), root)  # noqa: PTH117
            return inside or _within(os.path.abspath(folder), root)  # noqa: PTH100
    return False


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# git


def makes_repository(paths: Sequence[str], cwd: Path) -> str:
    """The folder that git takes for a repository once these files are written in it; empty: none. It needs no ``.git``
    for that: ``HEAD``, ``objects`` and ``refs`` are enough."""
    made: dict[str, set[str]] = {}
    for path in paths:
        parts = os.path.normpath(os.path.realpath(cwd / path)).split("/")
        for at, part in enumerate(parts[1:], 1):
            if (name := plain_name(part)) in _OF_A_REPOSITORY:
                made.setdefault("/".join(parts[:at]) or "/", set()).add(name)
    for folder, names in made.items():
        with suppress(OSError):
            there = names | {name.casefold() for name in os.listdir(folder)} if os.path.isdir(folder) else names  # noqa: PTH112, PTH208
            if "head" in there and ("commondir" in there or {"objects", "refs"} <= there):
                return os.path.relpath(folder, os.path.realpath(cwd))
    return ""


_OF_A_REPOSITORY = frozenset({
    "head", "config", "config.worktree", "commondir", "objects", "refs", "hooks", "info", "gitdir",
})  # fmt: skip


# all of it


def harmful(effects: Effects, cwd: Path, *, sandboxed: bool, named: bool = False) -> list[str]:
    """What speaks against a command besides its text, as clauses. In a sandbox it cannot read what it must not.
    ``named``: a rule allows those of its parts that do more than read."""
    found: list[str] = []
    search = environment()["PATH"]
    reading = effects.reading
    if named or effects.kind in ("reads", "writes"):
        found += [
            f"{name} may be a program of the working folder"
            for name in reading.programs
            if name not in BUILTINS and program_of_workspace(name, cwd, search)
        ]
        folders = dict.fromkeys(reading.repositories)
        if effects.written and any(folder != "." for folder in folders):
            found.append("git reads a folder that the same command may change")
        settings = (settings_that_run(cwd / folder) for folder in folders)
        found += [f"the settings of this repository can run a program ({odd})" for odd in settings if odd]
    if folder := makes_repository(effects.written, cwd):
        found.append(f"{folder} is then a repository to git, which runs programs that its settings name")
    out = [path for path in effects.written if leads_out(path, cwd, existing=False)]
    found += [f"{path} leads out of the working folder" for path in out]
    if not sandboxed:
        for path in reading.outside if named else effects.outside:
            if path == "?":
                found.append("which files it reads is known only when it runs")
            elif leads_out(path, cwd, existing=True):
                found.append(f"it reads {path}, outside the working folder")
        inside = reading.inside if named else effects.read
        found += [f"{path} leads out of the working folder" for path in inside if _matches_lead_out(path, cwd)]
    return list(dict.fromkeys(found))
