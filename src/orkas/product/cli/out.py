"""What commands print: data to stdout, everything about it to stderr; JSON whole, text inert."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from orkas.infra.terminal import discard_stdout, inert, is_tty, label, style

__all__ = ["alone", "data", "discard", "error", "line", "lines", "note", "raw", "table", "traceback", "warning"]

_HIGH = re.compile(b"\x7f|\xc2[\x80-\x9f]")
"""Control codes that JSON leaves as they are, in UTF-8."""


_own: TextIO | None = None
"""Where data goes while ``sys.stdout`` is lent to others."""


@contextmanager
def alone() -> Iterator[None]:
    """Within, stdout is for our data: what tools of the user print goes to stderr."""
    global _own
    before, _own = _own, sys.stdout
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout, _own = _own, before


def discard() -> None:
    """Nobody takes our data any more: the rest goes nowhere in silence."""
    discard_stdout(_own)


def raw(record: bytes) -> None:
    """One line of JSON, as UTF-8 whatever the locale, out at once; DEL and C1 codes become JSON escapes too."""
    if _HIGH.search(record):
        record = _HIGH.sub(lambda found: b"\\u00%02x" % found[0][-1], record)
    out = _own or sys.stdout
    stream = getattr(out, "buffer", None)
    if stream is None:
        out.write(record.decode() + "\n")
    else:
        stream.write(record + b"\n")
    out.flush()


def data(value: Any) -> None:
    """A value as indented JSON."""
    import json

    from orkas.infra.messages import encode

    raw(json.dumps(json.loads(encode(value)), ensure_ascii=False, indent=2).encode())


def line(text: str = "") -> None:
    sys.stdout.write(inert(text, screen=is_tty(sys.stdout)) + "\n")


def lines(texts: Iterable[str]) -> None:
    for text in texts:
        line(text)


def table(rows: Iterable[Sequence[str]]) -> None:
    """Columns, two spaces apart, the last one free; each cell on one line."""
    cells = [[label(cell, 200) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(_width(row[n]) for row in cells) for n in range(len(cells[0]))]
    for row in cells:
        padded = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _width(text: str) -> int:
    """Columns of a terminal the text takes: two for a wide character, none for a mark that combines."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def note(text: str) -> None:
    """Something about the run, for a person: one line on stderr, after the data so far."""
    sys.stdout.flush()
    _say(style(label(text, 400), "dim", sys.stderr))


def warning(text: str) -> None:
    from orkas.infra.redact import redact

    _say(style("orkas: warning: ", "yellow", sys.stderr) + label(redact(text), 2000))


def error(message: str, hint: str = "") -> None:
    """What went wrong and what to do next, as one line on stderr. Secrets in it are masked."""
    from orkas.infra.redact import redact

    said = "; ".join(part for part in (message.strip().rstrip("."), hint.strip()) if part)
    _say(style("orkas: ", "red", sys.stderr) + label(redact(said), 2000))


def _say(line: str) -> None:
    """One line on stderr. Nobody listening there is no reason to end a run."""
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def traceback(problem: BaseException) -> None:
    """For ``--debug``."""
    import traceback as module

    from orkas.infra.redact import redact

    sys.stderr.write(inert(redact("".join(module.format_exception(problem)))))
