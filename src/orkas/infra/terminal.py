"""What a terminal may and may not be given: control codes made inert, colours only where wanted, output that
never raises for its encoding.

Foreign text (of a model, a tool, a file) is data. Written as it is, it could clear the screen, forge lines or set the
clipboard; here a control code is shown as what it is, ``\\x1b``.
"""

from __future__ import annotations

import os
import sys
from typing import IO, Any

__all__ = ["colour", "discard_stdout", "inert", "is_tty", "label", "prepare", "size_text", "style"]

_ALWAYS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}
_BIDI = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_ON_SCREEN = {**_ALWAYS, **_BIDI, ord("\r"): "\\r"}
_ON_ONE_LINE = {
    **_ON_SCREEN, ord("\n"): "\\n", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029",
    **{code: f"\\u{code:04x}" for code in (0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF)},
}  # fmt: skip
_STYLES = {"dim": "2", "bold": "1", "red": "31", "yellow": "33", "green": "32"}


def inert(text: str, *, screen: bool = True) -> str:
    """``text`` without power over a terminal: every control code but newline and tab as a visible escape.

    For the screen, marks that reorder a line are escaped too, and a carriage return that could overwrite one. Off
    the screen (a pipe, a file) both pass, for there they are text; escape sequences still do not, because a pipe may
    end at a terminal after all.
    """
    if not screen:
        return text.translate(_ALWAYS)
    return text.replace("\r\n", "\n").translate(_ON_SCREEN)


def label(text: str, limit: int = 160) -> str:
    """``text`` on one line, inert, invisible characters shown, at most ``limit`` characters; what is cut is counted."""
    more = len(text) - limit
    shown = (text[:limit] if more > 0 else text).translate(_ON_ONE_LINE)
    return f"{shown} … +{more} characters" if more > 0 else shown


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


def discard_stdout() -> None:
    """The reader of our output has left: what is still buffered, and all that follows, goes nowhere in silence."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
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
