"""Calls that only read, side by side. Every other call of a round has the machine for itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from orkas.harness.tool import Tool, ToolResult
from orkas.infra.abort import Aborted
from orkas.infra.messages import ToolCall

__all__ = ["MOST", "Abreast", "leading_reads"]

MOST = 8
"""Calls that run at the same time; the others wait for their turn."""

Run: TypeAlias = Callable[[ToolCall, Callable[[str], Awaitable[object]]], Coroutine[Any, Any, ToolResult]]


def leading_reads(calls: Sequence[ToolCall], tools: Mapping[str, Tool], first: int = 0) -> int:
    """How many calls, from the first on and without a gap, only read."""
    at = first
    while at < len(calls):
        tool = tools.get(calls[at].name)
        if getattr(tool, "read_only", False) is not True or hasattr(tool, "touches"):
            break
        at += 1
    return at - first


class Abreast:
    """Calls under way. One that fails does not end the others; Stop ends all of them, each by itself.

    Nothing is told from here: ``said`` and ``results`` fill up, and whoever runs the turn empties them.
    """

    def __init__(self, run: Run) -> None:
        self.said: deque[tuple[ToolCall, str]] = deque()
        """Progress, in the order in which it was said."""
        self.results: dict[str, ToolResult] = {}
        """By call id. A call that Stop ended has none."""
        self._run = run
        self._tasks: set[asyncio.Task[ToolResult]] = set()
        self._fault: BaseException | None = None
        self._aborted: Aborted | None = None
        self._tick: asyncio.Future[None] | None = None

    @property
    def running(self) -> int:
        return len(self._tasks)

    def begin(self, call: ToolCall) -> None:
        async def say(text: str) -> None:
            self.said.append((call, text))
            self._wake()

        task = asyncio.get_running_loop().create_task(self._run(call, say))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, call.id))

    def _ended(self, call_id: str, task: asyncio.Task[ToolResult]) -> None:
        self._tasks.discard(task)
        problem = Aborted("a call was cancelled") if task.cancelled() else task.exception()
        if problem is None:
            self.results[call_id] = task.result()
        elif isinstance(problem, Aborted):
            self._aborted = problem
        else:
            self._fault = problem
        self._wake()

    def _wake(self) -> None:
        if self._tick is not None and not self._tick.done():
            self._tick.set_result(None)

    async def news(self) -> None:
        """Wait until something is said or a call ends; at once where none runs.

        Raises:
            Exception: a fault of ours, not of a tool.
        """
        if self._tasks and not self.said:
            self._tick = asyncio.get_running_loop().create_future()
            await self._tick
        if self._fault is not None:
            raise self._fault

    def check(self) -> None:
        """Raise ``Aborted`` if a call ended without a result."""
        if self._aborted is not None:
            raise self._aborted

    async def end(self) -> None:
        """Nothing of it runs any more, but for tools that do not listen."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
