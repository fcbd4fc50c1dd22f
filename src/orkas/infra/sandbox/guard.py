"""Puts back, after a command, what could not be held while it ran.

A mount can hold what is there. It cannot hold a name that is missing without leaving something on the disk, nor a
link; and Landlock holds nothing inside the working folder. So what other programs would obey is looked at before and
after: what is new is set aside beside itself, where nobody obeys it; what was changed is written back as it was; a
repository made by the command keeps its history and loses what would run programs. Each is told, nothing is deleted.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

from msgspec import Struct

from orkas.infra.sandbox.bubblewrap import held
from orkas.infra.sandbox.folders import is_below, text_of
from orkas.infra.sandbox.profile import Profile
from orkas.infra.sandbox.protected import repositories

__all__ = ["Guard", "harmless"]

_MOST_BYTES = 1 << 20
"""Of a file that is kept to be put back; a larger one is only known by its size and time."""
_MOST_ENTRIES = 200
_SUFFIX = ".set-aside"


class _Seen(Struct, frozen=True):
    """What stood at a path."""

    kind: str
    """missing, file, link, folder or other."""
    mode: int = 0
    content: Any = None
    """Bytes, the target of a link, what lies in a folder; of a large file its size and time."""


_MISSING = _Seen("missing")


class Guard:
    """Looks when it is made, ``settle`` looks again. ``notes`` gets the sentences, from any thread."""

    def __init__(self, profile: Profile, *, everything: bool, notes: list[str]) -> None:
        self._cwd = profile.cwd
        self._notes = notes
        self._settled = False
        self._lock = threading.Lock()
        self._repositories = {os.path.realpath(git) for git in repositories(profile.cwd)}
        self._before = {
            path: _seen(path)
            for path in profile.protected
            if (everything or not held(profile.cwd, path)) and _counts(profile.cwd, path)
        }

    def settle(self) -> None:
        """Put back and tell; once, when nobody of the command is left."""
        with self._lock:
            if self._settled:
                return
            self._settled = True
        for path, before in self._before.items():
            try:
                self._compare(path, before)
            except OSError as error:
                self._notes.append(f"{self._name(path)} was changed and could not be put back: {error.strerror}")
        for git in repositories(self._cwd):
            if os.path.realpath(git) not in self._repositories:
                self._new_repository(git)

    def _compare(self, path: Path, before: _Seen) -> None:
        if _seen(path) == before:
            return
        if before.kind == "missing":
            aside = _set_aside(path)
            self._notes.append(f"{self._name(path)} is not for commands to make; it lies in {aside.name} now")
            return
        self._clear_the_way(path)
        aside_name = f"; what the command wrote lies in {_set_aside(path).name}" if os.path.lexists(path) else ""
        if _write(path, before):
            self._notes.append(f"{self._name(path)} is not for commands to change; it was put back{aside_name}")
        else:
            said = "was changed and could not be put back whole: look at it"
            self._notes.append(f"{self._name(path)} {said}{aside_name}")

    def _clear_the_way(self, path: Path) -> None:
        """Folders above it that became something else are set aside, so that nothing is written through a link."""
        for folder in reversed([p for p in path.parents if self._cwd in p.parents]):
            if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
                _set_aside(folder)
            folder.mkdir(exist_ok=True)

    def _new_repository(self, git: Path) -> None:
        try:
            for folder in self._folders_of(git):
                for path in _dangerous(folder):
                    aside = _set_aside(path)
                    self._notes.append(f"{self._name(path)} would run programs; it lies in {aside.name} now")
                    if path.name.startswith("config"):
                        path.write_text(harmless(text_of(aside)))
        except OSError as error:
            self._notes.append(f"{self._name(git)} is new and could not be made harmless: {error.strerror}")

    def _folders_of(self, git: Path) -> list[Path]:
        """The git folders that a new ``.git`` stands for; one outside the working folder is not followed."""
        target = Path(os.path.realpath(git))
        if os.path.isfile(target):
            pointed = text_of(target).removeprefix("gitdir:").strip()
            target = Path(os.path.realpath(git.parent / pointed)) if pointed and "\0" not in pointed else target
        if not is_below(target, [self._cwd]):
            aside = _set_aside(git)
            self._notes.append(f"{self._name(git)} leads out of the working folder; it lies in {aside.name} now")
            return []
        common = text_of(target / "commondir").strip()
        shared = Path(os.path.realpath(target / common)) if common and "\0" not in common else target
        if not is_below(shared, [self._cwd]):
            _set_aside(target / "commondir")
            shared = target
        return list(dict.fromkeys(p for p in (target, shared) if os.path.realpath(p) not in self._repositories))

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._cwd)) if path != self._cwd else "the working folder"


def _counts(cwd: Path, path: Path) -> bool:
    """Not what belongs to a repository that is not there: one that appears is looked at as a whole."""
    git = next((p for p in (path, *path.parents) if p.name == ".git" and cwd in p.parents), None)
    return git is None or os.path.isdir(git) or os.path.isfile(git) or os.path.islink(git)


def _seen(path: Path, left: list[int] | None = None) -> _Seen:
    left = left if left is not None else [_MOST_ENTRIES]
    left[0] -= 1
    try:
        info = path.lstat()
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISLNK(info.st_mode):
            return _Seen("link", 0, os.readlink(path))
        if stat.S_ISREG(info.st_mode):
            large = info.st_size > _MOST_BYTES
            return _Seen("file", mode, (info.st_size, info.st_mtime_ns) if large else path.read_bytes())
        if stat.S_ISDIR(info.st_mode):
            return _Seen("folder", mode, _inside(path, left))
        return _Seen("other", mode)
    except (FileNotFoundError, NotADirectoryError):
        return _MISSING
    except OSError:
        return _Seen("other")


_IN_MODULES = re.compile(r"^(config(\.worktree)?|commondir|gitdir|HEAD|hooks)$")


def _inside(folder: Path, left: list[int]) -> dict[str, _Seen]:
    """What lies in a folder; of the git folders in ``modules`` and ``worktrees`` what git obeys."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if left[0] <= 0:
            break
        if folder.parent.name not in ("modules", "worktrees") or _IN_MODULES.match(name):
            found[name] = _seen(folder / name, left)
    return found


def _set_aside(path: Path) -> Path:
    """Rename it to a name that nobody obeys, beside itself."""
    for number in range(1, 10_000):
        aside = path.with_name(f"{path.name}{_SUFFIX}{'' if number == 1 else f'-{number}'}")
        if not os.path.lexists(aside):
            path.rename(aside)
            return aside
    raise OSError(17, "too many files were set aside already")


def _write(path: Path, seen: _Seen) -> bool:
    """Make it as it was; False: some of it was too large to be kept."""
    match seen.kind:
        case "link":
            path.symlink_to(seen.content)
        case "file" if isinstance(seen.content, bytes):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(seen.content)
                os.fchmod(descriptor, seen.mode)
        case "folder":
            path.mkdir()
            wholes = [_write(path / name, inner) for name, inner in seen.content.items()]
            path.chmod(seen.mode)
            return all(wholes)
        case _:
            return False
    return True


# A repository that a command made


_MOST_CONFIG = 200_000
_HEADER = re.compile(r"\s*\[([A-Za-z0-9.-]+)(?:\s+\"([^\"\\]*)\")?\]\s*$")
_LINE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?))?\s*$")
_HARMLESS = {
    "core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
             "symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "sparsecheckout", "longpaths"},
    "user": {"name", "email", "useconfigonly"}, "init": {"defaultbranch"}, "pull": {"rebase", "ff"},
    "push": {"default", "autosetupremote"}, "remote": {"url", "fetch", "pushurl", "push", "tagopt", "prune"},
    "branch": {"remote", "merge", "rebase", "autosetuprebase"}, "submodule": {"active", "url"},
    "extensions": {"objectformat", "refstorage", "partialclone"}, "merge": {"ff", "conflictstyle"},
    "color": {"ui"}, "gc": {"auto"},
}  # fmt: skip


def harmless(config: str) -> str:
    """The lines of a git configuration that only hold values; what could run a program is left out."""
    kept: list[str] = []
    section = ""
    for line in config.split("\n"):
        if header := _HEADER.fullmatch(line):
            section = header[1].lower()
            keep = section in _HARMLESS
        elif not line.strip() or line.lstrip()[0] in "#;":
            keep = True
        else:
            found = _LINE.fullmatch(line)
            keep = found is not None and _is_harmless(section, found[1].lower(), found[2] or "")
        if keep:
            kept.append(line)
    return "\n".join(kept)


def _is_harmless(section: str, key: str, value: str) -> bool:
    if key not in _HARMLESS.get(section, ()) or "\r" in value or value.endswith("\\"):
        return False
    if key != "name" and ('"' in value or "\\" in value):  # words that git puts together otherwise than they look
        return False
    return not (key.endswith("url") and ("::" in value or value.startswith("-")))


def _dangerous(git: Path) -> list[Path]:
    """What in a new git folder would make git run programs."""
    found = []
    for name in ("config", "config.worktree"):
        path = git / name
        if os.path.lexists(path):
            text = text_of(path)
            if os.path.islink(path) or os.path.getsize(path) > _MOST_CONFIG or harmless(text) != text:
                found.append(path)
    hooks = git / "hooks"
    if os.path.islink(hooks):
        found.append(hooks)
    elif os.path.isdir(hooks):
        found += sorted(path for path in hooks.iterdir() if not path.name.endswith((".sample", _SUFFIX)))
    return found
