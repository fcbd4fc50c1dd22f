"""What the harness relies on in every adapter, checked against an adapter and a fake of its vendor.

>>> import asyncio
>>> from orkas.providers.registry import resolve
>>> from orkas.testing import FakeVendor, conformance
>>> async def conforms(case: str) -> None:
...     with FakeVendor() as vendor:
...         provider, model = resolve("openai-chat/gpt-4o", base_url=vendor.base_url, api_key="k")
...         await conformance.check(provider, model, vendor, case)
...         await provider.aclose()
>>> asyncio.run(conforms("parallel_calls"))

In a test suite each of ``CASES`` is best a test of its own. A dialect's reader is checked by ``read_every_way``
besides, with bodies that its vendor really sent.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
    calls_of,
    decode_message,
    encode,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.providers.base import (
    CompletionParams,
    Dialect,
    LLMProvider,
    Part,
    Reader,
    TextPart,
    ThinkingLevel,
    ThinkingPart,
    ToolDef,
)  # fmt: skip
from orkas.testing.replay import Cut, Refuse, Whole
from orkas.testing.say import Piece, Say

__all__ = ["CASES", "Fake", "Request", "check", "cuttings", "read", "read_every_way"]

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)  # a picture of one pixel, base64
ADD = ToolDef("add", "Add two numbers.", {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"],
})  # fmt: skip
TEXT = ["Grüße, ", "世界", " 🙂", "\n\n", "two  blanks"]


class Request(Protocol):
    """A request as a fake received it."""

    raw: bytes
    status: int


class Fake(Protocol):
    """A fake of a vendor, as strict as the real one. ``FakeVendor`` is one."""

    @property
    def requests(self) -> Sequence[Request]: ...

    def script(self, replies: Iterable[Any]) -> None:
        """Add replies: ``Say``, and ``Cut``, ``Refuse`` and ``Whole`` of it, whose bodies are in the vendor's form."""
        ...


class Conversation:
    """One conversation with one model. What holds for every reply is checked at each."""

    def __init__(self, provider: LLMProvider, model: str, fake: Fake) -> None:
        self.provider = provider
        self.model = model
        self.fake = fake
        self.history: list[Message] = []

    def params(self, thinking: ThinkingLevel | None = None) -> CompletionParams:
        return CompletionParams(
            self.model, list(self.history), system="Be brief.", tools=[ADD], max_output=9_000, thinking=thinking
        )

    async def hear(self, reply: Any, thinking: ThinkingLevel | None = None) -> AssistantMessage:
        """The message that this reply becomes. It joins the history as it would be read back from the disk."""
        self.fake.script([reply])
        parts: list[Part] = []
        async with self.provider.stream(self.params(thinking)) as completion:
            async for some in completion:
                parts += some
            message = completion.message
        assert self.fake.requests[-1].status == 200
        _holds_together(message, parts)
        assert message.model == f"{self.provider.id}/{self.model}" and message.api == self.provider.api
        stored = decode_message(encode(message))
        assert isinstance(stored, AssistantMessage) and encode(stored) == encode(message)
        self.history.append(stored)
        return stored

    async def say(self, *pieces: Piece, thinking: ThinkingLevel | None = None, **how: Any) -> AssistantMessage:
        """The same for a reply of these pieces. ``how``: see ``Say``."""
        return await self.hear(Say(list(pieces), **how), thinking)

    async def goes_on(self) -> None:
        """The vendor takes the conversation as it stands now."""
        self.history.append(user_message("And now?"))
        assert text_of(await self.say("Fine.")) == "Fine."

    def asked(self, text: str = "Go.", *images: Image) -> None:
        self.history.append(user_message(text, list(images)))

    def ran(self, text: str = "done") -> None:
        """The calls of the last message have these results."""
        self.history += [tool_result(c.id, text) for c in calls_of(self.history[-1])]

    async def fails(self, reply: Any) -> tuple[ProviderError, list[Part]]:
        """The error that this reply ends in, and what was told before."""
        self.fake.script([reply])
        parts: list[Part] = []
        try:
            async with self.provider.stream(self.params()) as completion:
                async for some in completion:
                    parts += some
        except ProviderError as error:
            return error, parts
        raise AssertionError("the reply was taken for a whole one")


def _holds_together(message: AssistantMessage, parts: list[Part]) -> None:
    """What was told is what is stored, and what is stored can be stored."""
    assert _told(parts, TextPart) == text_of(message)
    assert _told(parts, ThinkingPart) == _thoughts(message)
    calls = calls_of(message)
    assert len({c.id for c in calls}) == len(calls) and all(c.id for c in calls)
    assert all(c.arguments is None or isinstance(c.arguments, dict) for c in calls)
    if message.stop_reason in ("stop", "tool_use"):
        assert message.stop_reason == ("tool_use" if calls else "stop")


def _told(parts: list[Part], kind: type[TextPart] | type[ThinkingPart]) -> str:
    return "".join(p.text for p in parts if type(p) is kind)


def _thoughts(message: AssistantMessage) -> str:
    return "".join(b.text for b in message.content if isinstance(b, Thinking))


def _sealed(message: AssistantMessage) -> list[str]:
    """What the vendor gave out with its thinking and wants back unchanged."""
    blocks = [b for b in message.content if isinstance(b, Thinking)]
    signed = [b.signature for b in message.content if isinstance(b, ToolCall)]
    return [s for s in (*(x for b in blocks for x in (b.signature, b.redacted, b.encrypted)), *signed) if s]


def _call(id: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name="add", arguments=arguments)


# ------------------------------------------------------------------ cases

Case = Callable[[Conversation], Awaitable[None]]
_CASES: dict[str, Case] = {}


def _case(function: Case) -> Case:
    _CASES[getattr(function, "__name__", "").removeprefix("_")] = function
    return function


@_case
async def _text(talk: Conversation) -> None:
    talk.asked()
    message = await talk.say(*TEXT)
    assert text_of(message) == "".join(TEXT) and message.stop_reason == "stop"
    await talk.goes_on()


@_case
async def _thinking(talk: Conversation) -> None:
    """Thought is told apart from text, and goes back to its own model only as that model wants it."""
    talk.asked()
    message = await talk.say(Thinking(text="Hm, 世界."), "So.", thinking="low")
    assert _thoughts(message) == "Hm, 世界." and text_of(message) == "So."
    await talk.goes_on()


@_case
async def _thinking_before_calls(talk: Conversation) -> None:
    """In a tool loop, what the vendor sealed comes back as it was, loop after loop."""
    talk.asked()
    sealed: list[str] = []
    for n in range(3):
        message = await talk.say(Thinking(text=f"Hm {n}."), "I add.", _call(f"c{n}", a=n), thinking="low")
        sealed += _sealed(message)
        talk.ran(str(n))
    await talk.say("Done.", thinking="low")
    assert all(encode(s)[1:-1] in talk.fake.requests[-1].raw for s in sealed)
    await talk.goes_on()


@_case
async def _one_call(talk: Conversation) -> None:
    talk.asked()
    message = await talk.say("I add. ", _call("c1", a=1, note={"ü": ['"', None, 1.5]}))
    (made,) = calls_of(message)
    assert (made.name, made.arguments) == ("add", {"a": 1, "note": {"ü": ['"', None, 1.5]}})
    assert message.stop_reason == "tool_use"
    talk.ran("1")
    await talk.say("It is 1.")
    await talk.goes_on()


@_case
async def _call_without_arguments(talk: Conversation) -> None:
    talk.asked()
    assert [c.arguments for c in calls_of(await talk.say(_call("c1")))] == [{}]
    talk.ran()
    await talk.goes_on()


@_case
async def _parallel_calls(talk: Conversation) -> None:
    """Calls keep their order, also where they are alike; so do their results."""
    talk.asked()
    message = await talk.say("I add.", *(_call(f"c{n}", a=n // 2) for n in range(5)))
    assert [c.arguments for c in calls_of(message)] == [{"a": n // 2} for n in range(5)]
    talk.ran()
    await talk.say("Done.")
    await talk.goes_on()


@_case
async def _call_in_fragments(talk: Conversation) -> None:
    """Arguments may come one character at a time."""
    talk.asked()
    arguments = {"a": 12, "text": 'a "quoted" \\ \n 世界 🙂'}
    message = await talk.say(_call("c1", **arguments), _call("c2", a=2), fragment=1)
    assert [c.arguments for c in calls_of(message)] == [arguments, {"a": 2}]


@_case
async def _same_ids_in_every_turn(talk: Conversation) -> None:
    """Some servers count their calls anew with each reply."""
    for n in range(3):
        talk.asked()
        await talk.say(_call("call_0", a=n), _call("call_1", a=n))
        talk.ran(f"turn {n}")
        await talk.say("Next.")
    await talk.goes_on()


@_case
async def _broken_arguments(talk: Conversation) -> None:
    """A call whose arguments are no JSON object never runs, and the conversation goes on."""
    talk.asked()
    broken = ToolCall(id="c1", name="add", arguments=None, arguments_raw='{"a": 1, "b')
    message = await talk.say("I add.", broken)
    assert all(c.arguments is None for c in calls_of(message))
    talk.ran("The arguments are no JSON.")
    await talk.goes_on()


@_case
async def _length(talk: Conversation) -> None:
    """The last call of a reply that the limit cut does not run."""
    talk.asked()
    assert (await talk.say("Once upon", stop_reason="length")).stop_reason == "length"
    talk.asked()
    message = await talk.say(_call("c1", a=1), _call("c2", a=2), stop_reason="length")
    assert [c.arguments for c in calls_of(message)] == [{"a": 1}, None]
    talk.ran()
    await talk.goes_on()


@_case
async def _content_filter(talk: Conversation) -> None:
    """No call of a reply that was stopped for what it says runs."""
    talk.asked()
    message = await talk.say("I ca", _call("c1", a=1), stop_reason="content_filter")
    assert message.stop_reason in ("content_filter", "refusal")
    assert [c.arguments for c in calls_of(message)] == [None]


@_case
async def _refusal(talk: Conversation) -> None:
    talk.asked()
    message = await talk.say("I will not.", stop_reason="refusal")
    assert message.stop_reason in ("refusal", "content_filter") and text_of(message) == "I will not."
    await talk.goes_on()


@_case
async def _overflow(talk: Conversation) -> None:
    """The window is full in the middle of a reply."""
    talk.asked()
    message = await talk.say("Once upon", _call("c1", a=1), stop_reason="overflow")
    assert message.stop_reason in ("overflow", "length") and [c.arguments for c in calls_of(message)] == [None]


@_case
async def _usage(talk: Conversation) -> None:
    """All prompt tokens are counted once, wherever they were read from; output counts reasoning."""
    talk.asked()
    usage = (await talk.say("Hi.", usage=Usage(input=120, output=30))).usage
    assert usage is not None and usage.output == 30
    assert sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write)) == 120


@_case
async def _cached_usage(talk: Conversation) -> None:
    talk.asked()
    usage = (await talk.say("Hi.", usage=Usage(input=20, output=30, cache_read=100))).usage
    assert usage is not None and (usage.input, usage.cache_read, usage.output) == (20, 100, 30)


@_case
async def _images(talk: Conversation) -> None:
    """Pictures of the user and of tools are taken, or said to have been there."""
    picture = Image(media_type="image/png", data=PIXEL)
    talk.asked("What is this?", picture, picture)
    message = await talk.say("I look.", _call("c1", a=1), _call("c2", a=2))
    first, second = calls_of(message)
    talk.history += [tool_result(first.id, "see below"), tool_result(second.id, "")]
    talk.history.append(UserMessage([picture], origin="tool_image", tool_call_id=first.id))
    await talk.say("A pixel.")
    await talk.goes_on()


@_case
async def _results_of_every_kind(talk: Conversation) -> None:
    """Nothing, blanks, a fault, half a character."""
    talk.asked()
    texts = ["", " \n", "\ud83c", "\x00\x1b[31m", "x" * 100_000]
    message = await talk.say(*(_call(f"c{n}", a=n) for n in range(len(texts))))
    made = calls_of(message)
    talk.history += [tool_result(c.id, t, is_error=not t.strip()) for c, t in zip(made, texts, strict=True)]
    await talk.say("Done.")
    await talk.goes_on()


@_case
async def _aborted(talk: Conversation) -> None:
    """A reply that the user stopped stays in the history: with words, without any, with thought that nobody signed."""
    stamp = f"{talk.provider.id}/{talk.model}"
    broken: list[list[Block]] = [
        [Text(text="I was")], [], [Thinking(text="Hm")], [Thinking(text="Hm"), Text(text="I")],
    ]  # fmt: skip
    for content in broken:
        talk.asked()
        talk.history.append(AssistantMessage(content, stamp, talk.provider.api, "aborted"))
    await talk.goes_on()


@_case
async def _compacted(talk: Conversation) -> None:
    """What stands behind a summary is taken, wherever the summary was cut in."""
    talk.history.append(UserMessage([Text(text="Notes on what was said before.")], origin="summary"))
    talk.asked()
    await talk.say(Thinking(text="Hm."), "I add.", _call("c1", a=1), thinking="low")
    talk.ran()
    await talk.say("Done.", thinking="low")
    del talk.history[1]  # the question went into the summary
    await talk.goes_on()


@_case
async def _from_another_model(talk: Conversation) -> None:
    """What another vendor's model thought and sealed is not shown to this one; its words, calls and results are."""
    thought = Thinking(text="my secret thought", signature="c2VhbGVk", vendor={"item": "rs_foreign"})
    foreign: list[Block] = [thought, Text(text="I add."), _call("toolu_" + "x" * 60, a=1), _call("a.b:c/d e", a=2)]
    talk.asked()
    talk.history.append(AssistantMessage(foreign, "other/model", "other_api", "tool_use"))
    talk.ran("three")
    talk.history.append(AssistantMessage([Opaque(kind="search", vendor={"x": 1})], "other/model", "other_api", "stop"))
    await talk.goes_on()
    raw = talk.fake.requests[-1].raw
    assert b"three" in raw and b"I add." in raw
    assert not any(word in raw for word in (b"my secret thought", b"c2VhbGVk", b"rs_foreign"))


@_case
async def _same_bytes(talk: Conversation) -> None:
    """The same request has the same bytes, and the next one of the conversation begins with them."""
    talk.asked("first question")
    await talk.say("I add.", _call("c1", a=1))
    talk.ran("the first result")
    once, again = (talk.provider.request(talk.params()).body for _ in range(2))
    assert once == again
    await talk.say("Done.")
    await talk.goes_on()
    upto = once.index(b"the first result")
    assert talk.fake.requests[-1].raw[:upto] == once[:upto]


@_case
async def _in_one_piece(talk: Conversation) -> None:
    """A server that does not stream after all."""
    talk.asked()
    message = await talk.hear(Whole(Say(["Hello", " you", _call("c1", a=1), _call("c2", a=2)])))
    assert text_of(message) == "Hello you" and [c.arguments for c in calls_of(message)] == [{"a": 1}, {"a": 2}]
    talk.ran()
    await talk.goes_on()


@_case
async def _broken_off(talk: Conversation) -> None:
    """A stream that ends before its end is a fault of the connection, whatever came before, and never a reply."""
    talk.asked()
    long = Say(["word "] * 60 + [_call("c1", a=1)])
    for after in (0, 1, 60, 333, 1_500):
        for how in ("end", "reset"):
            error, parts = await talk.fails(Cut(long, after, how))
            assert error.class_ == "connection"
            assert ("word " * 60).startswith(_told(parts, TextPart))
    await talk.goes_on()


@_case
async def _refused(talk: Conversation) -> None:
    """Classes of errors, and the time a vendor asks to wait."""
    talk.asked()
    error, _ = await talk.fails(Refuse(401))
    assert error.class_ == "auth" and error.status == 401
    error, _ = await talk.fails(Refuse(429, headers={"retry-after": "7"}))
    assert error.class_ == "rate_limit" and error.wait_s == 7
    for status in (500, 503):
        error, _ = await talk.fails(Refuse(status))
        assert error.class_ in ("server", "overloaded")
    await talk.goes_on()


@_case
async def _left_early(talk: Conversation) -> None:
    """Whoever stops reading leaves nothing behind."""
    talk.asked()
    talk.fake.script([Say(["word ", 0.2] * 20)])
    async with talk.provider.stream(talk.params()) as completion:
        async for _ in completion:
            break
    await talk.goes_on()


CASES = tuple(_CASES)
"""The names of all cases. A vendor whose wire has no such thing leaves a case out, and its test says why."""


async def check(provider: LLMProvider, model: str, fake: Fake, case: str) -> None:
    """Check one of ``CASES`` in a conversation of its own. ``model``: without its vendor.

    Raises:
        AssertionError: the adapter does not do what the harness relies on.
        ProviderError: the fake refused what the adapter sent.
    """
    await _CASES[case](Conversation(provider, model, fake))


# ------------------------------------------------------------------ readers


def cuttings(body: bytes, count: int, seed: int = 0) -> Iterator[list[bytes]]:
    """The body in one piece, byte by byte, and cut at up to a dozen places of ``count`` random choices."""
    yield [body] if body else []
    yield [body[i : i + 1] for i in range(len(body))]
    generator = random.Random(seed)  # noqa: S311 - the same cuts each time
    for _ in range(count):
        places = generator.sample(range(1, max(len(body), 2)), min(max(len(body) - 1, 0), generator.randint(1, 12)))
        yield [body[a:b] for a, b in pairwise([0, *sorted(places), len(body)])]


def read_every_way(dialect: Dialect, body: bytes, *, model: str = "vendor/model", cuts: int = 20) -> AssistantMessage:
    """The message in a reply's body, which is the same however the network cuts it.

    ``cuts``: random cuttings that are tried besides the whole and single bytes.

    Raises:
        AssertionError: it is not the same.
        ProviderError: the reply is an error, or broke off.
    """
    first: tuple[Any, ...] | None = None
    for pieces in cuttings(body, cuts):
        parts, message, error = read(dialect.reader(model=model), pieces)
        if error is None:
            _holds_together(message, parts)
        now = (_told(parts, TextPart), _told(parts, ThinkingPart), _bare(message), repr(error))
        assert first is None or now == first, pieces
        first, last, fault = now, message, error
    if fault is not None:
        raise fault
    return last


def read(reader: Reader, pieces: Iterable[bytes]) -> tuple[list[Part], AssistantMessage, ProviderError | None]:
    """What a reader makes of these pieces: what it tells, its message or what it has of one, its error."""
    parts: list[Part] = []
    for piece in [*pieces, b""]:
        if not reader.done:
            parts += reader.feed(piece)
    try:
        return parts, reader.close(), None
    except ProviderError as error:
        return parts, reader.partial(), error


def _bare(message: AssistantMessage) -> bytes:
    """Without what is new each time it is read."""
    content = [replace(b, id="") if isinstance(b, ToolCall) else b for b in message.content]
    return encode(replace(message, content=content, id="", ts=0))
