"""Reading a file: text by lines, pictures as pictures, everything else named and refused."""

from __future__ import annotations

import base64
import io
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra import environment, pictures
from orkas.infra.abort import Abort
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.messages import Image
from orkas.infra.paths import Place
from orkas.infra.threads import in_thread
from orkas.tools.files import Seen, spelt
from orkas.tools.foreign import marked
from orkas.tools.text import HEAD_BYTES, Form, form_in, kind_of_bytes, size_said

if TYPE_CHECKING:
    from orkas.tools.documents import Document

__all__ = ["ReadFile"]

MAX_LINES = 2_000
MAX_CHARS = 50_000
"""Of one reading, about 12,500 tokens."""
MAX_LINE_CHARS = 2_000
_COUNTED_BYTES = 64 * 1024 * 1024
_VISIBLE = ("image/png", "image/jpeg", "image/gif", "image/webp")


class ReadFileInput(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the working folder.")]
    offset: Annotated[int, Meta(description="First line to read, counted from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description=f"How many lines at most, up to {MAX_LINES}.", ge=1)] = MAX_LINES
    page: Annotated[int, Meta(description="Of a document: only this page, sheet or slide, from 1; 0: all.", ge=0)] = 0


class ReadFile:
    """The ``read_file`` tool. Memory is bounded whatever the file is."""

    name = "read_file"
    description = (
        "Read a text file, the text of a document (pdf, docx, xlsx, pptx, odt, ods, odp), or look at an image (png,"
        " jpeg, gif, webp). Long files come in parts: the last line says how many lines remain and which offset reads"
        " on."
    )
    parameters = schema_of(ReadFileInput)
    read_only = True

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._last: tuple[tuple[object, ...], Document] | None = None  # the document read last, to read on in
        self._reading = threading.Lock()  # documents are read one after another: each takes a process of its own

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, ReadFileInput)
        result = await in_thread(self._read, given, context)
        if environment.holds_secrets(Path(given.path).name):
            environment.learn_text(result.text)
        return result

    def _read(self, given: ReadFileInput, context: ToolContext) -> ToolResult:
        place = Place(context.cwd, given.path, also=context.files)
        return marked(self._found(given, place, context), place)

    def _found(self, given: ReadFileInput, place: Place, context: ToolContext) -> ToolResult:
        if not place.parts:
            raise ToolFailed(f"{place.given} is a folder; use list_files to see what is in it")
        with spelt(place), place.parent() as folder:
            descriptor = folder.open(place.parts[-1])
            with os.fdopen(descriptor, "rb") as file:
                opened = os.fstat(descriptor)
                form, head = form_in(file)
                if form is None or b"%PDF-" in head[:1_024]:
                    if (text := self._document(given, place, file, context.abort)) is not None:
                        self._seen.note(place, descriptor, since=opened)
                        return ToolResult(text)
                    if form is None:
                        try:
                            return _binary(place, head, opened.st_size, file)
                        finally:  # told what it is, it is known
                            self._seen.note(place, descriptor, since=opened)
                if given.page:
                    raise ToolFailed(f"{place.name} is plain text and has no pages; use offset and limit")
                file.seek(len(form.bom))
                excerpt = _Excerpt(file, form, context.abort)
                text = excerpt.text(given.offset, min(given.limit, MAX_LINES))
                self._seen.note(place, descriptor, since=opened)
                return ToolResult(text)

    def _document(self, given: ReadFileInput, place: Place, file: io.BufferedReader, abort: Abort) -> str | None:
        """Some of the text of a document; None: it is none."""
        from orkas.tools import documents  # not before one is met

        stat = os.fstat(file.fileno())
        if not (kind := documents.kind_of_document(file)):
            return None
        if stat.st_size > documents.MAX_BYTES:
            raise ToolFailed(f"{place.name} has {size_said(stat.st_size)}; documents up to 64 MB are read")
        key = (str(place.real), stat.st_ino, stat.st_size, stat.st_mtime_ns, given.page)
        with self._reading:
            abort.check()
            document = self._last[1] if self._last is not None and self._last[0] == key else None
            if document is None or not _reaches(document, given.offset):
                file.seek(0)
                data = file.read(documents.MAX_BYTES)
                first, most = (given.page, 1) if given.page else (1, 1_000_000)
                skip = given.offset - 1 if document is not None else 0
                document = documents.extract(data, kind, place.name, abort, first=first, most=most, skip=skip)
                if not _reaches(document, given.offset):
                    skip = given.offset - 1
                    document = documents.extract(data, kind, place.name, abort, first=first, most=most, skip=skip)
                self._last = (key, document)
        return _excerpt_of(document, given)


def _reaches(document: Document, offset: int) -> bool:
    """The line is in what was read, or nowhere."""
    from orkas.tools.documents import lines_of

    end = document.skipped + len(lines_of(document))
    return document.skipped < offset <= end or (offset > end and not document.cut)


def _excerpt_of(document: Document, given: ReadFileInput) -> str:
    """Some lines of the text of a document; a line of its own stands before each page."""
    from orkas.tools.documents import lines_of, notes_of

    lines = lines_of(document)
    start = given.offset - 1 - document.skipped
    if start >= len(lines) and document.cut:
        raise ToolFailed(
            f"line {given.offset:,} lies beyond what can be read in one go; read one {document.unit} with page, or use"
            " a shell command that knows such documents"
        )
    if not document.skipped and not any(page.text.strip() for page in document.pages):
        lines.append("(no text in it; a scanned document is a picture, which a shell command such as pdftoppm makes)")
    if start >= len(lines):
        end = counted(document.skipped + len(lines), "line")
        raise ToolFailed(f"offset {given.offset} is beyond the end: the text has {end}")
    shown: list[str] = []
    room = MAX_CHARS
    for line in lines[start : start + min(given.limit, MAX_LINES)]:
        if room <= 0:
            break
        shown.append(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…")
        room -= len(shown[-1]) + 1
    following = given.offset + len(shown)
    notes = []
    left = document.skipped + len(lines) - following + 1
    if left or document.cut:
        more = counted(left, "more line")
        notes.append(f"{'more than ' if document.cut else ''}{more}; read on with offset={following}")
    return "\n".join([*shown, *(f"[{note}]" for note in [*notes, *notes_of(document)])])


def _binary(place: Place, head: bytes, size: int, file: io.BufferedReader) -> ToolResult:
    kind = kind_of_bytes(head)
    if kind not in _VISIBLE:
        raise ToolFailed(f"{place.name} is no text but {kind} of {size_said(size)}; use a shell command that knows it")
    file.seek(0)
    raw = file.read(pictures.MAX_BYTES + 1)
    wrong = pictures.fault(raw) if size <= pictures.MAX_BYTES else f"has {size_said(size)}, too much to be shown"
    if wrong:
        raise ToolFailed(
            f"{place.name} {wrong}; make a smaller or sound copy with a shell command and read that, for example:"
            f" magick {place.name} -colorspace sRGB -resize 1600x1600 small.png"
        )
    data = base64.b64encode(raw).decode()
    return ToolResult(f"{place.name}: image ({kind}), {size_said(size)}", [Image(media_type=kind, data=data)])


class _Excerpt:
    """Some lines of an open text file."""

    def __init__(self, file: io.BufferedReader, form: Form, abort: Abort) -> None:
        self._form = form
        self._abort = abort
        self._text = io.TextIOWrapper(file, form.encoding, form.lenient, newline="\n")
        self._clipped: list[int] = []

    def text(self, offset: int, limit: int) -> str:
        skipped = self._skip(offset - 1)
        lines = self._lines(offset, limit) if skipped == offset - 1 else []
        if not lines:
            if skipped == 0:
                return "(empty file)"
            raise ToolFailed(f"offset {offset} is beyond the end: the file has {counted(skipped, 'line')}")
        body = "\n".join(lines)
        notes = [*self._notes(body), *self._remaining(offset + len(lines))]
        return "\n".join([body, *(f"[{note}]" for note in notes)])

    def _skip(self, count: int) -> int:
        for done in range(count):
            if not self._line(0)[1]:
                return done
        return count

    def _lines(self, first: int, limit: int) -> list[str]:
        lines: list[str] = []
        room = MAX_CHARS
        while len(lines) < limit and room > 0:
            line, there = self._line(MAX_LINE_CHARS)
            if not there:
                break
            if len(line) > MAX_LINE_CHARS:
                self._clipped.append(first + len(lines))
                line = line[:MAX_LINE_CHARS] + "…"
            lines.append(line.removesuffix("\r"))
            room -= len(line) + 1
        return lines

    def _line(self, keep: int) -> tuple[str, bool]:
        """The next line without its end, at most ``keep`` + 1 characters of it; False at the end of the file."""
        line = self._text.readline(keep + 2)
        if line.endswith("\n"):
            return line[:-1], True
        while piece := self._text.readline(HEAD_BYTES):
            self._abort.check()
            if piece.endswith("\n"):
                break
        return line, line != ""

    def _notes(self, body: str) -> list[str]:
        notes = [self._form.note] if self._form.note else []
        if self._clipped:
            which = ", ".join(str(n) for n in self._clipped[:5]) + (", …" if len(self._clipped) > 5 else "")
            notes.append(f"cut to {MAX_LINE_CHARS:,} characters: line {which}; `cut -c` in the shell shows more")
        if not self._form.note and "\ufffd" in body:
            notes.append("bytes that are no valid UTF-8 are shown as \ufffd")
        return notes

    def _remaining(self, following: int) -> list[str]:
        more, exact = 0, True
        seen = 0
        ended = True
        while piece := self._text.read(HEAD_BYTES):
            self._abort.check()
            more += piece.count("\n")
            ended = piece.endswith("\n")
            seen += len(piece)
            if seen >= _COUNTED_BYTES:
                exact = False
                break
        more += not ended and exact
        if not more:
            return []
        count = counted(more, "more line") if exact else f"more than {more:,} more lines"
        return [f"{count}; read on with offset={following}"]
