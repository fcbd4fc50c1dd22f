"""One reply of the model: taken back and asked again, or gone on with past the output limit. Told and stored once."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hurried import hurry
from orkas import Agent, tool
from orkas.harness import pairing
from orkas.harness.limit import LEAST, MOST, Seam, joined, overlap
from orkas.infra.errors import ProviderError
from orkas.infra.events import Done, Event, Notice, Retry, TextDelta, ToolEnd
from orkas.infra.messages import AssistantMessage, Text, Thinking, ToolCall, Usage, calls_of, text_of
from orkas.providers.base import CompletionParams
from orkas.testing import Cut, FakeVendor, Refuse, Say, ScriptedProvider, call

CUT = ProviderError("the connection was cut", class_="connection")


async def events_of(agent: Agent, prompt: str = "go") -> list[Event]:
    async with aclosing(agent.stream(prompt)) as stream:
        return [event async for event in stream]


def told(events: list[Event]) -> str:
    """What a reader of the stream has on its screen in the end."""
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, Retry) and event.discard:
            assert event.discard <= len(text)
            text = text[: -event.discard]
    return text


def done_of(events: list[Event]) -> Done:
    done = events[-1]
    assert isinstance(done, Done)
    assert [e.seq for e in events] == list(range(len(events)))
    assert [e.type for e in events].count("done") == 1
    return done


def said(text: str, reason: str = "length", *more: Any, usage: Usage | None = None) -> AssistantMessage:
    content = [Text(text=text)] if text else []
    return AssistantMessage([*content, *more], "scripted/model", "scripted", reason, usage or Usage(10, 5))


def turn(replies: list[Any], **options: Any) -> tuple[list[Event], Done, ScriptedProvider, Agent]:
    provider = ScriptedProvider(replies)
    agent = Agent(provider, **{"tools": [], **options})
    events = hurry(events_of(agent))
    return events, done_of(events), provider, agent


# ------------------------------------------------------------------ taken back


def test_text_of_a_dead_attempt_is_taken_back_and_stored_nowhere() -> None:
    attempts: list[Any] = [["Hello, ", "wor", CUT], [Thinking(text="hm, long"), "Hel", CUT], ["Hello, ", "world."]]
    events, done, provider, agent = turn(attempts)
    assert [e.discard for e in events if isinstance(e, Retry)] == [10, 3]
    assert told(events) == done.text == text_of(agent.session.messages[-1]) == "Hello, world."
    assert len(agent.session.messages) == 2
    assert provider.requests[0].messages == provider.requests[2].messages
    assert (done.usage.input, done.rounds) == (10, 1)


def test_calls_of_a_dead_attempt_are_never_run() -> None:
    ran: list[str] = []

    @tool
    async def act(name: str) -> str:
        """Act."""
        ran.append(name)
        return "acted"

    dead = ["I will act. ", call("act", id="a", name="first"), CUT]
    live = ["I will act. ", call("act", id="b", name="second")]
    events, done, _, agent = turn([dead, live, "Done."], tools=[act])
    assert ran == ["second"]
    assert done.tools["act"].calls == 1
    assert [c.id for m in agent.session.messages for c in calls_of(m)] == ["b"]
    assert told(events) == "I will act. Done."


@pytest.mark.parametrize("how", ["reset", "end"])
@pytest.mark.parametrize("vendor_name", ["anthropic", "custom"])
async def test_a_stream_cut_at_any_place_is_asked_again(vendor_name: str, how: Any) -> None:
    whole = Say(["One, ", "two, ", call("echo", id="toolu_1", text="x" * 60)])

    async def case(after: int) -> None:
        ran: list[str] = []

        @tool
        async def echo(text: str) -> str:
            """Echo."""
            ran.append(text)
            return "ok"

        with FakeVendor([Cut(whole, after, how), whole, "Three."]) as vendor:
            async with Agent(f"{vendor_name}/claude-x", base_url=vendor.base_url, api_key="k", tools=[echo]) as agent:
                events = await events_of(agent)
        assert (done_of(events).outcome, told(events), ran) == ("completed", "One, two, Three.", ["x" * 60]), after
        assert pairing.is_paired(agent.session.messages)
        spoken = [text_of(m) for m in agent.session.messages if isinstance(m, AssistantMessage)]
        assert spoken == ["One, two, ", "Three."]

    await asyncio.gather(*(case(after) for after in range(60, 1_700, 163)))


# ------------------------------------------------------------------ past the output limit


def test_a_text_that_was_cut_goes_on_once_and_is_one_message() -> None:
    events, done, provider, agent = turn([said("The first half of it, "), ["and the ", "second."]])
    assert told(events) == done.text == "The first half of it, and the second."
    assert (done.stop_reason, done.rounds, done.usage.input, done.usage.output) == ("stop", 1, 20, 10)
    assert [type(m).__name__ for m in agent.session.messages] == ["UserMessage", "AssistantMessage"]
    [record] = agent.session.records()[1:]
    assert record["content"] == [{"type": "text", "text": done.text}]
    assert (record["usage"]["input"], record["usage"]["output"]) == (10, 10)
    asked = provider.requests[1]
    assert asked.tool_choice == "none"
    assert [type(m).__name__ for m in asked.messages] == ["UserMessage", "AssistantMessage", "UserMessage"]
    assert text_of(asked.messages[1]) == "The first half of it, "


def test_what_is_said_twice_at_the_seam_is_told_once() -> None:
    first, second = "It was the best of times, it was", ["best of", " times, it", " was the worst", " of times."]
    events, done, _, _ = turn([said(first), second])
    assert told(events) == done.text == "It was the best of times, it was the worst of times."


def test_a_text_that_is_still_cut_says_so() -> None:
    events, done, provider, agent = turn([said("One, "), said("two, "), "never"])
    assert (done.text, done.stop_reason, done.outcome) == ("One, two, ", "length", "completed")
    assert len(provider.requests) == 2
    assert [e.type for e in events][-2:] == ["notice", "done"]
    assert agent.session.records()[-1]["stop_reason"] == "length"


@pytest.mark.parametrize("problem", ["auth", "context_overflow", "quota"])
def test_a_rest_that_cannot_be_had_leaves_the_first_part(problem: Any) -> None:
    events, done, _, agent = turn([said("One, "), ProviderError("no", class_=problem)])
    assert (done.outcome, done.text, done.stop_reason) == ("completed", "One, ", "length")
    assert agent.session.records()[-1]["stop_reason"] == "length"
    assert "notice" in [e.type for e in events]


def test_a_rest_that_breaks_off_for_good_is_kept_as_far_as_it_was_told() -> None:
    events, done, _, agent = turn([said("One, "), ["two, ", CUT]], max_retries=0)
    assert told(events) == done.text == text_of(agent.session.messages[-1]) == "One, two, "
    assert (done.outcome, done.stop_reason) == ("completed", "length")


def test_a_rest_that_breaks_off_is_asked_for_again() -> None:
    events, done, provider, _ = turn([said("One, two, three, "), ["four, ", CUT], ["four, ", "five."]])
    assert told(events) == done.text == "One, two, three, four, five."
    assert [e.discard for e in events if isinstance(e, Retry)] == [6]
    assert provider.requests[1].messages == provider.requests[2].messages


def test_thinking_that_used_up_the_limit_is_answered_once_more() -> None:
    thought = Thinking(text="hm " * 9, signature="s")
    events, done, provider, agent = turn([said("", "length", thought), [Thinking(text="ok", signature="t"), "42"]])
    assert (done.text, done.stop_reason, told(events)) == ("42", "stop", "42")
    assert [type(m).__name__ for m in provider.requests[1].messages] == ["UserMessage", "UserMessage"]
    kept = agent.session.messages[-1].content
    assert kept == [Thinking(text="hm " * 9), Thinking(text="ok", signature="t"), Text(text="42")]


def test_calls_in_a_continuation_are_run_and_the_turn_goes_on() -> None:
    ran: list[str] = []

    @tool
    async def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "written"

    first, second = said("I will write the file now, "), ["with all of it.", call("write", id="w", text="all")]
    events, done, provider, agent = turn([first, second, "Done."], tools=[write])
    assert (ran, done.text, done.rounds, done.tools["write"].calls) == (["all"], "Done.", 2, 1)
    assert told(events) == "I will write the file now, with all of it.Done."
    reply = agent.session.messages[1]
    assert (text_of(reply), reply.stop_reason) == ("I will write the file now, with all of it.", "tool_use")  # type: ignore[union-attr]
    assert [c.id for c in calls_of(reply)] == ["w"] and pairing.is_paired(agent.session.messages)
    assert provider.requests[2].tool_choice == "auto"


def test_calls_of_a_continuation_that_did_not_come_whole_are_dropped() -> None:
    ran: list[str] = []

    @tool
    async def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "written"

    half = ToolCall(id="h", name="write", arguments=None, arguments_raw='{"text": "aaa')
    whole = ToolCall(id="w", name="write", arguments={"text": "all"})
    _, done, _, _ = turn([said("One, "), said("two.", "length", whole, half), "Done."], tools=[write])
    assert (ran, done.text) == (["all"], "Done.")
    _, done, provider, _ = turn([said("One, "), said("two.", "length", half)], tools=[write])
    assert (ran, done.text, done.stop_reason, len(provider.requests)) == (["all"], "One, two.", "length", 2)


def test_a_call_that_the_limit_cut_never_runs_and_its_siblings_run_once() -> None:
    ran: list[str] = []

    @tool
    async def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "written"

    def half(n: int) -> AssistantMessage:
        cut = ToolCall(id=f"cut{n}", name="write", arguments=None, arguments_raw='{"text": "aaa')
        return said("", "length", ToolCall(id=f"whole{n}", name="write", arguments={"text": f"{n}"}), cut)

    events, done, _, agent = turn([half(1), half(2), "All written."], tools=[write])
    assert (ran, done.outcome, done.text) == (["1", "2"], "completed", "All written.")
    results = [e.result for e in events if isinstance(e, ToolEnd) and e.is_error]
    assert ["12,000" in r for r in results] == [True, False]
    assert ["6,000" in r for r in results] == [False, True]
    assert pairing.is_paired(agent.session.messages)


def test_a_model_that_only_makes_calls_that_are_cut_is_stopped() -> None:
    cut = ToolCall(id="", name="write", arguments=None, arguments_raw='{"text": "aaa')
    _, done, provider, _ = turn([said("", "length", cut)] * 9)
    assert (done.stop_reason, len(provider.requests)) == ("loop", 3)


@pytest.mark.parametrize("vendor_name", ["anthropic", "custom"])
async def test_the_continuation_is_a_request_that_vendors_take(vendor_name: str) -> None:
    @tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    replies = [Say(["Part one, "], stop_reason="length"), "part two.", "Fine."]
    with FakeVendor(replies) as vendor:
        async with Agent(f"{vendor_name}/claude-x", base_url=vendor.base_url, api_key="k", tools=[echo]) as agent:
            assert (await agent.run("go")).text == "Part one, part two."
            assert (await agent.run("sure?")).text == "Fine."
    assert [r.status for r in vendor.requests] == [200, 200, 200]
    first, second, third = (r.body or {} for r in vendor.requests)
    assert second["tools"] == first["tools"]
    assert second.get("tool_choice") == (None if vendor_name == "anthropic" else "none")  # its cache holds
    assert len(third["messages"]) == len(first["messages"]) + 2


@pytest.mark.parametrize("status", [400])
async def test_thinking_that_its_vendor_refuses_is_left_out_from_then_on(status: int) -> None:
    refusal = Refuse(status, "messages.1.content.0: Invalid `signature` in `thinking` block")
    replies = [Say([Thinking(text="hm", signature="c2ln"), "One."]), refusal, "Two.", "Three."]
    with FakeVendor(replies) as vendor:
        async with Agent("anthropic/claude-x", base_url=vendor.base_url, api_key="k", tools=[]) as agent:
            answers = [(await agent.run(n)).text for n in ("1", "2", "3")]
    assert answers == ["One.", "Two.", "Three."]
    assert ["thinking" in str(r.body) for r in vendor.requests] == [False, True, False, False]
    assert isinstance(agent.session.messages[1].content[0], Thinking)


async def test_a_refusal_of_thinking_where_there_is_none_is_reported() -> None:
    with FakeVendor([Refuse(400, "messages.1.content.0: Invalid `signature` in `thinking` block")]) as vendor:
        async with Agent("anthropic/claude-x", base_url=vendor.base_url, api_key="k", tools=[]) as agent:
            done = await agent.run("1")
    assert done.error is not None
    assert (done.error.class_, len(vendor.requests)) == ("invalid_request", 1)


# ------------------------------------------------------------------ the seam

words = st.text("abcdefgh \n", max_size=40)


def cut_up(text: str, places: list[int]) -> list[str]:
    at = sorted({0, len(text), *(p % (len(text) + 1) for p in places)})
    return [text[a:b] for a, b in pairwise(at)]


def square(text: str, at: int) -> bool:
    """Whether the text says something twice in a row around this place, with white space between or not."""
    after = text[at:]
    ends = (after, after.lstrip())
    return any(text[:at].endswith(end[:n]) for end in ends for n in range(LEAST, len(end) + 1))


def told_whole(first: str, second: str, places: list[int]) -> str:
    """The two as one, the second coming in pieces."""
    seam = Seam(first)
    out = "".join([*(seam.feed(piece) for piece in cut_up(second, places)), seam.end()])
    assert second == second[: seam.overlap] + out
    assert seam.overlap == overlap(first, second), "however it comes"
    return first + out


lively = st.text("abcdefghijklmnop 0123456789\n", max_size=300)


@given(lively, st.integers(0, 300), st.lists(st.integers(0, 300), max_size=6))
def test_a_continuation_that_repeats_nothing_loses_nothing(text: str, at: int, places: list[int]) -> None:
    at = min(at, len(text))
    assume(not square(text, at))
    assert told_whole(text[:at], text[at:], places) == text


@given(st.text("ab0, \n", min_size=1, max_size=40), st.integers(2, 60), words, st.integers(0, 900), st.data())
@example("0, ", 200, "", 30, None)
@example("0000000000a0", 4, "", 0, None)
@example("    0, 0, 0, 0, 0, 0, 0, 0,\n", 64, "]", 400, None)
@example("| a | b |\n", 9, "", 14, None)
@example("-", 200, "", 100, None)
@example("ab", 200, "\n", 31, None)
def test_a_text_that_goes_in_rows_loses_nothing(unit: str, times: int, rest: str, at: int, data: Any) -> None:
    """Wherever it is cut while at least two rows of it, and a place to overlap, are there."""
    text = "x = [\n" + unit * times + rest
    least = 6 + 2 * len(unit) + LEAST
    at = min(max(at, least), 6 + len(unit) * times - LEAST)
    assume(at >= least)
    places = [] if data is None else data.draw(st.lists(st.integers(0, 300), max_size=6))
    assert told_whole(text[:at], text[at:], places) == text


@given(st.permutations(range(70)), st.data())
def test_what_was_said_twice_is_told_once(order: list[int], data: Any) -> None:
    text = " ".join(f"w{n}x" for n in order)
    at = data.draw(st.integers(LEAST, len(text)))
    size = data.draw(st.integers(LEAST, at).filter(lambda n: not text[at - n].isspace()))
    blank = data.draw(st.sampled_from(["", " ", "\n", "\n\n  "]))
    places = data.draw(st.lists(st.integers(0, 300), max_size=6))
    assert told_whole(text[:at], blank + text[at - size :], places) == text


@pytest.mark.parametrize("size", [40, 5_000, 60_000])
@pytest.mark.parametrize("blank", ["", "\n\n"])
def test_a_continuation_that_begins_anew_is_told_once(size: int, blank: str) -> None:
    text = "\n" + "".join(f"Line {n} of the long text.\n" for n in range(4_000))
    for beginning in (text, text[1:]):
        assert told_whole(text[:size], blank + beginning, [7, 300, size + 5]) == text


def test_a_continuation_that_begins_anew_and_goes_elsewhere_keeps_all() -> None:
    first = "".join(f"Line {n} of the long text.\n" for n in range(300))
    second = first[:4_000] + " - but no, here is another one."
    assert told_whole(first, second, [100, 3_000]) == first + second


def test_a_row_that_was_begun_is_not_taken_for_one_said_twice() -> None:
    csv = "id,a,b\n" + "".join(f"{n},0,0,0,0,0,0,0,0,0,0\n" for n in range(40))
    for at in range(20, len(csv)):
        assert told_whole(csv[:at], csv[at:], []) == csv


def test_a_long_row_that_comes_in_many_pieces_costs_no_more_than_its_length() -> None:
    seam = Seam("0" * 100_000)
    begun = time.process_time()
    out = "".join([*(seam.feed("0") for _ in range(20_000)), seam.end()])
    assert out == "0" * 20_000
    assert time.process_time() - begun < 5


def test_the_bounds_of_an_overlap() -> None:
    assert overlap("abcdefghijk", "abcdefghijkl") == 0
    assert overlap("xabcdefghijkl", "abcdefghijklm") == LEAST
    long = "".join(f"{n}-" for n in range(1_500))
    assert overlap(long, long[-MOST:] + "!") == MOST
    assert overlap(long, long[-MOST - 1 :] + "!") == 0


def test_only_a_beginning_that_may_repeat_is_held_back() -> None:
    seam = Seam("the quick brown fox jumps")
    assert [seam.feed(t) for t in ("quick br", "own", "!", " more")] == ["", "", "quick brown!", " more"]


def test_joining_keeps_blocks_that_are_not_plain_text() -> None:
    cited = Text(text=" and so on", vendor={"citations": [1]})
    one = joined(said("He said elsewhere"), said("", "stop", cited))
    assert one.content == [Text(text="He said elsewhere"), cited]


def test_a_text_that_lost_its_beginning_loses_notes_on_places_in_it() -> None:
    cited = Text(text="said elsewhere and so on", vendor={"signed": [[0, 24, "x"]]})
    one = joined(said("He said elsewhere"), said("", "stop", cited))
    assert one.content == [Text(text="He said elsewhere and so on")]


def test_an_agent_does_not_change_the_request_it_goes_on_from() -> None:
    seen: list[int] = []

    def look(params: CompletionParams) -> Any:
        seen.append(len(params.messages))
        return said("One, ") if len(seen) == 1 else "two."

    _, done, _, agent = turn([look, look])
    assert (done.text, seen, len(agent.session.messages)) == ("One, two.", [1, 3], 2)


async def test_a_reply_that_ends_in_an_error_is_asked_for_again_and_not_kept() -> None:
    bad = AssistantMessage([Text(text="half of it")], "scripted/model", "scripted", "error")
    agent = Agent(ScriptedProvider([bad, "The whole."]), tools=[])
    async with aclosing(agent.stream("Go.")) as stream:
        events = [event async for event in stream]
    assert [e.discard for e in events if isinstance(e, Retry)] == [len("half of it")]
    assert [text_of(m) for m in agent.session.messages] == ["Go.", "The whole."]


async def test_a_model_that_always_ends_in_an_error_is_given_up() -> None:
    bad = AssistantMessage([Text(text="half of it")], "scripted/model", "scripted", "error")
    provider = ScriptedProvider([bad] * 9)
    done = await Agent(provider, tools=[], max_retries=1).run("Go.")
    assert (done.outcome, done.error and done.error.class_, len(provider.requests)) == ("failed", "server", 2)


# ------------------------------------------------------------------ an empty answer

EMPTIES: dict[str, Any] = {
    "nothing": said("", "stop"), "blank": [" \n ", "\n"], "thinking": said("", "stop", Thinking(text="hm")),
}  # fmt: skip


@pytest.mark.parametrize("empty", EMPTIES.values(), ids=EMPTIES)
def test_an_empty_answer_is_asked_for_once_more(empty: Any) -> None:
    events, done, provider, agent = turn([empty, "Here it is."])
    assert (done.text, told(events), done.outcome) == ("Here it is.", "Here it is.", "completed")
    assert ["empty answer" in e.reason for e in events if isinstance(e, Retry)] == [True]
    assert [text_of(m) for m in agent.session.messages] == ["go", "Here it is."]
    assert provider.requests[0].messages == provider.requests[1].messages
    assert "notice" not in [e.type for e in events]


@pytest.mark.parametrize("empty", EMPTIES.values(), ids=EMPTIES)
def test_an_answer_that_stays_empty_is_told(empty: Any) -> None:
    events, done, provider, agent = turn([empty, empty, "never"])
    assert (done.text, done.outcome, done.stop_reason, len(provider.requests)) == ("", "completed", "stop", 2)
    assert ["empty answer" in e.text for e in events if isinstance(e, Notice)] == [True]
    assert len(agent.session.messages) == 2
    _, done, provider, _ = turn([empty, "never"], max_retries=0)
    assert (done.text, done.outcome, len(provider.requests)) == ("", "completed", 1)


@tool
def act() -> str:
    """Act."""
    return "acted"


def test_an_empty_close_after_something_was_said_is_accepted() -> None:
    events, done, provider, _ = turn([["I do it now.", call("act")], said("", "stop")], tools=[act])
    assert (done.text, done.outcome, len(provider.requests)) == ("", "completed", 2)
    assert not {"retry", "notice"} & {e.type for e in events}
    events, done, provider, _ = turn([[call("act")], said("", "stop"), "Done."], tools=[act])
    assert (done.text, len(provider.requests), [e.type for e in events].count("retry")) == ("Done.", 3, 1)


def test_words_of_the_user_want_an_answer_of_their_own() -> None:
    def answer(params: CompletionParams) -> Any:
        agents[0].queue("and this?")
        return "First."

    provider = ScriptedProvider([answer, said("", "stop"), "Second."])
    agents = [Agent(provider, tools=[])]
    events = hurry(events_of(agents[0]))
    assert done_of(events).text == "Second." and [e.type for e in events].count("retry") == 1
