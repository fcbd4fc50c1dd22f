"""Which files a path of a command line stands for, from where it is: the shell's patterns, looked up on the disk."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from orkas.harness.commands.words import HOME

__all__ = ["MAX_MATCHES", "is_pattern", "matches", "whole_path"]

MAX_MATCHES = 1_000
"""Names that a pattern may stand for before it is not looked at any further."""
MAX_LENGTH = 4_000
"""Characters of a path; the system takes no longer one."""
_CLASS = re.compile(r"\[[!^]?\]?(?:\[:\w+:\]|[^\]])*\]")


def is_pattern(path: str) -> bool:
    return any(c in "*?[" for c in path)


def whole_path(path: str, cwd: Path, folder: str | None = ".") -> str | None:
    """The path from the root, links not followed; ``folder``: where the command is, None where that is not known. None:
    it is not known, or no file has such a name."""
    path = _at_home(path)
    if "\0" in path or len(path) > MAX_LENGTH or (folder is None and not path.startswith("/")):
        return None
    return os.path.join(cwd, _at_home(folder or "."), path)  # noqa: PTH118 - kept as it is written


def _at_home(path: str) -> str:
    path = path.replace(HOME, "~", 1) if path.startswith(HOME) else path
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path  # noqa: PTH111


def matches(path: str, limit: int = MAX_MATCHES) -> Iterator[str]:
    """What is there by this name or pattern, hidden names too, at most ``limit``."""
    if not is_pattern(path) or "]" not in path.replace("*", "]").replace("?", "]"):
        return iter([path] if os.path.lexists(path) else ())
    known = _CLASS.sub(lambda found: "?" if "[:" in found[0] else found[0].replace("[^", "[!", 1), path)
    return islice(glob.iglob(known, include_hidden=True), limit)  # noqa: PTH207 - a pattern of the shell's
