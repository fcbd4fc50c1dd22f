"""The tests and actions of ``find`` that only read, among them a program that only reads, started for what is found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orkas.infra.patterns import lazy

if TYPE_CHECKING:
    from orkas.harness.commands.survey import Kind, Piece, Survey

__all__ = ["reads"]

_PLAIN = frozenset({
    "-a", "-and", "-o", "-or", "-not", "!", "(", ")", ",", "-print", "-print0", "-ls", "-prune", "-quit", "-true",
    "-false", "-empty", "-xdev", "-mount", "-depth", "-follow", "-daystart", "-noleaf", "-nouser", "-nogroup",
    "-readable", "-writable", "-executable", "-L", "-P", "-H", "-nowarn", "-warn",
})  # fmt: skip
_VALUED = lazy(
    r"-(i?name|i?path|i?wholename|i?regex|regextype|x?type|maxdepth|mindepth|size|perm|user|group|uid|gid|links|inum"
    r"|newer([aBcm][aBcmt])?|anewer|cnewer|samefile|[amc]time|[amc]min|printf|i?lname|fstype|used)"
)
_NO_PROGRAM = frozenset({":", "break", "cd", "command", "continue", "exit", "jobs", "read", "type", "ulimit", "xargs"})


def _odd(what: str) -> Exception:
    from orkas.harness.commands.survey import Unknown

    return Unknown(f"find with {what[:40]} is not known to be harmless")


def reads(survey: Survey, rest: list[Piece]) -> tuple[Kind, str]:
    """Tests, and what is printed or started for the files that meet them.

    Raises:
        Unknown: an argument that may do something else.
    """
    roots: list[Piece] = []
    started: list[list[Piece]] = []
    i = 0
    while i < len(rest):
        piece = rest[i]
        i += 1
        if piece.wild:
            raise _odd("an argument that may be a flag")
        if piece.fixed and piece.text == "-exec":
            started.append(_started(rest[i:]))
            i += len(started[-1]) + 1
        elif _VALUED.fullmatch(piece.text):
            if i >= len(rest) or not rest[i].fixed:
                raise _odd(piece.text)
            i += 1
        elif piece.text.startswith("-") or piece.text in ("!", "(", ")", ","):
            if not piece.fixed or (piece.text not in _PLAIN and not re.fullmatch(r"-O[0-3]", piece.text)):
                raise _odd(piece.text)
        else:
            survey.read(piece)
            roots.append(piece)
    for command in started:
        _judge(survey, command, roots, only_files=_only_files([p.text for p in rest]))
    return "reads", ""


def _started(rest: list[Piece]) -> list[Piece]:
    """The words of a command up to its end, all of which must be known: any other could be this end."""
    for i, piece in enumerate(rest):
        if not piece.fixed:
            break
        if i and (piece.text == ";" or (piece.text == "+" and rest[i - 1].text == "{}")):
            return rest[:i]
    raise _odd("-exec")


def _only_files(texts: list[str]) -> bool:
    """What is found is no link: nothing in the tests is denied or one of several."""
    one_way = not {"!", "-not", "-o", "-or", ",", "-L", "-follow"} & set(texts)
    return one_way and any(texts[i : i + 2] == ["-type", "f"] for i in range(len(texts)))


def _judge(survey: Survey, command: list[Piece], roots: list[Piece], *, only_files: bool) -> None:
    from orkas.harness.commands.survey import Piece

    if "{}" in command[0].text or command[0].text in _NO_PROGRAM:
        raise _odd(f"-exec {command[0].text}")
    wild = any(not root.fixed for root in roots)
    found = [Piece(root.text, False, wild, root.hidden or not only_files) for root in roots or [Piece(".")]]
    words = [command[0]]
    for piece in command[1:]:
        words += found if "{}" in piece.text else [piece]
    kind, reason = survey.program(words)
    if kind != "reads":
        raise _odd(f"-exec {command[0].text}" + (f" ({reason})" if reason else ""))
