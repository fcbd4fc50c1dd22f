"""Whether, and when, a failed request is made again: one budget for a turn, shared by everybody who asks the model."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import NoReturn

import msgspec

from orkas.infra.errors import ProviderError

__all__ = ["BRIEF_S", "MAX_RETRIES", "MAX_TOTAL_S", "MAX_WAIT_S", "PATIENCE", "Retries", "span"]

MAX_RETRIES = 5
"""Failures in a row that are tried again."""
MAX_WAIT_S = 60.0
"""A vendor that asks for a longer wait is not waited for: the error says when it may be tried again."""
MAX_TOTAL_S = 150.0
"""Seconds of waiting between two good replies, all waits together. Five waits of our own are at most 31 s; so this
only ends a row of long waits that a vendor asked for."""
PATIENCE = 3.0
"""How much longer than at first silence is borne when the same request has stalled before."""
_FIRST_S, _LONGEST_S = 1.0, 30.0
"""The wait doubles from the first to the longest; up to a fifth less, so that many clients do not come at once."""
_UNREACHED = 2
"""Retries where no connection came about: a network that is back after a moment, no more."""
BRIEF_S = 5.0
"""The longest wait for a model while another one could be asked at once."""
_TRANSIENT = frozenset(["rate_limit", "overloaded", "timeout", "connection", "server"])


class Retries(msgspec.Struct, eq=False):
    """Failures since the last good reply. ``limit``: how many are tried again, whoever is asked."""

    limit: int = MAX_RETRIES
    failures: int = 0
    ordinal: int = 0
    """Times that something was asked again, also of another model."""
    spoken: bool = False
    """Text of the reply was told, be it taken back since: nobody else takes over."""
    before: int = 0
    """Failures of models that were asked before this one."""
    waited_s: float = 0.0
    stalls: int = 0
    unreached: int = 0
    botched: bool = False
    """A call that the vendor did not take was asked for anew: once is enough."""

    @property
    def patience(self) -> float:
        """Factor on the time limits of the next request."""
        return PATIENCE if self.stalls else 1.0

    def wait(self, error: ProviderError, *, spare: bool = False) -> float:
        """Seconds to wait before the request is made again.

        ``spare``: another model could be asked instead. This one then may use half of the retries that are left, and
        no wait longer than ``BRIEF_S``.

        Raises:
            ProviderError: it is not made again. The error, its sentence saying why where that is news.
        """
        if error.botched and not self.botched and self.failures < self.limit:
            self.botched = True
            self.failures += 1
            return 0.0
        if error.class_ not in _TRANSIENT or self.failures >= self.limit or self._in_vain(error):
            self._give_up(error)
        wait_s = self._next_wait(error)
        if spare and (wait_s > BRIEF_S or self._here >= (self.limit - self.before + 1) // 2):
            self._give_up(error)
        if wait_s > MAX_WAIT_S or self.waited_s + wait_s > MAX_TOTAL_S:
            self._give_up(error)
        self.failures += 1
        self.stalls += error.stalled
        self.unreached += not error.reached
        self.waited_s += wait_s
        return wait_s

    def succeeded(self) -> None:
        """A reply came whole: the budget is full again."""
        self.failures = self.stalls = self.unreached = self.ordinal = self.before = 0
        self.waited_s = 0.0
        self.spoken = self.botched = False

    def moved(self) -> None:
        """Another model is asked: waits begin short again, what is left of the budget stays the same."""
        self.before = self.failures
        self.stalls = self.unreached = 0

    def next_ordinal(self) -> int:
        """The number of the next ``retry``: it only grows until a reply came whole."""
        self.ordinal += 1
        return self.ordinal

    @property
    def _here(self) -> int:
        """Failures of the model that is asked now."""
        return self.failures - self.before

    def _in_vain(self, error: ProviderError) -> bool:
        """Waiting does not cure it: a server of this machine that does not run, a network that stays away, a request
        that stalled with more patience too."""
        if not error.reached:
            return error.local or self.unreached >= _UNREACHED
        return error.stalled and self.stalls > 0

    def _next_wait(self, error: ProviderError) -> float:
        """What the vendor asked for, but never shorter twice in a row than we would wait by ourselves."""
        if error.wait_s is None:
            return _backoff(self._here) * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        return max(error.wait_s, _backoff(self._here - 1) if self._here else 0.0)

    def _give_up(self, error: ProviderError) -> NoReturn:
        message = f"{error.message} (tried {self._here + 1} times)" if self._here else error.message
        hint = error.hint
        if error.wait_s is not None and error.wait_s > 1 and error.class_ in (*_TRANSIENT, "quota"):
            soon = f"try again in {span(error.wait_s)}{_clock(error.wait_s)}"
            hint = f"{soon}, or {hint}" if hint and hint != "try again" else soon
        raise ProviderError(
            message, class_=error.class_, status=error.status, wait_s=error.wait_s, window=error.window,
            vague=error.vague, reached=error.reached, local=error.local, hint=hint,
        ) from error  # fmt: skip


def _backoff(failures: int) -> float:
    return min(_LONGEST_S, _FIRST_S * 2.0**failures)


def span(seconds: float) -> str:
    """A duration as people say it, in its two largest units: ``45 s``, ``2 h 5 min``, ``3 days``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if days:
        return f"{days} days" if days > 1 else _two(1, "day", hours % 24, "h")
    return _two(hours, "h", minutes % 60, "min") if hours else _two(minutes, "min", whole % 60, "s")


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large} {unit} {small} {part}" if small else f"{large} {unit}"


def _clock(seconds: float) -> str:
    """When that is, in local time; nothing where it is now or beyond every calendar."""
    if seconds < 60:
        return ""
    now = datetime.now().astimezone()
    try:
        then = (now + timedelta(seconds=seconds)).astimezone()
    except (OverflowError, ValueError, OSError):
        return ""
    return f" (at {then:%H:%M})" if then.date() == now.date() else f" (on {then:%Y-%m-%d at %H:%M})"
