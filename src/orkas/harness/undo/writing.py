"""One path gets back what it was, and what is in its place goes into the trash.

Nothing is written into a second name of another file: contents get their place by a rename.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat as st
from contextlib import suppress
from pathlib import Path

from orkas.harness import trash
from orkas.harness.undo.folders import Refused
from orkas.harness.undo.records import Kept
from orkas.infra.errors import OrkasError, StorageError
from orkas.infra.paths import Folder

__all__ = ["TEMPORARY", "chmod", "make_link", "make_special", "sentence", "throw_away", "write"]

TEMPORARY = re.compile(r"\.undo-[0-9a-f]{16}\.tmp")
_SENTENCES = {
    errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up", errno.EROFS: "the disk is read-only",
    errno.EACCES: "the system does not permit it", errno.EPERM: "the system does not permit it",
    errno.ENOENT: "its folder is not there", errno.EEXIST: "something else is there now",
    errno.EXDEV: "it lies on another disk now", errno.EBUSY: "the system is using it",
    errno.EMFILE: "too many files are open",
}  # fmt: skip


def sentence(error: OSError) -> str:
    """What the system refused, for people."""
    return _SENTENCES.get(error.errno or 0, error.strerror or str(error))


def throw_away(folder: Folder, name: str, root: Path, path: str) -> None:
    """Into the trash; what holds nothing (a pipe) just goes. It may be gone already."""
    with suppress(FileNotFoundError):
        mode = folder.stat(name).st_mode
        if st.S_ISREG(mode) or st.S_ISLNK(mode):
            _keep(folder, name, root, path)
        folder.unlink(name)


def _keep(folder: Folder, name: str, root: Path, path: str) -> None:
    try:
        trash.keep(folder, name, root=root, path=path)
    except FileNotFoundError:
        raise
    except (OSError, StorageError) as error:
        cause = error.__cause__ if isinstance(error, StorageError) else error
        why = sentence(cause) if isinstance(cause, OSError) else str(error)
        raise StorageError(f"what is there now could not be put into the trash: {why}") from error


def write(folder: Folder, name: str, root: Path, path: str, data: bytes, before: Kept, *, flush: bool) -> None:
    """``flush``: it is on the disk itself before it gets its name."""
    temporary = f".undo-{secrets.token_hex(8)}.tmp"
    descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            _take_over(folder, name, descriptor)
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, st.S_IMODE(before.state.mode))
            if os.utime in os.supports_fd:
                os.utime(descriptor, ns=(before.state.mtime, before.state.mtime))
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with suppress(FileNotFoundError):
            folder.stat(name)
            _keep(folder, name, root, path)
        folder.replace(temporary, name)
    except BaseException:
        with suppress(OSError):
            folder.unlink(temporary)
        raise


def make_link(folder: Folder, name: str, root: Path, path: str, before: Kept) -> None:
    throw_away(folder, name, root, path)
    folder.link(name, before.target or "")


def make_special(folder: Folder, name: str, before: Kept) -> None:
    if not st.S_ISFIFO(before.state.mode):
        raise Refused("a socket or a device cannot be made again")
    os.mkfifo(name, st.S_IMODE(before.state.mode), dir_fd=folder.handle)
    chmod(folder, name, before)


def chmod(folder: Folder, name: str, before: Kept | None) -> None:
    if before is not None and folder.stat(name).st_mode != before.state.mode:
        folder.chmod(name, st.S_IMODE(before.state.mode))


def _take_over(folder: Folder, name: str, new: int) -> None:
    """The attributes of the file that is replaced, as far as the system lets us."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError, OrkasError):
        old = folder.open(name)
        try:
            for attribute in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(new, attribute, os.getxattr(old, attribute))
        finally:
            os.close(old)
