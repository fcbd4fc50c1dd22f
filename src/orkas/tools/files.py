"""What reading, writing and editing share: what was seen of a file, and replacing it whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat as st
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place, shown

__all__ = ["MAX_EDIT_BYTES", "Seen", "load", "replace"]

MAX_EDIT_BYTES = 64 * 1024 * 1024
"""Files beyond this are not edited: they are data, and memory is bounded."""
_HASHED_BYTES = 16 * 1024 * 1024
_KEPT_FILES = 2_000


@dataclass(frozen=True, slots=True)
class _Sight:
    """A file as it was: equal size, time and inode mean unchanged; else equal content does."""

    stamp: tuple[int, int, int, int]
    digest: bytes | None


@dataclass(slots=True)
class Seen:
    """What the model knows of the files, shared by the file tools of one agent.

    A file that the model has read or written and that changed behind its back is not overwritten. Changes to one file
    are made one after another.
    """

    _sights: dict[str, _Sight] = field(default_factory=dict)
    _locks: WeakValueDictionary[str, threading.Lock] = field(default_factory=WeakValueDictionary)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def note(self, place: Place, descriptor: int) -> None:
        """The model now knows the file as it is."""
        sight = _sight(descriptor)
        with self._guard:
            self._sights.pop(str(place.real), None)
            self._sights[str(place.real)] = sight
            while len(self._sights) > _KEPT_FILES:
                del self._sights[next(iter(self._sights))]

    def changed(self, place: Place, descriptor: int) -> bool:
        """The file is not what the model knows. False for files it never saw."""
        with self._guard:
            known = self._sights.get(str(place.real))
        if known is None or known.stamp == _stamp(os.fstat(descriptor)):
            return False
        return known.digest is None or known.digest != _sight(descriptor).digest

    @contextmanager
    def alone(self, place: Place) -> Iterator[None]:
        """Nobody else of ours changes this file meanwhile."""
        with self._guard:
            lock = self._locks.setdefault(str(place.real), threading.Lock())
        with lock:
            yield


def _stamp(stat: os.stat_result) -> tuple[int, int, int, int]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _sight(descriptor: int) -> _Sight:
    stat = os.fstat(descriptor)
    if stat.st_size > _HASHED_BYTES:
        return _Sight(_stamp(stat), None)
    return _Sight(_stamp(stat), hashlib.blake2b(_all(descriptor, stat.st_size), digest_size=16).digest())


def load(descriptor: int, name: str) -> bytes:
    """The whole file.

    Raises:
        ToolFailed: it is larger than what is edited.
    """
    size = os.fstat(descriptor).st_size
    if size > MAX_EDIT_BYTES:
        raise ToolFailed(f"{name} is larger than {MAX_EDIT_BYTES // 2**20} MB; change it with a shell command instead")
    return _all(descriptor, size)


def _all(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    left = size
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def replace(folder: Folder, name: str, data: bytes, seen: Seen, place: Place, *, old: os.stat_result | None) -> None:
    """Put ``data`` in place of the file: a reader, or a crash at any moment, finds the old or the new, whole.

    The mode and owner of ``old`` are kept. The file is a new one under the old name: other hard links keep the old
    content.

    Raises:
        ToolFailed: the file is read-only, or is not ``old`` any more.
        OSError: the disk is full and the like; no temporary file is left.
    """
    if old is not None:
        _check_writable(folder, name, old)
    temporary = f".{name[:80]}.{secrets.token_hex(4)}.tmp"
    descriptor = folder.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        try:
            _fill(descriptor, data, old)
            _check_same(folder, name, old)
            folder.replace(temporary, name)
            seen.note(place, descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.unlink(temporary)
        raise
    folder.sync()


def _check_writable(folder: Folder, name: str, old: os.stat_result) -> None:
    if not folder.writable(name):
        mode = st.S_IMODE(old.st_mode)
        raise ToolFailed(f"{shown(name)} is read-only (mode {mode:04o}) and was not changed; ask the user about it")


def _fill(descriptor: int, data: bytes, old: os.stat_result | None) -> None:
    if old is not None and hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):  # only root may give files away; the content matters more
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, st.S_IMODE(old.st_mode) & 0o777)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _check_same(folder: Folder, name: str, old: os.stat_result | None) -> None:
    try:
        now = folder.stat(name)
    except FileNotFoundError:
        now = None
    if (now and _stamp(now)) != (old and _stamp(old)):
        raise ToolFailed(f"{shown(name)} was changed by somebody else just now and was not written; read it again")
