"""The only place that starts processes.

Promises: a child gets a short list of variables and nothing else of ours; no terminal of ours and no input, unless it
is given a pseudo-terminal of its own; it leads a session of its own; however ``run`` ends (exit, time limit, Stop,
cancellation) nothing of the command stays alive, children that moved to a session of their own included (on Linux also
those that dropped their environment: ``orkas.infra.launcher`` adopts them).

That the child cannot reach files or the network of its user is the promise of ``orkas.infra.sandbox``: its wrapping
is given to ``launch``. In a namespace of its own the launcher is the first process inside, and the kernel ends
everybody with it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orkas.infra.abort import Abort
from orkas.infra.child import CHUNK, DRAIN_S, STOP_GRACE_S, TERM_GRACE_S, Child, Launch, settle
from orkas.infra.descendants import MARK
from orkas.infra.errors import ToolFailed
from orkas.infra.known import strip_userinfo
from orkas.infra.output import Output

if TYPE_CHECKING:
    from orkas.infra.sandbox.profile import Wrapping

__all__ = ["Ended", "Launch", "attempt", "environment", "helper", "launch", "run"]

_FREE_BYTES = 256 * 1024 * 1024
"""After so much output reading slows down (``_PAUSE_S`` a chunk), so that an endless writer costs little."""
_PAUSE_S = 0.005

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


def launch(
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    wrapping: Wrapping | None = None,
    tty: bool = False,
    typed: bool = False,
) -> Launch:
    """How a shell command is started, inside ``wrapping`` when one is given. ``tty`` and ``typed`` as of ``Launch``.

    One fixed shell (bash, else sh) without start-up files, never the user's login shell.

    Raises:
        ToolFailed: this system has no POSIX shell, or the command holds a NUL.
    """
    if os.name != "posix":
        raise ToolFailed("shell commands need a POSIX system; use the file tools instead")
    if "\0" in command:
        raise ToolFailed("the command holds a NUL character; write the bytes with printf escapes instead")
    mark = secrets.token_hex(8)
    terminal = {"TERM": "xterm"} if tty else {}
    child_env = environment(terminal | dict(env or {})) | (wrapping.env if wrapping else {}) | {MARK: mark}
    argv = [*_shell(child_env["PATH"]), "-c", command]
    return Launch(argv, child_env, cwd, mark, wrapping, tty=tty, typed=typed)


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
    killed_by: int = 0
    """The signal that ended it, where it had a ``code``; 0: it exited by itself."""
    exceeded: str = ""
    """It was ended because it used too much of this: memory or processes."""
    left_running: bool = False
    """The command ended but children of it did not: they were ended after it."""
    unwatched: bool = False
    """Who watched over it was killed before it ended: its exit code is not known, and who hid meanwhile may live on."""


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
    child = Child(start)
    reader = _Reader(child.pipe, output)
    stop = asyncio.get_running_loop().create_future()
    forget = abort.on_fire(lambda: settle(stop))
    try:
        exited = child.exited()
        await _first(exited, stop, began + timeout_s, output, alive_sign)
        child.unwatch()
        ended = Ended(None, 0.0)
        if exited.done():
            await reader.drained(DRAIN_S)
            ended.left_running = child.reap()
            ended.code, ended.killed_by = child.code, child.killed_by
            ended.exceeded = child.exceeded
            ended.unwatched = child.unwatched
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
        child.close()
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
            data = os.read(self._pipe, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # so a pseudo-terminal ends that nobody holds any more
            data = b""
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


def attempt(start: Launch, timeout_s: float) -> tuple[int | None, bytes]:
    """Run something short without an event loop: its exit code (None: it did not start or end) and what it said.

    Raises:
        ToolFailed: it could not be started.
    """
    child = Child(start)
    try:
        said = _heard(child, time.monotonic() + timeout_s)
        return child.finished(), said
    finally:
        child.kill()
        child.close()


def _heard(child: Child, deadline: float) -> bytes:
    """What it says until it has ended, whoever still holds its pipe; the last part of it."""
    import select

    said = b""
    while (left := deadline - time.monotonic()) > 0 and (watched := [child.pipe, *child.news]):
        ready = select.select(watched, [], [], left)[0]
        if child.pipe in ready:
            part = os.read(child.pipe, CHUNK)
            if not part:
                break
            said = (said + part)[-CHUNK:]
        elif ready and child.over:
            deadline = min(deadline, time.monotonic() + DRAIN_S)
    return said


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
