"""All rows that there are: those that everybody has, and the user's own from ``config.toml``."""

from __future__ import annotations

from orkas.providers.vendors.own import own
from orkas.providers.vendors.rows import Vendor, shipped

__all__ = ["known_row", "table"]


def table() -> dict[str, Vendor]:
    """All rows by name, the user's own last. What the user's file says now, but for rows with a mistake."""
    global _known
    mine = own().vendors
    _known = {**shipped(), **mine} if mine else shipped()
    return _known


_known: dict[str, Vendor] = {}


def known_row(vendor: str) -> Vendor | None:
    """The row of this name as the table last had it; costs no look at the file."""
    return (_known or table()).get("llamacpp" if vendor == "local" else vendor)
