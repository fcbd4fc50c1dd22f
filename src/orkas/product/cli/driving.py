"""Running something asynchronous from the command line so that Ctrl-C ends it well and nothing holds the exit."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["LEAVE_AFTER", "drive", "stopping"]

LEAVE_AFTER = 0.5
"""Seconds that work which was told to end may still hold the exit."""


def drive(work: Coroutine[None, None, int]) -> int:
    """Run ``work`` to its end and return its status. A thread that a stopped tool left behind is not waited for."""
    with _loop() as runner:
        try:
            status = runner.run(work)
        except asyncio.CancelledError:  # the second Ctrl-C
            status = 130
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # told by whoever wrote; here only nothing must be lost
                stream.flush()
        late = _leave_later(status)
    late.cancel()
    return status


@contextmanager
def _loop() -> Iterator[asyncio.Runner]:
    runner = asyncio.Runner()
    try:
        yield runner
    finally:
        runner.close()


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Within: the first Ctrl-C, SIGTERM or hang-up calls ``stop`` in the loop; the second cancels, then leaves.

    Enter it inside the coroutine, as the last thing before work that ``stop`` can end.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine of drive()"
    signals = _signals()
    asked = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            loop.call_soon_threadsafe(stop)
        elif asked == 2:
            _leave_later(130)
            loop.call_soon_threadsafe(task.cancel)
        else:
            os._exit(130)

    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> list[signal.Signals]:
    """What asks us to stop. A hang-up that ``nohup`` made harmless stays so."""
    if threading.current_thread() is not threading.main_thread():
        return []
    wanted = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        wanted.append(hang_up)
    return wanted


def _leave_later(status: int) -> threading.Timer:
    timer = threading.Timer(LEAVE_AFTER, os._exit, (status,))
    timer.daemon = True
    timer.start()
    return timer
