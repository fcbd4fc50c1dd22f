"""What a reply costs, and the limit of a turn that no request passes."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_support import environ, orkas
from orkas import Agent
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.events import Done, Event
from orkas.infra.messages import Text, Usage, text_of
from orkas.providers.base import FREE, CompletionParams, ModelInfo, Price, Rates
from orkas.providers.catalog import model_info
from orkas.testing import FakeVendor, Say, ScriptedProvider, call

PRICE = Price(Rates(3.0, 15.0, 0.3, 3.75), tiers=((200_000, Rates(6.0, 22.5, 0.6, 7.5)),))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(1_000_000, 0), 6.0),  # more than the step: the whole request is dearer
        (Usage(200_000, 0), 0.6),
        (Usage(1, 0, 200_000), (6 + 200_000 * 0.6) / 1e6),
        (Usage(1_000, 2_000, 10_000, 4_000, 500), (3_000 + 30_000 + 3_000 + 15_000) / 1e6),
        (Usage(0, 0, 0, 0), 0.0),
        (Usage(None, 5), None),
        (Usage(5, None), None),
    ],
)
def test_a_reply_costs_what_its_tokens_cost(usage: Usage, cost: float | None) -> None:
    assert PRICE.cost(usage) == (None if cost is None else pytest.approx(cost))


def test_a_price_that_is_needed_and_not_known_makes_the_cost_unknown() -> None:
    price = Price(Rates(1.0, 2.0))
    assert price.cost(Usage(10, 10)) == pytest.approx(30e-6)
    assert price.cost(Usage(10, 10, 0, 0)) == pytest.approx(30e-6)
    assert price.cost(Usage(10, 10, cache_read=1)) is None
    assert price.cost(Usage(10, 10, cache_write=1)) is None
    assert FREE.cost(Usage()) == 0.0


tokens = st.integers(0, 10**7)


@given(tokens, tokens, tokens, tokens)
def test_what_a_reply_costs_at_most_is_never_less_than_its_cost(fresh: int, out: int, read: int, write: int) -> None:
    usage = Usage(fresh, out, read, write)
    cost = PRICE.cost(usage)
    assert cost is not None and PRICE.most(usage) == pytest.approx(cost)
    assert Price(Rates(3.0, 15.0)).most(usage) >= Price(Rates(3.0, 15.0, 0.3, 3.75)).most(usage)


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("anthropic/claude-sonnet-4-5", Usage(1_000, 200, 5_000, 400), (3_000 + 3_000 + 1_500 + 1_500) / 1e6),
        ("openai/gpt-4o", Usage(1_000, 200, 5_000), (2_500 + 2_000 + 6_250) / 1e6),
        ("google/gemini-2.5-pro", Usage(1_000, 200, 5_000), (1_250 + 2_000 + 625) / 1e6),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", Usage(1_000, 200, 5_000), 3.3e-6 * (1_000 + 1_000 + 500)),
        ("cohere/command-a-03-2025", Usage(1_000, 200), (2_500 + 2_000) / 1e6),
        ("ollama/llama3.2:3b", Usage(1_000, 200), 0.0),
        ("ollama-chat/llama3.2:3b", Usage(1_000, 200), 0.0),
        ("openai/gpt-4o-of-tomorrow", Usage(1_000, 200), None),
        ("custom/gpt-4o", Usage(1_000, 200), None),
    ],
)
async def test_every_dialect_tells_what_a_reply_cost(model: str, usage: Usage, cost: float | None) -> None:
    with FakeVendor([Say(["hello"], usage=usage)]) as vendor:
        agent = Agent(model, tools=[], base_url=vendor.base_url, api_key="k")
        done = await agent.run("hi")
        await agent.aclose()
    assert done.usage.cost_usd == (None if cost is None else pytest.approx(cost))
    assert agent.session.records()[-1]["usage"].get("cost_usd") == done.usage.cost_usd


async def test_what_the_vendor_says_it_cost_counts() -> None:
    with FakeVendor() as vendor:
        chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.25}
        said = [chunk, {"id": "c", "choices": [], "usage": usage}]
        body = b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in said) + b"data: [DONE]\n\n"
        vendor.replay(body, headers={"content-type": "text/event-stream"})
        agent = Agent("openrouter/openai/gpt-4o", tools=[], base_url=vendor.base_url, api_key="k")
        assert (await agent.run("hi")).usage.cost_usd == 0.25
        await agent.aclose()


# -- the limit


CHEAP = Price(Rates(1.0, 10.0))


def provider(replies: list[Any], price: Price | None = CHEAP) -> ScriptedProvider:
    return ScriptedProvider(replies, info=ModelInfo(200_000, 8_192, price=price))


def paid(*pieces: Any, usage: Usage) -> Any:
    """A scripted reply with this usage."""

    def reply(_: Any) -> Any:
        from orkas.infra.messages import AssistantMessage, ToolCall

        content = [p if isinstance(p, ToolCall) else Text(text=p) for p in pieces]
        reason = "tool_use" if any(isinstance(p, ToolCall) for p in pieces) else "stop"
        return AssistantMessage(content, "scripted/model", "scripted", reason, usage)

    return reply


async def events_of(agent: Agent) -> tuple[list[Event], Done]:
    async with aclosing(agent.stream("go")) as stream:
        events = [event async for event in stream]
    done = events[-1]
    assert isinstance(done, Done)
    return events, done


def again(n: int) -> Any:
    return call("list_files", path=f"d{n}")


async def test_a_turn_ends_before_the_request_that_would_pass_the_limit() -> None:
    scripted = provider([paid(again(n), usage=Usage(1_000, 40_000)) for n in range(9)])
    agent = Agent(scripted, max_cost=1.0)
    _, done = await events_of(agent)
    assert (done.outcome, done.stop_reason, done.error) == ("completed", "max_cost", None)
    assert len(scripted.requests) == done.rounds == 3  # 0.401, 0.802, then 1.203: no request is made beyond the limit
    assert "cost limit of $1" in done.text and "continue" in done.text
    assert text_of(agent.session.messages[-1]) == done.text
    await agent.aclose()


@given(
    limit=st.floats(0.001, 2.0), rates=st.tuples(st.floats(0.1, 20.0), st.floats(0.1, 90.0)),
    wanted=st.lists(st.integers(1, 200_000), min_size=1, max_size=6), cached=st.booleans(),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_whatever_a_model_writes_the_limit_holds(
    limit: float, rates: tuple[float, float], wanted: list[int], cached: bool
) -> None:
    price = Price(Rates(*rates, rates[0] / 10, rates[0] * 1.25))
    meters: list[Any] = []
    cache = [0]

    def reply(tokens: int) -> Any:
        def said(params: CompletionParams) -> Any:
            load = meters[0].load(params, ModelInfo(200_000, 8_192))
            prompt = load.messages + load.fixed
            written = min(tokens, params.max_output or 8_192)  # as every vendor keeps to
            usage = Usage(0, written, cache[0], prompt - cache[0]) if cached else Usage(prompt, written)
            cache[0] = prompt
            return paid(again(tokens), usage=replace(usage, cost_usd=price.cost(usage)))(params)

        return said

    scripted = ScriptedProvider([*map(reply, wanted), "done"], info=ModelInfo(200_000, 8_192, price=price))
    agent = Agent(scripted, tools=[], max_cost=limit)
    meters.append(agent._meter)
    done = agent.run_sync("go")
    assert done.outcome == "completed" and (done.usage.cost_usd or 0) <= limit * (1 + 1e-9)


async def test_an_answer_may_be_no_longer_than_can_be_paid_for() -> None:
    scripted = provider(["fine"])
    agent = Agent(scripted, tools=[], max_cost=0.02)
    _, done = await events_of(agent)
    assert done.stop_reason == "stop"
    limit = scripted.requests[0].max_output
    assert limit is not None and 64 <= limit < 2_000  # 0.02 USD buy 2,000 tokens of output less the prompt


async def test_a_limit_that_is_far_changes_no_request() -> None:
    scripted = provider(["fine"])
    await Agent(scripted, tools=[], max_cost=100.0).run("go")
    assert scripted.requests[0].max_output is None


async def test_a_limit_that_pays_for_nothing_makes_no_request_at_all() -> None:
    scripted = provider(["never said"])
    agent = Agent(scripted, max_cost=0.0001)
    events, done = await events_of(agent)
    assert (done.stop_reason, done.rounds, scripted.requests) == ("max_cost", 0, [])
    assert [e.type for e in events] == ["text_delta", "done"]
    again = await agent.run("and now?")  # each turn has the limit for itself
    assert again.stop_reason == "max_cost"


async def test_what_is_not_counted_is_estimated() -> None:
    scripted = provider([paid(again(n), usage=Usage()) for n in range(500)], Price(Rates(100.0, 1_000.0)))
    done = await Agent(scripted, max_cost=2.0, max_rounds=400).run("go")
    assert done.stop_reason == "max_cost" and 1 <= done.rounds < 40
    assert done.usage.cost_usd is None


async def test_a_cut_answer_that_cannot_be_gone_on_with_says_so() -> None:
    from orkas.infra.messages import AssistantMessage

    cut = AssistantMessage([Text(text="Half of it")], "scripted/model", "scripted", "length", Usage(10, 5, cost_usd=0.9))
    scripted = provider([cut], Price(Rates(1.0, 2_000.0)))
    agent = Agent(scripted, tools=[], max_cost=1.0)
    events, done = await events_of(agent)
    assert (done.outcome, done.stop_reason, len(scripted.requests)) == ("completed", "max_cost", 1)
    assert done.text.startswith("Half of it\n\nStopped") and "cost limit" in done.text
    assert "".join(e.text for e in events if e.type == "text_delta") == done.text


async def test_summaries_count_and_are_not_made_beyond_the_limit() -> None:
    long = "word " * 3_000

    def talk(limit: float) -> tuple[ScriptedProvider, Agent]:
        said = ["one", "## Goal\nTo go on with the words that were given, as asked.", "fine"]
        replies = [paid(text, usage=Usage(10, 5, cost_usd=0.4)) for text in said]
        price = Price(Rates(1.0, 1.0))
        scripted = ScriptedProvider(replies, info=ModelInfo(9_000, 1_000, price=price))
        return scripted, Agent(scripted, tools=[], max_cost=limit)

    scripted, agent = talk(10.0)
    await agent.run(long)
    done = await agent.run(long)
    assert (done.text, len(scripted.requests)) == ("fine", 3)
    assert done.usage.cost_usd == pytest.approx(0.8)  # the summary and the answer

    scripted, agent = talk(0.4001)
    await agent.run(long)
    done = await agent.run(long)
    assert (done.stop_reason, len(scripted.requests)) == ("max_cost", 2)
    assert done.usage.cost_usd == pytest.approx(0.4)


def test_a_limit_needs_a_known_price() -> None:
    with pytest.raises(UsageError, match="price of scripted/model is not known"):
        Agent(provider([], None), max_cost=1.0)
    agent = Agent(provider([]), max_cost=1.0)
    with pytest.raises(UsageError, match="price"):
        agent.use("openai/nobody-knows")
    assert agent.model == "scripted/model"
    for bad in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="max_cost"):
            Agent(provider([]), max_cost=bad)


def test_who_takes_over_needs_a_known_price_too() -> None:
    with pytest.raises(UsageError, match=r"fallback: .*price of scripted/model is not known"):
        Agent(provider([]), fallback=provider([], None), max_cost=1.0)


async def test_a_model_that_takes_over_spends_from_the_same_limit_at_its_own_price() -> None:
    dear = ScriptedProvider(
        [paid(again(n), usage=Usage(1_000, 5_800)) for n in range(9)], model="dear",
        info=ModelInfo(200_000, 8_192, price=Price(Rates(10.0, 100.0))),
    )  # fmt: skip
    gone = ProviderError("no such model", class_="not_found")
    cheap = provider([paid(again(10), usage=Usage(1_000, 40_000)), gone])
    agent = Agent(cheap, fallback=dear, max_cost=1.0)
    _, done = await events_of(agent)
    assert (done.outcome, done.stop_reason, done.model) == ("completed", "max_cost", "scripted/dear")
    assert (len(cheap.requests), len(dear.requests)) == (2, 1)  # 0.401 and 0.59: another answer would pass
    assert dear.requests[0].max_output is not None and dear.requests[0].max_output < 8_192


async def test_an_answer_without_its_form_is_not_asked_for_again_beyond_the_limit() -> None:
    scripted = provider([paid("Oslo.", usage=Usage(1_000, 99_900))])
    agent = Agent(scripted, tools=[], max_cost=1.0, output={"type": "object", "properties": {"a": {"type": "string"}}})
    events, done = await events_of(agent)
    assert (done.outcome, len(scripted.requests), done.output) == ("failed", 1, None)
    assert done.error is not None and "form" in done.error.message and "cost limit" in done.error.message
    assert done.text == text_of(agent.session.messages[-1]) == "Oslo."
    assert [e.type for e in events if e.type in ("text_delta", "retry")] == ["text_delta", "retry", "text_delta"]


async def test_what_costs_nothing_has_no_limit() -> None:
    scripted = provider([paid(again(0), usage=Usage(10**6, 10**6)), "fine"], FREE)
    assert (await Agent(scripted, max_cost=0.01).run("go")).stop_reason == "stop"


def test_the_command_keeps_a_limit_and_refuses_what_it_cannot() -> None:
    orkas("run", "x", "--max-cost", "1", "--model", "custom/m", env=environ(CUSTOM_BASE_URL="http://h")).refused(2, "price")
    orkas("run", "x", "--max-cost", "-1", "--model", "openai/gpt-4o").refused(2, "--max-cost")
    with FakeVendor() as vendor:
        env = environ(OPENAI_BASE_URL=vendor.base_url, OPENAI_API_KEY="k")
        ran = orkas("run", "x", "--json", "--max-cost", "0.00001", "--model", "openai-chat/gpt-4o", env=env)
        assert ran.status == 0 and vendor.requests == []
    assert ran.events[-1]["stop_reason"] == "max_cost"


def test_the_statistics_show_the_cost() -> None:
    usage = Usage(1_000_000, 0)
    with FakeVendor([Say(["one"], usage=usage), Say(["two"], usage=usage)]) as vendor:
        env = environ(OPENAI_BASE_URL=vendor.base_url, OPENAI_API_KEY="k")
        for model in ("gpt-4o", "gpt-nobody-knows"):
            assert orkas("run", "x", "--model", f"openai-chat/{model}", env=env).status == 0
    assert ">= $2.50" in orkas("stats").out
    total = orkas("stats", "--json").json["total"]
    assert (total["cost_usd"], total["cost_complete"]) == (2.5, False)


def test_no_price_in_the_catalogue_is_nothing_by_accident() -> None:
    assert model_info("openai", "gpt-4o").price is not None
    assert model_info("groq", "whatever").price is None
