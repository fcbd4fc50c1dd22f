"""Files that git and other programs obey: whoever changes one is asked about, be it a file tool or a command, and
whatever name, link or pattern leads to it."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from orkas.harness.commands.danger import Started, judged
from orkas.harness.commands.effects import effects_of
from orkas.harness.commands.known import SHELLS, is_git, plain_name
from orkas.harness.commands.reading import KNOWN
from orkas.harness.policy.matching import is_pattern, matches, whole_path
from orkas.infra.sandbox.protected import NAMES

__all__ = ["changed_by", "why"]

_MOST_PATHS = 500
"""Paths of one command line beyond which a person looks."""
_ALL_CHANGED = frozenset({
    "rm", "grm", "unlink", "rmdir", "mv", "gmv", "touch", "tee", "truncate", "shred", "mkdir", "chmod", "sponge",
    "trash", "trash-put",
})  # fmt: skip
"""Programs that change whatever they are given."""
_INTO = frozenset({"cp", "gcp", "mv", "gmv", "ln", "gln", "install", "ginstall"})
"""Programs that put what they are given into the last place they are given."""
_TARGET = re.compile(r"(?:-[a-zA-Z]*t|--t[a-z-]*=?)(.*)", re.DOTALL)
_IN_PLACE = re.compile(r"-[a-zA-Z0]*i.*|--in-.*")
_OUTPUT = re.compile(r"(?:-[a-zA-Z]{0,3}o|--o[a-z-]*=)(.*)", re.DOTALL)
_LEFT_OUT = re.compile(r"--(ex|ig|sk)|!")
_NAMED = re.compile(r"(?<![\w.*!-])\.git[ .]*/+(?!\*)[\w.]", re.IGNORECASE)
"""A place in a folder of git, in whatever text."""


def why(path: str, cwd: Path) -> str:
    """Why a file is not changed unasked, as the end of a clause; empty: it may be."""
    root = os.path.realpath(cwd)
    there = os.path.relpath(os.path.realpath(cwd / path), root)
    for name in (_shown(path, cwd), there, root):
        parts = [plain_name(part) for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        if any(map(is_git, parts)):
            return "from which git runs programs"
        if parts and (parts[0] in NAMES or parts[-1] == ".gitmodules"):
            return "which other programs obey"
    return ""


def changed_by(command: str, cwd: Path) -> list[str]:
    """What of that a command line changes, as clauses, as far as its text and the disk tell."""
    found: dict[str, None] = {}
    for count, (path, program) in enumerate(_paths(command, cwd)):
        if count > _MOST_PATHS:
            return [*found, "it names more files than are looked at"]
        if reason := why(path, cwd):
            found[f"{program} changes {_shown(path, cwd)}, {reason}"] = None
    for one in judged(command).commands:
        if program := _handles_git(one, cwd):
            found[f"{program} may change files from which git runs programs"] = None
    return list(found)


def _shown(path: str, cwd: Path) -> str:
    whole = os.path.normpath(path)
    return os.path.relpath(whole, cwd) if os.path.isabs(whole) and Path(whole).is_relative_to(cwd) else path  # noqa: PTH117


def _paths(command: str, cwd: Path) -> Iterator[tuple[str, str]]:
    """Files that it writes, each from the root with the program that does."""
    line = judged(command)
    for path in (*line.written, *effects_of(command).written):
        yield from ((one, "it") for one in _all(path, cwd, "."))
    for one in line.commands:
        for path in _changed(one, cwd):
            yield from ((whole, posixpath.basename(one.argv[0])) for whole in _all(path, cwd, one.cwd))


def _all(path: str, cwd: Path, folder: str | None) -> Iterator[str]:
    whole = whole_path(path, cwd, folder)
    if whole is None:
        return
    if is_pattern(whole):
        yield from matches(whole)
    yield whole


def _changed(one: Started, cwd: Path) -> Iterator[str]:
    """What a program changes of what it is given."""
    name = posixpath.basename(one.argv[0]).casefold() if one.argv else ""
    rest = one.argv[1:]
    targets = [text for text in rest if not text.startswith("-")]
    if name in _ALL_CHANGED or (name in ("sed", "gsed", "perl") and any(map(_IN_PLACE.fullmatch, rest))):
        yield from targets
    if name in _INTO:
        given, folder = _into(rest, targets)
        yield folder
        inner = any(re.fullmatch(r"-[a-zA-Z]*T[a-zA-Z]*|--no-t[a-z-]*", text) for text in rest)
        for text in given:
            yield from (posixpath.join(folder, name) for name in _names(text, cwd, one.cwd, inner=inner))
    if name == "git":
        for text, behind in zip(rest, (*rest[1:], ""), strict=False):
            if output := _OUTPUT.fullmatch(text):
                yield output[1] or behind


def _names(text: str, cwd: Path, folder: str | None, *, inner: bool) -> Iterator[str]:
    """By which names a source arrives; ``inner``: what is in it goes there instead of itself."""
    last = posixpath.basename(text.rstrip("/"))
    if not is_pattern(last) and last not in (".", "..", ""):
        yield last
    whole = whole_path(text, cwd, folder)
    for path in matches(whole) if whole else ():
        yield posixpath.basename(path)
        if inner or last in (".", ".."):
            with suppress(OSError):
                yield from os.listdir(path)  # noqa: PTH208 - names alone


def _into(rest: Sequence[str], targets: list[str]) -> tuple[list[str], str]:
    """What is put where."""
    for at, text in enumerate(rest):
        if found := _TARGET.fullmatch(text):
            folder = found[1] or (rest[at + 1] if at + 1 < len(rest) else "")
            return [target for target in targets if target != folder], folder
    return (targets[:-1], targets[-1]) if len(targets) > 1 else ([], targets[0] if targets else "")


def _handles_git(one: Started, cwd: Path) -> str:
    """The name of a program that is not known only to read, and that is given a place in a folder of git."""
    name = posixpath.basename(one.argv[0]) if one.argv else ""
    if name.casefold() in KNOWN or name == "git" or not name:
        return ""
    before = ""
    for text in one.argv[1:]:
        left_out = _LEFT_OUT.match(text) or before in ("-x", "-E", "--exclude", "-path", "-not")
        if not left_out and (_NAMED.search(text) or _leads_to_git(text, cwd, one.cwd)):
            return name
        before = text
    return name if name.casefold() not in SHELLS and _NAMED.search(one.fed) else ""


def _leads_to_git(text: str, cwd: Path, folder: str | None) -> bool:
    """Whether an argument is the name of a file in a folder of git, through a link."""
    path = whole_path(re.sub(r"^-*[\w-]*=", "", text), cwd, folder)
    if path is None or "\n" in text:
        return False
    real = os.path.realpath(path)
    parts = os.path.relpath(real, os.path.realpath(cwd)).split("/")
    return any(map(is_git, parts)) and os.path.lexists(os.path.dirname(real))  # noqa: PTH120
