"""Who answers when the first model does not: in order, before the first word, with limits of its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_support import environ, orkas
from hurried import hurry
from orkas import Agent, Session, tool
from orkas.harness import pairing, statistics
from orkas.harness.retry import BRIEF_S, MAX_RETRIES, Retries
from orkas.harness.succession import COOL_S, Candidate, Succession
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.events import Compaction, Done, Event, Fallback, Notice, Retry, TextDelta
from orkas.infra.messages import AssistantMessage, Image, Text, Thinking, Usage, calls_of, text_of, user_message
from orkas.providers.base import ModelInfo
from orkas.testing import Cut, FakeVendor, Refuse, Say, ScriptedProvider, call

TRANSIENT = ["rate_limit", "overloaded", "timeout", "connection", "server"]
REFUSED = ["auth", "quota", "not_found"]
NEVER = ["invalid_request", "content_filter", "context_overflow", "storage", "internal"]


def failure(class_: Any, **more: Any) -> ProviderError:
    return ProviderError(f"it is {class_}", class_=class_, **more)


def scripted(name: str, *replies: Any, **options: Any) -> ScriptedProvider:
    return ScriptedProvider(replies, model=name, **options)


async def events_of(agent: Agent, prompt: str = "go") -> list[Event]:
    async with aclosing(agent.stream(prompt)) as stream:
        return [event async for event in stream]


def told(events: list[Event]) -> str:
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, Retry) and event.discard:
            text = text[: -event.discard]
    return text


def turn(first: ScriptedProvider, *others: ScriptedProvider, **options: Any) -> tuple[list[Event], Done, Agent]:
    agent = Agent(first, fallback=others, **{"tools": [], **options})
    events = hurry(events_of(agent))
    done = events[-1]
    assert isinstance(done, Done) and [e.seq for e in events] == list(range(len(events)))
    assert pairing.is_paired(agent.session.messages)
    ordinals = [e.attempt for e in events if isinstance(e, Retry)]
    assert all(a < b for a, b in pairwise(ordinals) if b != 1)
    return events, done, agent


# ------------------------------------------------------------------ when another one takes over


@pytest.mark.parametrize("class_", REFUSED)
def test_a_refusal_that_is_of_the_candidate_goes_to_the_next_at_once(class_: str) -> None:
    a, b = scripted("a", failure(class_)), scripted("b", "Hello from b.")
    events, done, agent = turn(a, b)
    assert (done.outcome, done.text, done.model) == ("completed", "Hello from b.", "scripted/b")
    [retry] = [e for e in events if isinstance(e, Retry)]
    assert (retry.attempt, retry.wait_s, retry.discard) == (1, 0.0, 0)
    assert "scripted/b takes over" in retry.reason
    assert [(e.model, e.reason) for e in events if isinstance(e, Fallback)] == [("scripted/b", f"it is {class_}")]
    assert agent.session.records()[-1]["model"] == "scripted/b"
    assert len(a.requests) == 1
    assert [m.content for m in b.requests[0].messages] == [m.content for m in a.requests[0].messages]


@pytest.mark.parametrize("class_", TRANSIENT)
def test_a_failure_that_waiting_may_cure_is_retried_first(class_: str) -> None:
    a, b = scripted("a", *[failure(class_)] * 9), scripted("b", "Hello from b.")
    events, done, _ = turn(a, b)
    assert (done.outcome, done.model) == ("completed", "scripted/b")
    assert 2 <= len(a.requests) <= 4
    waits = [e.wait_s for e in events if isinstance(e, Retry)]
    assert sum(waits) <= 10 and max(waits) <= BRIEF_S


def test_one_failure_is_no_reason_to_change() -> None:
    a, b = scripted("a", failure("overloaded"), "Hello from a."), scripted("b")
    events, done, _ = turn(a, b)
    assert (done.text, done.model, len(b.requests)) == ("Hello from a.", "scripted/a", 0)
    assert not [e for e in events if isinstance(e, Fallback)]


@pytest.mark.parametrize("class_", NEVER)
def test_what_is_wrong_with_the_request_goes_to_nobody_else(class_: str) -> None:
    a, b = scripted("a", *[failure(class_)] * 4), scripted("b", "Never asked.")
    _, done, _ = turn(a, b)
    assert (done.outcome, done.model, len(b.requests)) == ("failed", "scripted/a", 0)
    assert done.error is not None and done.error.class_ == class_


def test_nobody_waits_long_for_one_while_another_is_free() -> None:
    a, b = scripted("a", failure("rate_limit", wait_s=40.0)), scripted("b", "Hello from b.")
    events, done, _ = turn(a, b)
    assert (done.text, sum(e.wait_s for e in events if isinstance(e, Retry))) == ("Hello from b.", 0.0)


def test_the_last_one_is_waited_for_as_ever() -> None:
    a, b = scripted("a", failure("auth")), scripted("b", failure("rate_limit", wait_s=40.0), "Hello from b.")
    events, done, _ = turn(a, b)
    assert (done.text, [e.wait_s for e in events if isinstance(e, Retry)]) == ("Hello from b.", [0.0, 40.0])


def test_candidates_share_one_budget_of_retries() -> None:
    names = "abcd"
    providers = [scripted(n, *[failure("server")] * 20) for n in names]
    events, done, _ = turn(*providers)
    assert done.error is not None and (done.outcome, done.error.class_) == ("failed", "server")
    assert sum(len(p.requests) for p in providers) <= MAX_RETRIES + len(names)
    assert all(p.requests for p in providers)
    assert [e.attempt for e in events if isinstance(e, Retry)] == list(range(1, MAX_RETRIES + len(names)))
    assert done.model == "scripted/d"
    for name in names:
        assert f"scripted/{name}" in done.error.message


def test_without_retries_the_next_is_still_asked() -> None:
    _, done, _ = turn(scripted("a", failure("server")), scripted("b", "Hello from b."), max_retries=0)
    assert done.text == "Hello from b."


# ------------------------------------------------------------------ before the first word only


def test_after_the_first_word_the_voice_does_not_change() -> None:
    cut = ["Once upon ", failure("connection")]
    a, b = scripted("a", *[cut] * 9), scripted("b", "Never asked.")
    events, done, agent = turn(a, b)
    assert (done.outcome, done.model, len(b.requests)) == ("failed", "scripted/a", 0)
    assert len(a.requests) == MAX_RETRIES + 1
    assert told(events) == done.text == "Once upon "
    assert text_of(agent.session.messages[-1]) == "Once upon "


def test_a_word_that_was_taken_back_binds_too() -> None:
    a = scripted("a", ["Once ", failure("connection")], *[failure("connection")] * 9)
    b = scripted("b", "Never asked.")
    events, done, _ = turn(a, b)
    assert (done.outcome, len(b.requests), told(events)) == ("failed", 0, "")


def test_thought_binds_nobody() -> None:
    a, b = scripted("a", [Thinking(text="hm"), failure("auth")]), scripted("b", "Hello from b.")
    assert turn(a, b)[1].text == "Hello from b."


def test_tools_never_run_again_and_their_results_are_used() -> None:
    ran: list[str] = []

    @tool
    async def act(name: str) -> str:
        """Act."""
        ran.append(name)
        return f"{name} is done"

    a = scripted("a", ["First I act. ", call("act", id="c1", name="one")], failure("quota"))
    b = scripted("b", [call("act", id="c2", name="two")], "All done.")
    _, done, agent = turn(a, b, tools=[act])
    assert ran == ["one", "two"]
    assert (done.text, done.model, done.rounds, done.tools["act"].calls) == ("All done.", "scripted/b", 3, 2)
    assert [text_of(m) for m in b.requests[0].messages][-1] == "one is done"
    said = [m for m in agent.session.messages if isinstance(m, AssistantMessage)]
    assert [m.model for m in said] == ["scripted/a", "scripted/b", "scripted/b"]
    assert [c.id for m in said for c in calls_of(m)] == ["c1", "c2"]


def test_one_that_failed_earlier_in_a_turn_is_there_again_when_the_next_fails() -> None:
    @tool
    async def act() -> str:
        """Act."""
        return "done"

    a = scripted("a", *[failure("overloaded")] * 4, "I am back.")
    b = scripted("b", [call("act")], failure("quota"))
    _, done, _ = turn(a, b, tools=[act])
    assert (done.text, done.model) == ("I am back.", "scripted/a")


# ------------------------------------------------------------------ from turn to turn


def test_the_next_turn_begins_with_the_first_again() -> None:
    a, b = scripted("a", failure("quota"), "Here I am."), scripted("b", "Hello from b.")
    agent = Agent(a, fallback=b, tools=[])
    assert [hurry(agent.run("go")).model for _ in range(2)] == ["scripted/b", "scripted/a"]


def test_refused_credentials_cool_down_and_that_is_said() -> None:
    a, b = scripted("a", failure("auth"), "Never asked."), scripted("b", "One.", "Two.")
    agent = Agent(a, fallback=b, tools=[])
    hurry(agent.run("go"))
    events = hurry(events_of(agent))
    assert isinstance(events[-1], Done) and (events[-1].text, len(a.requests)) == ("Two.", 1)
    [notice] = [e.text for e in events if isinstance(e, Notice)]
    assert "scripted/b answers" in notice and "scripted/a" in notice
    assert [e.model for e in events if isinstance(e, Fallback)] == ["scripted/b"]


def test_when_all_cool_down_the_first_is_asked_and_says_why() -> None:
    a, b = scripted("a", *[failure("auth")] * 2), scripted("b", failure("auth"))
    agent = Agent(a, fallback=[b], tools=[])
    hurry(agent.run("go"))
    done = hurry(agent.run("go"))
    assert done.error is not None and (done.error.class_, done.model) == ("auth", "scripted/a")


def test_another_model_by_hand_begins_without_a_past() -> None:
    a, b = scripted("a", failure("auth")), scripted("b", "Hello from b.")
    agent = Agent(a, fallback=b, tools=[])
    hurry(agent.run("go"))
    agent.use(scripted("c", "Hello from c."))
    assert hurry(agent.run("go")).text == "Hello from c."


# ------------------------------------------------------------------ limits of its own


def test_a_smaller_window_is_made_room_for_before_its_request() -> None:
    big, small = ModelInfo(context_window=200_000), ModelInfo(context_window=8_000, max_output=1_000)
    session = Session()
    for i in range(60):
        session.append(user_message(f"Question {i}: " + "what about the harbour and its ships? " * 20))
        session.append(AssistantMessage([Text(text=f"Answer {i}. " + "The ships are well. " * 20)], "scripted/a", "scripted"))
    summary = "The user asks about the harbour and its ships, sixty times; each time the answer was that the ships are well. " * 2
    a = scripted("a", failure("quota"), info=big)
    b = scripted("b", *[lambda p: "Hello from b." if text_of(p.messages[-1]) == "And today?" else summary] * 12, info=small)
    agent = Agent(a, fallback=b, tools=[], session=session)
    events = hurry(events_of(agent, "And today?"))
    done = events[-1]
    assert isinstance(done, Done) and (done.outcome, done.model) == ("completed", "scripted/b"), done
    assert [e for e in events if isinstance(e, Compaction)]
    names = [e.type for e in events]
    assert names.index("fallback") < names.index("compaction") < names.index("text_delta")
    assert sum(len(text_of(m)) for m in b.requests[-1].messages) < 8_000 * 4
    assert len(a.requests) == 1


def test_a_larger_window_is_not_bounded_by_the_smaller_one_of_the_first() -> None:
    session = Session()
    for i in range(30):
        session.append(user_message(f"Question {i}: " + "what about the harbour and its ships? " * 20))
        session.append(AssistantMessage([Text(text=f"Answer {i}.")], "scripted/a", "scripted"))
    a = scripted("a", failure("auth"), info=ModelInfo(context_window=6_000, max_output=500))
    b = scripted("b", "Hello from b.", info=ModelInfo(context_window=200_000))
    agent = Agent(a, fallback=b, tools=[], session=session, context_window=6_000)
    events = hurry(events_of(agent))
    assert "compaction" not in [e.type for e in events]
    assert (len(a.requests), len(b.requests)) == (1, 1)  # a was asked for a summary; b needs none


@pytest.mark.parametrize(("given", "own", "sent"), [(None, 4_000, None), (16_000, 4_000, 4_000), (1_000, 4_000, 1_000), (16_000, None, 16_000)])
def test_no_answer_longer_than_the_candidate_can_write_is_asked_of_it(given: int | None, own: int | None, sent: int | None) -> None:
    b = scripted("b", "Hello.", info=ModelInfo(context_window=200_000, max_output=own))
    turn(scripted("a", failure("auth")), b, max_output=given)
    assert b.requests[0].max_output == sent


def test_a_small_model_gets_a_short_prompt_and_few_tools() -> None:
    a = scripted("a", failure("auth"))
    b = scripted("b", "Hello.", info=ModelInfo(context_window=16_000, small=True))
    turn(a, b, tools=None)
    assert len(b.requests[0].system) < len(a.requests[0].system)
    assert len(b.requests[0].tools) < len(a.requests[0].tools)


def test_a_model_that_cannot_see_gets_no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Image(media_type="image/png", data="iVBORw0KGgo=")
    with FakeVendor([Refuse(503)] * 9) as down, FakeVendor(["I cannot see it."]) as up:
        monkeypatch.setenv("DEEPSEEK_BASE_URL", up.base_url)
        monkeypatch.setenv("DEEPSEEK_API_KEY", "k")
        agent = Agent("anthropic/claude-sonnet-4-5", base_url=down.base_url, api_key="k", tools=[], fallback="deepseek/deepseek-chat", max_retries=0)
        done = agent.run_sync("look", images=[seen])
    assert (done.text, done.model) == ("I cannot see it.", "deepseek/deepseek-chat")
    assert down.requests[0].body is not None and "image" in json.dumps(down.requests[0].body)
    assert up.requests[0].body is not None and "image_url" not in json.dumps(up.requests[0].body)


# ------------------------------------------------------------------ construction, keys


@pytest.mark.parametrize("bad", ["nobody/model", "", "anthropic/", "some-name", ["openai/gpt-4o", "nobody/x"], "custom/x"])
def test_a_bad_model_string_is_refused_before_anything_is_sent(bad: Any) -> None:
    with FakeVendor(["Never asked."]) as vendor, pytest.raises(UsageError):
        Agent("anthropic/claude-x", base_url=vendor.base_url, api_key="k", fallback=bad)
    assert not vendor.requests


def test_a_key_goes_to_its_own_vendor_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVendor([], keys=["other"]) as first, FakeVendor(["Hello."], keys=["own"]) as second:
        monkeypatch.setenv("CUSTOM_BASE_URL", second.base_url)
        monkeypatch.setenv("CUSTOM_API_KEY", "own")
        agent = Agent("anthropic/claude-x", base_url=first.base_url, api_key="bad-key", fallback=["custom/x"], tools=[])
        done = agent.run_sync("go")
    assert (done.text, done.model) == ("Hello.", "custom/x")
    assert first.requests[0].headers["x-api-key"] == "bad-key"
    assert "bad-key" not in repr([r.headers.items() for r in second.requests])
    assert second.requests[0].headers["authorization"] == "Bearer own"


def test_a_second_model_of_the_same_vendor_uses_what_was_given() -> None:
    with FakeVendor(["Hello."], models=["claude-y"], keys=["k"]) as vendor:
        agent = Agent("anthropic/claude-x", base_url=vendor.base_url, api_key="k", fallback="anthropic/claude-y", tools=[])
        done = agent.run_sync("go")
    assert (done.text, done.model) == ("Hello.", "anthropic/claude-y")


@pytest.mark.parametrize("trouble", [Refuse(429), Refuse(529), Refuse(500), Cut(Say(["x"]), 0, "reset")], ids=repr)
def test_over_real_sockets_nothing_of_the_dead_candidate_stays(trouble: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    with FakeVendor([trouble] * 2) as down, FakeVendor([["I add. ", call("add", a=2, b=3)], "5"]) as up:
        monkeypatch.setenv("CUSTOM_BASE_URL", up.base_url)
        monkeypatch.setenv("CUSTOM_API_KEY", "own")
        agent = Agent("anthropic/claude-x", base_url=down.base_url, api_key="k", fallback="custom/x", tools=[add], max_retries=1)
        done = agent.run_sync("2 + 3?")
    assert (done.outcome, done.text, done.model, len(down.requests)) == ("completed", "5", "custom/x", 2)
    assert [r.status for r in up.requests] == [200, 200]


def test_stop_wins_over_the_next_candidate() -> None:
    b = scripted("b", "Never asked.")
    agent = Agent(scripted("a", failure("auth")), fallback=b, tools=[])

    async def stopped_at_the_change() -> Done:
        async with aclosing(agent.stream("go")) as events:
            async for event in events:
                if isinstance(event, Fallback):
                    agent.stop()
                    await asyncio.sleep(0)
                if isinstance(event, Done):
                    return event
        raise AssertionError

    assert (hurry(stopped_at_the_change()).outcome, len(b.requests)) == ("aborted", 0)


def test_a_summary_by_hand_may_come_from_the_next() -> None:
    session = Session()
    for i in range(20):
        session.append(user_message(f"Question {i}: " + "what about the harbour and its ships? " * 20))
        session.append(AssistantMessage([Text(text=f"Answer {i}. " + "They are well. " * 30)], "scripted/a", "scripted"))
    summary = "The user asked twenty times about the harbour and its ships; each time the answer was that they are well. " * 3
    a, b = scripted("a", failure("auth")), scripted("b", summary)
    agent = Agent(a, fallback=b, tools=[], session=session)
    assert hurry(agent.compact()).method == "summary"
    assert len(b.requests) == 1


def test_statistics_name_who_was_asked() -> None:
    a, b = scripted("a", failure("server"), failure("auth")), scripted("b", "Hello.")
    with Session.open("trip") as session:
        hurry(Agent(a, fallback=b, tools=[], session=session).run("go"))
    assert [(line.model, line.calls, line.retries) for line in statistics.read().lines] == [
        ("scripted/a", 0, 1), ("scripted/b", 0, 1), ("scripted/b", 1, 0),
    ]  # fmt: skip


# ------------------------------------------------------------------ the command


def test_the_command_takes_several_and_tells_the_change() -> None:
    with FakeVendor(["Hello."]) as up:
        env = environ(CUSTOM_BASE_URL=up.base_url, CUSTOM_API_KEY="own", ANTHROPIC_BASE_URL=up.base_url)
        words = ("run", "hi", "--model", "anthropic/claude-x", "--fallback", "openai/gpt-4o", "--fallback", "custom/x")
        ran = orkas(*words, "--json", env=env)
        human = orkas(*words[:-2], env=env)
    assert ran.status == 0 and ran.events[-1]["model"] == "custom/x"
    assert [e["model"] for e in ran.events if e["type"] == "fallback"] == ["openai/gpt-4o", "custom/x"]
    assert (human.status, human.out) == (3, "")
    assert "openai/gpt-4o takes over" in human.err and "ANTHROPIC_API_KEY" in human.err


def test_the_command_refuses_a_bad_one_with_status_2() -> None:
    orkas("run", "hi", "--model", "demo/offline", "--fallback", "nobody/x").refused(2, "unknown vendor", "nobody")


# ------------------------------------------------------------------ the order, and the budget, whatever happens

CLASSES = st.sampled_from([*TRANSIENT, *REFUSED, *NEVER])


@given(st.integers(1, 5), st.lists(st.tuples(CLASSES, st.booleans()), max_size=30))
def test_nobody_is_asked_twice_for_a_reply_and_no_refused_one_twice_in_a_turn(count: int, story: list[tuple[Any, bool]]) -> None:
    now = [0.0]
    candidates = [Candidate(scripted(str(i)), str(i)) for i in range(count)]
    succession = Succession(candidates, clock=lambda: now[0])
    refused: set[str] = set()
    asked = {"0"}
    for class_, answered in story:
        if answered:
            succession.answered()
            asked = {succession.current.model}
            continue
        before, spare = succession.current.model, succession.spare
        following = succession.failed(failure(class_))
        assert (following is not None) == (spare and class_ not in NEVER)
        if class_ in REFUSED:
            refused.add(before)
        if following is None:
            break
        assert following.model not in refused | asked
        asked.add(following.model)
    now[0] += COOL_S
    assert Succession(candidates, clock=lambda: now[0]).current.model == "0"


@given(st.integers(0, 8), st.lists(st.tuples(st.sampled_from(TRANSIENT), st.none() | st.floats(0, 90)), max_size=60), st.integers(0, 4))
def test_the_budget_is_one_however_many_are_asked(limit: int, story: list[Any], others: int) -> None:
    retries, moved, last = Retries(limit), 0, 0
    for class_, wait_s in story:
        try:
            waited = retries.wait(failure(class_, wait_s=wait_s), spare=moved < others)
        except ProviderError:
            if moved == others:
                break
            moved += 1
            retries.moved()
        else:
            assert moved == others or waited <= BRIEF_S
        last, before = retries.next_ordinal(), last
        assert last == before + 1
    assert retries.failures <= limit and retries.waited_s <= 150


def test_usage_is_summed_over_all_that_answered() -> None:
    @tool
    async def act() -> str:
        """Act."""
        return "done"

    a = scripted("a", [call("act")], failure("not_found"))
    b = scripted("b", AssistantMessage([Text(text="Hello.")], "scripted/b", "scripted", "stop", Usage(7, 3)))
    assert (turn(a, b, tools=[act])[1].usage.input, turn(scripted("a", "x"), b)[1].usage.input) == (17, 10)
