"""How much a command line removes, counted on the disk, from the folder in which each of its commands is started."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from orkas.harness.commands.danger import Started, judged
from orkas.harness.policy.matching import is_pattern, matches, whole_path

__all__ = ["MANY_FILES", "removes_much"]

MANY_FILES = 200
"""Files that one command line may remove without being asked about."""
_EVERYTHING = "it removes everything in a folder"
_UNTOLD = "how much it removes is known only when it runs"

_REMOVERS = frozenset({
    "rm", "grm", "unlink", "shred", "gshred", "truncate", "gtruncate", "trash", "trash-put", "rmtrash", "rimraf", "del",
    "srm", "wipe",
})  # fmt: skip
"""Programs that remove, empty or overwrite what they are given."""
_TREES = frozenset({"trash", "trash-put", "rmtrash", "rimraf", "wipe"})
"""Of these, those that take folders with all that is in them without being told to."""
_VALUED = {"truncate": ("-s", "-r"), "gtruncate": ("-s", "-r"), "shred": ("-n", "-s"), "gshred": ("-n", "-s")}
_IN_TEXT = re.compile(rf"\b({'|'.join(map(re.escape, sorted(_REMOVERS)))})\b|-delete\b")
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR].*|--r\w*")
_LOCKED = re.compile(r"0?[0-3][0-7]{2}|[ua]*-[wxst]*r[wxst]*|[ua]*=[wx]*")
"""Modes of ``chmod`` by which the owner can read nothing any more."""


def removes_much(command: str, cwd: Path) -> list[str]:
    """What speaks against the deletions in a command line, though they stay in the working folder."""
    found: list[str] = []
    left = MANY_FILES
    for one in judged(command).commands:
        name = posixpath.basename(one.argv[0]).casefold() if one.argv else ""
        if name in ("find", "gfind", "fd", "fdfind"):
            found += [f"{name} {how} removes what it finds, however much that is" for how in _found(one.argv)]
            continue
        folder = _folder(name, one)
        for targets, tree in _removed(name, one):
            if reason := _against(targets, cwd, folder, tree=tree):
                found.append(reason)
            left -= _count(targets, cwd, folder, left, tree=tree)
    if left < 0:
        found.append(f"it removes more than {MANY_FILES} files")
    return list(dict.fromkeys(found))


def _found(argv: Sequence[str]) -> Iterable[str]:
    """How ``find`` removes what it finds."""
    if "-delete" in argv:
        yield "-delete"
    for i, word in enumerate(argv):
        if re.fullmatch(r"-(exec|ok)(dir)?|-x|-X|--exec(-batch)?", word):
            behind = argv[i + 1 :]
            stop = next((n for n, text in enumerate(behind) if text in (";", "+")), len(behind))
            if any(_IN_TEXT.search(posixpath.basename(text) if " " not in text else text) for text in behind[:stop]):
                yield word


def _folder(name: str, one: Started) -> str | None:
    """Where a command works: ``git -C`` goes elsewhere first."""
    folder = one.cwd
    for flag, value in zip(one.argv, one.argv[1:], strict=False):
        if name == "git" and flag == "-C" and folder is not None:
            folder = posixpath.join(folder, value)
    return folder


def _removed(name: str, one: Started) -> Iterable[tuple[list[tuple[str, bool]], bool]]:
    """What a command removes, each with whether it is told by the text; whether folders go with all that is in them."""
    rest = list(zip(one.argv[1:], one.sure[1:], strict=True))
    words = [text for text, _ in rest]
    if name == "git":
        rest = _behind_verb(rest, "rm")
        if any(text == "--cached" or re.fullmatch(r"-[rfq]*n[rfqn]*|--dry-run", text) for text, _ in rest):
            return
        rest = [("." if text.startswith(":") else text, sure) for text, sure in rest]
        name = "rm" if rest else name
    elif name in ("gio", "kioclient", "kioclient5") and words[:1] in (["trash"], ["remove"]):
        name, rest = "rimraf", rest[1:]
    elif (name in ("tar", "gtar") and any(len(w) > 5 and "--remove-files".startswith(w) for w in words)) or (
        name == "zip" and any(re.fullmatch(r"-[a-zA-Z]*m[a-zA-Z]*|--move", w) for w in words)
    ):
        name = "rimraf"
    elif name == "chmod" and any(_RECURSIVE.fullmatch(w) for w in words):
        bare = [pair for pair in rest if not _RECURSIVE.fullmatch(pair[0])]
        name, rest = ("rimraf", bare[1:]) if bare and _LOCKED.fullmatch(bare[0][0]) else ("", [])
    if name in _REMOVERS:
        flags, targets = _sorted(name, rest)
        yield targets, name in _TREES or any(_RECURSIVE.fullmatch(flag) for flag in flags)


def _behind_verb(rest: list[tuple[str, bool]], verb: str) -> list[tuple[str, bool]]:
    at = next((i for i, (text, _) in enumerate(rest) if text == verb), None)
    return [] if at is None else rest[at + 1 :]


def _sorted(name: str, rest: list[tuple[str, bool]]) -> tuple[list[str], list[tuple[str, bool]]]:
    """Flags and what is no flag."""
    flags: list[str] = []
    targets: list[tuple[str, bool]] = []
    only = skip = False
    for text, sure in rest:
        if skip:
            skip = False
        elif text == "--" and not only:
            only = True
        elif text.startswith("-") and len(text) > 1 and not only:
            flags.append(text)
            skip = text in _VALUED.get(name, ())
        else:
            targets.append((text, sure))
    return flags, targets


def _against(targets: Iterable[tuple[str, bool]], cwd: Path, folder: str | None, *, tree: bool) -> str:
    root = os.path.realpath(cwd)
    for text, sure in targets:
        path = whole_path(text, cwd, folder)
        if not sure or path is None:
            return _UNTOLD
        last = re.sub(r"\[[^\]]*\]", "?", text.rstrip("/").rpartition("/")[2])
        if re.fullmatch(r"[*.?]*\*[*.?]*" if not tree else r"[*.?]+", last):
            return _EVERYTHING
        if tree and not is_pattern(text) and Path(root).is_relative_to(os.path.realpath(path)):
            return _EVERYTHING
    return ""


def _count(targets: Iterable[tuple[str, bool]], cwd: Path, folder: str | None, limit: int, *, tree: bool) -> int:
    """How many files go, counted up to ``limit`` + 1."""
    count = 0
    for text, _ in targets:
        path = whole_path(text, cwd, folder)
        for one in matches(path, limit + 1) if path and limit >= 0 else ():
            count += _below(one, limit - count) if tree else 1
            if count > limit:
                return count
    return count


def _below(path: str, limit: int) -> int:
    """A file, or the files and folders below a folder, up to ``limit`` + 1."""
    count, waiting = 0, [path]
    while waiting and count <= limit:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    count += 1
                    if count > limit:
                        break
        except OSError:
            count += 1
    return count
