"""Changing several files at once, by a patch: all of it or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Place, shown
from orkas.infra.threads import in_thread
from orkas.tools import changeset
from orkas.tools.changeset import Change
from orkas.tools.diffs import unified
from orkas.tools.exact import encoded, form_kept, fresh
from orkas.tools.files import MAX_EDIT_BYTES, Seen, load
from orkas.tools.hunks import applied
from orkas.tools.patch_text import FilePatch, parse
from orkas.tools.text import form_of, kind_of_bytes

__all__ = ["ApplyPatch"]


class ApplyPatchInput(msgspec.Struct, forbid_unknown_fields=True):
    patch: Annotated[str, Meta(description="The whole patch, from '*** Begin Patch' to '*** End Patch'.")]


class ApplyPatch:
    """The ``apply_patch`` tool. Everything is matched before anything is written; a failure leaves all as it was."""

    name = "apply_patch"
    description = (
        "Change several places or files, all or nothing. Between '*** Begin Patch' and '*** End Patch': '*** Add File:"
        " path' (each line with +), '*** Delete File: path', '*** Update File: path' (optional '*** Move to: path',"
        " then hunks: '@@' or '@@ def name():', then lines that begin with ' ' (stay), '-' (go) or '+' (come), 3"
        " that stay around each change). A unified diff works too. Read the files first."
    )
    parameters = schema_of(ApplyPatchInput)

    def __init__(self, seen: Seen, *, before: Callable[[str], None] = lambda _what: None) -> None:
        """``before``: called before each step that changes something on disk; see ``changeset.apply``."""
        self._seen = seen
        self._before = before

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, ApplyPatchInput)
        return await in_thread(self._apply, given.patch, context)

    def touches(self, arguments: dict[str, Any], context: ToolContext) -> list[Path]:
        """The files that the patch names; none when it cannot be read, for then nothing is changed."""
        with suppress(ToolFailed):
            named = [name for f in parse(str(arguments.get("patch", ""))) for name in (f.path, f.to) if name]
            return [Place(context.cwd, name).real for name in named]
        return []

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """The unified diff of what the call would change; nothing is written. Reads the files: call it in a thread.

        Raises:
            ToolFailed: as the call would.
        """
        given = check_arguments(arguments, ApplyPatchInput)
        return "".join(one.diff() for one in self._planned(parse(given.patch), context))

    def _apply(self, patch: str, context: ToolContext) -> ToolResult:
        healed = changeset.heal()
        files = parse(patch)
        with ExitStack() as stack:
            for place in sorted({str(p.real): p for p in _places(files, context)}.items()):
                stack.enter_context(self._seen.alone(place[1]))
            planned = self._planned(files, context)
            context.abort.check()
            changeset.apply([c for one in planned for c in one.changes()], self._seen, before=self._before)
        return ToolResult("\n".join([one.told for one in planned] + [f"[{text}]" for text in healed]))

    def _planned(self, files: list[FilePatch], context: ToolContext) -> list[_Planned]:
        """Every file of the patch, matched against what is there."""
        _check_names(files, context)
        return [self._plan(file, context) for file in files]

    def _plan(self, file: FilePatch, context: ToolContext) -> _Planned:
        place = _place(file.path, context)
        if file.kind == "add":
            _check_free(place)
            return _Planned(file, place, None, new=file.content)
        data, old = self._load(place, context, binary=file.kind == "delete" and not file.hunks)
        if file.kind == "delete":
            text = _text(data)
            if file.hunks and text is not None:
                applied(text, file.hunks, place.name, context.abort)  # a diff that deletes says what it deletes
            return _Planned(file, place, old, text=text, data=data)
        to = _place(file.to, context) if file.to is not None else None
        if to is not None:
            _check_free(to, but=place)
        if not file.hunks:
            return _Planned(file, place, old, text=_text(data), data=data, to=to, after=data)
        form = form_kept(data, place.name)
        text = form.decode(data)
        new = applied(text, file.hunks, place.name, context.abort)
        if len(new) > MAX_EDIT_BYTES:
            raise ToolFailed(f"{place.name} would grow beyond {MAX_EDIT_BYTES // 2**20} MB; nothing was changed")
        if new == text and to is None:
            raise ToolFailed(f"the patch changes nothing in {place.name}: what goes and what comes are the same")
        added = "".join(line for hunk in file.hunks for sign, line in hunk.lines if sign == "+")
        after = encoded(form, text, added, new, place.name)
        return _Planned(file, place, old, text=text, data=data, to=to, new=new, after=after)

    def _load(self, place: Place, context: ToolContext, *, binary: bool) -> tuple[bytes, os.stat_result]:
        context.abort.check()
        with place.parent() as folder:
            descriptor = folder.open(place.parts[-1])
            try:
                data = b"" if binary and os.fstat(descriptor).st_size > MAX_EDIT_BYTES else load(descriptor, place.name)
                if self._seen.changed(place, descriptor):
                    self._seen.note(place, descriptor)
                    raise ToolFailed(f"{place.name} has changed since you read it; no file was changed.{fresh(data)}")
                return data, os.fstat(descriptor)
            finally:
                os.close(descriptor)


class _Planned(msgspec.Struct, eq=False):
    """One file of a patch, ready to be written."""

    file: FilePatch
    place: Place
    old: os.stat_result | None
    text: str | None = None
    """What is in it; None: no file, or no text."""
    data: bytes = b""
    to: Place | None = None
    new: str | None = None
    """What will be in it."""
    after: bytes | None = None

    def changes(self) -> list[Change]:
        match self.file.kind:
            case "add":
                data = (self.new or "").encode("utf-8", "surrogateescape")
                return [Change(self.place, data, executable=self.file.executable)]
            case "delete":
                return [Change(self.place, None, self.old)]
            case "update":
                if self.to is None:
                    return [Change(self.place, self.after, self.old)]
                gone = Change(self.place, None, self.old, moves=True)
                return [gone, Change(self.to, self.after, source=gone)]

    @property
    def told(self) -> str:
        match self.file.kind:
            case "add":
                lines = (self.new or "").count("\n")
                return f"added {self.place.name} ({counted(lines, 'line')})"
            case "delete":
                return f"deleted {self.place.name} (it is in the trash)"
            case "update":
                count = len(self.file.hunks)
                changes = f" ({counted(count, 'change')})" if count else ""
                links = "; its other hard links keep the old content" if self.old and self.old.st_nlink > 1 else ""
                if self.to is not None:
                    return f"moved {self.place.name} to {self.to.name}{changes}{links}"
                return f"updated {self.place.name}{changes}{links}"

    def diff(self) -> str:
        before, after = f"a/{self.place.name}", f"b/{(self.to or self.place).name}"
        if self.file.kind != "add" and self.text is None:
            verb = "deleted" if self.file.kind == "delete" else f"moved to {(self.to or self.place).name}"
            return f"{self.place.name}: {kind_of_bytes(self.data)}, {verb}\n"
        if self.file.kind == "delete":
            return unified(self.text, None, before, after)
        if self.to is not None and self.new is None:
            return f"rename from {self.place.name}\nrename to {self.to.name}\n"
        return unified(self.text, self.new, before, after)


def _text(data: bytes) -> str | None:
    form = form_of(data)
    return form.decode(data) if form is not None else None


def _place(path: str, context: ToolContext) -> Place:
    place = Place(context.cwd, path)
    if path.endswith("/") or not place.parts:
        raise ToolFailed(f"{shown(path)} names a folder; a patch changes files; nothing was changed")
    return place


def _places(files: list[FilePatch], context: ToolContext) -> list[Place]:
    return [_place(name, context) for file in files for name in (file.path, file.to) if name]


def _check_names(files: list[FilePatch], context: ToolContext) -> None:
    """No file is named twice, nor two that are one where case does not count."""
    named: dict[str, tuple[int, str]] = {}
    for number, file in enumerate(files):
        for name in filter(None, (file.path, file.to)):
            other, spelt = named.setdefault(str(_place(name, context).real).casefold(), (number, name))
            if other == number:
                continue
            if spelt == name:
                raise ToolFailed(
                    f"{shown(name)} is named twice (again in line {file.line} of the patch); put all its changes under"
                    " one header; nothing was changed"
                )
            raise ToolFailed(
                f"{shown(spelt)} and {shown(name)} are one file, or would be where upper and lower case are the same;"
                " name one of them; nothing was changed"
            )


def _check_free(place: Place, *, but: Place | None = None) -> None:
    """Nothing has this name yet, also where case does not count. ``but``: the file that moves here."""
    name = place.parts[-1]
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(place.real.parent)  # noqa: PTH208 - names alone, no objects
        twins = [n for n in names if n.casefold() == name.casefold()]
        if but is not None and but.real.parent == place.real.parent:
            twins = [n for n in twins if n != but.parts[-1]]
        if name in twins:
            raise ToolFailed(
                f"{place.name} exists already; change it with '*** Update File: {place.name}', or choose another name;"
                " nothing was changed"
            )
        if twins:
            raise ToolFailed(
                f"{place.name} differs only in case from {shown(twins[0])}, which exists, and would be one file with it"
                " on other systems; choose another name; nothing was changed"
            )
