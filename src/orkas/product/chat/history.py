"""What was typed before, kept in a file that only its owner may read: one JSON string a line."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from orkas.infra.home import make_private
from orkas.infra.known import hide
from orkas.infra.messages import encode, well_formed

__all__ = ["KEPT", "History"]

KEPT = 1000
"""Inputs that are kept; the file may hold twice as many before it is shortened."""


class History:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        """Why the last input could not be kept; empty: it was."""

    def entries(self) -> list[str]:
        """The inputs, oldest first. Damaged lines are passed over; what is no regular file holds none."""
        try:
            with os.fdopen(_regular(self.path, os.O_RDONLY), "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            return []
        found = [entry for line in lines if (entry := _decoded(line))]
        if len(found) > 2 * KEPT:
            self._shorten(found[-KEPT:])
        return found[-KEPT:]

    def add(self, text: str) -> None:
        """Keep one input; never raises: a full disk must not end a conversation."""
        try:
            make_private(self.path.parent)
            self._write(self.path, os.O_APPEND, [hide(text)])
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)

    def _shorten(self, entries: list[str]) -> None:
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            self._write(fresh, os.O_TRUNC, entries)
            fresh.replace(self.path)
        except OSError as error:
            self.problem = error.strerror or str(error)
            fresh.unlink(missing_ok=True)

    @staticmethod
    def _write(path: Path, how: int, entries: list[str]) -> None:
        descriptor = _regular(path, os.O_WRONLY | os.O_CREAT | how)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(encode(well_formed(entry)) + b"\n" for entry in entries))


def _regular(path: Path, how: int) -> int:
    """Open a regular file and no other; a pipe without a reader or writer is not waited for.

    Raises:
        OSError: it cannot be opened, or is no file.
    """
    descriptor = os.open(path, how | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is no regular file", str(path))


def _decoded(line: bytes) -> str:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return entry if isinstance(entry, str) else ""
