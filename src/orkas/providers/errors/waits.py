"""How long a vendor asks to wait: in headers, in fields of the body, or in words."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

__all__ = ["retry_after"]

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_DURATION = re.compile(
    r"(?:(\d{1,15})h)?(?:(\d{1,15})m(?!s))?(?:(\d{1,15}(?:\.\d{1,30})?)s)?(?:(\d{1,15}(?:\.\d{1,30})?)ms)?", re.ASCII
)
_SPOKEN = re.compile(
    r"(?:try(?:ing)? again|retry(?:ing)?|wait|available|resets?)(?: again| your request| at least)*"
    r"(?P<when> in| after| for|)(?: about| approximately|) +(?P<number>\d[\d.]*(?:h|ms|m|s|)(?:\d[\d.]*(?:ms|m|s))*)\s*"
    r"(?P<unit>milliseconds?|seconds?|secs?\b|minutes?|mins?\b|hours?|days?)?(?P<date>[-/:]\d)?",
    re.ASCII,
)
_MORE = re.compile(
    r",?(?: and)? ?(?P<number>\d{1,15}(?:\.\d{1,9})?) ?"
    r"(?P<unit>ms\b|milliseconds?|s\b|seconds?|secs?\b|m\b|minutes?|mins?\b|hours?)",
    re.ASCII,
)
"""The rest of a time in words: of “1 hour, 5 minutes and 10 seconds” what stands behind the hour."""
_UNITS = {"milli": 0.001, "ms": 0.001, "m": 60.0, "s": 1.0, "hour": 3600.0, "day": 86400.0}
"""By how their names begin; the first that fits."""


def retry_after(
    headers: Mapping[str, str], text: str = "", *, now: float | None = None, details: Iterable[str] = ()
) -> float | None:
    """Seconds the vendor asks to wait, from headers, from the body's fields, from its words; None if it does not say.

    Odd values are ignored, a date in the past means 0. Not limited: what to do with a long wait is the caller's to say.
    """
    now = time.time() if now is None else now
    if (given := _number(headers.get("retry-after-ms", ""))) is not None:
        return given / 1000
    if (given := _seconds_or_date(headers.get("retry-after", ""), now)) is not None:
        return given
    for value in details:
        if (given := _duration(value)) is not None:
            return given
    if found := _SPOKEN.search(re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)):
        return _spoken(found)
    return _exhausted(headers, now)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _seconds_or_date(text: str, now: float) -> float | None:
    if (number := _number(text)) is not None:
        return number
    if not re.match(r"[A-Za-z]{3,9},? ", text):
        return None
    try:
        return _until(email.utils.parsedate_to_datetime(text), now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until(when: datetime, now: float) -> float:
    """Seconds until then; a time without a zone is UTC."""
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)


def _duration(text: str) -> float | None:
    """``6m12s``, ``120ms``, ``34.4s`` or bare seconds."""
    text = text.strip()
    if (number := _number(text)) is not None:
        return number
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    hours, minutes, seconds, millis = (float(g or 0) for g in found.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def _spoken(found: re.Match[str]) -> float | None:
    number, unit = found["number"].rstrip("."), found["unit"] or ""
    if found["date"] or (not unit and not found["when"] and number.isdecimal()):
        return None  # "retry after 2026-12-01", "retry 3 times"
    value = _duration(number)
    if value is None:
        return None
    total, at = value * _scale(unit), found.end()
    while more := (unit or not number.isdecimal()) and _MORE.match(found.string, at):
        total, at = total + float(more["number"]) * _scale(more["unit"]), more.end()
    return total


def _scale(unit: str) -> float:
    return next((seconds for name, seconds in _UNITS.items() if unit.startswith(name)), 1.0)


_RESET = re.compile(r"^(?:anthropic-|x-)?ratelimit-(?:reset(?:-(?P<after>.+))?|(?P<before>.+)-reset)$")


def _exhausted(headers: Mapping[str, str], now: float) -> float | None:
    """When the used-up allowance is filled again; allowances with something left say nothing."""
    waits: list[float] = []
    for name, value in headers.items():
        if found := _RESET.match(name):
            bucket = found["after"] or found["before"] or ""
            prefix = name.split("ratelimit")[0] + "ratelimit-"
            left = (f"{prefix}remaining-{bucket}", f"{prefix}{bucket}-remaining") if bucket else (f"{prefix}remaining",)
            if any(headers.get(n, "").strip() == "0" for n in left) and (wait := _reset(value, now)) is not None:
                waits.append(wait)
    return max(waits, default=None)


def _reset(value: str, now: float) -> float | None:
    if (number := _number(value)) is not None:
        if number > 1e11:
            number /= 1000
        return max(0.0, number - now) if number > 1e8 else number
    if (span := _duration(value)) is not None:
        return span
    try:
        return _until(datetime.fromisoformat(value.strip().replace("Z", "+00:00")), now)
    except (ValueError, OverflowError):
        return None
