"""What messages, tools and pictures weigh in tokens, before anything was learnt about the model."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable
from functools import partial

from orkas.infra.messages import Block, Image, Message, Text, Thinking, ToolCall, encode
from orkas.infra.pictures import dimensions
from orkas.infra.tokens import estimate
from orkas.providers.base import ToolDef

__all__ = ["PICTURE_MAX", "PICTURE_MIN", "message_size", "picture_size", "pixels", "tools_size"]

MESSAGE = 4
"""What a vendor puts around each message: role and separators (OpenAI's cookbook on counting: 3 and the role)."""
CALL = 8
"""What stands around a call, its id included."""
TOOL = 8
"""What stands around the definition of a tool."""
PICTURE_MAX = 1_600
"""Tokens of a picture at its largest, and of one whose size is not known (Anthropic's guide to vision)."""
PICTURE_MIN = 258
"""Tokens of the smallest picture (Google: 258 up to 384 pixels a side; OpenAI: 85 and 170 for one tile)."""
_PIXELS_A_TOKEN = 750
"""Anthropic's guide to vision: width x height / 750."""
_LONGEST = 1_568
"""Pixels of the longer side above which a vendor makes the picture smaller (the same guide)."""
_BLOB = 0.4
"""Tokens a character of an encrypted blob or signature. Such text is about 4/3 bytes of thinking a byte, so this is
more than it stands for; it is never read."""


def message_size(message: Message, text: Callable[[str], int] = estimate) -> int:
    """Everything of a message that a model is sent. ``text``: what weighs a text; an upper bound gives one."""
    size = MESSAGE
    for block in message.content:
        size += text(block.text) if type(block) is Text else _other(block, text)
        if block.vendor is not None:
            size += _json(block.vendor, text)
    if message.vendor is not None:
        size += _json(message.vendor, text)
    return size


def tools_size(tools: Iterable[ToolDef]) -> int:
    """The definitions of tools: names, descriptions, schemas."""
    return sum(TOOL + estimate(t.name) + estimate(t.description) + _json(t.parameters, estimate) for t in tools)


def picture_size(image: Image) -> int:
    """Tokens of a picture: by its pixels where its first bytes tell them, however it is encoded and stored."""
    size = pixels(image.data) if image.data else None
    if size is None:
        return PICTURE_MAX
    width, height = size
    shrink = min(1.0, _LONGEST / max(width, height))
    return max(PICTURE_MIN, min(PICTURE_MAX, int(width * shrink * height * shrink) // _PIXELS_A_TOKEN))


def _other(block: Block, text: Callable[[str], int]) -> int:
    if type(block) is ToolCall:
        written = encode(block.arguments).decode() if block.arguments is not None else block.arguments_raw or ""
        return CALL + text(block.name + written) + (_blob(block.signature) if block.signature else 0)
    if type(block) is Thinking:
        return text(block.text) + _blob(block.signature) + _blob(block.redacted) + _blob(block.encrypted)
    if type(block) is Image:
        return picture_size(block)
    return 0  # opaque: all it has is its vendor's


def _json(value: object, text: Callable[[str], int]) -> int:
    return text(encode(value).decode())


def _blob(text: str | None) -> int:
    return int(len(text) * _BLOB) + 1 if text else 0


def pixels(data: str) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, WebP or JPEG in base64; None: not told. Reads a few bytes, wherever they lie."""
    try:
        return dimensions(partial(_bytes, data))
    except (binascii.Error, ValueError, IndexError):
        return None


def _bytes(data: str, start: int, count: int) -> bytes:
    """Some bytes out of base64 text, from the groups of four that hold them.

    Raises:
        ValueError: they are not there.
    """
    group = start // 3
    text = data[group * 4 : ((start + count + 2) // 3) * 4]
    found = binascii.a2b_base64(text + "=" * (-len(text) % 4))[start - group * 3 :][:count]
    if len(found) < min(count, 10):
        raise ValueError("the picture ends before its size")
    return found
