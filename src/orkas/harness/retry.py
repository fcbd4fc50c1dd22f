"""Whether, and when, a failed request is made again: one budget for a turn, shared by everybody who asks the model."""

from __future__ import annotations

import random

import msgspec

from orkas.infra.errors import ProviderError

__all__ = ["MAX_RETRIES", "MAX_WAIT_S", "Retries"]

MAX_RETRIES = 5
"""Failures in a row that are tried again."""
MAX_WAIT_S = 60.0
"""A vendor that asks for a longer wait is not waited for: the error says when it may be tried again."""
_FIRST_S, _LONGEST_S = 1.0, 30.0
"""The wait doubles from the first to the longest; up to a fifth is added, so that many clients do not come at once."""
_TRANSIENT = frozenset(["rate_limit", "overloaded", "timeout", "connection", "server"])


class Retries(msgspec.Struct, eq=False):
    """Failures since the last good reply. ``limit``: how many are tried again."""

    limit: int = MAX_RETRIES
    failures: int = 0
    waited_s: float = 0.0

    def wait(self, error: ProviderError) -> float:
        """Seconds to wait before the request is made again.

        Raises:
            ProviderError: it is not made again. The very error, its sentence saying why where that is news.
        """
        if error.class_ not in _TRANSIENT or self.failures >= self.limit:
            raise error
        self.failures += 1
        wait_s = error.wait_s
        if wait_s is None:
            wait_s = min(_LONGEST_S, _FIRST_S * 2 ** (self.failures - 1)) * (1 + random.random() / 5)  # noqa: S311
        if wait_s > MAX_WAIT_S:
            raise error
        self.waited_s += wait_s
        return wait_s

    def succeeded(self) -> None:
        """A reply came whole: the budget is full again."""
        self.failures = 0
        self.waited_s = 0.0
