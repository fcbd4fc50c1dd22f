"""A tool that hangs is given up as an error, and the turn goes on; one that lives is left alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orkas import Agent, ToolContext, ToolResult, tool
from orkas.harness import pairing
from orkas.harness.execute import IDLE_S, execute
from orkas.harness.policy import Policy
from orkas.harness.tool import Tool
from orkas.harness.watchdog import Watchdog, limit_of
from orkas.infra.errors import UsageError
from orkas.testing import ScriptedProvider, call
from orkas.tools.shell import Shell

IDLE = 0.15


async def result_of(tool: Tool, context: ToolContext | None = None, **arguments: Any) -> ToolResult:
    context = context or ToolContext(Path())
    made = call(tool.name, **arguments)

    async def say(text: str) -> None:
        assert isinstance(text, str)

    return await execute(made, {tool.name: tool}, Policy("all"), context, say, idle_s=IDLE)


def assert_given_up(result: ToolResult) -> None:
    assert result.is_error and result.fault
    assert "given up" in result.text and "check what it did" in result.text


async def test_a_silent_tool_is_given_up_and_cancelled() -> None:
    cancelled = asyncio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    result = await result_of(hang)
    assert_given_up(result)
    assert "no sign of life for 0.15 s." in result.text
    assert cancelled.is_set()


async def test_one_that_does_not_listen_is_left_behind() -> None:
    end = asyncio.Event()

    @tool
    async def deaf() -> str:
        """Do not listen."""
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    assert_given_up(await result_of(deaf))
    end.set()
    await asyncio.sleep(0)


async def test_a_blocking_one_stays_in_its_thread() -> None:
    end = threading.Event()

    @tool
    def block() -> None:
        """Block."""
        end.wait(30)

    assert_given_up(await result_of(block))
    end.set()


async def test_the_turn_goes_on() -> None:
    @tool(limit_s=0.1)
    async def hang() -> None:
        """Hang."""
        await asyncio.sleep(60)

    agent = Agent(ScriptedProvider([[call("hang")], "I went another way."]), tools=[hang])
    done = await agent.run("go")
    assert (done.outcome, done.text, done.tools["hang"].errors) == ("completed", "I went another way.", 1)
    assert pairing.is_paired(agent.session.messages)
    assert "own limit of 0.1 s." in agent.session.records()[2]["content"][0]["text"]


def ticking(texts: Callable[[int], str], times: int = 12) -> Any:
    @tool
    async def tick(context: ToolContext) -> str:
        """Tick."""
        for n in range(times):
            context.progress(texts(n))
            await asyncio.sleep(IDLE / 3)
        return "finished"

    return tick


@pytest.mark.parametrize(
    "texts",
    [lambda n: f"file {n} of 12", lambda n: f"{n} %", lambda n: "abcdefghijklmnop"[n]],
)
async def test_new_words_are_signs_of_life(texts: Callable[[int], str]) -> None:
    assert (await result_of(ticking(texts))).text == "finished"


@pytest.mark.parametrize(
    "texts",
    [lambda _: "alive", lambda n: "|/-\\"[n % 4], lambda n: f"still waiting ({n} s)", lambda _: ""],
)
async def test_ticking_alone_is_none(texts: Callable[[int], str]) -> None:
    assert_given_up(await result_of(ticking(texts, 200)))


async def test_a_tool_is_measured_by_the_limit_it_declares() -> None:
    @tool(limit_s=60)
    async def long() -> str:
        """Say nothing for long."""
        await asyncio.sleep(IDLE * 3)
        return "finished"

    assert (await result_of(long)).text == "finished"

    @tool(limit_s=0.2)
    async def late(context: ToolContext) -> None:
        """Talk for ever."""
        while True:
            context.progress(str(time.monotonic()))
            await asyncio.sleep(0.01)

    result = await result_of(late)
    assert_given_up(result)
    assert "own limit of 0.2 s." in result.text


class Declaring:
    name, description = "d", "Declare."
    parameters: dict[str, Any] = {"type": "object", "properties": {"seconds": {}}}  # noqa: RUF012

    def limit_s(self, arguments: Any) -> float:
        return arguments["seconds"] + 1  # type: ignore[no-any-return]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
        await asyncio.sleep(IDLE * 2)
        return "finished"


async def test_the_limit_may_depend_on_the_arguments() -> None:
    assert (await result_of(Declaring(), seconds=60)).text == "finished"
    assert limit_of(Declaring(), {}) is None  # and it is then watched as any other
    assert_given_up(await result_of(Declaring()))


@pytest.mark.parametrize("odd", [0, -1, float("nan"), "soon", None, lambda _: "x", lambda: 3])
def test_a_limit_that_makes_no_sense_is_none(odd: Any) -> None:
    one = Declaring()
    one.limit_s = odd  # type: ignore[method-assign]
    assert limit_of(one, {"seconds": 1}) is None


def test_no_limit_at_all_can_be_declared() -> None:
    one = Declaring()
    one.limit_s = float("inf")  # type: ignore[method-assign, assignment]
    assert limit_of(one, {}) == float("inf")


def test_a_limit_of_a_function_is_checked() -> None:
    with pytest.raises(UsageError, match="more than 0"):
        tool(limit_s=0)(lambda: None)


@pytest.mark.parametrize(("given", "least"), [({}, 120), ({"timeout_s": 600}, 600), ({"timeout_s": "300"}, 300)])
def test_a_command_keeps_the_time_it_was_given(given: dict[str, Any], least: float) -> None:
    limit = limit_of(Shell(), {"command": "make", **given})
    assert limit is not None and limit > least


async def test_stop_wins_over_a_tool_that_was_just_given_up() -> None:
    end = asyncio.Event()

    @tool(limit_s=0.05)
    async def deaf() -> None:
        """Do not listen."""
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                agent.stop()

    agent = Agent(ScriptedProvider([[call("deaf")], "no"]), tools=[deaf])
    done = await asyncio.wait_for(agent.run("go"), 2)
    end.set()
    assert done.outcome == "aborted"
    assert pairing.is_paired(agent.session.messages)


async def test_a_result_that_comes_in_time_leaves_no_timer() -> None:
    loop = asyncio.get_running_loop()
    dog = Watchdog(loop, IDLE, None, lambda: pytest.fail("it barked"))
    dog.rest()
    await asyncio.sleep(IDLE * 2)
    assert dog.barks == ""


def test_half_an_hour_is_the_default() -> None:
    assert IDLE_S == 1_800
