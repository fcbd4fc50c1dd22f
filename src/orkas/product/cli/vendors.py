"""The vendor table as commands show it: what each row needs, and which of it is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orkas.infra import environment
from orkas.infra.errors import StorageError

if TYPE_CHECKING:
    from orkas.infra.secrets import Place

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
    account: str
    """The name under which its login is stored."""
    login: Place | None
    """Where that is; None: there is none, or it cannot be read."""
    stored_in: Path
    """The file of all logins."""
    url_variable: str
    """The variable that says where it is, while nobody has said."""


def rows() -> list[Row]:
    """All vendors in the order of the table."""
    from orkas.infra.redact import redact
    from orkas.providers.accounts.auth import environment_keys
    from orkas.providers.accounts.logins import Logins
    from orkas.providers.vendors import table, variable

    logins = Logins()
    try:
        places = logins.places()
    except StorageError:  # told by `auth status` and `doctor`
        places = {}
    found = []
    for name, row in table().items():
        variables = row.key_variables(name)
        addresses = (environment.environ.get(u, "").strip() for u in row.url_variables(name))
        url = next(filter(None, addresses), row.base_url)
        key, _ = environment_keys(name, row, environment.environ)
        missing = variable(name, "BASE_URL")
        if "{region}" in url:
            url, missing = _placed(url), "AWS_REGION"
        elif "{" in url:
            url, missing = _filled(url, key), "GOOGLE_CLOUD_PROJECT"
        account = row.account or name
        found.append(Row(
            name, row.dialect, redact(url), row.local, variables, key, list(row.prefixes), account,
            places.get(account), logins.store.path, missing,
        ))  # fmt: skip
    return found


def _filled(template: str, key: str | None) -> str:
    """An address that names a project; empty while none is named."""
    from orkas.infra.errors import UsageError
    from orkas.providers.clouds.vertex import address

    try:
        return address(template, environment.environ, environment.environ[key].strip() if key else None)
    except UsageError:
        return ""


def _placed(template: str) -> str:
    """An address that names a region; empty while none is named."""
    from orkas.infra.errors import UsageError
    from orkas.providers.clouds.aws import address

    try:
        return address(template, environment.environ)
    except UsageError:
        return ""
