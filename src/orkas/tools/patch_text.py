"""What a patch says: the envelope ``*** Begin Patch`` and unified diffs, read into one form. Touches no file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from orkas.infra.errors import ToolFailed
from orkas.infra.paths import shown
from orkas.infra.patterns import lazy

__all__ = ["FilePatch", "Hunk", "parse"]

MAX_CHARS = 1_000_000
MAX_FILES = 100
MAX_HUNKS = 1_000

BEGIN, END, TAIL = "*** Begin Patch", "*** End Patch", "*** End of File"
_KINDS: dict[str, Literal["add", "update", "delete"]] = {"Add": "add", "Update": "update", "Delete": "delete"}
_HEADER = lazy(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = lazy(r"\*\*\* (?:Move|Rename) to: (.+)")
_RANGE = lazy(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_HEREDOC = lazy(r"(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1")


class Hunk(msgspec.Struct):
    """One change of a file: lines that stay (" "), go ("-") and come ("+"), in order."""

    number: int
    """In its file, counted from 1."""
    line: int
    """Of the patch, counted from 1."""
    lines: list[tuple[str, str]] = []
    anchors: list[str] = []
    """Lines of the file that stand somewhere before the change, as ``@@ def run():`` names them."""
    at: int | None = None
    """The line that a unified diff says it begins at; a hint."""
    at_end: bool = False
    """The change ends where the file ends."""
    loose: int = 0
    """So many empty lines at the end may be no part of the change: nothing marks them as one."""
    ends: dict[str, bool] = {}
    """For "-" and "+": a diff says that this side has no newline at its end."""

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]


class FilePatch(msgspec.Struct):
    """What is to become of one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    line: int
    """Of the patch, counted from 1."""
    to: str | None = None
    hunks: list[Hunk] = []
    content: str = ""
    """Of an added file."""
    executable: bool = False


def parse(text: str) -> list[FilePatch]:
    """All files of a patch, in order.

    Raises:
        ToolFailed: it is no patch, or something in it cannot be read; the sentence names the line of the patch.
    """
    if len(text) > MAX_CHARS:
        raise ToolFailed(f"the patch has more than {MAX_CHARS:,} characters; send it in several parts")
    first, lines = _unwrapped(text.replace("\r\n", "\n").split("\n"))
    if not lines:
        raise ToolFailed(f"the patch is empty; it begins with {BEGIN!r} or is a unified diff")
    if lines[0].strip() == BEGIN:
        files = list(_Envelope(lines, first).files())
    elif any(line.startswith(("--- ", "diff --git ")) for line in lines):
        files = list(_Diff(lines, first).files())
    else:
        raise ToolFailed(
            f"this is no patch: it begins with {shown(lines[0][:60])!r} and not with {BEGIN!r}, nor is it a unified"
            " diff with '--- ' and '+++ ' lines"
        )
    if not files:
        raise ToolFailed("the patch changes no file; name one, as in '*** Update File: path'")
    if len(files) > MAX_FILES or sum(len(f.hunks) for f in files) > MAX_HUNKS:
        raise ToolFailed(f"the patch has more than {MAX_FILES} files or {MAX_HUNKS} hunks; send it in several parts")
    return files


def _unwrapped(lines: list[str]) -> tuple[int, list[str]]:
    """The lines without blank ones around them, code fences and here-document marks; and the number of the first."""
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    inner = lines[first:last]
    if len(inner) >= 2:
        mark = _HEREDOC.fullmatch(inner[0].strip())
        fenced = inner[0].startswith("```") and inner[-1].strip() == "```"
        if fenced or (mark and inner[-1].strip() == mark[2]):
            number, inner = _unwrapped(inner[1:-1])
            return first + 1 + number, inner
    while inner and inner[-1].strip() != END and last < len(lines) and lines[last] == " ":
        last += 1  # of a diff: an empty line that stays
    return first + 1, lines[first:last]


def _fail(line: int, text: str) -> ToolFailed:
    return ToolFailed(f"line {line} of the patch: {text}; nothing was changed")


def _number_hunks(file: FilePatch) -> FilePatch:
    for number, hunk in enumerate(file.hunks, 1):
        hunk.number = number
    return file


class _Envelope:
    """The form between ``*** Begin Patch`` and ``*** End Patch``."""

    def __init__(self, lines: list[str], first: int) -> None:
        if lines[-1].strip() != END:
            raise ToolFailed(f"the patch does not end with {END!r}, so it may be cut off; send it whole")
        self._lines = lines[:-1]
        self._first = first
        self._at = 1

    @property
    def _number(self) -> int:
        return self._first + self._at

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            if not self._lines[self._at].strip():
                self._at += 1
                continue
            yield self._file()

    def _file(self) -> FilePatch:
        line = self._lines[self._at].strip()
        found = _HEADER.fullmatch(line)
        if found is None:
            raise _fail(self._number, f"{shown(line[:80])!r} {_misread(line)}")
        file = FilePatch(_KINDS[found[1]], found[2].strip(), self._number)
        self._at += 1
        if file.kind == "add":
            file.content = self._content()
        elif file.kind == "update":
            self._update(file)
        return _number_hunks(file)

    def _content(self) -> str:
        """An empty line between others is one of the file: its mark was lost on the way."""
        lines: list[str] = []
        empty = 0
        for line in self._section():
            if not line.startswith("+"):
                if not line.strip():
                    empty += bool(lines)
                    continue
                raise _fail(self._number - 1, "in a file that is added every line begins with '+'")
            lines += ["\n"] * empty + [line[1:] + "\n"]
            empty = 0
        return "".join(lines)

    def _section(self) -> Iterator[str]:
        """Lines up to the next header; each is consumed as it is given."""
        while self._at < len(self._lines) and not self._lines[self._at].startswith("*** "):
            self._at += 1
            yield self._lines[self._at - 1]

    def _update(self, file: FilePatch) -> None:
        if self._at < len(self._lines) and (move := _MOVE.fullmatch(self._lines[self._at].strip())):
            file.to = move[1].strip()
            self._at += 1
        hunk: Hunk | None = None
        while True:
            for line in self._section():
                hunk = self._line(file, hunk, line)
            if self._at < len(self._lines) and self._lines[self._at].strip() == TAIL:
                if hunk is None:
                    raise _fail(self._number, f"{TAIL!r} stands before any change")
                hunk.at_end = True
                self._at += 1
                hunk = None
                continue
            break
        for one in file.hunks:
            _check_hunk(one)
        if not file.hunks and file.to is None:
            raise _fail(file.line, f"no change follows for {shown(file.path)}; add a hunk that begins with '@@'")

    def _line(self, file: FilePatch, hunk: Hunk | None, line: str) -> Hunk | None:
        number = self._number - 1
        if line.startswith("@@"):
            anchor = line[2:].strip()
            ranged = _RANGE.fullmatch(line)
            if ranged:
                anchor = ranged[5]
            if hunk is None or hunk.lines:
                hunk = Hunk(0, number)
                file.hunks.append(hunk)
            if ranged:
                hunk.at = int(ranged[1])
            elif anchor:
                hunk.anchors.append(anchor)
            return hunk
        if hunk is None:
            if not line.strip():
                return None
            hunk = Hunk(0, number)
            file.hunks.append(hunk)
        _take(hunk, line, number)
        return hunk


def _misread(line: str) -> str:
    found = re.fullmatch(r"\*\*\*\s*(add|update|delete)\s+file\s*([:：]?)\s*(.*)", line, re.IGNORECASE)
    if found:
        missing = "" if found[2] == ":" else " with a colon"
        return f"is written as '*** {found[1].capitalize()} File: path'{missing}"
    if line.startswith(("+", "-", " ", "@@")):
        return "belongs to no file: a line '*** Update File: path' must come first"
    return "is none of '*** Add File: path', '*** Update File: path' and '*** Delete File: path'"


def _take(hunk: Hunk, line: str, number: int) -> None:
    """Add one line of a hunk. An empty line is an empty line that stays: its blank was lost on the way."""
    if line.startswith("\\"):
        for sign in "-+" if hunk.lines and hunk.lines[-1][0] == " " else hunk.lines[-1][0] if hunk.lines else "":
            hunk.ends = {**hunk.ends, sign: True}
    elif line == "":
        hunk.lines.append((" ", ""))
        hunk.loose += 1
    elif line[0] in " +-":
        hunk.lines.append((line[0], line[1:]))
        hunk.loose = 0
    else:
        raise _fail(number, "a line of a hunk begins with ' ', '-' or '+'" f", and this one with {shown(line[0])!r}")


def _check_hunk(hunk: Hunk) -> None:
    if not any(sign in "+-" for sign, _ in hunk.lines):
        raise _fail(hunk.line, "this hunk changes nothing; mark what goes with '-' and what comes with '+'")


class _Diff:
    """Unified diffs of one or many files, as ``diff -u`` and ``git diff`` write them."""

    def __init__(self, lines: list[str], first: int) -> None:
        self._lines = lines
        self._first = first
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git ") or self._begins(self._at):
                yield self._file()
            elif line.startswith(("@@ ", "Binary files ", "GIT binary patch")):
                raise _fail(self._first + self._at, _ALONE if line.startswith("@@") else _BINARY)
            else:
                self._at += 1  # words between the files, as a commit message or "index …"

    def _begins(self, at: int) -> bool:
        following = self._lines[at + 1] if at + 1 < len(self._lines) else ""
        return self._lines[at].startswith("--- ") and following.startswith("+++ ")

    def _file(self) -> FilePatch:
        number = self._first + self._at
        head: dict[str, str] = {}
        if self._lines[self._at].startswith("diff --git "):
            self._at += 1
            head = self._extended()
        old, new = head.get("rename from"), head.get("rename to")
        if self._at < len(self._lines) and self._begins(self._at):
            a, b = _side(self._lines[self._at]), _side(self._lines[self._at + 1])
            self._at += 2
            a, b = _unprefixed(a, b)
            old, new = old or a, new or b
        if old is None or new is None:
            old, new = self._only_named(head, number)
        hunks = list(self._hunks())
        return _number_hunks(self._made(old, new, hunks, head, number))

    def _extended(self) -> dict[str, str]:
        """The lines of git between ``diff --git`` and ``---``."""
        names = (
            "old mode", "new mode", "new file mode", "deleted file mode", "rename from", "rename to", "copy from",
            "copy to", "similarity index", "dissimilarity index", "index",
        )  # fmt: skip
        head = {"": self._lines[self._at - 1]}
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(("Binary files ", "GIT binary patch")):
                raise _fail(self._first + self._at, _BINARY)
            name = next((n for n in names if line.startswith(f"{n} ")), None)
            if name is None:
                break
            head[name] = _unquoted(line[len(name) + 1 :])
            self._at += 1
        if "copy to" in head:
            raise _fail(self._first + self._at - 1, "copies are not applied; add the file with its content")
        modes = [head.get("new file mode", ""), head.get("new mode", ""), head.get("index", "").rpartition(" ")[2]]
        if "160000" in (*modes, head.get("deleted file mode")):
            raise _fail(self._first + self._at - 1, "submodules are not changed by a patch; use git in the shell")
        if "120000" in modes:
            raise _fail(self._first + self._at - 1, "links are not made or changed by a patch; use ln -s in the shell")
        if "old mode" in head:
            raise _fail(self._first + self._at - 1, "changes of a mode are not applied; use chmod in the shell")
        return head

    def _only_named(self, head: dict[str, str], number: int) -> tuple[str, str]:
        """An empty file that comes or goes has no ``---`` line."""
        both = head.get("", "").removeprefix("diff --git a/")
        half = (len(both) - len(" b/")) // 2
        name = both[:half]
        if name and both == f"{name} b/{name}" and "new file mode" in head:
            return "/dev/null", name
        if name and both == f"{name} b/{name}" and "deleted file mode" in head:
            return name, "/dev/null"
        raise _fail(number, "no '--- ' and '+++ ' lines follow, so it says of no file what changes")

    def _made(self, old: str, new: str, hunks: list[Hunk], head: dict[str, str], number: int) -> FilePatch:
        if old == "/dev/null":
            content = "\n".join(text for hunk in hunks for sign, text in hunk.lines if sign == "+")
            ended = not any(hunk.ends.get("+") for hunk in hunks)
            content += "\n" if ended and any(hunk.lines for hunk in hunks) else ""
            return FilePatch(
                "add", new, number, content=content, executable=head.get("new file mode", "").endswith("755")
            )
        if new == "/dev/null":
            return FilePatch("delete", old, number, hunks=hunks)
        if not hunks and old == new:
            raise _fail(number, f"no change follows for {shown(old)}")
        return FilePatch("update", old, number, to=new if new != old else None, hunks=hunks)

    def _hunks(self) -> Iterator[Hunk]:
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@"):
            found = _RANGE.fullmatch(self._lines[self._at])
            hunk = Hunk(0, self._first + self._at)
            if found:
                hunk.at = int(found[1])
            elif anchor := self._lines[self._at].strip("@ "):
                hunk.anchors.append(anchor)
            self._at += 1
            end = self._counted(found) if found else None
            self._body(hunk, end if end is not None else self._guessed())
            _check_hunk(hunk)
            yield hunk

    def _counted(self, found: re.Match[str]) -> int | None:
        """Where the hunk ends by the counts of its header; None: they cannot be right."""
        old, new = int(found[2] or "1"), int(found[4] or "1")
        at = self._at
        while (old > 0 or new > 0) and at < len(self._lines):
            sign = self._lines[at][:1]
            if sign == "\\":
                at += 1
                continue
            if sign not in ("", " ", "-", "+"):
                return None
            old -= sign != "+"
            new -= sign != "-"
            at += 1
        if old or new:
            return None
        while at < len(self._lines) and self._lines[at].startswith("\\"):
            at += 1
        following = self._lines[at] if at < len(self._lines) else ""
        return None if following[:1] in (" ", "+") or (following[:1] == "-" and not self._begins(at)) else at

    def _guessed(self) -> int:
        """Where the hunk ends by what follows; models miscount."""
        at = self._at
        while at < len(self._lines):
            if self._lines[at].startswith(("@@", "diff --git ")) or self._begins(at):
                break
            if self._lines[at][:1] not in ("", " ", "-", "+", "\\"):
                break
            at += 1
        return at

    def _body(self, hunk: Hunk, end: int) -> None:
        while self._at < end:
            _take(hunk, self._lines[self._at], self._first + self._at)
            self._at += 1


_ALONE = "this hunk belongs to no file; '--- path' and '+++ path' must come first"
_BINARY = "changes of binary files are not applied; write the file with a shell command"


def _side(line: str) -> str:
    """The path of a ``---`` or ``+++`` line, without the time that may follow a tab."""
    return _unquoted(line[4:].partition("\t")[0].rstrip())


def _unprefixed(old: str, new: str) -> tuple[str, str]:
    """Without the ``a/`` and ``b/`` of git, where both sides have them."""
    if (old == "/dev/null" or old.startswith("a/")) and (new == "/dev/null" or new.startswith("b/")):
        return old.removeprefix("a/"), new.removeprefix("b/")
    return old, new


def _unquoted(path: str) -> str:
    """Git writes odd names in quotes, with escapes for bytes."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path
    parts = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8) & 255]), path[1:-1].encode("utf-8"))
    simple = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b'"': b'"', b"\\": b"\\"}
    return re.sub(rb"\\(.)", lambda m: simple.get(m[1], m[1]), parts).decode("utf-8", "surrogateescape")
