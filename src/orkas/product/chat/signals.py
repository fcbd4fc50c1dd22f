"""What signals mean to a chat, and that the terminal is left as it was found."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

__all__ = ["Leave", "Signals", "restored_terminal"]

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Leave(Exception):
    """Somebody wants us to go: ``status`` is the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Signals:
    """Ctrl-C, and the wishes of the system that we end, as calls in the running loop.

    ``on_end`` gets the number of the signal.
    """

    def __init__(self, on_interrupt: Callable[[], None], on_end: Callable[[int], None]) -> None:
        self._on_interrupt = on_interrupt
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self) -> None:
        """From now on; called in the loop's thread."""
        loop = self._loop = asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
            for number in _ENDING:
                loop.add_signal_handler(number, self._on_end, number)
        except NotImplementedError:  # Windows: the loop takes none
            signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(self._on_interrupt))

    def give_back(self) -> None:
        assert self._loop is not None, "taken before"
        for number in (signal.SIGINT, *_ENDING):
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """While ``input()`` blocks the loop, signals raise where it waits: KeyboardInterrupt, ``Leave``."""
        self.give_back()
        for number in _ENDING:
            signal.signal(number, _raise_leave)
        try:
            yield
        finally:
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            self.take()


def _raise_leave(number: int, _frame: FrameType | None) -> Any:
    raise Leave(128 + number)


@contextlib.contextmanager
def restored_terminal() -> Iterator[None]:
    """Whatever happens inside, the terminal's settings are those of before at the end."""
    try:
        import termios

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor) if os.isatty(descriptor) else None
    except (ImportError, OSError, ValueError):
        before = None
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
