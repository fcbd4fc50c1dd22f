"""Replacing a piece of text in a file; every other byte stays."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place
from orkas.infra.threads import in_thread
from orkas.tools.files import Seen, load, replace
from orkas.tools.text import Form, form_of

__all__ = ["EditFile"]

_SHOWN_EDITS = 3
_SHOWN_LINES = 60
_HINT_LINES = 20_000
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

    def _edit(self, given: EditFileInput, context: ToolContext) -> ToolResult:
        place = Place(context.cwd, given.path)
        if not given.old_text:
            raise ToolFailed("old_text is empty; use write_file to create a file or to replace all of it")
        if given.old_text == given.new_text:
            raise ToolFailed("old_text and new_text are the same; nothing to change")
        with self._seen.alone(place), place.parent() as folder:
            data, old = self._load(folder, place)
            form = _form(data, place.name)
            change = _Change(form.decode(data), given, place.name)
            changed = _encoded(form, change.after(), place.name)
            context.abort.check()
            replace(folder, place.parts[-1], changed, self._seen, place, old=old)
        return ToolResult(change.told())

    def _load(self, folder: Folder, place: Place) -> tuple[bytes, os.stat_result]:
        descriptor = folder.open(place.parts[-1])
        try:
            old = os.fstat(descriptor)
            data = load(descriptor, place.name)
            if self._seen.changed(place, descriptor):
                self._seen.note(place, descriptor)
                raise ToolFailed(f"{place.name} has changed since you read it and was not edited.{_fresh(data)}")
            return data, old
        finally:
            os.close(descriptor)


def _fresh(data: bytes) -> str:
    """The content as it is now where it is short, so that the model can go on at once."""
    form = form_of(data)
    text = form.decode(data) if form and len(data) <= 8_000 else None
    return " Read it again, then edit" if text is None else f" It is now:\n{text}".encode("utf-8", "replace").decode()


def _form(data: bytes, name: str) -> Form:
    """The form of the file, proven to give back the same bytes."""
    form = form_of(data)
    try:
        if form is not None and form.encode(form.decode(data)) == data:
            return form
    except UnicodeError:
        pass
    raise ToolFailed(f"{name} is no text whose bytes can be kept exactly; change it with a shell command instead")


def _encoded(form: Form, text: str, name: str) -> bytes:
    try:
        return form.encode(text)
    except UnicodeEncodeError as error:
        char = error.object[error.start : error.end][:5]
        raise ToolFailed(
            f"{name} is encoded as {form.encoding}, which has no {char!r}; use other characters or convert it first"
        ) from None


class _Change:
    """One edit of a text, found and checked. A newline in the arguments stands for either line end of the file."""

    def __init__(self, text: str, given: EditFileInput, name: str) -> None:
        self._text = text
        self._new = given.new_text.replace("\r\n", "\n")
        old = given.old_text.replace("\r\n", "\n")
        pattern = re.compile("\r?\n".join(re.escape(part) for part in old.split("\n")))
        self._found = list(pattern.finditer(text))
        self._name = name
        ends = Counter(_NEWLINE.findall(text))
        self._end = max(ends, key=lambda end: ends[end], default="\n")
        if not self._found:
            raise ToolFailed(f"old_text was not found in {name}; nothing was changed.{_hint(text, old)}")
        if len(self._found) > 1 and not given.replace_all:
            raise ToolFailed(
                f"old_text is {len(self._found)} times in {name}, at lines {self._lines()}; nothing was changed."
                " Add neighbouring lines to make it unique, or set replace_all"
            )

    def after(self) -> str:
        parts = []
        at = 0
        for found in self._found:
            parts += [self._text[at : found.start()], self._replacement(found)]
            at = found.end()
        return "".join([*parts, self._text[at:]])

    def _replacement(self, found: re.Match[str]) -> str:
        """The new text with the line ends of what it replaces, in order; beyond that the ends of the place."""
        ends = _NEWLINE.findall(found.group())
        usual = ends[-1] if ends else self._end_of_line(found.end())
        first, *rest = self._new.split("\n")
        return first + "".join((ends[i] if i < len(ends) else usual) + part for i, part in enumerate(rest))

    def _end_of_line(self, at: int) -> str:
        following = _NEWLINE.search(self._text, at)
        return following.group() if following else self._end

    def _lines(self) -> str:
        numbers = [self._text.count("\n", 0, found.start()) + 1 for found in self._found[:10]]
        return ", ".join(map(str, numbers)) + (", …" if len(self._found) > 10 else "")

    def told(self) -> str:
        count = len(self._found)
        head = f"edited {self._name}" + (f": {count} replacements" if count > 1 else "")
        parts = [head, *(self._diff(found) for found in self._found[:_SHOWN_EDITS])]
        if count > _SHOWN_EDITS:
            parts.append(f"[{count - _SHOWN_EDITS} more not shown]")
        return "\n".join(parts).encode("utf-8", "replace").decode()

    def _diff(self, found: re.Match[str]) -> str:
        """The lines around one replacement, before and after, in the unified form."""
        start = self._back(found.start(), 3)
        stop = self._forth(found.end(), 3)
        before = self._text[start:stop].splitlines()
        after_text = self._text[start : found.start()] + self._replacement(found) + self._text[found.end() : stop]
        lines = list(difflib.unified_diff(before, after_text.splitlines(), n=2, lineterm=""))[2:]
        offset = self._text.count("\n", 0, start)
        lines = [_shifted(line, offset) for line in lines]
        cut = [f"[{len(lines) - _SHOWN_LINES} more lines of the difference]"] if len(lines) > _SHOWN_LINES else []
        return "\n".join([*lines[:_SHOWN_LINES], *cut])

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


def _shifted(line: str, offset: int) -> str:
    """A hunk header with line numbers of the whole file."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda m: f"{m[1]}{int(m[2]) + offset}", line)


def _hint(text: str, old: str) -> str:
    """Where the file comes nearest to what was looked for."""
    lines = text.splitlines()
    wanted = [line.strip() for line in old.split("\n")]
    probe = max(wanted, key=len)
    if not probe:
        return " Read the file again"
    stripped = [line.strip() for line in lines[:_HINT_LINES]]
    size = len(wanted)
    for i in range(len(stripped) - size + 1):
        if stripped[i : i + size] == wanted:
            there = "\n".join(lines[i : i + size])
            return f" Line {i + 1} has it with other blanks at the ends; the file says:\n{_clean(there)}"
    near = difflib.get_close_matches(probe, set(stripped[:5_000]), n=1, cutoff=0.6)
    if near:
        at = stripped.index(near[0])
        return f" The closest is line {at + 1}:\n{_clean(lines[at])}\nRead the file again"
    return " Nothing in it comes near; read the file again"


def _clean(text: str) -> str:
    return text[:1_000].encode("utf-8", "replace").decode()
