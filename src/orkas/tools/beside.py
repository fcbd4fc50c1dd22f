"""A request to a model beside the conversation, made by a tool: made again where waiting may cure why it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from orkas.infra.errors import ProviderError

__all__ = ["asked", "may_cost"]

T = TypeVar("T")
_RETRIES = 2
"""Times that a request which waiting may cure is made again."""


async def asked(asking: Callable[[], Awaitable[T]], say: Callable[[str], None], *, brief: bool = False) -> T:
    """What ``asking`` gives, made anew after each failure that may pass. ``brief``: somebody else could be asked
    instead, so that no long wait is worth it.

    Raises:
        ProviderError: it failed for good.
    """
    from orkas.harness.retry import Retries

    retries = Retries(limit=_RETRIES)
    while True:
        try:
            return await asking()
        except ProviderError as error:
            wait = retries.wait(error, spare=brief)
            say(f"{error.message}; asking again in {wait:.0f} s (attempt {retries.ordinal + 1})")
        await asyncio.sleep(wait)


def may_cost(error: ProviderError) -> bool:
    """Whether a request that failed may have to be paid all the same: it was answered, or broke off under way, when
    the vendor had perhaps done its work."""
    broke_off = error.class_ in ("connection", "timeout") and error.reached and error.status is None
    return error.answered or broke_off
