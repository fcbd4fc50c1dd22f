"""Markdown that is still being written, cut into blocks that are finished.

Promises, whatever the pieces the text arrives in: the blocks are the same, and joined they are the text.
No block, and nothing that waits, is larger than about ``2 * MAX_CHARS``, so the cost of drawing the part under way
again and again has a bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MAX_CHARS", "MAX_LINES", "Block", "Splitter"]

MAX_CHARS = 8192
"""Characters after which a block is cut at the next line; a line is cut at this length."""
MAX_LINES = 120
"""Lines after which a block is cut: more than a screen, few enough to be drawn at once."""

_FENCE = re.compile(r"( *)(`{3,}|~{3,})([^`\n]*)\n?$")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|\n?$)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|\n?$)")
_TABLE_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)+\n?$")


@dataclass(frozen=True, slots=True)
class Block:
    """A finished piece: ``text`` is what the model wrote; pieces of a block that was cut have more around it."""

    text: str
    before: str = ""
    """The fence or the head of the table that was opened in an earlier piece."""
    after: str = ""
    """The closing fence that comes in a later piece."""

    @property
    def source(self) -> str:
        """Markdown that stands on its own."""
        return self.before + self.text + self.after


class Splitter:
    """Feed it text as it arrives; it gives back the blocks that can no longer change."""

    def __init__(self) -> None:
        self._rest = ""
        """The line under way."""
        self._middle = False
        """The next piece begins within a line that was cut."""
        self._before = self._opening = self._fence = ""
        self._start_block()

    def _start_block(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._list = False
        self._table = ""

    def feed(self, text: str) -> list[Block]:
        """The blocks that ``text`` finished, in order."""
        done: list[Block] = []
        rest, start = self._rest + text, 0
        while end := _line_end(rest, start):
            self._line(rest[start:end], done)
            start = end
        self._rest = rest[start:]
        return done

    def finish(self) -> list[Block]:
        """What is left, the text having ended. The splitter is then as new."""
        done: list[Block] = []
        if self._rest:
            self._line(self._rest, done)
        self._close(done)
        self._rest = self._fence = ""
        self._middle = False
        return done

    @property
    def pending(self) -> Block:
        """The block under way, as far as it came."""
        return Block("".join(self._lines) + self._rest, self._before)

    def _line(self, line: str, done: list[Block]) -> None:
        middle, self._middle = self._middle, not line.endswith("\n")
        if self._fence:
            self._in_fence(line, done)
        elif middle:
            self._add(line)
        elif not line.strip():
            self._blank(line, done)
        else:
            self._text(line, done)
        if self._size >= MAX_CHARS or len(self._lines) >= MAX_LINES:
            self._cut(done)

    def _in_fence(self, line: str, done: list[Block]) -> None:
        self._add(line)
        mark = line.strip()
        if mark and not mark.strip(self._fence[0]) and len(mark) >= len(self._fence):
            self._fence = ""
            if not self._list:
                self._close(done)

    def _blank(self, line: str, done: list[Block]) -> None:
        self._add(line)
        if not self._list:
            self._close(done)

    def _text(self, line: str, done: list[Block]) -> None:
        fence = _FENCE.match(line)
        inside = self._list and line[:1] in " \t"
        if fence and (inside or len(fence[1]) < 4):
            if not inside:
                self._close(done)
            self._fence = fence[2]
            self._opening = line if line.endswith("\n") else line + "\n"
        elif _HEADING.match(line) and not inside:
            self._close(done)
            self._add(line)
            if not self._middle:
                self._close(done)
            return
        elif self._list and not inside and self._lines[-1].strip() == "" and not _ITEM.match(line):
            self._close(done)
        self._add(line)
        self._list = self._list or (not fence and bool(_ITEM.match(line)))
        if len(self._lines) == 2 and _TABLE_RULE.match(line) and not self._before:
            self._table = "".join(self._lines)

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _cut(self, done: list[Block]) -> None:
        """Close a block that grew too large, so that its next piece can be read on its own."""
        if self._fence:
            before, after = self._opening, self._fence + "\n"
            after = after if self._lines[-1].endswith("\n") else "\n" + after
            in_list = self._list
            self._close(done, after)
            self._before, self._list = before, in_list
        else:
            before = self._table or self._before
            self._close(done)
            self._before = before

    def _close(self, done: list[Block], after: str = "") -> None:
        if self._lines:
            done.append(Block("".join(self._lines), self._before, after))
            self._start_block()
        self._before = ""


def _line_end(text: str, start: int) -> int:
    """Where the line that begins at ``start`` ends; 0: it has not ended yet. A line without end is cut at a space."""
    newline = text.find("\n", start, start + MAX_CHARS)
    if newline >= 0:
        return newline + 1
    if len(text) - start < MAX_CHARS:
        return 0
    return text.rfind(" ", start + MAX_CHARS // 2, start + MAX_CHARS) + 1 or start + MAX_CHARS
