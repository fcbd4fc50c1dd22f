"""What was typed before, kept in a file that only its owner may read: one JSON string a line."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
        """The inputs, oldest first. Damaged lines are passed over."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return []
        found = [entry for line in lines if (entry := _decoded(line))]
        if len(found) > 2 * KEPT:
            self._shorten(found[-KEPT:])
        return found[-KEPT:]

    def add(self, text: str) -> None:
        """Keep one input; never raises: a full disk must not end a conversation."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._write(self.path, os.O_APPEND, [text])
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
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(encode(well_formed(entry)) + b"\n" for entry in entries))


def _decoded(line: bytes) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry if isinstance(entry, str) else ""
