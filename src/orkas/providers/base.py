"""One interface for every model: what goes in, what comes out, and how a vendor's bytes become it.

A *dialect* is two pure halves: ``Dialect.request`` turns params into one HTTP request, ``Dialect.reader`` gives a
``Reader`` that turns body bytes, cut anywhere, into parts and at the end one message. Neither opens a socket:
``providers.http`` joins a dialect, a vendor row and the transport into an ``LLMProvider``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from orkas.infra.messages import AssistantMessage, Message, Usage

__all__ = [
    "FREE",
    "Completion",
    "CompletionParams",
    "Dialect",
    "LLMProvider",
    "ModelInfo",
    "OutputSchema",
    "Part",
    "Price",
    "Probing",
    "Rates",
    "Reader",
    "Request",
    "TextPart",
    "ThinkingPart",
    "ToolDef",
    "Warmable",
    "drained",
]  # fmt: skip

ThinkingLevel: TypeAlias = Literal["off", "low", "medium", "high"]


class ToolDef(msgspec.Struct, frozen=True):
    """A tool as the model sees it. ``parameters``: a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class OutputSchema(msgspec.Struct, frozen=True):
    """The form that an answer must have. ``schema``: a JSON Schema whose top is an object's."""

    name: str
    """1 to 64 of [A-Za-z0-9_-]."""
    schema: dict[str, Any]


class Rates(msgspec.Struct, frozen=True, array_like=True):
    """USD for a million tokens of each kind; None: unknown. Input is what is neither read from a cache nor written."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """What this use costs in USD; None where a figure or a price that it needs is not known."""
        if usage.input is None or usage.output is None:
            return None
        total = usage.input * self.input + usage.output * self.output
        for tokens, rate in ((usage.cache_read, self.cache_read), (usage.cache_write, self.cache_write)):
            if tokens and rate is None:
                return None
            total += (tokens or 0) * (rate or 0)
        return total / 1_000_000

    def most(self, usage: Usage) -> float:
        """What this use costs at most: reads are never dearer than input, writes never more than twice as dear."""
        read = self.input if self.cache_read is None else self.cache_read
        write = 2 * self.input if self.cache_write is None else self.cache_write
        total = (usage.input or 0) * self.input + (usage.output or 0) * self.output
        return (total + (usage.cache_read or 0) * read + (usage.cache_write or 0) * write) / 1_000_000


class Price(msgspec.Struct, frozen=True):
    """What a model costs. ``tiers``: prompts of more tokens than this, cached ones included, cost this, as a whole."""

    base: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()

    def rates(self, prompt: int) -> Rates:
        """The rates for a request with a prompt of so many tokens."""
        found = self.base
        for above, rates in self.tiers:
            if prompt > above:
                found = rates
        return found

    def cost(self, usage: Usage) -> float | None:
        """What one reply costs in USD; None where it cannot be told."""
        if self is FREE:
            return 0.0
        prompt = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
        return self.rates(prompt).cost(usage)

    def most(self, usage: Usage) -> float:
        """What one reply costs at most; what the vendor did not count is not in it."""
        prompt = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
        return self.rates(prompt).most(usage)


FREE = Price(Rates(0.0, 0.0, 0.0, 0.0))
"""Of models on the user's own hardware."""


class ModelInfo(msgspec.Struct, frozen=True):
    """What we know of one model. Sizes in tokens; None: unknown."""

    context_window: int | None = None
    max_output: int | None = None
    images: bool = True
    small: bool = False
    """A small local model: short prompt, few tools, one step at a time, repeated calls are cut short."""
    reasons: bool | None = None
    """Thinks before it answers."""
    tools: bool | None = None
    """Calls tools."""
    price: Price | None = None
    """None: unknown, which is not free."""


class CompletionParams(msgspec.Struct, eq=False):
    """One model request. ``messages`` must be paired; the provider converts, it does not repair."""

    model: str
    """The model id without the vendor."""
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolDef] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    """``none``: calls are not wanted, and whoever asks runs none that come all the same. Vendors are told where they
    can be told and where it does not cost their cache."""
    max_output: int | None = None
    window: int | None = None
    """Tokens that the user set the model's window to; None: not set. For servers that must be told."""
    thinking: ThinkingLevel | None = None
    """None: the vendor's default."""
    session_id: str | None = None
    """For vendors with a prompt-cache key."""
    output: OutputSchema | None = None
    """The form of the answer where no tool is called. A provider that can hold the model to it does so; whether the
    answer has that form is for the caller to check."""
    media: Any = None
    """``(file: str) -> bytes``: reads an image that lies in a file beside the session."""
    patience: float = 1.0
    """Factor on the provider's time limits. A retry after silence waits longer than the first attempt did."""


class TextPart(msgspec.Struct, frozen=True, gc=False):
    text: str


class ThinkingPart(msgspec.Struct, frozen=True, gc=False):
    text: str


Part: TypeAlias = TextPart | ThinkingPart


class Request(msgspec.Struct):
    """One HTTP request, complete but for the transport. ``headers`` hold the secrets."""

    url: str
    headers: dict[str, str]
    body: bytes


class Reader(Protocol):
    """Reads one response body. Any cutting of the bytes gives the same parts joined and the same message."""

    done: bool
    """The end marker was seen: nothing that follows matters."""
    brisk: bool
    """What comes now comes in small pieces, so that silence is a fault and not thought."""

    def feed(self, data: bytes) -> list[Part]:
        """Take the bytes of one network read; no bytes say that the body has ended. Never raises.

        An error in the stream sets ``done``; ``close`` raises it, so that what came before it is not lost.
        """
        ...

    def close(self) -> AssistantMessage:
        """The whole message, once the reader is done or the body has ended.

        Raises:
            ProviderError: the stream carried an error; class ``connection`` when the end marker never came.
        """
        ...

    def partial(self) -> AssistantMessage:
        """What came so far, with stop reason ``error`` and no call that may be executed."""
        ...


class Dialect(Protocol):
    """One wire protocol. Stateless but for bytes of messages it has encoded before."""

    api: str
    """Its name in provenance and records: ``anthropic_messages``, ``openai_chat``, ``openai_responses``,
    ``google_generate_content``."""

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request: ...

    def reader(self, *, model: str) -> Reader:
        """A fresh reader. ``model``: ``vendor/model``, stamped on the message."""
        ...


@runtime_checkable
class Probing(Protocol):
    """A dialect whose cheapest request that needs the key is one of its own kind."""

    def probe(self, *, base_url: str, api_key: str | None) -> Request:
        """That request, a GET without a body."""
        ...


class Completion(Protocol):
    """A reply under way. Iterate it (one list of parts per network read) to its end, then read ``message``."""

    def __aiter__(self) -> AsyncIterator[list[Part]]: ...

    @property
    def message(self) -> AssistantMessage:
        """The whole reply, after iteration ended. Its calls have arguments None where they did not parse."""
        ...


class AuthStatus(msgspec.Struct, frozen=True):
    """What ``validate_auth`` found. ``ok`` None: could not be told (no network)."""

    ok: bool | None
    message: str = ""
    reason: Literal["accepted", "refused", "missing", "quota", "rate_limit", "network", "unknown"] = "unknown"
    """``network``: no answer came. ``quota``: the key is right and its account has nothing left."""


class LLMProvider(Protocol):
    """What the runner knows of a vendor; nothing else."""

    id: str
    """The vendor's name, the part of a model string before the slash."""
    api: str
    """The wire dialect's name."""

    def info(self, model: str) -> ModelInfo: ...

    def request(self, params: CompletionParams) -> Request:
        """The request that ``stream`` would send; nothing is sent."""
        ...

    def stream(self, params: CompletionParams) -> AbstractAsyncContextManager[Completion]:
        """Open the reply. The connection is owned by the ``async with`` block and closed on every way out.

        Raises:
            ProviderError: on opening or while iterating.
        """
        ...

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        """``stream``, drained."""
        ...

    async def validate_auth(self) -> AuthStatus: ...

    async def aclose(self) -> None:
        """Give back connections. The provider may be used again."""
        ...


async def drained(opening: AbstractAsyncContextManager[Completion]) -> AssistantMessage:
    """A reply read to its end: what ``complete`` makes of ``stream``."""
    async with opening as completion:
        async for _ in completion:
            pass
        return completion.message


@runtime_checkable
class Warmable(Protocol):
    """A provider whose first answer takes long unless it is made ready."""

    async def warm(self, params: CompletionParams) -> None:
        """Get ready for requests that begin like this one. May take as long as a request.

        Raises:
            ProviderError: as a request would.
        """
        ...


class Kept(msgspec.Struct, eq=False):
    """Bytes of messages by identity, so that a message is encoded once per dialect.

    Messages are immutable, so the bytes stay true; messages that left the history are forgotten.
    """

    _bytes: dict[int, tuple[Message, bytes]] = msgspec.field(default_factory=dict)

    def get(self, message: Message) -> bytes | None:
        found = self._bytes.get(id(message))
        return found[1] if found is not None else None

    @property
    def empty(self) -> bool:
        return not self._bytes

    def put(self, message: Message, data: bytes) -> bytes:
        self._bytes[id(message)] = (message, data)
        return data

    def prune(self, messages: Sequence[Message]) -> None:
        """Forget what is not in ``messages``, once that is most of what is kept."""
        if len(self._bytes) > 2 * len(messages) + 64:
            alive = {id(m) for m in messages}
            self._bytes = {k: v for k, v in self._bytes.items() if k in alive}
