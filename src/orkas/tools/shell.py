"""Running commands: what the model sees of a process."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.policy import as_judged, check_command, reaches_network
from orkas.harness.taint import WEB, file_stem
from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra import process
from orkas.infra.errors import ToolFailed
from orkas.infra.messages import new_name
from orkas.infra.output import Output, readable, screen_text
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.infra.job import Job
    from orkas.infra.sandbox import Backend

__all__ = ["Shell"]

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
_JOB_CPU_S = 24 * 3_600
"""Seconds of processor time of one process of a background job: a watcher works all day."""
_FIRST_S = 0.25
"""Seconds in which a background job that fails at once may do so."""
GRACE_S = 30
"""Seconds beyond its time limit in which a command is ended and its output collected."""


class ShellInput(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command line, run by bash in the working folder.", min_length=1)]
    timeout_s: Annotated[
        float | None,
        Meta(
            description=f"Time limit in seconds. Default {DEFAULT_TIMEOUT_S}, at most {MAX_TIMEOUT_S};"
            " in the background as long as you like, and none by default."
        ),
    ] = None
    background: Annotated[
        bool,
        Meta(
            description="Start it and return at once; shell_job reads it, types to it and stops it. It ends with the"
            " conversation. Its ports are reached from other calls only if both have network: true."
        ),
    ] = False
    tty: Annotated[
        bool, Meta(description="Give it a terminal, for programs that want one. Default false.")
    ] = False
    network: Annotated[
        bool, Meta(description="Let the command use the network; the user is asked. Default false.")
    ] = False
    outside: Annotated[
        bool, Meta(description="Run it outside the sandbox, with all rights of the user, who is asked. Default false.")
    ] = False


class Shell:
    """The ``shell`` tool.

    The model gets stdout and stderr as they were written, control codes made visible (``orkas.infra.output.readable``),
    and the exit status. A command that the block list denies does not run, whatever the mode of approval. It runs in
    the sandbox (``orkas.infra.sandbox``); where none works it does not run. Whether it may have the network or leave
    the sandbox was decided by the policy before.
    """

    name = "shell"
    description = (
        "Run a bash command in the working folder: build, test, git, anything without a tool of its own. Each call is a"
        " fresh shell without input; processes that it leaves running are ended when the command ends, so start servers"
        " and watchers with background: true."
        " It runs in a sandbox: it can write in the working folder and /tmp alone, and has no network."
        " To read, find or change files use the file tools."
    )
    parameters = schema_of(ShellInput)
    uses_jobs = True

    def __init__(self) -> None:
        self._put_back: list[str] = []
        """What was put back after commands and not yet told; after a stopped one that is told with the next."""

    def limit_s(self, arguments: Mapping[str, Any]) -> float:
        """The time limit of the command and some more: it is ended by us, in order, before anybody gives it up."""
        given = check_arguments(dict(arguments), ShellInput)
        return (0 if given.background else _time_limit(given.timeout_s)) + GRACE_S

    def touches(self, _arguments: dict[str, Any], _context: ToolContext) -> None:
        """Any file."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, ShellInput)
        limit = _time_limit(given.timeout_s)
        verdict = check_command(given.command)
        if verdict.verdict == "deny":
            raise ToolFailed(f"this command is blocked: {'; '.join(verdict.reasons)}. Find another way or ask the user")
        notes = _missing_folder(context.cwd)
        if given.background:
            return await self._start(given, context, notes)
        online = _online(given, context)
        stem = file_stem("shell", foreign=online)
        output = Output(context.files, f"{stem}-{new_name()}")
        start = await in_thread(self._launch, given, context, self._put_back)
        ended = await process.run(
            start, output=output, timeout_s=limit, abort=context.abort, alive_sign=context.progress
        )
        if output.file is not None and not ended.stopped:
            await in_thread(output.settle, stem)
        notes += _forbidden(output, given, ended) if start.wrapping is not None else []
        notes += self._news()
        if ended.timed_out and limit == MAX_TIMEOUT_S:
            notes.append(f"[no command has more than {MAX_TIMEOUT_S} s, but one with background: true has no limit]")
        text = "\n".join([_shown(output, screen_text if given.tty else readable), *notes, *_ending(ended, limit)])
        return ToolResult(
            text,
            is_error=ended.code != 0,
            file=str(output.file) if output.file else None,
            bytes=output.total if output.file else None,
            origin=WEB if online else None,
        )

    async def _start(self, given: ShellInput, context: ToolContext, notes: list[str]) -> ToolResult:
        """Start a background job. One that fails at once is told with the start."""
        from orkas.tools.shell_job import heard, told

        jobs = context.jobs
        if jobs is None:
            raise ToolFailed(
                "there are no background jobs here: a job lives as long as its agent, and `orkas tool run` has none; "
                "run the command without background, or in a conversation"
            )
        limit = None if given.timeout_s is None else _positive(given.timeout_s)

        def begin() -> Job:
            put_back: list[str] = []
            start = self._launch(given, context, put_back)
            beyond = start.wrapping is None or given.network
            job = jobs.start(
                given.command, start, folder=context.files, limit_s=limit, beyond=beyond, notes=put_back,
                stem=file_stem("job", foreign=beyond),
            )  # fmt: skip
            if context.abort.fired:
                job.stop(0)
            return job

        job = await in_thread(begin)
        try:
            await heard(job, _FIRST_S, context.abort)
        except BaseException:  # Stop, or a cancellation, before anybody knows of it
            job.stop(0)
            raise
        notes += self._news()
        if not job.running:
            return told(job, notes)
        says = f"[{job.name} runs in the background; shell_job reads its output, types to it and stops it]"
        return ToolResult("\n".join([*notes, says]))

    def _news(self) -> list[str]:
        told = []
        while self._put_back:
            told.append(f"[{self._put_back.pop(0)}]")
        return told

    def _launch(self, given: ShellInput, context: ToolContext, put_back: list[str]) -> process.Launch:
        """How the command starts: inside the sandbox, unless it was let out or the user switched the sandbox off.
        ``put_back`` gets what has to be told when it has ended.

        Raises:
            ToolFailed: there is no sandbox, or no place for temporary files.
        """
        command, variables = as_judged(given.command)
        env = {**variables, **context.env}
        backend = None if given.outside or context.sandbox == "off" else _backend(context)
        started = partial(
            process.launch, command, cwd=context.cwd, env=env, tty=given.tty, typed=given.background
        )
        if backend is None:
            return started()
        from orkas.infra.sandbox import Limits, Restorer, profile

        limits = Limits(cpu_s=_JOB_CPU_S) if given.background else None
        try:
            made = profile(context.cwd, network=given.network, env=process.environment(env), limits=limits)
            restorer = Restorer(made, everything=backend.after, notes=put_back)
        except OSError as error:
            said = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
            raise ToolFailed(f"the sandbox cannot be made ({said}); free some space, or start anew") from None
        start = started(wrapping=backend.wrap(made))
        start.gone = restorer.settle
        return start


def _backend(context: ToolContext) -> Backend:
    if not isinstance(context.sandbox, str):
        return context.sandbox
    from orkas.infra.sandbox import find

    found = find()
    if found.backend is None:
        raise ToolFailed(
            f"shell commands are refused, because there is no sandbox: {found.why}. Install bubblewrap, or run them "
            "without walls by `orkas config set sandbox off`"
        )
    return found.backend


_OF_THE_NETWORK = re.compile(
    r"could not resolve|name or service not known|temporary failure in name|network is unreachable|EAI_AGAIN"
    r"|ENETUNREACH|address family not supported", re.IGNORECASE
)  # fmt: skip
_OF_THE_DISK = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_OF_GIT = re.compile(
    r"could not (?:write|lock) config file|\.git(?:modules)?\b[^\n]{0,300}(?:resource busy|read-only file system)"
    r"|read-only file system[^\n]{0,300}\.git\b", re.IGNORECASE
)  # fmt: skip


def _forbidden(output: Output, given: ShellInput, ended: process.Ended) -> list[str]:
    """What a failed command may have met: the walls, and how to ask for more. git may go on without what it could
    not write, and end well."""
    end = output.tail().decode(errors="replace") or output.head().decode(errors="replace")
    if ended.code is not None and _OF_GIT.search(end):
        return ["[the sandbox holds git's settings and hooks as they are; with outside: true the user is asked]"]
    if not ended.code:
        return []
    if not given.network and (_OF_THE_NETWORK.search(end) or (not end and reaches_network(given.command))):
        return ["[the sandbox has no network; if it is needed, call again with network: true, and the user is asked]"]
    if _OF_THE_DISK.search(end):
        return ["[the sandbox writes in the working folder and /tmp alone; with outside: true the user is asked]"]
    return []


def _online(given: ShellInput, context: ToolContext) -> bool:
    """Whether what it says may come from anywhere."""
    return given.network or given.outside or context.sandbox == "off"


def _time_limit(given: float | None) -> float:
    if given is None:
        return DEFAULT_TIMEOUT_S
    return min(_positive(given), MAX_TIMEOUT_S)


def _positive(given: float) -> float:
    if not given > 0:
        raise ToolFailed("timeout_s must be more than 0 seconds")
    return given


def _missing_folder(cwd: Path) -> list[str]:
    """A deleted working folder is made again, empty: any other place would be outside it. One that became a link would
    lead commands elsewhere."""
    if cwd.is_dir():
        if (now := os.path.realpath(cwd)) != os.fspath(cwd):
            raise ToolFailed(f"the working folder {cwd} leads to {now} now; put a folder back there, or start anew")
        return []
    try:
        cwd.mkdir(parents=True)
    except OSError as error:
        raise ToolFailed(f"the working folder {cwd} is gone and cannot be made again: {error.strerror}") from None
    return [f"[the working folder {cwd} was gone; it was made again, empty]"]


def _shown(output: Output, text: Callable[[bytes], str]) -> str:
    if not output.total:
        return "(no output)"
    head = text(output.head())
    if not output.clipped:
        return head.removesuffix("\n")
    tail = text(output.tail()).removesuffix("\n")
    left_out = output.total - len(output.head()) - len(output.tail())
    return f"{head}\n[… {left_out:,} of {output.total:,} bytes left out: {_where(output)} …]\n{tail}"


def _where(output: Output) -> str:
    if output.complete and output.file is not None:
        return f"the whole output is kept: read on with read_result, file {output.file.name}"
    if output.file is None:
        return f"they are lost, the whole output could not be kept ({output.trouble}); run again with less output"
    why = f" ({output.trouble})" if output.trouble else ""
    lost = output.total - len(output.tail()) - output.kept
    rest = f"{lost:,} bytes after them are lost{why}" if lost > 0 else f"the rest is shown below{why}"
    return f"the first {output.kept:,} bytes are in {output.file.name}, incomplete (see read_result); {rest}"


def _ending(ended: process.Ended, limit: float) -> list[str]:
    if ended.stopped:
        return ["[stopped by the user; the command was ended]"]
    if ended.timed_out:
        return [f"[time limit of {limit:g} s reached; the command and its children were ended]"]
    assert ended.code is not None
    notes = []
    if ended.exceeded:
        notes.append(f"[it used more {ended.exceeded} than a command may, so it was ended]")
    if ended.unwatched:
        notes.append(
            "[what watches over the command was killed first, so how it ended is not known; outside a sandbox processes"
            " that took a session and an environment of their own may still run: look with ps]"
        )
    if ended.left_running:
        notes.append("[processes that the command left running were ended with it]")
    return [*notes, f"[exit code {ended.code}{_killed(ended.code, ended.killed_by)}]"]


_OF_CHILDREN = frozenset({
    "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGINT", "SIGKILL", "SIGPIPE", "SIGSEGV", "SIGSYS", "SIGTERM",
})  # fmt: skip
"""By these programs usually die; other codes above 128 (129 of git) are more often errors of their own."""


def _killed(code: int, by: int) -> str:
    """By which signal the command was killed. A shell exits with a code above 128 where a program of it was killed,
    and so can anybody: of an exit nobody knows."""
    try:
        name = signal.Signals(by or code - 128).name
    except ValueError:
        return ""
    if by:
        return f", killed by {name}"
    return f", as if killed by {name}" if name in _OF_CHILDREN else ""
