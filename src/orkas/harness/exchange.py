"""One reply of the model, however many requests it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from orkas.harness.turn import Turn
from orkas.infra.errors import ProviderError
from orkas.infra.events import Event, Retry, TextDelta, ThinkingDelta
from orkas.infra.messages import AssistantMessage
from orkas.providers.base import CompletionParams, Part, TextPart

__all__ = ["Exchange"]


class Exchange:
    """Asks until a reply came whole or the turn's budget for asking again is used up. Used once.

    ``told``: whether the reply's text is told as it comes. ``reply``: the whole reply once ``events`` has ended.
    ``partial``: text that was told of a reply that did not come whole; empty after one that did.
    """

    def __init__(self, turn: Turn, params: CompletionParams, *, told: bool = True) -> None:
        self.reply: AssistantMessage | None = None
        self.partial = ""
        self._turn = turn
        self._params = params
        self._told = told

    async def events(self) -> AsyncGenerator[Event, None]:
        """What is to be told of it: deltas, retries.

        Raises:
            ProviderError: it was given up.
            Aborted: Stop was pressed; no request follows.
        """
        turn, abort = self._turn, self._turn.setup.context.abort
        while self.reply is None:
            try:
                async with aclosing(self._attempt()) as deltas:
                    async for event in deltas:
                        yield event
            except ProviderError as error:
                wait_s = turn.retries.wait(error)
                discard, self.partial = len(self.partial), ""
                yield Retry(turn.next_seq(), turn.retries.failures, error.message, wait_s, discard)
                with abort.guard():
                    await asyncio.sleep(wait_s)
                abort.check()
                turn.setup.recorder.retried(turn.setup.full_model)
        turn.retries.succeeded()
        turn.heard(self.reply)
        self.partial = ""

    async def _attempt(self) -> AsyncGenerator[Event, None]:
        """One request. ``partial`` grows with what is told."""
        turn, abort = self._turn, self._turn.setup.context.abort
        heard: list[list[Part]] = []
        try:
            async with AsyncExitStack() as stack:
                with abort.guard():
                    completion = await stack.enter_async_context(turn.setup.provider.stream(self._params))
                batches = completion.__aiter__()
                while True:
                    try:
                        with abort.guard():
                            batch = await anext(batches)
                    except StopAsyncIteration:
                        break
                    if not self._told:
                        continue
                    heard.append(batch)
                    for part in batch:
                        seq = turn.seq
                        turn.seq = seq + 1
                        yield TextDelta(seq, part.text) if type(part) is TextPart else ThinkingDelta(seq, part.text)
                self.reply = completion.message
        finally:
            if self.reply is None:
                self.partial = "".join(p.text for batch in heard for p in batch if type(p) is TextPart)
