"""The user's Stop button, as a value.

Task cancellation means "tear down now, no more events". An ``Abort`` means "stop soon, then tell me how it
ended": the runner still closes the open tool calls and yields ``Done(outcome="aborted")``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["Abort", "Aborted"]


class Aborted(Exception):
    """Raised inside a guarded step once the abort has fired."""


class Abort:
    """One stop request for one turn. Fires once; stays fired."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._steps: set[asyncio.Task[object]] = set()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def fired(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> str:
        return self._reason or ""

    def fire(self, reason: str = "stopped by the user") -> None:
        """Idempotent; the first reason stays. Call it in the loop's thread (else ``loop.call_soon_threadsafe``)."""
        if self._reason is None:
            self._reason = reason
            for task in self._steps:
                task.cancel()
            for callback in self._callbacks:
                callback()

    def on_fire(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run ``callback`` (which must not raise) when fired, at once if it has; returns how to take that back."""
        if self._reason is not None:
            callback()
            return lambda: None
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    def check(self) -> None:
        """Raise ``Aborted`` if the abort has fired."""
        if self._reason is not None:
            raise Aborted(self._reason)

    @contextmanager
    def guard(self) -> Generator[None, None, None]:
        """Wrap ONE awaiting step. Never hold it across a ``yield`` (PEP 789)."""
        if self._reason is not None:
            raise Aborted(self._reason)
        task = asyncio.current_task()
        assert task is not None, "guard() needs a running task"
        pending = task.cancelling()
        self._steps.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self.fired and task.uncancel() <= pending:
                raise Aborted(self.reason) from None
            raise  # somebody outside cancelled the whole task: not ours to swallow
        finally:
            self._steps.discard(task)
        if self.fired and task.cancelling() > pending:
            task.uncancel()  # fired in the same tick as the result: keep the result, drop our request
