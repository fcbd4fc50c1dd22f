"""Where the hunks of a patch belong in a text, and the text that comes of it.

A line is found as it is, else without the blanks at its end; a line end of either kind is a line end. Leading blanks
count. A hunk that fits in two places is refused: nothing is guessed.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from orkas.infra.abort import Abort
from orkas.infra.errors import ToolFailed
from orkas.infra.patterns import lazy
from orkas.tools.lines import BLANKS, occurrences
from orkas.tools.patch_text import Hunk

__all__ = ["applied"]

_LINES = lazy(r"[^\n]*\n|[^\n]+")
_NAMED = 10
_HINT_LINES = 5_000
_HINT_LINE = 300


def applied(text: str, hunks: Sequence[Hunk], name: str, abort: Abort) -> str:
    """The text after all hunks. Lines that stay keep their bytes; new ones end as those around them do.

    Raises:
        ToolFailed: a hunk fits nowhere or in several places; the sentence names the hunk and the lines.
    """
    file = _File(text, name, abort)
    places: list[tuple[int, int, Hunk]] = []
    shift = 0
    for hunk in hunks:
        at, lines = file.place(hunk, places, shift)
        if hunk.at is not None:
            shift = at - (hunk.at - 1)
        fitted = Hunk(hunk.number, hunk.line, lines, at_end=hunk.at_end, ends=hunk.ends)
        places.append((at, at + len(fitted.old), fitted))
    places.sort(key=lambda place: place[:2])
    return file.rebuilt(places)


class _File:
    def __init__(self, text: str, name: str, abort: Abort) -> None:
        self._name = name
        self._abort = abort
        raw = _LINES.findall(text)
        self._bodies = [line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line for line in raw]
        self._ends = [line[len(body) :] for line, body in zip(raw, self._bodies, strict=True)]
        windows = text.count("\r\n")
        self._end = "\r\n" if windows * 2 > text.count("\n") else "\n"
        self._bare: list[str] | None = None

    def place(
        self, hunk: Hunk, taken: Sequence[tuple[int, int, Hunk]], shift: int
    ) -> tuple[int, list[tuple[str, str]]]:
        """Index of the first line of the hunk, and its lines as they fit."""
        lines = hunk.lines
        if not hunk.old:
            at = self._insertion(hunk)
            if any(start < at < end for start, end, _ in taken):
                raise ToolFailed(
                    f"{self._which(hunk)} adds lines in the midst of another hunk of {self._name}; no file was changed."
                    " Put both into one hunk"
                )
            return at, lines
        for cut in range(hunk.loose + 1) if hunk.loose <= 3 else (0, hunk.loose):
            lines = hunk.lines[: len(hunk.lines) - cut] if cut else hunk.lines
            old = [text for sign, text in lines if sign != "+"]
            if not old:
                continue
            for relaxed in (False, True):
                found = self._fits(old, hunk, taken, relaxed=relaxed)
                if hunk.at is not None and (told := hunk.at - 1 + shift) in found:
                    return told, lines
                if len(found) == 1:
                    return found[0], lines
                if found:
                    raise self._ambiguous(hunk, found)
        raise ToolFailed(f"{self._which(hunk)} was not found in {self._name}; no file was changed.{self._hint(hunk)}")

    def _which(self, hunk: Hunk) -> str:
        return f"hunk {hunk.number} (line {hunk.line} of the patch)"

    def _ambiguous(self, hunk: Hunk, found: list[int]) -> ToolFailed:
        numbers = ", ".join(str(at + 1) for at in found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
        return ToolFailed(
            f"{self._which(hunk)} fits {self._name} at lines {numbers}; no file was changed. Add lines that stay"
            " around it, or name the function with '@@ def name', until only one place fits"
        )

    def _insertion(self, hunk: Hunk) -> int:
        """Where lines go that are only added: behind the anchor, the line a diff names, else the end of the file."""
        if hunk.anchors:
            found = self._anchored(hunk.anchors)
            if len(found) > 1:
                raise self._ambiguous(hunk, [at for at, _ in found])
            if not found:
                raise self._no_anchor(hunk)
            return found[0][0] + 1
        if hunk.at is not None and not hunk.at_end:
            if hunk.at > len(self._bodies):
                raise ToolFailed(
                    f"{self._which(hunk)} adds lines after line {hunk.at}, but {self._name} has"
                    f" {len(self._bodies)}; no file was changed. Add lines that stay around it"
                )
            return hunk.at
        return len(self._bodies)

    def _no_anchor(self, hunk: Hunk) -> ToolFailed:
        return ToolFailed(
            f"{self._which(hunk)}: {self._name} has no line {hunk.anchors[-1][:80]!r}, which '@@' names; no file was"
            " changed. Read the file again"
        )

    def _fits(
        self, old: list[str], hunk: Hunk, taken: Sequence[tuple[int, int, Hunk]], *, relaxed: bool
    ) -> list[int]:
        """All places, in order; more than a few are not looked for."""
        scopes = self._anchored(hunk.anchors) if hunk.anchors else None
        if scopes == []:
            raise self._no_anchor(hunk)
        found = []
        inner = []
        held = sorted((start, end) for start, end, _ in taken if start < end)
        blocks = _joined(scopes or [])
        for at in self._matches(old, relaxed=relaxed):
            if _inside(held, at, at + len(old)):
                continue
            if hunk.at_end and at + len(old) != len(self._bodies):
                continue
            if scopes is not None and at < scopes[0][0]:
                continue
            found.append(at)
            if _inside(blocks, at, at + 1):
                inner.append(at)
            if len(found) > _NAMED and scopes is None and hunk.at is None:
                break
        return inner if inner else found

    def _matches(self, old: list[str], *, relaxed: bool) -> Iterator[int]:
        if relaxed:
            old = [line.rstrip(BLANKS) for line in old]
            if self._bare is None:
                self._bare = [line.rstrip(BLANKS) for line in self._bodies]
        bodies = self._bare if relaxed and self._bare is not None else self._bodies
        return occurrences(bodies, old, self._abort)

    def _anchored(self, anchors: list[str]) -> list[tuple[int, int]]:
        """Where the last anchor stands behind the others, and where the block that it opens ends."""
        first = 0
        for anchor in anchors[:-1]:
            at = next((i for i in range(first, len(self._bodies)) if _same(self._bodies[i], anchor)), None)
            if at is None:
                return []
            first = at + 1
        last = anchors[-1]
        found = [i for i in range(first, len(self._bodies)) if _same(self._bodies[i], last)]
        exact = [i for i in found if self._bodies[i].strip() == last.strip()]
        return self._blocks(exact or found)

    def _blocks(self, heads: list[int]) -> list[tuple[int, int]]:
        """Each with the first line behind it that is indented no deeper than it."""
        ends: dict[int, int] = {}
        wanted = set(heads)
        open_: list[tuple[int, int]] = []  # heads whose block has not ended, the deepest last
        for i in range(heads[0] if heads else len(self._bodies), len(self._bodies)):
            if i % 1_000 == 0:
                self._abort.check()
            if not self._bodies[i].strip() and i not in wanted:
                continue
            depth = _depth(self._bodies[i])
            while open_ and depth <= open_[-1][1]:
                ends[open_.pop()[0]] = i
            if i in wanted:
                open_.append((i, depth))
        return [(i, ends.get(i, len(self._bodies))) for i in heads]

    def _hint(self, hunk: Hunk) -> str:
        """The line of the file that comes nearest to the longest one looked for."""
        probe = max((line.strip() for line in hunk.old), key=len, default="")[:_HINT_LINE]
        if not probe:
            return " Read the file again"
        bare = [line.strip() for line in self._bodies[:_HINT_LINES]]
        if probe in bare:
            at = bare.index(probe)
        else:
            near = difflib.get_close_matches(probe, {line for line in bare if len(line) <= _HINT_LINE}, 1, 0.6)
            if not near:
                return " Nothing in it comes near; read the file again"
            at = bare.index(near[0])
        there = self._bodies[at][:1_000].encode("utf-8", "replace").decode()
        return f" The closest is line {at + 1}:\n{there}\nRead the file again"

    def rebuilt(self, places: Sequence[tuple[int, int, Hunk]]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, hunk in places:
            parts += self._lines(at, start)
            parts += self._changed(start, end, hunk)
            at = end
        parts += self._lines(at, len(self._bodies))
        return "".join(self._closed(parts, places))

    def _lines(self, start: int, end: int) -> Iterator[str]:
        return (self._bodies[i] + self._ends[i] for i in range(start, end))

    def _changed(self, start: int, end: int, hunk: Hunk) -> Iterator[str]:
        at = start
        gone: list[str] = []
        for sign, text in hunk.lines:
            if sign == " ":
                gone = []
                yield self._bodies[at] + self._ends[at]
                at += 1
            elif sign == "-":
                gone.append(self._ends[at])
                at += 1
            else:
                yield text + (gone.pop(0) if gone and gone[0] else self._end_near(at))
        assert at == end

    def _end_near(self, at: int) -> str:
        around = [self._ends[i] for i in (at - 1, at) if 0 <= i < len(self._ends) and self._ends[i]]
        return around[0] if around else self._end

    def _closed(self, parts: list[str], places: Sequence[tuple[int, int, Hunk]]) -> list[str]:
        """Every line but the last has an end; the last has one if it had, or as a diff says."""
        for i, part in enumerate(parts[:-1]):
            if not part.endswith("\n"):
                parts[i] = part + self._end
        if not parts:
            return parts
        bare = bool(self._ends) and not self._ends[-1]
        if places and places[-1][1] == len(self._bodies) and (ends := places[-1][2].ends):
            bare = ends.get("+", False)
        last = parts[-1].removesuffix("\n").removesuffix("\r") if parts[-1].endswith("\n") else parts[-1]
        if bare:
            parts[-1] = last
        elif not parts[-1].endswith("\n"):
            parts[-1] = last + self._end
        return parts


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same lines as spans that do not overlap. They come in the order of their beginnings."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _inside(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Some line from ``start`` to ``end`` is in one of the spans, which are in order and do not overlap."""
    at = bisect_left(spans, (end, end)) - 1
    return at >= 0 and spans[at][1] > start


def _same(line: str, anchor: str) -> bool:
    return line.strip() == anchor.strip() or line.strip().startswith(anchor.strip())


def _depth(line: str) -> int:
    expanded = line.expandtabs(8)
    return len(expanded) - len(expanded.lstrip())
