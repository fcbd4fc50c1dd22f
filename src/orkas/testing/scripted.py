"""A deterministic provider: it says what it was told to say, through the real interface.

>>> from orkas import Agent
>>> from orkas.testing import ScriptedProvider, call
>>> agent = Agent(model=ScriptedProvider([[call("add", a=2, b=3)], "5"]), tools=[])
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Text,
    Thinking,
    ToolCall,
    Usage,
    encode,
    new_id,
    now,
    to_record,
)
from orkas.providers.base import (
    AuthStatus,
    Completion,
    CompletionParams,
    ModelInfo,
    Part,
    Request,
    TextPart,
    ThinkingPart,
    drained,
)  # fmt: skip

__all__ = ["Reply", "ScriptedProvider", "call"]

Piece: TypeAlias = str | float | Thinking | ToolCall | Exception
"""A text delta, a pause in seconds, a thinking delta, a call, or an error at that place of the stream."""
Reply: TypeAlias = str | Exception | AssistantMessage | Sequence[Piece]


def call(name: str, /, *, id: str | None = None, **arguments: Any) -> ToolCall:
    """A tool call of the scripted model."""
    return ToolCall(id=id or f"call_{new_id()}", name=name, arguments=arguments)


_EXHAUSTED = ProviderError("the script has no more replies", class_="invalid_request", hint="give it another one")


class ScriptedProvider:
    """Answers the n-th request with the n-th reply; a callable reply sees the request. A request too many fails.
    Keeps every request. A bare string is one reply.
    """

    id = "scripted"
    api = "scripted"

    def __init__(
        self,
        replies: Iterable[Reply | Callable[[CompletionParams], Reply]],
        *,
        info: ModelInfo | None = None,
        model: str = "model",
    ) -> None:
        self._replies = iter([replies] if isinstance(replies, str) else replies)
        self._info = info or ModelInfo(context_window=200_000, max_output=8_192)
        self.model = model
        self.requests: list[CompletionParams] = []

    def info(self, model: str) -> ModelInfo:
        return self._info

    def request(self, params: CompletionParams) -> Request:
        body = {
            "model": params.model,
            "system": params.system,
            "messages": [to_record(m) for m in params.messages],
            "tools": [t.name for t in params.tools],
        }
        return Request("scripted:", {}, encode(body))

    @asynccontextmanager
    async def stream(self, params: CompletionParams) -> AsyncGenerator[Completion, None]:
        self.requests.append(replace(params, messages=list(params.messages)))
        reply = next(self._replies, _EXHAUSTED)
        if callable(reply):
            reply = reply(params)
        yield _Spoken(reply, f"{self.id}/{params.model}")

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        return await drained(self.stream(params))

    async def validate_auth(self) -> AuthStatus:
        return AuthStatus(True, "scripted")

    async def aclose(self) -> None:
        pass


class _Spoken:
    def __init__(self, reply: Reply, model: str) -> None:
        self._reply = reply
        self._model = model
        self._message: AssistantMessage | None = None

    @property
    def message(self) -> AssistantMessage:
        assert self._message is not None, "read the message after the stream ended"
        return self._message

    async def __aiter__(self) -> AsyncIterator[list[Part]]:
        if isinstance(self._reply, AssistantMessage):
            yield [TextPart(b.text) for b in self._reply.content if isinstance(b, Text)]
            self._message = self._reply
            return
        pieces = [self._reply] if isinstance(self._reply, str | Exception) else self._reply
        content: list[Block] = []
        for piece in pieces:
            match piece:
                case Exception():
                    raise piece
                case str():
                    yield [TextPart(piece)]
                    _extend_text(content, piece)
                case Thinking():
                    yield [ThinkingPart(piece.text)]
                    content.append(piece)
                case ToolCall():
                    content.append(piece)
                case _:
                    await asyncio.sleep(piece)
        calls = any(isinstance(b, ToolCall) for b in content)
        self._message = AssistantMessage(
            content, self._model, "scripted", "tool_use" if calls else "stop", Usage(10, 5), id=new_id(), ts=now()
        )


def _extend_text(content: list[Block], text: str) -> None:
    if content and isinstance(content[-1], Text):
        content[-1] = Text(text=content[-1].text + text)
    else:
        content.append(Text(text=text))
