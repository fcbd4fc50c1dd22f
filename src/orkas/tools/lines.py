"""Finding several lines in a text, in time that grows with the text and with nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from orkas.infra.abort import Abort

__all__ = ["BLANKS", "occurrences", "places"]

BLANKS = " \t"
_CHECKED = 1_000
"""Lines after which Stop is heard."""


def places(text: str, wanted: Sequence[str], abort: Abort, *, loose: bool) -> Iterator[tuple[int, int]]:
    """Beginning and end of each place at which the lines stand, in order; places may overlap.

    There are two lines at least: the first ends a line of the text, the last begins one, those between are lines of
    their own. Either line end is one. ``loose``: blanks at the ends of lines do not matter, and the last line is a
    whole one.
    """
    first, *middle, last = [line.rstrip(BLANKS) for line in wanted] if loose else wanted
    if loose and not last:
        last = wanted[-1]  # nothing but blanks: they are meant
    whole = loose and bool(last.strip(BLANKS))
    steps = _steps(middle)
    before: deque[tuple[int, int]] = deque(maxlen=len(middle) + 1)  # the lines in front, without their ends
    matched = 0
    for number, (start, end) in enumerate(_lines(text)):
        if number % _CHECKED == 0:
            abort.check()
        line = text[start:end]
        if loose:
            line = line.rstrip(BLANKS)
        if matched == len(middle) and len(before) > len(middle):
            fits = line == last if whole else text.startswith(last, start, end)
            if fits and (at := _ending(text, *before[0], first, loose=loose)) is not None:
                yield at, end if whole else start + len(last)
        matched = _step(middle, steps, matched, line)
        before.append((start, end))


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Where each line begins and ends, its line end left out; the last one may be empty."""
    start = 0
    while (at := text.find("\n", start)) >= 0:
        yield start, at - 1 if at > start and text[at - 1] == "\r" else at
        start = at + 1
    yield start, len(text)


def _ending(text: str, start: int, end: int, first: str, *, loose: bool) -> int | None:
    """Where ``first`` begins, which ends this line; None: it does not."""
    if not first:
        return end
    stop = start + len(text[start:end].rstrip(BLANKS)) if loose else end
    return stop - len(first) if text.endswith(first, start, stop) else None


def _steps(wanted: Sequence[str]) -> list[int]:
    """For each line: how many of the first ones also end here (Knuth, Morris, Pratt)."""
    steps = [0] * len(wanted)
    matched = 0
    for i in range(1, len(wanted)):
        while matched and wanted[i] != wanted[matched]:
            matched = steps[matched - 1]
        matched += wanted[i] == wanted[matched]
        steps[i] = matched
    return steps


def _step(wanted: Sequence[str], steps: Sequence[int], matched: int, line: str) -> int:
    if not wanted:
        return 0
    while matched and (matched == len(wanted) or line != wanted[matched]):
        matched = steps[matched - 1]
    return matched + (line == wanted[matched])


def occurrences(lines: Sequence[str], wanted: Sequence[str], abort: Abort) -> Iterator[int]:
    """Where the lines begin among others, in order; they may overlap."""
    rare = max(range(len(wanted)), key=lambda i: len(wanted[i]))
    at, last = rare - 1, len(lines) - (len(wanted) - rare)
    work = 0
    while at < last:
        abort.check()
        try:
            at = lines.index(wanted[rare], at + 1, last + 1)
        except ValueError:
            return
        start = at - rare
        work += len(wanted)
        if work > 4 * len(lines):  # the line is everywhere: comparing at each place would take the product
            yield from _counted(lines, wanted, start, abort)
            return
        if lines[start : start + len(wanted)] == wanted:
            yield start


def _counted(lines: Sequence[str], wanted: Sequence[str], first: int, abort: Abort) -> Iterator[int]:
    steps, matched = _steps(wanted), 0
    for i in range(first, len(lines)):
        if i % _CHECKED == 0:
            abort.check()
        matched = _step(wanted, steps, matched, lines[i])
        if matched == len(wanted):
            yield i + 1 - matched
