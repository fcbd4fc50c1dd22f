"""``sed`` and ``awk`` programs that can do nothing but read and print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orkas.harness.commands.awk import only_prints
from orkas.infra.patterns import lazy

if TYPE_CHECKING:
    from orkas.harness.commands.survey import Piece

__all__ = ["plain_awk", "plain_sed"]

_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
_RANGE = rf"(?:{_ADDRESS}(?:,[+~]?(?:{_ADDRESS}))?(?:\s*!)?)?"
_SUBSTITUTE = r"s([/|#,:])(?:(?!\{n})[^\\\n]|\\.)*\{n}(?:(?!\{n})[^\\\n]|\\.)*\{n}[gpiI0-9]*"
_STATEMENT = lazy(
    rf"\s*{_RANGE}\s*(?:[pdq=]|" + _SUBSTITUTE.replace("{n}", "1") + r")\s*"
)
_SED_FLAGS = lazy(r"-[nErsuz]+|--(quiet|silent|regexp-extended|null-data|separate|posix)")


def _odd(name: str, what: str) -> Exception:
    from orkas.harness.commands.survey import Unknown

    return Unknown(f"{name} with {what[:40]} is not known to be harmless")


def plain_sed(rest: list[Piece]) -> tuple[bool, list[Piece]]:
    """Whether it changes its files in place, and these.

    Raises:
        Unknown: a flag or a statement other than printing, deleting lines and substituting.
    """
    programs: list[Piece] = []
    found: list[Piece] = []
    changes, i = False, 0
    while i < len(rest):
        piece = rest[i]
        i += 1
        text = piece.text
        if piece.wild or (text.startswith("-") and not piece.fixed):
            raise _odd("sed", "an argument that may be a flag")
        if text in ("-e", "--expression"):
            if i >= len(rest):
                raise _odd("sed", text)
            programs.append(rest[i])
            i += 1
        elif re.fullmatch(r"-[nEr]*i|--in-place|-i\.\w+", text):
            changes = True
        elif text.startswith("-") and text != "-":
            if not _SED_FLAGS.fullmatch(text):
                raise _odd("sed", text)
        else:
            found.append(piece)
    if not programs:
        programs, found = found[:1], found[1:]
    if not programs or not all(p.fixed and _statements(p.text) for p in programs):
        raise _odd("sed", "this program")
    return changes, found


def _statements(program: str) -> bool:
    at = 0
    while at < len(program):
        found = _STATEMENT.match(program, at)
        if not found:
            return False
        at = found.end()
        if at < len(program) and program[at] not in ";\n":
            return False
        at += 1
    return bool(program)


def plain_awk(rest: list[Piece]) -> list[Piece]:
    """The files that it reads.

    Raises:
        Unknown: a flag other than ``-F`` and ``-v``, or a program that may redirect, pipe or start something.
    """
    i = 0
    while i < len(rest) and rest[i].text.startswith("-") and rest[i].text != "-":
        piece = rest[i]
        i += 1
        if not piece.fixed:
            raise _odd("awk", "an argument that may be a flag")
        if piece.text in ("-F", "-v"):
            i += 1
        elif piece.text == "--":
            break
        elif not re.match(r"-[Fv].", piece.text):
            raise _odd("awk", piece.text)
    if not all(p.fixed for p in rest[:i]) or i >= len(rest) or not rest[i].fixed or not only_prints(rest[i].text):
        raise _odd("awk", "this program")
    if any(p.wild for p in rest[i + 1 :]):
        raise _odd("awk", "an argument that may be a flag")
    if any(p.text.startswith("/inet") for p in rest[i + 1 :]):
        raise _odd("awk", "a connection to the network")
    return rest[i + 1 :]
