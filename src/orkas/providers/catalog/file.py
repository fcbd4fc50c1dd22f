"""The catalogue's file: the one that Orkas came with, or the one that a refresh has put beside the user's settings.

The refreshed one counts when it is whole, sane and not older; anything else is as if it were not there, and
``trouble`` says so.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from orkas.infra.home import home

__all__ = [
    "Row", "as_of", "count", "facts", "families", "refreshed", "refreshed_path", "shipped_on", "trouble",
    "with_shipped",
]  # fmt: skip

_SHIPPED = Path(__file__).with_name("models.json")


_Size = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
_Cost = Annotated[float, msgspec.Meta(ge=0, le=100_000)]


class Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is known of one model: tokens, letters for its abilities, USD a million tokens. Nothing that cannot be."""

    window: Annotated[int, msgspec.Meta(ge=1_000, le=100_000_000)]
    output: _Size | None
    abilities: str
    input: _Cost | None = None
    answer: _Cost | None = None
    cache_read: _Cost | None = None
    cache_write: _Cost | None = None
    tiers: tuple[tuple[_Size, _Cost, _Cost, _Cost | None, _Cost | None], ...] = ()


class File(msgspec.Struct):
    as_of: str
    aliases: dict[str, str]
    families: dict[str, Row]
    vendors: dict[str, dict[str, Row]]
    refreshed: bool = False
    trouble: str = ""


class _Head(msgspec.Struct):
    as_of: str
    aliases: dict[str, str]
    families: dict[str, Row]


class _Fresh(msgspec.Struct):
    """What a refresh stores: facts by vendor and model. Short names and families are always the shipped ones."""

    form: Literal[1]
    as_of: Annotated[str, msgspec.Meta(pattern=r"^20\d\d-\d\d-\d\d$")]
    vendors: dict[str, dict[str, Row]]


def refreshed_path() -> Path:
    """Where a refreshed catalogue lies; it need not exist."""
    return home() / "models.json"


@cache
def facts() -> File:
    """The catalogue in force."""
    shipped = _SHIPPED.read_bytes()
    path = refreshed_path()
    try:
        fresh, trouble = _fresh(path.read_bytes(), shipped), ""
    except (FileNotFoundError, NotADirectoryError):
        fresh, trouble = None, ""
    except OSError as error:
        fresh, trouble = None, f"it cannot be read: {error.strerror}"
    except ValueError as error:  # msgspec's errors are of this kind
        fresh, trouble = None, str(error)
    if fresh is not None:
        head = msgspec.json.decode(shipped, type=_Head)
        return File(fresh.as_of, head.aliases, head.families, fresh.vendors, refreshed=True)
    found = msgspec.json.decode(shipped, type=File)
    if trouble:
        found.trouble = f"the refreshed catalogue {path} does not count ({trouble}); `orkas models refresh` mends it"
    return found


def _fresh(data: bytes, shipped: bytes) -> _Fresh | None:
    """The refreshed catalogue; None: the shipped one is newer, as after an update of Orkas.

    Raises:
        ValueError: it is damaged, says why.
    """
    import time

    try:
        fresh = msgspec.json.decode(data, type=_Fresh)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if fresh.as_of > time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400)):
        raise ValueError(f"its date {fresh.as_of} lies in the future")
    return fresh if fresh.as_of >= _day_of(shipped) else None


def shipped_on() -> str:
    """The date of the catalogue that Orkas came with."""
    with _SHIPPED.open("rb") as file:
        return _day_of(file.read(32))


def _day_of(data: bytes) -> str:
    """The date at the head of a catalogue, without reading the rest of it."""
    return data[10:20].decode() if data.startswith(b'{"as_of":"') else "9999"


def as_of() -> str:
    """The day on which the facts were gathered, as 2026-11-30."""
    return facts().as_of


def refreshed() -> bool:
    """Whether a refreshed catalogue is in force, and not the one that Orkas came with."""
    return facts().refreshed


def trouble() -> str:
    """Why a refreshed catalogue that is there is not in force, as one sentence; empty: all is well.

    An older one than Orkas came with is no trouble.
    """
    return facts().trouble


def with_shipped(vendors: dict[str, dict[str, list[Any]]]) -> dict[str, dict[str, list[Any]]]:
    """Facts of catalogues, and below them what Orkas came with, so that no model is ever unlearnt. What cannot be is
    left out."""
    data = msgspec.json.decode(_SHIPPED.read_bytes())
    made = {}
    for vendor, known in data["vendors"].items():
        rows = {name: row for name, row in vendors.get(vendor, {}).items() if _converts(row)}
        made[vendor] = dict(sorted({**known, **rows}.items()))
    return made


def _converts(row: list[Any]) -> bool:
    try:
        msgspec.convert(row, Row)
    except msgspec.ValidationError:
        return False
    return True


def families() -> dict[str, tuple[int, int | None, str]]:
    """Window, output limit and abilities of whole families of models."""
    return {name: (row.window, row.output, row.abilities) for name, row in facts().families.items()}


def count() -> int:
    """How many models are in the catalogue in force."""
    return sum(map(len, facts().vendors.values()))
