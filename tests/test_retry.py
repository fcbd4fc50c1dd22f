"""When a failed request is made again, how long before that, and what is said when it is not."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurried import hurry
from orkas import Agent, tool
from orkas.harness.retry import MAX_RETRIES, MAX_TOTAL_S, MAX_WAIT_S, PATIENCE, Retries, span
from orkas.infra.errors import ProviderError
from orkas.infra.events import Done, Event, Retry
from orkas.providers.base import CompletionParams
from orkas.testing import FakeVendor, Refuse, ScriptedProvider, call

TRANSIENT = ["rate_limit", "overloaded", "timeout", "connection", "server"]
FINAL = ["auth", "quota", "invalid_request", "not_found", "content_filter", "context_overflow"]


def failed(class_: Any = "overloaded", wait_s: float | None = None, **more: Any) -> ProviderError:
    return ProviderError("no luck", class_=class_, wait_s=wait_s, **more)


async def events_of(agent: Agent) -> list[Event]:
    async with aclosing(agent.stream("go")) as stream:
        return [event async for event in stream]


def turn(replies: list[Any], **options: Any) -> tuple[list[Event], Done, ScriptedProvider]:
    provider = ScriptedProvider(replies)
    events = hurry(events_of(Agent(provider, **{"tools": [], **options})))
    done = events[-1]
    assert isinstance(done, Done)
    return events, done, provider


# ------------------------------------------------------------------ the budget


def test_waits_double_up_to_half_a_minute_and_are_never_the_same_for_all() -> None:
    retries = Retries(limit=9)
    waits = [retries.wait(failed()) for _ in range(7)]
    for wait, most in zip(waits, [1, 2, 4, 8, 16, 30, 30], strict=True):
        assert 0.8 * most <= wait <= most
    assert len({Retries().wait(failed()) for _ in range(20)}) > 1


def test_what_the_vendor_asks_for_is_waited_for_exactly() -> None:
    assert Retries().wait(failed(wait_s=7.0)) == 7.0
    assert Retries().wait(failed(wait_s=0.0)) == 0.0
    assert Retries().wait(failed(wait_s=MAX_WAIT_S)) == MAX_WAIT_S


def test_a_vendor_that_asks_for_nothing_again_and_again_is_not_hammered() -> None:
    retries = Retries()
    assert [retries.wait(failed(wait_s=0.0)) for _ in range(5)] == [0, 1, 2, 4, 8]


@pytest.mark.parametrize("class_", FINAL)
def test_what_no_waiting_cures_is_never_asked_again(class_: str) -> None:
    retries = Retries()
    with pytest.raises(ProviderError) as caught:
        retries.wait(failed(class_, window=8_192))
    assert (caught.value.class_, caught.value.window, retries.failures) == (class_, 8_192, 0)


@pytest.mark.parametrize("class_", TRANSIENT)
def test_the_error_says_how_often_it_was_tried(class_: str) -> None:
    retries = Retries(limit=2)
    for _ in range(2):
        retries.wait(failed(class_, status=503))
    with pytest.raises(ProviderError, match=r"no luck \(tried 3 times\)"):
        retries.wait(failed(class_, status=503))


def test_a_good_reply_fills_the_budget_again() -> None:
    retries = Retries(limit=1)
    for _ in range(4):
        assert retries.wait(failed()) <= 1
        retries.succeeded()


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=40), st.integers(0, 40))
def test_all_waits_between_two_good_replies_stay_within_the_bound(asked: list[float | None], limit: int) -> None:
    retries, waits = Retries(limit=limit), []
    for wait_s in asked:
        try:
            waits.append(retries.wait(failed(wait_s=wait_s)))
        except ProviderError:
            break
    assert len(waits) <= limit
    assert sum(waits) == pytest.approx(retries.waited_s)
    assert sum(waits) <= MAX_TOTAL_S + 1e-9
    assert all(0 <= wait <= MAX_WAIT_S for wait in waits)


def test_the_defaults_live_through_four_busy_answers_and_five_waits_of_seven_seconds() -> None:
    retries = Retries()
    assert sum(retries.wait(failed()) for _ in range(MAX_RETRIES)) <= 31
    retries.succeeded()
    assert [retries.wait(failed("rate_limit", 7.0)) for _ in range(MAX_RETRIES)] == [7, 7, 7, 7, 8]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(61, "1 min 1 s"), (120, "2 min"), (7_500, "2 h 5 min"), (90_000, "1 day 1 h"), (10**6, "11 days"), (9e14, "days")],
)
@pytest.mark.parametrize("class_", ["rate_limit", "quota"])
def test_a_long_wait_is_said_with_its_end_and_not_slept(seconds: float, words: str, class_: str) -> None:
    with pytest.raises(ProviderError) as caught:
        Retries().wait(failed(class_, seconds))
    said = str(caught.value)
    assert f"; try again in {words}" in said or words == "days"
    assert re.search(r"\((at|on \d{4}-\d\d-\d\d at) \d\d:\d\d\)", said) or words == "days"


def test_spans_in_words() -> None:
    assert [span(s) for s in (0.2, 59, 60, 3_599, 3_600, 172_800)] == [
        "0 s", "59 s", "1 min", "59 min 59 s", "1 h", "2 days",
    ]  # fmt: skip


def test_a_stall_is_tried_once_more_with_more_patience() -> None:
    retries = Retries()
    assert retries.patience == 1
    retries.wait(failed("timeout"))
    assert retries.patience == PATIENCE
    with pytest.raises(ProviderError, match="tried 2 times"):
        retries.wait(failed("timeout"))
    retries.succeeded()
    assert retries.patience == 1


def test_a_timeout_that_a_server_reports_is_no_stall() -> None:
    retries = Retries()
    for _ in range(MAX_RETRIES):
        retries.wait(failed("timeout", status=504))
    assert retries.patience == 1


def test_where_no_connection_comes_about_little_is_tried_and_nothing_on_this_machine() -> None:
    retries = Retries()
    assert sum(retries.wait(failed("connection", reached=False)) for _ in range(2)) <= 3
    with pytest.raises(ProviderError, match="tried 3 times"):
        retries.wait(failed("connection", reached=False))
    with pytest.raises(ProviderError):
        Retries().wait(failed("connection", reached=False, local=True))


# ------------------------------------------------------------------ in a turn


@pytest.mark.parametrize("class_", TRANSIENT)
def test_a_turn_goes_on_after_it_was_asked_again(class_: str) -> None:
    events, done, provider = turn([failed(class_, 7.0, status=429), "fine"])
    told = [e for e in events if isinstance(e, Retry)]
    assert [(e.attempt, e.wait_s, e.discard, e.reason) for e in told] == [(1, 7.0, 0, "no luck")]
    assert (done.outcome, done.text, done.rounds, len(provider.requests)) == ("completed", "fine", 1, 2)


def test_retries_that_are_used_up_end_the_turn_with_the_last_error() -> None:
    events, done, provider = turn([failed("server", status=500)] * 9)
    assert done.error is not None
    assert (done.outcome, done.error.class_, done.error.status) == ("failed", "server", 500)
    assert done.error.message == "no luck (tried 6 times)"
    assert [e.attempt for e in events if isinstance(e, Retry)] == [1, 2, 3, 4, 5]
    assert len(provider.requests) == 6


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_caller_says_how_often(limit: int) -> None:
    _, done, provider = turn([failed()] * 9, max_retries=limit)
    assert (done.outcome, len(provider.requests)) == ("failed", limit + 1)


@pytest.mark.parametrize("class_", FINAL[:-1])
def test_a_turn_ends_at_once_where_asking_again_is_in_vain(class_: str) -> None:
    events, done, provider = turn([failed(class_, 1.0), "never"])
    assert done.error is not None
    assert (done.error.class_, len(provider.requests)) == (class_, 1)
    assert not [e for e in events if isinstance(e, Retry)]


def test_the_budget_is_full_again_in_each_round_and_no_tool_runs_twice() -> None:
    ran: list[int] = []

    @tool
    async def note(n: int) -> str:
        """Note."""
        ran.append(n)
        return f"noted {n}"

    replies: list[Any] = []
    for n in range(4):
        replies += [failed(), failed("connection"), [f"round {n}. ", call("note", n=n)]]
    events, done, provider = turn([*replies, failed(), "done"], tools=[note], max_retries=2)
    assert (done.outcome, done.rounds, ran) == ("completed", 5, [0, 1, 2, 3])
    assert [e.attempt for e in events if isinstance(e, Retry)] == [1, 2] * 4 + [1]
    assert provider.requests[-1].messages == provider.requests[-2].messages


def test_the_request_after_a_stall_is_more_patient_and_only_that() -> None:
    seen: list[float] = []

    def look(params: CompletionParams) -> list[Any]:
        seen.append(params.patience)
        return ["half", failed("timeout")] if len(seen) == 1 else [call("nothing")] if len(seen) == 2 else ["whole"]

    events, done, _ = turn([look, look, look])
    assert (done.outcome, seen) == ("completed", [1, PATIENCE, 1])
    assert [e.discard for e in events if isinstance(e, Retry)] == [4]


def test_two_stalls_end_the_turn_as_a_timeout() -> None:
    events, done, provider = turn([["half", failed("timeout")]] * 5)
    assert done.error is not None
    assert (done.error.class_, len(provider.requests)) == ("timeout", 2)
    assert sum(isinstance(e, Retry) for e in events) == 1


async def test_a_local_server_that_does_not_run_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with Agent("ollama/x", base_url=f"http://127.0.0.1:{port}", tools=[]) as agent:
        events = await events_of(agent)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.error is not None
    assert (len(events), done.error.class_) == (1, "connection")
    assert "start the server" in done.error.message


async def test_a_page_instead_of_an_answer_is_asked_again_where_a_gateway_says_so() -> None:
    page = b"<html><body><h1>502 Bad Gateway</h1>" + b"<p>nginx</p>" * 2_500
    replies = [Refuse(502, headers={"content-type": "text/html", "retry-after": "0"}, body=page), "fine"]
    with FakeVendor(replies) as vendor:
        async with Agent("custom/m", base_url=vendor.base_url, api_key="k", tools=[]) as agent:
            events = await events_of(agent)
    assert [e.type for e in events] == ["retry", "text_delta", "done"]
    assert isinstance(events[0], Retry)
    assert "Bad Gateway" in events[0].reason
    assert "<" not in events[0].reason


@pytest.mark.parametrize("code", [429, 502, "429", 503])
async def test_an_error_inside_of_an_answer_with_status_200_is_classified_by_its_own_code(code: object) -> None:
    body = json.dumps({"choices": None, "error": {"message": "upstream is full", "code": code, "retry_after": 0}})
    with FakeVendor() as vendor:
        vendor.replay(body.encode(), headers={"content-type": "application/json"})
        vendor.script(["fine"])
        async with Agent("custom/m", base_url=vendor.base_url, api_key="k", tools=[]) as agent:
            events = await events_of(agent)
    assert [e.type for e in events] == ["retry", "text_delta", "done"]
    assert isinstance(events[0], Retry)
    assert "upstream is full" in events[0].reason


async def test_stop_ends_a_back_off_at_once() -> None:
    provider = ScriptedProvider([failed(wait_s=50.0), "never"])
    agent = Agent(provider, tools=[])
    async with asyncio.timeout(5):
        events = []
        async for event in agent.stream("go"):
            events.append(event)
            agent.stop()
    assert isinstance(events[-1], Done)
    assert (events[-1].outcome, len(provider.requests)) == ("aborted", 1)


BOTCHED = {"type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "{", "message": "no such field"}


async def test_a_call_that_the_vendor_does_not_take_is_asked_for_anew_exactly_once() -> None:
    body = json.dumps({"error": BOTCHED}).encode()
    with FakeVendor() as vendor:
        vendor.replay(body, status=400, headers={"content-type": "application/json"})
        vendor.script("Better.")
        async with Agent("groq/m", base_url=vendor.base_url, api_key="k", tools=[]) as agent:
            assert (await agent.run("go")).text == "Better."
            for _ in range(3):
                vendor.replay(body, status=400, headers={"content-type": "application/json"})
            done = await agent.run("go on")
            assert done.error is not None and done.error.class_ == "invalid_request"
    assert [r.status for r in vendor.requests] == [400, 200, 400, 400]
