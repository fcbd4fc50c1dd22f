"""The user's Stop button, as a value.

Task cancellation means "tear down now, no more events". An ``Abort`` means "stop soon, then tell me how it
ended": the runner still closes the open tool calls and yields ``Done(outcome="aborted")``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar

__all__ = ["Abort", "Aborted"]

T = TypeVar("T")


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

    def guard(self) -> _Guard:
        """``with abort.guard():`` around ONE awaiting step. Never hold it across a ``yield`` (PEP 789).

        Raises:
            Aborted: the abort has fired, before or during the step. A cancellation from outside stays one.
        """
        return _Guard(self)

    def entering(self, entered: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        """``async with abort.entering(manager)``: its way in is guarded, its body and its way out are not."""
        return _Entering(self, entered)


class _Guard:
    """A class, not a generator: it is entered once per network read."""

    __slots__ = ("_abort", "_pending", "_task")

    def __init__(self, abort: Abort) -> None:
        self._abort = abort

    def __enter__(self) -> None:
        abort = self._abort
        if abort._reason is not None:
            raise Aborted(abort._reason)
        task = asyncio.current_task()
        assert task is not None, "guard() needs a running task"
        self._task = task
        self._pending = task.cancelling()
        abort._steps.add(task)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        abort, task = self._abort, self._task
        abort._steps.discard(task)
        if abort._reason is None:
            return
        if isinstance(error, asyncio.CancelledError):
            if task.uncancel() <= self._pending:
                raise Aborted(abort.reason) from None
        elif task.cancelling() > self._pending:
            task.uncancel()  # fired in the same tick as the result: keep the result, drop our request


class _Entering(AbstractAsyncContextManager[T]):
    __slots__ = ("_abort", "_entered")

    def __init__(self, abort: Abort, entered: AbstractAsyncContextManager[T]) -> None:
        self._abort = abort
        self._entered = entered

    async def __aenter__(self) -> T:
        with self._abort.guard():
            return await self._entered.__aenter__()

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, bool | None]:
        return self._entered.__aexit__(kind, error, trace)
