"""A conversation changes its model: what one vendor wrote, the next one takes; back at the first, it has all it gave."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from orkas import Agent
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
    calls_of,
    decode_message,
    encode,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.infra.net import Http
from orkas.providers.base import CompletionParams, LLMProvider, ToolDef
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say, call
from published import validated

PNG = "iVBORw0KGgo="
MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5", "chat": "openai-chat/gpt-4o", "responses": "openai/gpt-5.4",
    "google": "google/gemini-3-pro-preview", "google without levels": "google/gemini-2.5-flash",
}  # fmt: skip
"""One for each dialect, and where models of one vendor differ in what they take, two."""
KIN = {
    "deepseek": "deepseek/deepseek-chat", "vertex": "vertex/gemini-3-pro-preview",
    "vertex-anthropic": "vertex-anthropic/claude-sonnet-4-5@20250929", "azure": "azure/gpt-5.4",
    "ollama": "ollama/qwen3:8b", "cohere": "cohere/command-a-reasoning-08-2025",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "nova": "bedrock/us.amazon.nova-2-lite-v1:0",
}  # fmt: skip
"""The same dialects at other vendors, and further dialects, whose changes of hands stand in ``test_changing_hands``."""
OWN_PATHS = {"ollama", "cohere", "bedrock", "nova"}
"""Those that are reached below another path than ``/v1``."""
SEALING = {"anthropic", "responses", "google"}
"""Those that give out what must come back as it was."""
ENVIRON = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-east5"}
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": []})
TWO = [call("add", id="call_a", a=1), call("add", id="call_b", a=2)]
KINDS: dict[str, list[Any]] = {
    "plain": ["sure", ". Yes."],
    "parallel": ["I add", *TWO],
    "thinking": [Thinking(text="hm"), "so"],
    "thinking and calls": [Thinking(text="hm"), "I add", *TWO],
    "images": ["look", *TWO[:1]],
    "long ids": [call("add", id="call_" + "x" * 70, a=1)],
    "aborted": [Thinking(text="hm"), "I add", *TWO],
    "compacted": [Thinking(text="hm"), "I add", *TWO],
}
"""What a model says in one turn. Thoughts are told apart by who has them."""

each_route = pytest.mark.parametrize(("first", "second"), list(itertools.permutations(MODELS, 2)), ids=lambda n: n)
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    shared = Http()
    yield shared
    await shared.aclose()


class Speaker:
    """A model as a long-lived process has it, and what it says."""

    def __init__(self, name: str, vendor: FakeVendor, http: Http) -> None:
        self.name = name
        self._vendor = vendor
        self.provider: LLMProvider
        base = vendor.base_url if name in OWN_PATHS else f"{vendor.base_url}/v1"
        model = (MODELS | KIN)[name]
        self.provider, self.model = resolve(model, base_url=base, api_key="k", environ=ENVIRON, http=http)

    def pieces(self, kind: str) -> list[Any]:
        return [Thinking(text=self.thought) if isinstance(p, Thinking) else p for p in KINDS[kind]]

    @property
    def thought(self) -> str:
        return f"{self.name} ponders"

    async def ask(self, history: list[Message], answer: Any) -> AssistantMessage:
        """One exchange with the strict vendor. The reply joins the history as it is read back from a session."""
        self._vendor.script([answer])
        thinks = "claude" in self.model or "gpt-5" in self.model or "gemini" in self.model
        message = await self.provider.complete(CompletionParams(
            self.model, list(history), tools=[ADD], thinking="low" if thinks else None, max_output=9_000,
        ))  # fmt: skip
        request = self._vendor.requests[-1]
        assert request.status == 200
        if "google" in self.provider.api:
            validated(request.body or {})
        history.append(stored(message))
        return message

    async def turn(self, history: list[Message], kind: str) -> bytes:
        """Question, calls, results, a last word. Returns the last request."""
        history.append(question(kind))
        message = await self.ask(history, self.pieces(kind))
        if kind == "aborted":
            history[-1] = broken_off(message)
        elif calls := calls_of(message):
            history.extend(results(kind, calls))
            await self.ask(history, "done")
        return self._vendor.requests[-1].raw


def stored(message: Message) -> Message:
    found = decode_message(encode(message))
    assert found is not None
    return found


def question(kind: str) -> UserMessage:
    return user_message("go on", [Image(media_type="image/png", data=PNG)] if kind == "images" else [])


def results(kind: str, calls: list[ToolCall]) -> list[Message]:
    """What the tools said; a picture stands behind the results, as sessions keep it."""
    said: list[Message] = [tool_result(c.id, f"result of {c.id}") for c in calls]
    if kind == "images":
        picture = Image(media_type="image/png", data=PNG)
        said.append(UserMessage([picture], origin="tool_image", tool_call_id=calls[0].id))
    return said


def broken_off(message: AssistantMessage) -> AssistantMessage:
    """The same, as it is kept when the user stops it: no call of it stands."""
    content = [b for b in message.content if not isinstance(b, ToolCall)]
    return AssistantMessage(content, message.model, message.api, "aborted")


def beginning(kind: str) -> list[Message]:
    """What stands before the first turn."""
    return [UserMessage([Text(text="Notes on what was said before.")], origin="summary")] * (kind == "compacted")


def continues(request: bytes, earlier: bytes) -> bool:
    """The messages of a request begin with those of an earlier one, byte for byte."""
    return request.startswith(earlier.rstrip(b"]}"))


@each_route
@each_kind
async def test_another_model_takes_the_conversation_and_the_first_has_its_own_back(
    vendor: FakeVendor, http: Http, first: str, second: str, kind: str
) -> None:
    one, other = Speaker(first, vendor, http), Speaker(second, vendor, http)
    history = beginning(kind)
    await one.turn(history, kind)
    own = await one.turn(history, kind)
    given = [s.encode() for s in vendor.signatures if s.encode() in own]

    await other.turn(history, kind)
    theirs = await other.turn(history, kind)
    assert one.thought.encode() not in theirs and not any(s in theirs for s in given)

    again = await one.turn(history, kind)
    assert continues(again, own)
    assert other.thought.encode() not in again
    if first in SEALING and any(isinstance(p, Thinking) for p in KINDS[kind]) and kind != "aborted":
        assert given and all(s in again for s in given)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(MODELS | KIN, 2)), ids=lambda n: n)
@pytest.mark.parametrize("kind", ["thinking and calls", "images"])
async def test_a_tool_loop_changes_hands_between_call_and_answer(
    vendor: FakeVendor, http: Http, first: str, second: str, kind: str
) -> None:
    history: list[Message] = [question(kind)]
    one, other = Speaker(first, vendor, http), Speaker(second, vendor, http)
    for speaker in (one, other, one):
        message = await speaker.ask(history, speaker.pieces(kind))
        history.extend(results(kind, calls_of(message)))
    await other.ask(history, "done")


@each_route
@pytest.mark.parametrize("words", [True, False], ids=["with words", "without"])
async def test_another_model_takes_a_turn_that_was_stopped(
    vendor: FakeVendor, http: Http, first: str, second: str, words: bool
) -> None:
    one, other = Speaker(first, vendor, http), Speaker(second, vendor, http)
    history: list[Message] = [question("plain")]
    said = [p for p in one.pieces("aborted") if words or not isinstance(p, str)]
    history[-1:] = [history[-1], broken_off(await one.ask(list(history), said)), question("plain")]
    await other.ask(history, "and")
    history.append(question("plain"))
    await one.ask(history, "then")


@each_route
async def test_many_changes_share_their_beginnings(vendor: FakeVendor, http: Http, first: str, second: str) -> None:
    """Each vendor sees its own earlier request continued, byte for byte, whatever was said to others in between."""
    speakers = [Speaker(first, vendor, http), Speaker(second, vendor, http)]
    history: list[Message] = []
    last: dict[str, bytes] = {}
    for number in range(6):
        speaker = speakers[number % 2]
        raw = await speaker.turn(history, "thinking and calls")
        if speaker.name in last:
            assert continues(raw, last[speaker.name])
        last[speaker.name] = raw


each_sealing = pytest.mark.parametrize("name", sorted(SEALING))


@each_sealing
async def test_what_a_vendor_no_longer_knows_as_its_own_goes_without_it(
    vendor: FakeVendor, http: Http, name: str
) -> None:
    """Another key, another organisation: seals and signatures of before are refused, and the conversation goes on."""
    speaker = Speaker(name, vendor, http)
    history: list[Message] = []
    await speaker.turn(history, "thinking and calls")
    given = [s.encode() for s in vendor.signatures]
    vendor.signatures.clear()
    await speaker.turn(history, "thinking and calls")
    assert [r.status for r in vendor.requests] == [200, 200, 400, 200, 200]
    _, _, refused, mended, _ = (r.raw for r in vendor.requests)
    assert given and any(s in refused for s in given) and not any(s in mended for s in given)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("begun", [True, False], ids=["in its words", "before any"])
async def test_an_answer_that_the_limit_cut_goes_on_and_stays_good(vendor: FakeVendor, name: str, begun: bool) -> None:
    thought = Thinking(text="hm")
    cut = Say([thought, "The first half "] if begun else [thought], stop_reason="length")
    vendor.script([cut, Say([Thinking(text="so"), "and the second."]), "Fine.", "Good."])
    url = f"{vendor.base_url}/v1"
    async with Agent(MODELS[name], base_url=url, api_key="k", tools=[], thinking="low") as agent:
        answers = [(await agent.run(n)).text for n in ("1", "2", "3")]
    assert answers == [f"{'The first half ' * begun}and the second.", "Fine.", "Good."]
    assert [r.status for r in vendor.requests] == [200] * 4
