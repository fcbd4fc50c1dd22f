"""How far a conversation was read from its vendor's prompt cache, reply by reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from orkas.infra.amounts import counted, usd
from orkas.infra.messages import AssistantMessage, Message, UserMessage
from orkas.providers.catalog import model_info

__all__ = ["Row", "as_lines", "rows"]

_SLACK = 1_024
"""Tokens that may be missing without a word: caches hold whole blocks."""
_LIFE_S = 300.0
"""Seconds that a cache lives at least."""


class Row(msgspec.Struct):
    """One reply. ``message``: its number in the conversation. ``lost``: tokens that the request before had left in the
    cache and that were paid for again; ``why``: what is known of the reason."""

    message: int
    model: str
    prompt: int
    cached: int
    lost: int = 0
    lost_usd: float | None = None
    why: str = ""


def rows(messages: Sequence[Message]) -> list[Row]:
    """The replies that the vendor counted."""
    made: list[Row] = []
    last: AssistantMessage | None = None
    compacted = False
    for n, message in enumerate(messages):
        compacted = compacted or (type(message) is UserMessage and message.origin == "summary")
        usage = message.usage if type(message) is AssistantMessage else None
        if type(message) is not AssistantMessage or usage is None or usage.input is None:
            continue
        cached = usage.cache_read or 0
        row = Row(n, message.model, usage.input + cached + (usage.cache_write or 0), cached)
        if last is not None:
            _compare(row, made[-1], message, last, compacted=compacted)
        made.append(row)
        last, compacted = message, False
    return made


def _compare(row: Row, before: Row, message: AssistantMessage, last: AssistantMessage, *, compacted: bool) -> None:
    lost = min(before.prompt, row.prompt) - row.cached
    if message.model != last.model:
        row.why = "another model"
    elif compacted:
        row.why = "after a compaction"
    elif lost > max(_SLACK, before.prompt // 10):
        row.lost = lost
        row.lost_usd = _worth(row)
        gap = _seconds(last.ts, message.ts)
        late = gap is not None and gap > _LIFE_S
        row.why = "the log of that day may name the block"
        if late and gap:
            row.why = f"{counted(round(gap / 60), 'minute')} later"


def _worth(row: Row) -> float | None:
    vendor, _, model = row.model.partition("/")
    price = model_info(vendor, model).price
    rates = price.rates(row.prompt) if price is not None else None
    if rates is None or rates.cache_read is None:
        return None
    return row.lost * max(0.0, max(rates.input, rates.cache_write or 0.0) - rates.cache_read) / 1e6


def _seconds(before: str | float, after: str | float) -> float | None:
    try:
        first, second = (datetime.fromisoformat(t) if isinstance(t, str) else None for t in (before, after))
        return (second - first).total_seconds() if first is not None and second is not None else None
    except (ValueError, TypeError):
        return None


def as_lines(found: Iterable[Row]) -> list[tuple[str, ...]]:
    """A table: a head, then a row a reply."""
    table: list[tuple[str, ...]] = [("message", "model", "prompt", "cached", "lost", "")]
    for row in found:
        share = f"{row.cached:,} ({row.cached / row.prompt:.0%})" if row.prompt else "-"
        lost = f"{row.lost:,}" if row.lost else ""
        lost += f" ({usd(row.lost_usd)})" if row.lost_usd else ""
        table.append((str(row.message), row.model, f"{row.prompt:,}", share, lost, row.why))
    return table
