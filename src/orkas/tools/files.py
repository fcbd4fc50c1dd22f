"""What reading, writing and editing share: what was seen of a file, and replacing it whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat as st
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place, shown

__all__ = [
    "MAX_EDIT_BYTES", "Draft", "Seen", "Stamp", "beginning", "check_new_name", "check_same", "check_spelling",
    "check_writable", "load", "replace", "shortened", "spelt", "stamp", "sweep", "temporary_name",
]  # fmt: skip

MAX_EDIT_BYTES = 64 * 1024 * 1024
"""Files beyond this are not edited: they are data, and memory is bounded."""
_HASHED_BYTES = 16 * 1024 * 1024
_KEPT_FILES = 2_000
_NAME_BYTES = 80
_UNCLAIMED_S = 1.0
"""So long at most a temporary file may be without the lock of its writer, who has just made it."""
_CONTENT_ATTRIBUTES = frozenset({"security.ima", "security.evm", "security.capability"})
"""They vouch for the old content."""


_COARSE_NS = 100_000_000
"""Two changes within so short a time may carry the same time."""

Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Sight:
    """A file as it was: equal size, times and inode mean unchanged; else equal content does."""

    stamp: Stamp
    digest: bytes | None
    settled: bool
    """It was at rest by then: a later change has another time."""


@dataclass(slots=True)
class Seen:
    """What the model knows of the files, shared by the file tools of one agent.

    A file that the model has read or written and that changed behind its back is not overwritten. Changes to one file
    are made one after another.
    """

    _sights: dict[str, _Sight] = field(default_factory=dict)
    _locks: WeakValueDictionary[str, threading.Lock] = field(default_factory=WeakValueDictionary)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def note(self, place: Place, descriptor: int, *, since: os.stat_result | None = None) -> None:
        """The model now knows the file as it is, unless it was changed ``since`` it was opened."""
        if since is not None and stamp(since) != stamp(os.fstat(descriptor)):
            return
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
        if known is None:
            return False
        same = known.stamp == stamp(os.fstat(descriptor))
        if same and (known.settled or known.digest is None):
            return False
        return known.digest is None or known.digest != _sight(descriptor).digest

    def knows(self, place: Place) -> bool:
        """The model has read or written the file, as it was at some time."""
        with self._guard:
            return str(place.real) in self._sights

    @contextmanager
    def alone(self, place: Place) -> Iterator[None]:
        """Nobody else of ours changes this file meanwhile."""
        with self._guard:
            lock = self._locks.setdefault(str(place.real), threading.Lock())
        with lock:
            yield


def stamp(stat: os.stat_result) -> Stamp:
    """What differs after any change; the last time cannot be set by a program, but comes with new attributes too."""
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _sight(descriptor: int) -> _Sight:
    stat = os.fstat(descriptor)
    settled = time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > _COARSE_NS
    if stat.st_size > _HASHED_BYTES:
        return _Sight(stamp(stat), None, settled)
    digest = hashlib.blake2b(beginning(descriptor, stat.st_size), digest_size=16).digest()
    return _Sight(stamp(stat), digest, settled)


def load(descriptor: int, name: str) -> bytes:
    """The whole file.

    Raises:
        ToolFailed: it is larger than what is edited.
    """
    size = os.fstat(descriptor).st_size
    if size > MAX_EDIT_BYTES:
        raise ToolFailed(f"{name} is larger than {MAX_EDIT_BYTES // 2**20} MB; change it with a shell command instead")
    return beginning(descriptor, size)


def beginning(descriptor: int, size: int) -> bytes:
    """Up to so many bytes of an open file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    left = size
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def check_new_name(place: Place) -> None:
    """A name that people can see and type.

    Raises:
        ToolFailed: it holds a control character or another one that cannot be seen.
    """
    odd = next((c for c in place.parts[-1] if not c.isprintable()), None)
    if odd is not None:
        raise ToolFailed(
            f"the file name {shown(place.parts[-1])} holds {shown(odd)}, which cannot be seen or typed, and was not"
            " created; choose a name without it"
        )


def check_spelling(place: Place) -> None:
    """Nothing is there under a name that looks the same and is another one, as ``é`` in one or in two characters.

    Raises:
        ToolFailed: something is; the sentence spells its name.
    """
    at = place.root
    for part in place.parts:
        try:
            os.lstat(at / part)
        except FileNotFoundError:
            twin = _twin(at, part)
            if twin:
                spelt = twin.encode("ascii", "backslashreplace").decode()
                raise ToolFailed(
                    f"{place.name}: {shown(part)} does not exist, but {shown(twin)} does, which looks the same and is"
                    f' another name; in JSON it is "{spelt}"'
                ) from None
            return
        except OSError:
            return
        at /= part


def _twin(folder: Path, name: str) -> str:
    wanted = unicodedata.normalize("NFC", name)
    if name.isascii():
        return ""
    with contextlib.suppress(OSError):
        for other in os.listdir(folder):  # noqa: PTH208 - names alone, no objects
            if other != name and unicodedata.normalize("NFC", other) == wanted:
                return other
    return ""


@contextmanager
def spelt(place: Place) -> Iterator[None]:
    """A failure in here is told by ``check_spelling`` where that is the reason."""
    try:
        yield
    except ToolFailed:
        check_spelling(place)
        raise


def replace(
    folder: Folder, name: str, data: bytes, seen: Seen, place: Place, *, old: os.stat_result | None,
    was: bytes | None = None,
) -> None:
    """Put ``data`` in place of the file: a reader, or a crash at any moment, finds the old or the new, whole.

    Mode, owner and extended attributes of ``old`` are kept as far as we may; without its owner the new file does not
    get its set-user-id and set-group-id bits. The file is a new one under the old name: other hard links keep the old
    content. What a killed writer of this file left behind is removed. ``was``: the content of ``old``, where known.

    Raises:
        ToolFailed: the file is read-only, or is not ``old`` any more.
        OSError: the disk is full and the like; no temporary file is left.
    """
    if old is not None:
        check_writable(folder, name, old)
    sweep(folder, name)
    draft = Draft(folder, temporary_name(name))
    try:
        draft.fill(data, old_name=name, old=old)
        check_same(folder, name, old, was)
        folder.replace(draft.name, name)
        seen.note(place, draft.descriptor)
    except BaseException:
        draft.discard()
        raise
    draft.close()
    folder.sync()


def shortened(name: str) -> str:
    """The beginning of a name, so short that something can be added to it: systems count bytes."""
    return os.fsencode(name)[:_NAME_BYTES].decode("utf-8", "ignore")


def temporary_name(name: str) -> str:
    return f".{shortened(name)}.{secrets.token_hex(4)}.tmp"


class Draft:
    """A new content under a temporary name, claimed so that nobody sweeps it away."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self.name = name
        self.descriptor = folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        _claim(self.descriptor)

    def fill(
        self, data: bytes, *, old_name: str = "", old: os.stat_result | None = None, origin: Folder | None = None
    ) -> None:
        """Write and flush; mode, owner and attributes are those of ``old``, the file ``old_name`` in this folder, or in
        the folder ``origin``."""
        _fill(self.descriptor, data, origin or self._folder, old_name, old)

    def close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def discard(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            self._folder.unlink(self.name)


def _claim(descriptor: int) -> bool:
    """Hold the lock that says: a living writer is at work on this temporary file. False: another one holds it."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def sweep(folder: Folder, name: str) -> None:
    """Remove temporary files of this file that no living writer holds."""
    ours = re.compile(rf"\.{re.escape(shortened(name))}\.[0-9a-f]{{8}}\.tmp")
    for other in folder.names():
        if ours.fullmatch(other):
            with contextlib.suppress(OSError, ToolFailed):
                _remove_abandoned(folder, other)


def _remove_abandoned(folder: Folder, name: str) -> None:
    descriptor = folder.open(name)
    try:
        if time.time() - os.fstat(descriptor).st_mtime > _UNCLAIMED_S and _claim(descriptor):
            folder.unlink(name)
    finally:
        os.close(descriptor)


def check_writable(folder: Folder, name: str, old: os.stat_result) -> None:
    if not folder.writable(name):
        mode = st.S_IMODE(old.st_mode)
        raise ToolFailed(f"{shown(name)} is read-only (mode {mode:04o}) and was not changed; ask the user about it")


def _fill(descriptor: int, data: bytes, folder: Folder, name: str, old: os.stat_result | None) -> None:
    keep = old is not None and hasattr(os, "fchmod")
    if keep and old is not None:
        with contextlib.suppress(OSError):  # only root may give files away; the content matters more
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, st.S_IMODE(old.st_mode) & 0o777)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    if keep and old is not None:
        _copy_attributes(folder, name, descriptor)
        _restore_mode(descriptor, old)
    os.fsync(descriptor)


def _restore_mode(descriptor: int, old: os.stat_result) -> None:
    """The special bits too, last since writing clears them; never those of another owner."""
    now = os.fstat(descriptor)
    lost = (now.st_uid != old.st_uid and st.S_ISUID) | (now.st_gid != old.st_gid and st.S_ISGID)
    with contextlib.suppress(OSError):  # the ordinary bits are set already
        os.fchmod(descriptor, st.S_IMODE(old.st_mode) & ~lost)


def _copy_attributes(folder: Folder, name: str, descriptor: int) -> None:
    """Extended attributes, access control lists among them, as far as the file system and our rights allow."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, ToolFailed):  # not readable, or no attributes in this file system
        source = folder.open(name)
        try:
            for attribute in os.listxattr(source):
                if attribute not in _CONTENT_ATTRIBUTES:
                    with contextlib.suppress(OSError):  # kinds that only the system may set
                        os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)


def check_same(folder: Folder, name: str, old: os.stat_result | None, was: bytes | None = None) -> None:
    """The file is still ``old``; where only its last time differs, its content ``was`` decides.

    Raises:
        ToolFailed: it is not.
    """
    try:
        now = folder.stat(name)
    except FileNotFoundError:
        now = None
    if (now and stamp(now)) == (old and stamp(old)):
        return
    if now and old and was is not None and stamp(now)[:4] == stamp(old)[:4] and _holds(folder, name, was):
        return
    raise ToolFailed(f"{shown(name)} was changed by somebody else just now and was not written; read it again")


def _holds(folder: Folder, name: str, data: bytes) -> bool:
    descriptor = folder.open(name)
    try:
        return beginning(descriptor, len(data) + 1) == data
    finally:
        os.close(descriptor)
