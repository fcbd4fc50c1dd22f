"""Staying inside the working folder.

A path of the model is resolved once, must lie inside, and is then opened folder by folder through handles that follow
no link: a link that somebody puts there between the check and the opening is refused, not followed. Links from
inside to inside work, and the working folder itself may be reached through one. Where the system has no handles for
folders (Windows) the path is resolved again right before it is used.
"""

from __future__ import annotations

import errno
import os
import stat as st
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from orkas.infra.errors import ToolFailed
from orkas.infra.home import home

__all__ = ["Folder", "Place", "is_ours", "kind_of", "odd_on_windows", "said", "shown"]

_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CAREFUL = _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    st.S_IFREG: "file", st.S_IFDIR: "folder", st.S_IFLNK: "link", st.S_IFIFO: "named pipe", st.S_IFSOCK: "socket",
    st.S_IFCHR: "device", st.S_IFBLK: "device",
}  # fmt: skip


def kind_of(mode: int) -> str:
    """The kind of a file in a word a person knows."""
    return _KINDS.get(st.S_IFMT(mode), "special file")


def shown(name: str) -> str:
    """A file name that is safe on a line of text: control characters and undecodable bytes as escapes."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else _escaped(c) for c in name)


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_DEVICES = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"}) | {
    f"{name}{digit}" for name in ("com", "lpt") for digit in "0123456789¹²³"
}


def odd_on_windows(path: str) -> str:
    """Why Windows would not take this path for a plain one on a drive; empty: it would. Text alone, on any system."""
    plain = path.replace("/", "\\")
    if plain.startswith(("\\\\", "\\??\\")):
        return "names a device or another machine"
    drive, _, rest = plain.partition(":")
    if _ and len(drive) == 1 and not rest.startswith("\\"):
        return "means another place on each day: it is relative to the current folder of a drive"
    if ":" in rest or (_ and len(drive) != 1):
        return "names a stream inside a file"
    for part in plain.split("\\"):
        if part.rstrip(" .").partition(".")[0].rstrip(" ").casefold() in _DEVICES:
            return "names a device"
        if part.strip(".") and part != part.rstrip(" ."):
            return "ends in a blank or a dot, which Windows drops"
    return ""


_SHOWN_NAME = 60
"""Characters that are shown of a name which is too long."""


def said(error: OSError, name: str) -> ToolFailed:
    """A system error about one path, as one sentence for the model."""
    if error.errno == errno.ENAMETOOLONG:
        return ToolFailed(f"{_cut(name)} is too long for a path here; choose a shorter one")
    if error.errno == errno.EROFS:
        return ToolFailed(f"{shown(name)} lies in a file system that is read-only")
    if error.errno == errno.ENOENT:
        return ToolFailed(f"{shown(name)} does not exist; list_files shows what does")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return ToolFailed(f"{shown(name)} is a link that goes in circles or has just changed; name its target")
    return ToolFailed(f"{shown(name)}: {error.strerror or error}")


class Place:
    """One path inside the working folder, checked. ``root`` and ``parts`` hold no link at the time of the check."""

    def __init__(self, cwd: Path, path: str, *, also: Path | None = None, itself: bool = False) -> None:
        """``also``: a second folder (of whole outputs) that an absolute path may point into. ``itself``: a link at the
        end of the path is meant, not what it leads to.

        Raises:
            ToolFailed: the path leads out of the working folder, or into Orkas' own data, or is longer than a path or
                a name can be here.
        """
        if "\0" in path:
            raise ToolFailed("a path cannot hold a NUL character")
        if os.name == "nt" and (odd := odd_on_windows(path)):
            raise ToolFailed(f"{shown(path)} {odd}; give a path relative to the working folder")
        self.given = path or "."
        self._cwd = cwd
        expanded = os.path.expanduser(path) if path.startswith("~/") else path  # noqa: PTH111 - keeps the rest as it is
        self.real = _unfollowed(cwd / expanded, path) if itself else _real(cwd / expanded, path)
        self.root = _real(cwd, path)
        self.beside = False
        """It lies in the second folder."""
        if also is not None and self.real.is_relative_to(other := _real(also, path)):
            self.root, self.beside = other, True
        elif not self.real.is_relative_to(self.root):
            raise ToolFailed(f"{shown(path)} is outside the working folder {cwd}; only paths inside it can be used")
        elif is_ours(self.real):
            raise ToolFailed(f"{shown(path)} is Orkas' own data; file tools cannot touch it")
        self.parts = self.real.relative_to(self.root).parts
        _check_length(self.real, self.parts)

    @property
    def name(self) -> str:
        """The path relative to the working folder, for people and models."""
        if self._cwd != self.root and not self.real.is_relative_to(_real(self._cwd, self.given)):
            return shown(str(self.real))
        return shown("/".join(self.parts)) or "."

    @contextmanager
    def folder(self) -> Iterator[Folder]:
        """The place itself, opened as a folder."""
        with self._opened(self.parts) as folder:
            yield folder

    @contextmanager
    def parent(self, *, create: bool = False) -> Iterator[Folder]:
        """The folder that holds the place; missing ones are made if asked."""
        if not self.parts:
            raise ToolFailed(f"{shown(self.given)} is the working folder itself; name a file in it")
        with self._opened(self.parts[:-1], create=create) as folder:
            yield folder

    @contextmanager
    def _opened(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[Folder]:
        folder = Folder(self.root, None)
        try:
            folder = Folder.at(self.root)
            for part in parts:
                folder = folder.down(part, create=create)
            yield folder
        except FileExistsError as error:
            raise said(error, self.given) from None
        except NotADirectoryError:
            raise ToolFailed(f"{self.name}: a part of this path is no folder; list_files shows what is there") from None
        except OSError as error:
            if not self.root.is_dir():
                raise ToolFailed(f"the working folder {self.root} is gone; a shell command makes it again") from None
            raise said(error, self.given) from None
        finally:
            folder.close()


class Folder:
    """A folder held open. Names given to it are single components; none of its calls follows a link."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path = path
        self.handle = handle

    @classmethod
    def at(cls, path: Path) -> Folder:
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY) if _HANDLES else None)

    def down(self, name: str, *, create: bool = False, keep: bool = False) -> Folder:
        """A folder in this one; this one is closed unless ``keep``."""
        path = self.path / name
        if create:
            with suppress(FileExistsError):
                os.mkdir(self._name(name), **self._here())  # noqa: PTH102 - relative to a handle
        if self.handle is None:
            self._recheck(path)
            return Folder(path, None)
        flags = os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW
        handle = os.open(name, flags, dir_fd=self.handle)
        if not keep:
            self.close()
        return Folder(path, handle)

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            os.close(handle)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(self._name(name), follow_symlinks=False, **self._here())  # noqa: PTH116 - relative to a handle

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """A descriptor of a regular file. What else there is, is refused before it is opened.

        Raises:
            ToolFailed: it is no regular file.
        """
        if not flags & os.O_CREAT:
            _regular(self.stat(name).st_mode, name)
        descriptor = os.open(self._name(name), flags | _CAREFUL, mode, **self._here())
        try:
            _regular(os.fstat(descriptor).st_mode, name)
        except ToolFailed:
            os.close(descriptor)
            raise
        return descriptor

    def entries(self) -> list[os.DirEntry[str]]:
        """Everything in the folder, in no order. ``entry.stat`` must be asked while the folder is open."""
        with os.scandir(self.handle if self.handle is not None else self.path) as entries:
            return list(entries)

    def names(self) -> list[str]:
        """The names of everything in the folder, in no order."""
        return os.listdir(self.handle if self.handle is not None else self.path)  # noqa: PTH208 - of a handle

    def writable(self, name: str) -> bool:
        """We may write the file, and its mode allows it to somebody (for root the system alone would say yes).

        Raises:
            OSError: nobody may, because its file system is read-only.
        """
        allowed = bool(self.stat(name).st_mode & 0o222) and os.access(self._name(name), os.W_OK, **self._here())
        if not allowed and self._is_fixed(name):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return allowed

    def _is_fixed(self, name: str) -> bool:
        """The file lies in a file system that is read-only; a single file may."""
        if not hasattr(os, "fstatvfs"):
            return False
        try:
            descriptor = self.open(name)
        except (OSError, ToolFailed):
            return False
        try:
            return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)
        finally:
            os.close(descriptor)

    def link_target(self, name: str) -> str:
        return os.readlink(self._name(name), **self._here())

    def replace(self, old: str, new: str) -> None:
        here = {"src_dir_fd": self.handle, "dst_dir_fd": self.handle} if self.handle is not None else {}
        os.replace(self._name(old), self._name(new), **here)  # noqa: PTH105 - relative to a handle

    def unlink(self, name: str) -> None:
        os.unlink(self._name(name), **self._here())

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link; where it leads is not looked at."""
        os.symlink(target, self._name(name), dir_fd=self.handle)

    def chmod(self, name: str, mode: int) -> None:
        """Of a file or folder, never of what a link leads to, whatever its mode allows us."""
        if self.handle is None or not hasattr(os, "O_PATH"):
            if not st.S_ISLNK(self.stat(name).st_mode):
                os.chmod(self._name(name), mode, **self._here())  # noqa: PTH101 - relative to a handle
            return
        entry = os.open(name, os.O_PATH | _NOFOLLOW, dir_fd=self.handle)
        try:
            if not st.S_ISLNK(os.fstat(entry).st_mode):
                os.chmod(f"/proc/self/fd/{entry}", mode)  # noqa: PTH101 - of the very entry that is held
        finally:
            os.close(entry)

    def move(self, name: str, to: Folder, new: str) -> None:
        """Give an entry another place, where nothing is.

        Raises:
            FileExistsError: something is there.
        """
        try:
            to.stat(new)
        except FileNotFoundError:
            both = self.handle is not None and to.handle is not None
            here = {"src_dir_fd": self.handle, "dst_dir_fd": to.handle} if both else {}
            os.rename(name if both else self.path / name, new if both else to.path / new, **here)  # noqa: PTH104
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def remove_folder(self, name: str) -> None:
        """Raises OSError when it is not empty."""
        os.rmdir(self._name(name), **self._here())

    def sync(self) -> None:
        """Make a rename durable, where the file system can."""
        if self.handle is not None:
            try:
                os.fsync(self.handle)
            except OSError:
                return  # some network file systems cannot; the rename itself has happened

    def _name(self, name: str) -> str:
        return name if self.handle is not None else str(self.path / name)

    def _here(self) -> dict[str, Any]:
        return {"dir_fd": self.handle} if self.handle is not None else {}

    def _recheck(self, path: Path) -> None:
        if Path(os.path.realpath(path)) != path:
            raise OSError(errno.ELOOP, "a link appeared", str(path))


_FITS_EVERYWHERE = 100
"""Bytes of a name that every file system takes."""


def _check_length(real: Path, parts: tuple[str, ...]) -> None:
    """The file system takes the path and every name in it, also where folders are still to be made.

    Raises:
        ToolFailed: it does not; the sentence says how long each may be.
    """
    if not hasattr(os, "pathconf"):
        return
    longest = max(parts, key=lambda part: len(os.fsencode(part)), default="")
    size, whole = len(os.fsencode(longest)), len(os.fsencode(real))
    if size <= _FITS_EVERYWHERE and whole <= _FITS_EVERYWHERE:
        return
    most, most_whole = _limits(next((path for path in real.parents if _is_folder(path)), Path("/")))
    if size > most:
        raise ToolFailed(f"the name {_cut(longest)} is too long: {size:,} bytes, {most} at most; choose a shorter one")
    if whole >= most_whole:
        path = _cut(os.fspath(real))
        told = f"{whole:,} bytes, {most_whole - 1:,} at most"
        raise ToolFailed(f"the path {path} is too long: {told}; choose a shorter one")


def _limits(folder: Path) -> tuple[int, int]:
    """Bytes of a name and of a path, with the NUL that ends it, in the file system of a folder."""
    found = []
    for name, usual in (("PC_NAME_MAX", 255), ("PC_PATH_MAX", 4_096)):
        try:
            most = os.pathconf(folder, name)
        except (OSError, ValueError):
            most = -1
        found.append(most if most > 0 else usual)
    return found[0], found[1]


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - unlike a Path, it takes what is too long for something that is not there


def _cut(name: str) -> str:
    return shown(name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}…")


def _real(path: Path, given: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{shown(given)} is no usable path: {error}") from None


def _unfollowed(path: Path, given: str) -> Path:
    return _real(path.parent, given) / path.name if path.name not in ("", "..") else _real(path, given)


def is_ours(real: Path) -> bool:
    """The folder of our sessions and settings or something in it, whatever the working folder is.

    Told by what the folders are, not by their names alone: on some systems one folder has many spellings.
    """
    own = _real(home(), "")
    if real.is_relative_to(own):
        return True
    try:
        mark = own.stat()
    except OSError:
        return False
    for path in (real, *real.parents):
        with suppress(OSError):
            if os.path.samestat(path.stat(), mark):
                return True
    return False


def _regular(mode: int, name: str) -> None:
    if st.S_ISREG(mode):
        return
    if st.S_ISDIR(mode):
        raise ToolFailed(f"{shown(name)} is a folder; use list_files to see what is in it")
    if st.S_ISLNK(mode):
        raise said(OSError(errno.ELOOP, ""), name)
    raise ToolFailed(f"{shown(name)} is a {kind_of(mode)}, not a regular file; it cannot be opened")
