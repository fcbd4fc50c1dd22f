"""What a command prints: head and tail in memory, the whole in a file, never more than that.

Memory is bounded by ``HEAD + 2 * TAIL`` whatever the command prints; the work per byte is constant. Values of our
secrets are taken out before anything is kept or clipped, also where one comes in two pieces.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from orkas.infra.home import make_private
from orkas.infra.known import Hider

__all__ = ["HEAD", "SPOOL_LIMIT", "TAIL", "Output", "readable", "screen_text", "whole_end"]

HEAD = 10_000
"""Bytes kept from the beginning. With ``TAIL`` about 5,000 tokens: a page a model can still reason about."""
TAIL = 10_000
SPOOL_LIMIT = 64 * 1024 * 1024
"""Bytes written to the file of the whole output; what comes after is counted, not kept."""

_LOOKED_AT = 8 * TAIL
"""Bytes of a piece in which secrets are looked for when only its end can be shown: the cut lies far before that."""

_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_PICTURES[0x7F] = "\u2421"
_PICTURES |= {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
_PICTURES |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")


def readable(data: bytes) -> str:
    """Bytes of a terminal as text without power over one.

    Invalid UTF-8 becomes U+FFFD. Colours are removed; every other control code is shown by its Unicode picture
    (NUL as U+2400), C1 codes as an escape, bidirectional overrides as U+FFFD. CRLF and lone CR end a line.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if text.isprintable():
        return text
    return _COLOUR.sub("", text).translate(_PICTURES)


_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # move, colour, erase
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-Z\\`-~]|\x07"
)
_ERASE = re.compile(r"(?:\x1b\[|\x9b)[02]?K")
_ERASED = "\udc00"
"""Stands for the erasing of a line's rest: half a character, which no decoded text holds."""
_MOVES = re.compile(f"[\r\b{_ERASED}]|[^\r\b{_ERASED}]+")


def screen_text(data: bytes) -> str:
    """What a program wrote to a terminal, as the lines that stand there in the end.

    Carriage returns, backspaces and the erasing of a line's rest take effect; colours, titles and whatever else steers
    a terminal are left out; moves to other lines are not followed. Otherwise as ``readable``.
    """
    text = re.sub("\r+\n", "\n", data.decode("utf-8", "replace"))
    if text.isprintable():
        return text
    text = _SEQUENCE.sub(lambda found: _ERASED if _ERASE.fullmatch(found[0]) else "", text)
    lines = [_overwritten(line) if _moves(line) else line for line in text.split("\n")]
    return "\n".join(lines).translate(_PICTURES)


def _moves(line: str) -> bool:
    return "\r" in line or "\b" in line or _ERASED in line


def _overwritten(line: str) -> str:
    shown = ""
    at = 0
    for part in _MOVES.findall(line):
        if part == "\r":
            at = 0
        elif part == "\b":
            at = max(0, at - 1)
        elif part == _ERASED:
            shown = shown[:at]
        else:
            shown = shown[:at] + part + shown[at + len(part) :]
            at += len(part)
    return shown


class Output:
    """Takes bytes as they come. ``folder`` None: there is no place for the whole of a long output. ``hider``: what
    takes our secrets out of it."""

    def __init__(self, folder: Path | None = None, name: str = "output", *, hider: Hider | None = None) -> None:
        self.seen = 0
        """Bytes that came."""
        self.total = 0
        """Bytes without our secrets; of all that came once it is closed."""
        self.kept = 0
        """Bytes in ``file``."""
        self.file: Path | None = None
        """Where the whole lies, or its first ``kept`` bytes; None while everything fits in memory, or when no more of
        it could be written than memory holds anyway."""
        self.trouble = ""
        """Why the file could not be written, or not to the end, in the system's words."""
        self._folder = folder
        self._name = name
        self._hider = hider or Hider()
        self._head = bytearray()
        self._tail = bytearray()
        self._spool: FileIO | None = None
        self._digest = hashlib.sha256()  # of what is in the file

    def feed(self, data: bytes) -> None:
        self.seen += len(data)
        if len(data) > _LOOKED_AT and self._only_tail:
            self.total += len(self._hider.close()) + len(data) - _LOOKED_AT  # never shown: nothing to hide in it
            data = data[-_LOOKED_AT:]
        self._take(self._hider.feed(data))

    @property
    def _only_tail(self) -> bool:
        """Of what comes now no more than the end is kept."""
        over = self._spool is None or self.kept >= SPOOL_LIMIT
        return over and (self.file is not None or bool(self.trouble))

    def _take(self, data: bytes) -> None:
        self.total += len(data)
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if self._spool is not None:
            self._write(data)
        elif self.clipped and not self.file and not self.trouble:
            self._open()
            self._write(self._head)
            self._write(self._tail)
            self._write(data)
        self._remember(data)

    @property
    def clipped(self) -> bool:
        """Memory does not hold everything."""
        return self.total > HEAD + TAIL

    @property
    def complete(self) -> bool:
        """Everything can still be read: in memory, or in the file."""
        return not self.clipped or (self.file is not None and not self.trouble and self.kept == self.total)

    def head(self) -> bytes:
        """The beginning, not ending within a character; everything when nothing was clipped."""
        if not self.clipped:
            return bytes(self._head + self._tail)
        return whole_end(bytes(self._head))

    def tail(self) -> bytes:
        """The end, not beginning within a character; empty when nothing was clipped."""
        return bytes(self._tail[-TAIL:]).lstrip(_CONTINUATION) if self.clipped else b""

    def cut(self, unfinished: Callable[[bytes], int]) -> bytes:
        """Take so many bytes from the end as ``unfinished`` says of it, and return them; none where that would hide
        that something was left out. Not for one with a file."""
        part = self._tail or self._head
        count = min(unfinished(bytes(part[-64:])), len(part))
        if self.clipped and self.total - count <= HEAD + TAIL:
            return b""
        taken = bytes(part[len(part) - count :])
        del part[len(part) - count :]
        self.total -= count
        return taken

    def last_line(self) -> str:
        """The last line with something on it, for a sign of life."""
        recent = (bytes((self._tail or self._head)[-400:]) + self._hider.sure())[-400:]
        lines = [line for line in readable(recent).splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else ""

    def close(self) -> None:
        """The command has ended. Idempotent."""
        self._take(self._hider.close())
        spool, self._spool = self._spool, None
        if spool is None:
            return
        try:
            if self.kept < self.total:
                note = b"\n[incomplete: %d more bytes were not kept]\n" % (self.total - self.kept)
                spool.write(note)
                self._digest.update(note)
        except OSError:
            pass  # a full disk at the very limit: what is kept is told by ``kept``
        self._finish(spool)

    def settle(self, stem: str) -> None:
        """Make the file durable and name it by its content, so that the same is kept once. After ``close``.

        When that fails it stays under the name it has; it is ``trouble`` when the device did not take it.
        """
        if self.file is None:
            return
        named = self.file.with_name(f"{stem}-{self._digest.hexdigest()[:32]}.txt")
        try:
            _sync(self.file)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return
        with contextlib.suppress(OSError):
            if _size(named) == _size(self.file):
                self.file.unlink()
            else:
                self.file.replace(named)
            self.file = named
            if os.name != "nt":
                _sync(named.parent)

    def _finish(self, spool: FileIO) -> None:
        try:
            spool.close()
        except OSError as error:  # some network file systems tell a full disk only now
            self.trouble = error.strerror or str(error)
            self.kept = min(self.kept, _size(self.file))
        if self.kept <= HEAD and self.file is not None:
            with contextlib.suppress(OSError):
                self.file.unlink()
            self.file, self.kept = None, 0

    def _remember(self, data: bytes) -> None:
        if len(data) >= TAIL:
            self._tail[:] = data[-TAIL:]
            return
        self._tail += data
        if self.clipped and len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]

    def _open(self) -> None:
        if self._folder is None:
            self.trouble = "there is no folder for it"
            return
        path = self._folder / f"{self._name}.txt"
        try:
            make_private(self._folder)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return
        self._spool = FileIO(descriptor, "wb")  # unbuffered: what is counted as kept is in the file
        self.file = path

    def _write(self, data: bytes | bytearray) -> None:
        if self._spool is None:
            return
        part = memoryview(data)[: SPOOL_LIMIT - self.kept]
        try:
            while part:
                written = self._spool.write(part) or 0
                self._digest.update(part[:written])
                self.kept += written
                part = part[written:]
        except OSError as error:
            spool, self._spool = self._spool, None
            self.trouble = error.strerror or str(error)
            self._finish(spool)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(file: Path | None) -> int:
    try:
        return file.stat().st_size if file else 0
    except OSError:
        return 0


_CONTINUATION = bytes(range(0x80, 0xC0))


def whole_end(data: bytes) -> bytes:
    """Without the beginning of a character that was cut."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < size else data
        if byte < 0x80:
            break
    return data

