"""The loop, through the public surface: Agent, its events, its session."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from orkas import Agent, Session, ToolContext, ToolResult, tool
from orkas.harness import pairing
from orkas.infra.errors import ProviderError, ToolFailed, UsageError
from orkas.infra.events import Done, Event, ToolEnd, decode, encode
from orkas.infra.messages import AssistantMessage, Image, Text, Thinking, ToolCall, ToolMessage, UserMessage
from orkas.providers.base import CompletionParams, ModelInfo
from orkas.testing import ScriptedProvider, call

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"session": "trip"}, "Session.open"),
        ({"tools": "shell"}, "tools must be a list"),
        ({"tools": ["shel"]}, "there is no tool 'shel'; did you mean shell\\?"),
        ({"tools": len}, "tools must be a list"),
        ({"model": 42}, "vendor/model"),
        ({"approve": "zzz"}, "ask, edits, all, none"),
        ({"thinking": "x"}, "off, low, medium, high"),
        ({"model": "demo/nope"}, "demo/offline"),
        ({"max_output": 0}, "max_output must be a whole number of tokens, 1 or more, not 0"),
        *(({name: bad}, f"{name} must be a whole number") for name in ("max_rounds", "max_retries", "max_output",
          "context_window") for bad in (-1, 1.5, True, "5", float("nan"), float("inf"))),
        ({"max_rounds": None}, "max_rounds must be a whole number, 1 or more, not None"),
        ({"max_retries": None}, "max_retries must be a whole number, 0 or more, not None"),
        *(({"compact_at": bad}, "compact_at must be a share") for bad in (None, 0, 1.5, "x", float("nan"), True)),
        *(({"max_cost": bad}, "max_cost must be an amount of USD") for bad in ("x", 0, -1, float("nan"), True)),
        *(({name: 5}, f"{name} must be a string, not a value of type int") for name in ("system", "base_url", "api_key")),
        ({"system": None}, "system must be a string"),
        ({"credentials": 5}, "credentials cannot be a value of type int"),
        *(({"cwd": bad}, "cwd must be a folder") for bad in ("", 5, [], b"/tmp")),
        *(({"cwd": bad}, "folder") for bad in ("x" * 5_000, "a\0b", "/no/such/folder", __file__)),
        ({"tools": ["a\0b.py"]}, "cannot be read: embedded null byte"),
        ({"output": object}, "output cannot be <class 'object'>: [^\n]*$"),
        ({"sandbox": "off"}, "sandbox cannot be 'off'"),
    ],
    ids=str,
)
def test_what_an_agent_cannot_be_made_of(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Agent(**{"model": ScriptedProvider("Hi."), **options})


async def test_what_is_no_text_and_no_number_is_refused_in_a_sentence() -> None:
    agent = Agent(ScriptedProvider("Hi."), tools=[])
    given: Any = 5
    for wrong in (lambda: agent.steer(given), lambda: agent.queue(given), lambda: agent.compacting(given),
                  lambda: agent.session.trim("x"), lambda: agent.session.trim(-1), lambda: Session.open(given)):  # fmt: skip
        with pytest.raises(UsageError, match=r"must be a (string|whole number)"):
            wrong()
    with pytest.raises(UsageError, match="images must be a list"):
        await agent.run("look", given)
    assert (await agent.run("Hello")).text == "Hi."


@pytest.mark.parametrize("prompt", ["", " ", None, 3])
def test_a_prompt_is_text(prompt: Any) -> None:
    agent = Agent(ScriptedProvider("Hi."), tools=[])
    with pytest.raises(UsageError, match="prompt"):
        agent.run_sync(prompt)
    assert agent.run_sync("Hello").text == "Hi."  # a bare string is one reply


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


async def events_of(agent: Agent, prompt: str = "go") -> list[Event]:
    async with aclosing(agent.stream(prompt)) as stream:
        return [event async for event in stream]


def kinds(events: list[Event]) -> list[str]:
    return [e.type for e in events]


def done_of(events: list[Event]) -> Done:
    last = events[-1]
    assert isinstance(last, Done)
    assert kinds(events).count("done") == 1
    assert [e.seq for e in events] == list(range(len(events)))
    return last


def assert_paired(agent: Agent) -> None:
    assert pairing.is_paired(agent.session.messages)


async def test_a_turn_with_tools_tells_everything_in_order() -> None:
    provider = ScriptedProvider([["Let me ", "see.", call("add", id="c1", a=2, b=3)], "Five."])
    agent = Agent(provider, tools=[add])
    events = await events_of(agent)
    assert kinds(events) == ["text_delta", "text_delta", "tool_start", "tool_end", "text_delta", "done"]
    done = done_of(events)
    assert (done.outcome, done.text, done.stop_reason, done.rounds) == ("completed", "Five.", "stop", 2)
    assert (done.usage.input, done.usage.output, done.usage.cache_read) == (20, 10, None)
    assert done.tools["add"].calls == 1
    assert done.tools["add"].errors == 0
    roles = [r["role"] for r in agent.session.records()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert agent.session.records()[1]["model"] == "scripted/model"
    assert [decode(encode(e)) for e in events] == events


async def test_run_is_the_stream_drained_and_sync_too() -> None:
    result = await Agent(ScriptedProvider(["hello"]), tools=[]).run("x")
    assert result.text == "hello"
    assert (await asyncio.to_thread(Agent(ScriptedProvider(["hi"]), tools=[]).run_sync, "x")).text == "hi"
    with pytest.raises(UsageError, match="running event loop"):
        Agent(ScriptedProvider(["hi"]), tools=[]).run_sync("x")


async def test_parallel_calls_run_and_are_committed_in_declared_order() -> None:
    order: list[str] = []

    @tool
    async def note(name: str, pause: float) -> str:
        """Note."""
        await asyncio.sleep(pause)
        order.append(name)
        return name

    calls = [call("note", name="slow", pause=0.05), call("note", name="quick", pause=0.0)]
    agent = Agent(ScriptedProvider([calls, "ok"]), tools=[note])
    await agent.run("go")
    assert order == ["slow", "quick"]
    results = [m for m in agent.session.messages if isinstance(m, ToolMessage)]
    assert [m.tool_call_id for m in results] == [c.id for c in calls]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (call("teleport"), "There is no tool 'teleport'. Available: add, fail, crash."),
        (call("add", a="x", b=1), "bad arguments"),
        (call("add", a=1), "Missing arguments: b"),
        (call("add", a=1, b=2, c=3), "bad arguments"),
        (ToolCall(id="z", name="add", arguments=None, arguments_raw='{"a":'), "not one complete JSON object"),
        (call("fail"), "no such planet"),
        (call("crash"), "ZeroDivisionError"),
    ],
)
async def test_a_tool_that_cannot_is_news_for_the_model_not_the_end(made: ToolCall, says: str) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolFailed("no such planet")

    @tool
    def crash() -> float:
        """Crash."""
        return 1 / 0

    provider = ScriptedProvider([[made], "I see."])
    agent = Agent(provider, tools=[add, fail, crash])
    done = done_of(await events_of(agent))
    assert (done.outcome, done.text) == ("completed", "I see.")
    assert done.tools[made.name].errors == 1
    told = provider.requests[1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.is_error
    assert isinstance(told.content[0], Text)
    assert says in told.content[0].text


class Sulky(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def _odd(kind: str) -> Any:
    match kind:
        case "StopIteration":
            return next(iter(()))
        case "SystemExit":
            raise SystemExit(3)
        case "Sulky":
            raise Sulky
        case "half a character":
            raise ToolFailed("a\ud83d")
        case "no text":
            return ToolResult(None, images=None, is_error="yes")  # type: ignore[arg-type]
        case "a number":
            return ToolResult(5)  # type: ignore[arg-type]
        case "a file elsewhere":
            return ToolResult("x", file="/etc/hostname", bytes=3)
    raise AssertionError(kind)


ODD = ["StopIteration", "SystemExit", "Sulky", "half a character", "no text", "a number", "a file elsewhere"]


@pytest.mark.parametrize("beside_the_loop", [True, False])
@pytest.mark.parametrize("kind", ODD)
async def test_whatever_a_tool_does_it_gives_one_result(kind: str, beside_the_loop: bool) -> None:
    @tool(name="odd")
    def blocking(kind: str) -> Any:
        """Be odd in a thread."""
        return _odd(kind)

    @tool(name="odd")
    async def running(kind: str) -> Any:
        """Be odd in the loop."""
        return _odd(kind)

    with Session.open("odd") as session:
        provider = ScriptedProvider([[call("odd", kind=kind)], "I see."])
        agent = Agent(provider, tools=[blocking if beside_the_loop else running], session=session)
        events = await events_of(agent)
    assert kinds(events) == ["tool_start", "tool_end", "text_delta", "done"]
    assert done_of(events).outcome == "completed"
    assert Session.read("odd").records() == agent.session.records()


async def test_a_tool_that_was_cancelled_from_within_failed() -> None:
    @tool
    async def inner() -> str:
        """Wait for a task that is cancelled."""
        task = asyncio.create_task(asyncio.sleep(9))
        await asyncio.sleep(0)
        task.cancel()
        await task
        return "never"

    done = await Agent(ScriptedProvider([[call("inner")], "I see."]), tools=[inner]).run("go")
    assert (done.text, done.tools["inner"].errors) == ("I see.", 1)


async def test_images_of_tools_follow_all_results_of_the_round() -> None:
    @tool
    def look(n: int) -> ToolResult:
        """Look."""
        return ToolResult(f"picture {n}", [Image(media_type="image/png", data=PNG)])

    agent = Agent(ScriptedProvider([[call("look", id="a", n=1), call("look", id="b", n=2)], "nice"]), tools=[look])
    await agent.run("go")
    shape = [(r["role"], r.get("tool_call_id"), r.get("origin")) for r in agent.session.records()[2:6]]
    assert shape == [
        ("tool", "a", None), ("tool", "b", None), ("user", "a", "tool_image"), ("user", "b", "tool_image"),
    ]  # fmt: skip


async def test_a_script_that_is_over_fails_loudly() -> None:
    done = await Agent(ScriptedProvider([]), tools=[]).run("x")
    assert done.outcome == "failed"
    assert done.error is not None
    assert "no more replies" in done.error.message


async def test_images_of_the_user_are_checked_before_anything_is_sent(tmp_path: Path) -> None:
    provider = ScriptedProvider(["seen"])
    agent = Agent(provider, tools=[])
    good, bad = tmp_path / "a.png", tmp_path / "b.png"
    good.write_bytes(base64.b64decode(PNG))
    bad.write_bytes(b"not an image")
    for wrong in (bad, tmp_path / "missing.png", tmp_path):
        with pytest.raises(UsageError):
            await agent.run("look", images=[wrong])
    assert provider.requests == []
    assert agent.session.messages == []
    await agent.run("look", images=[good])
    message = provider.requests[0].messages[0]
    assert [type(b) for b in message.content] == [Image, Text]


async def test_ids_are_made_unique_at_receipt() -> None:
    replies = [[call("add", id="call_0", a=1, b=1)], [call("add", id="call_0", a=2, b=2), call("add", id="", a=3, b=3)]]
    agent = Agent(ScriptedProvider([*replies, "done"]), tools=[add])
    await agent.run("go")
    ids = [c["id"] for r in agent.session.records() for c in r["content"] if c["type"] == "tool_call"]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 3
    assert all(ids)
    assert_paired(agent)


async def test_thinking_is_told_and_kept_but_is_not_the_answer() -> None:
    agent = Agent(ScriptedProvider([[Thinking(text="hm", signature="s1"), "42"]]), tools=[])
    events = await events_of(agent)
    assert kinds(events) == ["thinking_delta", "text_delta", "done"]
    assert done_of(events).text == "42"
    assert agent.session.records()[1]["content"][0] == {"type": "thinking", "text": "hm", "signature": "s1"}


async def test_max_rounds_ends_after_the_tools_of_the_last_round_and_says_so() -> None:
    provider = ScriptedProvider([[call("add", a=1, b=n)] for n in range(9)])
    agent = Agent(provider, tools=[add], max_rounds=2)
    done = done_of(await events_of(agent))
    assert (done.outcome, done.stop_reason, done.rounds) == ("completed", "max_rounds", 2)
    assert "2 rounds" in done.text
    assert len(provider.requests) == 2
    assert_paired(agent)


async def test_calls_that_never_parse_end_the_turn() -> None:
    broken = [ToolCall(id="", name="add", arguments=None, arguments_raw="{")]
    agent = Agent(ScriptedProvider([broken] * 9), tools=[add])
    done = done_of(await events_of(agent))
    assert (done.stop_reason, done.rounds) == ("loop", 3)


@pytest.mark.parametrize("class_", ["rate_limit", "connection", "auth", "quota"])
async def test_a_failed_request_ends_the_turn_with_its_class(class_: Any) -> None:
    problem = ProviderError("no luck", class_=class_, status=400)
    agent = Agent(ScriptedProvider([["half an ans", problem], "better"]), tools=[], max_retries=0)
    done = done_of(await events_of(agent))
    assert done.outcome == "failed"
    assert done.error is not None
    assert (done.error.class_, done.error.status) == (class_, 400)
    assert agent.session.records()[-1]["stop_reason"] == "error"
    again = await agent.run("again")
    assert (again.outcome, again.text) == ("completed", "better")


async def test_a_fault_of_ours_is_an_event_too() -> None:
    def broken(_: CompletionParams) -> str:
        raise KeyError("oops")

    agent = Agent(ScriptedProvider([broken]), tools=[])
    done = done_of(await events_of(agent))
    assert done.error is not None
    assert (done.outcome, done.error.class_) == ("failed", "internal")


def stopper(agent: Agent, after: float = 0.05) -> None:
    threading.Timer(after, agent.stop).start()


@tool
async def deaf() -> str:
    """Ignore being told to stop."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            await asyncio.sleep(end - time.monotonic())
        except asyncio.CancelledError:
            continue
    return "late"


@tool
def blocking() -> str:
    """Block a thread."""
    time.sleep(2)
    return "late"


@pytest.mark.parametrize(
    "reply",
    [
        ["partial ", 30.0, "rest"],
        [30.0, "late first byte"],
        [call("wait", seconds=30.0), call("add", a=1, b=1)],
        [call("deaf"), call("add", a=1, b=1)],
        [call("blocking"), call("add", a=1, b=1)],
    ],
    ids=["in the stream", "before the first byte", "in a tool", "in a tool that is deaf", "in a tool that blocks"],
)
async def test_stop_ends_the_turn_within_a_second_everywhere(reply: list[Any]) -> None:
    provider = ScriptedProvider([reply, "never asked"])
    agent = Agent(provider, tools=[add, wait, deaf, blocking])
    stopper(agent)
    began = time.monotonic()
    events = await events_of(agent)
    assert time.monotonic() - began < 1.05
    done = done_of(events)
    assert (done.outcome, done.stop_reason) == ("aborted", "aborted")
    assert len(provider.requests) == 1
    assert_paired(agent)
    starts = [e.id for e in events if e.type == "tool_start"]
    ends = [e.id for e in events if isinstance(e, ToolEnd)]
    assert starts == ends
    assert (await agent.run("go on")).outcome == "completed"


def test_run_sync_does_not_wait_for_a_tool_that_was_left_behind() -> None:
    agent = Agent(ScriptedProvider([[call("blocking")]]), tools=[blocking])
    stopper(agent)
    began = time.monotonic()
    assert agent.run_sync("go").outcome == "aborted"
    assert time.monotonic() - began < 1.05


async def test_tools_that_were_left_behind_hold_up_nobody() -> None:
    for _ in range(20):
        agent = Agent(ScriptedProvider([[call("blocking")]]), tools=[blocking])
        stopper(agent, 0.01)
        await agent.run("go")
    began = time.monotonic()
    assert (await Agent(ScriptedProvider([[call("add", a=1, b=1)], "2"]), tools=[add]).run("go")).text == "2"
    assert time.monotonic() - began < 1


async def test_stop_keeps_the_partial_text_marked_as_such() -> None:
    agent = Agent(ScriptedProvider([["one two ", 30.0, "three"]]), tools=[])
    stopper(agent)
    done = await agent.run("count")
    assert done.text == "one two "
    assert agent.session.records()[-1]["stop_reason"] == "aborted"


async def test_after_stop_each_open_call_says_whether_it_was_started() -> None:
    agent = Agent(ScriptedProvider([[call("wait", seconds=30.0), call("add", a=1, b=1)]]), tools=[add, wait])
    stopper(agent)
    await agent.run("go")
    running, waiting = agent.session.records()[-2:]
    assert "while this tool was running" in running["content"][0]["text"]
    assert "before this tool was started" in waiting["content"][0]["text"]
    assert running["synthetic"] is True
    assert running["is_error"] is True


async def test_a_caller_that_leaves_early_leaves_a_valid_session() -> None:
    for leave_at in range(4):
        agent = Agent(ScriptedProvider([["a", call("add", a=1, b=1), call("wait", seconds=9.0)], "b"]), tools=[add, wait])
        async with aclosing(agent.stream("go")) as stream:
            seen = 0
            async for _ in stream:
                seen += 1
                if seen > leave_at:
                    break
        assert_paired(agent)
        agent.session.append(UserMessage([Text(text="next")]))
        assert_paired(agent)


async def test_after_leaving_early_the_next_turn_finds_its_place() -> None:
    replies = [["one"], ["two ", "three", call("wait", seconds=9.0)], "four"]
    for closing in (True, False):
        agent = Agent(ScriptedProvider(replies), tools=[wait])
        await agent.run("first")
        if closing:
            async with aclosing(agent.stream("second")) as stream:
                async for _ in stream:
                    break
        else:
            async for _ in agent.stream("second"):
                break
        assert (await agent.run("third")).text == "four"
        shape = [(r["role"], r["content"][0]["text"]) for r in agent.session.records()]
        assert shape[:4] == [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two ")]
        assert shape[4][0] == "user"
        assert_paired(agent)


async def test_a_cancelled_caller_leaves_a_valid_session() -> None:
    agent = Agent(ScriptedProvider([[call("wait", seconds=9.0)], "b"]), tools=[wait])
    task = asyncio.create_task(agent.run("go"))
    while not any(isinstance(m, AssistantMessage) for m in agent.session.messages):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_paired(agent)


async def test_one_turn_at_a_time() -> None:
    agent = Agent(ScriptedProvider([[0.2, "a"], "b"]), tools=[])
    first = asyncio.create_task(agent.run("x"))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="already running"):
        await agent.run("y")
    assert (await first).text == "a"


async def test_consecutive_requests_share_their_prefix() -> None:
    provider = ScriptedProvider([[call("add", a=1, b=n)] for n in range(4)] + ["end"])
    agent = Agent(provider, tools=[add])
    await agent.run("go")
    before: list[Any] = []
    for request in provider.requests:
        assert request.system == provider.requests[0].system
        assert request.messages[: len(before)] == before
        before = list(request.messages)


async def test_a_small_model_that_repeats_a_call_is_told_to_answer() -> None:
    replies = [[call("add", a=1, b=2)], [call("add", b=2, a=1)], "3"]
    provider = ScriptedProvider(replies, info=ModelInfo(context_window=8192, small=True))
    done = await Agent(provider, tools=[add]).run("go")
    assert done.text == "3"
    assert [r.tool_choice for r in provider.requests] == ["auto", "auto", "none"]
    assert done.tools["add"].errors == 1


async def test_progress_of_a_tool_is_told_while_it_runs() -> None:
    @tool
    async def count(context: ToolContext) -> str:
        """Count."""
        for n in range(3):
            context.progress(f"{n}")
            await asyncio.sleep(0)
        return "counted"

    events = await events_of(Agent(ScriptedProvider([[call("count")], "ok"]), tools=[count]))
    assert [e.text for e in events if e.type == "tool_progress"] == ["0", "1", "2"]


def test_bad_wiring_is_refused_in_one_sentence(tmp_path: Path) -> None:
    provider = ScriptedProvider([])
    for wrong in (
        lambda: Agent("nowhere/model"),
        lambda: Agent(provider, cwd=tmp_path / "missing"),
        lambda: Agent(provider, tools=[add, add]),
        lambda: Agent(provider, max_rounds=0),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_a_tool_needs_hints_json_can_carry() -> None:
    def bare(x):  # type: ignore[no-untyped-def]
        return x

    def odd(x: complex) -> str:
        return str(x)

    for wrong in (bare, odd):
        with pytest.raises(UsageError, match="tool"):
            tool(wrong)


async def test_a_session_is_continued_by_another_agent() -> None:
    with Session.open("trip") as session:
        await Agent(ScriptedProvider([[call("add", a=1, b=1)], "two"]), tools=[add], session=session).run("1 + 1?")
    provider = ScriptedProvider(["still two"])
    with Session.open("trip") as session:
        await Agent(provider, tools=[add], session=session).run("sure?")
    assert len(provider.requests[0].messages) == 5


async def test_a_model_that_pauses_for_ever_meets_the_limit_of_rounds() -> None:
    paused = AssistantMessage([Text(text="Wait. ")], "scripted/model", "scripted", "pause")
    provider = ScriptedProvider([paused] * 50)
    done = await Agent(provider, tools=[], max_rounds=5).run("go")
    assert (done.stop_reason, done.rounds, len(provider.requests)) == ("max_rounds", 5, 5)


async def test_calls_that_are_promised_and_not_there_end_the_turn() -> None:
    promised = AssistantMessage([Text(text="Let me look.")], "scripted/model", "scripted", "tool_use")
    provider = ScriptedProvider([promised] * 50)
    done = await Agent(provider, tools=[]).run("go")
    assert (done.outcome, done.stop_reason, done.text, len(provider.requests)) == ("completed", "stop", "Let me look.", 1)


def test_a_turn_whose_loop_was_closed_under_it_holds_nobody_up() -> None:
    agent = Agent(ScriptedProvider([["x", 5.0, "y"], "fine"]), tools=[])
    loop = asyncio.new_event_loop()
    stream = agent.stream("hi")

    async def first() -> Event:
        return await anext(stream)

    assert loop.run_until_complete(first()).type == "text_delta"
    loop.close()
    agent.stop()
    assert agent.run_sync("next").text == "fine"
