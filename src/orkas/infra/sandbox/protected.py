"""What of a working folder other programs obey: not for commands to write."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

from orkas.infra.sandbox.folders import text_of

__all__ = ["NAMES", "protected", "repositories"]

NAMES = (
    ".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc",
    ".zprofile", ".zshenv", ".zlogin", ".envrc", ".ripgreprc", ".mcp.json",
    ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".orkas", ".claude", ".codex", ".cursor", ".gemini",
    ".windsurf",
)  # fmt: skip
"""At the top of the working folder: what shells, editors and agents obey as soon as it is there."""
IN_GIT = ("config", "config.worktree", "hooks", "modules", "worktrees", "commondir", "info/attributes")
"""In every git folder: what makes git run programs, or look elsewhere for what it obeys."""
_LOOK = 1_500
"""Folder entries that are looked at for repositories, nearest first; those deeper in a large tree are not found."""
_SKIPPED = frozenset({"node_modules", ".venv", "venv", "__pycache__", "target", "dist", "build", ".tox", ".cache"})


def protected(cwd: Path) -> list[Path]:
    """Everything protected below ``cwd``, whether it is there or not."""
    found = [cwd / name for name in NAMES]
    for git in [*repositories(cwd), *([] if os.path.exists(cwd / ".git") else [cwd / ".git"])]:
        if os.path.isfile(git):
            found.append(git)
            continue
        found += [git / name for name in IN_GIT]
        found += _hooks_elsewhere(cwd, git)
    return list(dict.fromkeys(found))


def repositories(cwd: Path) -> list[Path]:
    """Every ``.git`` below ``cwd``, file or folder; and ``cwd`` itself where it is a bare repository."""
    found: list[Path] = [cwd] if all(os.path.exists(cwd / name) for name in ("HEAD", "objects", "refs")) else []
    found += [git] if os.path.lexists(git := cwd / ".git") else []
    waiting, left = deque([cwd]), _LOOK
    while waiting and left > 0:
        try:
            with os.scandir(waiting.popleft()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name == ".git":
                        found.append(Path(entry.path))
                    elif entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    if left <= 0:
                        break
        except OSError:
            continue
    return list(dict.fromkeys(found))


def _hooks_elsewhere(cwd: Path, git: Path) -> list[Path]:
    """The folder that ``core.hooksPath`` names, where it lies in the working folder."""
    found = re.search(r"(?im)^\s*hookspath\s*=\s*\"?([^\"\n]+?)\"?\s*$", text_of(git / "config"))
    if found is None:
        return []
    path = Path(os.path.normpath(git.parent / found[1]))
    return [path] if cwd in path.parents else []
