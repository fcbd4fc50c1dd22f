"""The sentences of the chat: calls, results, ends and failures in a line each. Pure functions; all output is inert."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from orkas.infra.amounts import usd
from orkas.infra.events import Done, ErrorInfo
from orkas.infra.messages import Usage
from orkas.infra.terminal import inert

__all__ = [
    "FOLDED", "Marks", "Tone", "call_summary", "cells", "clip", "continues", "done_line", "duration", "failure", "fill",
    "fold", "one_line", "plain_names", "wrap",
]  # fmt: skip

Tone: TypeAlias = Literal["plain", "bold", "dim", "good", "warning", "error"]

FOLDED = 3
"""Lines of a tool's result that are shown before it is folded."""

_TELLING = ("command", "path", "file", "pattern", "query", "url", "name")
_WAY_OUT = {
    "auth": "`orkas auth login VENDOR` stores a key of this vendor, or take another model with /model.",
    "quota": "The account has no credit or quota left; take another model with /model, or wait until it is renewed.",
    "rate_limit": "The vendor asks to slow down; wait a little and say it again, or take another model with /model.",
    "overloaded": "The vendor is overloaded; say it again in a minute, or take another model with /model.",
    "timeout": "No answer in time; say it again, or check the network.",
    "connection": "The connection failed; check the network or the address of the server, then say it again.",
    "server": "The fault is on the vendor's side; say it again, or take another model with /model.",
    "invalid_request": "The vendor did not accept the request; /clear starts afresh, /model takes another model.",
    "not_found": "There is no such model or address; `orkas models` lists what there is, /model takes another.",
    "content_filter": "It is not asked again; /model takes another model.",
    "context_overflow": "The conversation is too long for this model; /clear starts a fresh one.",
    "storage": "It could not be saved; make room on the disk or free the file, then say it again.",
    "internal": "This is a fault of Orkas; `orkas --debug` shows where it happened.",
}


@dataclass(frozen=True, slots=True)
class Marks:
    """The few signs of the chat, in what the terminal's encoding can carry."""

    run: str = "▸"
    ok: str = "✓"
    bad: str = "✗"
    more: str = "…"
    dot: str = "·"
    spin: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

    @classmethod
    def of(cls, encoding: str | None) -> Marks:
        """The signs that ``encoding`` has, else plain ASCII ones."""
        full = cls()
        try:
            "".join((full.run, full.ok, full.bad, full.more, full.dot, full.spin)).encode(encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return cls(">", "+", "x", "...", "-", "|/-\\")
        return full


def cells(text: str) -> int:
    """Columns that one line of text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(_width(c) for c in text)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int, more: str = "…") -> str:
    """At most ``width`` columns of one line; what was cut is marked."""
    if len(text) <= width and cells(text) <= width:
        return text
    room, kept = max(0, width - len(more)), []
    for char in text:
        room -= _width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + more


def continues(line: str) -> bool:
    """The line ends with a backslash that is not itself escaped: the input goes on."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def fill(text: str, width: int) -> list[str]:
    """One line broken wherever it is full: at least one line, none wider than ``width`` columns."""
    lines, column = [""], 0
    for char in text:
        size = _width(char)
        if column + size > width and lines[-1]:
            lines.append("")
            column = 0
        lines[-1] += char
        column += size
    return lines


def wrap(text: str, width: int) -> list[str]:
    """One line of ours broken at spaces; a word longer than the width is left to the terminal."""
    if cells(text) <= width:
        return [text]
    start, *words = text.strip(" ").split(" ")
    indent = text[: len(text) - len(text.lstrip(" "))]
    lines = [indent + start]
    for word in words:
        longer = f"{lines[-1]} {word}"
        if cells(longer) > width:
            lines.append(indent + word)
        else:
            lines[-1] = longer
    return lines


def one_line(text: str, limit: int = 2000) -> str:
    """The beginning of ``text`` on one line, inert."""
    return inert(" ".join(text[:limit].split()))


def call_summary(arguments: dict[str, Any] | None) -> str:
    """What a call is about: the one argument that tells most, else all of them."""
    if arguments is None:
        return "(arguments that cannot be read)"
    for key in _TELLING:
        if isinstance(value := arguments.get(key), str) and value:
            return one_line(value)
    if len(arguments) == 1 and isinstance(value := next(iter(arguments.values())), str | int | float):
        return one_line(str(value))
    return one_line(json.dumps(arguments, ensure_ascii=False, default=str)) if arguments else ""


def fold(text: str, lines: int = FOLDED) -> tuple[list[str], int]:
    """The first ``lines`` lines of a result that are not empty at the top, inert, and how many more there are."""
    whole = text.strip("\n").rstrip().split("\n")
    shown = whole if len(whole) <= lines + 1 else whole[:lines]
    return [inert(line[:2000].rstrip("\r")).expandtabs(4) for line in shown], len(whole) - len(shown)


def duration(seconds: float) -> str:
    """A time for people: ``0.4 s``, ``12 s``, ``3 min 05 s``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def done_line(done: Done, elapsed: float, dot: str = "·") -> str:
    """Model, tokens, time; the cost only when it is known."""
    parts = [inert(done.model), *_tokens(done.usage), duration(elapsed)]
    if done.usage.cost_usd is not None:
        parts.append(usd(done.usage.cost_usd))
    if done.stop_reason not in ("stop", "aborted", "error", "tool_use", ""):
        parts.append(f"ended by {inert(done.stop_reason).replace('_', ' ')}")
    return f" {dot} ".join(parts)


def _tokens(usage: Usage) -> list[str]:
    parts = []
    prompt = [n for n in (usage.input, usage.cache_read, usage.cache_write) if n is not None]
    if prompt:
        cached = f" ({usage.cache_read:,} from cache)" if usage.cache_read else ""
        parts.append(f"{sum(prompt):,} in{cached}")
    if usage.output is not None:
        parts.append(f"{usage.output:,} out")
    return parts


def failure(error: ErrorInfo) -> str:
    """What happened, its class, and what to do about it."""
    status = f", HTTP {error.status}" if error.status else ""
    message = inert(error.message.strip()).rstrip(".")
    return f"{message} ({error.class_.replace('_', ' ')}{status}). {_WAY_OUT[error.class_]}"


def plain_names(text: str, folder: Path) -> str:
    """The text with ``@name`` as ``name`` where that is a file: the sign is for the completion, not for the model."""
    return _MENTION.sub(lambda m: m[0] if not _exists(folder / m[2]) else m[1] + m[2], text)


_MENTION = re.compile(r"(^|\s)@(\S+)")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
