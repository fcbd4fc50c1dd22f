"""Whatever became of a history, once healed every vendor takes it, and healing it again changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any

import pytest
from crash_histories import damaged_history

from orkas.harness.pairing import is_paired, repair
from orkas.infra.messages import encode, user_message
from orkas.providers.base import CompletionParams, LLMProvider, ToolDef
from orkas.providers.registry import resolve
from orkas.testing import rules

HISTORIES = 100_000 if os.environ.get("ORKAS_CRASH") == "full" else 2_000
PARTS = 8
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
GEMINI, CONVERSE = "gemini-3-pro-preview", "anthropic.claude-sonnet-4-5-20250929-v1:0"
VENDORS: dict[str, Callable[[Any], rules.Rejection | None]] = {
    "openai/gpt-5": rules.check_openai_responses,
    "openai-chat/gpt-4o": rules.check_openai_chat,
    "anthropic/claude-sonnet-4-5": rules.check_anthropic,
    f"google/{GEMINI}": partial(rules.check_google, model=GEMINI),
    f"bedrock/{CONVERSE}": partial(rules.check_bedrock, model=CONVERSE),
    "ollama/qwen3": rules.check_ollama,
    "cohere/command-a-03-2025": rules.check_cohere,
}
"""One model for each dialect, and what its vendor says to a request."""


@cache
def provider(model: str) -> tuple[LLMProvider, str]:
    return resolve(model, api_key="k", environ={"AWS_REGION": "eu-west-1"})


def refusals(messages: list[object]) -> list[tuple[str, rules.Rejection]]:
    """What the vendors say to a request with this history."""
    return [(model, found) for model, check in VENDORS.items() if (found := check(_body(model, messages)))]


def _body(name: str, messages: list[object]) -> object:
    dialect, model = provider(name)
    asked = [*messages, user_message("go on")]
    params = CompletionParams(model=model, messages=asked, tools=[ADD], max_output=100)  # type: ignore[arg-type]
    return json.loads(dialect.request(params).body)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_healed_history_is_taken_by_every_vendor(part: int):
    for seed in range(part, HISTORIES, PARTS):
        history = damaged_history(Random(seed))
        healed = repair(history)
        assert is_paired(healed.messages), seed
        again = repair(healed.messages)
        assert not again.changed, seed
        assert all(x is y for x, y in zip(again.messages, healed.messages, strict=True)), seed
        lines = [encode(m) for m in repair(list(history)).messages]
        assert lines == [encode(m) for m in healed.messages], seed
        assert not refusals(healed.messages), seed


def test_the_vendors_refuse_most_of_what_is_not_healed():
    """Rules that let everything pass would prove nothing."""
    broken = [h for h in (damaged_history(Random(seed)) for seed in range(100)) if not is_paired(h)]
    assert sum(bool(refusals(h)) for h in broken) > len(broken) / 2
