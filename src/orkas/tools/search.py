"""Finding text in files, and files by name."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import selectors
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Protocol

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra import process
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place, shown
from orkas.infra.patterns import lazy
from orkas.infra.threads import in_thread
from orkas.tools import matcher
from orkas.tools.files import spelt
from orkas.tools.foreign import marked
from orkas.tools.globs import Glob
from orkas.tools.text import Form, form_in
from orkas.tools.tree import Ignore, Walk

__all__ = ["SearchFiles"]

MAX_MATCHES = 200
MAX_SECONDS = 10.0
_PIECE_BYTES = 4 * 1024 * 1024
"""Files are searched in pieces of this size, cut at line ends: a line that is longer is cut too."""
_ONE_SWOOP = 64
_SHORT = 40
"""Characters of a plain text that is looked for in this process where case does not count: Python's ``re`` compares it
anew at every place then."""
_LINE_END = lazy(r"\n|(?<!\\)(?:\\\\)*\\n")


class SearchFilesInput(msgspec.Struct, forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        Meta(
            description="Text or regular expression (Python syntax), within one line. Case counts only if a capital"
            " letter is in it.",
            min_length=1,
        ),
    ]
    path: Annotated[str, Meta(description="The folder or file to search, relative to the working folder.")] = "."
    glob: Annotated[str | None, Meta(description="Search only in files with such names: *.py, src/**/*.ts.")] = None
    names_only: Annotated[bool, Meta(description="Match the paths of files instead of what is in them.")] = False


class SearchFiles:
    """The ``search_files`` tool. Skips what ``.gitignore`` names, ``.git`` and binary files, and says so."""

    name = "search_files"
    description = (
        "Search the files below a folder for a text or regular expression. Gives `file:line: text` for each line that"
        " matches; with names_only the paths that match."
    )
    parameters = schema_of(SearchFilesInput)
    read_only = True

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, SearchFilesInput)
        return await in_thread(lambda: _Search(given, context, self._max_seconds).run())


class _Finder(Protocol):
    def find(self, text: str, limit: int) -> list[tuple[int, str]]: ...

    def close(self) -> None: ...


class _TooLong(Exception):
    """The time is over."""


class _Here:
    """Looks in this process: only for plain text, where that takes time in proportion to the size."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def find(self, text: str, limit: int) -> list[tuple[int, str]]:
        return matcher.matches(self._pattern, text, limit)

    def close(self) -> None:
        pass


class _Apart:
    """Looks in a child process that is killed when the time is over or the user stops."""

    def __init__(self, pattern: str, ignore_case: bool, over: float, context: ToolContext) -> None:
        self._over = over
        self._abort = context.abort
        self._child = process.helper(Path(matcher.__file__))
        assert self._child.stdin is not None and self._child.stdout is not None, "helper() gives pipes"
        self._order, self._answer = self._child.stdin, self._child.stdout
        order = {"pattern": pattern, "ignore_case": ignore_case, "limit": MAX_MATCHES + 1}
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._answer, selectors.EVENT_READ)
        self._order.write(json.dumps(order).encode() + b"\n")

    def find(self, text: str, limit: int) -> list[tuple[int, str]]:
        try:
            matcher.send(self._order, text.encode("utf-8", "surrogatepass"))
            self._wait()
            reply = matcher.receive(self._answer)
        except BrokenPipeError:
            reply = None
        if reply is None:
            raise ToolFailed("the search ended unexpectedly; use a simpler pattern")
        return [(line, shown_text) for line, shown_text in json.loads(reply)][:limit]

    def _wait(self) -> None:
        """Until the child has an answer. It answers only what it was given whole, so nobody waits for another."""
        while not self._ready.select(0.1):
            self._abort.check()
            if time.monotonic() > self._over:
                raise _TooLong

    def close(self) -> None:
        self._ready.close()
        self._child.kill()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._child.communicate(timeout=2)


class _Search:
    def __init__(self, given: SearchFilesInput, context: ToolContext, max_seconds: float) -> None:
        self._given = given
        self._context = context
        self._max_seconds = max_seconds
        self._over = time.monotonic() + max_seconds
        self._glob = Glob(given.glob) if given.glob else None
        self._place = Place(context.cwd, given.path, also=context.files)
        self._walk = Walk(context.abort, Ignore())
        self._lines: list[str] = []
        self._notes: list[str] = []
        self._searched = self._binary = self._special = 0
        self._pattern, self._literal = self._compiled()

    def run(self) -> ToolResult:
        with spelt(self._place):
            if self._given.names_only:
                self._names()
            else:
                self._contents()
        result = ToolResult("\n".join([*self._lines, *(f"[{note}]" for note in self._all_notes())]))
        return marked(result, self._place)

    def _compiled(self) -> tuple[re.Pattern[str], bool]:
        pattern = self._given.pattern
        ignore_case = not any(c.isupper() for c in re.sub(r"\\.", "", pattern))
        literal = not re.search(r"[][\\^$.|?*+(){}]", pattern)
        try:
            return matcher.compile_pattern(pattern, ignore_case=ignore_case), literal
        except (re.error, OverflowError, RecursionError) as error:
            self._notes.append(f"not a valid regular expression ({error}): searched as plain text")
            return matcher.compile_pattern(re.escape(pattern), ignore_case=ignore_case), True

    def _finder(self) -> _Finder:
        ignore_case = bool(self._pattern.flags & re.IGNORECASE)
        if self._literal and (not ignore_case or len(self._pattern.pattern) <= _SHORT):
            return _Here(self._pattern)
        return _Apart(self._pattern.pattern, ignore_case, self._over, self._context)

    def _names(self) -> None:
        finder = self._finder()
        try:
            for names in _batches(self._files()):
                self._check_time()
                room = MAX_MATCHES + 1 - len(self._lines)
                self._lines += [shown(names[i]) for i, _ in finder.find("\n".join(names), room)]
                if self._full():
                    return
        except _TooLong:
            self._stopped_late()
        finally:
            finder.close()

    def _files(self) -> Iterator[str]:
        for name, _, _ in self._candidates():
            self._searched += 1
            if "\n" not in name:
                yield name

    def _contents(self) -> None:
        finder = self._finder()
        try:
            for name, folder, last in self._candidates():
                self._check_time()
                self._one_file(finder, name, folder, last)
                if self._full():
                    return
        except _TooLong:
            self._stopped_late()
        finally:
            finder.close()

    def _candidates(self) -> Iterator[tuple[str, Folder, str]]:
        """Regular files to look at, with the open folder that holds each."""
        place = self._place
        if place.parts:
            with place.parent() as folder:
                mode = folder.stat(place.parts[-1]).st_mode
                if not stat.S_ISDIR(mode):
                    os.close(folder.open(place.parts[-1]))
                    yield place.name, folder, place.parts[-1]
                    return
        base = len("/".join(place.parts)) + 1 if place.parts else 0
        outside = "" if place.name == "." or not place.name.startswith("/") else f"{place.root}/"
        for entry in self._walk.below(place):
            if entry.is_folder:
                continue
            if self._glob and not (self._glob.matches(entry.name[base:]) or self._glob.matches(entry.name)):
                continue
            if not entry.is_file and not self._given.names_only:
                self._special += 1
                continue
            yield outside + entry.name, entry.folder, entry.last

    def _one_file(self, finder: _Finder, name: str, folder: Folder, last: str) -> None:
        try:
            descriptor = folder.open(last)
        except (OSError, ToolFailed):
            self._walk.unreadable.append(name)
            return
        with os.fdopen(descriptor, "rb") as file:
            self._searched += 1
            form, _ = form_in(file)
            if form is None:
                self._binary += 1
                return
            for first, text in _pieces(file, form):
                self._check_time()
                room = MAX_MATCHES + 1 - len(self._lines)
                for line, text_shown in finder.find(text, room):
                    self._lines.append(f"{shown(name)}:{first + line}: {shown(text_shown)}")
                if len(self._lines) > MAX_MATCHES:
                    return

    def _check_time(self) -> None:
        self._context.abort.check()
        if time.monotonic() > self._over:
            raise _TooLong

    def _stopped_late(self) -> None:
        self._notes.append(
            f"stopped after {self._max_seconds:g} s in {counted(self._searched, 'file')}: the rest was not searched;"
            " narrow path or glob, or simplify the pattern"
        )

    def _full(self) -> bool:
        if len(self._lines) <= MAX_MATCHES:
            return False
        del self._lines[MAX_MATCHES:]
        self._notes.append(f"only the first {MAX_MATCHES} matches are shown; narrow pattern, path or glob")
        return True

    def _all_notes(self) -> list[str]:
        notes = self._notes
        if not self._lines:
            notes.insert(0, f"no match in {counted(self._searched, 'file')}")
        if _LINE_END.search(self._given.pattern):
            notes.append("each line is looked at by itself, so a line end in the pattern matches nothing: search for"
                         " one of the lines")
        left_out = [
            (self._walk.ignored, "ignored by .gitignore"),
            (self._binary, "binary"),
            (self._special, "links, pipes or devices"),
            (self._walk.too_deep, "folders too deep"),
            (self._walk.own, "folder of Orkas' own data"),
        ]
        if any(count for count, _ in left_out):
            notes.append("left out: " + ", ".join(f"{count} {what}" for count, what in left_out if count))
        if self._walk.unreadable:
            notes.append(f"could not read: {', '.join(shown(n) for n in self._walk.unreadable[:10])}")
        return notes


def _pieces(file: BinaryIO, form: Form) -> Iterator[tuple[int, str]]:
    """The text in pieces that end with a line, each with the number of its first line."""
    decoder = codecs.getincrementaldecoder(form.encoding)(form.lenient)
    number = 1
    rest = ""
    file.seek(len(form.bom))
    data = file.read(_PIECE_BYTES) or b""
    while data:
        text = rest + decoder.decode(data)
        data = file.read(_PIECE_BYTES) or b""
        cut = text.rfind("\n") + 1 if data else len(text)
        cut = cut or (len(text) if len(text) >= _PIECE_BYTES else 0)
        if cut:
            yield number, text[:cut]
            number += text.count("\n", 0, cut)
        rest = text[cut:]
    if rest:
        yield number, rest


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for name in names:
        batch.append(name)
        if len(batch) >= _ONE_SWOOP:
            yield batch
            batch = []
    if batch:
        yield batch
