"""A turn that repeats itself is nudged, then stopped with a useful answer; work that only looks like it is left alone."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas import Agent, Session, ToolResult, tool
from orkas.harness import pairing
from orkas.harness.governor import Governor, Ruling
from orkas.harness.sameness import canonical, is_empty, is_poll, is_unfinished, same_page, steady, without_volatile
from orkas.infra.errors import ProviderError, ToolFailed
from orkas.infra.events import Done, Event, TextDelta
from orkas.infra.messages import AssistantMessage, Image, ToolCall, ToolMessage, UserMessage, text_of, tool_result
from orkas.providers.base import CompletionParams
from orkas.testing import ScriptedProvider, call

STATUS = "I looked three times. The file is missing; tell me where it is."


@tool
def say(text: str = "", request_id: str = "", page: int = 0) -> str:
    """Give the text back."""
    return text


class Script(ScriptedProvider):
    """Makes the calls of ``rounds``, one round a request, for as long as it may call tools; then gives ``status``."""

    def __init__(self, rounds: Iterable[list[ToolCall]], status: Any = STATUS, last: str = "Done.") -> None:
        self._rounds = iter(rounds)
        self._status, self._last = status, last
        super().__init__([self._next] * 500)

    def _next(self, params: CompletionParams) -> Any:
        if params.tool_choice == "none":
            return self._status
        return next(self._rounds, self._last)

    @property
    def nudges(self) -> list[str]:
        """The control words of each request that had some; the status request left out."""
        told = [(r, r.messages[-1]) for r in self.requests if r.tool_choice == "auto"]
        return [text_of(m) for _, m in told if isinstance(m, UserMessage) and m.origin is None and text_of(m) != "go"]


async def run(provider: ScriptedProvider, tools: list[Any], **options: Any) -> tuple[Done, Agent, list[Event]]:
    agent = Agent(provider, tools=tools, approve="all", **options)
    async with aclosing(agent.stream("go")) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], Done)
    assert [e.seq for e in events] == list(range(len(events)))
    assert pairing.is_paired(agent.session.messages)
    return events[-1], agent, events


def same(*calls: tuple[str, dict[str, Any]]) -> Iterable[list[ToolCall]]:
    """The rounds over and over."""
    return ([call(name, **arguments)] for name, arguments in itertools.cycle(calls))


# --- what is stopped ----------------------------------------------------------------------------------------------


async def test_the_same_call_with_the_same_result_is_nudged_at_three_and_stopped_at_five() -> None:
    provider = Script(same(("say", {"text": "hello"})))
    done, agent, events = await run(provider, [say])
    assert (done.outcome, done.stop_reason, done.rounds) == ("completed", "loop", 5)
    assert done.tools["say"].calls == 5
    first, second = provider.nudges
    assert "same call 3 times" in first and "say" in first and "hello" in first
    assert "told before" in second and "told before" not in first
    assert done.text.startswith("Stopped because the turn repeated itself: ")
    assert done.text.endswith(STATUS)
    last = agent.session.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert (text_of(last), last.stop_reason) == (done.text, "loop")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == done.text


async def test_nudges_and_the_question_for_a_status_are_in_no_history() -> None:
    provider = Script(same(("say", {"text": "hello"})))
    _, agent, _ = await run(provider, [say])
    assert [text_of(m) for m in agent.session.messages if isinstance(m, UserMessage)] == ["go"]
    stored = [r.messages for r in provider.requests]
    for before, after in itertools.pairwise(stored):  # the prefix holds up to the last stored message
        kept = before[:-1] if isinstance(before[-1], UserMessage) and len(before) > 1 else before
        assert after[: len(kept)] == kept


async def test_the_status_answer_is_bounded_has_no_tools_to_call_and_is_counted() -> None:
    provider = Script(same(("say", {"text": "x"})))
    done, agent, _ = await run(provider, [say])
    asked = provider.requests[-1]
    assert asked.tool_choice == "none"
    assert asked.tools  # still in the request, for the cached prefix
    assert asked.max_output is not None and asked.max_output <= 1_200
    for word in ("done", "missing", "user can do"):
        assert word in text_of(asked.messages[-1])
    assert done.usage.output == 5 * 6
    assert agent.session.records()[-1]["usage"]["output"] == 5


@pytest.mark.parametrize(
    "status",
    [
        ProviderError("no", class_="auth"),
        ProviderError("too long", class_="context_overflow"),
        "",
        "  \n",
        [call("say", text="x")],
        ["Let me try again.", call("say", text="x")],
    ],
    ids=["refused", "overflow", "empty", "blank", "call", "words and a call"],
)
async def test_a_model_that_gives_no_status_gets_one_written(status: Any) -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise ToolFailed("the disk is on fire")

    rounds = itertools.chain([[call("say", text="fine")]], same(("broken", {})))
    done, agent, _ = await run(Script(rounds, status), [say, broken])
    assert (done.outcome, done.stop_reason) == ("completed", "loop")
    assert "say 1 time" in done.text and "broken 5 times (5 failed)" in done.text
    assert "the disk is on fire" in done.text
    assert text_of(agent.session.messages[-1]) == done.text
    assert done.tools["say"].calls == 1


async def test_a_status_that_cannot_be_had_is_not_waited_for_long() -> None:
    trouble = ProviderError("busy", class_="overloaded", wait_s=0)
    done, _, events = await run(Script(same(("say", {"text": "x"})), trouble), [say])
    assert (done.outcome, done.stop_reason) == ("completed", "loop")
    assert [e.type for e in events].count("retry") == 1


async def test_stop_while_the_status_is_written_wins() -> None:
    agent = Agent(Script(same(("say", {"text": "x"})), [60.0, "never"]), tools=[say])
    async with aclosing(agent.stream("go")) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                agent.stop()
            if isinstance(event, Done):
                assert event.outcome == "aborted"
                assert event.text.startswith("Stopped because")
    assert text_of(agent.session.messages[-1]).startswith("Stopped because")


async def test_calls_that_differ_only_in_what_is_new_each_time_are_the_same() -> None:
    rounds = ([call("say", text="x", request_id=f"{n:08x}")] for n in itertools.count())
    provider = Script(rounds)
    done, _, _ = await run(provider, [say])
    assert (done.stop_reason, done.rounds) == ("loop", 12)
    assert "practically the same call 6 times" in provider.nudges[0]
    assert len(provider.nudges) == 3
    assert "told before" in provider.nudges[-1]


@pytest.mark.parametrize("length", [2, 3, 4])
async def test_a_cycle_is_a_loop(length: int) -> None:
    provider = Script(same(*[("say", {"text": f"t{n}"}) for n in range(length)]))
    done, _, _ = await run(provider, [say])
    assert done.stop_reason == "loop"
    assert done.rounds <= 5 * length
    assert "3 times" in provider.nudges[0]


async def test_a_fan_out_counts_as_the_round_it_is() -> None:
    one = [("say", {"text": "a"}), ("say", {"text": "b"}), ("say", {"text": "a"})]
    rounds = ([call(n, **a) for n, a in itertools.islice(itertools.cycle(one), k % 3, k % 3 + 3)] for k in range(99))
    done, _, _ = await run(Script(rounds), [say])
    assert (done.stop_reason, done.rounds) == ("loop", 5)


async def test_many_equal_calls_in_one_round_are_no_loop() -> None:
    done, _, _ = await run(Script([[call("say", text="a") for _ in range(9)]]), [say])
    assert done.text == "Done."


async def test_writing_the_same_again_is_a_loop_although_it_succeeds(tmp_path: Any) -> None:
    provider = Script(same(("write_file", {"path": "a.txt", "content": "same\n"})))
    agent = Agent(provider, cwd=tmp_path, approve="edits")
    done = await agent.run("go")
    assert done.stop_reason == "loop"
    assert done.tools["write_file"].calls <= 6  # the first says that the file is new


async def test_failing_with_the_same_words_is_a_loop_whatever_the_arguments() -> None:
    @tool
    def send(to: str) -> str:
        """Send."""
        raise ToolFailed("the mail server refuses the password")

    provider = Script([call("send", to=f"user{n}@example.org")] for n in itertools.count())
    done, _, _ = await run(provider, [send])
    assert (done.stop_reason, done.rounds) == ("loop", 8)
    assert "mail server refuses" in provider.nudges[0]


async def test_looking_for_what_is_not_there_is_nudged_early_and_stopped_late() -> None:
    @tool
    def search(query: str) -> str:
        """Search."""
        return f"No matches for {query!r}." if query == "?" else "No matches found."

    words = (f"word {chr(97 + n % 26)}{'x' * n}" for n in itertools.count())
    provider = Script([call("search", query=word)] for word in words)
    done, _, _ = await run(provider, [search])
    assert done.stop_reason == "loop"
    assert 35 <= done.rounds <= 45
    assert "learnt nothing new" in provider.nudges[0]


async def test_the_same_test_over_and_over_is_a_loop_although_its_times_differ() -> None:
    seconds = itertools.count(1)

    @tool
    def test() -> str:
        """Run the tests."""
        return f"1 failed, 3 passed in {next(seconds) / 7:.2f}s"

    done, _, _ = await run(Script(same(("test", {}))), [test])
    assert (done.stop_reason, done.rounds) == ("loop", 12)


async def test_calls_that_cannot_be_read_end_the_turn_without_another_request() -> None:
    provider = ScriptedProvider([[ToolCall(id="", name="say", arguments=None, arguments_raw="{")]] * 9)
    done, agent, _ = await run(provider, [say])
    assert (done.outcome, done.stop_reason, done.rounds, len(provider.requests)) == ("completed", "loop", 3, 3)
    assert "could not be read" in done.text
    assert text_of(agent.session.messages[-1]) == done.text


# --- what is left alone -------------------------------------------------------------------------------------------


async def passes(rounds: Iterable[list[ToolCall]], tools: list[Any]) -> Script:
    provider = Script(rounds)
    done, _, _ = await run(provider, tools)
    assert (done.stop_reason, done.text) == ("stop", "Done.")
    return provider


@pytest.mark.parametrize("key", ["page", "offset", "cursor", "start_line", "page_token"])
@pytest.mark.parametrize("result", ["row", "[]", "x" * 500], ids=["short", "empty", "long"])
async def test_thirty_pages_pass_even_when_they_are_equal(key: str, result: str) -> None:
    class Pages:
        name, description = "pages", "Look."
        parameters: dict[str, Any] = {"type": "object", "properties": {key: {}}}  # noqa: RUF012

        async def run(self, arguments: dict[str, Any], context: Any) -> str:
            return result

    provider = await passes(([call("pages", **{key: f"p{n}" if "to" in key else n})] for n in range(30)), [Pages()])
    assert provider.nudges == []


@pytest.mark.parametrize(
    "result",
    ["pending", '{"status": "in_progress", "id": 7}', "Job 12 is still running", "queued", "building… 40 %", "处理中",
     "State: Running\nnode: n1\n" + "x" * 900, "wird ausgeführt: in Bearbeitung", "en cours", "выполняется", "実行中"],
)  # fmt: skip
async def test_thirty_looks_at_what_is_not_ready_pass(result: str) -> None:
    @tool
    def job(number: int) -> str:
        """Look at a job."""
        return result

    provider = await passes(([call("job", number=7)] for _ in range(30)), [job])
    assert provider.nudges == []


@pytest.mark.parametrize("name", ["get_status", "waitForBuild", "sleep", "poll_queue"])
async def test_tools_made_for_waiting_may_be_called_again(name: str) -> None:
    await passes(([call(name)] for _ in range(30)), [tool(name=name)(_nothing)])


def _nothing() -> str:
    """Nothing yet."""
    return "ok"


async def test_a_look_at_the_log_between_two_polls_belongs_to_the_waiting() -> None:
    @tool
    def job() -> str:
        """Look."""
        return "running"

    @tool
    def log() -> str:
        """Read the log."""
        return "(nothing in the log)"

    rounds = ([call("job")] if n % 2 else [call("log")] for n in range(60))
    await passes(rounds, [job, log])


async def test_a_result_that_changes_is_no_loop() -> None:
    numbers = itertools.count()

    @tool
    def count() -> int:
        """Count."""
        return next(numbers)

    await passes(([call("count")] for _ in range(60)), [count])


async def test_what_goes_up_and_down_is_no_loop_but_flip_flop_is() -> None:
    values = itertools.cycle([3, 1, 4, 1, 5, 9, 2, 6])

    @tool
    def roll() -> int:
        """Roll."""
        return next(values)

    assert (await passes(([call("roll")] for _ in range(38)), [roll])).nudges == []
    state = {"a": ""}

    @tool
    def write(text: str) -> str:
        """Write."""
        state["a"] = text
        return "written"

    @tool
    def read() -> str:
        """Read."""
        return state["a"]

    there_and_back = same(("write", {"text": "x"}), ("read", {}), ("write", {"text": "y"}), ("read", {}))
    done, _, _ = await run(Script(there_and_back), [write, read])
    assert (done.stop_reason, done.rounds <= 20) == ("loop", True)


async def test_another_picture_is_another_result() -> None:
    numbers = itertools.count()

    @tool
    def screenshot(still: bool) -> ToolResult:
        """Look at the screen."""
        data = b"\x89PNG\r\n\x1a\n" + bytes(32) + (b"" if still else str(next(numbers)).encode())
        return ToolResult("", [Image(media_type="image/png", data=base64.b64encode(data).decode())])

    assert (await passes(([call("screenshot", still=False)] for _ in range(30)), [screenshot])).nudges == []
    done, _, _ = await run(Script(same(("screenshot", {"still": True}))), [screenshot])
    assert (done.stop_reason, done.rounds) == ("loop", 5)


async def test_the_same_test_after_each_edit_is_work() -> None:
    @tool
    def edit(text: str) -> str:
        """Edit."""
        return "edited"

    @tool
    def test() -> str:
        """Test."""
        return "1 failed"

    rounds = ([call("edit", text=f"try {n // 2}")] if n % 2 == 0 else [call("test")] for n in range(60))
    provider = await passes(rounds, [edit, test])
    assert provider.nudges == []


async def test_the_same_short_answer_to_other_calls_is_work() -> None:
    @tool
    def send(to: str) -> None:
        """Send."""

    assert (await passes(([call("send", to=f"u{n}")] for n in range(60)), [send])).nudges == []


async def test_reading_again_what_was_read_once_is_no_loop() -> None:
    texts = {f"f{n}": f"file {n}\n" * 100 for n in range(25)}

    @tool
    def read(path: str) -> str:
        """Read."""
        return texts[path]

    assert (await passes(([call("read", path=p)] for _ in range(2) for p in texts), [read])).nudges == []


async def test_the_user_s_word_begins_the_count_anew() -> None:
    agent: Agent

    @tool
    def check() -> str:
        """Check."""
        return "red"

    class Steered(Script):
        def _next(self, params: CompletionParams) -> Any:
            if len(self.requests) in (4, 8):
                agent.steer(f"try again {len(self.requests)}")
            return super()._next(params)

    provider = Steered([call("check")] for _ in range(12))
    agent = Agent(provider, tools=[check])
    done = await agent.run("go")
    assert (done.stop_reason, done.text) == ("stop", "Done.")


async def test_a_word_of_the_user_that_waits_keeps_the_turn_from_being_stopped() -> None:
    agent: Agent

    @tool
    def check() -> str:
        """Check."""
        if len(provider.requests) == 5:
            agent.steer("it is the other file")
        return "red"

    provider = Script([call("check")] for _ in range(5))
    agent = Agent(provider, tools=[check])
    assert (await agent.run("go")).text == "Done."


# --- the end of the rounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "told"), [(10, [8]), (20, [16]), (9, []), (2, [])])
async def test_four_fifths_of_the_rounds_are_told(most: int, told: list[int]) -> None:
    provider = ScriptedProvider([[call("say", text=f"{n}")] for n in range(most)])
    done, agent, _ = await run(provider, [say], max_rounds=most)
    assert done.stop_reason == "max_rounds"
    assert len(provider.requests) == most  # no further one for a status
    nudged = [n for n, r in enumerate(provider.requests) if n and isinstance(r.messages[-1], UserMessage)]
    assert nudged == told
    assert [text_of(m) for m in agent.session.messages if isinstance(m, UserMessage)] == ["go"]


# --- the rules, without a turn ------------------------------------------------------------------------------------


class Play:
    """A governor on its own, with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.governor = Governor({"t": say, "shell": say}, clock=lambda: self.now)

    def round(
        self, *made: tuple[dict[str, Any], str], took: float = 0.0, is_error: bool = False, name: str = "t"
    ) -> Ruling:
        calls = [call(name, **arguments) for arguments, _ in made]
        for one in calls:
            assert self.governor.refusal(one) == ""
        self.now += took
        results = [tool_result(c.id, text, is_error=is_error) for c, (_, text) in zip(calls, made, strict=True)]
        return self.governor.judge(calls, results)


def until_stopped(step: Callable[[Play], Ruling], most: int = 300) -> int:
    play = Play()
    return next((n for n in range(1, most) if step(play).stop), 0)


def test_where_real_time_passes_patience_is_longer() -> None:
    assert until_stopped(lambda p: p.round(({}, "x"))) == 5
    assert until_stopped(lambda p: p.round(({}, "x"), took=12), 500) == 400
    assert until_stopped(lambda p: p.round(({}, "1 failed"), took=12, is_error=True)) == 5
    assert until_stopped(lambda p: p.round(({}, "pending")), 500) == 400
    assert until_stopped(lambda p: p.round(({}, "pending"), took=12)) == 0
    assert until_stopped(lambda p: p.round(({"command": "sleep 60; cat out"}, "x"), took=60, name="shell")) == 0


def test_news_of_one_call_is_news_of_the_round() -> None:
    numbers = itertools.count()
    assert until_stopped(lambda p: p.round(({"a": 1}, "x"), ({"a": 2}, f"x{next(numbers)}"))) == 0


def test_an_echo_of_what_is_new_each_time_is_no_news() -> None:
    numbers = itertools.count()

    def step(play: Play) -> Ruling:
        id = f"{next(numbers):032x}"
        return play.round(({"q": "x", "trace_id": id}, f'{{"trace_id": "{id}", "hits": 0}}'))

    assert until_stopped(step) == 12


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from(["x", "y", "pending"])), max_size=60))
@settings(max_examples=80, deadline=None)
def test_nobody_is_stopped_who_was_not_told_before(made: list[tuple[str, str]]) -> None:
    play, told = Play(), False
    for argument, result in made:
        ruling = play.round(({"a": argument}, result))
        assert not ruling.stop or told
        told = told or bool(ruling.nudge)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("xy")), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_every_cycle_ends(cycle: list[tuple[str, str]]) -> None:
    steps = itertools.cycle(cycle)

    def step(play: Play) -> Ruling:
        argument, result = next(steps)
        return play.round(({"a": argument}, result))

    assert 5 <= until_stopped(step, 2000) <= 4 * 400


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"q": "x", "request_id": "1"}, {"q": "x", "request_id": "2"}, True),
        ({"q": "x", "requestId": "1"}, {"q": "x", "requestId": "2"}, True),
        ({"q": "x", "X-Request-ID": "1"}, {"q": "x"}, True),
        ({"q": {"idempotency-key": 1, "n": 1}}, {"q": {"idempotency-key": 2, "n": 1}}, True),
        ({"q": [{"created_at": "a"}]}, {"q": [{"created_at": "b"}]}, True),
        ({"timestamp": 1_764_000_000}, {"timestamp": 1_764_000_009}, True),
        ({"timestamp": 12}, {"timestamp": 13}, False),  # a second of a film
        ({"id": "1"}, {"id": "2"}, False),
        ({"seed": 1}, {"seed": 2}, False),
        ({"page": 1}, {"page": 2}, False),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, True),
        ({"a": "ls "}, {"a": "ls"}, True),
    ],
)
def test_what_is_new_each_time_is_left_out(one: Any, other: Any, equal: bool) -> None:
    assert (canonical(without_volatile(one)) == canonical(without_volatile(other))) == equal


@pytest.mark.parametrize("odd", ["\ud800", 10**400, float("nan"), {1, 2}, {"a": {"b": [1, None]}}])
def test_any_argument_has_a_canonical_form(odd: Any) -> None:
    assert canonical({"a": odd}) == canonical({"a": odd})


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("took 1.25s", "took 3.5s", True),
        ("at 2026-11-30T10:00:00Z ok", "at 2026-11-30T10:00:07.123Z ok", True),
        ("<object at 0x7f12ab34cd>", "<object at 0x7f12ab99cd>", True),
        ("3 of 10", "4 of 10", False),
        ('{"a": 1, "nonce": 5}', '{"nonce": 6, "a": 1}', True),
        ("{not json 1}", "{not json 2}", False),
    ],
)
def test_results_are_compared_without_clocks(one: str, other: str, equal: bool) -> None:
    assert (steady(one) == steady(other)) == equal


@pytest.mark.parametrize(
    ("name", "arguments", "poll"),
    [
        ("shell", {"command": "sleep 5 && cat log"}, True),
        ("shell", {"command": "systemctl status nginx"}, True),
        ("shell", {"command": "git status"}, False),
        ("shell", {"command": "git -C sub status --short"}, False),
        ("shell", {"command": "cat sleep.txt"}, True),  # the benefit of the doubt
        ("shell", {"command": "pytest -q"}, False),
        ("shell", {"command": "helm upgrade --wait"}, False),
        ("git_status", {}, False),
        ("update_status", {"to": "done"}, False),
        ("getJobStatus", {}, True),
        ("process", {"action": "poll"}, True),
        ("python", {"code": "import time; time.sleep(3)"}, True),
        ("say", {"text": "please wait for me"}, False),
        ("say", None, False),
    ],
)
def test_what_is_made_for_waiting(name: str, arguments: Any, poll: bool) -> None:
    assert is_poll(name, arguments) == poll


@pytest.mark.parametrize(
    ("text", "is_error", "unfinished"),
    [
        ("running 5 tests\ntest a ... ok\ntest result: ok", False, False),
        ("test coverage 85 %, all passed", False, False),
        ("pending: x\n" + "x" * 1000, False, False),
        ("hello", False, False),
        ("done", False, False),
        ("not ready yet", True, True),
        ("uploading 40%", False, True),
        ("STATE_PENDING_REVIEW", False, True),
        ("spending", False, False),
        ("not deployed yet", False, True),
        ('{"ready": false}', False, True),
        ('{"done": true}', False, False),
        ("step 3 of 10", False, True),
        ("connecting…", False, True),
        ("checks: 2 passed, 1 pending", False, True),
        ("connection refused while starting", True, False),
        ("100 %", False, False),
    ],
)
def test_what_is_not_ready(text: str, is_error: bool, unfinished: bool) -> None:
    assert is_unfinished(text, is_error=is_error) == unfinished


def test_small_words() -> None:
    assert is_empty("[]") and is_empty("") and not is_empty("(no output)") and is_empty("No matches found.")
    assert not is_empty("ok") and not is_empty("written")
    assert same_page({"path": "a", "start_line": 1}, {"path": "a", "start_line": 40})
    assert same_page({"command": "sed -n 1,40p a"}, {"command": "sed -n 41,80p a"})
    assert not same_page({"path": "a", "line": 1}, {"path": "b", "line": 40})
    assert not same_page({}, {})
    assert same_page({"cursor": "abc"}, {"cursor": "def"})


async def test_a_stopped_turn_is_gone_on_with_as_any_other() -> None:
    session = Session.open("loop")
    provider = Script(same(("say", {"text": "x"})))
    await Agent(provider, tools=[say], session=session).run("go")
    session.close()
    session = Session.open("loop")
    assert session.messages[-1].stop_reason == "loop"  # type: ignore[union-attr]
    assert (await Agent(ScriptedProvider(["better"]), tools=[], session=session).run("continue")).text == "better"
    assert isinstance(session.messages[2], ToolMessage)
    session.close()


async def test_silent_commands_on_different_things_are_work() -> None:
    provider = Script([call("shell", command=f"sed -i s/a/b/ file{n}.py")] for n in range(60))

    @tool
    def shell(command: str) -> str:
        """Run."""
        return "(no output)\n[exit code 0]"

    done, _, _ = await run(provider, [shell])
    assert (done.stop_reason, done.rounds) == ("stop", 61)
    assert not any("nothing new" in nudge for nudge in provider.nudges)
