"""Calls that only read run side by side; what is told and kept of them stays in declared order."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas import Agent, Session, ToolContext, ToolResult, tool
from orkas.harness.abreast import MOST, leading_reads
from orkas.harness.outcome import HARMLESS, NOT_STARTED, STOPPED
from orkas.harness.pairing import is_paired
from orkas.infra import files
from orkas.infra.events import Done, Event, ToolEnd, ToolProgress, ToolStart
from orkas.infra.messages import Image, ToolCall, ToolMessage, UserMessage, text_of
from orkas.testing import ScriptedProvider, call


class Room:
    """Tools whose calls end when the test says so. ``most``: as many as ever ran at once."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.most = 0
        self.gates: dict[str, asyncio.Event] = {}
        self.entered = asyncio.Event()
        self.log: list[str] = []

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def wait(self, name: str) -> str:
        self.inside.append(name)
        self.log.append(f"+{name}")
        self.most = max(self.most, len(self.inside))
        self.entered.set()
        try:
            await self.gate(name).wait()
        finally:
            self.inside.remove(name)
            self.log.append(f"-{name}")
        return f"result of {name}"

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        async def look(name: str) -> str:
            """Look."""
            return await self.wait(name)

        @tool
        async def work(name: str) -> str:
            """Work."""
            return await self.wait(name)

        return [look, work]


def names(events: Sequence[Event], kind: type) -> list[str]:
    return [e.id for e in events if isinstance(e, kind)]


async def run(room: Room, calls: list[ToolCall], release: Sequence[str], **more: Any) -> tuple[list[Event], Agent, ScriptedProvider]:
    """One round; the gates open in this order, each when the one before has left."""
    provider = ScriptedProvider([calls, "done"])
    agent = Agent(provider, tools=room.tools(), **more)
    events: list[Event] = []

    async def open_gates() -> None:
        for name in release:
            while name not in room.inside:
                await asyncio.sleep(0)
            room.gate(name).set()
            while name in room.inside:
                await asyncio.sleep(0)

    gates = asyncio.create_task(open_gates())
    async for event in agent.stream("go"):
        events.append(event)
    await gates
    return events, agent, provider


async def test_reads_run_side_by_side_and_end_in_declared_order() -> None:
    room = Room()
    calls = [call("look", id=n, name=n) for n in "abc"]
    events, _, provider = await run(room, calls, "cba")
    assert room.most == 3
    assert names(events, ToolStart) == names(events, ToolEnd) == ["a", "b", "c"]
    results = [m for m in provider.requests[1].messages if isinstance(m, ToolMessage)]
    assert [(m.tool_call_id, text_of(m)) for m in results] == [(n, f"result of {n}") for n in "abc"]


async def test_every_other_call_is_a_barrier() -> None:
    room = Room()
    kinds = ["look", "look", "work", "look", "work", "work", "look", "look"]
    calls = [call(kind, id=n, name=n) for kind, n in zip(kinds, "abcdefgh", strict=True)]
    events, _, _ = await run(room, calls, "bacdefhg")
    assert room.log == ["+a", "+b", "-b", "-a", "+c", "-c", "+d", "-d", "+e", "-e", "+f", "-f", "+g", "+h", "-h", "-g"]
    assert names(events, ToolStart) == names(events, ToolEnd) == list("abcdefgh")


async def test_no_more_than_a_few_run_at_once_and_the_next_begins_when_one_ends() -> None:
    room = Room()
    order = [f"n{i}" for i in range(3 * MOST)]
    events, _, _ = await run(room, [call("look", id=n, name=n) for n in order], [*order[1:], order[0]])
    assert room.most == MOST
    assert names(events, ToolStart) == names(events, ToolEnd) == order


async def test_a_result_is_told_as_soon_as_all_before_it_are() -> None:
    room = Room()
    provider = ScriptedProvider([[call("look", id=n, name=n) for n in "abc"], "done"])
    room.gate("a").set()
    with Session.open("s") as session:
        async for event in Agent(provider, tools=room.tools(), session=session).stream("go"):
            if isinstance(event, ToolEnd):
                kept = [m.tool_call_id for m in Session.read("s").messages if isinstance(m, ToolMessage) and not m.synthetic]
                assert event.id == kept[-1], "it is on disk before it is told"
                if event.id == "a":
                    assert room.inside == ["b", "c"]
                    room.gate("c").set()
                    room.gate("b").set()


async def test_progress_comes_as_it_is_said_with_the_id_of_its_call() -> None:
    turn = [asyncio.Event() for _ in range(5)]

    @tool(read_only=True)
    async def look(first: int, last: int, context: ToolContext) -> str:
        """Look."""
        for n in (first, last):
            await turn[n].wait()
            context.progress(f"step {n}")
            turn[n + 1].set()
        return "seen"

    turn[0].set()
    provider = ScriptedProvider([[call("look", id="a", first=0, last=2), call("look", id="b", first=1, last=3)], "done"])
    events = [e async for e in Agent(provider, tools=[look]).stream("go")]
    said = [(e.id, e.text) for e in events if isinstance(e, ToolProgress)]
    assert said == [("a", "step 0"), ("b", "step 1"), ("a", "step 2"), ("b", "step 3")]
    assert [e.seq for e in events] == list(range(len(events)))
    ended = [e.id for e in events if isinstance(e, ToolEnd)]
    assert ended == ["a", "b"]


@pytest.mark.parametrize("bad", [0, 1, 2])
async def test_one_that_fails_does_not_end_the_others(bad: int) -> None:
    @tool(read_only=True)
    async def look(n: int) -> ToolResult:
        """Look."""
        if n == bad:
            raise SystemExit("no")
        await asyncio.sleep(0)
        return ToolResult(f"seen {n}", [Image(media_type="image/png", data="AAAA")])

    provider = ScriptedProvider([[call("look", id=str(n), n=n) for n in range(3)], "done"])
    done = await Agent(provider, tools=[look]).run("go")
    history = provider.requests[1].messages
    results = {m.tool_call_id: m for m in history if isinstance(m, ToolMessage)}
    assert {k: m.is_error for k, m in results.items()} == {str(n): n == bad for n in range(3)}
    assert [m.tool_call_id for m in history if isinstance(m, UserMessage) and m.tool_call_id] == [str(n) for n in range(3) if n != bad]
    assert (done.tools["look"].calls, done.tools["look"].errors) == (3, 1)


async def test_synchronous_tools_run_side_by_side_in_threads() -> None:
    meet = threading.Barrier(4)

    @tool(read_only=True)
    def look(n: int) -> int:
        """Look."""
        return n + 0 * meet.wait(10)

    provider = ScriptedProvider([[call("look", n=n) for n in range(4)], "done"])
    done = await Agent(provider, tools=[look]).run("go")
    assert (done.outcome, done.tools["look"].errors) == ("completed", 0)


def test_who_says_that_it_writes_does_not_only_read() -> None:
    class Both:
        name, description, parameters, read_only = "both", "", {"type": "object"}, True

        def touches(self, arguments: dict[str, Any], context: ToolContext) -> list[Path]:
            return []

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return ""

    calls = [call("both"), call("both")]
    assert leading_reads(calls, {"both": Both()}) == 0
    assert leading_reads([call("nobody")], {}) == 0


async def test_each_call_has_a_watchdog_of_its_own() -> None:
    @tool(read_only=True, limit_s=0.05)
    async def look(wait: bool) -> str:
        """Look."""
        return await (asyncio.Event().wait() if wait else asyncio.sleep(0, "seen"))  # type: ignore[return-value]

    provider = ScriptedProvider([[call("look", wait=n == 1) for n in range(3)], "done"])
    done = await Agent(provider, tools=[look]).run("go")
    texts = [text_of(m) for m in provider.requests[1].messages if isinstance(m, ToolMessage)]
    assert [texts[0], texts[2]] == ["seen", "seen"] and "did not end within its own limit" in texts[1]
    assert (done.outcome, done.tools["look"].errors) == ("completed", 1)


class Full(files.Ops):
    """The n-th write fails."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def write(self, fd: int, data: Any) -> int:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "no space left")
        return super().write(fd, data)


async def test_a_write_that_fails_anywhere_ends_the_turn_with_nothing_running_and_nothing_told_that_is_lost() -> None:
    failed = 0
    for nth in range(1, 30):
        room = Room()
        for name in "abcd":
            room.gate(name).set()
        ops = Full(nth)
        calls = [call("look", id=n, name=n) for n in "abc"] + [call("work", id="d", name="d")]
        told = {}
        with Session.open(f"s{nth}", ops=ops) as session:
            agent = Agent(ScriptedProvider([calls, "done"]), tools=room.tools(), session=session)
            events = [e async for e in agent.stream("go")]
            told = {e.id: e.result for e in events if isinstance(e, ToolEnd)}
            assert is_paired(session.messages)
            assert room.inside == []
            assert [t for t in asyncio.all_tasks() if t is not asyncio.current_task()] == []
        done = events[-1]
        assert isinstance(done, Done)
        kept = Session.read(f"s{nth}").messages
        assert is_paired(kept)
        results = {m.tool_call_id: text_of(m) for m in kept if isinstance(m, ToolMessage)}
        assert told.items() <= results.items()
        if ops.left > 0:
            break
        failed += 1
    assert failed >= 6 and done.outcome == "completed"


# --- Stop, and a caller that leaves -------------------------------------------------------------------------------


async def stopped(calls: list[ToolCall], ready: Sequence[str], room: Room) -> tuple[list[Event], Session]:
    """Stopped when as many run as can, and those of ``ready`` have ended."""
    session = Session()
    agent = Agent(ScriptedProvider([calls, "never"]), tools=room.tools(), session=session)
    events: list[Event] = []

    async def stop() -> None:
        while not room.inside:
            await asyncio.sleep(0)
        for name in ready:
            room.gate(name).set()
        while any(name not in room.log for name in map("-{}".format, ready)):
            await asyncio.sleep(0)
        agent.stop()

    stopping = asyncio.create_task(stop())
    async for event in agent.stream("go"):
        events.append(event)
    await stopping
    return events, session


async def test_stop_ends_all_and_what_has_a_result_keeps_it() -> None:
    calls = [call("look", id=n, name=n) for n in "abc"] + [call("work", id="d", name="d")]
    events, session = await stopped(calls, ["b"], Room())
    assert names(events, ToolStart) == names(events, ToolEnd) == ["a", "b", "c"]
    told = [text_of(m) for m in session.messages if isinstance(m, ToolMessage)]
    assert told == [HARMLESS, "result of b", HARMLESS, NOT_STARTED]
    done = events[-1]
    assert isinstance(done, Done) and done.outcome == "aborted"
    assert (done.tools["look"].calls, done.tools["look"].errors) == (3, 2)
    assert [e.result for e in events if isinstance(e, ToolEnd)] == told[:3]


async def test_once_stop_was_said_nothing_begins() -> None:
    """Not even where the one who says it holds the very event after which the next call would begin."""

    @tool(read_only=True)
    async def look(n: int) -> str:
        """Look."""
        return str(n)

    @tool
    async def work(n: int) -> str:
        """Work."""
        return str(n)

    for kind in (look, work):
        calls = [call(kind.name, id=f"c{n}", n=n) for n in range(3 * MOST)]
        agent = Agent(ScriptedProvider([calls, "never said"]), tools=[look, work])
        events: list[Event] = []
        async with aclosing(agent.stream("go")) as turn:
            async for event in turn:
                if isinstance(event, ToolStart):
                    assert not any(isinstance(e, ToolEnd) for e in events), event
                if isinstance(event, ToolEnd) and not any(isinstance(e, ToolEnd) for e in events):
                    agent.stop()
                events.append(event)
        assert isinstance(events[-1], Done) and events[-1].outcome == "aborted"
        assert names(events, ToolStart) == names(events, ToolEnd)
        assert is_paired(agent.session.messages)


async def test_a_call_that_may_have_had_an_effect_is_not_called_harmless() -> None:
    _, session = await stopped([call("work", id="a", name="a"), call("look", id="b", name="b")], [], Room())
    assert [text_of(m) for m in session.messages if isinstance(m, ToolMessage)] == [STOPPED, NOT_STARTED]


async def test_a_caller_that_leaves_at_any_event_leaves_a_whole_session_and_nothing_running() -> None:
    for leave_at in range(1, 40):
        room = Room()
        session = Session()
        calls = [call("look", id=n, name=n) for n in "abc"] + [call("work", id="d", name="d")]
        for name in "cbd":
            room.gate(name).set()
        agent = Agent(ScriptedProvider([calls, "done"]), tools=room.tools(), session=session)
        seen = 0
        async with aclosing(agent.stream("go")) as events:
            async for event in events:
                seen += 1
                if isinstance(event, ToolStart) and event.id == "c":
                    asyncio.get_running_loop().call_soon(room.gate("a").set)
                if seen == leave_at:
                    break
        await asyncio.sleep(0)
        assert is_paired(session.messages)
        assert room.inside == []
        assert [t for t in asyncio.all_tasks() if t is not asyncio.current_task()] == []
        if seen < leave_at:
            break
    assert leave_at > 8


# --- any round ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["look", "work", "none"]), st.integers(0, 3)), min_size=1, max_size=14))
def test_any_round_is_told_and_kept_in_declared_order(shape: list[tuple[str, int]]) -> None:
    running: list[str] = []

    async def go(kind: str, steps: int) -> str:
        assert kind == "look" or not running, "a barrier has the machine for itself"
        assert "work" not in running
        running.append(kind)
        for _ in range(steps):
            await asyncio.sleep(0)
        running.remove(kind)
        if steps == 3:
            raise ValueError("three")
        return f"{kind} {steps}"

    @tool(read_only=True)
    async def look(steps: int) -> str:
        """Look."""
        return await go("look", steps)

    @tool
    async def work(steps: int) -> str:
        """Work."""
        return await go("work", steps)

    calls = [call(kind, id=f"c{at}", steps=steps) for at, (kind, steps) in enumerate(shape)]

    async def main() -> None:
        provider = ScriptedProvider([calls, "done"])
        events = [e async for e in Agent(provider, tools=[look, work]).stream("go")]
        ids = [c.id for c in calls]
        assert names(events, ToolStart) == names(events, ToolEnd) == ids
        assert [m.tool_call_id for m in provider.requests[1].messages if isinstance(m, ToolMessage)] == ids
        errors = [e.is_error for e in events if isinstance(e, ToolEnd)]
        assert errors == [kind == "none" or steps == 3 for kind, steps in shape]

    asyncio.run(main())
