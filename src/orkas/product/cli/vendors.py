"""The vendor table as commands show it: what each row needs, and which of it is there."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Row", "rows"]


class Row(NamedTuple):
    """One vendor, seen from this environment."""

    name: str
    dialect: str
    base_url: str
    """Where it is reached from here, secrets in it masked; empty: nobody said."""
    local: bool
    """It needs no key."""
    variables: list[str]
    """Variables that may hold its key, in the order they are looked at."""
    key: str | None
    """The one that does."""
    prefixes: list[str]
    """Bare model names that begin like this belong to it."""

    url_variable: str
    """The variable that says where it is, while nobody has said."""


def rows() -> list[Row]:
    """All vendors in the order of the table."""
    from orkas.infra.redact import redact
    from orkas.providers.vendors import table, variable

    found = []
    for name, row in table().items():
        variables = row.key_variables(name)
        url = next((given for u in row.url_variables(name) if (given := os.environ.get(u, "").strip())), row.base_url)
        key = next((v for v in variables if os.environ.get(v, "").strip()), None)
        missing = variable(name, "BASE_URL")
        if "{" in url:
            url, missing = _filled(url, key), "GOOGLE_CLOUD_PROJECT"
        found.append(Row(name, row.dialect, redact(url), row.local, variables, key, list(row.prefixes), missing))
    return found


def _filled(template: str, key: str | None) -> str:
    """An address that names a project; empty while none is named."""
    from orkas.infra.errors import UsageError
    from orkas.providers.vertex import address

    try:
        return address(template, os.environ, os.environ[key].strip() if key else None)
    except UsageError:
        return ""
