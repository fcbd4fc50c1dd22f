"""Brace expansion, as in bash: ``{a,b}`` and ``{1..3}``."""

from __future__ import annotations

import re
from typing import TypeAlias

from orkas.harness.commands.syntax import Lit, NotUnderstood, Sub, Var, Word

__all__ = ["expand_braces", "spread"]

MAX_SPREAD = 1_000
"""Words that one may become."""

_Atom: TypeAlias = str | Lit | Var | Sub
"""A plain character, or something that brace expansion does not look into."""


def expand_braces(pattern: str) -> list[str]:
    """``*.{md,txt}`` → ``*.md``, ``*.txt``; at most ``MAX_SPREAD`` of them, else the pattern as it is."""
    try:
        return ["".join(str(a) for a in atoms) for atoms in _spread(list(pattern))]
    except NotUnderstood:
        return [pattern]


def spread(word: Word) -> list[Word]:
    """The words that brace expansion makes of one."""
    if not any(isinstance(p, Lit) and not p.quoted and "{" in p.text for p in word):
        return [word]
    atoms: list[_Atom] = []
    for part in word:
        atoms += part.text if isinstance(part, Lit) and not part.quoted else [part]
    return [[Lit(a) if isinstance(a, str) else a for a in one] for one in _spread(atoms)]


def _spread(atoms: list[_Atom]) -> list[list[_Atom]]:
    for start, atom in enumerate(atoms):
        if atom == "{" and (start == 0 or atoms[start - 1] != "$") and (found := _choices(atoms, start)):
            choices, end = found
            tails = _spread(atoms[end:])
            heads = [atoms[:start] + middle for choice in choices for middle in _spread(choice)]
            if len(heads) * len(tails) > MAX_SPREAD:
                raise NotUnderstood("braces that make too many words")
            return [head + tail for head in heads for tail in tails]
    return [atoms]


def _choices(atoms: list[_Atom], start: int) -> tuple[list[list[_Atom]], int] | None:
    """The alternatives of the brace that opens at ``start``, and where it ends; None when it is no expansion."""
    choices: list[list[_Atom]] = [[]]
    level = 0
    for at in range(start + 1, len(atoms)):
        atom = atoms[at]
        if atom == "}" and level == 0:
            if len(choices) == 1:
                sequence = _sequence("".join(a for a in choices[0] if isinstance(a, str)))
                return (sequence, at + 1) if sequence else None
            return choices, at + 1
        level += {"{": 1, "}": -1}.get(atom, 0) if isinstance(atom, str) else 0
        if atom == "," and level == 0:
            choices.append([])
        else:
            choices[-1].append(atom)
    return None


def _sequence(text: str) -> list[list[_Atom]] | None:
    """``1..3`` or ``a..c``."""
    found = re.fullmatch(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.-?\d+)?", text)
    if not found:
        return None
    first, last = found.group(1), found.group(2)
    if first.isalpha() != last.isalpha():
        return None
    low, high = sorted([ord(first), ord(last)] if first.isalpha() else [int(first), int(last)])
    if high - low > MAX_SPREAD:
        raise NotUnderstood("braces that make too many words")
    return [list(chr(n) if first.isalpha() else str(n)) for n in range(low, high + 1)]
