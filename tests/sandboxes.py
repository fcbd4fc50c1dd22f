"""What the tests of the sandbox share: backends that work here, and running something inside one."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import pytest

from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.sandbox import Backend
from orkas.infra.sandbox.finding import named, trial
from orkas.tools.shell import Shell

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these walls are those of Linux")


@cache
def _problem(name: str) -> str:
    made = named(name)
    return f"{name} is not there" if made is None else trial(made)


def backend(name: str) -> Backend:
    """The backend, tried; the test is skipped with the reason where this machine forbids it."""
    if problem := _problem(name):
        pytest.skip(f"{name} does not work here: {problem}")
    made = named(name)
    assert made is not None
    return made


class Walled:
    """A working folder and the shell tool in it."""

    def __init__(self, tmp_path: Path, walls: Backend) -> None:
        self.work = tmp_path / "work"
        self.work.mkdir()
        self.context = ToolContext(Path(os.path.realpath(self.work)), sandbox=walls)
        self._shell = Shell()

    async def run(self, command: str, **more: object) -> ToolResult:
        return await self._shell.run({"command": command, "timeout_s": 20, **more}, self.context)

    async def text(self, command: str, **more: object) -> str:
        return (await self.run(command, **more)).text
