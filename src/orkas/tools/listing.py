"""Showing what is in a folder, the largest first: models read such a list far better than an unsorted one."""

from __future__ import annotations

import os
import stat as st
import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.amounts import counted
from orkas.infra.paths import Place, kind_of, shown
from orkas.infra.threads import in_thread
from orkas.tools.files import spelt
from orkas.tools.globs import Glob
from orkas.tools.tree import Entry, Ignore, Walk

__all__ = ["ListFiles"]

MAX_SHOWN = 500
MAX_SEEN = 100_000
MAX_SECONDS = 10.0


class ListFilesInput(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The folder, relative to the working folder; default: that one.")] = "."
    pattern: Annotated[
        str | None, Meta(description="List only files that match, in all folders below: *.py, src/**/*.ts, *.{md,txt}.")
    ] = None
    depth: Annotated[int, Meta(description="How many levels of folders to show, without a pattern.", ge=1, le=10)] = 1


class ListFiles:
    """The ``list_files`` tool: one line an entry, size in bytes and name."""

    name = "list_files"
    description = (
        "List a folder: size in bytes and name, largest file first, folders end with a slash. With pattern: find files"
        " by name in all folders below, but not in what .gitignore names or in .git."
    )
    parameters = schema_of(ListFilesInput)
    read_only = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, ListFilesInput)
        return await in_thread(_list, given, context)


def _list(given: ListFilesInput, context: ToolContext) -> ToolResult:
    place = Place(context.cwd, given.path)
    with spelt(place):
        return _listed(place, given, context)


def _listed(place: Place, given: ListFilesInput, context: ToolContext) -> ToolResult:
    if place.parts:
        with place.parent() as folder:
            stat = folder.stat(place.parts[-1])
            if not st.S_ISDIR(stat.st_mode):
                entry = Entry(place.name, stat, folder)
                return ToolResult(_lines([(entry, _target(entry))], full=True, notes=[]))
    glob = Glob(given.pattern) if given.pattern else None
    walk = Walk(context.abort, Ignore()) if glob else Walk(context.abort, depth=given.depth)
    entries, notes = _collect(walk, place, glob)
    if glob:
        if not entries:
            notes.insert(0, f"no file below {place.name} matches {given.pattern}")
        return ToolResult(_lines(entries, full=True, notes=notes))
    if not entries and not notes:
        return ToolResult(f"{place.name} is empty")
    return ToolResult(_lines(entries, full=given.depth > 1, notes=notes))


def _collect(walk: Walk, place: Place, glob: Glob | None) -> tuple[list[tuple[Entry, str]], list[str]]:
    """The entries, each with what a link points to, and what must be said."""
    entries: list[tuple[Entry, str]] = []
    notes = []
    over = time.monotonic() + MAX_SECONDS
    base = len("/".join(place.parts)) + 1 if place.parts else 0
    for seen, entry in enumerate(walk.below(place)):
        if seen >= MAX_SEEN or time.monotonic() > over:
            notes.append(f"stopped after {seen:,} entries; list a folder further down")
            break
        if glob is None or (not entry.is_folder and (glob.matches(entry.name[base:]) or glob.matches(entry.name))):
            entries.append((entry, _target(entry)))
    if walk.ignored:
        notes.append(f"left out: {walk.ignored:,} ignored by .gitignore")
    if walk.own and (glob or walk.depth > 1):
        notes.append("left out: the folder of Orkas' own data")
    if walk.unreadable:
        notes.append(f"could not look into: {', '.join(shown(n) for n in walk.unreadable[:10])}")
    if walk.too_deep and glob:
        notes.append(f"not looked into, because they lie too deep: {counted(walk.too_deep, 'folder')}")
    return entries, notes


def _target(entry: Entry) -> str:
    if not st.S_ISLNK(entry.stat.st_mode):
        return ""
    try:
        return entry.folder.link_target(entry.last)
    except OSError:
        return "?"


def _lines(entries: list[tuple[Entry, str]], *, full: bool, notes: list[str]) -> str:
    entries.sort(key=lambda e: (e[0].is_folder, -_size(e[0].stat), e[0].name))
    shown_entries = entries[:MAX_SHOWN]
    width = max((len(str(_size(e.stat))) for e, _ in shown_entries), default=1)
    lines = [_line(entry, target, full, max(width, 3)) for entry, target in shown_entries]
    if len(entries) > MAX_SHOWN:
        lines.append(f"[{len(entries) - MAX_SHOWN:,} more, smaller ones and folders, not shown; use pattern or path]")
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def _line(entry: Entry, target: str, full: bool, width: int) -> str:
    name = shown(entry.name if full else entry.last)
    if entry.is_folder:
        return f"{'dir':>{width}}  {name}/"
    if entry.is_file:
        return f"{entry.stat.st_size:>{width}}  {name}"
    if target:
        return f"{'-':>{width}}  {name} -> {shown(target)}"
    return f"{'-':>{width}}  {name} ({kind_of(entry.stat.st_mode)})"


def _size(stat: os.stat_result) -> int:
    return stat.st_size if st.S_ISREG(stat.st_mode) else -1
