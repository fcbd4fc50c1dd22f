"""One running command and everybody who came of it: how it is started, how it is told from others, how it is ended.

Whoever holds a ``Child`` reads its ``pipe`` and watches it, on an event loop (``orkas.infra.process``) or in a thread
of its own (``orkas.infra.job``). The kernel ends a command with the thread that started it, so that thread must live
as long as the command may.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orkas.infra.descendants import alive, children_of, send
from orkas.infra.errors import ToolFailed
from orkas.infra.status import Status

if TYPE_CHECKING:
    from orkas.infra.sandbox.profile import Wrapping

__all__ = ["CHUNK", "DRAIN_S", "STOP_GRACE_S", "TERM_GRACE_S", "Child", "Launch", "settle"]

TERM_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL after the time limit."""
STOP_GRACE_S = 0.5
"""The same after Stop and for what a finished command leaves behind; it passes in the background."""
DRAIN_S = 0.3
"""How long a pipe that others still hold is read after the command itself has ended."""
CHUNK = 256 * 1024
"""Bytes that are read at once."""
SCREEN = (40, 120)
"""Rows and columns of a pseudo-terminal: lines of most programs are not broken, and a page is no burden to a model."""
_LAUNCHER = Path(__file__).with_name("launcher.py")
"""Costs about 6 ms of processor time a command."""
_EXCEEDED = {-1_000: "processes", -2_000: "memory"}
"""As ``TOO_MANY`` and ``TOO_MUCH`` of the launcher."""
_SURE_S = 5.0
"""Commands that ran longer are looked for among all processes: numbers may have been reused."""


@dataclass(slots=True)
class Launch:
    """Everything that decides how a child starts."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    mark: str
    """Value of ``MARK`` in ``env``: finds the children again."""
    wrapping: Wrapping | None = None
    """The sandbox it starts in."""
    gone: Callable[[], None] = lambda: None
    """Called once, from any thread, when nobody of the command is left."""
    tty: bool = False
    """Its input and output are a pseudo-terminal, which controls its session."""
    typed: bool = False
    """Somebody will write to it: without a terminal its input is a pipe, not empty."""

    @property
    def namespace(self) -> bool:
        """Its processes have other numbers inside than here, and die with the first of them."""
        return self.wrapping is not None and self.wrapping.namespace


class Child:
    """One running command and everybody who came of it. On Linux our direct child is its launcher."""

    def __init__(self, start: Launch) -> None:
        """Raises ToolFailed: it could not be started."""
        self._status: Status | None = None
        ends = _terminal() if start.tty else _pipes(start)
        self.pipe = ends.ours
        """What it prints, to be read by whoever holds the child, and closed with ``close``."""
        self.input = ends.typing
        """Where what is typed is written; -1: nowhere."""
        try:
            if _launches(start):
                self._status = Status()
            self._process = _popen(start, ends, self._status)
        except BaseException:
            self.close()
            if self._status is not None:
                self._status.close()
            start.gone()
            raise
        finally:
            for descriptor in {ends.stdin, ends.stdout} - {-1}:
                os.close(descriptor)
        self._gone = start.gone
        self._tty = start.tty
        self._mark = start.mark
        self._namespace = start.namespace
        self._began = time.monotonic()
        self._ending: asyncio.Future[None] | None = None
        _running.add(self)

    @property
    def pid(self) -> int:
        """Our direct child."""
        return self._process.pid

    @property
    def started(self) -> bool:
        return self._status is None or self._status.command is not None

    @property
    def code(self) -> int:
        """Its exit status as a shell gives it: 128 + signal when it was killed."""
        raw = self._raw
        return 128 - raw if raw < 0 else raw

    @property
    def killed_by(self) -> int:
        """The signal that ended it; 0: it exited by itself, with whatever code."""
        return max(0, -self._raw)

    @property
    def _raw(self) -> int:
        if self._status is not None:
            code = self._status.code if self._status.code is not None else -signal.SIGKILL
        else:
            code = self._process.returncode
        return -signal.SIGKILL if code in _EXCEEDED else code

    @property
    def unwatched(self) -> bool:
        """The launcher ended, or told what nobody understands, before it told how the command ended: who hid from us
        meanwhile (a session and an environment of its own) may live on, unless it is in a namespace."""
        return self._status is not None and self._status.over and self._status.code is None

    @property
    def exceeded(self) -> str:
        """What the launcher ended it for, besides Stop and the time limit."""
        return _EXCEEDED.get(self._status.code or 0, "") if self._status is not None else ""

    def exited(self) -> asyncio.Future[None]:
        """Done when the command has exited, whoever it left behind."""
        loop = asyncio.get_running_loop()
        gone: asyncio.Future[None] = loop.create_future()
        if self._status is None:
            _thread(self._process.wait, then=lambda: _resolve(loop, gone))
        else:
            loop.add_reader(self._status.pipe, self._has_news, self._status, gone)
        return gone

    def _has_news(self, status: Status, gone: asyncio.Future[None]) -> None:
        status.read()
        if status.over:
            self.unwatch()
            settle(gone)

    @property
    def news(self) -> list[int]:
        """What to wait for besides output, for who has no event loop; nothing once the command is over."""
        return [] if self._status is None or self._status.over else [self._status.pipe]

    @property
    def over(self) -> bool:
        """The command has exited."""
        if self._status is None:
            return self._process.poll() is not None
        self._status.read()
        return self._status.over

    def finished(self) -> int | None:
        """The exit code for who has no event loop; None when the command did not start or has not ended."""
        if self._status is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        elif not self.over:  # its output may end a moment before it does
            import select

            select.select([self._status.pipe], [], [], 1)
        return self.code if self.started and self.over else None

    def unwatch(self) -> None:
        if self._status is not None and self._status.pipe >= 0:
            asyncio.get_running_loop().remove_reader(self._status.pipe)

    def close_input(self) -> None:
        """The end of what is typed; a terminal has none of its own."""
        if self.input not in (-1, self.pipe):
            descriptor, self.input = self.input, -1
            os.close(descriptor)

    def close(self) -> None:
        """Whoever reads it is done. Idempotent."""
        self.close_input()
        descriptor, self.pipe, self.input = self.pipe, -1, -1
        if descriptor >= 0:
            os.close(descriptor)

    def left(self) -> bool:
        """After the command has exited: True when others of it still run, and are to be ended."""
        if not self._alive() and self._ended():
            self._forget()
            return False
        return True

    def reap(self) -> bool:
        """``left``, and they are being ended."""
        if left := self.left():
            self.end(STOP_GRACE_S)
        return left

    def end(self, grace_s: float) -> asyncio.Future[None]:
        """End everybody, in a thread: SIGTERM, after the grace SIGKILL, again until nobody is left. Idempotent."""
        if self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.create_future()
            if self not in _running:
                self._ending.set_result(None)
                return self._ending
            ending = self._ending
            self.signal(signal.SIGTERM)
            _thread(lambda: self.finish(grace_s), then=lambda: _resolve(loop, ending))
        return self._ending

    def kill(self) -> None:
        """SIGKILL until nobody is left; a process that the kernel does not let go is given up after 5 s."""
        try:
            give_up = time.monotonic() + 5
            while self.signal(signal.SIGKILL) and time.monotonic() < give_up:
                time.sleep(0.01)
            if not self._ended():  # a launcher that was stopped, or that waits for what the kernel does not let go
                self._process.kill()
                self.signal(signal.SIGKILL)
                self._ended()
        finally:
            self._forget()

    def _ended(self) -> bool:
        try:
            self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            return False
        return True

    def finish(self, grace_s: float) -> None:
        """SIGKILL to everybody who has not gone within the grace. Blocks. Nobody left: nothing."""
        if self not in _running:
            return
        over = time.monotonic() + grace_s
        try:
            while self._alive() and time.monotonic() < over:
                time.sleep(0.02)
        finally:
            self.kill()

    def signal(self, number: signal.Signals) -> set[int]:
        """Send it to everybody of the command; returns whom it found."""
        if self._tty and number == signal.SIGTERM:
            self.signal(signal.SIGHUP)  # a shell at a terminal ignores the other
        if self._status is not None and self._status.read() is None:
            self._process.kill()  # it has not started the command yet, and shall not
        left = self._alive()
        if self._namespace and number == signal.SIGKILL and self._process.poll() is None:
            left |= {self._process.pid, *children_of(self._process.pid)}
        groups = self._groups(left)
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        send(sorted(pid for pid in left if _group_of(pid) not in groups), number)
        return left

    def _groups(self, left: set[int]) -> set[int]:
        """Their process groups, each of which hears a signal as a whole and once, as from a terminal: a shell that saw
        its child die before it heard of it itself would go on, and one that hears twice may die in its trap."""
        own = self._group()
        if not sys.platform.startswith("linux"):
            return {own} if own is not None else set()
        found = {_group_of(pid) for pid in left} | {own}
        if self._status is not None:
            found.discard(self._process.pid)  # that of the launcher
        return {group for group in found if group is not None and group != os.getpgrp()}

    def _group(self) -> int | None:
        """The process group of the command while its number is sure to be its own."""
        if self._namespace:
            return None
        if self._status is not None:
            return None if self._status.over else self._status.command
        linux = sys.platform.startswith("linux")
        return self._process.pid if self._process.returncode is None or not linux else None

    def _alive(self) -> set[int]:
        """Processes of the command; its launcher is not one."""
        if not sys.platform.startswith("linux"):
            self._process.poll()
        everywhere = time.monotonic() - self._began > _SURE_S
        command = self._status.command if self._status is not None and not self._namespace else None
        keepers = {self._process.pid} if self._status is not None else set()
        if self._namespace:
            keepers.update(children_of(self._process.pid))
        return alive(self._process.pid, self._mark, command=command, everywhere=everywhere) - keepers

    def _forget(self) -> None:
        try:
            if self in _running:
                _running.discard(self)
                self._gone()
        finally:
            if self._status is not None:
                self._status.close()


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _launches(start: Launch) -> bool:
    """There is an interpreter for the launcher; in a frozen program ``sys.executable`` is that program."""
    if start.wrapping is not None:
        return start.wrapping.launcher
    return sys.platform.startswith("linux") and bool(sys.executable) and not getattr(sys, "frozen", False)


_running: set[Child] = set()


@atexit.register
def _end_all() -> None:
    for child in list(_running):
        child.kill()


class _Ends(NamedTuple):
    """Descriptors of a child: ours, and those that it gets (-1: the empty device)."""

    ours: int
    typing: int
    stdin: int
    stdout: int


def _pipes(start: Launch) -> _Ends:
    ours, stdout = os.pipe()
    os.set_blocking(ours, False)
    _widen(ours)
    if not start.typed:
        return _Ends(ours, -1, -1, stdout)
    stdin, typing = os.pipe()
    os.set_blocking(typing, False)
    return _Ends(ours, typing, stdin, stdout)


def _terminal() -> _Ends:
    """A new pseudo-terminal as the kernel makes it (it echoes, and gives whole lines), of ``SCREEN``.

    Raises:
        ToolFailed: the system gives no more of them.
    """
    import fcntl
    import struct
    import termios

    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise ToolFailed(f"there is no pseudo-terminal to be had: {error.strerror}; run it without tty") from None
    os.set_blocking(ours, False)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SCREEN, 0, 0))
    return _Ends(ours, ours, theirs, theirs)


def _popen(start: Launch, ends: _Ends, status: Status | None) -> subprocess.Popen[bytes]:
    handed: list[int] = []
    try:
        argv = _words(start, status, handed)
        if start.tty and status is None:  # opening it makes it the terminal of the session, where no launcher does
            argv = ["/bin/sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(ends.stdin), *argv]
        return subprocess.Popen(
            argv,
            stdin=ends.stdin if ends.stdin >= 0 else subprocess.DEVNULL,
            stdout=ends.stdout,
            stderr=ends.stdout,
            cwd=start.cwd,
            env=start.env,
            start_new_session=True,
            pass_fds=(*handed, *((status.sender,) if status is not None else ())),
        )
    except OSError as error:
        if error.errno == errno.E2BIG:  # Linux allows 128 KiB for one argument
            raise ToolFailed("the command is too long; write it to a file and run that") from None
        raise ToolFailed(f"the command could not be started: {error.strerror or error}") from None
    finally:
        for descriptor in handed:
            os.close(descriptor)
        if status is not None:
            status.sent()


def _words(start: Launch, status: Status | None, handed: list[int]) -> list[str]:
    """The whole command line: sandbox, launcher, shell. ``handed`` gets the descriptors that it names."""
    wrapping, argv = start.wrapping, start.argv
    plan = "-"
    if wrapping is not None:
        import marshal

        inputs = [*wrapping.inputs, *([marshal.dumps(wrapping.plan)] if wrapping.launcher else [])]
        for content in inputs:
            handed += [_handed(content)]  # one by one: whoever called closes those made before one that fails
        plan = str(handed[-1]) if handed else plan
    if status is not None:
        argv = [sys.executable, "-I", "-S", str(_LAUNCHER), str(status.sender), plan, *argv]
    if wrapping is not None:
        numbers = {f"{{{n}}}": str(descriptor) for n, descriptor in enumerate(handed)}
        argv = [*(numbers.get(word, word) for word in wrapping.argv), *argv]
    return argv


def _handed(content: bytes) -> int:
    """The end of a pipe that holds all of it already: a file would count against a limit on files.

    Raises:
        OSError: it does not fit into a pipe, which takes 1 MiB.
    """
    import fcntl

    descriptor, sender = os.pipe()
    try:
        if len(content) > 65_536:
            fcntl.fcntl(sender, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.set_blocking(sender, False)
        if os.write(sender, content) < len(content):
            raise OSError(errno.ENOBUFS, "the working folder has too much that must be protected")
    except OSError:
        os.close(descriptor)
        raise
    finally:
        os.close(sender)
    return descriptor


def _widen(pipe: int) -> None:
    """A larger pipe means fewer wake-ups; the system may refuse."""
    import fcntl

    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CHUNK)


def _thread(work: Callable[[], object], *, then: Callable[[], None]) -> None:
    """Not a daemon: the interpreter waits for it, so nothing is left behind at exit."""

    def both() -> None:
        try:
            work()
        finally:
            then()

    threading.Thread(target=both, name="orkas-process").start()


def settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _resolve(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle, future)
