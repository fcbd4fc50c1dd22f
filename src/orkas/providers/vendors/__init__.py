"""The vendor table: one row a vendor, in ``vendors.toml``, and the rows of the user's own in ``config.toml``."""

from orkas.providers.vendors.joined import known_row, table
from orkas.providers.vendors.rows import OAuthClient, Quirks, Told, ToldRates, Vendor, shipped, variable

__all__ = ["OAuthClient", "Quirks", "Told", "ToldRates", "Vendor", "known_row", "shipped", "table", "variable"]
