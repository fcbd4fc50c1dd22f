"""Blocking work beside the event loop, in a thread of its own.

Not the loop's pool: that one is joined when the loop ends and has few threads, so work that does not listen to Stop
would hold up the program's end and starve everybody else.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function`` in a daemon thread and await its result.

    A cancelled caller leaves the thread behind; neither the loop nor the program waits for it.

    Raises:
        RuntimeError: it ended with what no coroutine can raise: StopIteration, SystemExit, KeyboardInterrupt.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, problem: BaseException | None) -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(result)
        elif isinstance(problem, Exception) and not isinstance(problem, StopIteration):
            future.set_exception(problem)
        else:
            future.set_exception(RuntimeError(f"{type(problem).__name__}: {problem}"))

    def work() -> None:
        result: Any = None
        problem: BaseException | None = None
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - handed over to the caller, whatever it is
            problem = error
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=work, name="orkas-work", daemon=True).start()
    return await future
