"""What a function gave back, as the result that the model reads."""

from __future__ import annotations

import base64
import io
from pathlib import PurePath
from typing import Any

import msgspec

from orkas.harness.tool import ToolResult
from orkas.infra.messages import Image
from orkas.infra.pictures import fault, media_type

__all__ = ["as_result"]


def as_result(value: Any) -> ToolResult:
    """Text as it is, an image as one, several as text and images, anything else as JSON, or as its ``str``."""
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult("done")
    if isinstance(value, str):
        return ToolResult(value)
    if type(value) in _NUMBERS:
        return ToolResult(msgspec.json.encode(value).decode())
    if (image := _image(value)) is not None:
        return _shown([image], [])
    if isinstance(value, bytes | bytearray | memoryview):
        return ToolResult(_text(bytes(value)))
    if isinstance(value, list | tuple) and any(found := [_image(item) for item in value]):
        rest = [as_result(item).text for item, image in zip(value, found, strict=True) if image is None]
        return _shown([image for image in found if image is not None], rest)
    return _json(value)


_NUMBERS = frozenset([int, float, bool])


def _json(value: Any) -> ToolResult:
    try:
        return ToolResult(msgspec.json.encode(value, enc_hook=_plain).decode())
    except (TypeError, ValueError, RecursionError):
        return ToolResult(str(value))


def _shown(images: list[Image | str], texts: list[str]) -> ToolResult:
    """An image that is too large is told in its place."""
    texts += [image for image in images if isinstance(image, str)]
    return ToolResult("\n".join(texts), [image for image in images if isinstance(image, Image)])


def _image(value: Any) -> Image | str | None:
    if isinstance(value, Image):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
    elif type(value).__module__.partition(".")[0] == "PIL" and hasattr(value, "tobytes") and hasattr(value, "save"):
        buffer = io.BytesIO()
        (value if value.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else value.convert("RGB")).save(buffer, "PNG")
        data = buffer.getvalue()
    else:
        return None
    kind = media_type(data[:16])
    if kind is None:
        return None
    if wrong := fault(data):
        return f"(an image that {wrong})"
    return Image(media_type=kind, data=base64.b64encode(data).decode("ascii"))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"({len(data):,} bytes of binary data)"


def _plain(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
