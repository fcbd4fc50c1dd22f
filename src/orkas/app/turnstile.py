"""One turn at a time, and Stop for the one that runs."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, NamedTuple

from orkas.infra.abort import Abort
from orkas.infra.errors import UsageError

__all__ = ["Turnstile"]

_ENDING_S = 2.0
"""Seconds that a turn which was left half-way may take to end before the next one is refused."""
_HINT = "wait for its `done`, or call stop()"


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    abort: Abort
    turn: weakref.ref[Any]
    """Dead once the caller dropped the turn."""

    @property
    def ending(self) -> bool:
        """The caller dropped the turn, and its loop can still end it."""
        return self.turn() is None and not self.loop.is_closed()


class Turnstile:
    """Who has an agent now. ``stop`` from any task or thread; the rest by whoever runs a turn."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._lock = threading.Lock()

    async def enter(self, turn: weakref.ref[Any]) -> Abort:
        """Take the agent for a turn. One that its caller dropped half-way is given a moment to end.

        Raises:
            UsageError: a turn is running.
        """
        give_up = time.monotonic() + _ENDING_S
        while (last := self._running) is not None and last.ending and time.monotonic() < give_up:
            await asyncio.sleep(0.001)  # a dropped generator tells nobody when it has ended
        with self._lock:
            if self._running is not None and not self._running.loop.is_closed():
                raise UsageError("a turn is already running in this agent", hint=_HINT)
            self._running = _Running(asyncio.get_running_loop(), Abort(), turn)
            return self._running.abort

    def leave(self) -> None:
        """The turn has ended."""
        self._running = None

    def check_free(self) -> None:
        """Raise ``UsageError`` where a turn is running."""
        if self._running is not None and self._running.turn() is not None:
            raise UsageError("a turn is running in this agent", hint=_HINT)

    def stop(self) -> None:
        """Stop the running turn. Once this has returned on the turn's own loop, nothing new begins."""
        with self._lock:
            running = self._running
        if running is None:
            return
        if _current_loop() is running.loop:
            running.abort.fire()
        else:
            with suppress(RuntimeError):  # its loop was closed in mid-turn: there is nothing left to stop
                running.loop.call_soon_threadsafe(running.abort.fire)


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
