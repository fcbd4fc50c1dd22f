"""The only writer of our state: append, replace, lock.

What is promised here holds at every instant at which the machine may lose power: an appended record is wholly there
once ``append`` has returned, and a replaced file is either the old or the new one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import socket
import stat
import sys
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from orkas.infra.errors import SessionLocked, StorageError

__all__ = [
    "OPS", "AppendFile", "Lock", "Ops", "append", "holder", "identity", "make_folder", "opened", "put", "read",
    "remove", "replace",
]  # fmt: skip

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # outside the text, which stays readable to others

    def _lock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _unlock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Opening returns at once, whatever lies there. Means nothing to a regular file."""
_NO_FILE = "it is not a regular file"
_UNSUPPORTED = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EINVAL, errno.EMLINK}


class Ops:
    """The few system calls that change or flush our files, so that a test can make the n-th one fail."""

    def open(self, path: Path, flags: int) -> int:
        """A descriptor of a regular file. Anything else (a pipe, a device) is an OSError, never waited at."""
        fd = os.open(path, flags | _BINARY | _NO_WAIT, 0o600)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, _NO_FILE)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Data, and the size needed to read it, reach the device itself; on macOS past the drive's cache too."""
        if sys.platform == "darwin":
            try:
                fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
                return
            except OSError as error:
                if error.errno not in _UNSUPPORTED:  # some network volumes do not know it
                    raise
        getattr(os, "fdatasync", os.fsync)(fd)

    def sync_folder(self, folder: Path) -> None:
        """Names in the folder reach the device. Windows has no such call and journals them itself."""
        if os.name == "nt":
            return
        fd = os.open(folder, os.O_RDONLY | _BINARY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        target.hardlink_to(source)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path) -> None:
        path.mkdir(0o700)


OPS = Ops()
_OWNER_BYTES = 65_536
"""No owner says more of itself in its lock."""
_STALE = 600.0
"""Seconds after which a temporary file has no writer any more."""


_ELSE = "check the disk"


def _failure(path: Path, error: OSError) -> StorageError:
    """An operating system's refusal as one sentence with the way out."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        hint = "free some disk space"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = f"make {str(path.parent)!r} writable, or set ORKAS_HOME to a folder that is"
    elif error.errno == errno.EISDIR or error.strerror == _NO_FILE:
        hint = f"move {str(path)!r} away"
    else:
        hint = _ELSE
    return StorageError(f"{path.name!r} could not be written: {error.strerror or error}", hint=hint)


def read(path: Path, *, most: int | None = None) -> bytes:
    """The whole of one of our files, in one go: a pipe or a device under its name is refused, never waited for.

    Raises:
        OSError: there is none, it is no regular file, it holds more than ``most`` bytes, or it cannot be read.
    """
    with os.fdopen(OPS.open(path, os.O_RDONLY), "rb") as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, "it is too large")
        return file.read()


def opened(path: Path) -> FileIO:
    """One of our files, to be read in pieces. Raises OSError as ``read`` does."""
    return FileIO(OPS.open(path, os.O_RDONLY))


def make_folder(folder: Path, ops: Ops = OPS) -> None:
    """Make a folder, for its owner alone, with the parents it lacks; durable when it returns.

    Raises:
        StorageError: it cannot be made, or a file has its name.
    """
    _make_folder(folder, folder, ops)


def _make_folder(folder: Path, wanted: Path, ops: Ops) -> None:
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make_folder(folder.parent, wanted, ops)
    try:
        with suppress(FileExistsError):
            ops.mkdir(folder)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        ops.sync_folder(folder.parent)
    except OSError as error:
        failure = _failure(folder, error)
        failure.message = f"the folder {str(wanted)!r} could not be made: {error.strerror or error}"
        if failure.hint == _ELSE:
            failure.hint = "set ORKAS_HOME to a folder that can be made"
        raise failure from error


def _write_all(ops: Ops, fd: int, data: bytes) -> None:
    """One write. A full disk may take a part without an error: that is a failure too."""
    if ops.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class AppendFile:
    """A file that grows by whole records. One writer: hold its ``Lock``.

    ``end`` is where the last good record ends; up to ``stray`` bytes behind it belong to nobody and are cut away
    before the next record is written. The file is made by the first ``append``, never by opening.
    """

    def __init__(self, path: Path, *, end: int = 0, stray: int = 0, ops: Ops = OPS) -> None:
        self.path = path
        self.end = end
        self._stray = stray
        self._ops = ops
        self._fd: int | None = None
        self._same = (0, 0)  # device and number of the file we hold
        self._made = False
        self._last = b""  # the newest record we wrote: what a fresh descriptor must still find

    def append(self, data: bytes) -> None:
        """Write ``data`` in one call and flush it; durable when it returns.

        Raises:
            StorageError: nothing was added; the same bytes may be given again later.
        """
        try:
            fd = self._ready()
            self._stray = len(data)
            _write_all(self._ops, fd, data)
            self._ops.sync(fd)
            if self.end == 0:
                self._ops.sync_folder(self.path.parent)
        except OSError as error:
            self._back_out()
            raise _failure(self.path, error) from error
        self.end += len(data)
        self._stray = 0
        self._last = data

    def close(self) -> None:
        """Idempotent. The file may be appended to again afterwards."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):  # everything acknowledged was flushed already
                os.close(fd)

    def _ready(self) -> int:
        """A descriptor of the file as we left it, stray bytes cut away."""
        if self._fd is None:
            make_folder(self.path.parent, self._ops)
            self._made = self.end == 0 and not self.path.exists()
            create = os.O_CREAT if self.end == 0 else 0
            self._fd = self._ops.open(self.path, os.O_RDWR | os.O_APPEND | create)
            self._same = identity(os.fstat(self._fd))
        self._check(self._fd)
        if self._stray:
            self._ops.truncate(self._fd, self.end)
            self._stray = 0
        return self._fd

    def _check(self, fd: int) -> None:
        """Refuse to touch a file that somebody else replaced, cut or wrote to."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        untouched = (
            there is not None and identity(there) == self._same
            and self.end <= there.st_size <= self.end + self._stray and self._found(fd)
        )  # fmt: skip
        if not untouched:
            raise StorageError(
                f"{self.path.name!r} was changed by another program while it was open here",
                hint="close it here and open it again",
            )

    def _found(self, fd: int) -> bool:
        """After a failure the old descriptor is not trusted, nor is what the system says it kept: read it back."""
        if not self._stray or not self._last:
            return True
        os.lseek(fd, self.end - len(self._last), os.SEEK_SET)
        return os.read(fd, len(self._last)) == self._last

    def _back_out(self) -> None:
        """Drop the descriptor and cut the half-written record away, now if possible, else before the next one."""
        self.close()
        if not self._stray:
            return
        with suppress(OSError, StorageError):
            if self._made and self.end == 0:  # leave no empty file behind
                self._ops.unlink(self.path)
                self._stray = 0
            else:
                self._ready()


def identity(status: os.stat_result) -> tuple[int, int]:
    """What tells a file from every other one on this machine, whatever its name."""
    return status.st_dev, status.st_ino


def append(path: Path, data: bytes, *, ops: Ops = OPS) -> None:
    """Add whole lines to a file that is not kept open; durable when it returns. Never continues a torn line.

    Raises:
        StorageError: nothing was added.
    """
    try:
        with os.fdopen(OPS.open(path, os.O_RDONLY), "rb") as old:
            end = old.seek(0, os.SEEK_END)
            old.seek(max(0, end - 1))
            torn = old.read() not in (b"", b"\n")
    except FileNotFoundError:
        end, torn = 0, False
    except OSError as error:
        raise _failure(path, error) from error
    file = AppendFile(path, end=end, ops=ops)
    try:
        file.append(b"\n" + data if torn else data)
    finally:
        file.close()


def replace(path: Path, data: bytes, *, ops: Ops = OPS) -> None:
    """Give ``path`` the content ``data`` as a whole, mode 0600; durable when it returns.

    Raises:
        StorageError: the old content is still there, byte for byte, or still no file, and nothing else is left behind.
            (Only a disk that refuses the last flush and then the way back too leaves the new content.)
    """
    path = path.resolve() if path.is_symlink() else path
    make_folder(path.parent, ops)
    _sweep(path, ops)
    temp = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    kept = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(temp, data, ops)
        linked = _keep(path, kept, ops)
        ops.rename(temp, path)
        try:
            ops.sync_folder(path.parent)
        except OSError:
            if linked:
                ops.rename(kept, path)
            elif linked is False:
                ops.unlink(path)
            raise
    except OSError as error:
        for stray in (temp, kept):
            with suppress(OSError):
                stray.unlink()
        raise _failure(path, error) from error
    with suppress(OSError):  # a second name of the old content: swept away by the next replace
        ops.unlink(kept)


def put(path: Path, data: bytes, *, ops: Ops = OPS) -> None:
    """As ``replace``, but nothing is flushed: a kill leaves the old or the new content, a power cut may lose both. For
    what is only a help and can be missed.

    Raises:
        StorageError: the old content is still there.
    """
    make_folder(path.parent, ops)
    temp = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        fd = ops.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            _write_all(ops, fd, data)
        finally:
            os.close(fd)
        ops.rename(temp, path)
    except OSError as error:
        with suppress(OSError):
            temp.unlink()
        raise _failure(path, error) from error


def remove(path: Path, *, ops: Ops = OPS) -> None:
    """Take a file away; durable when it returns. One that is not there is no failure.

    Raises:
        StorageError: it may still be there.
    """
    try:
        with suppress(FileNotFoundError):
            ops.unlink(path)
        ops.sync_folder(path.parent)
    except OSError as error:
        raise _failure(path, error) from error


def _write_new(path: Path, data: bytes, ops: Ops) -> None:
    fd = ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        view = memoryview(data)
        while view:
            done = ops.write(fd, bytes(view))
            if done <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[done:]
        ops.sync(fd)
    finally:
        os.close(fd)


def _keep(path: Path, kept: Path, ops: Ops) -> bool | None:
    """A second name for the old content, so that a failed flush of the folder can be taken back. False: there is none
    yet; None: this file system knows no second names.
    """
    try:
        ops.link(path, kept)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        raise
    return True


def _sweep(path: Path, ops: Ops) -> None:
    """Remove what a ``replace`` of this file left behind when it was killed, once it cannot be one at work."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    for other in path.parent.iterdir():
        if ours.fullmatch(other.name):
            with suppress(OSError):
                if time.time() - other.stat().st_mtime > _STALE:
                    ops.unlink(other)


class Lock:
    """One writer per session, across processes and within one. Its file says who holds it, as JSON.

    The operating system lets go of the lock when the owner dies, so a crash leaves nothing to clean up.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = name or path.stem
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    def acquire(self) -> None:
        """Take the lock or say at once who has it.

        Raises:
            SessionLocked: somebody else holds it; the sentence names the process.
            StorageError: the lock cannot be made here.
        """
        make_folder(self.path.parent)
        while self._fd is None:
            try:
                fd = OPS.open(self.path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                raise _failure(self.path, error) from error
            try:
                _lock(fd)
                if _is_current(fd, self.path):
                    _write_owner(fd)
                    self._fd, fd = fd, -1
            except (BlockingIOError, PermissionError):
                raise SessionLocked(self.name, _owner(self.path)) from None
            except OSError as error:
                raise _failure(self.path, error) from error
            finally:
                if fd >= 0:
                    os.close(fd)

    def release(self) -> None:
        """Idempotent."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        if os.name != "nt":  # the name goes while the lock is still held: a waiting opener sees that it is stale
            with suppress(OSError):
                self.path.unlink()
        _unlock(fd)
        os.close(fd)
        if os.name == "nt":
            with suppress(OSError):
                self.path.unlink()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


def holder(path: Path) -> str | None:
    """Who holds this lock at this moment, in words; None: nobody. The file is neither made nor removed."""
    try:
        fd = OPS.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        _lock(fd)
    except OSError:
        return _owner(path)
    else:
        _unlock(fd)
        return None
    finally:
        os.close(fd)


def _is_current(fd: int, path: Path) -> bool:
    """False when the former owner removed the name between our open and our lock."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _write_owner(fd: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": Path(sys.argv[0]).name if sys.argv else "",
    }
    with suppress(OSError):  # on a full disk the lock holds all the same, it only cannot say for whom
        os.lseek(fd, 0, os.SEEK_SET)
        os.ftruncate(fd, os.write(fd, json.dumps(owner).encode() + b"\n"))  # not to 0 first: ext4 would flush on close


def _owner(path: Path) -> str:
    """Who holds the lock, in words. The owner writes its name a moment after taking it, so look more than once."""
    for _ in range(20):
        with suppress(OSError, ValueError):
            owner: dict[str, Any] = json.loads(read(path, most=_OWNER_BYTES))
            if owner["pid"] == os.getpid() and owner["host"] == socket.gethostname():
                return f"pid {owner['pid']}: by this very process"
            return f"pid {owner['pid']} on {owner['host']}, {owner['command']}, since {owner['start']}"
        time.sleep(0.005)
    return "its owner is not known"
