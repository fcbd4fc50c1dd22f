"""Commands in the background: what the model sees of them and does to them."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from orkas.harness.taint import WEB
from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.abort import Abort
from orkas.infra.errors import ToolFailed
from orkas.infra.output import readable, screen_text
from orkas.infra.terminal import label
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.infra.job import Job, Unread
    from orkas.infra.jobs import Jobs

__all__ = ["ShellJob", "heard", "told"]

MAX_WAIT_S = 300
_AFTER_WRITE_S = 1.0
"""Seconds to wait for an answer to what was typed."""
_QUIET_S = 0.15
"""What a job prints in one go has no longer pause in it."""
_GATHER_S = 1.0
"""Seconds for which one that never pauses is gathered."""
_END_S = 8.0
"""Seconds after which a stopped job that the kernel does not let go is not waited for."""
_LIMIT_S = MAX_WAIT_S + 30
_MAX_TEXT = 65_536
_LINE = 4_095
"""Bytes that a terminal takes as one line while the program does not read key by key (N_TTY_BUF_SIZE of Linux)."""

_KEYS = {
    "enter": b"\r", "tab": b"\t", "escape": b"\x1b", "backspace": b"\x7f", "delete": b"\x1b[3~", "space": b" ",
    "up": b"\x1b[A", "down": b"\x1b[B", "right": b"\x1b[C", "left": b"\x1b[D", "home": b"\x1b[H", "end": b"\x1b[F",
    "page-up": b"\x1b[5~", "page-down": b"\x1b[6~", "ctrl-\\": b"\x1c",
} | {f"ctrl-{chr(code)}": bytes([code - 0x60]) for code in range(ord("a"), ord("z") + 1)}  # fmt: skip
"""As xterm sends them."""
_Seconds = Annotated[float, Meta(ge=0)]
_SIGNALS = {"ctrl-c": signal.SIGINT, "ctrl-\\": getattr(signal, "SIGQUIT", signal.SIGTERM)}
_PLAIN_KEYS = {"enter": b"\n", "tab": b"\t", "space": b" "}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ShellJobInput(msgspec.Struct, forbid_unknown_fields=True):
    action: Annotated[
        Literal["list", "read", "write", "stop"],
        Meta(description="read: what is new since the last read. write: type text, then keys. stop: end it."),
    ]
    job: Annotated[str | None, Meta(description="Its name, such as job-3f2a. Not for list.")] = None
    text: Annotated[str | None, Meta(description="For write: what to type, as it is.")] = None
    keys: Annotated[
        list[str],
        Meta(description="For write: keys to press after the text: enter, tab, escape, up, ctrl-c, ctrl-d."),
    ] = []
    wait_s: Annotated[
        _Seconds | None,
        Meta(description=f"Wait so long for output or the end, at most {MAX_WAIT_S}. Default 0, after write 1."),
    ] = None


class ShellJob:
    """The ``shell_job`` tool."""

    name = "shell_job"
    description = (
        "Commands that shell started with background: true: list them, read their new output, type to them, stop them."
    )
    parameters = schema_of(ShellJobInput)
    uses_jobs = True
    limit_s = _LIMIT_S

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult | str:
        given = check_arguments(arguments, ShellJobInput)
        jobs = context.jobs
        if jobs is None:
            raise ToolFailed(
                "there are no background jobs here: a job lives as long as its agent, and `orkas tool run` has none"
            )
        if given.action == "list":
            return listing(jobs)
        if given.job is None:
            raise ToolFailed(f"job is missing: which one is to be {_DONE[given.action]}? The action list names them")
        job = jobs.find(given.job)
        notes: list[str] = []
        since = job.whole.total if given.action == "write" else job.taken  # an answer is what comes after the question
        if given.action == "write":
            notes = await _type(job, given)
        elif given.text is not None or given.keys:
            raise ToolFailed("text and keys are for the action write")
        if given.action == "stop":
            job.stop()
            await in_thread(job.wait, _END_S)
        else:
            default = _AFTER_WRITE_S if given.action == "write" else 0.0
            wait = min(default if given.wait_s is None else given.wait_s, MAX_WAIT_S)
            await heard(job, wait, context.abort, since)
        return told(job, notes)


_DONE: Mapping[str, str] = {"read": "read", "write": "written to", "stop": "stopped"}


def listing(jobs: Jobs) -> str:
    """All jobs that are known, one a line."""
    lines = [f"{job.name}  {job.state}  {label(job.command, 120)}" for job in jobs.listed()]
    for job in jobs.listed():
        if not job.running:
            job.told.add("model")
    return "\n".join(lines) or "(there are no background jobs)"


def told(job: Job, notes: list[str]) -> ToolResult:
    """What is new of a job, as a result for the model."""
    ended = job.ended  # before the output: what it printed last must not be missed
    unread = job.take()
    if ended is not None:
        job.told.add("model")
    lines = [_shown(job, unread), *notes]
    if ended is not None:
        lines += [f"[{note}]" for note in job.notes]
    lines.append(f"[{job.name} {job.state if ended is not None else 'is still running'}]")
    file = job.whole.file if unread.output.clipped else None
    return ToolResult(
        "\n".join(lines),
        file=str(file) if file else None,
        bytes=job.whole.total if file else None,
        origin=WEB if job.beyond else None,  # what it says may come from anywhere
    )


def _shown(job: Job, unread: Unread) -> str:
    output = unread.output
    text = screen_text if job.tty else readable
    head = text(output.head())
    if not output.clipped:
        return head.removesuffix("\n") if head.strip() else "(no new output)"
    tail = text(output.tail()).removesuffix("\n")
    gone = output.total - len(output.head()) - len(output.tail())
    return f"{head}\n[… {gone:,} of {output.total:,} new bytes left out: {_where(job, unread, gone)} …]\n{tail}"


def _where(job: Job, unread: Unread, gone: int) -> str:
    """Whether what is left out can be read in the file of the whole output."""
    whole = job.whole
    begin = unread.before + len(unread.output.head())
    if whole.file is None or whole.kept <= begin:
        return f"they are lost ({whole.trouble or 'more than is kept of one job'})"
    if whole.kept >= begin + gone:
        return f"read on with read_result, file {whole.file.name}, from character {begin + 1:,} or a little before"
    kept = whole.kept - begin
    return f"the first {kept:,} of them are in {whole.file.name} (see read_result), the others are lost"


async def heard(job: Job, seconds: float, abort: Abort, since: int = 0) -> None:
    """Until there is output beyond so many bytes in all, what comes in one go with it, or the job has ended; at most so
    long, and not beyond Stop."""
    give_up = time.monotonic() + seconds
    if not await _news(job, since, give_up, abort):
        return
    gathered = min(give_up, time.monotonic() + _GATHER_S)
    while job.running and (now := time.monotonic()) < gathered:
        if not await _news(job, job.whole.total, min(gathered, now + _QUIET_S), abort):
            return


async def _news(job: Job, since: int, until: float, abort: Abort) -> bool:
    """Wait for news of a job; False: there is none in time."""
    loop = asyncio.get_running_loop()
    came = loop.create_future()

    def settle() -> None:
        if not came.done():
            came.set_result(None)

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    forget = job.watch(wake)
    forget_abort = abort.on_fire(settle)
    try:
        if job.has_news(since):
            return True
        left = until - time.monotonic()
        if left > 0:
            await asyncio.wait({came}, timeout=left)
        return job.has_news(since) and not abort.fired
    finally:
        forget()
        forget_abort()


async def _type(job: Job, given: ShellJobInput) -> list[str]:
    """Type the text and press the keys, in one go where that is possible; what the model has to know of it."""
    text = given.text or ""
    keys = [key.strip().casefold() for key in given.keys]
    if not text and not keys:
        raise ToolFailed("text and keys are missing: what is to be typed?")
    if found := _CONTROL.search(text):
        raise ToolFailed(f"the text holds the control code {found[0]!r}; press keys instead, such as ctrl-c or enter")
    if len(text) > _MAX_TEXT:
        raise ToolFailed(f"the text is longer than {_MAX_TEXT:,} characters; write it to a file and name that")
    for key in keys:
        if key not in _KEYS:
            raise ToolFailed(f"there is no key {key[:40]!r}; there are {', '.join([*_KEYS][:15])}, ctrl-a to ctrl-z")
        if not job.tty and key not in _PLAIN_KEYS and key not in _SIGNALS and key != "ctrl-d":
            raise ToolFailed(f"{job.name} has no terminal, so there is no key {key}; start it with tty: true for that")
    if job.tty:
        typed = text.replace("\n", "\r").encode() + b"".join(_KEYS[key] for key in keys)
        return await _send(job, typed)
    return await _send_plain(job, text.encode(), keys)


async def _send_plain(job: Job, data: bytes, keys: list[str]) -> list[str]:
    notes: list[str] = []
    for key in keys:
        if key in _PLAIN_KEYS:
            data += _PLAIN_KEYS[key]
            continue
        notes += await _send(job, data)
        data = b""
        if key == "ctrl-d":
            job.end_input()
        else:
            await in_thread(job.interrupt, _SIGNALS[key])
    return notes + await _send(job, data)


async def _send(job: Job, data: bytes) -> list[str]:
    if not data:
        return []
    taken = await in_thread(job.write, data)
    if taken < len(data):
        return [f"[it took only {taken:,} of {len(data):,} bytes: it does not read its input at the moment]"]
    if job.tty and max(map(len, data.split(b"\r"))) > _LINE:
        return [f"[a terminal takes {_LINE:,} bytes a line unless the program reads key by key; the rest may be lost]"]
    return []
