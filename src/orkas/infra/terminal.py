"""What a terminal may and may not be given: control codes made inert, colours only where wanted, output that
never raises for its encoding.

Foreign text (of a model, a tool, a file) is data. Written as it is, it could clear the screen, forge lines or set the
clipboard; here a control code is written out: ``^[`` for escape, ``\\x9b``, ``\\u202e``.
"""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Any, TextIO

from orkas.infra.patterns import lazy

__all__ = ["colour", "discard_stdout", "inert", "is_tty", "label", "prepare", "size_text", "style"]

_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 but tab, newline and carriage return; DEL; C1
_ORDER = "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, bidirectional overrides and isolates
_HIDDEN = "\u200b\u200e\u200f\u2060\ufeff"
_BROKEN = "\ud800-\udfff\U000e0000-\U000e007f"  # half characters, invisible tags
_ANYWHERE = lazy(f"[{_CONTROLS}]")
_ON_SCREEN = lazy(f"[{_CONTROLS}\r{_ORDER}{_BROKEN}]")
_ON_ONE_LINE = lazy(f"[{_CONTROLS}\t\n\r{_ORDER}{_HIDDEN}{_BROKEN}]")
_SHORT = {"\t": "\\t", "\n": "\\n"}
_STYLES = {"dim": "2", "bold": "1", "red": "31", "yellow": "33", "green": "32"}


def inert(text: str, *, screen: bool = True) -> str:
    """``text`` without power over a terminal: every control code but newline and tab written out. Idempotent.

    For the screen, marks that reorder a line are escaped too, and a carriage return that could overwrite one. Off
    the screen (a pipe, a file) both pass, for there they are text; escape sequences still do not, because a pipe may
    end at a terminal after all.
    """
    if text.replace("\n", "").isprintable():
        return text  # nearly all there is to show
    if not screen:
        return _ANYWHERE.sub(_written, text)
    return _ON_SCREEN.sub(_written, text.replace("\r\n", "\n"))


def label(text: str, limit: int = 160) -> str:
    """``text`` on one line, inert, invisible characters shown, at most ``limit`` characters; what is cut is counted."""
    more = len(text) - limit
    shown = _ON_ONE_LINE.sub(_written, text[:limit] if more > 0 else text)
    return f"{shown} … +{more} characters" if more > 0 else shown


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20 or code == 0x7F:
        return _SHORT.get(found[0]) or "^" + chr(code ^ 0x40)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_tty(stream: IO[Any] | None) -> bool:
    """Whether a person sits behind the stream. A closed or missing one: no."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def colour(stream: IO[Any] | None) -> bool:
    """Whether colours are wanted there: a terminal that can, and no ``NO_COLOR`` (https://no-color.org)."""
    return is_tty(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("dumb", "")


def style(text: str, name: str, stream: IO[Any] | None) -> str:
    """``text`` in a style (dim, bold, red, yellow, green) if the stream wants colours, else as it is."""
    return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if colour(stream) else text


def prepare() -> None:
    """Make the standard streams safe: one that is closed swallows, and what an encoding cannot hold is escaped."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def discard_stdout(stream: TextIO | None = None) -> None:
    """The reader of our output has left: what is still buffered, and all that follows, goes nowhere in silence."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (stream or sys.stdout).fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # not a real file: nothing is buffered in the system either


def size_text(size: float) -> str:
    """A size in bytes for people: ``512 B``, ``1.4 MB``."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    unit = units[0]
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
