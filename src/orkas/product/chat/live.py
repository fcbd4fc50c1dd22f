"""The last lines of the terminal, which still change, below everything that is settled.

Settled lines go to the terminal's own scrollback and are never touched again, but by ``take_back``. Each change is
one write, begins at the first line that differs, and is bracketed for terminals that can show it at once, so nothing
flickers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from orkas.product.chat.words import cells

__all__ = ["Live", "visible"]

_SGR = re.compile(r"\x1b\[[\d;]*m")
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # synchronized update; terminals without it ignore it
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


def visible(line: str) -> str:
    """A line without its colours."""
    return _SGR.sub("", line)


class Live:
    """Lines given here may hold colours (SGR) and no other control code."""

    def __init__(self, write: Callable[[str], None], size: Callable[[], os.terminal_size]) -> None:
        self._write = write
        self._size = size
        self._shown: list[str] = []
        self._columns = 0
        """Columns when ``_shown`` was drawn."""

    def rows(self, lines: list[str]) -> int:
        """Rows that lines take at the present width."""
        columns = max(1, self._size().columns)
        return sum(max(1, -(-cells(visible(line)) // columns)) for line in lines)

    def draw(self, area: list[str], settled: list[str] | None = None) -> None:
        """Put ``settled`` above for good and show ``area`` as the changing part, only its end when it is too tall."""
        area = self._fitting(area)
        if not settled and area == self._shown and self._size().columns == self._columns:
            return
        same = 0
        if not settled and self._size().columns == self._columns:
            same = _common(area, self._shown)
        out = [_BEGIN, _HIDE, self._erased(same)]
        out += [line + "\n" for line in settled or []]
        out += ["\n".join(area[same:]), "" if area else _SHOW, _END]
        self._write("".join(out))
        self._shown, self._columns = area, self._size().columns

    def take_back(self, settled: list[str]) -> bool:
        """Remove the last settled lines from the screen; False when they have left it already."""
        rows = self.rows(settled)
        if rows + self.rows(self._shown) >= self._size().lines:
            return False
        self._write(_BEGIN + self._erased(0) + "\x1b[A\x1b[2K" * rows + _END)
        self._shown = []
        return True

    def close(self) -> None:
        """Remove the changing part and show the cursor."""
        self.draw([])

    def _fitting(self, area: list[str]) -> list[str]:
        room, start = max(1, self._size().lines - 1), len(area)
        while start and (room := room - self.rows(area[start - 1 : start])) >= 0:
            start -= 1
        return area[start:]

    def _erased(self, index: int) -> str:
        """From the end of what is shown up to the begin of its line ``index``, erasing each row on the way.

        Writing over a row would keep the terminal's note that it goes on in the next one, and mix them up on resize;
        erasing to the end of the screen would make tmux copy a full screen to its history.
        """
        return "\r\x1b[2K" + "\x1b[A\x1b[2K" * (self.rows(self._shown[index:]) - 1)


def _common(new: list[str], old: list[str]) -> int:
    """How many first lines are equal, always leaving one of the old to be written again."""
    count = 0
    while count < min(len(new), len(old) - 1) and new[count] == old[count]:
        count += 1
    return min(count, max(0, len(new) - 1))
