"""Foreign text made safe to show in a terminal."""

from __future__ import annotations

import re

__all__ = ["inert"]

_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, bidirectional overrides and isolates
    "\ud800-\udfff\U000e0000-\U000e007f]"  # half characters, invisible tags
)


def inert(text: str) -> str:
    """``text`` with every character that could command a terminal, or reorder what it shows, written out.

    Tabs and newlines stay and CR LF becomes LF; control codes become caret notation (``^[`` for escape), the rest
    becomes a Python escape (``\\x9b``, ``\\u202e``). Idempotent. Only for eyes: models and files get the text itself.
    """
    return _ACTIVE.sub(_written, text.replace("\r\n", "\n"))


def _written(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
