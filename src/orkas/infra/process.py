"""The only place that starts processes.

Promises: a child gets a short list of variables and nothing else of ours; no terminal and no input; it leads a
session of its own; whichever way ``run`` ends (exit, time limit, Stop, cancellation) nothing of the command stays
alive, children that moved to a session of their own included (on Linux also those that dropped their environment:
``orkas.infra.launcher`` adopts them).

That the child cannot reach files or the network of its user is the promise of ``orkas.infra.sandbox``: its wrapping
is given to ``launch``. In a namespace of its own the launcher is the first process inside, and the kernel ends
everybody with it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orkas.infra.abort import Abort
from orkas.infra.descendants import MARK, alive, children_of, send
from orkas.infra.errors import ToolFailed
from orkas.infra.known import strip_userinfo
from orkas.infra.output import Output

if TYPE_CHECKING:
    from orkas.infra.sandbox.profile import Wrapping

__all__ = ["Ended", "Launch", "attempt", "environment", "helper", "launch", "run"]

TERM_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL after the time limit."""
STOP_GRACE_S = 0.5
"""The same after Stop and for what a finished command leaves behind; it passes in the background."""
DRAIN_S = 0.3
"""How long a pipe that others still hold is read after the command itself has ended."""
_CHUNK = 256 * 1024
_FREE_BYTES = 256 * 1024 * 1024
"""After so much output reading slows down (``_PAUSE_S`` a chunk), so that an endless writer costs little."""
_PAUSE_S = 0.005
_LAUNCHER = Path(__file__).with_name("launcher.py")
"""Costs about 6 ms of processor time a command."""
_EXCEEDED = {-1_000: "processes", -2_000: "memory"}
"""As ``TOO_MANY`` and ``TOO_MUCH`` of the launcher."""
_SURE_S = 5.0
"""Commands that ran longer are looked for among all processes: numbers may have been reused."""

_KEPT = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "PIP_CERT", "AWS_CA_BUNDLE",
    "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
    "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
})  # fmt: skip
_SET = {
    "TERM": "dumb",
    "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat", "LESS": "-FRX",
    "EDITOR": "false", "VISUAL": "false", "GIT_EDITOR": "false", "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive", "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1",
}  # fmt: skip


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a child: the kept variables of ours, harmless prompts and pagers, then ``extra``.

    Proxies go without name and password: a command that needs them gets them by ``extra``.
    """
    kept = {k: _without_login(k, v) for k, v in os.environ.items() if k.upper() in _KEPT}
    kept.setdefault("LANG", "C.UTF-8")
    kept.setdefault("PATH", os.defpath)
    return kept | _SET | dict(extra or {})


def _without_login(name: str, value: str) -> str:
    return strip_userinfo(value) if name.upper().endswith("_PROXY") and name.upper() != "NO_PROXY" else value


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

    @property
    def namespace(self) -> bool:
        """Its processes have other numbers inside than here, and die with the first of them."""
        return self.wrapping is not None and self.wrapping.namespace


def launch(
    command: str, *, cwd: Path, env: Mapping[str, str] | None = None, wrapping: Wrapping | None = None
) -> Launch:
    """How a shell command is started, inside ``wrapping`` when one is given.

    One fixed shell (bash, else sh) without start-up files, never the user's login shell.

    Raises:
        ToolFailed: this system has no POSIX shell, or the command holds a NUL.
    """
    if os.name != "posix":
        raise ToolFailed("shell commands need a POSIX system; use the file tools instead")
    if "\0" in command:
        raise ToolFailed("the command holds a NUL character; write the bytes with printf escapes instead")
    mark = secrets.token_hex(8)
    child_env = environment(env) | (wrapping.env if wrapping else {}) | {MARK: mark}
    return Launch([*_shell(child_env["PATH"]), "-c", command], child_env, cwd, mark, wrapping)


def _shell(path: str) -> list[str]:
    for bash in ("/bin/bash", "/usr/bin/bash"):
        if os.access(bash, os.X_OK):
            return [bash, "--noprofile", "--norc"]
    if found := shutil.which("bash", path=path):
        return [found, "--noprofile", "--norc"]
    return ["/bin/sh"]


@dataclass(slots=True)
class Ended:
    """How a command ended. What it printed is in the ``Output`` that was given to ``run``."""

    code: int | None
    """Exit status as the shell gives it (128 + signal when killed); None when we ended it."""
    seconds: float
    timed_out: bool = False
    stopped: bool = False
    exceeded: str = ""
    """It was ended because it used too much of this: memory or processes."""
    left_running: bool = False
    """The command ended but children of it did not: they were ended after it."""


async def run(
    start: Launch,
    *,
    output: Output,
    timeout_s: float,
    abort: Abort,
    alive_sign: Callable[[str], None] = lambda _line: None,
) -> Ended:
    """Run to the end of the direct child, the time limit, or Stop, whatever comes first.

    ``output`` gets stdout and stderr as they were written, through one pipe, and is closed on return. ``alive_sign``
    gets the last line about once a second while there is news. On Stop it returns at once; ending what does not
    listen goes on in a thread that outlives the event loop.

    Raises:
        ToolFailed: the command could not be started.
    """
    if abort.fired:
        return Ended(None, 0.0, stopped=True)
    began = time.monotonic()
    child = _Child(start)
    reader = _Reader(child.pipe, output)
    stop = asyncio.get_running_loop().create_future()
    forget = abort.on_fire(lambda: _settle(stop))
    try:
        exited = child.exited()
        await _first(exited, stop, began + timeout_s, output, alive_sign)
        child.unwatch()
        ended = Ended(None, 0.0)
        if exited.done():
            await reader.drained(DRAIN_S)
            ended.left_running = child.reap()
            ended.code = child.code
            ended.exceeded = child.exceeded
            if not child.started and start.wrapping is not None and not abort.fired:
                why = output.last_line() or "it was killed"
                raise ToolFailed(f"the sandbox could not be started: {why}; `orkas doctor` says more")
        elif stop.done():
            ended.stopped = True
        else:
            ended.timed_out = True
            await asyncio.shield(child.end(TERM_GRACE_S))
            await reader.drained(DRAIN_S)
        ended.seconds = time.monotonic() - began
        return ended
    finally:
        forget()
        child.unwatch()  # before the end, which closes what is watched
        child.end(STOP_GRACE_S)
        reader.close()
        output.close()


async def _first(
    exited: asyncio.Future[None],
    stop: asyncio.Future[None],
    deadline: float,
    output: Output,
    alive_sign: Callable[[str], None],
) -> None:
    seen = 0
    while (left := deadline - time.monotonic()) > 0:
        done, _ = await asyncio.wait({exited, stop}, timeout=min(1.0, left), return_when=asyncio.FIRST_COMPLETED)
        if done:
            return
        if output.seen != seen:
            seen = output.seen
            alive_sign(output.last_line())


class _Reader:
    """Reads a pipe into an ``Output`` on the event loop, a bounded piece at a time."""

    def __init__(self, pipe: int, output: Output) -> None:
        self._pipe = pipe
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(pipe, self._ready)

    def _ready(self) -> None:
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._pipe)
            self._end.set_result(None)
            return
        self._output.feed(data)
        if self._output.seen > _FREE_BYTES:
            self._loop.remove_reader(self._pipe)
            self._pause = self._loop.call_later(_PAUSE_S, self._loop.add_reader, self._pipe, self._ready)

    async def drained(self, seconds: float) -> None:
        """Until the last writer has closed, at most so long."""
        if not self._end.done():
            await asyncio.wait({self._end}, timeout=seconds)

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)


class _Child:
    """One running command and everybody who came of it. On Linux our direct child is its launcher."""

    def __init__(self, start: Launch) -> None:
        self.pipe, write_end = os.pipe()
        self._status: _Status | None = None
        try:
            os.set_blocking(self.pipe, False)
            _widen(self.pipe)
            if _launches(start):
                self._status = _Status()
            self._process = _popen(start, write_end, self._status)
        except BaseException:
            os.close(self.pipe)
            if self._status is not None:
                self._status.close()
            raise
        finally:
            os.close(write_end)
        self._gone = start.gone
        self._mark = start.mark
        self._namespace = start.namespace
        self._began = time.monotonic()
        self._ending: asyncio.Future[None] | None = None
        _running.add(self)

    @property
    def started(self) -> bool:
        return self._status is None or self._status.command is not None

    @property
    def code(self) -> int:
        if self._status is not None:
            code = self._status.code if self._status.code is not None else -signal.SIGKILL
        else:
            code = self._process.returncode
        if code in _EXCEEDED:
            code = -signal.SIGKILL
        return 128 - code if code < 0 else code

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

    def _has_news(self, status: _Status, gone: asyncio.Future[None]) -> None:
        status.read()
        if status.over:
            self.unwatch()
            _settle(gone)

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

    def reap(self) -> bool:
        """After the command has exited: True when others of it still run (they are being ended)."""
        left = bool(self._alive())
        if not left:
            try:
                self._process.wait(0.2)
            except subprocess.TimeoutExpired:
                left = True
        if left:
            self.end(STOP_GRACE_S)
        else:
            self._forget()
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
            self._signal(signal.SIGTERM)
            _thread(lambda: self._end(grace_s), then=lambda: _resolve(loop, ending))
        return self._ending

    def kill(self) -> None:
        """SIGKILL until nobody is left; a process that the kernel does not let go is given up after 5 s."""
        give_up = time.monotonic() + 5
        while self._signal(signal.SIGKILL) and time.monotonic() < give_up:
            time.sleep(0.01)
        if not self._ended():  # a launcher that was stopped, or that waits for what the kernel does not let go
            self._process.kill()
            self._signal(signal.SIGKILL)
            self._ended()
        self._forget()

    def _ended(self) -> bool:
        try:
            self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end(self, grace_s: float) -> None:
        over = time.monotonic() + grace_s
        while self._alive() and time.monotonic() < over:
            time.sleep(0.02)
        self.kill()

    def _signal(self, number: signal.Signals) -> set[int]:
        if self._status is not None and self._status.read() is None:
            self._process.kill()  # it has not started the command yet, and shall not
        left = self._alive()
        if self._namespace and number == signal.SIGKILL and self._process.poll() is None:
            left |= {self._process.pid, *children_of(self._process.pid)}
        group = self._group()
        if group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        send(left, number)
        return left

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
        if self in _running:
            _running.discard(self)
            self._gone()
        if self._status is not None:
            self._status.close()


class _Status:
    """What a launcher says: the number of the command, then its exit code. May be read from any thread."""

    def __init__(self) -> None:
        self.pipe, self.sender = os.pipe()
        os.set_blocking(self.pipe, False)
        self.command: int | None = None
        self.code: int | None = None
        self.over = False
        """The command has exited, or the launcher was killed."""
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
                numbers = [int(line) for line in self._said.split(b"\n")[:-1]]
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


def _launches(start: Launch) -> bool:
    """There is an interpreter for the launcher; in a frozen program ``sys.executable`` is that program."""
    if start.wrapping is not None:
        return start.wrapping.launcher
    return sys.platform.startswith("linux") and bool(sys.executable) and not getattr(sys, "frozen", False)


_running: set[_Child] = set()


@atexit.register
def _end_all() -> None:
    for child in list(_running):
        child.kill()


def _popen(start: Launch, write_end: int, status: _Status | None) -> subprocess.Popen[bytes]:
    handed: list[int] = []
    try:
        argv = _words(start, status, handed)
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
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


def _words(start: Launch, status: _Status | None, handed: list[int]) -> list[str]:
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


def attempt(start: Launch, timeout_s: float) -> tuple[int | None, bytes]:
    """Run something short without an event loop: its exit code (None: it did not start or end) and what it said.

    Raises:
        ToolFailed: it could not be started.
    """
    child = _Child(start)
    try:
        said = _heard(child, time.monotonic() + timeout_s)
        return child.finished(), said
    finally:
        child.kill()
        os.close(child.pipe)


def _heard(child: _Child, deadline: float) -> bytes:
    """What it says until it has ended, whoever still holds its pipe; the last part of it."""
    import select

    said = b""
    while (left := deadline - time.monotonic()) > 0 and (watched := [child.pipe, *child.news]):
        ready = select.select(watched, [], [], left)[0]
        if child.pipe in ready:
            part = os.read(child.pipe, _CHUNK)
            if not part:
                break
            said = (said + part)[-_CHUNK:]
        elif ready and child.over:
            deadline = min(deadline, time.monotonic() + DRAIN_S)
    return said


def _widen(pipe: int) -> None:
    """A larger pipe means fewer wake-ups; the system may refuse."""
    import fcntl

    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _CHUNK)


def _thread(work: Callable[[], object], *, then: Callable[[], None]) -> None:
    """Not a daemon: the interpreter waits for it, so nothing is left behind at exit."""

    def both() -> None:
        try:
            work()
        finally:
            then()

    threading.Thread(target=both, name="orkas-process").start()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _resolve(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, future)


def helper(program: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of our own Python programs, isolated, with pipes for input and output. The caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )
