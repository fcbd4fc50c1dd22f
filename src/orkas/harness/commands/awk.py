"""Whether an awk program starts others, told from its text."""

from __future__ import annotations

import re

__all__ = ["pipes_or_runs"]

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.]*|\|\||#[^\n]*|\s+|.', re.DOTALL)
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/")
_BEFORE_REGEX = frozenset({"print", "printf", "return", "in", "case", "getline", "else", "do", "exit", "BEGIN", "END"})


def pipes_or_runs(program: str) -> bool:
    """It calls ``system``, opens a pipe, calls a function by a name it makes up, or loads an extension."""
    at = 0
    before = ""
    while at < len(program):
        regex = _REGEX.match(program, at) if _may_be_regex(before) else None
        found = regex or _TOKEN.match(program, at)
        if found is None:
            return True
        piece = found.group()
        at = found.end()
        if piece.isspace() or piece.startswith("#"):
            continue
        if piece in ("|", "@", "`", "system"):
            return True
        before = "a pattern)" if regex else piece
    return False


def _may_be_regex(before: str) -> bool:
    """A slash behind a value divides."""
    return not before or before in _BEFORE_REGEX or not (before[-1].isalnum() or before[-1] in '_)]"$')
