"""A model that refuses, a filter that ends an answer: the vendor's own words reach the user, and nobody asks again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_support import environ, orkas
from orkas import Agent
from orkas.infra.events import Notice
from orkas.testing import FakeVendor

WHY = "This asks for a weapon."


def sse(*events: dict[str, Any], named: bool = False) -> bytes:
    head = (lambda e: f"event: {e['type']}\n") if named else (lambda e: "")
    return "".join(f"{head(e)}data: {json.dumps(e)}\n\n" for e in events).encode()


def claude(text: str, details: dict[str, Any] | None) -> bytes:
    said = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}},
        {"type": "content_block_stop", "index": 0},
    ]
    return sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        *(said if text else []),
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}},
        {"type": "message_stop"}, named=True,
    )  # fmt: skip


def chat(finish: str, **delta: Any) -> bytes:
    return sse({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}) + b"data: [DONE]\n\n"


def responses(status: str, content: list[dict[str, Any]], details: dict[str, Any] | None = None) -> bytes:
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    whole = {"id": "r", "status": status, "output": [item], "incomplete_details": details}
    return sse(
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": whole}, named=True,
    )  # fmt: skip


def gemini(**end: Any) -> bytes:
    return sse({"candidates": [{"index": 0, **end}]})


CASES = {
    "anthropic": ("anthropic/claude-x", claude("", {"type": "refusal", "explanation": WHY}), "refusal", WHY),
    "anthropic, its class": ("anthropic/claude-x", claude("", {"category": "cyber_harm"}), "refusal", "cyber harm"),
    "anthropic, without a reason": ("anthropic/claude-x", claude("", None), "refusal", "refused to answer"),
    "chat": ("openai-chat/gpt-x", chat("stop", content=None, refusal=WHY), "stop", WHY),
    "chat, a filter": ("openai-chat/gpt-x", chat("content_filter", content=""), "content_filter", "filter"),
    "responses": ("openai/gpt-x", responses("completed", [{"type": "refusal", "refusal": WHY}]), "stop", WHY),
    "gemini": ("google/gemini-x", gemini(finishReason="SAFETY", finishMessage=WHY), "content_filter", WHY),
    "gemini, without words": ("google/gemini-x", gemini(finishReason="SPII"), "content_filter", "SPII"),
    "gemini, the prompt": (
        "google/gemini-x", sse({"promptFeedback": {"blockReason": "BLOCKLIST"}}), "content_filter", "blocked (BLOCKLIST)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_without_an_answer_the_turn_ends_with_the_vendors_reason_and_nobody_asks_again(name: str) -> None:
    model, body, stop, reason = CASES[name]
    with FakeVendor() as vendor:
        vendor.replay(body, headers={"content-type": "text/event-stream"})
        vendor.script("never asked for again")
        async with Agent(model, base_url=vendor.base_url, api_key="k", fallback=[model], tools=[]) as agent:
            done = await agent.run("how?")
            assert (done.outcome, done.stop_reason, done.text) == ("failed", stop, "")
            assert done.error is not None and done.error.class_ == "content_filter" and reason in done.error.message
            assert len(vendor.requests) == 1
            assert (await agent.run("then something else")).text == "never asked for again"  # the conversation goes on
        assert [r.status for r in vendor.requests] == [200, 200]


async def test_a_refusal_with_words_is_an_answer_and_its_reason_is_told_beside_it() -> None:
    with FakeVendor() as vendor:
        vendor.replay(claude("I began, but", {"explanation": WHY}), headers={"content-type": "text/event-stream"})
        async with Agent("anthropic/claude-x", base_url=vendor.base_url, api_key="k", tools=[]) as agent:
            told = [event async for event in agent.stream("how?")]
    done: Any = told[-1]
    assert (done.outcome, done.stop_reason, done.text, done.error) == ("completed", "refusal", "I began, but", None)
    assert [e.text for e in told if isinstance(e, Notice)] == [f"The model refused to answer: {WHY}"]


def test_the_command_line_says_why_in_one_sentence() -> None:
    with FakeVendor() as vendor:
        headers = {"content-type": "text/event-stream"}
        vendor.replay(claude("", {"explanation": f"{WHY}\x1b[2J\n" + "long " * 400}), headers=headers)
        env = environ(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=vendor.base_url)
        ran = orkas("run", "--model", "anthropic/claude-x", "--ephemeral", "how?", env=env)
    assert ran.status == 1 and ran.out == ""
    assert f"the model refused to answer: {WHY}" in ran.err and "ask another model" in ran.err
    assert "\x1b" not in ran.err and len(ran.err) < 1_000
