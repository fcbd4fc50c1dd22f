"""Hard commands, many at a time: each comes back within its limit and six seconds, and nobody of it survives."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from animals import ANIMALS, Animal

from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.abort import Abort
from orkas.infra.descendants import children_of
from orkas.infra.jobs import MAX_RUNNING, Jobs
from orkas.infra.sandbox import find
from orkas.infra.sandbox.finding import named, trial
from orkas.tools.shell import Shell

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="survivors are looked for in /proc")

FULL = bool(os.environ.get("ORKAS_FULL"))
CHOSEN = [animal for animal in ANIMALS if FULL or animal.quick]
AT_ONCE = 6
BEYOND_S = 6.0
"""Seconds beyond its limit in which a command has come back."""


class Zoo:
    """A folder for each animal, and one mark that all of their processes inherit."""

    def __init__(self, folder: Path, sandbox: Any) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.walls = sandbox != "off"
        self.jobs = Jobs()
        self._shell = Shell()

    def context(self, animal: Animal, abort: Abort | None = None) -> ToolContext:
        home = self.folder / re.sub(r"\W", "-", animal.name)
        home.mkdir(exist_ok=True)
        return ToolContext(
            Path(os.path.realpath(home)), abort or Abort(), {"ZOO": str(self.folder)}, self.folder / "files", self.sandbox,
            jobs=self.jobs,
        )  # fmt: skip

    async def run(self, animal: Animal, abort: Abort | None = None, **more: Any) -> ToolResult:
        arguments = {"command": animal.command, "tty": animal.tty, "timeout_s": 10 if animal.soon else animal.limit_s, **more}
        return await self._shell.run(arguments, self.context(animal, abort))

    def survivors(self) -> list[str]:
        """Who carries the mark, and who came of us."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"ZOO={self.folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
        return found + [str(pid) for pid in children_of(os.getpid()) if _runs(pid)]

    async def nobody_left(self, within_s: float = 3) -> None:
        until = time.monotonic() + within_s
        while left := self.survivors():
            assert time.monotonic() < until, left
            await asyncio.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return not re.search(r"\) [ZX] ", Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return False


async def side_by_side(animals: Iterable[Animal], work: Callable[[Animal], Awaitable[str]]) -> None:
    """Run ``work`` for each, so many at once; it returns what is wrong, and all of that is told together."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(animal: Animal) -> str:
        async with places:
            wrong = await work(animal)
            return f"{animal.name}: {wrong}" if wrong else ""

    wrong = [told for told in await asyncio.gather(*map(one, animals)) if told]
    assert not wrong, "\n".join(wrong)


def _backends() -> Iterator[Any]:
    yield pytest.param("find", id="walls")
    if FULL:
        yield pytest.param("landlock", id="landlock")
        yield pytest.param("off", id="no-walls")


@pytest.fixture(params=_backends())
def zoo(request: pytest.FixtureRequest, tmp_path: Path) -> Zoo:
    chosen = request.param
    if chosen == "landlock":
        chosen = named("landlock")
        if chosen is None or trial(chosen):
            pytest.skip("Landlock does not work here")
    elif chosen == "find" and find().backend is None:
        pytest.skip("there are no walls here")
    return Zoo(tmp_path, chosen)


def _for(zoo: Zoo) -> list[Animal]:
    fits = [animal for animal in CHOSEN if zoo.walls or not animal.walls]
    return fits if zoo.sandbox == "find" else [animal for animal in fits if animal.quick]


async def test_every_command_comes_back_in_time_and_leaves_nobody(zoo: Zoo) -> None:
    async def visit(animal: Animal) -> str:
        began = time.monotonic()
        result = await zoo.run(animal)
        seconds = time.monotonic() - began
        if seconds > animal.limit_s + BEYOND_S:
            return f"came back after {seconds:.1f} s"
        if animal.soon and zoo.sandbox == "find" and "time limit" in result.text:
            return f"was not to meet its limit: {result.text[-300:]!r}"
        if len(result.text) > 60_000 or re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.text):
            return f"showed {result.text[:300]!r}"
        if zoo.sandbox == "find" and not re.search(animal.told, result.text):
            return f"said {result.text[:300]!r} … {result.text[-200:]!r}"
        return ""

    await side_by_side(_for(zoo), visit)
    await zoo.nobody_left()


async def test_stop_is_heard_within_a_second_by_every_command(zoo: Zoo) -> None:
    async def visit(animal: Animal) -> str:
        abort = Abort()
        running = asyncio.create_task(zoo.run(animal, abort, timeout_s=30))
        await asyncio.wait({running}, timeout=0.3)
        began = time.monotonic()
        abort.fire()
        await running
        seconds = time.monotonic() - began
        return f"heard Stop after {seconds:.1f} s" if seconds > 1 else ""

    await side_by_side((animal for animal in _for(zoo) if not animal.soon), visit)
    await zoo.nobody_left()


async def test_every_command_can_be_a_job_and_ends_with_the_agent(zoo: Zoo) -> None:
    animals = [animal for animal in _for(zoo) if "fork bomb" not in animal.name]
    for first in range(0, len(animals), MAX_RUNNING):
        some = animals[first : first + MAX_RUNNING]
        await asyncio.gather(*(zoo.run(animal, background=True, timeout_s=60) for animal in some))
        began = time.monotonic()
        await asyncio.to_thread(zoo.jobs.close)
        assert time.monotonic() - began < BEYOND_S, [animal.name for animal in some]
        assert not zoo.jobs.running
    await zoo.nobody_left()


async def test_every_exit_status_is_told_as_the_shell_gives_it(zoo: Zoo) -> None:
    codes = range(0, 301, 7 if FULL else 60)
    results = await asyncio.gather(*(zoo.run(Animal(f"exit {code}", f"exit {code}", limit_s=9)) for code in codes))
    told = [int(re.findall(r"\[exit code (\d+)", result.text)[0]) for result in results]
    assert told == [code % 256 for code in codes]
