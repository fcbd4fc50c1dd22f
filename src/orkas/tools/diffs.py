"""The difference of two texts in the unified form, for people and for models."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from orkas.infra.patterns import lazy

__all__ = ["comparable", "unified"]

_LINES = lazy(r"[^\n]*\n|[^\n]+")
_CONTEXT = 3
_COMPARED = 4_000
"""Lines that are compared one by one; a longer stretch is shown as gone and come, whole."""
_PAIRS = 1_000_000
"""Equal lines on both sides, each with each: comparing takes so many steps, and more the more often they repeat."""
_NO_END = "\\ No newline at end of file"


def unified(old: str | None, new: str | None, before: str, after: str) -> str:
    """``--- before`` to the last hunk; empty when nothing differs. None: no file on that side."""
    if old == new:
        return ""
    a, b = _LINES.findall(old or ""), _LINES.findall(new or "")
    head = [f"--- {before if old is not None else '/dev/null'}", f"+++ {after if new is not None else '/dev/null'}"]
    return "\n".join([*head, *_hunks(a, b)]) + "\n"


def _hunks(a: list[str], b: list[str]) -> list[str]:
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    first = max(start - _CONTEXT, 0)
    last_a, last_b = min(len(a) - end + _CONTEXT, len(a)), min(len(b) - end + _CONTEXT, len(b))
    part_a, part_b = a[first:last_a], b[first:last_b]
    if not comparable(part_a, part_b):
        groups = [_whole(start - first, len(part_a), len(part_b), min(end, _CONTEXT))]
    else:
        matcher = difflib.SequenceMatcher(None, part_a, part_b, autojunk=False)
        groups = list(matcher.get_grouped_opcodes(_CONTEXT))
    lines: list[str] = []
    for group in groups:
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        lines.append(f"@@ -{_range(first + a1, a2 - a1)} +{_range(first + b1, b2 - b1)} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += _marked(" ", part_a[i1:i2])
                continue
            lines += _marked("-", part_a[i1:i2]) + _marked("+", part_b[j1:j2])
    return lines


def comparable(a: Sequence[str], b: Sequence[str]) -> bool:
    """``difflib`` compares them in a moment; else they are shown as gone and come."""
    if max(len(a), len(b)) > _COMPARED:
        return False
    there = Counter(b)
    return sum(count * there[line] for line, count in Counter(a).items()) <= _PAIRS


def _whole(head: int, a: int, b: int, tail: int) -> list[tuple[str, int, int, int, int]]:
    changed = ("replace", head, a - tail, head, b - tail)
    return [("equal", 0, head, 0, head), changed, ("equal", a - tail, a, b - tail, b)]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _marked(sign: str, lines: Sequence[str]) -> list[str]:
    marked = []
    for line in lines:
        if line.endswith("\n"):
            marked.append(sign + line.removesuffix("\n").removesuffix("\r"))
        else:
            marked += [sign + line, _NO_END]
    return marked
