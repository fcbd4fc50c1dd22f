"""Whether a running tool is still alive, told by what it says and by the time it declared to need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from orkas.harness.sameness import steady

__all__ = ["Watchdog", "limit_of"]

_REMEMBERED = 1_000
"""Different texts that are known again; a wedged tool ticks with few."""
_LONGEST = 500
"""Characters of a text that are compared."""


class Watchdog:
    """One for each call. One timer looks at a stamp; nothing is started for a sign of life, nor for a tool that ends
    at once: the timer starts with ``watch``, time counts from the beginning.

    A text that was heard before, or that differs from one only in a time or a duration, is no sign of life: a wedged
    tool may tick. ``limit_s``: what the tool declared; it is then measured by that alone. ``wake`` is called in the
    loop when the tool is to be given up.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, idle_s: float, limit_s: float | None, wake: Callable[[], object]
    ) -> None:
        self.barks = ""
        """Why the tool is given up, as one sentence; empty while it may go on."""
        self._loop = loop
        self._limit_s = limit_s or idle_s
        self._declared = limit_s is not None
        self._wake = wake
        self._heard: dict[str, None] = {}
        self._sampled = min(1.0, self._limit_s / 10)
        self._alive = loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """The call is waited for."""
        if self._timer is None:
            self._timer = self._loop.call_at(self._alive + self._limit_s, self._look)

    def heard(self, text: str) -> None:
        """The tool said something; called from any thread."""
        now = self._loop.time()
        if self._declared or now - self._alive < self._sampled:  # often enough
            return
        text = steady(text[-_LONGEST:])
        if text in self._heard:
            return
        if len(self._heard) >= _REMEMBERED:
            self._heard.clear()
        self._heard[text] = None
        self._alive = now

    def rest(self) -> None:
        """The call is over."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        left = self._alive + self._limit_s - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        if self._declared:
            self.barks = f"The tool did not end within its own limit of {self._limit_s:g} s."
        else:
            self.barks = f"The tool gave no sign of life for {self._limit_s:g} s."
        self._wake()


def limit_of(tool: object, arguments: Mapping[str, Any] | None) -> float | None:
    """The seconds that a tool declares to need for this call; None when it declares none that makes sense."""
    declared = getattr(tool, "limit_s", None)
    if callable(declared):
        try:
            declared = declared(arguments or {})
        except Exception:  # noqa: BLE001 - foreign code; what is wrong with the arguments is told by the call itself
            return None
    return float(declared) if declared and isinstance(declared, int | float) and declared > 0 else None
