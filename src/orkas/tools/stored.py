"""Reading on in a tool result that was too long for the conversation and lies whole beside the session."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.abort import Abort
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.output import readable
from orkas.infra.threads import in_thread
from orkas.tools.foreign import WEB, framed, is_foreign
from orkas.tools.text import kind_of_bytes

__all__ = ["PAGE_BYTES", "ReadResult"]

PAGE_BYTES = 6_000
"""UTF-8 bytes of one page: at most about 2,000 tokens, of English, of Chinese and of code."""
_PIECE = 65_536
"""Characters of a line that are held at once."""
_LONG = 500
"""A line with more characters is searched by places, not as a whole."""
_AROUND = 150
"""Characters shown on either side of a place."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Follow no link, wait at no pipe, change no line ending."""
_NAMED = 8
"""File names that a refusal lists."""
_Most = Annotated[int, Meta(ge=1)]


class ReadResultInput(msgspec.Struct, forbid_unknown_fields=True):
    file: Annotated[str, Meta(description="The file that the preview names.")]
    start: Annotated[int, Meta(description="First line, or first character with `chars`; from 1.", ge=1)] = 1
    lines: Annotated[_Most | None, Meta(description="Lines at most.")] = None
    chars: Annotated[_Most | None, Meta(description="Characters at most, instead of lines: for very long ones.")] = None
    search: Annotated[str | None, Meta(description="Show only where these words are, from `start` on.")] = None


class ReadResult:
    """The ``read_result`` tool. Only files of the session at work can be read; memory is bounded whatever they hold."""

    name = "read_result"
    description = (
        "Read on in a tool result that was too long: its preview names the file. By lines, by characters, or only where"
        " words are found."
    )
    parameters = schema_of(ReadResultInput)
    read_only = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult | str:
        given = check_arguments(arguments, ReadResultInput)
        if given.lines is not None and given.chars is not None:
            raise ToolFailed("give lines or chars, not both")
        if given.search is not None and not given.search.strip():
            raise ToolFailed("search is empty; give the words to find, or leave it out")
        text = await in_thread(_read, given, context)
        if is_foreign(name := Path(given.file).name):
            return ToolResult(framed(text, name), origin=WEB)
        return text


def _read(given: ReadResultInput, context: ToolContext) -> str:
    with _open(given.file, context.files) as file:
        head = file.read(64)
        if not head:
            return "(empty file)"
        if (kind := kind_of_bytes(head)).startswith("image/"):
            raise ToolFailed(f"{given.file} is a picture ({kind}), seen in the conversation; only text is read here")
        file.seek(0)
        text = _Text(file, context.abort)
        if given.search is not None:
            return _Search(text, given.search.strip(), given.start, by_chars=given.chars is not None).told()
        return text.chars(given.start, given.chars) if given.chars is not None else text.lines(given.start, given.lines)


def _open(given: str, folder: Path | None) -> io.BufferedReader:
    """A file of the session's own folder, never what a link or a path leads to.

    Raises:
        ToolFailed: there is none; the sentence says which there are.
    """
    if folder is None:
        raise ToolFailed("this conversation lives in memory and keeps no files; run the tool again with less output")
    name = Path(given).name if Path(given).is_absolute() and Path(given).parent == folder else given
    if _NAME.fullmatch(name):
        try:
            descriptor = os.open(folder / name, os.O_RDONLY | _PLAINLY)
        except OSError:
            pass
        else:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and not (folder / name).is_symlink():
                return os.fdopen(descriptor, "rb")
            os.close(descriptor)
    raise ToolFailed(f"this conversation keeps no file {given[:200]!r}; {_kept(folder)}")


def _kept(folder: Path) -> str:
    try:
        names = sorted(p.name for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.suffix == ".txt")
    except OSError:
        names = []
    if not names:
        return "it keeps none yet"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"it keeps {', '.join(names[:_NAMED])}{more}"


class _Piece(msgspec.Struct):
    """A part of one line: all of it where the line is not longer than ``_PIECE``."""

    line: int
    at: int
    """Where it begins, in characters of the file, from 0."""
    text: str
    first: bool
    last: bool


class _Text:
    """An open file as text, read once from its beginning."""

    def __init__(self, file: io.BufferedReader, abort: Abort) -> None:
        self._text = io.TextIOWrapper(file, "utf-8", "replace", newline="\n")
        self._abort = abort
        self._ahead = ""
        self._taken = 0  # characters of ``_ahead`` that were given out

    def pieces(self, dull: Callable[[str, int], bool]) -> Iterator[_Piece]:
        """The text, piece by piece. ``dull``: may these whole lines, the first of that number, be passed over?"""
        line, at, first = 1, 0, True
        while chunk := self._read():
            self._ahead, self._taken = self._ahead[self._taken :] + chunk, 0
            last = self._ahead.rfind("\n", 0, self._ahead.rfind("\n")) + 1  # the newest line may be wanted
            if first and last and dull(self._ahead[:last], line):
                line, at, self._taken = line + self._ahead.count("\n", 0, last), at + last, last
            while (end := self._ahead.find("\n", begin := self._taken)) >= 0:
                self._taken = end + 1
                yield _Piece(line, at, self._ahead[begin:end], first, True)
                line, at, first = line + 1, at + self._taken - begin, True
            if len(self._ahead) - begin >= _PIECE:
                self._taken = len(self._ahead)
                yield _Piece(line, at, self._ahead[begin:], first, False)
                at, first = at + self._taken - begin, False
        if rest := self._ahead[self._taken :]:
            self._taken = len(self._ahead)
            yield _Piece(line, at, rest, first, True)

    def _read(self, most: int = _PIECE) -> str:
        self._abort.check()
        return self._text.read(most)

    def lines(self, start: int, most: int | None) -> str:
        """A page of whole lines; one that is longer than a page is cut, and the rest of it is reached by characters."""
        shown: list[str] = []
        room = PAGE_BYTES
        goes_on = ""
        total = 0
        for piece in self.pieces(lambda text, line: line + text.count("\n") <= start):
            total = piece.line
            if piece.line < start:
                continue
            text, count = _portion(piece.text, room)
            whole = piece.last and count == len(piece.text)
            size = len(text.encode()) + bool(shown)
            if len(shown) == most or (shown and (not whole or size > room)):
                total = self._total(piece)
                break
            shown.append(text)
            room -= size
            if not whole:
                goes_on = f"line {piece.line:,} goes on: start={piece.at + count + 1} with chars={PAGE_BYTES}"
                total = self._total(piece)
                break
        if not shown:
            raise ToolFailed(f"start {start} is beyond the end: the result has {counted(total, 'line')}")
        end = start + len(shown) - 1
        notes = [f"lines {start:,} to {end:,} of {total:,}", goes_on, f"read on with start={end + 1}" * (end < total)]
        return "\n".join([*shown, f"[{'; '.join(filter(None, notes))}]"])

    def _total(self, piece: _Piece) -> int:
        """How many lines there are; ``piece`` is the last that was read."""
        total = piece.line if piece.last else piece.line - 1
        ended = piece.last
        text = self._ahead[self._taken :] or self._read()
        while text:
            total += text.count("\n")
            ended = text.endswith("\n")
            text = self._read()
        return total + (not ended)

    def chars(self, start: int, most: int) -> str:
        total = self._skip(start - 1)
        page = self._read(min(most, PAGE_BYTES))
        if not page:
            raise ToolFailed(f"start {start} is beyond the end: the result has {counted(total, 'character')}")
        text, count = _portion(page, PAGE_BYTES)
        end = start - 1 + count
        total += len(page) + self._skip(None)
        notes = [f"characters {start:,} to {end:,} of {total:,}"]
        if end < total:
            notes.append(f"read on with start={end + 1}, chars={most}")
        return f"{text}\n[{'; '.join(notes)}]"

    def _skip(self, count: int | None) -> int:
        """Read past so many characters, or all there are; returns how many there were."""
        done = 0
        while count is None or done < count:
            piece = self._read(_PIECE if count is None else min(_PIECE, count - done))
            if not piece:
                break
            done += len(piece)
        return done


class _Search:
    """Places where words are found: short lines with the line before and after, long ones by the place in them."""

    def __init__(self, text: _Text, words: str, start: int, *, by_chars: bool) -> None:
        self._text = text
        self._words = words
        self._start = start
        self._by_chars = by_chars
        self._pattern = re.compile(re.escape(words), re.IGNORECASE)
        self._follows = False  # the last line shown was a hit: the next one is shown with it
        self._shown: list[str] = []
        self._room = PAGE_BYTES
        self._more = 0
        self._resume = ""

    def told(self) -> str:
        before: _Piece | None = None  # a short line that has not been shown
        carry = ""  # the end of the piece before, of the same line
        for piece in self._text.pieces(self._dull):
            if piece.first:
                carry = ""
            hits = self._hits(piece, carry)
            carry = piece.text[-(len(self._words) - 1) :] if len(self._words) > 1 else ""
            if piece.first and piece.last and len(piece.text) <= _LONG:
                if hits:
                    self._show(piece, before)
                elif self._follows:
                    self._put(f"{piece.line}- {_shown(piece.text)}")
                before = None if hits or self._follows else piece
                self._follows = bool(hits) and not self._resume
                continue
            before, self._follows = None, False
            for at in hits:
                self._place(piece, at)
        return self._page()

    def _dull(self, text: str, line: int) -> bool:
        return not self._follows and self._pattern.search(text) is None

    def _hits(self, piece: _Piece, carry: str) -> list[int]:
        """Where the words begin, in characters of the file, as far as they are asked for."""
        if not self._by_chars and piece.line < self._start:
            return []
        at = piece.at - len(carry)
        found = [at + hit.start() for hit in self._pattern.finditer(carry + piece.text)]
        return [place for place in found if place >= self._start - 1] if self._by_chars else found

    def _show(self, piece: _Piece, before: _Piece | None) -> None:
        lines = [f"{before.line}- {_shown(before.text)}"] if before else []
        lines.append(f"{piece.line}: {_shown(piece.text)}")
        self._count("\n".join(lines), f"start={piece.at + 1}, chars=1" if self._by_chars else f"start={piece.line}")

    def _place(self, piece: _Piece, at: int) -> None:
        here = max(0, at - piece.at)
        around = piece.text[max(0, here - _AROUND) : here + len(self._words) + _AROUND]
        self._count(f"{piece.line}, character {at + 1}: …{_shown(around)}…", f"start={at + 1}, chars=1")

    def _count(self, text: str, where: str) -> None:
        """Show a hit if there is room, else remember where to go on."""
        if self._resume or not self._put(text):
            self._resume = self._resume or where
            self._more += 1

    def _put(self, text: str) -> bool:
        size = len(text.encode()) + 1
        if size > self._room:
            return not self._shown and self._put(text[: _fit(text, self._room - 1)])
        self._shown.append(text)
        self._room -= size
        return True

    def _page(self) -> str:
        if not self._shown:
            beyond = f" from {'character' if self._by_chars else 'line'} {self._start:,} on" if self._start > 1 else ""
            return f"(nothing in it holds {self._words[:200]!r}{beyond})"
        if self._more:
            self._shown.append(f"[{counted(self._more, 'more place')}; search on with {self._resume}]")
        return "\n".join(self._shown)


def _shown(text: str) -> str:
    return text if text.isprintable() else readable(text.encode())


def _portion(text: str, room: int) -> tuple[str, int]:
    """The beginning of the text that takes no more than ``room`` bytes as it is shown, and its length in characters."""
    count = _fit(text, room)
    shown = _shown(text[:count])
    while len(shown.encode()) > room and count > 1:  # control codes are shown by several bytes
        count = max(1, count // 2)
        shown = _shown(text[:count])
    return shown, count


def _fit(text: str, room: int) -> int:
    """How many characters of the text take no more than ``room`` bytes; at least one."""
    if len(text) <= room and len(data := text.encode()) <= room:
        return len(text)
    data = text[: max(room, 1)].encode()[: max(room, 1)]
    return max(1, len(data.decode("utf-8", "ignore")))
