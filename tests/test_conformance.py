"""All dialects keep what the harness relies on: one suite, held against each of them and the vendors' strict fakes."""

from __future__ import annotations

import doctest
import os
from collections.abc import Iterator
from typing import Any

import pytest

from orkas.infra.errors import ProviderError
from orkas.infra.messages import Thinking, calls_of, text_of
from orkas.providers.anthropic import Anthropic
from orkas.providers.base import Dialect
from orkas.providers.bedrock import Bedrock
from orkas.providers.cohere import Cohere
from orkas.providers.google import Google
from orkas.providers.http import HttpProvider
from orkas.providers.ollama import Ollama
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.openai_responses import OpenAIResponses
from orkas.providers.registry import resolve
from orkas.providers.vendors import Vendor
from orkas.testing import FakeVendor, Say, call, conformance
from orkas.testing.rendering import as_json, as_stream

MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5", "claude without signs of thought": "anthropic/claude-3-5-haiku-latest",
    "chat": "openai-chat/gpt-4o", "deepseek": "deepseek/deepseek-reasoner", "mistral": "mistral/magistral-medium-latest",
    "openrouter": "openrouter/anthropic/claude-sonnet-4.5", "groq": "groq/openai/gpt-oss-120b",
    "responses": "openai/gpt-5.4", "xai": "xai/grok-4", "gemini": "google/gemini-3-pro-preview",
    "gemini 2.5": "google/gemini-2.5-flash", "ollama": "ollama/qwen3:8b",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "nova": "bedrock/us.amazon.nova-2-lite-v1:0",
    "cohere": "cohere/command-a-reasoning-08-2025",
}  # fmt: skip
FULL = bool(os.environ.get("ORKAS_FULL"))
BARE = {"ollama", "bedrock", "nova", "cohere"}
"""Reached below another path than ``/v1``."""
LEFT_OUT = {
    ("openai_responses", "refusal"): "a refusal is a text of its own kind, and the reply ends like any other",
    ("cohere_chat", "refusal"): "no such end",
    ("ollama_chat", "refusal"): "no such end",
    ("ollama_chat", "content_filter"): "no such end",
    ("openai_chat", "overflow"): "no such end",
    ("google_generate_content", "overflow"): "no such end",
    ("ollama_chat", "overflow"): "no such end",
    ("cohere_chat", "overflow"): "no such end",
    ("ollama_chat", "broken_arguments"): "the server parses calls, and what it cannot parse stays text",
    ("ollama_chat", "cached_usage"): "not told",
    ("mistral", "usage"): "told without being asked, but not by OpenAI's fake",
    ("mistral", "cached_usage"): "the same",
    ("groq", "usage"): "the same",
    ("groq", "cached_usage"): "the same",
}  # fmt: skip
"""What a wire has no word for, by the dialect or the row."""


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


@pytest.mark.parametrize("case", conformance.CASES)
@pytest.mark.parametrize("name", MODELS)
async def test_the_adapter_conforms(vendor: FakeVendor, name: str, case: str) -> None:
    url = vendor.base_url if name in BARE else f"{vendor.base_url}/v1"
    provider, model = resolve(MODELS[name], base_url=url, api_key="k", environ={})
    if why := LEFT_OUT.get((provider.api, case)) or LEFT_OUT.get((name, case)):
        pytest.skip(why)
    try:
        await conformance.check(provider, model, vendor, case)
    finally:
        await provider.aclose()


# ------------------------------------------------------------------ readers, without a socket

DIALECTS: dict[str, tuple[Dialect, Any]] = {
    "anthropic": (Anthropic(), "anthropic"), "chat": (OpenAIChat(), "openai"),
    "responses": (OpenAIResponses(), "responses"), "google": (Google(), "google"), "ollama": (Ollama(), "ollama"),
    "bedrock": (Bedrock(), "bedrock"), "cohere": (Cohere(), "cohere"),
}  # fmt: skip
ASKED = {"stream_options": {"include_usage": True}}
"""Where usage must be asked for."""
each_dialect = pytest.mark.parametrize("name", DIALECTS)
SAID = Say(
    [Thinking(text="Hm, 世界 🙂."), "Grüße", " 🙂", "\r\n\n", *(call("add", id=f"c{n}", a=n, b="é世🙂") for n in range(3))],
    fragment=3,
)  # fmt: skip


def stream_of(name: str, say: Say = SAID) -> bytes:
    return b"".join(piece for piece in as_stream(say, DIALECTS[name][1], ASKED) if isinstance(piece, bytes))


@each_dialect
def test_a_stream_reads_the_same_however_it_is_cut(name: str) -> None:
    message = conformance.read_every_way(DIALECTS[name][0], stream_of(name), cuts=200 if FULL else 20)
    assert text_of(message) == "Grüße 🙂\r\n\n"
    assert [b.text for b in message.content if isinstance(b, Thinking)] == ["Hm, 世界 🙂."]
    assert [c.arguments for c in calls_of(message)] == [{"a": n, "b": "é世🙂"} for n in range(3)]


@each_dialect
def test_a_body_in_one_piece_says_what_the_stream_says(name: str) -> None:
    dialect, api = DIALECTS[name]
    streamed = conformance.read_every_way(dialect, stream_of(name), cuts=0)
    whole = conformance.read_every_way(dialect, as_json(SAID, api, {}))
    for one, other in zip(streamed.content, whole.content, strict=True):
        assert type(one) is type(other)
    assert text_of(whole) == text_of(streamed) and whole.stop_reason == streamed.stop_reason
    assert [(c.name, c.arguments) for c in calls_of(whole)] == [(c.name, c.arguments) for c in calls_of(streamed)]
    assert whole.usage == streamed.usage


@each_dialect
def test_a_stream_that_stops_anywhere_is_no_reply(name: str) -> None:
    """Cut after each of its bytes, a stream is told as broken off until all that counts is there."""
    dialect, body = DIALECTS[name][0], stream_of(name)
    whole = False
    for end in range(len(body) + 1):
        _, message, error = conformance.read(dialect.reader(model="v/m"), [body[:end]])
        if error is None:
            whole = True
            assert len(calls_of(message)) == 3 and all(c.arguments is not None for c in calls_of(message))
        else:
            assert error.class_ == "connection" and not whole
            assert all(c.arguments is None for c in calls_of(message))
    assert whole


def test_the_example_is_true() -> None:
    assert doctest.testmod(conformance).failed == 0


async def test_an_adapter_that_does_not_conform_is_told(vendor: FakeVendor) -> None:
    """The suite can fail: here, a reader that takes a stream for whole that broke off."""

    class Careless(OpenAIChat):
        def reader(self, *, model: str) -> Any:
            return Guessing(super().reader(model=model))

    class Guessing:
        def __init__(self, reader: Any) -> None:
            self._reader = reader
            self.brisk = False

        @property
        def done(self) -> bool:
            return bool(self._reader.done)

        def feed(self, data: bytes) -> Any:
            return self._reader.feed(data)

        def close(self) -> Any:
            try:
                return self._reader.close()
            except ProviderError:
                message = self._reader.partial()
                message.stop_reason = "stop"
                return message

    row = Vendor(dialect="openai_chat", local=True)
    url = f"{vendor.base_url}/v1"
    provider = HttpProvider("mine", row, Careless("mine"), base_url=url, api_key="k", key_name="")

    await conformance.check(provider, "m", vendor, "text")
    with pytest.raises(AssertionError, match="taken for a whole one"):
        await conformance.check(provider, "m", vendor, "broken_off")
    await provider.aclose()
