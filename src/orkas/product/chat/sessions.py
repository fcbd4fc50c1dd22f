"""Which conversations there are on disk, newest first, and names for new ones. Reads only heads and tails of files."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from orkas.infra.config import home

__all__ = ["Found", "fresh_id", "recent"]


@dataclass(frozen=True, slots=True)
class Found:
    id: str
    path: Path
    changed: float
    """Seconds since the epoch at which it was last written."""


def fresh_id() -> str:
    """Local time and chance: ``20261130-142501-9f3c``. Only a name; nothing is ordered by it."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def recent(most: int = 10) -> list[Found]:
    """The sessions written last."""
    found = []
    for path in (home() / "sessions").glob("*.jsonl"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue  # deleted while we looked
    newest = sorted(found, reverse=True)[:most]
    return [Found(_id(path), path, changed / 1e9) for changed, path in newest]


def _id(path: Path) -> str:
    """The id in the file's first record; a file without one goes by its name."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(65536))
    except (OSError, ValueError):
        return path.stem
    given = head.get("id") if isinstance(head, dict) and head.get("type") == "session" else None
    return given if isinstance(given, str) and given else path.stem
