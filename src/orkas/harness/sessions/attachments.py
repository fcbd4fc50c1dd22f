"""The files beside a session: whole results whose preview is in the history, and pictures.

Named by content, so the same bytes are stored once and a name never changes its meaning.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from orkas.harness.sessions.store import SPILL_CAP, clip
from orkas.harness.taint import file_stem
from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.messages import Image, Text, well_formed

__all__ = ["IMAGE_CAP", "Attachments", "find_spilled"]

IMAGE_CAP = 32 * 1024
"""A picture with more base64 than this, in characters, moves from its record into a file."""
_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_TELLING = 400
"""Characters of a result by which the file of the whole may be recognised."""
_COARSE_S = 2.0
"""The coarsest clock of a file system in use."""
_LOST = "the rest was not kept"


class Attachments:
    """The folder ``<id>.files``. ``folder`` None: an in-memory session, which keeps pictures inline and no spills."""

    def __init__(self, folder: Path | None, ops: files.Ops = files.OPS) -> None:
        self.folder = folder
        self._ops = ops
        self._waiting: dict[str, bytes] = {}

    def flush(self) -> None:
        """Write what waits; durable when it returns. Records that name these files are written afterwards.

        Raises:
            StorageError: some still wait.
        """
        for name, data in list(self._waiting.items()):
            self._write(name, data)
            self._waiting.pop(name, None)

    def read(self, file: str) -> bytes:
        """The bytes of one file.

        Raises:
            StorageError: the session has no such file, or the name leads out of its folder.
        """
        if file in self._waiting:
            return self._waiting[file]
        missing = StorageError(f"the session has no file {file!r}", hint="it may have been removed by hand")
        if self.folder is None or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", file):
            raise missing
        path = self.folder / file
        try:
            if path.resolve().parent != self.folder.resolve() or not path.is_file():
                raise missing
            return files.read(path)
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
            raise missing from None

    def spill(self, text: str, name: str) -> Text:
        """The text as a block, saved at once when it is long; when that fails the preview says so."""
        block = self.shorten(text, name)
        if block.file is None:
            return block
        try:
            self.flush()
        except StorageError as error:
            self._waiting.pop(block.file, None)
            return Text(text=clip(well_formed(text), f"the rest could not be saved: {error}"))
        return block

    def keep(self, text: str, name: str) -> str | None:
        """The name of a file with this text, saved at once; None when there is nowhere to save it."""
        if self.folder is None:
            return None
        file = self._wait(well_formed(text).encode(), name)
        try:
            self.flush()
        except StorageError:
            self._waiting.pop(file, None)
            return None
        return file

    def shorten(self, text: str, name: str, *, cap: int = SPILL_CAP) -> Text:
        """The text as a block; above ``cap`` characters a preview, the whole waiting for ``flush``."""
        text = well_formed(text)
        if len(text) <= cap:
            return Text(text=text)
        if self.folder is None:
            return Text(text=clip(text, _LOST))
        data = text.encode()
        return _preview(text, data, self._wait(data, name))

    def store_image(self, image: Image) -> Image:
        """The picture, its bytes waiting for ``flush`` when there are many of them."""
        if self.folder is None or image.data is None or len(image.data) <= IMAGE_CAP:
            return image
        try:
            data = base64.b64decode(image.data, validate=True)
        except (binascii.Error, ValueError):
            return image
        suffix = _SUFFIXES.get(image.media_type, "bin")
        file = f"image-{hashlib.sha256(data).hexdigest()}.{suffix}"
        self._waiting[file] = data
        return replace(image, data=None, file=file)

    def _wait(self, data: bytes, name: str) -> str:
        """Put the bytes in line for ``flush``; returns their name."""
        file = _spilled(name, data)
        self._waiting[file] = data
        return file

    def _write(self, name: str, data: bytes) -> None:
        assert self.folder is not None
        path = self.folder / name
        with suppress(OSError):
            if path.stat().st_size == len(data):  # named by its content and always written as a whole
                os.utime(path)  # saved again, now
                return
        files.replace(path, data, ops=self._ops)


def _spilled(name: str, data: bytes) -> str:
    return f"{_stem(name)}-{hashlib.sha256(data).hexdigest()[:32]}.txt"


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name).lstrip("_-")[:40] or "result"


def _preview(text: str, data: bytes, file: str) -> Text:
    where = f"the whole ({len(data):,} bytes) is kept: read on with read_result, file {file}"
    return Text(text=clip(text, where), file=file, bytes=len(data))


def find_spilled(
    folder: Path, name: str, start: str, *, since: float, named: Callable[[str], bool]
) -> Text | None:
    """The block of a spilled text whose record was cut: a result of the tool ``name`` that begins with ``start``, saved
    at ``since`` (Unix time) or later and named by no record (``named``).

    None unless it is certain: when ``start`` is too short to tell, when there is no such file, or more than one.
    """
    if len(start) < _TELLING:
        return None
    found = []
    names = dict.fromkeys(file_stem(name, foreign=foreign) for foreign in (False, True))
    for called, path in ((n, path) for n in names for path in _listed(folder, f"{_stem(n)}-*.txt")):
        with suppress(OSError, UnicodeDecodeError):  # none of ours, or gone
            if path.stat().st_mtime < since - _COARSE_S or named(path.name):
                continue
            data = files.read(path)
            text = data.decode()
            block = _preview(text, data, path.name)
            if path.name == _spilled(called, data) and len(text) > SPILL_CAP and block.text.startswith(start):
                found.append(block)
    return found[0] if len(found) == 1 else None


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
