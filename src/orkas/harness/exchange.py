"""One reply of the model, however many requests it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from msgspec.structs import replace

from orkas.harness.limit import Seam, continuation, is_cut, is_silent_overflow, joined
from orkas.harness.turn import Turn
from orkas.infra.errors import ProviderError
from orkas.infra.events import Event, Retry, TextDelta, ThinkingDelta
from orkas.infra.messages import AssistantMessage, StopReason, Text, text_of
from orkas.providers.base import CompletionParams, Part, TextPart

__all__ = ["Exchange"]


class Exchange:
    """Asks until a reply came whole or the turn's budget for asking again is used up. Used once.

    A told text that the output limit cut goes on once, in a request of its own, and is one reply with its continuation.

    ``told``: whether the reply's text is told as it comes. ``reply``: the whole reply once ``events`` has ended.
    ``partial``: text that was told of a reply that did not come whole; empty after one that did.
    """

    def __init__(self, turn: Turn, params: CompletionParams, *, told: bool = True) -> None:
        self.reply: AssistantMessage | None = None
        self.partial = ""
        self._turn = turn
        self._params = params
        self._told = told
        self._first: AssistantMessage | None = None  # the part before the output limit, while the rest is asked for

    async def events(self) -> AsyncGenerator[Event, None]:
        """What is to be told of it: deltas, retries. Nothing is told once ``reply`` stands.

        Raises:
            ProviderError: it was given up.
            Aborted: Stop was pressed; no request follows.
        """
        async with aclosing(self._whole(self._params)) as events:
            async for event in events:
                yield event
        if self._told and self.reply is not None and is_cut(self.reply):
            async with aclosing(self._go_on(self.reply)) as events:
                async for event in events:
                    yield event

    def rest(self) -> AssistantMessage | None:
        """What is to be kept of a reply that did not come whole: exactly what was told of it.

        It is marked as no answer, except for a text that was whole but for the output limit.
        """
        if self._first is not None:
            return self._lengthened(self._first)
        reason: StopReason = "aborted" if self._turn.setup.context.abort.fired else "error"
        return self._turn.own_words(self.partial, reason) if self.partial else None

    async def _whole(self, params: CompletionParams, first: str = "") -> AsyncGenerator[Event, None]:
        """Requests until one is answered whole. ``first``: the text that the reply is to continue."""
        turn, abort = self._turn, self._turn.setup.context.abort
        reply: AssistantMessage | None = None
        self.reply = None
        while reply is None:
            if (patience := turn.retries.patience) != params.patience:
                params = replace(params, patience=patience)
            try:
                async with aclosing(self._attempt(params, Seam(first) if first else None)) as deltas:
                    async for event in deltas:
                        yield event
                reply = self.reply
            except ProviderError as error:
                discard = len(self.partial)
                if error.class_ == "context_overflow" and discard and not first:  # asked again once there is room
                    self.partial = ""
                    yield Retry(turn.next_seq(), turn.retries.failures + 1, error.message, 0.0, discard)
                wait_s = turn.retries.wait(error)
                self.partial = ""
                yield Retry(turn.next_seq(), turn.retries.failures, error.message, wait_s, discard)
                with abort.guard():
                    await asyncio.sleep(wait_s)
                abort.check()
        turn.retries.succeeded()
        turn.heard(reply)
        self.partial = ""
        if is_silent_overflow(reply):
            self.reply = None
            raise ProviderError("the conversation leaves the model no room to answer", class_="context_overflow")

    async def _go_on(self, first: AssistantMessage) -> AsyncGenerator[Event, None]:
        """The rest of a reply that the output limit cut. One that cannot be had leaves what there is."""
        self._first = first
        try:
            async with aclosing(self._whole(continuation(self._params, first), text_of(first))) as events:
                async for event in events:
                    yield event
        except ProviderError:
            self.reply = self._lengthened(first)
        else:
            assert self.reply is not None
            self.reply = joined(first, self.reply)
        self._first, self.partial = None, ""

    def _lengthened(self, first: AssistantMessage) -> AssistantMessage:
        """The first part with what was told of the rest."""
        if not self.partial:
            return first
        return replace(first, content=[*first.content, Text(text=self.partial)])

    async def _attempt(self, params: CompletionParams, seam: Seam | None) -> AsyncGenerator[Event, None]:
        """One request. ``partial`` is what was told of it, unless it came whole."""
        turn, abort = self._turn, self._turn.setup.context.abort
        heard: list[Sequence[Part]] = []
        try:
            async with AsyncExitStack() as stack:
                with abort.guard():
                    completion = await stack.enter_async_context(turn.setup.provider.stream(params))
                batches = completion.__aiter__()
                while True:
                    try:
                        with abort.guard():
                            batch: Sequence[Part] = await anext(batches)
                    except StopAsyncIteration:
                        break
                    if not self._told:
                        continue
                    if seam is not None:
                        batch = list(seam.sift(batch))
                    heard.append(batch)
                    for part in batch:
                        seq = turn.seq
                        turn.seq = seq + 1
                        yield TextDelta(seq, part.text) if type(part) is TextPart else ThinkingDelta(seq, part.text)
                if seam is not None and (rest := seam.end()):
                    heard.append([TextPart(rest)])
                    yield TextDelta(turn.next_seq(), rest)
                self.reply = completion.message
        finally:
            if self.reply is None:
                self.partial = "".join(p.text for batch in heard for p in batch if type(p) is TextPart)
