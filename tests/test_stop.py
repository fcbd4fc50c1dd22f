"""Stop, at every place where a turn waits: they are counted, not chosen.

The same turn is run again and again; each time Stop is pressed one step of the event loop later (or one event, or one
look at the abort), until the turn ends by itself before that. Its clock jumps, so the second that the contract allows
is a second of the turn's own time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hurried import Hurried
from orkas import Agent, Session, ToolContext, ToolResult, tool
from orkas.harness import pairing
from orkas.harness.context.budget import Meter
from orkas.harness.context.compaction import Compactor
from orkas.harness.exchange import Exchange
from orkas.harness.policy import Policy
from orkas.harness.runner import Runner
from orkas.harness.sessions.inbox import Inbox
from orkas.harness.setup import Setup
from orkas.harness.statistics import Recorder
from orkas.harness.telling import tell, telling
from orkas.harness.tool import Tool
from orkas.harness.turn import Turn
from orkas.infra.abort import Abort
from orkas.infra.errors import ProviderError
from orkas.infra.events import Compaction, Done, Event, Retry, TextDelta, ToolEnd, ToolStart
from orkas.infra.messages import AssistantMessage, Image, Text, Thinking, Usage, text_of, user_message
from orkas.providers.base import CompletionParams, ToolDef
from orkas.testing import Cut, FakeVendor, Refuse, Say, ScriptedProvider, call

MOST_STEPS = 40
"""Rounds of the event loop that a turn may need from Stop to its end."""


@tool
async def wait(seconds: float, context: ToolContext) -> ToolResult:
    """Wait, tell of it, and show a picture."""
    await asyncio.sleep(seconds / 2)
    context.progress("half")
    await asyncio.sleep(seconds / 2)
    return ToolResult("waited", [Image(media_type="image/png", data="AAAA")])


@tool
async def tidy(seconds: float) -> str:
    """Wait; when told to stop, take a while to clean up."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)
        raise
    return "tidied"


@tool
async def deaf(seconds: float) -> str:
    """Wait, and do not listen."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return "deaf"


look = tool(name="look", read_only=True)(wait.function)
tidy_look = tool(name="tidy_look", read_only=True)(tidy.function)
deaf_look = tool(name="deaf_look", read_only=True)(deaf.function)


def side_by_side() -> list[Any]:
    calls = [("look", 2.0), ("tidy_look", 1.0), ("deaf_look", 1.5), ("look", 0.5)]
    return [call(name, id=f"r{at}", seconds=seconds) for at, (name, seconds) in enumerate(calls)]


class Once(Compactor):
    """Makes room once, before the second request, the way a real one asks: in an untold exchange of the turn."""

    def __init__(self) -> None:
        self.ran = False

    def due(self, turn: Turn, params: CompletionParams | None = None) -> bool:
        return not self.ran and turn.rounds == 2

    async def run(
        self, turn: Turn, *, keep: str = "", overflowed: bool = False, forced: bool = False
    ) -> None:
        self.ran = True
        await Exchange(turn, turn.params("Sum it up."), told=False).run()
        await tell(Compaction(turn.next_seq(), 10, 5))


def script() -> list[Any]:
    half = AssistantMessage([Text(text="A long ")], "scripted/model", "scripted", "length", Usage(10, 5))
    return [
        ProviderError("busy", class_="overloaded", wait_s=7.0),
        [2.0, "Let me ", 1.0, ProviderError("cut", class_="connection")],
        [Thinking(text="hm"), 3.0, "Let me ", 2.0, "look. ", call("wait", id="a", seconds=4.0), call("tidy", id="b", seconds=3.0)],
        [2.0, ProviderError("busy", class_="server")],
        [1.0, "a summary", 1.0],
        [call("deaf", id="c", seconds=2.0), call("nowhere", id="d"), *side_by_side()],
        half,
        [1.0, "answer.", 1.0],
        [1.0, "Queued.", 1.0],
    ]  # fmt: skip


class Looked(Abort):
    """Calls ``each`` with the number of times that somebody has looked at it."""

    def __init__(self, each: Callable[[int], object]) -> None:
        super().__init__()
        self._each = each
        self._looks = 0

    def guard(self) -> Any:
        self._look()
        return super().guard()

    def check(self) -> None:
        self._look()
        super().check()

    def _look(self) -> None:
        self._looks += 1
        self._each(self._looks)


class Run(msgspec.Struct, eq=False):
    """One turn, and Stop at one of its places: steps of the loop, events told, looks at the abort."""

    by: str
    stop_at: int
    abort: Abort = msgspec.field(default_factory=Abort)
    provider: ScriptedProvider = msgspec.field(default_factory=lambda: ScriptedProvider(script()))
    session: Session = msgspec.field(default_factory=Session)
    events: list[Event] = msgspec.field(default_factory=list)
    stopped_at: float | None = None
    requests: int = 0
    ended_at: float = 0.0
    steps: int = 0
    """From Stop to the end."""
    left: list[asyncio.Task[Any]] = msgspec.field(default_factory=list)

    def go(self) -> Done:
        if self.by == "looks":
            self.abort = Looked(self.reached)
        loop = Hurried(self.reached if self.by == "steps" else lambda _: None)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self.main(loop))
        done = self.events[-1]
        assert isinstance(done, Done)
        return done

    def reached(self, place: int) -> None:
        if place == self.stop_at and self.stopped_at is None:
            self.requests = len(self.provider.requests)
            self.abort.fire()

    async def main(self, loop: Hurried) -> None:
        self.abort.on_fire(lambda: (setattr(self, "stopped_at", loop.time()), setattr(self, "steps", loop.steps)))
        runner = Runner(Turn(self.setup()), Once())
        async with aclosing(telling(lambda: runner.run(user_message("go")))) as events:
            async for event in events:
                self.events.append(event)
                if isinstance(event, ToolStart) and event.id == "b":
                    runner.turn.setup.inbox.steer("Be brief.")
                    runner.turn.setup.inbox.queue("And now?")
                if self.by == "events":
                    self.reached(len(self.events))
        self.ended_at, self.steps = loop.time(), loop.steps - self.steps
        await asyncio.sleep(3)  # what was told to stop has had its time; the deaf one too
        self.left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]

    def setup(self) -> Setup:
        tools: dict[str, Tool] = {t.name: t for t in (wait, tidy, deaf, look, tidy_look, deaf_look)}
        inbox = Inbox()
        return Setup(
            provider=self.provider, model="model", session=self.session, tools=tools,
            offered=[ToolDef(t.name, t.description, t.parameters) for t in tools.values()], policy=Policy("all"),
            context=ToolContext(Path.cwd(), self.abort), meter=Meter(), inbox=inbox,
            recorder=Recorder(),
        )  # fmt: skip


def told(events: list[Event]) -> str:
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, Retry) and event.discard:
            text = text[: -event.discard]
    return text


def check(run: Run, done: Done) -> None:
    assert [e.type for e in run.events].count("done") == 1
    assert [e.seq for e in run.events] == list(range(len(run.events)))
    assert (done.outcome, done.stop_reason, done.error) == ("aborted", "aborted", None)
    assert len(run.provider.requests) == run.requests, "a request went out after Stop"
    assert run.stopped_at is not None
    assert run.ended_at - run.stopped_at <= 1
    assert run.steps <= MOST_STEPS
    assert run.left == []
    assert pairing.is_paired(run.session.messages)
    starts = [e.id for e in run.events if isinstance(e, ToolStart)]
    assert starts == [e.id for e in run.events if isinstance(e, ToolEnd)]
    spoken = "".join(text_of(m) for m in run.session.messages if isinstance(m, AssistantMessage))
    assert spoken == told(run.events), "what was told is kept, once"


def test_the_whole_turn_passes_every_kind_of_place() -> None:
    run = Run("steps", -1)
    done = run.go()
    assert (done.outcome, done.text, len(run.provider.requests)) == ("completed", "Queued.", 9)
    assert {e.type for e in run.events} >= {
        "retry", "thinking_delta", "text_delta", "tool_start", "tool_progress", "tool_end", "compaction", "user_input",
    }  # fmt: skip


@pytest.mark.parametrize(("by", "least"), [("steps", 40), ("events", 20), ("looks", 30)])
def test_stop_at_every_place(by: str, least: int) -> None:
    stops = 0
    for stop_at in range(1, 10_000):
        run = Run(by, stop_at)
        done = run.go()
        if done.outcome == "completed":
            assert run.stopped_at is None or run.ended_at <= run.stopped_at
            break
        check(run, done)
        stops += 1
    assert stops > least


@pytest.mark.parametrize("vendor_name", ["anthropic", "custom"])
async def test_stop_at_every_event_of_a_turn_on_the_wire_and_on_disk(vendor_name: str) -> None:
    @tool(read_only=True if vendor_name == "custom" else None)
    async def echo(text: str) -> str:
        """Echo."""
        return text

    def replies() -> list[Any]:
        calls = Say(["Let me ", "look. ", call("echo", id="toolu_1", text="a"), call("echo", id="toolu_2", text="b")])
        long = Say(["A long "], stop_reason="length")
        return [Refuse(503, headers={"retry-after": "0"}), Cut(calls, 900), calls, long, "answer.", "never asked"]

    async def case(stop_at: int) -> bool:
        events: list[Event] = []
        asked = 0
        with FakeVendor(replies()) as vendor, Session.open(f"{vendor_name}-{stop_at}") as session:
            url = vendor.base_url
            async with Agent(f"{vendor_name}/m", base_url=url, api_key="k", tools=[echo], session=session) as agent:
                async for event in agent.stream("go"):
                    events.append(event)
                    if len(events) == stop_at:
                        asked = len(vendor.requests)
                        agent.stop()
            done = events[-1]
            assert isinstance(done, Done)
            assert [e.type for e in events].count("done") == 1
            if done.outcome == "completed":
                assert events[stop_at:] in ([], [done]), "Stop came before the last word, and was not heard"
                return False
            assert done.outcome == "aborted"
            assert len(vendor.requests) <= asked + 1, "more than the request that was under way"
        kept = Session.read(f"{vendor_name}-{stop_at}").messages
        assert pairing.is_paired(kept)
        assert "".join(text_of(m) for m in kept if isinstance(m, AssistantMessage)) == told(events)
        return True

    aborted = await asyncio.gather(*(case(n) for n in range(1, 16)))
    assert sum(aborted) >= 8  # what a dead attempt tells, the network decides
    assert not all(aborted)
