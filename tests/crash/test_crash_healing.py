"""Whatever became of a history, once healed every vendor takes it, and healing it again changes nothing."""

from __future__ import annotations

import json
import os
from random import Random

import pytest
from crash_histories import damaged_history

from orkas.harness.pairing import is_paired, repair
from orkas.infra.messages import encode, user_message
from orkas.providers.anthropic import Anthropic
from orkas.providers.base import CompletionParams, Dialect, ToolDef
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.vendors import table
from orkas.testing.rules import Rejection, check_anthropic, check_openai_chat

HISTORIES = 100_000 if os.environ.get("ORKAS_CRASH") == "full" else 2_000
PARTS = 8
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def refusals(messages: list[object]) -> list[Rejection]:
    """What the vendors say to a request with this history."""
    found = []
    vendors = table()
    for dialect, model, check in (
        (OpenAIChat("openai", vendors["openai"].quirks), "gpt-4o", check_openai_chat),
        (Anthropic("anthropic", vendors["anthropic"].quirks), "claude-sonnet-4-5", check_anthropic),
    ):
        if problem := check(_body(dialect, model, messages)):
            found.append(problem)
    return found


def _body(dialect: Dialect, model: str, messages: list[object]) -> object:
    asked = [*messages, user_message("go on")]
    params = CompletionParams(model=model, messages=asked, tools=[ADD], max_output=100)  # type: ignore[arg-type]
    return json.loads(dialect.request(params, base_url="http://h/v1", api_key="k").body)


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
