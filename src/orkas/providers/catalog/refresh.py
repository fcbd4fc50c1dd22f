"""A newer catalogue, on request only: fetched, held against each other, checked, stored as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from orkas.infra import files
from orkas.infra.errors import OrkasError, ProviderError, UsageError
from orkas.infra.net import Http, Limits
from orkas.providers.catalog import file as catalog_file
from orkas.providers.catalog import lookup
from orkas.providers.catalog.public import ADDRESSES, READERS, Catalogue, build

__all__ = ["Refreshed", "refresh"]

_ENOUGH = 2
"""Catalogues that must have answered: one alone may be mistaken, and nothing would show it."""
_SHARE = 0.5
"""The share of the models known by now that the catalogues must name: less is no catalogue but part of one."""
_MOST_BYTES = 64 << 20


class Refreshed(msgspec.Struct):
    """What a refresh did. ``missed``: a sentence for each catalogue that did not count."""

    path: str
    as_of: str
    models: int
    new: list[str]
    """Model strings that were not known before."""
    changed: list[str]
    """Model strings of which something else was known before: a window, an ability, a price."""
    missed: list[str]


async def refresh(addresses: Mapping[str, str] | None = None, *, today: date | None = None) -> Refreshed:
    """Fetch the public catalogues and store what they say; it is in force when this returns, in this process too.

    ``addresses``: others than the public ones, by the names in ``public.ADDRESSES``. ``today``: in UTC.

    Raises:
        ProviderError: fewer than two catalogues could be used, or they name too few models. Nothing was changed.
        UsageError: the clock is behind the catalogue that Orkas came with.
        StorageError: the disk did not take it. What was in force is in force.
    """
    day = datetime.now(UTC).date() if today is None else today
    shipped = catalog_file.shipped_on()
    if str(day) < shipped:
        raise UsageError(f"the clock says {day}, and Orkas came with facts of {shipped}", hint="set the clock")
    found, missed = await _fetched({**ADDRESSES, **(addresses or {})}, day)
    if len(found) < _ENOUGH:
        why = "; ".join(missed)
        raise ProviderError(
            f"too few catalogues could be used, so nothing was changed: {why}", class_="connection",
            hint="check the network, or name mirrors with `orkas config set catalogues.NAME ADDRESS`",
        )  # fmt: skip
    built = build(found, catalog_file.families())
    before = catalog_file.facts().vendors
    named, known = sum(map(len, built.values())), catalog_file.count()
    if named < known * _SHARE:
        raise ProviderError(
            f"the catalogues name {named:,} models where {known:,} are known, so nothing was changed",
            class_="invalid_request", hint="try again later",
        )  # fmt: skip
    vendors = catalog_file.with_shipped(built)
    path = catalog_file.refreshed_path()
    files.replace(path, msgspec.json.encode({"as_of": str(day), "form": 1, "vendors": vendors}))
    lookup.reload()
    now = catalog_file.facts().vendors
    fresh = {f"{vendor}/{name}": row for vendor, rows in now.items() for name, row in rows.items()}
    old = {f"{vendor}/{name}": row for vendor, rows in before.items() for name, row in rows.items()}
    new = [name for name in fresh if name not in old]
    changed = [name for name, row in fresh.items() if name in old and old[name] != row]
    return Refreshed(str(path), str(day), len(fresh), new, changed, missed)


async def _fetched(addresses: Mapping[str, str], day: date) -> tuple[list[Catalogue], list[str]]:
    """The catalogues that could be used, and why others could not."""
    http = Http(limits=Limits(first_byte=60.0, idle=30.0))
    try:
        bodies = await asyncio.gather(*(_body(http, addresses[name]) for name in READERS), return_exceptions=True)
    finally:
        await http.aclose()
    found, missed = [], []
    for name, body in zip(READERS, bodies, strict=True):
        if isinstance(body, BaseException):
            if not isinstance(body, OrkasError):
                raise body
            missed.append(f"{name}: {body}")
            continue
        try:
            found.append(READERS[name](_json(body), day))
        except ValueError as error:
            missed.append(f"{name}: what {addresses[name]} sent cannot be used: {error}")
    return found, missed


async def _body(http: Http, address: str) -> bytes:
    async with http.get(address, {"accept": "application/json"}) as answer:
        if answer.status != 200:
            raise ProviderError(f"{address} answered {answer.status}", class_="server", status=answer.status)
        data = await answer.read_all(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ProviderError(f"what {address} sends is larger than {_MOST_BYTES >> 20} MB", class_="server")
    return data


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("it is no JSON, or was cut short") from None
