"""A command in the background: it goes on beside the conversation, and ends with whoever started it.

A job lives in a thread of its own: the kernel ends a command with the thread that started it, and a job outlives event
loops. It ends with its agent (``orkas.infra.jobs``), with this program on every way out, and with its launcher when we
are killed; what still stays then is ended at the next start (``orkas.infra.orphans``). Memory is bounded whatever a job
prints, and the whole of its output lies in a file as far as ``orkas.infra.output`` keeps it.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from orkas.infra import orphans
from orkas.infra.child import CHUNK, DRAIN_S, STOP_GRACE_S, Child, Launch
from orkas.infra.errors import ToolFailed
from orkas.infra.known import Hider, Passing
from orkas.infra.messages import new_name
from orkas.infra.output import Output, whole_end
from orkas.infra.process import Ended
from orkas.infra.terminal import label

__all__ = ["GRACE_S", "Job", "Unread"]

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when a job is stopped: servers and databases close in order."""
_START_S = 10.0
"""Seconds that a sandbox may take to start."""
_FREE_BYTES = 64 * 1024 * 1024
"""After so much output a job is read a chunk each ``_PAUSE_S``, so that an endless writer costs little."""
_PAUSE_S = 0.05
_LONGEST_S = 3_600.0
"""Seconds that are waited for news in one go: systems take no more than some weeks."""
_LOOK_S = 0.1
"""Between two looks at a command that has no launcher to tell of its end."""
_WRITE_S = 2.0
"""Seconds that a job may take to make room for what is typed."""
_BROKEN_CODE = re.compile(rb"\x1b(?:[\[\]][0-9;:?]*)?\Z")

_log = logging.getLogger("orkas.jobs")


class Unread:
    """What a job printed since it was last read: ``output``, ``before`` bytes of all came earlier."""

    __slots__ = ("before", "output")

    def __init__(self, before: int) -> None:
        self.before = before
        self.output = Output(hider=Passing())


class Job:
    """One command in the background. Its methods may be called from any thread; those that wait say so.

    For whoever asks an agent for its ``jobs``: ``name``, ``command``, ``running``, ``state`` (a few words), ``ended``
    (exit code and the like, once it is over), ``seconds``, ``tty``, ``beyond``.
    """

    def __init__(
        self,
        name: str,
        command: str,
        start: Launch,
        folder: Path | None,
        *,
        limit_s: float | None,
        beyond: bool,
        notes: Sequence[str],
        stem: str = "job",
    ) -> None:
        """``stem``: what the file with all of its output is called after."""
        self.name = name
        """Such as ``job-3f2a``: what ``shell_job`` and ``stop_job`` take."""
        self.command = command
        """The command line, as it was given."""
        self.tty = start.tty
        """It has a terminal of its own."""
        self.beyond = beyond
        """It has more than the sandbox gives: the network, or no walls."""
        self.notes = notes
        """What was put back after it; complete once it has ended."""
        self.began = time.monotonic()
        """When it was started, on the clock of ``time.monotonic()``."""
        self.ended: Ended | None = None
        """How it ended; None while it runs."""
        self.whole = Output(folder, f"{stem}-{new_name()}", hider=Passing())
        """All of its output."""
        self.told: set[str] = set()
        """Who knows that it has ended: ``model``, ``user``."""
        self._start = start
        self._limit_s = limit_s
        self._unread = Unread(0)
        self._hider = Hider()
        self._lock = threading.Lock()
        self._typing = threading.Lock()
        self._watchers: list[Callable[[], None]] = []
        self._child: Child | None = None
        self._problem: Exception | None = None
        self._ready = threading.Event()
        self._over = threading.Event()
        self._grace_s: float | None = None
        """It is to end: how long it may take for that."""
        self._wake, self._sender = os.pipe()
        self._thread = threading.Thread(target=self._live, name=f"orkas-{name}", daemon=True)

    def __repr__(self) -> str:
        return f"<Job {self.name}: {self.state}: {label(self.command, 80)}>"

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.ended is None

    @property
    def title(self) -> str:
        """Its name and its command, on one line."""
        return f"{self.name} ({label(self.command, 80)})"

    @property
    def state(self) -> str:
        """How it stands, in a few words."""
        ended = self.ended
        if ended is None:
            return f"running for {self.seconds:.0f} s"
        if ended.stopped:
            return "stopped"
        if ended.timed_out:
            return "ended at its time limit"
        if ended.exceeded:
            return f"ended because it used more {ended.exceeded} than a command may"
        if ended.unwatched:
            return "ended by force, nobody knows how: its guardian was killed"
        return f"ended with exit code {ended.code}" if ended.code is not None else "ended"

    @property
    def seconds(self) -> float:
        """How long it has run, or did."""
        return self.ended.seconds if self.ended is not None else time.monotonic() - self.began

    def start(self) -> None:
        """Start it; waits until the command itself is under way.

        Raises:
            ToolFailed: it could not be started.
        """
        self._thread.start()
        self._ready.wait(_START_S)
        if self._problem is not None:
            raise self._problem

    def take(self) -> Unread:
        """What it printed since the last time; the beginning of a character or a control code waits for the rest."""
        with self._lock:
            taken = self._unread
            self._unread = Unread(taken.before + taken.output.total)
            if self.running and (cut := taken.output.cut(_unfinished)):
                self._unread.before -= len(cut)
                self._unread.output.feed(cut)
        return taken

    @property
    def taken(self) -> int:
        """Bytes of its output that were taken so far."""
        return self._unread.before

    def has_news(self, since: int) -> bool:
        """It has printed more than so many bytes in all, or has ended."""
        return not self.running or self.whole.total > since

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run ``callback`` (short, from any thread) whenever there is output, and at the end; returns how to stop."""
        self._watchers.append(callback)

        def forget() -> None:
            with suppress(ValueError):
                self._watchers.remove(callback)

        return forget

    def write(self, data: bytes) -> int:
        """Type it; returns how many bytes the job has taken, fewer when it does not read. Waits at most 2 s.

        Raises:
            ToolFailed: it has ended, or its input is closed.
        """
        done, give_up = 0, time.monotonic() + _WRITE_S
        while done < len(data):
            with self._typing:
                descriptor = self._input()
                try:
                    done += os.write(descriptor, data[done : done + 4_096])
                    continue
                except BlockingIOError:
                    pass
                except OSError:
                    raise ToolFailed(f"{self.name} does not read its input any more") from None
            if (left := give_up - time.monotonic()) <= 0:
                break
            time.sleep(min(left, 0.01))
        return done

    def end_input(self) -> None:
        """No more will be typed (without a terminal).

        Raises:
            ToolFailed: it has ended, or its input is closed already.
        """
        with self._typing:
            self._input()
            assert self._child is not None
            self._child.close_input()

    def _input(self) -> int:
        if not self.running or self._child is None:
            raise ToolFailed(f"{self.name} has ended; nothing can be typed to it")
        if self._child.input < 0:
            raise ToolFailed(f"the input of {self.name} is closed")
        return self._child.input

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal to everybody of it."""
        if self.running and self._child is not None:
            self._child.signal(number)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Begin to end it: SIGTERM, after the grace SIGKILL to whoever is left."""
        if self._grace_s is None:
            self._grace_s = grace_s
            self._nudge()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False: it still runs."""
        return self._over.wait(seconds)

    def _nudge(self) -> None:
        with self._lock:
            if self._sender >= 0:
                os.write(self._sender, b"\0")

    def _live(self) -> None:
        ended = Ended(None, 0.0)
        record = None
        try:
            self._child = child = Child(self._start)
            record = orphans.note(child.pid, self._start.mark)
            self._watched(child, ended)
        except ToolFailed as error:
            self._problem = error
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread: it is told to whoever asks
            self._problem = ToolFailed(f"{self.name} failed: {error}")
            _log.exception("job failed")
        finally:
            try:
                if self._child is not None:
                    self._child.finish(STOP_GRACE_S if ended.code is not None else 0)
                orphans.forget(record)
            finally:
                self._settle(ended)

    def _settle(self, ended: Ended) -> None:
        ended.seconds = time.monotonic() - self.began
        with self._typing:
            if self._child is not None:
                self._child.close()
        with self._lock:
            self._printed(self._hider.close())
            self.whole.close()
            self.ended = ended
            for descriptor in (self._wake, self._sender):
                os.close(descriptor)
            self._sender = -1
        self._ready.set()
        self._over.set()
        self._tell()

    def _watched(self, child: Child, ended: Ended) -> None:
        """Read it to its end, and bring that about where it is asked for."""
        with selectors.DefaultSelector() as selector:
            selector.register(child.pipe, selectors.EVENT_READ, "output")
            selector.register(self._wake, selectors.EVENT_READ, "wake")
            for descriptor in child.news:
                selector.register(descriptor, selectors.EVENT_READ, "status")
            kill_at = None
            while not child.over or (kill_at is not None and child.left()):  # who is told to end may all take its time
                if child.started:
                    self._ready.set()
                now = time.monotonic()
                if kill_at is not None and now >= kill_at:
                    child.kill()
                    break
                if kill_at is None and (grace := self._due(now, ended)) is not None:
                    child.signal(signal.SIGTERM)
                    kill_at = now + grace
                self._look(selector, child, self._pause(child, kill_at, now))
            self._drain(selector, child)
        if not child.started and not ended.stopped:
            why = self.whole.last_line() or "it was killed"
            raise ToolFailed(f"{self.name} could not be started: {why}; `orkas doctor` says more")
        if child.over and not (ended.stopped or ended.timed_out):
            ended.code, ended.killed_by = child.code, child.killed_by
            ended.exceeded, ended.unwatched = child.exceeded, child.unwatched
        ended.left_running = child.left() and ended.code is not None
        if ended.left_running:
            child.signal(signal.SIGTERM)

    def _due(self, now: float, ended: Ended) -> float | None:
        """The grace with which it is to be ended now, if it is."""
        if self._grace_s is not None:
            ended.stopped = True
            return self._grace_s
        if self._limit_s is not None and now - self.began >= self._limit_s:
            ended.timed_out = True
            return GRACE_S
        return None

    def _pause(self, child: Child, kill_at: float | None, now: float) -> float | None:
        """Seconds to wait for news at most."""
        waits = [_LOOK_S] if not child.news else []  # nobody tells that it is over, or that the last has gone
        if kill_at is not None:
            waits.append(kill_at - now)
        elif self._limit_s is not None:
            waits.append(self.began + self._limit_s - now)
        return min(_LONGEST_S, max(0.0, min(waits))) if waits else None

    def _look(self, selector: selectors.BaseSelector, child: Child, seconds: float | None) -> bool:
        """One wait for news, and what there is; False: its output has ended."""
        for key, _ in selector.select(seconds):
            if key.data == "wake":
                os.read(self._wake, 512)
            elif key.data == "output" and not self._read(child.pipe):
                selector.unregister(key.fd)
                return False
            elif key.data == "status" and child.over:
                selector.unregister(key.fd)
        return True

    def _read(self, pipe: int) -> bool:
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # so a pseudo-terminal ends that nobody holds any more
            data = b""
        if not data:
            return False
        with self._lock:
            self._printed(self._hider.flow(data))
        self._tell()
        if self.whole.total > _FREE_BYTES:
            time.sleep(_PAUSE_S)
        return True

    def _printed(self, data: bytes) -> None:
        self.whole.feed(data)
        self._unread.output.feed(data)

    def _drain(self, selector: selectors.BaseSelector, child: Child) -> None:
        """What it printed last, as long as somebody still holds its output."""
        give_up = time.monotonic() + DRAIN_S
        while child.pipe in selector.get_map() and (left := give_up - time.monotonic()) > 0:
            self._look(selector, child, left)

    def _tell(self) -> None:
        for callback in list(self._watchers):
            callback()


def _unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of something."""
    if code := _BROKEN_CODE.search(data[-64:]):
        return len(code[0])
    return len(data) - len(whole_end(data))


