"""Several faults in one turn, and the limits for silence, on real sockets."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from hurried import hurry
from orkas import Agent, Session, tool
from orkas.harness import pairing
from orkas.harness.retry import MAX_TOTAL_S
from orkas.infra.errors import ProviderError
from orkas.infra.events import Done, Event, Retry, TextDelta
from orkas.infra.messages import AssistantMessage, Text, Thinking, Usage, to_record, user_message
from orkas.infra.net import Http, Limits
from orkas.providers.anthropic import Anthropic
from orkas.providers.base import CompletionParams, LLMProvider, Reader
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.openai_responses import OpenAIResponses
from orkas.providers.registry import resolve
from orkas.testing import Cut, FakeVendor, Late, Refuse, Say, ScriptedProvider, VendorRequest, call
from orkas.testing.rendering import as_stream

QUICK = Limits(connect=2, first_byte=1.5, idle=0.3)
OVERFLOW = Refuse(400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
GOAL = "Count the words of the poem."


async def events_of(agent: Agent, prompt: str = GOAL) -> list[Event]:
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


def waited(events: list[Event]) -> float:
    return sum(e.wait_s for e in events if isinstance(e, Retry))


def done_of(events: list[Event]) -> Done:
    done = events[-1]
    assert isinstance(done, Done)
    return done


def conversation() -> Session:
    """A history that is worth a summary."""
    session = Session()
    for n in range(12):
        question = user_message(f"Tell me of the {n}. thing. " + "What is it like? " * 40)
        session.append(question, AssistantMessage([Text(text=f"The {n}. thing is fine. " * 60)], "custom/m", "openai_chat", "stop"))
    return session  # fmt: skip


class Turns:
    """The replies to the turn's own requests, in order; whatever else is asked (a summary) gets an answer of its own."""

    def __init__(self, *replies: Any) -> None:
        self.left = list(replies)

    def __call__(self, request: VendorRequest | CompletionParams) -> Any:
        if isinstance(request, CompletionParams):
            last = to_record(request.messages[-1])
        else:
            last = (request.body or {})["messages"][-1]
        if last["role"] == "tool" or GOAL in str(last["content"]):
            return self.left.pop(0)
        return "The user asked what twelve things are like, and was told that each of them is fine."


@tool
async def count(text: str) -> int:
    """Count words."""
    return len(text.split())


def quick(vendor: FakeVendor, limits: Limits = QUICK, model: str = "custom/m") -> LLMProvider:
    return resolve(model, base_url=vendor.base_url, api_key="k", http=Http(limits=limits))[0]


async def test_five_faults_in_one_turn() -> None:
    now = {"retry-after": "0"}
    rounds = [Say([f"Part {n}. ", call("count", id=f"c{n}", text=f"a b {n}")]) for n in range(5)]
    turns = Turns(
        Refuse(429, headers=now), rounds[0],
        Refuse(503, headers=now), rounds[1],
        Cut(rounds[2], 700), rounds[2],
        Cut(rounds[3], 700, "stall"), rounds[3],
        OVERFLOW, rounds[4],
        "Fifteen.",
    )  # fmt: skip
    session = conversation()
    with FakeVendor([turns] * 20) as vendor:
        async with Agent(quick(vendor), tools=[count], session=session) as agent:
            events = await events_of(agent)
    done = done_of(events)
    assert (done.outcome, done.text, done.rounds, done.error) == ("completed", "Fifteen.", 6, None)
    assert turns.left == []
    assert told(events) == "Part 0. Part 1. Part 2. Part 3. Part 4. Fifteen."
    assert (done.tools["count"].calls, done.tools["count"].errors) == (5, 0)
    assert waited(events) <= 5
    assert pairing.is_paired(session.messages)


def overflowing(*replies: Any) -> list[Event]:
    """A turn of a conversation that has something to make room with."""
    provider = ScriptedProvider([Turns(*replies)] * 20)
    return hurry(events_of(Agent(provider, tools=[], session=conversation())))


def test_five_faults_in_a_row() -> None:
    words = ["One, ", "two."]
    events = overflowing(
        ProviderError("slow down", class_="rate_limit", status=429, wait_s=7.0),
        ProviderError("busy", class_="overloaded", status=503),
        [words[0], ProviderError("cut", class_="connection")],
        [*words, ProviderError("silent", class_="timeout")],
        [words[0], ProviderError("too long", class_="context_overflow")],
        words,
    )
    done = done_of(events)
    assert (done.outcome, done.text, told(events)) == ("completed", "One, two.", "One, two.")
    assert 7 <= waited(events) <= MAX_TOTAL_S


def test_text_before_an_overflow_is_taken_back() -> None:
    events = overflowing(["Hel", ProviderError("too long", class_="context_overflow")], "Hello.")
    assert (done_of(events).outcome, told(events)) == ("completed", "Hello.")


def test_a_window_that_is_silently_full_is_an_overflow() -> None:
    full = AssistantMessage([], "scripted/model", "scripted", "length", Usage(9_000, 0))
    done = done_of(overflowing(full, "There is room again."))
    assert (done.outcome, done.text) == ("completed", "There is room again.")


# ------------------------------------------------------------------ silence


@pytest.mark.parametrize("model", ["custom/m", "anthropic/claude-x"])
async def test_a_stall_after_the_first_word_costs_one_retry(model: str) -> None:
    whole = Say(["One, ", "two."])
    with FakeVendor([Cut(whole, 900, "stall"), whole]) as vendor:
        async with Agent(quick(vendor, Limits(2, 60, 0.3), model), tools=[]) as agent:
            events = await events_of(agent)
    assert (told(events), len(vendor.requests)) == ("One, two.", 2)
    [retry] = [e for e in events if isinstance(e, Retry)]
    assert "stopped sending" in retry.reason
    assert retry.discard > 0


async def test_a_model_that_thinks_before_its_first_word_is_waited_for() -> None:
    with FakeVendor([Say([0.9, "One, ", "two."]), Late(Say(["Three."]), 0.9)]) as vendor:
        async with Agent(quick(vendor), tools=[]) as agent:
            assert [e.type for e in await events_of(agent)] == ["text_delta", "text_delta", "done"]
            assert [e.type for e in await events_of(agent)] == ["text_delta", "done"]


async def test_the_second_attempt_is_more_patient() -> None:
    slow = Say(["One, ", 0.6, "two."])
    with FakeVendor([slow, slow]) as vendor:
        async with Agent(quick(vendor), tools=[]) as agent:
            events = await events_of(agent)
    assert told(events) == "One, two."
    assert [e.discard for e in events if isinstance(e, Retry)] == [5]


async def test_a_stall_that_comes_again_ends_the_turn_as_a_timeout() -> None:
    stalled = Cut(Say(["One, ", "two."]), 700, "stall")
    with FakeVendor([stalled] * 9) as vendor:
        async with Agent(quick(vendor), tools=[]) as agent:
            done = done_of(await events_of(agent))
    assert done.error is not None
    assert (done.error.class_, len(vendor.requests)) == ("timeout", 2)
    assert "tried 2 times" in done.error.message


def brisk(reader: Reader, api: Any) -> list[bool]:
    """Whether silence would be a fault, after each event of a reply that thinks, speaks and calls."""
    say = Say([Thinking(text="hm"), "Let me see. ", call("count", id="toolu_1", text="word " * 20)])
    seen = []
    for event in as_stream(say, api, {}):
        assert isinstance(event, bytes)
        reader.feed(event)
        seen.append(reader.brisk)
    return seen


def test_silence_is_a_fault_once_a_reply_comes_in_pieces() -> None:
    seen = brisk(OpenAIChat("custom").reader(model="custom/m"), "openai")
    assert seen[0] is False
    assert all(seen[seen.index(True) :])


def test_silence_inside_of_a_call_is_no_fault_where_arguments_are_written_whole_before_any_is_sent() -> None:
    seen = brisk(Anthropic("anthropic").reader(model="anthropic/m"), "anthropic")
    spoken = seen.index(True)
    called = seen.index(False, spoken)
    assert spoken == 3
    assert not any(seen[called : seen.index(True, called)])
    assert seen.index(True, called) - called >= 3, "a call that is over is followed by the next at once"


def test_silence_is_no_fault_while_items_of_responses_may_take_their_time() -> None:
    seen = brisk(OpenAIResponses("openai").reader(model="openai/m"), "responses")
    spoken = seen.index(True)
    called = seen.index(False, spoken)
    assert not any(seen[:spoken]), "a thought was told, and no text"
    assert spoken >= 8, "the thought takes seven events"
    assert seen[called:] == [False, *[True] * (len(seen) - called - 1)], "a call's arguments come in pieces"
