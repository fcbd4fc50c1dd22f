"""What a person is shown before they say yes: exactly what would be done, and nothing that can hide in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from orkas.harness.commands import known
from orkas.infra.amounts import counted

__all__ = ["MAX_LINES", "Question", "lines_of", "visible"]

MAX_LINES = 60
"""Lines of a question; what is left out is counted."""
MAX_WIDTH = 1_000
"""Characters of one line; what is left out is counted."""
_ODD = re.compile(r"[^\x20-\x7e]")
_GAP = re.compile(r" {12,}")


class Question(msgspec.Struct, frozen=True):
    """One question for a person. ``id`` is what an answer must name, ``shown`` what it is bound to."""

    id: str
    call_id: str
    tool: str
    lines: list[str]
    """What would be done, with every character visible."""
    reasons: list[str]
    """Why it is asked."""
    rule: str
    """What ``session`` and ``always`` would allow from then on."""
    scopes: list[str]
    """The answers besides ``no``."""
    shown: str = ""
    """As ``bound`` names the call: exactly this one, in this folder and sandbox."""


def visible(text: str) -> str:
    """The text on one line as it is, with everything that a screen would hide or obey written out: control,
    bidirectional, zero-width and blank characters as escapes, a long gap as its length."""
    text = _ODD.sub(_written, text)
    return _GAP.sub(lambda gap: f"⟨{len(gap[0])} spaces⟩", text)


def _written(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable() and not known.BLANK.match(char) and char not in "⟨⟩":
        return char
    code = ord(char)
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\x1b": "\\e"}.get(char)
    return named or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def lines_of(tool: str, arguments: Mapping[str, Any], preview: str = "") -> list[str]:
    """The lines of a question about this call; ``preview``: what the tool itself says that it would change."""
    if tool == "shell":
        command = arguments.get("command")
        lines = _clipped(_split(command if isinstance(command, str) else repr(command)))
        return [*lines, *_others(arguments, "command", "timeout_s")]
    if preview:
        return _clipped(_split(preview))
    return _clipped([line for name, value in arguments.items() for line in _named(name, value)])


def _split(text: str) -> list[str]:
    return [visible(line) for line in text.split("\n")]


def _named(name: str, value: object) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"{visible(name)}:", *(f"  {line}" for line in _split(value))]
    plain = value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()
    return [f"{visible(name)}: {visible(plain)}"]


def _others(arguments: Mapping[str, Any], *left_out: str) -> list[str]:
    return [
        line for name, value in arguments.items() if name not in left_out and value for line in _named(name, value)
    ]


def _clipped(lines: list[str]) -> list[str]:
    """Head and tail of many lines, so that neither end can be pushed out of sight."""
    shown = [_narrow(line) for line in lines]
    more = len(shown) - MAX_LINES
    if more <= 0:
        return shown
    head = MAX_LINES * 2 // 3
    return [*shown[:head], f"+{counted(more, 'more line')}", *shown[len(shown) - (MAX_LINES - head) :]]


def _narrow(line: str) -> str:
    more = len(line) - MAX_WIDTH
    if more <= 0:
        return line
    half = MAX_WIDTH // 2
    return f"{line[:half]} ⟨+{counted(more, 'more character')}⟩ {line[-half:]}"
