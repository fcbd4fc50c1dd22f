"""A conversation changes its model: what one vendor wrote, the next one takes; back at the first, it has all it gave."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    calls_of,
    decode_message,
    encode,
    user_message,
)  # fmt: skip
from orkas.infra.net import Http
from orkas.providers.base import CompletionParams, LLMProvider, ToolDef
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say, call

PNG = "iVBORw0KGgo="
MODELS = {"anthropic": "anthropic/claude-sonnet-4-5", "chat": "openai-chat/gpt-4o", "responses": "openai/gpt-5.4"}
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": []})
THOUGHT = Thinking(text="hm")
TURNS: dict[str, list[Any]] = {
    "plain": ["sure", ". Yes."],
    "parallel": ["I add", call("add", id="call_a", a=1), call("add", id="call_b", a=2)],
    "thinking": [THOUGHT, "so"],
    "thinking and calls": [THOUGHT, "I add", call("add", id="call_a", a=1), call("add", id="call_b", a=2)],
    "images": ["look", call("add", id="call_a", a=1)],
    "long ids": [call("add", id="call_" + "x" * 70, a=1)],
}
"""What a model says in one turn."""


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    shared = Http()
    yield shared
    await shared.aclose()


def speakers(vendor: FakeVendor, http: Http) -> dict[str, tuple[LLMProvider, str]]:
    """One provider for each dialect, as a long-lived process has them."""
    return {
        name: resolve(model, base_url=f"{vendor.base_url}/v1", api_key="k", environ={}, http=http)
        for name, model in MODELS.items()
    }


async def turn(speaker: tuple[LLMProvider, str], history: list[Message]) -> None:
    """Ask, and go on until there are no calls left. Everything that is said is stored and read back."""
    provider, model = speaker
    thinking: Any = "low" if "claude" in model or "gpt-5" in model else None
    while True:
        params = CompletionParams(model, list(history), tools=[ADD], thinking=thinking, max_output=9_000)
        message = await provider.complete(params)
        history.append(stored(message))
        if not (calls := calls_of(message)):
            return
        history.extend(ToolMessage(c.id, [Text(text=f"result of {c.id}")]) for c in calls)


def stored(message: Message) -> Message:
    found = decode_message(encode(message))
    assert found is not None
    return found


def question(kind: str) -> UserMessage:
    pictures = [Image(media_type="image/png", data=PNG)] if kind == "images" else []
    return user_message("go on", pictures)


def broken_off(message: AssistantMessage) -> AssistantMessage:
    """The same, as it is kept when the user stops it: no call of it stands."""
    content = [b for b in message.content if not isinstance(b, type(call("x")))]
    return AssistantMessage(content, message.model, message.api, "aborted")


def written(vendor: FakeVendor) -> list[Any]:
    body = vendor.requests[-1].body
    assert body is not None and vendor.requests[-1].status == 200
    found: list[Any] = body["messages"] if "messages" in body else body["input"]
    return found


ROUTES = [(a, b) for a, b in itertools.product(MODELS, repeat=2) if a != b]
each_route = pytest.mark.parametrize(("first", "second"), ROUTES, ids=lambda n: n)
each_kind = pytest.mark.parametrize("kind", TURNS)


@each_route
@each_kind
async def test_another_model_takes_the_conversation_and_the_first_has_its_own_back(
    vendor: FakeVendor, http: Http, first: str, second: str, kind: str
) -> None:
    said = speakers(vendor, http)
    history: list[Message] = [question(kind)]
    answers = [TURNS[kind], *(["done"] if calls_in(kind) else [])]
    vendor.script([*answers, "noted"])
    await turn(said[first], history)
    history.append(question(kind))
    await turn(said[first], history)
    own = written(vendor)

    vendor.script([*answers, "noted"])
    history.append(question(kind))
    await turn(said[second], history)
    history.append(question(kind))
    await turn(said[second], history)

    vendor.script(["back"])
    history.append(question(kind))
    await turn(said[first], history)
    again = written(vendor)
    assert json.dumps(again[: len(own)]) == json.dumps(own)
    if "thinking" in kind and first != "chat":
        sealed = [s for s in vendor.signatures if s in json.dumps(own)]
        assert sealed and all(s in json.dumps(again) for s in sealed)
    assert all(r.status == 200 for r in vendor.requests)


def calls_in(kind: str) -> bool:
    return any(isinstance(p, type(call("x"))) for p in TURNS[kind])


@each_route
@each_kind
@pytest.mark.parametrize("text", [True, False], ids=["with words", "without"])
async def test_another_model_takes_a_turn_that_was_stopped(
    vendor: FakeVendor, http: Http, first: str, second: str, kind: str, text: bool
) -> None:
    said = speakers(vendor, http)
    pieces = [p for p in TURNS[kind] if text or not isinstance(p, str)] or [THOUGHT]
    vendor.script([pieces, "and", "then"])
    history: list[Message] = [question(kind)]
    provider, model = said[first]
    message = stored(await provider.complete(CompletionParams(model, list(history), max_output=9_000)))
    assert isinstance(message, AssistantMessage)
    history += [broken_off(message), question(kind)]
    await turn(said[second], history)
    history.append(question(kind))
    await turn(said[first], history)
    assert [r.status for r in vendor.requests] == [200] * 3


@each_route
async def test_many_changes_share_their_beginnings(vendor: FakeVendor, http: Http, first: str, second: str) -> None:
    """Each vendor sees its own earlier request continued, byte for byte, whatever was said to others in between."""
    said = speakers(vendor, http)
    history: list[Message] = []
    last: dict[str, bytes] = {}
    for number in range(6):
        name = (first, second)[number % 2]
        vendor.script([[THOUGHT, f"{number}", call("add", a=number)], Say([f"done {number}"])])
        history.append(user_message(f"question {number}"))
        await turn(said[name], history)
        raw = vendor.requests[-1].raw
        if name in last:
            assert raw.startswith(last[name].rstrip(b"]}"))
        last[name] = raw
    assert all(r.status == 200 for r in vendor.requests)
