"""What a session may be called, and where the one of a given name lies."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

from orkas.infra.errors import SessionMissing, UsageError
from orkas.infra.home import home

__all__ = ["find", "fresh_name", "locate", "missing", "path_of", "sessions_folder", "usable", "valid_id"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}", re.ASCII)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII | re.IGNORECASE)


def valid_id(name: str) -> str:
    """The name itself, if it can be the name of a session on every system.

    Raises:
        UsageError: it cannot.
    """
    if not isinstance(name, str):
        raise UsageError(f"the name of a session must be a string, not {name!r}", hint="such as Session.open('trip')")
    if _ID.fullmatch(name) and not name.endswith(".") and not _RESERVED.fullmatch(name):
        return name
    if _RESERVED.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a session: Windows keeps it for a device",
            hint=f"use another one, as my-{name}",
        )
    shown = ascii(name if len(name) <= 60 else name[:57] + "...")
    raise UsageError(
        f"{shown} cannot be the name of a session",
        hint="use letters, digits, '-', '_' and '.', at most 120, beginning with a letter or a digit",
    )


def fresh_name() -> str:
    """A name for a new session: local time and chance, ``20261130-142501-9f3c2a1b``. Nothing is ordered by it."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"


def usable(name: str) -> bool:
    """Whether a session can have this name: a file put there by hand may have any."""
    try:
        return bool(valid_id(name))
    except UsageError:
        return False


def sessions_folder() -> Path:
    """Where the sessions lie. Not created here."""
    return home() / "sessions"


def locate(where: str | Path) -> Path:
    """The file of a session given by name or by path; a name goes first.

    Raises:
        UsageError: it is no path of a file and no session can have this name.
    """
    text = str(where)
    if isinstance(where, Path) or os.sep in text or (os.altsep and os.altsep in text):
        return Path(where)
    as_path = text.endswith(".jsonl") or _is_file(text)
    try:
        path, exists = find(text)
    except UsageError:
        if as_path:
            return Path(text)
        raise
    return path if exists or not as_path else Path(text)


def path_of(name: str) -> Path:
    """The file of the session of exactly this name.

    Raises:
        UsageError: no session can have this name.
        SessionMissing: there is none.
    """
    path, exists = find(name)
    if not exists:
        raise missing(name)
    return path


def missing(name: str) -> SessionMissing:
    return SessionMissing(f"there is no session {name!r}", hint="list them with: orkas session list")


def find(name: str) -> tuple[Path, bool]:
    """Where the session of this name lies, and whether it is there.

    Raises:
        UsageError: no session can have this name, or there is one whose name differs only in upper and lower case.
    """
    path = sessions_folder() / f"{valid_id(name)}.jsonl"
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return path, False
    if path.name in names:
        return path, True
    for other in names:
        if other.casefold() == path.name.casefold():
            there = other.removesuffix(".jsonl")
            raise UsageError(f"there is already a session {there!r}", hint="use that name, or quite another one")
    return path, False


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (ValueError, OSError):  # a NUL in it, too long
        return False
