"""Just enough of the GGUF format to know what a model file is: its head, no tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from orkas.infra.errors import UsageError

__all__ = ["Head", "read_head"]

_FIXED = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 20
"""No name or architecture is longer; a larger length is damage."""


@dataclass(frozen=True, slots=True)
class Head:
    name: str
    """``general.name``; empty: the file does not say."""
    architecture: str
    has_template: bool


def read_head(path: Path) -> Head:
    """What ``path`` says of itself.

    Raises:
        UsageError: it cannot be read or is no GGUF file of version 2 or 3.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (struct.error, UnicodeDecodeError, KeyError, ValueError):
        raise UsageError(f"{path} begins like a GGUF model file, but its head is damaged") from None


def _read(file: BinaryIO, path: Path) -> Head:
    magic, version, _tensors, pairs = struct.unpack("<4sIQQ", file.read(24).ljust(24, b"\0"))
    if magic != b"GGUF" or version not in (2, 3):
        raise UsageError(f"{path} is not a GGUF model file", hint="give the path of a file that ends in .gguf")
    said: dict[str, object] = {}
    for _ in range(min(pairs, 10_000)):
        key = _string(file)
        value = _value(file, *struct.unpack("<I", file.read(4)))
        if key.startswith(("general.", "tokenizer.chat_template")):
            said[key] = value
    return Head(
        str(said.get("general.name") or ""),
        str(said.get("general.architecture") or ""),
        bool(said.get("tokenizer.chat_template")),
    )


def _value(file: BinaryIO, kind: int) -> object:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in _FIXED:
            file.seek(count * struct.calcsize(_FIXED[inner]), 1)
        else:
            for _ in range(count):
                _value(file, inner)
        return None
    form = _FIXED[kind]
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _string(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LONGEST:
        raise ValueError("too long")
    return file.read(length).decode("utf-8", "replace")
