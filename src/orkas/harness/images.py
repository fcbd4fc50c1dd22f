"""Images a user gives to a turn: read, checked, and made part of a message."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from orkas.infra.errors import UsageError
from orkas.infra.messages import Image

__all__ = ["MAX_IMAGE_BYTES", "load_image", "media_type"]

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""The smallest limit per image among the big vendors (Anthropic: 5 MB)."""

_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def media_type(head: bytes) -> str | None:
    """Type of an image by its first bytes; None when it is none that every vendor takes."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def load_image(source: Image | str | os.PathLike[str]) -> Image:
    """An image ready to send. A path is read here, so that a bad one is refused before anything is sent.

    Raises:
        UsageError: the file cannot be read, is too large, or is no PNG, JPEG, GIF or WebP image.
    """
    if isinstance(source, Image):
        return source
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"{type(source).__name__} is no image", hint="give a path, or an Image with base64 data")
    path = Path(source).expanduser()
    try:
        if not path.is_file():
            raise UsageError(f"image {str(path)!r} does not exist or is no file", hint="give the path of an image file")
        size = path.stat().st_size
        if size > MAX_IMAGE_BYTES:
            raise UsageError(
                f"image {str(path)!r} has {size / 1e6:.1f} MB, over the limit of {MAX_IMAGE_BYTES / 1e6:.1f} MB",
                hint="make it smaller first",
            )
        data = path.read_bytes()
    except OSError as error:
        what = f"image {str(path)!r} cannot be read: {error.strerror}"
        raise UsageError(what, hint="check its permissions") from None
    kind = media_type(data[:16])
    if kind is None:
        raise UsageError(f"{str(path)!r} is no PNG, JPEG, GIF or WebP image", hint="convert it to one of these first")
    return Image(media_type=kind, data=base64.b64encode(data).decode("ascii"))
