"""Running commands: what the model sees of a process."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.policy import as_judged, check_command
from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra import process
from orkas.infra.errors import ToolFailed
from orkas.infra.messages import new_name
from orkas.infra.output import Output, readable
from orkas.infra.threads import in_thread

__all__ = ["Shell"]

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
GRACE_S = 30
"""Seconds beyond its time limit in which a command is ended and its output collected."""


class ShellInput(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command line, run by bash in the working folder.", min_length=1)]
    timeout_s: Annotated[
        float | None, Meta(description=f"Time limit in seconds. Default {DEFAULT_TIMEOUT_S}, at most {MAX_TIMEOUT_S}.")
    ] = None


class Shell:
    """The ``shell`` tool.

    The model gets stdout and stderr as they were written, control codes made visible (``orkas.infra.output.readable``),
    and the exit status. A command that the block list denies does not run, whatever the mode of approval.
    """

    name = "shell"
    description = (
        "Run a bash command in the working folder: build, test, git, anything without a tool of its own. Each call is a"
        " fresh shell: no input, no terminal; processes left in the background are ended when the command ends."
        " To read, find or change files use the file tools."
    )
    parameters = schema_of(ShellInput)

    def limit_s(self, arguments: Mapping[str, Any]) -> float:
        """The time limit of the command and some more: it is ended by us, in order, before anybody gives it up."""
        return _time_limit(check_arguments(dict(arguments), ShellInput).timeout_s) + GRACE_S

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, ShellInput)
        limit = _time_limit(given.timeout_s)
        verdict = check_command(given.command)
        if verdict.verdict == "deny":
            raise ToolFailed(f"this command is blocked: {'; '.join(verdict.reasons)}. Find another way or ask the user")
        notes = _missing_folder(context.cwd)
        output = Output(context.files, f"shell-{new_name()}")
        command, variables = as_judged(given.command)
        start = process.launch(command, cwd=context.cwd, env={**variables, **context.env})
        ended = await process.run(
            start, output=output, timeout_s=limit, abort=context.abort, alive_sign=context.progress
        )
        if output.file is not None and not ended.stopped:
            await in_thread(output.settle, "shell")
        text = "\n".join([_shown(output), *notes, *_ending(ended, limit)])
        return ToolResult(
            text,
            is_error=ended.code != 0,
            file=str(output.file) if output.file else None,
            bytes=output.total if output.file else None,
        )


def _time_limit(given: float | None) -> float:
    if given is None:
        return DEFAULT_TIMEOUT_S
    if not given > 0:
        raise ToolFailed("timeout_s must be more than 0 seconds")
    return min(given, MAX_TIMEOUT_S)


def _missing_folder(cwd: Path) -> list[str]:
    """A deleted working folder is made again, empty: any other place would be outside it."""
    if cwd.is_dir():
        return []
    try:
        cwd.mkdir(parents=True)
    except OSError as error:
        raise ToolFailed(f"the working folder {cwd} is gone and cannot be made again: {error.strerror}") from None
    return [f"[the working folder {cwd} was gone; it was made again, empty]"]


def _shown(output: Output) -> str:
    if not output.total:
        return "(no output)"
    head = readable(output.head())
    if not output.clipped:
        return head.removesuffix("\n")
    tail = readable(output.tail()).removesuffix("\n")
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
    if ended.left_running:
        notes.append("[processes that the command left running were ended with it]")
    return [*notes, f"[exit code {ended.code}{_signal_name(ended.code)}]"]


def _signal_name(code: int) -> str:
    try:
        return f", killed by {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""
