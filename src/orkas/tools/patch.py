"""Changing several files at once, by a patch: all of it or nothing."""

from __future__ import annotations

import os
import stat as st
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.abort import Abort
from orkas.infra.amounts import counted
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Place, shown
from orkas.infra.threads import in_thread
from orkas.tools import changeset
from orkas.tools.changeset import Change
from orkas.tools.diffs import unified
from orkas.tools.exact import check_characters, encoded, form_kept, fresh, shows_whole
from orkas.tools.files import MAX_EDIT_BYTES, Seen, check_spelling, load, spelt
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
            return [place.real for place in _places(parse(str(arguments.get("patch", ""))), context)]
        return []

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """The unified diff of what the call would change; nothing is written. Reads the files: call it in a thread.

        Raises:
            ToolFailed: as the call would.
        """
        given = check_arguments(arguments, ApplyPatchInput)
        return "".join(one.diff() for one in self._planned(parse(given.patch), context, note=False))

    def _apply(self, patch: str, context: ToolContext) -> ToolResult:
        healed = changeset.heal()
        files = parse(patch)
        with ExitStack() as stack:
            for place in sorted({str(p.real): p for p in _places(files, context)}.items()):
                stack.enter_context(self._seen.alone(place[1]))
            planned = self._planned(files, context, note=True)
            context.abort.check()
            changeset.apply([c for one in planned for c in one.changes()], self._seen, before=self._before)
        return ToolResult("\n".join([one.told for one in planned] + [f"[{text}]" for text in healed]))

    def _planned(self, files: list[FilePatch], context: ToolContext, *, note: bool) -> list[_Planned]:
        """Every file of the patch, matched against what is there. ``note``: what is told of a file is known then."""
        _check_names(files, context)
        return [self._plan(file, context, note) for file in files]

    def _plan(self, file: FilePatch, context: ToolContext, note: bool) -> _Planned:
        place = _place(file.path, context, itself=_itself(file))
        if file.kind == "add":
            _check_free(place)
            check_characters(file.content, "the patch")
            return _Planned(file, place, None, new=file.content)
        to = _place(file.to, context, itself=_itself(file)) if file.to is not None else None
        if to is not None:
            _check_free(to, but=place)
        if (link := _link(place)) is not None:
            return _planned_link(file, place, link, to, context.abort)
        data, old = self._load(place, context, binary=file.kind == "delete" and not file.hunks, note=note)
        if file.kind == "delete":
            text = _text(data)
            if file.hunks and text is not None:
                applied(text, file.hunks, place.name, context.abort)  # a diff that deletes says what it deletes
            return _Planned(file, place, old, text=text, data=data)
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
        check_characters(added, "the patch", text)
        after = encoded(form, text, added, new, place.name)
        return _Planned(file, place, old, text=text, data=data, to=to, new=new, after=after)

    def _load(
        self, place: Place, context: ToolContext, *, binary: bool, note: bool
    ) -> tuple[bytes, os.stat_result]:
        context.abort.check()
        with spelt(place), place.parent() as folder:
            descriptor = folder.open(place.parts[-1])
            try:
                data = b"" if binary and os.fstat(descriptor).st_size > MAX_EDIT_BYTES else load(descriptor, place.name)
                if self._seen.changed(place, descriptor):
                    if note and shows_whole(data):
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
    link: str | None = None
    """It is a link, and leads there."""

    def changes(self) -> list[Change]:
        match self.file.kind:
            case "add":
                data = (self.new or "").encode("utf-8", "surrogateescape")
                return [Change(self.place, data, executable=self.file.executable)]
            case "delete":
                return [Change(self.place, None, self.old, was=self._was)]
            case "update":
                if self.to is None:
                    return [Change(self.place, self.after, self.old, was=self._was)]
                gone = Change(self.place, None, self.old, was=self._was, moves=True)
                return [gone, Change(self.to, self.after, source=gone, link=self.link)]

    @property
    def _was(self) -> bytes | None:
        return self.data if self.old is not None and len(self.data) == self.old.st_size else None

    @property
    def told(self) -> str:
        if self.link is not None and self.to is not None:
            return f"moved the link {self.place.name} to {self.to.name}; it still says {shown(self.link)}"
        match self.file.kind:
            case "add":
                lines = (self.new or "").count("\n")
                return f"added {self.place.name} ({counted(lines, 'line')})"
            case "delete":
                what = f"the link {self.place.name}" if self.link is not None else self.place.name
                return f"deleted {what} (it is in the trash)"
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
            what = f"link to {shown(self.link)}" if self.link is not None else kind_of_bytes(self.data)
            return f"{self.place.name}: {what}, {verb}\n"
        if self.file.kind == "delete":
            return unified(self.text, None, before, after)
        if self.to is not None and self.new is None:
            return f"rename from {self.place.name}\nrename to {self.to.name}\n"
        return unified(self.text, self.new, before, after)


def _text(data: bytes) -> str | None:
    form = form_of(data)
    return form.shown(data) if form is not None else None


def _itself(file: FilePatch) -> bool:
    """A link of this name is meant itself, as it is for ``rm`` and ``mv``, not what it leads to."""
    return file.kind == "delete" or file.to is not None


def _link(place: Place) -> str | None:
    """Where the link at this place leads; None: it is none, or is not there."""
    try:
        with place.parent() as folder:
            name = place.parts[-1]
            return folder.link_target(name) if st.S_ISLNK(folder.stat(name).st_mode) else None
    except (OSError, ToolFailed):
        return None


def _planned_link(file: FilePatch, place: Place, link: str, to: Place | None, abort: Abort) -> _Planned:
    with place.parent() as folder:
        old = folder.stat(place.parts[-1])
    if file.hunks and file.kind == "delete":
        applied(link, file.hunks, place.name, abort)  # as git writes a link: its target is its text
    elif file.hunks:
        raise ToolFailed(
            f"{place.name} is a link to {shown(link)}; name that file to change it, or move the link without changes;"
            " nothing was changed"
        )
    return _Planned(file, place, old, to=to, link=link)


def _place(path: str, context: ToolContext, *, itself: bool = False) -> Place:
    place = Place(context.cwd, path, itself=itself)
    if path.endswith("/") or not place.parts:
        raise ToolFailed(f"{shown(path)} names a folder; a patch changes files; nothing was changed")
    return place


def _places(files: list[FilePatch], context: ToolContext) -> list[Place]:
    named = [(name, file) for file in files for name in (file.path, file.to) if name]
    return [_place(name, context, itself=_itself(file)) for name, file in named]


def _check_names(files: list[FilePatch], context: ToolContext) -> None:
    """No file is named twice, nor two that are one where case does not count."""
    named: dict[str, tuple[int, str]] = {}
    _check_folders(files, context)
    for number, file in enumerate(files):
        for name in filter(None, (file.path, file.to)):
            other, spelt = named.setdefault(_key(name, file, context), (number, name))
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


def _key(name: str, file: FilePatch, context: ToolContext) -> str:
    return str(_place(name, context, itself=_itself(file)).real).casefold()


def _check_folders(files: list[FilePatch], context: ToolContext) -> None:
    """Nothing is a file and a folder at once."""
    places = _places(files, context)
    named = {str(place.real): place for place in places}
    for place in places:
        for parent in place.real.parents:
            if (file := named.get(str(parent))) is not None:
                raise ToolFailed(
                    f"{file.name} cannot be a file of this patch and the folder of {place.name}; choose another name,"
                    " or make two patches if the file goes first; nothing was changed"
                )


def _check_free(place: Place, *, but: Place | None = None) -> None:
    """Nothing has this name yet, also where case does not count. ``but``: the file that moves here."""
    name = place.parts[-1]
    check_spelling(place)
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(place.real.parent)  # noqa: PTH208 - names alone, no objects
        twins = [n for n in names if n.casefold() == name.casefold()]
        if but is not None and but.real.parent == place.real.parent:
            twins = [n for n in twins if n != but.parts[-1]]
        if name in twins and place.real.is_dir() and not place.real.is_symlink():
            raise ToolFailed(f"{place.name} is a folder; choose another name; nothing was changed")
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
