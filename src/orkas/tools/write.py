"""Writing a whole file."""

from __future__ import annotations

import os
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
from orkas.tools.files import Seen, check_new_name, load, replace
from orkas.tools.text import form_of, kind_of_bytes, size_said

__all__ = ["WriteFile"]


class WriteFileInput(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the working folder. Missing folders are made.")]
    content: Annotated[str, Meta(description="The whole content, written as UTF-8 exactly as given.")]


class WriteFile:
    """The ``write_file`` tool. The old content stays whole until the new one is on disk."""

    name = "write_file"
    description = (
        "Create a file, or replace all of it. To change a part of a file use edit_file. A file that changed since you"
        " read it is not overwritten."
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
        try:
            with place.parent() as folder:
                descriptor = folder.open(place.parts[-1])
                try:
                    data: bytes | None = load(descriptor, place.name)
                finally:
                    os.close(descriptor)
        except FileNotFoundError:
            data = None
        except ToolFailed:
            if place.real.exists():
                raise
            data = None  # a folder of the path is still to be made
        if data is None:
            return unified(None, given.content, f"a/{place.name}", f"b/{place.name}")
        form = form_of(data)
        if form is None:
            return f"{place.name}: {kind_of_bytes(data)} of {size_said(len(data))} is replaced by text\n"
        return unified(form.decode(data), given.content, f"a/{place.name}", f"b/{place.name}")

    def _write(self, given: WriteFileInput, context: ToolContext) -> ToolResult:
        place = Place(context.cwd, given.path)
        if given.path.endswith("/"):
            raise ToolFailed(f"{place.given} names a folder; give the name of a file in it")
        data = given.content.encode("utf-8")
        with self._seen.alone(place), place.parent(create=True) as folder:
            old = self._old(folder, place)
            if old is None:
                check_new_name(place)
            elif MASK in given.content:
                _keep_secrets(folder, place, given.content)
            context.abort.check()
            replace(folder, place.parts[-1], data, self._seen, place, old=old)
        return ToolResult(_told(place.name, data, old))

    def _old(self, folder: Folder, place: Place) -> os.stat_result | None:
        """The file that is there, fit to be replaced; None when there is none."""
        name = place.parts[-1]
        try:
            descriptor = folder.open(name)
        except FileNotFoundError:
            return None
        except PermissionError:
            return folder.stat(name)  # not readable, perhaps writable: never seen then
        try:
            if self._seen.changed(place, descriptor):
                raise ToolFailed(f"{place.name} has changed since you read it; read it again, then write")
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)


def _keep_secrets(folder: Folder, place: Place, content: str) -> None:
    """A model sees ``***`` where a file holds a key, and would write that over it.

    Raises:
        ToolFailed: it would.
    """
    try:
        descriptor = folder.open(place.parts[-1])
    except PermissionError:
        return
    try:
        data = load(descriptor, place.name)
    finally:
        os.close(descriptor)
    form = form_of(data)
    text = form.decode(data) if form is not None else ""
    if content.count(MASK) > text.count(MASK) and hide(text) != text:
        raise ToolFailed(
            f"{place.name} holds a key that you see as {MASK}, which this would write over it; change the other lines"
            " with edit_file"
        )


def _told(name: str, data: bytes, old: os.stat_result | None) -> str:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    size = f"{size_said(len(data))}, {counted(lines, 'line')}"
    if old is None:
        return f"created {name} ({size})"
    links = "; its other hard links keep the old content" if old.st_nlink > 1 else ""
    return f"overwrote {name} ({size}, before {size_said(old.st_size)}{links})"
