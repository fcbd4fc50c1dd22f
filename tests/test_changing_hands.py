"""Conversations that go from model to model and back, each time against a vendor as strict as the real one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from histories import PNG, picture
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    UserMessage,
    calls_of,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.providers.base import CompletionParams, ToolDef
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, call

KEY = "key-0123456789"
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
ROWS = {
    "claude": "anthropic/claude-sonnet-4-5", "chat": "openai-chat/gpt-4o", "responses": "openai/gpt-5.4",
    "gemini": "google/gemini-3-pro-preview",
    "ollama": "ollama/qwen3:8b", "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "nova": "bedrock/us.amazon.nova-2-lite-v1:0", "mistral": "bedrock/mistral.mistral-large-2402-v1:0",
    "cohere": "cohere/command-a-reasoning-08-2025",
}  # fmt: skip
NEW = ("ollama", "bedrock", "nova", "mistral", "cohere")
PAIRS = [pair for pair in itertools.permutations(ROWS, 2) if pair[0] in NEW or pair[1] in NEW]
KINDS = ["plain", "parallel", "thinking", "images", "aborted", "compacted"]
THOUGHTFUL = ("thinking", "aborted", "compacted")


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor(keys=[KEY]) as running:
        yield running


async def ask(vendor: FakeVendor, name: str, history: list[Message], answer: Any, **more: Any) -> AssistantMessage:
    """One exchange with the strict vendor; the reply joins the history."""
    vendor.script([answer])
    provider, model = resolve(ROWS[name], base_url=vendor.base_url, api_key=KEY, environ={})
    try:
        message = await provider.complete(CompletionParams(model, history, system="s", tools=[ADD], **more))
    finally:
        await provider.aclose()
    assert vendor.requests[-1].status == 200
    history.append(message)
    return message


def answer_of(kind: str, n: int) -> list[Any]:
    if kind == "plain":
        return [f"answer {n}"]
    calls = [call("add", id=f"c{n}a", a=n)] + [call("add", id=f"c{n}b", a=n)] * (kind == "parallel")
    thought = [Thinking(text=f"thought {n}")] if kind in THOUGHTFUL else []
    return [*thought, f"answer {n}", *calls]


async def turn(vendor: FakeVendor, name: str, kind: str, n: int, history: list[Message]) -> AssistantMessage:
    """One turn of the user with a model: question, calls, results, a last word or none."""
    shown = Image(media_type="image/png", data=PNG)
    history.append(user_message(f"question {n}", [shown] if kind == "images" else []))
    thinking = {"thinking": "low"} if kind in THOUGHTFUL and name != "chat" else {}
    first = await ask(vendor, name, history, answer_of(kind, n), **thinking)
    made = calls_of(first)
    history += [tool_result(c.id, f"result {n}") for c in made]
    if kind == "images":
        history.append(picture(made[0].id))
    if kind == "aborted":
        history.append(AssistantMessage([Text(text="I was")], ROWS[name], first.api, "aborted"))
    elif made:
        await ask(vendor, name, history, [*answer_of("thinking" if kind in THOUGHTFUL else "plain", n)[:1], "done"])
    return first


def entry(body: dict[str, Any], n: int) -> Any:
    """What the model itself said in turn ``n``. Some models may not speak beside their calls."""
    rows = body.get("contents") or body.get("messages") or body.get("input") or []
    spoken = [r for r in rows if r.get("role") in ("model", "assistant") and "Continue." not in json.dumps(r)]
    marks = (f"answer {n}", f"c{n}a", f'"a": {n}')
    return next(r for r in spoken if any(m in json.dumps(r) for m in marks))


def takes_thinking_back(name: str) -> bool:
    """Whether the model takes its own thinking back."""
    return name != "mistral"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("one", "other"), PAIRS)
async def test_a_conversation_changes_hands(vendor: FakeVendor, one: str, other: str, kind: str) -> None:
    history: list[Message] = []
    if kind == "compacted":
        history.append(UserMessage([Text(text="Notes on what was said before.")], origin="summary"))
    first = await turn(vendor, one, kind, 1, history)
    await ask(vendor, one, [*history, user_message("more")], "ok")  # what its own vendor would get back
    own = entry(vendor.requests[-1].body or {}, 1)
    await turn(vendor, other, kind, 2, history)
    assert "thought 1" not in json.dumps(vendor.requests[-1].body)
    await turn(vendor, one, kind, 3, history)
    body = vendor.requests[-1].body or {}
    assert entry(body, 1) == own
    thinks = takes_thinking_back(one)
    for signature in filter(None, (getattr(b, "signature", None) for b in first.content if thinks)):
        assert signature in json.dumps(own)
    assert "thought 2" not in json.dumps(body)
    assert [r.status for r in vendor.requests] == [200] * len(vendor.requests)


@pytest.mark.parametrize("kind", ["parallel", "thinking", "images"])
@pytest.mark.parametrize(("one", "other"), PAIRS)
async def test_a_tool_loop_changes_hands_between_call_and_answer(
    vendor: FakeVendor, one: str, other: str, kind: str
) -> None:
    history: list[Message] = [user_message("go")]
    first = await ask(vendor, one, history, answer_of(kind, 1))
    history += [tool_result(c.id, "1") for c in calls_of(first)]
    if kind == "images":
        history.append(picture(calls_of(first)[0].id))
    thinking = {"thinking": "low"} if other != "chat" else {}
    assert text_of(await ask(vendor, other, history, answer_of(kind, 2), **thinking))


@pytest.mark.parametrize("stopped", [False, True], ids=["nothing", "stopped"])
@pytest.mark.parametrize("one", ["chat", "claude", "bedrock"])
@pytest.mark.parametrize("other", ["claude", "bedrock"])
async def test_the_user_goes_on_where_a_turn_ended_behind_its_results(
    vendor: FakeVendor, one: str, other: str, stopped: bool
) -> None:
    """The words of the user then stand with the results, and the loop of the calls before them is still open."""
    history: list[Message] = [user_message("go")]
    first = await ask(vendor, one, history, answer_of("parallel", 1))
    history += [tool_result(c.id, "1") for c in calls_of(first)]
    if stopped:
        history.append(AssistantMessage([], model=first.model, api=first.api, stop_reason="aborted"))
    assert text_of(await ask(vendor, other, [*history, user_message("and now?")], "so", thinking="low")) == "so"
    assert [r.status for r in vendor.requests] == [200, 200]
