"""Payloads of events → what a dialect makes of them: all of one read together, odd ones one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from orkas.providers.reading.body import broken_off, is_damaged

__all__ = ["decoded", "loads", "odd"]

T = TypeVar("T")


def loads(payload: bytes) -> Any:
    """Plain data, as much of it as can be read; None when it is no JSON."""
    try:
        return json.loads(payload.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def decoded(payloads: list[bytes], one: Callable[[bytes], T], many: Callable[[bytes], list[T]]) -> list[T] | None:
    """The events of one read in one go; None when one of them did not parse, or only together with its neighbour."""
    try:
        events = many(b"[" + b",".join(payloads) + b"]") if len(payloads) > 1 else [one(payloads[0])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return events if len(events) == len(payloads) else None


def odd(
    payload: bytes, one: Callable[[bytes], T], tolerant: Callable[[bytes], T | None], *, vendor: str, last: bool
) -> T | None:
    """One event with odd types, lone surrogates or garbage in it. None: there is none, as in a keep-alive, or in the
    torn end of a cut stream. ``last``: the body has ended behind it.

    Raises:
        ProviderError: a part of the reply is damaged.
    """
    try:
        return one(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        event = tolerant(payload)
    if event is None and not last and is_damaged(payload):
        raise broken_off(vendor, "a part of the reply arrived damaged")
    return event
