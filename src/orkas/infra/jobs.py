"""The commands in the background of one agent: so many at once, found by name, ended with it."""

from __future__ import annotations

import atexit
import secrets
import threading
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orkas.infra.errors import ToolFailed

if TYPE_CHECKING:
    from orkas.infra.child import Launch
    from orkas.infra.job import Job

__all__ = ["MAX_RUNNING", "Jobs"]

MAX_RUNNING = 8
"""Jobs of one agent at the same time."""
_REMEMBERED = 16
"""Jobs that have ended and can still be listed and read."""
_CLOSING_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL when the agent ends."""


class Jobs:
    """The jobs of one agent. Thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._closed = 0

    def start(
        self,
        command: str,
        start: Launch,
        *,
        folder: Path | None,
        limit_s: float | None = None,
        beyond: bool = False,
        notes: Sequence[str] = (),
        stem: str = "job",
    ) -> Job:
        """Start a command in the background; waits until it is under way. ``folder``: where its whole output may lie;
        ``limit_s``: it is ended then; ``beyond``, ``notes`` and ``stem`` as of ``Job``.

        Raises:
            ToolFailed: too many run already, or it could not be started.
        """
        from orkas.infra.job import Job  # an agent that starts none does not load it

        _end_at_exit(self)
        with self._lock:
            running = [job for job in self._jobs.values() if job.running]
            if len(running) >= MAX_RUNNING:
                names = ", ".join(job.name for job in running)
                raise ToolFailed(f"{MAX_RUNNING} background jobs run already ({names}); stop one with shell_job first")
            self._forget_old()
            name = self._new_name()
            job = self._jobs[name] = Job(
                name, command, start, folder, limit_s=limit_s, beyond=beyond, notes=notes, stem=stem
            )
            closed = self._closed
        try:
            job.start()
        except BaseException:
            with self._lock:
                self._jobs.pop(name, None)
            raise
        if closed != self._closed:
            job.stop(0)
        return job

    def _new_name(self) -> str:
        while (name := f"job-{secrets.token_hex(2)}") in self._jobs:
            pass
        return name

    def _forget_old(self) -> None:
        over = [job.name for job in self._jobs.values() if not job.running]
        for name in over[: max(0, len(over) - _REMEMBERED + 1)]:
            del self._jobs[name]

    def find(self, name: str) -> Job:
        """Raises ToolFailed: there is none of this name."""
        with self._lock:
            if (job := self._jobs.get(name.strip())) is not None:
                return job
            names = f"there are {', '.join(self._jobs)}" if self._jobs else "there is no other either"
        raise ToolFailed(f"there is no job {name[:100]!r}, it may have ended with its program; {names}")

    def listed(self) -> list[Job]:
        """In the order in which they were started."""
        with self._lock:
            return list(self._jobs.values())

    @property
    def running(self) -> list[Job]:
        return [job for job in self.listed() if job.running]

    def news(self, reader: str) -> list[Job]:
        """Jobs that have ended and of which ``reader`` (``model``, ``user``) does not know; now it does."""
        found = [job for job in self.listed() if not job.running and reader not in job.told] if self._jobs else []
        for job in found:
            job.told.add(reader)
        return found

    def abandon(self) -> None:
        """Nobody asks for them any more: end them, without waiting."""
        for job in self.listed():
            job.stop(0)

    def close(self) -> None:
        """End all of them. Waits for that, at most some seconds; others can be started afterwards."""
        self._closed += 1
        _end(self.listed(), _CLOSING_GRACE_S)


_used: weakref.WeakSet[Jobs] = weakref.WeakSet()


def _end_at_exit(jobs: Jobs) -> None:
    """In order, before their folders for temporary files go: what was registered last runs first."""
    if not _used:
        atexit.register(lambda: _end([job for jobs in _used for job in jobs.listed()], _CLOSING_GRACE_S))
    _used.add(jobs)


def _end(jobs: Iterable[Job], grace_s: float) -> None:
    running = [job for job in jobs if job.running]
    for job in running:
        job.stop(grace_s)
    for job in running:
        job.wait(grace_s + 6)
