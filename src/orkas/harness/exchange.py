"""One reply of the model, however many requests it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from orkas.harness.limit import Seam, continuation, is_cut, is_empty, is_silent_overflow, joined
from orkas.harness.spending import CostReached
from orkas.harness.telling import tell
from orkas.harness.turn import Turn
from orkas.infra.errors import OrkasError, ProviderError
from orkas.infra.events import Retry, TextDelta, ThinkingDelta
from orkas.infra.messages import AssistantMessage, StopReason, Text, text_of
from orkas.providers.base import CompletionParams, Part, TextPart

__all__ = ["Exchange"]


class Exchange:
    """Asks until a reply came whole or the turn's budget for asking again is used up. Used once.

    A told text that the output limit cut goes on once, in a request of its own, and is one reply with its continuation.
    An empty answer is asked for once more where the model has said nothing yet since the user spoke.

    ``told``: whether the reply's text is told as it comes. ``reply``: the whole reply once ``run`` has ended.
    ``partial``: text that was told of a reply that did not come whole; empty after one that did.
    """

    fault: OrkasError | None = None
    """Why the reply, though it came whole, is not what was asked for. See ``Formed``."""

    def __init__(self, turn: Turn, params: CompletionParams, *, told: bool = True) -> None:
        self.reply: AssistantMessage | None = None
        self.partial = ""
        self._turn = turn
        self._params = params
        self._told = told
        self._first: AssistantMessage | None = None  # the part before the output limit, while the rest is asked for

        self._emptied = False  # an empty answer came already

    async def run(self) -> None:
        """Tells deltas and retries. Nothing is told once ``reply`` stands.

        Raises:
            ProviderError: it was given up.
            Aborted: Stop was pressed; no request follows.
            CostReached: a request would pass the cost limit of the turn. A text that was cut ends with its words.
        """
        turn, abort = self._turn, self._turn.setup.context.abort
        while self.reply is None:
            try:
                await self._attempt()
            except CostReached as reached:
                if self._first is None:
                    raise
                ending = f"\n\n{reached}"
                await tell(TextDelta(turn.next_seq(), ending))
                content = [*self._first.content, Text(text=ending)]
                self.reply = replace(self._first, content=content, stop_reason="max_cost")
                return
            except _EmptyAnswer:
                discard, self.partial, self._emptied = len(self.partial), "", True
                said = "the model gave an empty answer"
                await tell(Retry(turn.next_seq(), turn.retries.next_ordinal(), said, 0.0, discard))
                abort.check()
                turn.setup.recorder.retried(turn.setup.full_model)
            except ProviderError as error:
                discard = len(self.partial)
                turn.retries.spoken |= discard > 0 and self._first is None
                try:
                    wait_s = turn.retries.wait(error, spare=turn.spare and self._first is None)
                except ProviderError as final:
                    if self._first is not None:  # the rest cannot be had: there is what there is
                        self.reply = self._lengthened(self._first)
                        return
                    if discard and final.class_ == "context_overflow":  # asked again once there is room
                        self.partial = ""
                        await tell(Retry(turn.next_seq(), turn.retries.next_ordinal(), error.message, 0.0, discard))
                    raise
                self.partial = ""
                await tell(Retry(turn.next_seq(), turn.retries.next_ordinal(), error.message, wait_s, discard))
                with abort.guard():
                    await asyncio.sleep(wait_s)
                abort.check()
                turn.setup.recorder.retried(turn.setup.full_model)

    def rest(self) -> AssistantMessage | None:
        """What is to be kept of a reply that did not come whole: exactly what was told of it.

        It is marked as no answer, except for a text that was whole but for the output limit.
        """
        if self._first is not None:
            return self._lengthened(self._first)
        reason: StopReason = "aborted" if self._turn.setup.context.abort.fired else "error"
        return self._turn.own_words(self.partial, reason) if self.partial else None

    def _came(self, message: AssistantMessage) -> None:
        """A request was answered whole. It is the reply, unless the output limit cut it for the first time."""
        turn, first = self._turn, self._first
        turn.heard(message)
        _refuse_failed(message)
        turn.answered()
        if first is None and is_empty(message) and self._asks_again:
            raise _EmptyAnswer
        if first is not None:
            self.reply = joined(first, message)
        elif self._told and is_cut(message):
            self._first, self._params = message, continuation(self._params, message)
        else:
            self.reply = message

    @property
    def _asks_again(self) -> bool:
        """Whether an empty answer is asked for once more. One that must have a form is judged by ``Formed``."""
        turn = self._turn
        wanted = self._told and not self._emptied and turn.setup.output is None
        return wanted and not turn.spoke and turn.retries.limit > 0

    def _lengthened(self, first: AssistantMessage) -> AssistantMessage:
        """The first part with what was told of the rest."""
        if not self.partial:
            return first
        return replace(first, content=[*first.content, Text(text=self.partial)])

    async def _attempt(self) -> None:
        """One request. ``partial`` is what was told of it, unless it came whole."""
        turn, abort = self._turn, self._turn.setup.context.abort
        seam = Seam(text_of(self._first)) if self._first is not None else None
        heard: list[Sequence[Part]] = []
        params = turn.spending.allowed(turn.setup, self._patient())
        try:
            async with abort.entering(turn.setup.provider.stream(params)) as completion:
                batches = completion.__aiter__()
                while True:
                    try:
                        with abort.guard():
                            batch: Sequence[Part] = await anext(batches)
                    except StopAsyncIteration:
                        break
                    if self._told:
                        await self._tell(batch if seam is None else list(seam.sift(batch)), heard)
                if seam is not None and (rest := seam.end()):
                    await self._tell([TextPart(rest)], heard)
                whole = completion.message
            self._came(whole)
        except BaseException:  # whatever ends it, Stop and the end of the task included: what was told is known
            self.partial = "".join(p.text for batch in heard for p in batch if type(p) is TextPart)
            raise

    async def _tell(self, batch: Sequence[Part], heard: list[Sequence[Part]]) -> None:
        """What came with one read."""
        heard.append(batch)
        turn = self._turn
        for part in batch:
            seq = turn.seq
            turn.seq = seq + 1
            await tell(TextDelta(seq, part.text) if type(part) is TextPart else ThinkingDelta(seq, part.text))

    def _patient(self) -> CompletionParams:
        """The request, with more patience where it has stalled before."""
        patience = self._turn.retries.patience
        return self._params if patience == self._params.patience else replace(self._params, patience=patience)


class _EmptyAnswer(Exception):
    """The first empty answer."""


def _refuse_failed(message: AssistantMessage) -> None:
    """Raise for a reply that came whole and is none."""
    if message.stop_reason == "overflow":
        raise ProviderError("the conversation no longer fits the model's context window", class_="context_overflow")
    if is_silent_overflow(message):
        raise ProviderError("the conversation leaves the model no room to answer", class_="context_overflow")
    if message.stop_reason == "error":
        raise ProviderError("the model ended its reply with an error", class_="server")
