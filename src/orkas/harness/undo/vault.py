"""Contents of files by their hash, each kept once, for its owner alone.

Nothing is flushed: after a power cut a content may be damaged, which its hash tells before it is given back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat as st
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orkas.infra import files
from orkas.infra.errors import StorageError

__all__ = ["Vault", "hash_of"]

_CHUNK = 1024 * 1024
_FICLONE = 0x40049409
"""Linux: share the blocks of another file of the same file system (btrfs, xfs, bcachefs)."""
_CLONED = 256 * 1024
"""Smaller files are read anyway, in one go."""
_YOUNG_S = 86_400.0
"""A content put so recently may belong to a turn that is not written down yet."""


class Vault:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]

    def put(self, path: str | Path) -> str:
        """Keep the content of a regular file; returns its hash.

        Raises:
            OSError: it cannot be read, is no regular file, or the disk is full.
        """
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            return self.put_open(descriptor)
        finally:
            os.close(descriptor)

    def put_open(self, descriptor: int) -> str:
        """As ``put``, of a file that is open to be read."""
        stat = os.fstat(descriptor)
        if not st.S_ISREG(stat.st_mode):
            raise OSError("it is no regular file")
        if stat.st_size >= _CLONED:
            return self._put_large(descriptor)
        return self.put_bytes(_all(descriptor))

    def put_bytes(self, data: bytes) -> str:
        digest = hashlib.blake2b(data, digest_size=20).hexdigest()
        if not self._touched(digest, len(data)):
            with self._new(digest) as (descriptor, _):
                _write(descriptor, data)
        return digest

    def _put_large(self, source: int) -> str:
        with self._new("") as (descriptor, name):
            if not _cloned(source, descriptor):
                while piece := os.read(source, _CHUNK):
                    _write(descriptor, piece)
            os.lseek(descriptor, 0, os.SEEK_SET)
            digest = _hash(descriptor)
            if not self._touched(digest, os.fstat(descriptor).st_size):
                self._make(digest)
                name.replace(self._path(digest))
        return digest

    def _touched(self, digest: str, size: int) -> bool:
        """It is there already, as long as it has to be, and young again: nobody tidies it away under us."""
        path = self._path(digest)
        try:
            if path.stat().st_size != size:
                return False
            os.utime(path)
        except OSError:
            return False
        return True

    def _make(self, digest: str) -> None:
        self._path(digest).parent.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def _new(self, digest: str) -> Iterator[tuple[int, Path]]:
        """A descriptor to write the content to; it gets its name when it is whole."""
        temporary = self._folder / f"{secrets.token_hex(8)}.tmp"
        if not self._folder.is_dir():
            files.make_folder(self._folder)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            yield descriptor, temporary
            if digest:
                self._make(digest)
                temporary.replace(self._path(digest))
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                temporary.unlink()

    def get(self, digest: str) -> bytes:
        """The content.

        Raises:
            StorageError: it is not there any more, or damaged.
        """
        try:
            data = files.read(self._path(digest))
        except OSError as error:
            raise StorageError("its content is not kept any more") from error
        if hashlib.blake2b(data, digest_size=20).hexdigest() != digest:
            with contextlib.suppress(OSError):
                self._path(digest).unlink()  # so that the next file with this content is kept anew
            raise StorageError("its kept content is damaged")
        return data

    def has(self, digest: str) -> bool:
        """The content is there, and whole."""
        try:
            self.get(digest)
        except StorageError:
            return False
        return True

    def contents(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every hash with what the file system says of it."""
        with contextlib.suppress(OSError):
            for shelf in self._folder.iterdir():
                if shelf.is_dir():
                    for path in shelf.iterdir():
                        with contextlib.suppress(OSError):
                            yield shelf.name + path.name, path.stat()

    def forget_all_but(self, wanted: set[str], *, young_s: float = _YOUNG_S) -> int:
        """Remove the rest, but nothing that is still young; how many bytes went."""
        freed = 0
        limit = time.time() - young_s
        for digest, stat in list(self.contents()):
            if digest not in wanted and stat.st_mtime <= limit:
                with contextlib.suppress(OSError):
                    self._path(digest).unlink()
                    freed += stat.st_size
        for left in self._folder.glob("*.tmp"):
            with contextlib.suppress(OSError):
                if left.stat().st_mtime <= limit:
                    left.unlink()
        return freed


def hash_of(descriptor: int) -> str:
    """The hash of a file's content; nothing is kept.

    Raises:
        OSError: it cannot be read.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)
    return _hash(descriptor)


def _hash(descriptor: int) -> str:
    digest = hashlib.blake2b(digest_size=20)
    while piece := os.read(descriptor, _CHUNK):
        digest.update(piece)
    return digest.hexdigest()


def _all(descriptor: int) -> bytes:
    parts = []
    while piece := os.read(descriptor, _CHUNK):
        parts.append(piece)
    return b"".join(parts)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _cloned(source: int, target: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import fcntl

    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True
