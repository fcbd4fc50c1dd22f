"""Sockets in the file system that programs of this machine listen on, wherever they lie and whatever they are called.

A mount that is read-only does not close them. The kernel tells the file behind each (its device and number) and the
name under which it was bound, which may be relative, or an old one: then the file is looked for.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path

__all__ = ["sockets"]

_REQUEST = struct.Struct("=LHHLLBBHLLL8s")
"""struct nlmsghdr, then struct unix_diag_req (linux/unix_diag.h)."""
_SOCK_DIAG, _DUMP, _DONE, _ERROR = 20, 0x301, 3, 2
"""SOCK_DIAG_BY_FAMILY; NLM_F_REQUEST with NLM_F_DUMP; NLMSG_DONE and NLMSG_ERROR."""
_NAME, _VFS = 0, 1
"""UNIX_DIAG_NAME and UNIX_DIAG_VFS; asked for by the bits 1 and 2."""
_LOOK = 20_000
"""Folder entries that are looked at for files whose name is not known."""
_ROOTS = ("/opt", "/srv", "/var", "/usr/local", "/mnt", "/media", "/data", "/etc")

_File = tuple[int, int]
"""Device and number, as the kernel tells them."""
_found: dict[_File, Path] = {}
"""Files that were looked for."""
_vain: set[tuple[_File, Path]] = set()
"""And those that were not found, with the working folder for which they were looked for."""


def sockets(cwd: Path) -> Iterator[Path]:
    """Where they lie now, without links. Linux only. One in a place that is not looked at may be missed."""
    lost: dict[_File, str] = {}
    for file, name in _bound():
        known = _found.get(file) or (Path(name) if name.startswith("/") else None)
        if known is not None and _file(known) == file:
            yield Path(os.path.realpath(known))
        elif (file, cwd) not in _vain:
            lost[file] = name
    if lost:
        yield from _looked_for(lost, cwd)


def _bound() -> list[tuple[_File, str]]:
    """Every socket of this network that has a file, with the name that it was given."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as kernel:  # NETLINK_SOCK_DIAG
            kernel.settimeout(2)
            kernel.send(_REQUEST.pack(_REQUEST.size, _SOCK_DIAG, _DUMP, 1, 0, 1, 0, 0, 0xFFFF_FFFF, 0, 3, b"\xff" * 8))
            return list(_answers(kernel))
    except (OSError, AttributeError, struct.error):
        return []


def _answers(kernel: socket.socket) -> Iterator[tuple[_File, str]]:
    while True:
        data = kernel.recv(1 << 16)
        at = 0
        while at + 16 <= len(data):
            length, kind = struct.unpack_from("=LH", data, at)
            if kind in (_DONE, _ERROR) or length < 16:
                return
            parts = dict(_attributes(data[at + 32 : at + length]))
            if len(file := parts.get(_VFS, b"")) == 8:
                number, device = struct.unpack("=LL", file)
                yield (device, number), os.fsdecode(parts.get(_NAME, b"").rstrip(b"\0"))
            at += (length + 3) & ~3


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind, data[at + 4 : at + length]
        at += (length + 3) & ~3


def _file(path: str | Path) -> _File | None:
    """What the kernel would call a socket's file; None: it is none."""
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISSOCK(info.st_mode):
        return None
    return os.major(info.st_dev) << 20 | os.minor(info.st_dev), info.st_ino & 0xFFFF_FFFF


def _looked_for(lost: dict[_File, str], cwd: Path) -> Iterator[Path]:
    """First beside the names that they once had, then in the working folder, then elsewhere."""
    left = _LOOK
    beside = dict.fromkeys(os.path.dirname(name) for name in lost.values() if name.startswith("/"))
    waiting = deque([*beside, str(cwd), *_ROOTS])
    while waiting and left > 0 and lost:
        try:
            with os.scandir(waiting.popleft()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                        file = _file(entry.path)
                        if file in lost:
                            del lost[file]
                            path = _found[file] = Path(os.path.realpath(entry.path))
                            yield path
        except OSError:
            continue
    _vain.update((file, cwd) for file in lost)  # it is not looked for again
