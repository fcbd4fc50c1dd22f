"""Images a user gives to a turn: read, checked, and made part of a message."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from orkas.infra.errors import UsageError
from orkas.infra.messages import Image
from orkas.infra.pictures import MAX_BYTES, fault, media_type

__all__ = ["MAX_IMAGE_BYTES", "load_image", "media_type"]

MAX_IMAGE_BYTES = MAX_BYTES
"""The smallest limit per picture among the big vendors."""

_SMALLER = "save a smaller or sound copy and give that, for example with: magick {} -resize 1600x1600 small.png"


def load_image(source: Image | str | os.PathLike[str]) -> Image:
    """An image ready to send. A path is read here, so that a bad one is refused before anything is sent.

    Raises:
        UsageError: the file cannot be read, or is no PNG, JPEG, GIF or WebP image that every vendor takes: too large in
            bytes or pixels, cut off, damaged.
    """
    if isinstance(source, Image):
        return _checked(source)
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"{type(source).__name__} is no image", hint="give a path, or an Image with base64 data")
    path = Path(source).expanduser()
    try:
        if not path.is_file():
            raise UsageError(f"image {str(path)!r} does not exist or is no file", hint="give the path of an image file")
        size = path.stat().st_size
        if size > MAX_IMAGE_BYTES:
            raise UsageError(
                f"image {str(path)!r} has {size / 2**20:.1f} MB; at most {MAX_IMAGE_BYTES / 2**20:g} MB can be sent",
                hint=_SMALLER.format(path.name),
            )
        data = path.read_bytes()
    except OSError as error:
        what = f"image {str(path)!r} cannot be read: {error.strerror}"
        raise UsageError(what, hint="check its permissions") from None
    kind = media_type(data[:16])
    if kind is None:
        raise UsageError(f"{str(path)!r} is no PNG, JPEG, GIF or WebP image", hint="convert it to one of these first")
    if wrong := fault(data):
        raise UsageError(f"image {str(path)!r} {wrong}", hint=_SMALLER.format(path.name))
    return Image(media_type=kind, data=base64.b64encode(data).decode("ascii"))


def _checked(image: Image) -> Image:
    """What a program gives as an ``Image`` it vouches for, but for its size."""
    if image.data is not None and len(image.data) * 3 // 4 > MAX_IMAGE_BYTES + 2:
        raise UsageError(
            f"the image has more than {MAX_IMAGE_BYTES / 2**20:g} MB, which no vendor takes", hint="give a smaller copy"
        )
    return image
