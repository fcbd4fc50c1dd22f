"""What a function gave back, as the result that the model reads."""

from __future__ import annotations

import base64
import io
import math
from collections import deque
from collections.abc import ItemsView, KeysView, Mapping, ValuesView
from pathlib import PurePath
from typing import Any

import msgspec

from orkas.harness.tool import ToolResult
from orkas.infra.amounts import counted
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
        return ToolResult(_number(value))
    if isinstance(value, BaseException):
        return ToolResult(f"{type(value).__name__}: {_str(value)}", is_error=True)
    if (image := _image(value)) is not None:
        return _shown([image], [])
    if isinstance(value, bytes | bytearray | memoryview):
        return ToolResult(_text(bytes(value)))
    if isinstance(value, list | tuple) and any(found := [_image(item) for item in value]):
        rest = [as_result(item).text for item, image in zip(value, found, strict=True) if image is None]
        return _shown([image for image in found if image is not None], rest)
    return _json(value)


_NUMBERS = frozenset([int, float, bool])
_BITS = 14_000
"""Of a whole number that Python still writes out, by its own limit of 4,300 digits."""


def _number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return _ODD[str(value)]  # JSON would say null, which is something else
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"(a whole number of {value.bit_length():,} bits, too long to be shown)"
    return msgspec.json.encode(value).decode()


_ODD = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _json(value: Any) -> ToolResult:
    try:
        text = msgspec.json.encode(value, enc_hook=_plain)
        if b"null" in text:  # what may be no number
            text = msgspec.json.encode(_told(msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)))
        return ToolResult(text.decode())
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ToolResult(_str(value))


def _told(value: Any) -> Any:
    """What is no number by its name: JSON would say null, which is something else."""
    if isinstance(value, dict):
        return {key: _told(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_told(one) for one in value]
    return _number(value) if isinstance(value, float) and not math.isfinite(value) else value


def _str(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - foreign code
        return f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})"


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
        return f"({counted(len(data), 'byte')} of binary data)"


def _plain(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, deque | range | KeysView | ValuesView | ItemsView):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if callable(rows := getattr(value, "tolist", None)):  # numbers and arrays of NumPy
        return rows()
    raise TypeError(f"{type(value).__name__} is no JSON")
