"""The vendor table: rows that everybody has, and the user's own."""

from orkas.providers.vendors.own import Own, own
from orkas.providers.vendors.rows import (
    OAuthClient,
    Quirks,
    Told,
    ToldRates,
    Vendor,
    known_row,
    shipped,
    table,
    variable,
)

__all__ = [
    "OAuthClient", "Own", "Quirks", "Told", "ToldRates", "Vendor", "known_row", "own", "shipped", "table", "variable",
]  # fmt: skip
