"""The offline demo: ``demo/offline``, a provider that is no language model and says so.

A dozen plain requests in English are recognised by rule; they stream and call real tools like any model's, so that a
first start without a key, a network or a download shows the whole loop at work. Asked for a summary, it lists what was
asked and what ran. Deterministic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    encode,
    new_id,
    now,
    text_of,
    to_record,
)  # fmt: skip
from orkas.providers.base import (
    FREE,
    AuthStatus,
    Completion,
    CompletionParams,
    ModelInfo,
    Part,
    Request,
    TextPart,
    drained,
)
from orkas.providers.demo.rules import HELP, UNKNOWN, Want, conclude, understand
from orkas.providers.demo.summary import summary_of

__all__ = ["INTRODUCTION", "DemoProvider"]

INTRODUCTION = "I am the offline demo, not a language model: I follow a few fixed rules. "


class DemoProvider:
    """Answers from rules. Needs no network and no key, and uses no tokens."""

    id = "demo"
    api = "demo"

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(context_window=1_000_000, max_output=8_192, images=False, price=FREE)

    def request(self, params: CompletionParams) -> Request:
        body = {
            "model": params.model,
            "system": params.system,
            "messages": [to_record(m) for m in params.messages],
            "tools": [t.name for t in params.tools],
        }
        return Request("demo:", {}, encode(body))

    @asynccontextmanager
    async def stream(self, params: CompletionParams) -> AsyncGenerator[Completion, None]:
        yield _Reply(*_decide(params), f"{self.id}/{params.model}")

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        return await drained(self.stream(params))

    async def validate_auth(self) -> AuthStatus:
        return AuthStatus(True, "the offline demo needs no key")

    async def aclose(self) -> None:
        pass


class _Reply:
    def __init__(self, text: str, call: ToolCall | None, model: str) -> None:
        self._text = text
        self._call = call
        self._model = model

    @property
    def message(self) -> AssistantMessage:
        content: list[Block] = [Text(text=self._text)] if self._text else []
        if self._call is not None:
            content.append(self._call)
        reason = "tool_use" if self._call is not None else "stop"
        return AssistantMessage(
            content, self._model, "demo", reason, Usage(0, 0, cost_usd=0.0), id=new_id(), ts=now()
        )  # fmt: skip

    async def __aiter__(self) -> AsyncIterator[list[Part]]:
        words = self._text.split(" ")
        for n, word in enumerate(words):
            await asyncio.sleep(0)  # Stop gets its chance between two words
            if piece := word + (" " if n < len(words) - 1 else ""):
                yield [TextPart(piece)]


def _decide(params: CompletionParams) -> tuple[str, ToolCall | None]:
    """What to say, and which tool to call after it."""
    if (params.tool_choice == "none" or not params.tools) and (summary := summary_of(params)):
        return summary, None
    question, rounds = _turn(params.messages)
    new = not any(isinstance(m, AssistantMessage) for m in params.messages)
    want = understand(question)
    say: str | Want
    if want is None and params.tools and params.tool_choice == "none":
        return "", None
    if want is None:
        say = HELP if not question.strip() else UNKNOWN
    elif rounds:
        say = conclude(want, rounds)
    else:
        say = want
    text, call = _spoken(say, params)
    return (INTRODUCTION + text if new else text), call


def _turn(messages: Sequence[Message]) -> tuple[str, list[tuple[ToolCall, ToolMessage]]]:
    """The last thing the user asked, and the calls made for it so far with their results."""
    start = max((n for n, m in enumerate(messages) if isinstance(m, UserMessage) and not m.origin), default=None)
    if start is None:
        return "", []
    calls = {b.id: b for m in messages[start:] if isinstance(m, AssistantMessage) for b in m.content
             if isinstance(b, ToolCall)}  # fmt: skip
    results = [m for m in messages[start:] if isinstance(m, ToolMessage) and m.tool_call_id in calls]
    return text_of(messages[start]), [(calls[m.tool_call_id], m) for m in results]


def _spoken(say: str | Want, params: CompletionParams) -> tuple[str, ToolCall | None]:
    if isinstance(say, str):
        return say, None
    on_offer = {t.name for t in params.tools} if params.tool_choice == "auto" else set()
    for option in say.options:
        if option.tool in on_offer:
            call = ToolCall(id=f"demo_{len(params.messages)}", name=option.tool, arguments=option.arguments)
            return option.preface, call
    if not say.options:
        return say.answer, None
    return f"For that I need the tool {say.options[0].tool}, which is not on offer in this conversation.", None
