"""The prompt cache: marks where the vendor wants them, and a word about the block that broke it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from cli_support import environ, orkas
from orkas import Agent, Session, tool
from orkas.infra.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    Usage,
    UserMessage,
    new_id,
    tool_result,
    user_message,
)
from orkas.providers.base import CompletionParams, OutputSchema, Price, Rates, ToolDef
from orkas.providers.prefix import PrefixWatch
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say

PRICE = Price(Rates(3.0, 15.0, 0.3, 3.75))
TOOLS = [ToolDef("read", "Read.", {"type": "object"}), ToolDef("write", "Write.", {"type": "object"})]


class Talk:
    """Two requests of one conversation, the second as a test changes it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = PrefixWatch("anthropic", clock=lambda: self.now)
        self.messages: list[Message] = [user_message("one"), user_message("two"), user_message("three")]
        self.params = CompletionParams("m", self.messages, system="be good", tools=TOOLS, session_id="s")

    def said(self, params: CompletionParams, usage: Usage, price: Price | None = PRICE) -> str:
        return self.watch.heard(params, list(params.messages), usage, price)

    def second(self, read: int = 0, seconds: float = 1.0, **changed: Any) -> str:
        """What is said when the second request reads so much of the 20,000 tokens that the first has left."""
        assert self.said(self.params, Usage(100, 5, 0, 19_900)) == ""
        self.now += seconds
        grown = [*self.messages, user_message("four")]
        params = replace(self.params, **{"messages": grown, **changed})
        return self.said(params, Usage(20_500 - read, 5, read, 0))


@pytest.mark.parametrize(
    ("changed", "block"),
    [
        ({"tools": TOOLS[::-1]}, "the tools stand in another order"),
        ({"tools": TOOLS[:1]}, "the list of tools is another one (write)"),
        ({"tools": [TOOLS[0], ToolDef("write", "Else.", {})]}, "the tool 'write' is described differently"),
        ({"system": "be good at 12:03"}, "the system prompt is another one from character 7 on"),
        ({"system": "be bad"}, "from character 3 on"),
        ({"thinking": "high"}, "thinking went from unset to high"),
        ({"tool_choice": "none"}, "tool_choice went from auto to none"),
        ({"output": OutputSchema("a", {"type": "object"})}, "the form that the answer must have is another one"),
        ({"messages": [user_message("one"), user_message("2")]}, "message 0 is another one"),
    ],
)
def test_the_block_that_broke_the_prefix_is_named_with_its_cost(
    changed: dict[str, Any], block: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "orkas.cache"):
        said = Talk().second(**changed)
    assert block in said
    assert "anthropic/m did not hold: 20,000 of 20,000 tokens" in said and "($0.069)" in said
    assert caplog.messages == [said]


def test_a_message_that_was_rewritten_or_taken_away_is_named_by_its_number() -> None:
    talk = Talk()
    rewritten = [talk.messages[0], user_message("other"), talk.messages[2]]
    assert "message 1 is another one" in talk.second(read=2_000, messages=rewritten)
    talk = Talk()
    assert "message 2 is gone" in talk.second(read=2_000, messages=talk.messages[:2])


def test_nothing_is_said_while_the_cache_holds() -> None:
    assert Talk().second(read=20_000) == ""
    assert Talk().second(read=19_000) == ""  # whole blocks only
    assert Talk().second(read=20_000, system="other") == ""


def test_a_cache_that_was_lost_without_a_fault_of_ours_says_so() -> None:
    assert "nothing was changed here" in Talk().second()
    assert "10 minutes ago and the cache has expired" in Talk().second(seconds=600)


def test_a_compaction_another_model_and_another_conversation_are_no_fault() -> None:
    summary: list[Message] = [UserMessage([Text(text="what was")], origin="summary"), user_message("four")]
    assert Talk().second(messages=summary) == ""
    assert Talk().second(model="other") == ""
    assert Talk().second(session_id="other") == ""
    assert Talk().second(session_id=None) == ""


def test_vendors_without_a_cache_are_left_alone() -> None:
    for price, word in ((None, ""), (Price(Rates(1.0, 1.0)), ""), (PRICE, "system prompt")):
        talk = Talk()
        assert talk.said(talk.params, Usage(20_000, 5), price) == ""
        other = replace(talk.params, system="other")
        said = talk.said(other, Usage(20_000, 5), price)
        assert (word in said) if word else said == ""
        assert talk.said(other, Usage(20_000, 5), price) == ""  # nothing changed, and no cache was ever seen
    talk = Talk()
    assert talk.said(talk.params, Usage(), PRICE) == ""


def test_few_conversations_are_kept() -> None:
    talk = Talk()
    for n in range(50):
        talk.said(replace(talk.params, session_id=f"s{n}"), Usage(100, 5, 0, 19_900))
    assert len(talk.watch._last) <= 8


async def test_a_running_turn_tells_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    usages = [Usage(100, 5, 0, 9_000), Usage(9_200, 5, 0, 0)]
    with FakeVendor([Say(["one"], usage=usages[0]), Say(["two"], usage=usages[1])]) as vendor:
        provider, _ = resolve("anthropic/claude-sonnet-4-5", base_url=vendor.base_url, api_key="k", environ={})
        session = Session()
        with caplog.at_level(logging.INFO, "orkas.cache"):
            await Agent(provider, tools=[], session=session).run("hi")
            assert caplog.messages == []
            await Agent(provider, tools=[], session=session, system="something else").run("and?")
        await provider.aclose()
    [said] = [r.getMessage() for r in caplog.records if r.name == "orkas.cache"]
    assert "anthropic/model did not hold" in said and "the system prompt is another one" in said


# -- marks of Anthropic


def bodies(rounds: Sequence[int]) -> list[tuple[bytes, dict[str, Any]]]:
    """The requests of a conversation whose n-th reply makes so many calls."""
    provider, model = resolve("anthropic/claude-sonnet-4-5", api_key="k", environ={})
    messages: list[Message] = [user_message("go")]
    made = []
    for n, calls in enumerate([0, *rounds]):
        if calls:
            asked = [ToolCall(id=f"c{n}_{i}", name="read", arguments={}) for i in range(calls)]
            name, api = "anthropic/claude-sonnet-4-5", "anthropic_messages"
            messages.append(AssistantMessage([Text(text="I look."), *asked], name, api, "tool_use", id=new_id()))
            messages += [tool_result(c.id, "found") for c in asked]
        raw = provider.request(CompletionParams(model, messages, system="be good", tools=TOOLS)).body
        made.append((raw, json.loads(raw)))
    return made


def marked(body: dict[str, Any]) -> list[tuple[int, int]]:
    """Blocks of messages with a mark."""
    places = [(m, b) for m, message in enumerate(body["messages"]) for b in range(len(message["content"]))]
    return [(m, b) for m, b in places if "cache_control" in body["messages"][m]["content"][b]]


@pytest.mark.parametrize("rounds", [[1] * 5, [30], [1, 30, 1, 40, 2], [9] * 4, [1] * 80 + [25] + [1] * 80 + [25]])
def test_there_are_never_more_than_four_marks_and_each_finds_the_last_request(rounds: list[int]) -> None:
    made = bodies(rounds)
    for (_, before), (raw, body) in pairwise(made):
        assert raw.count(b'"cache_control"') <= 4
        assert "cache_control" in body and "cache_control" in body["system"][-1]
        assert ["cache_control" in t for t in body["tools"]] == [False, True]
        end = len(before["messages"]) - 1, len(before["messages"][-1]["content"]) - 1
        new = sum(len(m["content"]) for m in body["messages"]) - sum(len(m["content"]) for m in before["messages"])
        assert marked(body) == ([end] if new > 18 else [])


def test_marks_apart_consecutive_requests_share_their_beginning() -> None:
    for (before, _), (now, _) in pairwise(bodies([1, 30, 1, 25])):
        mark = b',"cache_control":{"type":"ephemeral"}'
        first, second = (raw.partition(b'"messages":[')[2].replace(mark, b"") for raw in (before, now))
        assert second.startswith(first.removesuffix(b"]}]}"))


def test_the_key_of_the_cache_is_the_session_or_its_hash() -> None:
    for model in ("openai-chat/gpt-5", "mistral/mistral-large-latest"):
        provider, name = resolve(model, api_key="k", environ={})
        keys = []
        for session in ("trip", "x" * 64, "x" * 65, "x" * 64 + "y"):
            params = CompletionParams(name, [user_message("hi")], session_id=session)
            keys.append(json.loads(provider.request(params).body)["prompt_cache_key"])
        assert keys[:2] == ["trip", "x" * 64] and len(set(keys)) == 4 and all(len(k) <= 64 for k in keys)


async def test_the_tools_stand_in_the_same_order_in_every_request() -> None:
    @tool
    def zebra() -> str:
        """Stripes."""
        return "z"

    @tool
    def ape() -> str:
        """Bananas."""
        return "a"

    with FakeVendor(["one", "two"]) as vendor:
        agent = Agent("openai-chat/gpt-4o", tools=[zebra, ape], base_url=vendor.base_url, api_key="k")
        await agent.run("hi")
        await agent.run("hi")
        await agent.aclose()
        first, second = ([t["function"]["name"] for t in (r.body or {})["tools"]] for r in vendor.requests)
    assert first == second == ["zebra", "ape"]


# -- what the command tells


def test_the_command_shows_what_came_from_the_cache() -> None:
    usages = [Usage(100, 5, 0, 9_000), Usage(200, 5, 9_000, 100), Usage(9_400, 5, 0, 0)]
    with FakeVendor([Say([f"reply {n}"], usage=usage) for n, usage in enumerate(usages)]) as vendor:
        env = environ(ANTHROPIC_BASE_URL=vendor.base_url, ANTHROPIC_API_KEY="k")
        for _ in usages:
            ran = orkas("run", "hi", "--model", "anthropic/claude-sonnet-4-5", "--session", "trip", env=env)
            assert ran.status == 0, ran.err
    rows = orkas("request", "--session", "trip", "--cache", "--json").json
    assert [(r["message"], r["prompt"], r["cached"], r["lost"]) for r in rows] == [
        (1, 9_100, 0, 0), (3, 9_300, 9_000, 0), (5, 9_400, 0, 9_300),
    ]  # fmt: skip
    assert rows[2]["lost_usd"] == pytest.approx(9_300 * 3.45 / 1e6)
    human = orkas("request", "--session", "trip", "--cache")
    assert "9,000 (97%)" in human.out and "9,300 ($0.0321)" in human.out and "had held it: 9,300 tokens" in human.err
    orkas("request", "--cache").refused(2, "--session")
