"""The vendor table as commands show it: what each row needs, and which of it is there."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["base_url_of", "key_of", "rows"]


def rows() -> list[Any]:
    """All vendors in the order of the table."""
    from orkas.providers import registry

    return list(registry.vendors())


def key_of(row: Any) -> str | None:
    """The variable that holds this vendor's key here; None: there is none."""
    return next((name for name in row.keys if os.environ.get(name, "").strip()), None)


def base_url_of(row: Any) -> str:
    """Where it is reached from here: the environment's address, else the table's. Empty: nobody said."""
    own = row.name.upper().replace("-", "_") + "_BASE_URL"
    return os.environ.get(own, "").strip() or row.base_url
