"""Who may be asked in a turn, in the user's order, and whose turn it is.

Another candidate takes over only before the first visible text of a reply, and only where the failure says something
about the one that was asked: its credentials, its quota, its name, or that it could not be reached after its retries.
What is wrong with the request itself is as wrong for the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from orkas.infra.errors import ProviderError
from orkas.providers.base import LLMProvider

__all__ = ["COOL_S", "Candidate", "Succession", "moves"]

COOL_S = 300.0
"""Seconds for which a candidate whose credentials were refused is not asked again, in later turns too."""
_REFUSED = frozenset(["auth", "quota", "not_found"])
"""Failures that no waiting within a turn cures: who failed so is not asked again in the same turn."""
_UNHEARD = frozenset(["rate_limit", "overloaded", "timeout", "connection", "server"])


def moves(error: ProviderError) -> bool:
    """Whether a failure says something about the one that was asked, so that another may be asked."""
    return error.class_ in _REFUSED or error.class_ in _UNHEARD


class Candidate(msgspec.Struct, eq=False):
    """A model that may be asked. Lives as long as its agent."""

    provider: LLMProvider
    model: str
    """The model id without the vendor."""
    cool_until: float = 0.0
    """By ``time.monotonic``."""

    @property
    def full_model(self) -> str:
        return f"{self.provider.id}/{self.model}"


class Succession:
    """The candidates of one turn. Each turn begins with the first one that does not cool down; with the first one
    where all do. ``seat``: puts a candidate into the turn, with limits of its own."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        seat: Callable[[Candidate], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._all = list(candidates)
        self._seat = seat
        self._clock = clock
        self._out: set[int] = set()  # not again in this turn
        self._tried: set[int] = set()  # not again for this reply
        self._failures: list[str] = []
        self._at = next((i for i, c in enumerate(candidates) if c.cool_until <= clock()), 0)

    @property
    def current(self) -> Candidate:
        return self._all[self._at]

    @property
    def several(self) -> bool:
        """Whether there is anybody who could take over at all."""
        return len(self._all) > 1

    @property
    def passed_over(self) -> Candidate | None:
        """The first candidate, where the turn does not begin with it."""
        return self._all[0] if self._at else None

    @property
    def spare(self) -> bool:
        """Whether somebody else could be asked for this reply."""
        return len(self._all) > 1 and self._following() is not None

    def answered(self) -> None:
        """A reply came whole."""
        if self._tried:
            self._tried.clear()
            self._failures.clear()

    def failed(self, error: ProviderError) -> Candidate | None:
        """The one that was asked has failed for good: who takes over, now seated; None where nobody does."""
        if len(self._all) < 2 or not moves(error):
            return None
        if error.class_ in _REFUSED:
            self._out.add(self._at)
        if error.class_ == "auth":
            self.current.cool_until = self._clock() + COOL_S
        following = self._following()
        if following is None:
            return None
        self._failures.append(f"{self.current.full_model}: {error.message}")
        self._tried.add(self._at)
        self._at = following
        self._seat(self.current)
        return self.current

    def summed_up(self, error: ProviderError) -> ProviderError:
        """The failure of the last one, with those before it."""
        if not self._failures:
            return error
        return ProviderError(
            f"{self.current.full_model}: {error.message} (before that, {'; '.join(self._failures)})",
            class_=error.class_, status=error.status, wait_s=error.wait_s, window=error.window,
            vague=error.vague, reached=error.reached, local=error.local, hint=error.hint,
        )  # fmt: skip

    def _following(self) -> int | None:
        """The next one in order; those before it come last."""
        count, now = len(self._all), self._clock()
        for step in range(1, count):
            i = (self._at + step) % count
            if i not in self._out and i not in self._tried and self._all[i].cool_until <= now:
                return i
        return None
