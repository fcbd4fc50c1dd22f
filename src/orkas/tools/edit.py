"""Replacing a piece of text in a file; every other byte stays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.abort import Abort
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place
from orkas.infra.threads import in_thread
from orkas.tools.diffs import comparable, unified
from orkas.tools.exact import check_characters, encoded, form_kept, fresh, shows_whole
from orkas.tools.files import MAX_EDIT_BYTES, Seen, load, replace, spelt
from orkas.tools.lines import places
from orkas.tools.text import Form

__all__ = ["EditFile"]

_SHOWN_EDITS = 3
_SHOWN_LINES = 60
_SHOWN_CHARS = 4_000
"""Of the differences of one edit, about 1,000 tokens."""
_SHOWN_AROUND = 600
"""Characters shown before and after a replacement."""
_SHOWN_LINE = 1_600
_COMPARED_CHARS = 100_000
_NAMED_PLACES = 10
_MIXED_PLACES = 100_000
_HINT_LINES = 20_000
_HINT_LINE = 300
_HINT_CHARS = 2_000_000
_NEWLINE = re.compile("\r\n|\n")


class EditFileInput(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the working folder.")]
    old_text: Annotated[str, Meta(description="The text to replace, exactly as in the file and found once.")]
    new_text: Annotated[str, Meta(description="What stands there afterwards; empty removes the text.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of exactly one.")] = False


class EditFile:
    """The ``edit_file`` tool. Encoding, byte-order mark, line ends and mode of the file stay as they are."""

    name = "edit_file"
    description = (
        "Replace one piece of text in a file. old_text must be in the file exactly once: add neighbouring lines to make"
        " it unique, or set replace_all. Read the file first."
    )
    parameters = schema_of(EditFileInput)

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, EditFileInput)
        return await in_thread(self._edit, given, context)

    def touches(self, arguments: dict[str, Any], context: ToolContext) -> list[Path]:
        return [Place(context.cwd, str(arguments.get("path", ""))).real]

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """The unified diff of what the call would change; nothing is written. Reads the file: call it in a thread.

        Raises:
            ToolFailed: as the call would.
        """
        given = check_arguments(arguments, EditFileInput)
        place = Place(context.cwd, given.path)
        with spelt(place), place.parent() as folder:
            data, _ = self._load(folder, place, note=False)
        change, form = self._change(data, given, place, context)
        return unified(form.decode(data), change.after(), f"a/{place.name}", f"b/{place.name}")

    def _edit(self, given: EditFileInput, context: ToolContext) -> ToolResult:
        place = Place(context.cwd, given.path)
        with self._seen.alone(place), spelt(place), place.parent() as folder:
            data, old = self._load(folder, place, note=True)
            change, form = self._change(data, given, place, context)
            changed = encoded(form, form.decode(data), given.new_text, change.after(), place.name)
            context.abort.check()
            replace(folder, place.parts[-1], changed, self._seen, place, old=old, was=data)
        return ToolResult(change.told())

    def _change(
        self, data: bytes, given: EditFileInput, place: Place, context: ToolContext
    ) -> tuple[_Change, Form]:
        if not given.old_text:
            raise ToolFailed("old_text is empty; use write_file to create a file or to replace all of it")
        if given.old_text == given.new_text:
            raise ToolFailed("old_text and new_text are the same; nothing to change")
        form = form_kept(data, place.name)
        text = form.decode(data)
        check_characters(given.old_text, "old_text", text)
        check_characters(given.new_text, "new_text", text)
        return _Change(text, given, place.name, context.abort), form

    def _load(self, folder: Folder, place: Place, *, note: bool) -> tuple[bytes, os.stat_result]:
        descriptor = folder.open(place.parts[-1])
        try:
            old = os.fstat(descriptor)
            data = load(descriptor, place.name)
            if self._seen.changed(place, descriptor):
                if note and shows_whole(data):
                    self._seen.note(place, descriptor)
                raise ToolFailed(f"{place.name} has changed since you read it and was not edited.{fresh(data)}")
            return data, old
        finally:
            os.close(descriptor)


class _Change:
    """One edit of a text, found and checked. A newline in the arguments stands for either line end of the file.

    Memory and time do not grow with the number of places: in a file with one kind of line end they are counted and
    replaced as plain text; only where both kinds are mixed each place is looked at, up to ``_MIXED_PLACES``.
    """

    def __init__(self, text: str, given: EditFileInput, name: str, abort: Abort) -> None:
        self._text = text
        self._name = name
        self._abort = abort
        self._new = given.new_text.replace("\r\n", "\n")
        self._old = given.old_text.replace("\r\n", "\n")
        windows = text.count("\r\n")
        self._end = "\r\n" if windows * 2 > text.count("\n") else "\n"
        self._mixed = 0 < windows < text.count("\n") and "\n" in self._old + self._new
        if not self._mixed:
            self._old = self._old.replace("\n", self._end)
            self._new = self._new.replace("\n", self._end)
        self._relaxed = False
        self._found = self._all_places(given)
        if not self._found and "\n" in self._old.strip():
            self._relax(given)
            self._found = self._all_places(given)
        if not self._found:
            raise ToolFailed(f"old_text was not found in {name}; nothing was changed.{_hint(text, self._old)}")
        if len(self._found) > 1 and not given.replace_all:
            raise ToolFailed(
                f"old_text is {self._times()} in {name}, at lines {self._lines()}; nothing was changed."
                " Add neighbouring lines to make it unique, or set replace_all"
            )
        self._count = len(self._found) if self._mixed or not given.replace_all else text.count(self._old)
        self._check_size()

    def _all_places(self, given: EditFileInput) -> list[tuple[int, int]]:
        return list(islice(self._places(overlapping=not given.replace_all), self._most(given)))

    def _relax(self, given: EditFileInput) -> None:
        """Blanks at the ends of lines do not matter where several lines are given; blanks in front always do."""
        self._relaxed = self._mixed = True
        self._old, self._new = (text.replace("\r\n", "\n") for text in (given.old_text, given.new_text))

    def _most(self, given: EditFileInput) -> int:
        return _MIXED_PLACES + 1 if self._mixed and given.replace_all else _NAMED_PLACES + 1

    def _check_size(self) -> None:
        if self._mixed and self._count > _MIXED_PLACES:
            raise ToolFailed(
                f"old_text is more than {_MIXED_PLACES:,} times in {self._name}, which mixes two kinds of line ends;"
                " change it with a shell command instead"
            )
        if len(self._text) + self._count * (len(self._new) - len(self._old)) > MAX_EDIT_BYTES:
            raise ToolFailed(
                f"{self._name} would grow beyond {MAX_EDIT_BYTES // 2**20} MB; change it with a shell command instead"
            )

    def _places(self, *, overlapping: bool) -> Iterator[tuple[int, int]]:
        """Beginning and end of each place, in order. Stop is heard between them."""
        at = 0
        for start, end in self._by_lines() if self._mixed and "\n" in self._old else self._as_text(overlapping):
            self._abort.check()
            if start >= at:
                yield start, end
                at = at if overlapping else end

    def _by_lines(self) -> Iterator[tuple[int, int]]:
        return places(self._text, self._old.split("\n"), self._abort, loose=self._relaxed)

    def _as_text(self, overlapping: bool) -> Iterator[tuple[int, int]]:
        at = self._text.find(self._old)
        while at >= 0:
            yield at, at + len(self._old)
            at = self._text.find(self._old, at + 1 if overlapping else at + len(self._old))

    def after(self) -> str:
        if not self._mixed:
            return self._text.replace(self._old, self._new)
        parts = []
        at = 0
        for start, end in self._found:
            parts += [self._text[at:start], self._replacement(start, end)]
            at = end
        return "".join([*parts, self._text[at:]])

    def _replacement(self, start: int, end: int) -> str:
        """The new text with the line ends of what it replaces, in order; beyond that the ends of the place."""
        if not self._mixed:
            return self._new
        ends = _NEWLINE.findall(self._text[start:end])
        usual = ends[-1] if ends else self._end_of_line(end)
        first, *rest = self._new.split("\n")
        return first + "".join((ends[i] if i < len(ends) else usual) + part for i, part in enumerate(rest))

    def _end_of_line(self, at: int) -> str:
        following = _NEWLINE.search(self._text, at)
        return following.group() if following else self._end

    def _times(self) -> str:
        return f"{len(self._found)} times" if len(self._found) <= _NAMED_PLACES else f"more than {_NAMED_PLACES} times"

    def _lines(self) -> str:
        numbers = [self._text.count("\n", 0, start) + 1 for start, _ in self._found[:_NAMED_PLACES]]
        return ", ".join(map(str, numbers)) + (", …" if len(self._found) > _NAMED_PLACES else "")

    def told(self) -> str:
        head = f"edited {self._name}" + (f": {self._count:,} replacements" if self._count > 1 else "")
        if self._relaxed:
            head += " (old_text has other blanks at the ends of lines than the file)"
        diffs = "\n".join(self._diff(*place) for place in self._found[:_SHOWN_EDITS])
        if len(diffs) > _SHOWN_CHARS:
            more = counted(len(diffs) - _SHOWN_CHARS, "more character")
            diffs = f"{diffs[:_SHOWN_CHARS]}…\n[{more} of the difference]"
        parts = [head, *([diffs] if diffs else [])]
        if self._count > _SHOWN_EDITS:
            parts.append(f"[{self._count - _SHOWN_EDITS:,} more not shown]")
        return "\n".join(parts).encode("utf-8", "replace").decode()

    def _diff(self, start: int, end: int) -> str:
        """The lines around one replacement, before and after, in the unified form; of long ones the part around it."""
        first = self._back(start, 3)
        stop = self._forth(end, 3)
        head, tail = self._text[first:start], self._text[end:stop]
        if len(head) > _SHOWN_AROUND:
            head = "…" + head[-_SHOWN_AROUND:]
            first = start - _SHOWN_AROUND
        if len(tail) > _SHOWN_AROUND:
            tail = tail[:_SHOWN_AROUND] + "…"
        before, after = self._text[start:end], self._replacement(start, end)
        import difflib

        old, new = _split(head + before + tail), _split(head + after + tail)
        if comparable(old, new):
            lines = list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
        else:
            lines = [f"@@ -1,{len(old)} +1,{len(new)} @@", *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
        offset = self._text.count("\n", 0, first)
        shown = [_clipped(_shifted(line, offset)) for line in lines[:_SHOWN_LINES]]
        if len(lines) > _SHOWN_LINES:
            shown.append(f"[{counted(len(lines) - _SHOWN_LINES, 'more line')} of the difference]")
        return "\n".join(shown)

    def _back(self, at: int, lines: int) -> int:
        for _ in range(lines):
            at = self._text.rfind("\n", 0, max(at, 0))
            if at < 0:
                return 0
        return at + 1

    def _forth(self, at: int, lines: int) -> int:
        for _ in range(lines):
            at = self._text.find("\n", at) + 1
            if at == 0:
                return len(self._text)
        return at


def _split(text: str) -> list[str]:
    """Lines for showing, at most so many that comparing them stays quick."""
    return [_clipped(line) for line in text[:_COMPARED_CHARS].splitlines()]


def _clipped(line: str) -> str:
    return line if len(line) <= _SHOWN_LINE else f"{line[:_SHOWN_LINE]}…"


def _shifted(line: str, offset: int) -> str:
    """A hunk header with line numbers of the whole file."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda m: f"{m[1]}{int(m[2]) + offset}", line)


def _hint(text: str, old: str) -> str:
    """Where the file comes nearest to what was looked for."""
    lines = text[:_HINT_CHARS].splitlines()
    wanted = [line.strip() for line in old.splitlines()]
    probe = max(wanted, key=len, default="")[:_HINT_LINE]
    if not probe:
        return " Read the file again"
    stripped = [line.strip() for line in lines[:_HINT_LINES]]
    short = {line for line in stripped[:5_000] if len(line) <= _HINT_LINE}
    size = len(wanted)
    for i in range(len(stripped) - size + 1):
        if stripped[i] == wanted[0] and stripped[i : i + size] == wanted:
            there = "\n".join(lines[i : i + size])
            return f" Line {i + 1} has it with other blanks at the ends; the file says:\n{_clean(there)}"
    import difflib

    near = difflib.get_close_matches(probe, short, n=1, cutoff=0.6)
    if near:
        at = stripped.index(near[0])
        return f" The closest is line {at + 1}:\n{_clean(lines[at])}\nRead the file again"
    return " Nothing in it comes near; read the file again"


def _clean(text: str) -> str:
    return text[:1_000].encode("utf-8", "replace").decode()
