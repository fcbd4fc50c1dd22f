"""Writing a whole file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.known import MASK, hide
from orkas.infra.paths import Folder, Place
from orkas.infra.threads import in_thread
from orkas.tools.diffs import unified
from orkas.tools.exact import check_characters, encoded, fresh, shows_whole
from orkas.tools.files import (
    MAX_EDIT_BYTES,
    Seen,
    beginning,
    check_new_name,
    check_spelling,
    check_writable,
    replace,
)  # fmt: skip
from orkas.tools.text import HEAD_BYTES, Form, form_of, kind_of_bytes, size_said

__all__ = ["WriteFile"]


class WriteFileInput(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the working folder. Missing folders are made.")]
    content: Annotated[
        str, Meta(description="The whole content. A new file is UTF-8; another keeps its encoding and line ends.")
    ]


class WriteFile:
    """The ``write_file`` tool. The old content stays whole until the new one is on disk."""

    name = "write_file"
    description = (
        "Create a file, or replace all of it. To change a part of a file use edit_file. A file that you have not read,"
        " or that changed since, is not overwritten."
    )
    parameters = schema_of(WriteFileInput)

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, WriteFileInput)
        return await in_thread(self._write, given, context)

    def touches(self, arguments: dict[str, Any], context: ToolContext) -> list[Path]:
        return [Place(context.cwd, str(arguments.get("path", ""))).real]

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """The unified diff of what the call would change; nothing is written. Reads the file: call it in a thread.

        Raises:
            ToolFailed: as the call would.
        """
        given = check_arguments(arguments, WriteFileInput)
        place = Place(context.cwd, given.path)
        old: _Old | None = None
        try:
            with place.parent() as folder:
                old = _Old.of(folder, place)
        except ToolFailed:
            if place.real.exists():
                raise
            check_spelling(place)  # else a folder of the path is still to be made
        if old is None:
            return unified(None, given.content, f"a/{place.name}", f"b/{place.name}")
        if old.form is None:
            return f"{place.name}: {kind_of_bytes(old.data)} of {size_said(old.stat.st_size)} is replaced by text\n"
        after = old.form.shown(_in_form_of(old, given.content, place.name))
        return unified(old.form.shown(old.data), after, f"a/{place.name}", f"b/{place.name}")

    def _write(self, given: WriteFileInput, context: ToolContext) -> ToolResult:
        place = Place(context.cwd, given.path)
        if given.path.endswith("/"):
            raise ToolFailed(f"{place.given} names a folder; give the name of a file in it")
        check_spelling(place)
        with self._seen.alone(place), place.parent(create=True) as folder:
            old = self._checked(folder, place)
            check_characters(given.content, "content", old.text if old else "")
            if old is None:
                check_new_name(place)
                data = given.content.encode("utf-8")
            else:
                _keep_secrets(old, place, given.content)
                data = _in_form_of(old, given.content, place.name)
            context.abort.check()
            stat, was = (old.stat, old.whole) if old else (None, None)
            replace(folder, place.parts[-1], data, self._seen, place, old=stat, was=was)
        return ToolResult(_told(place.name, data, old))

    def _checked(self, folder: Folder, place: Place) -> _Old | None:
        """The file that is there, fit to be replaced: the model knows what is in it, or nothing is. None: no file."""
        with suppress(FileNotFoundError):
            check_writable(folder, place.parts[-1], folder.stat(place.parts[-1]))
        try:
            descriptor = folder.open(place.parts[-1])
        except FileNotFoundError:
            return None
        except PermissionError:
            raise ToolFailed(
                f"{place.name} exists and cannot be read, so it is not overwritten; ask the user about it"
            ) from None
        try:
            old = _Old.at(descriptor)
            changed = self._seen.changed(place, descriptor)
            if changed or (old.data and not self._seen.knows(place)):
                if old.whole is not None and shows_whole(old.whole):
                    self._seen.note(place, descriptor)
                raise _unknown(place, old, changed=changed)
            return old
        finally:
            os.close(descriptor)


def _unknown(place: Place, old: _Old, *, changed: bool) -> ToolFailed:
    if changed:
        now = fresh(old.whole or b"\0", "Read it again, then write")
        return ToolFailed(f"{place.name} has changed since you read it and was not overwritten.{now}")
    now = fresh(old.whole or b"\0", "Read it first, then write", "Write again if all of this may go; it holds")
    return ToolFailed(f"{place.name} exists and you have not read it, so it was not overwritten.{now}")


class _Old(msgspec.Struct, eq=False):
    """The file that is replaced."""

    stat: os.stat_result
    data: bytes
    """What is in it; of a file too large to be edited only the beginning."""
    form: Form | None

    @classmethod
    def of(cls, folder: Folder, place: Place) -> _Old | None:
        try:
            descriptor = folder.open(place.parts[-1])
        except FileNotFoundError:
            return None
        try:
            return cls.at(descriptor)
        finally:
            os.close(descriptor)

    @classmethod
    def at(cls, descriptor: int) -> _Old:
        stat = os.fstat(descriptor)
        small = stat.st_size <= MAX_EDIT_BYTES
        data = beginning(descriptor, stat.st_size if small else HEAD_BYTES)
        return cls(stat, data, form_of(data, whole=small))

    @property
    def whole(self) -> bytes | None:
        return self.data if len(self.data) == self.stat.st_size else None

    @property
    def text(self) -> str:
        return self.form.shown(self.data) if self.form else ""

    @property
    def windows(self) -> bool:
        """Most of its lines end as on Windows."""
        text = self.text
        return text.count("\r\n") * 2 > text.count("\n")


def _in_form_of(old: _Old, content: str, name: str) -> bytes:
    """The content as the file writes its text: encoding, mark and line ends. Line ends that are given stay.

    Raises:
        ToolFailed: the encoding has no such character.
    """
    if old.form is None or not old.data:
        return content.encode("utf-8")
    if old.form.bom:
        content = content.removeprefix("\ufeff")
    if old.windows and "\r\n" not in content:
        content = content.replace("\n", "\r\n")
    return encoded(old.form, old.text, content, content, name)


def _keep_secrets(old: _Old, place: Place, content: str) -> None:
    """A model sees ``***`` where a file holds a key, and would write that over it.

    Raises:
        ToolFailed: it would.
    """
    if MASK in content and content.count(MASK) > old.text.count(MASK) and hide(old.text) != old.text:
        raise ToolFailed(
            f"{place.name} holds a key that you see as {MASK}, which this would write over it; change the other lines"
            " with edit_file"
        )


def _told(name: str, data: bytes, old: _Old | None) -> str:
    form = old.form if old and old.data else None
    text = form.shown(data) if form else data.decode()
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    size = f"{size_said(len(data))}, {counted(lines, 'line')}"
    if old is None:
        return f"created {name} ({size})"
    links = "; its other hard links keep the old content" if old.stat.st_nlink > 1 else ""
    return f"overwrote {name} ({size}, before {size_said(old.stat.st_size)}{_kept(old, form, text)}{links})"


def _kept(old: _Old, form: Form | None, text: str) -> str:
    """What of the form of the file is not that of a new one."""
    kept = []
    if form and (form.bom or form.encoding != "utf-8"):
        kept.append(f"{form.encoding.upper()}{' with a byte-order mark' if form.bom else ''}")
    if form and old.windows and "\r\n" in text:
        kept.append("CRLF line ends")
    return f"; still {' and '.join(kept)}" if kept else ""
