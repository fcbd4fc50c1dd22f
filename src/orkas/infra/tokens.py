"""How many tokens a text costs, guessed from its scripts and its shape: no vocabulary, a few passes of C loops, linear.

The weights are those of ``bench/tokens/fit.py``, which holds the estimate against nine vendors' vocabularies; its
README tells how far off it is for which kind of text. Vocabularies differ among themselves by more than that, so what
a vendor reports is always the better number.
"""

from __future__ import annotations

from math import ceil
from operator import mul

__all__ = ["WEIGHTS", "bounds", "dearest", "estimate", "features"]

WEIGHTS = {
    "letters": 0.175, "humps": 1.603, "digits": 0.25, "numbers": 1.571, "marks": 0.365, "spaces": 0.02, "gaps": 0.368,
    "breaks": 0.1, "lines": 1.365,
    "latin": 1.6, "vietnamese": 0.2, "phonetic": 2.753, "greek": 0.395, "cyrillic": 0.295, "armenian": 0.681,
    "hebrew": 0.484, "arabic": 0.39, "thai": 0.508, "devanagari": 0.61, "indic": 0.782, "asian": 0.91, "symbols": 0.846,
    "kana": 0.65, "han": 0.658, "hangul": 0.687, "forms": 0.5, "astral": 2.405,
}  # fmt: skip
"""Tokens for one of each feature."""

# One bit a class of ASCII, so that a text becomes one integer of a byte a character in which bits are counted.
_LOWER, _UPPER, _DIGIT, _MARK, _SPACE, _BREAK = 1, 2, 4, 8, 16, 32


def _class_of(byte: int) -> int:
    char = chr(byte)
    if byte >= 0x80:
        return 0
    if char.isalpha():
        return _LOWER if char.islower() else _UPPER
    if char.isdigit():
        return _DIGIT
    return _SPACE if char == " " else _BREAK if char in "\t\n\r" else _MARK


_CLASSES = bytes(map(_class_of, range(256)))
_PIECE = 16_384
"""Bytes that are looked at together. A run across the seam of two pieces counts twice."""


def _mask(bits: int) -> int:
    return int.from_bytes(bytes([bits]) * _PIECE, "little")


_LOWERS, _LETTERS, _DIGITS, _MARKS, _SPACES, _BREAKS = map(
    _mask, (_LOWER, _LOWER | _UPPER, _DIGIT, _MARK, _SPACE, _BREAK)
)

_NO_LEAD = bytes(range(0xC2))
"""ASCII, and the second and later bytes of other characters: what stays is the first byte of each of those."""
_LEADS = {
    "han": bytes(range(0xE4, 0xEA)),
    "kana": b"\xe3",
    "hangul": bytes(range(0xEA, 0xEE)),
    "cyrillic": bytes(range(0xD0, 0xD4)),
    "latin": bytes(range(0xC2, 0xC7)),
    "arabic": bytes(range(0xD8, 0xE0)),
    "indic": b"\xe0",
    "symbols": b"\xe2",
    "asian": b"\xe1",
    "astral": bytes(range(0xF0, 0xF5)),
    "forms": b"\xee\xef",
    "greek": b"\xce\xcf",
    "hebrew": b"\xd6\xd7",
    "armenian": b"\xd4\xd5",
    "phonetic": bytes(range(0xC7, 0xCE)),
}
"""First bytes in UTF-8, frequent ones first. ``kana`` has the punctuation of Chinese and Japanese too, ``astral`` the
emoji, ``forms`` full width. What shares a first byte with others is told apart below."""
_PARTS = {
    "indic": {"thai": (b"\xe0\xb8", b"\xe0\xb9"), "devanagari": (b"\xe0\xa4", b"\xe0\xa5")},
    "asian": {"vietnamese": (b"\xe1\xba", b"\xe1\xbb")},
}


def estimate(text: str) -> int:
    """Tokens of a text, near the median of the vocabularies in use. 0 only for an empty text; never raises.

    Takes about 7 ns a byte, whatever the text.
    """
    data = text.encode("utf-8", "surrogatepass")
    cost: float = sum(map(mul, _counts(data.translate(_CLASSES)), _SHAPE_WEIGHTS))
    if len(text) != len(data):
        cost += sum([WEIGHTS[name] * count for name, count in _scripts(data)])
    return ceil(cost)


def features(text: str) -> list[tuple[str, int]]:
    """What is counted in a text: ASCII by class and by runs of a class, other characters by script."""
    data = text.encode("utf-8", "surrogatepass")
    found = list(zip(_SHAPE, _counts(data.translate(_CLASSES)), strict=True))
    if len(text) != len(data):
        found += _scripts(data)
    return found


_SHAPE = ("letters", "humps", "digits", "numbers", "marks", "spaces", "gaps", "breaks", "lines")
"""``humps``: a capital after a small letter. ``numbers``, ``gaps``, ``lines``: runs of digits, spaces, line breaks."""
_SHAPE_WEIGHTS = tuple(WEIGHTS[name] for name in _SHAPE)

_SMALL = bytes(range(ord("a"), ord("z") + 1)) + bytes(range(0x80, 0xC0))
"""Small letters, and the later bytes of other characters."""
_LETTER = WEIGHTS["letters"]
_SPACE_LEAST, _SPACE_MOST = WEIGHTS["spaces"], WEIGHTS["spaces"] + WEIGHTS["gaps"]
_SCRIPTS = [WEIGHTS[name] for name in WEIGHTS if name not in _SHAPE]
_REST_LEAST = min(WEIGHTS["letters"], WEIGHTS["digits"], WEIGHTS["marks"], WEIGHTS["breaks"], *_SCRIPTS)
_ASCII_MOST = max(
    WEIGHTS["letters"] + WEIGHTS["humps"], WEIGHTS["digits"] + WEIGHTS["numbers"], WEIGHTS["marks"],
    WEIGHTS["breaks"] + WEIGHTS["lines"],
)  # fmt: skip
_REST_MOST = max(_ASCII_MOST, *_SCRIPTS)
_DEAREST_ASCII, _DEAREST = ceil(_ASCII_MOST), ceil(_REST_MOST)


def dearest(text: str) -> int:
    """``estimate`` is never more for a text of this length. Does not look at the text: a few times too much of most."""
    return len(text) * (_DEAREST_ASCII if text.isascii() else _DEAREST)


_SHORT = 32
"""Characters that are not worth a look: it takes longer than the few tokens matter."""


def bounds(text: str) -> tuple[int, int]:
    """What ``estimate`` says of a text is never less than the first nor more than the second. Takes a fifth of its
    time: small letters and spaces are counted, every other character is the cheapest or the dearest. A short text is
    not even read."""
    if len(text) <= _SHORT:
        return int(len(text) * _SPACE_LEAST), dearest(text)
    other = text.encode("utf-8", "surrogatepass").translate(None, _SMALL)
    rest = len(other.translate(None, b" "))
    spaces = len(other) - rest
    letters = (len(text) - len(other)) * _LETTER
    most = _ASCII_MOST if text.isascii() else _REST_MOST
    return (
        int(letters + spaces * _SPACE_LEAST + rest * _REST_LEAST),
        int(letters + spaces * _SPACE_MOST + rest * most) + 1,
    )


def _counts(classes: bytes) -> tuple[int, ...]:
    """How often each of ``_SHAPE`` occurs."""
    if len(classes) <= _PIECE:
        return _shape(classes)
    pieces = [_shape(classes[i : i + _PIECE]) for i in range(0, len(classes), _PIECE)]
    return tuple(map(sum, zip(*pieces, strict=True)))


def _shape(classes: bytes) -> tuple[int, ...]:
    x = int.from_bytes(classes, "little")
    again = x & (x >> 8)  # of the class of the next one
    digits = (x & _DIGITS).bit_count()
    spaces = (x & _SPACES).bit_count()
    breaks = (x & _BREAKS).bit_count()
    return (
        (x & _LETTERS).bit_count(),
        (x & (x >> 9) & _LOWERS).bit_count(),
        digits,
        digits - (again & _DIGITS).bit_count(),
        (x & _MARKS).bit_count(),
        spaces,
        spaces - (again & _SPACES).bit_count(),
        breaks,
        breaks - (again & _BREAKS).bit_count(),
    )


def _scripts(data: bytes) -> list[tuple[str, int]]:
    leads = data.translate(None, _NO_LEAD)
    found = []
    for name, own in _LEADS.items():
        if not leads:
            break
        rest = leads.translate(None, own)
        if count := len(leads) - len(rest):
            for part, starts in _PARTS.get(name, {}).items():
                of_part = sum(map(data.count, starts))
                found.append((part, of_part))
                count -= of_part
            found.append((name, count))
            leads = rest
    return found
