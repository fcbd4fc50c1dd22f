"""Messages on their way to the file: in memory already, not on disk yet."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orkas.harness.sessions.attachments import Attachments
from orkas.harness.sessions.store import JsonlStore
from orkas.infra.errors import StorageError
from orkas.infra.messages import Message, ToolMessage, encode

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Backlog", "in_writer", "line_of"]

SLOW_FLUSH_S = 0.025
"""A disk whose last flush took longer gets a thread for the next. Below, the hand-over to a thread costs more CPU than
the write itself, and the loop stands still for less than one frame of a screen."""


class Backlog:
    """What one session has not saved yet, in order. After a failed save it stays and goes first with the next one.

    ``store``: None for a session in memory, which saves nothing.
    """

    def __init__(self, store: JsonlStore | None = None, attachments: Attachments | None = None) -> None:
        self.lock = threading.RLock()
        """Guards memory and file together."""
        self.waiting: list[tuple[Message | None, bytes]] = []
        """Each with its line; None: the line is no message."""
        self._store = store
        self._attachments = attachments
        self._flush_s = 0.0

    def flush(self) -> None:
        """Write all that waits, in one write; durable when it returns.

        Raises:
            StorageError: it still waits.
        """
        with self.lock:
            if self._store is None or self._attachments is None or not self.waiting:
                return
            batch = list(self.waiting)
            began = time.monotonic()
            try:
                self._attachments.flush()
                self._store.append([m for m, _ in batch if m is not None], [line for _, line in batch])
            except StorageError as error:
                error.hint += "; what is unsaved stays in memory and is written with the next message"
                raise
            finally:
                self._flush_s = time.monotonic() - began
            del self.waiting[: len(batch)]

    async def save(self) -> None:
        """``flush`` that does not hold up the event loop: a disk that is slow to flush is waited for in a thread."""
        if self.waiting:
            if self._flush_s < SLOW_FLUSH_S:
                self.flush()
            else:
                await in_writer(self.flush)


def line_of(message: Message, record: bytes) -> bytes:
    """The line of a message whose JSON is ``record``; one of our own making says so before its words, so that a
    fragment of it is never taken for proof."""
    if type(message) is not ToolMessage or not message.synthetic:
        return record + b"\n"
    head, rest = b'{"role":"tool",', encode(replace(message, synthetic=False))
    return head + b'"synthetic":true,' + rest[len(head) :] + b"\n"


@cache
def _writers() -> ThreadPoolExecutor:
    """Threads for our own writes: those of the loop may all be held by tools."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(4, thread_name_prefix="orkas-session")


async def in_writer(job: Callable[[], None]) -> None:
    """Do this in a thread of the writers."""
    await asyncio.get_running_loop().run_in_executor(_writers(), job)
