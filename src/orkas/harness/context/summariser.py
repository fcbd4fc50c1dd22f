"""Asks the model for a summary: first with the very request that its prompt cache knows, else piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orkas.harness.context import summary
from orkas.harness.context.budget import Load
from orkas.harness.context.fold import transcript
from orkas.harness.exchange import Exchange
from orkas.harness.succession import moves
from orkas.harness.turn import Turn
from orkas.infra.errors import ErrorClass, ProviderError
from orkas.infra.messages import AssistantMessage, Message, user_message
from orkas.providers.base import CompletionParams

__all__ = ["Summariser"]

_WORD = 1.6
"""Tokens of a word, generously: the model is told words, the bound is tokens."""
_MOST_PIECES = 12
_HALVINGS = 3
"""How often smaller pieces are tried when the vendor refuses one as too long."""
_FINAL = frozenset(["auth", "quota", "invalid_request", "not_found", "content_filter"])
"""Refusals that asking again will not change."""


class Summariser:
    """One attempt. ``prose``: the summary once ``run`` has ended, or empty; then ``reason`` says why there is none,
    ``class_`` of which kind that is, and ``final`` that asking again is of no use."""

    def __init__(self, turn: Turn, older: Sequence[Message], *, tokens: int, keep: str) -> None:
        self.prose = ""
        self.reason = ""
        self.final = False
        self.class_: ErrorClass = "invalid_request"
        self.way_out = "try again, or take another model"
        self.refused = 0
        """Tokens of the smallest request that the vendor called too long; 0: none."""
        self._turn = turn
        self._older = older
        self._tokens = tokens
        self._words = max(40, int(tokens / _WORD * 0.8))
        self._keep = keep
        self._meter = turn.setup.meter
        self._asked = ""
        self._reply: AssistantMessage | None = None
        self._window = 0  # what a request may weigh
        self._sent = 0

    async def run(self, load: Load, *, whole: bool) -> None:
        """Ask. ``whole``: the conversation itself may be sent once more; else it goes in pieces at once.

        Raises:
            ProviderError: the model does not answer, and another one can be asked.
            Aborted: Stop was pressed.
        """
        self._window = load.window - load.max_output
        try:
            if whole:
                await self._whole(load)
            if not self.prose and not self.reason:
                await self._pieces(load)
        except ProviderError as error:
            if self._turn.spare and moves(error):
                raise  # somebody else is asked, who may not even need one
            self.prose, self.reason, self.final = "", error.message, error.class_ in _FINAL
            self.class_ = error.class_

    async def _whole(self, load: Load) -> None:
        """The conversation as it is with one message of ours behind it; nothing is decided when that is too long."""
        self._asked = summary.request(words=self._words, keep=self._keep)
        if load.messages + self._meter.text(self._asked) > load.usable:
            return
        try:
            await self._ask(self._turn.params(self._asked, answer_only=True, free=True))
        except ProviderError as error:
            if error.class_ != "context_overflow":
                raise
            self._meter.refused(self._turn.setup.full_model, error)
            return
        if self._reply is not None and self._reply.stop_reason == "overflow":
            return
        await self._settle()

    async def _pieces(self, load: Load) -> None:
        """What is replaced as a transcript, in pieces that fit, each with the summary of what came before it."""
        share = 1.0
        for _ in range(_HALVINGS + 1):
            share /= 2
            try:
                await self._folded(self._room(load, share))
                return
            except ProviderError as error:
                if error.class_ != "context_overflow":
                    raise
                self.prose, self.reason = "", error.message
                self.refused = self._sent

    def _room(self, load: Load, share: float) -> int:
        around = self._meter.text(summary.SYSTEM) + 2 * self._tokens + 200
        return max(200, int((load.window - load.max_output - around) * share))

    async def _folded(self, room: int) -> None:
        self.prose = self.reason = ""
        so_far = summary.read(self._turn.setup.session.messages)[0]
        pieces = _packed(self._older, room, self._meter.text)
        for number, piece in enumerate(pieces, 1):
            place = f"{number} of {len(pieces)}"
            wanted = summary.piece_request(piece, so_far=so_far, place=place, words=self._words, keep=self._keep)
            self._sent = self._meter.text(wanted) + self._meter.text(summary.SYSTEM)
            self._asked = piece  # to repeat the summary so far is no echo: perhaps nothing is to be added
            await self._ask(self._plain(wanted))
            if self._reply is not None and self._reply.stop_reason == "overflow":
                raise ProviderError("a part of the conversation does not fit the window", class_="context_overflow")
            await self._settle()
            if self.reason:
                return
            so_far = self.prose

    def _plain(self, text: str) -> CompletionParams:
        """A request of its own: a short system prompt, no tools, nothing of the conversation but this text."""
        setup = self._turn.setup
        return CompletionParams(
            model=setup.model,
            messages=[user_message(text)],
            system=summary.SYSTEM,
            max_output=setup.max_output,
            window=setup.meter.window,
            thinking=setup.thinking,
        )

    async def _ask(self, params: CompletionParams) -> None:
        exchange = Exchange(self._turn, params, told=False)
        await exchange.run()
        self._reply = exchange.reply

    async def _settle(self) -> None:
        """Judge the reply; one that is only too long may be written again once."""
        await self._shortened()
        assert self._reply is not None
        self.reason = summary.judge(self._reply, self._asked, self._turn.setup.session.messages)
        text = summary.prose_of(self._reply)
        if not self.reason and self._meter.text(text) > self._tokens:
            self.reason = "the summary is too long"
        self.prose = "" if self.reason else text

    async def _shortened(self) -> None:
        assert self._reply is not None
        text = summary.prose_of(self._reply)
        history = self._turn.setup.session.messages
        weight = self._meter.text(text)
        if weight <= self._tokens or weight > self._window // 2 or summary.judge(self._reply, self._asked, history):
            return
        self._asked = summary.shorter(text, words=self._words)
        await self._ask(self._plain(self._asked))


def _packed(messages: Sequence[Message], room: int, size: Callable[[str], int]) -> list[str]:
    """The messages as texts of at most ``room`` tokens, few enough; single long ones are cut for that."""
    most = 16_000
    while True:
        pieces: list[list[str]] = [[]]
        held = 0
        for entry in transcript(messages, most=most):
            weight = size(entry) + 1
            if held and held + weight > room:
                pieces.append([])
                held = 0
            pieces[-1].append(entry)
            held += weight
        fits = max((sum(size(e) + 1 for e in p) for p in pieces), default=0) <= room
        if (fits and len(pieces) <= _MOST_PIECES) or most <= _SHORTEST:
            break
        most //= 2
    texts = ["\n".join(piece) for piece in pieces if piece]
    return texts if len(texts) <= _MOST_PIECES else _thinned(texts)


_SHORTEST = 60


def _thinned(texts: list[str]) -> list[str]:
    """The first and the newest pieces: what lies between is in the archive, and its facts are in the ledger."""
    gap = f"[… {len(texts) - _MOST_PIECES} parts of the conversation are left out here …]"
    return [*texts[:2], f"{gap}\n{texts[2 - _MOST_PIECES]}", *texts[3 - _MOST_PIECES :]]
