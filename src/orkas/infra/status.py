"""What the launcher of a command tells: its number, then how it ended."""

from __future__ import annotations

import os
import threading

__all__ = ["Status"]

_MOST_SAID = 64
"""Bytes of two numbers, and more than them."""


class Status:
    """What a launcher says: the number of the command, then its exit code. May be read from any thread."""

    def __init__(self) -> None:
        self.pipe, self.sender = os.pipe()
        os.set_blocking(self.pipe, False)
        self.command: int | None = None
        self.code: int | None = None
        self.over = False
        """The command has exited, or the launcher was killed, or it says what no launcher says."""
        self._said = b""
        self._lock = threading.Lock()

    def read(self) -> int | None:
        """Take in what there is; the number of the command, None while it has not started."""
        with self._lock:
            while not self.over and self.pipe >= 0:
                try:
                    data = os.read(self.pipe, 64)
                except BlockingIOError:
                    break
                self._said += data
                numbers = [_number(line) for line in self._said.split(b"\n")[:-1]]
                if None in numbers[:2] or len(self._said) > _MOST_SAID:
                    self.over = True
                    break
                self.command, self.code = (*numbers, None, None)[:2]
                self.over = not data or self.code is not None
            return self.command

    def close(self) -> None:
        with self._lock:
            pipe, self.pipe = self.pipe, -1
            if pipe >= 0:
                os.close(pipe)
            self.sent()

    def sent(self) -> None:
        """The launcher has its end of the pipe; ours is closed."""
        sender, self.sender = self.sender, -1
        if sender >= 0:
            os.close(sender)


def _number(line: bytes) -> int | None:
    """What a launcher tells, in its own spelling; None: it is something else."""
    digits = line.removeprefix(b"-")
    return int(line) if digits.isdigit() and len(digits) < 12 else None
