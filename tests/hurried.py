"""An event loop for scripts without sockets: it never waits. Where it would sleep, its clock jumps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    loop: Hurried

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)  # nothing to jump to: a thread is at work
        return self.loop.step(ready, timeout)


class Hurried(asyncio.SelectorEventLoop):
    """``steps``: rounds of the loop so far. ``each``: called at the beginning of each round with its number."""

    def __init__(self, each: Callable[[int], object] = lambda _: None) -> None:
        self._skipped = 0.0
        self.steps = 0
        self._each = each
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._skipped

    def step(self, ready: list[Any], timeout: float | None) -> list[Any]:
        self.steps += 1
        if not ready and timeout:
            self._skipped += timeout
        self._each(self.steps)
        return ready


def hurry(main: Coroutine[Any, Any, T], each: Callable[[int], object] = lambda _: None) -> T:
    """Run ``main`` to its end without waiting for any clock."""
    with asyncio.Runner(loop_factory=lambda: Hurried(each)) as runner:
        return runner.run(main)
