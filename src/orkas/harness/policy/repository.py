"""What git would obey in a folder: the repository that it takes the folder for, and whether a setting of it, or of one
of its submodules, could start a program while git only reads.

git's rules are not imitated where they are intricate: what is not plainly harmless counts against the repository. Only
looks.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from orkas.infra.sandbox.repositories import trail

__all__ = ["is_another_for_each", "settings_that_run"]

_MAX_TEXT = 100_000
_MAX_INDEX = 64_000_000
_MAX_REPOSITORIES = 500
"""Submodules, and theirs, that are looked at."""
_UNREADABLE = "settings that cannot be read"


class _Odd(Exception):
    """Something that might start a program; the argument names it."""


def settings_that_run(cwd: Path) -> str:
    """The first setting, or oddity, of the repository that this folder belongs to of which it is not known that it runs
    nothing; empty when there is none."""
    try:
        _must_stay(cwd)
        here = Path(os.path.realpath(cwd))
        for folder in (here, *here.parents):
            if os.path.lexists(marker := folder / ".git"):
                _look(folder, _led_to(marker), {})
            elif _looks_bare(folder):
                _look(folder, folder, {})
            else:
                continue
            break
    except _Odd as odd:
        return str(odd)
    except (OSError, ValueError):
        return _UNREADABLE
    return ""


def _looks_bare(folder: Path) -> bool:
    def has(name: str) -> bool:
        return os.path.lexists(folder / name)

    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))


def _led_to(marker: Path) -> Path:
    """What a ``.git`` stands for."""
    if marker.is_dir():
        return marker
    found = re.fullmatch(r"gitdir: ([^\n]+)\n?", _text(marker))
    if not found:
        raise _Odd("a .git file that cannot be read")
    return marker.parent / found[1]


def _look(root: Path, git: Path, seen: dict[str, None]) -> None:
    """Every setting of one repository whose files lie in ``root``, and those of its submodules."""
    name = os.path.realpath(root)
    if name in seen:
        return
    seen[name] = None
    if len(seen) > _MAX_REPOSITORIES:
        raise _Odd("more submodules than are looked at")
    common = _common(git)
    _must_be_one(git, common)
    for folder in dict.fromkeys((git, common)):
        for file in ("config", "config.worktree"):
            _settings(folder / file, root)
    for path in _submodules(git):
        if os.path.lexists(marker := root / path / ".git"):
            _look(root / path, _led_to(marker), seen)


def _common(git: Path) -> Path:
    """The folder that holds what several working trees share."""
    if not os.path.lexists(git / "commondir"):
        return git
    found = re.fullmatch(r"([^\n]+)\n?", _text(git / "commondir"))
    if not found:
        raise _Odd("a commondir file that cannot be read")
    return git / found[1]


def _must_be_one(git: Path, common: Path) -> None:
    """One that git is sure to take for a repository: else it looks for another, further on."""
    head = git / "HEAD"
    text = _text(head) if head.is_file() and not head.is_symlink() else ""
    known = re.fullmatch(r"(ref: refs/\S{1,200}|[0-9a-f]{40})\n", text)
    if not known or not all(p.is_dir() and os.access(p, os.X_OK) for p in (common / "objects", common / "refs")):
        raise _Odd("a .git that git may not take for a repository")


# files


def is_another_for_each(path: Path) -> bool:
    """Whether a path leads through ``/proc`` or ``/dev``, where each process finds something of its own."""
    return any(step.parts[1:2] in (("proc",), ("dev",)) for step in trail(Path("/"), path))


def _must_stay(path: Path) -> None:
    if is_another_for_each(path):
        raise _Odd(f"{path.name} leads to a device")


def _content(path: Path, most: int) -> bytes:
    """What git would read under this name. Not a pipe."""
    _must_stay(path)
    if not path.is_file():
        raise _Odd(_UNREADABLE)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _Odd(_UNREADABLE)
    return content


def _text(path: Path) -> str:
    """Lines that hold nothing but characters that can be seen: of all others it is not known what git makes of them."""
    text = _content(path, _MAX_TEXT).decode().replace("\r\n", "\n")
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise _Odd(_UNREADABLE)
    return text


# settings

_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\](.*)')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?")


def _settings(path: Path, root: Path) -> None:
    if not os.path.lexists(path):
        return
    section = ""
    for whole in _text(path).split("\n"):
        line = whole.strip(" \t")
        if line.endswith("\\"):  # goes on in the next line, or looks so
            raise _Odd(_UNREADABLE)
        if found := _SECTION.fullmatch(line):
            section = f"{found[1]}.{found[2]}." if found[2] is not None else f"{found[1]}."
            line = found[3].strip(" \t")
        if not line or line[0] in "#;":
            continue
        key = _KEY.fullmatch(line)
        name = f"{section}{key[1]}" if key else line
        value = (key[2] or "").strip(" \t") if key else ""
        if not key or not (_is_harmless(name, value) or _is_own_tree(name, value, path, root)):
            raise _Odd(name)


_BY_VALUE = {
    "log.showsignature": r"false", "status.submodulesummary": r"false|0", "diff.submodule": r"log|short",
}  # fmt: skip
"""Settings of which some values alone are harmless: others start gpg, or git in a submodule of an earlier time."""
_INERT = re.compile(
    r"extensions\.worktreeconfig|core\.hookspath|remote\..+\.(gh-resolved|tagopt)|lfs\.repositoryformatversion",
    re.IGNORECASE,
)
"""Settings that start nothing while git reads: hooks are off then."""
_FORMAT = re.compile(r"format\.pretty|.*\.sort", re.IGNORECASE)


def _is_harmless(name: str, value: str) -> bool:
    from orkas.harness.commands.git import is_harmless
    from orkas.harness.commands.git_reading import checks_signatures

    if wanted := _BY_VALUE.get(name.casefold()):
        return re.fullmatch(wanted, value) is not None
    if _FORMAT.fullmatch(name) and ("\\" in value or checks_signatures(value.replace('"', ""))):
        return False
    return is_harmless(name) or _INERT.fullmatch(name) is not None


def _is_own_tree(name: str, value: str, path: Path, root: Path) -> bool:
    """The setting by which the git folder of a submodule names the submodule itself."""
    if name.casefold() != "core.worktree" or not re.fullmatch(r"[^\"\\#;]+", value):
        return False
    _must_stay(path.parent / value)
    return os.path.realpath(path.parent / value) == os.path.realpath(root)


# submodules: what the index of a repository says, not what .gitmodules says


def _submodules(git: Path) -> tuple[str, ...]:
    index = git / "index"
    if not os.path.lexists(index):
        return ()
    there = index.stat()
    return _read_index(index, (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns))


@functools.lru_cache(maxsize=16)
def _read_index(index: Path, stamp: tuple[int, ...]) -> tuple[str, ...]:
    """The paths of all submodules. ``stamp``: which content it is."""
    data = _content(index, _MAX_INDEX)
    version = int.from_bytes(data[4:8], "big")
    if data[:4] != b"DIRC" or version not in (2, 3) or data[-52:-48] == b"EOIE":
        raise _Odd("an index that cannot be read")
    at, found = 12, list[str]()
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = data[at + 60] << 8 | data[at + 61] if at + 62 < len(data) - 20 else 0x4000
        start = at + (64 if flags & 0x4000 else 62)
        end = data.find(b"\0", start)
        if end < 0 or (flags & 0x4000 and version < 3) or min(end - start, 0xFFF) != flags & 0xFFF:
            raise _Odd("an index that cannot be read")
        if data[at + 26] & 0xF0 == 0xE0:
            found.append(os.fsdecode(data[start:end]))
        at += (end - at + 8) & ~7
    if any(name in (b"link", b"sdir") or not name[:1].isupper() for name in _extensions(data, at)):
        raise _Odd("an index that is split")
    return tuple(found)


def _extensions(data: bytes, at: int) -> Iterator[bytes]:
    """What follows the entries of an index, by name."""
    while at < len(data) - 20:
        yield data[at : at + 4]
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
