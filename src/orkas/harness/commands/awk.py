"""Awk programs, told from their text: whether they start others, and whether they can do nothing but read and print."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkas.infra.patterns import lazy

__all__ = ["only_prints", "pipes_or_runs"]

_TOKEN = lazy(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.]*|\|\||#[^\n]*|\s+|.', re.DOTALL)
_REGEX = lazy(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/")
_BEFORE_REGEX = frozenset({"print", "printf", "return", "in", "case", "getline", "else", "do", "exit", "BEGIN", "END"})
_A_REGEX = "a pattern)"


def _tokens(program: str) -> Iterator[tuple[str, str, bool]]:
    """Each token but blanks and comments, the one before it, and whether it is a regular expression."""
    at = 0
    before = ""
    while at < len(program):
        regex = _REGEX.match(program, at) if _may_be_regex(before) else None
        found = regex or _TOKEN.match(program, at)
        piece = found.group() if found else program[at]
        at += len(piece)
        if piece.isspace() or piece.startswith("#"):
            before = "" if "\n" in piece else before  # a new statement
            continue
        yield piece, before, regex is not None
        before = _A_REGEX if regex else piece


def pipes_or_runs(program: str) -> bool:
    """It calls ``system``, opens a pipe, calls a function by a name it makes up, or loads an extension."""
    return any(not regex and piece in ("|", "@", "`", "system") for piece, _, regex in _tokens(program))


def _may_be_regex(before: str) -> bool:
    """A slash behind a value divides."""
    return not before or before in _BEFORE_REGEX or not (before[-1].isalnum() or before[-1] in '_)]"$')


_UNSURE = frozenset({
    "|", "@", "`", "\\", "system", "getline", "close", "fflush", "load", "include", "ARGV", "ARGC", "PROCINFO",
    "SYMTAB", "FUNCTAB", "function", "func",
})  # fmt: skip


def only_prints(program: str) -> bool:
    """Nothing in it starts a program, and no output goes to a file. Where two awks could read it in two ways, no."""
    printing = False
    for piece, before, regex in _tokens(program):
        if regex or piece == "/":
            if _two_readings(piece, before, regex=regex):
                return False
        elif piece in _UNSURE or piece == '"':
            return False
        elif piece in ("print", "printf"):
            printing = True
        elif piece in (";", "}"):
            printing = False
        elif printing and piece in (">", "<"):
            return False
    return bool(program.strip())


def _two_readings(piece: str, before: str, *, regex: bool) -> bool:
    """A slash that may divide and may begin a regular expression."""
    if regex:  # whether brackets keep a slash, not all agree; a value that is counted up may be divided
        return before in ("+", "-") or ("[" in piece and "/" in piece[1:-1])
    return _may_be_regex(before) or before == "length" or before[-1] in ')]}"$'
