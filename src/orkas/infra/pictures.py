"""What the bytes of a picture tell of it, without drawing it: its kind, its size, and whether any vendor will take it.

A picture that a vendor refuses stays in the history, and every later request fails with it: so it is looked at before
it is let in.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

__all__ = ["MAX_BYTES", "MAX_SIDE", "dimensions", "fault", "media_type"]

MAX_BYTES = 5 * 1024 * 1024 // 4 * 3
"""Of a picture as it is, 3.75 MB: Anthropic, whose limit is the smallest, takes 5 MB of base64."""
MAX_SIDE = 8_000
"""Pixels (Anthropic's guide to vision)."""
_PNG = b"\x89PNG\r\n\x1a\n"
_MAGIC = ((_PNG, "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_SEGMENTS = 64
"""Segments of a JPEG looked at before its size counts as unknown. Real ones have about ten."""

Bytes = Callable[[int, int], bytes]
"""So many bytes of a picture from a place on; fewer where it ends."""


class _Broken(Exception):
    """The picture ends before its end, or is none. The words say what is wrong."""


def media_type(head: bytes) -> str | None:
    """Type of a picture by its first bytes; None when it is none that every vendor takes."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def dimensions(at: Bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, WebP or JPEG; None: not told. Reads a few bytes, wherever they lie.

    Raises:
        ValueError, IndexError: it ends before its size.
    """
    head = at(0, 30)
    kind = media_type(head)
    if kind == "image/png":
        size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    elif kind == "image/gif":
        size = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    elif kind == "image/webp":
        size = _webp(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg(at)
    else:
        return None
    return size if min(size) > 0 else None


def _webp(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def _jpeg(at: Bytes) -> tuple[int, int]:
    place = 2
    for _ in range(_SEGMENTS):
        segment = at(place, 10)
        if segment[0] != 0xFF:
            break
        kind = segment[1]
        if _is_frame(kind):
            return int.from_bytes(segment[7:9], "big"), int.from_bytes(segment[5:7], "big")
        place += 1 if kind == 0xFF else 2 + int.from_bytes(segment[2:4], "big")
    return 0, 0


def _is_frame(kind: int) -> bool:
    return 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC)


def fault(data: bytes) -> str:
    """Why no vendor would take this PNG, JPEG, GIF or WebP; empty: they would.

    As words that follow its name: "has 30000 x 30000 pixels, …".
    """
    if len(data) > MAX_BYTES:
        return f"has {len(data) / 2**20:.1f} MB; at most {MAX_BYTES / 2**20:g} MB can be shown"
    try:
        width, height = _looked_at(data)
    except _Broken as broken:
        return f"is no whole picture: {broken}"
    if width < 1 or height < 1:
        return "is no whole picture: it has no size"
    if max(width, height) > MAX_SIDE:
        return f"has {width:,} x {height:,} pixels; at most {MAX_SIDE:,} a side can be shown"
    if data.startswith(b"\xff\xd8") and _colours(data) == 4:
        return "is a JPEG in CMYK, the colours of printers, which cannot be shown"
    return ""


def _looked_at(data: bytes) -> tuple[int, int]:
    whole = {
        "image/png": _whole_png, "image/gif": _whole_gif, "image/webp": _whole_webp, "image/jpeg": _whole_jpeg,
    }.get(media_type(data[:16]) or "")  # fmt: skip
    if whole is None:
        raise _Broken("its first bytes are of another kind")
    return whole(data)


def _whole_png(data: bytes) -> tuple[int, int]:
    at = len(_PNG)
    size, drawn = (0, 0), False
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(data):
            break
        checked = int.from_bytes(data[end - 4 : end], "big")
        if kind[:1].isupper() and zlib.crc32(data[at + 4 : end - 4]) != checked:  # of the others none is needed
            raise _Broken("a part of it is damaged")
        if kind == b"IHDR" and length >= 8:
            size = int.from_bytes(data[at + 8 : at + 12], "big"), int.from_bytes(data[at + 12 : at + 16], "big")
        drawn = drawn or kind == b"IDAT"
        if kind == b"IEND":
            if not drawn:
                raise _Broken("it holds no pixels")
            return size
        at = end
    raise _Broken("its end is missing")


def _whole_gif(data: bytes) -> tuple[int, int]:
    at = 13 + _table(data[10:11])
    drawn = False
    while at < len(data):
        kind = data[at]
        if kind == 0x3B:
            if not drawn:
                raise _Broken("it holds no pixels")
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        if kind == 0x2C:
            drawn = True
            at += 11 + _table(data[at + 9 : at + 10])
        elif kind == 0x21:
            at += 2
        else:
            raise _Broken("a part of it is damaged")
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    raise _Broken("its end is missing")


def _table(flags: bytes) -> int:
    """Bytes of the table of colours that these flags announce."""
    return 3 * 2 ** ((flags[0] & 7) + 1) if flags and flags[0] & 0x80 else 0


def _whole_webp(data: bytes) -> tuple[int, int]:
    end = 8 + int.from_bytes(data[4:8], "little")
    if len(data) < 30 or end < 30 or end > len(data):
        raise _Broken("its end is missing")
    at, drawn = 12, False
    while at + 8 <= end:
        drawn = drawn or data[at : at + 4] in (b"VP8 ", b"VP8L", b"ANMF")
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8 + length + length % 2
    if at > end + 1:
        raise _Broken("its end is missing")
    if not drawn:
        raise _Broken("it holds no pixels")
    return _webp(data[:30])


def _whole_jpeg(data: bytes) -> tuple[int, int]:
    """The segments up to the first scan; behind it the end, which the bytes of a scan never look like."""
    size = (0, 0)
    for kind, at in _segments(data):
        if _is_frame(kind):
            size = int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        if kind == 0xDA and data.find(b"\xff\xd9", at) >= 0:
            return size
    raise _Broken("its end is missing")


def _segments(data: bytes) -> list[tuple[int, int]]:
    """Kind and place of each segment up to the first scan."""
    found = []
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if kind == 0xFF:
            at += 1
            continue
        found.append((kind, at))
        if kind == 0xDA:
            break
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return found


def _colours(data: bytes) -> int:
    return next((data[at + 9] for kind, at in _segments(data) if _is_frame(kind) and at + 9 < len(data)), 0)
