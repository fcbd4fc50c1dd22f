"""Names for new conversations."""

from __future__ import annotations

import secrets
import time

__all__ = ["fresh_id"]


def fresh_id() -> str:
    """Local time and chance: ``20261130-142501-9f3c``. Only a name; nothing is ordered by it."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
