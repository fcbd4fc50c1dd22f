"""What came of taking a turn back."""

from __future__ import annotations

import msgspec

from orkas.infra.paths import shown

__all__ = ["Undone"]


class Undone(msgspec.Struct):
    """What was taken back. Paths are relative to ``root``."""

    root: str
    started: float
    """When the turn changed its first file, in seconds since 1970."""
    restored: list[str] = []
    """Changed, moved or deleted by the turn: as they were before it."""
    removed: list[str] = []
    """Made by the turn: in the trash now."""
    refused: list[str] = []
    """A sentence for each path that was left as it is."""
    cut: bool = False
    """The program was killed during a command: all that changed since it began was taken back."""
    again: bool = False
    """Some of it failed for a reason that may go away; the next undo tries it again."""

    @property
    def lines(self) -> list[str]:
        """For people, a line each."""
        lines = [f"restored {shown(path)}" for path in self.restored]
        lines += [f"removed {shown(path)} (it is in the trash)" for path in self.removed]
        if self.cut:
            lines.append(
                "the program was ended during a command, so all that changed since that began was taken back; what was"
                " replaced lies in the trash"
            )
        lines += [f"left {text}" for text in self.refused]
        if self.again:
            lines.append("what failed is tried again by the next undo")
        return lines or ["there was nothing left to take back"]
