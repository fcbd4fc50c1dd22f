"""THE loop: ask the model, tell what it says, run its tools, ask again.

Told by one async generator (see ``telling``); ``run`` and ``run_sync`` drain it, there is no second path. Promises:
- a message is durable before the event that announces it, and before the next request;
- every call gets exactly one result, in declared order, on every way out;
- ``Done`` comes exactly once, last; a caller that leaves early leaves a valid session behind.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orkas.harness.context.compaction import Compactor
from orkas.harness.exchange import Exchange
from orkas.harness.fallback import opening, succeeding
from orkas.harness.governor import Governor, converging
from orkas.harness.limit import EMPTY, STILL_CUT, is_cut, is_empty
from orkas.harness.refusal import Refusal, is_refusal, refusal_notice
from orkas.harness.round import Rounds
from orkas.harness.spending import CostReached
from orkas.harness.status import StatusAnswer
from orkas.harness.telling import tell
from orkas.harness.turn import Turn
from orkas.infra.abort import Aborted
from orkas.infra.errors import OrkasError, ProviderError, StorageError
from orkas.infra.events import (
    Done,
    ErrorClass,
    ErrorInfo,
    Notice,
    Outcome,
    TextDelta,
    UserInput,
)  # fmt: skip
from orkas.infra.known import hide
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    StopReason,
    ToolCall,
    UserMessage,
    calls_of,
    text_of,
)  # fmt: skip
from orkas.providers.base import CompletionParams

if TYPE_CHECKING:
    from orkas.harness.formed import Formed

__all__ = ["Runner"]

_log = logging.getLogger("orkas.runner")

_GOING_ON = ("tool_use", "pause")
"""Stop reasons after which the model is asked again."""


class Runner:
    """Runs one turn. ``compactor``: lives as long as its agent, and remembers what it tried in vain."""

    def __init__(self, turn: Turn, compactor: Compactor) -> None:
        self.turn = turn
        self._compactor = compactor
        self._session = turn.setup.session
        self._abort = turn.setup.context.abort
        turn.setup.context.payable = turn.spending.payable
        turn.setup.context.seated = turn.setup.seated
        self._governor = Governor(turn.setup.tools, small=turn.small)
        self._nudge = ""
        self._rounds = Rounds(turn, self._governor)

    async def run(self, message: UserMessage) -> None:
        """Tell the turn, event by event, to its ``Done``."""
        turn = self.turn
        outcome: Outcome = "completed"
        error: ErrorInfo | None = None
        try:
            try:
                await self._loop(message)
            except Aborted:
                outcome, turn.stop_reason = "aborted", "aborted"
                await self._rounds.close()
                if (jobs := turn.setup.context.jobs) is not None:
                    from orkas.harness.background import tell_running

                    await tell_running(turn, jobs)
            except (OrkasError, OSError) as problem:
                outcome, error = "failed", _info(problem)
                turn.stop_reason = turn.stop_reason if isinstance(problem, Refusal) else "error"
                _log.error("turn failed: %s", problem)
            except Exception as problem:  # noqa: BLE001 - a fault of ours ends the turn as an event, not as a caller left hanging
                outcome, turn.stop_reason = "failed", "error"
                error = _fault(problem)
                _log.exception("internal fault")
        finally:
            self._rounds.leave_paired()
            turn.setup.recorder.close()
        if trouble := turn.setup.recorder.trouble():
            text = f"The statistics could not be kept ({trouble}); the conversation is not affected."
            await tell(Notice(turn.next_seq(), "warning", text))
        await tell(Done(
            turn.next_seq(), outcome, turn.text, turn.stop_reason, turn.setup.full_model, self._session.id, turn.rounds,
            turn.usage, turn.tools, error, turn.output if outcome == "completed" else None,
        ))  # fmt: skip

    async def _loop(self, message: UserMessage) -> None:
        """Round after round until the model has answered and nobody has anything to add."""
        turn, inbox = self.turn, self.turn.setup.inbox
        await self._take(inbox.waiting())  # what was sent to a turn that ended too soon goes first
        await self._session.commit(message)
        for told in opening(turn):
            await tell(told)
        for text in turn.setup.told:
            await tell(Notice(turn.next_seq(), "warning", text))
        if (jobs := turn.setup.context.jobs) is not None:
            from orkas.harness.background import tell_ended  # where no job can be, none of it is loaded

            await tell_ended(turn, jobs)
        while True:
            turn.rounds += 1
            try:
                if turn.setup.succession.several:
                    await succeeding(turn, self._ask)
                    self._governor.small = turn.small  # another may have replied
                else:
                    await self._ask()
            except CostReached as reached:
                turn.rounds -= 1  # it ends before the request
                await self._say(str(reached), "max_cost")
                return
            before = len(self._session.messages)
            if calls := calls_of(self._session.messages[-1]):
                await self._rounds.act(calls)
                turn.stop_reason = "tool_use"
            elif turn.stop_reason == "tool_use":
                turn.stop_reason = "stop"  # there is nothing to run, so nothing to go on from
            going_on = turn.stop_reason in _GOING_ON
            if going_on and await self._ended(calls, self._session.messages[before:]):
                return
            if turn.stop_reason == "max_cost":
                return
            if taken := inbox.steered() or ([] if going_on else inbox.queued()):
                await self._take(taken)
            elif not going_on:
                if is_refusal(self._session.messages[-1]):
                    await self._refused()
                return

    async def _refused(self) -> None:
        """The turn ends with a refusal. One with words of its own is told; one without is no answer.

        Raises:
            Refusal: there are no words.
        """
        reply = self._session.messages[-1]
        if self.turn.text.strip():
            await tell(Notice(self.turn.next_seq(), "warning", refusal_notice(reply)))
        else:
            raise Refusal(reply)

    async def _take(self, messages: list[UserMessage]) -> None:
        """Put what the user sent into the conversation, exactly once, then tell."""
        if not messages:
            return
        known = {m.id for m in self._session.messages}  # one whose save failed before waits in the session
        await self._session.commit(*(m for m in messages if m.id not in known))
        self.turn.setup.inbox.taken(messages)
        self._governor.spoken()
        self.turn.spoke = False
        for message in messages:
            await tell(UserInput(self.turn.next_seq(), message.id, text_of(message)))

    async def _ask(self) -> None:
        """One reply, with room made for it where needed. It is in the session, durable, when this ends."""
        turn, compactor = self.turn, self._compactor
        words, answer_only = self._nudge, self._governor.answer_only
        params = turn.params(words, answer_only=answer_only)
        due = compactor.due(turn, None if words else params)
        refusal: ProviderError | None = None
        while True:
            if due or refusal:
                try:
                    await compactor.run(turn, overflowed=refusal is not None)
                except ProviderError:
                    if refusal is None or not refusal.vague:
                        raise
                    raise refusal from None  # who speaks of no tokens may have meant something else
                params = turn.params(words, answer_only=answer_only)
            exchange = Exchange(turn, params) if turn.setup.output is None else _formed(turn, params)
            try:
                await exchange.run()
                break
            except ProviderError as error:
                if refusal is not None or error.class_ != "context_overflow":
                    raise
                curable = turn.setup.meter.refused(turn.setup.full_model, error)
                if not curable and not any(isinstance(b, Image) for m in params.messages for b in m.content):
                    raise
                refusal = error
            finally:
                if exchange.reply is None:
                    self._keep(exchange.rest())
        assert exchange.reply is not None
        await self._heard(params, exchange.reply)
        if is_cut(exchange.reply):
            await tell(Notice(turn.next_seq(), "warning", STILL_CUT))
        elif exchange.fault is None and is_empty(exchange.reply) and not turn.spoke:
            turn.text = ""
            await tell(Notice(turn.next_seq(), "warning", EMPTY))
        if exchange.fault is not None:
            raise exchange.fault

    async def _heard(self, params: CompletionParams, reply: AssistantMessage) -> None:
        """Take a whole reply in."""
        turn = self.turn
        self._nudge = ""
        turn.setup.meter.heard(params, reply)
        turn.text, turn.stop_reason = text_of(reply), reply.stop_reason
        turn.spoke = turn.spoke or bool(turn.text.strip())
        [stored] = await self._session.commit(self._rounds.announced(reply))
        self._rounds.recorded(stored)  # type: ignore[arg-type]  # it is an assistant's

    def _keep(self, rest: AssistantMessage | None) -> None:
        """What the user saw of a reply that did not come whole is kept, marked as such."""
        self.turn.text = text_of(rest) if rest is not None else ""
        if rest is not None:
            with suppress(StorageError):  # kept in memory; the fault that ends the turn is the one to tell
                self._session.append(rest)

    async def _ended(self, calls: list[ToolCall], results: list[Message]) -> bool:
        """After a round that asks for another: whether the turn ends, for the model would go on for ever."""
        turn = self.turn
        ruling = self._governor.judge(calls, results)
        self._nudge = ruling.nudge
        if late := converging(turn.rounds, turn.setup.max_rounds):
            self._nudge = f"{self._nudge}\n\n{late}" if self._nudge else late
        if turn.rounds >= turn.setup.max_rounds:
            rounds = f"{turn.rounds} rounds" if turn.rounds > 1 else "one round"
            await self._say(f"Stopped after {rounds}, the limit for one turn. Say “continue” to go on.", "max_rounds")
            return True
        if ruling.stop and not turn.setup.inbox.steered():  # the user's word may lead out of it
            await (self._break_off(ruling.stop) if ruling.ask else self._say(ruling.stop, "loop"))
            return True
        return False

    async def _break_off(self, why: str) -> None:
        """End a turn that repeats itself: why, then where things stand."""
        turn = self.turn
        await tell(TextDelta(turn.next_seq(), f"{why}\n\n"))
        status = StatusAnswer(turn, why)
        try:
            await status.ask()
        except Aborted:
            self._keep(turn.own_words(why, "aborted"))
            raise
        turn.text, turn.stop_reason = f"{why}\n\n{status.text}", "loop"
        await self._session.commit(replace(turn.own_words(turn.text, "loop"), usage=status.usage))
        await tell(TextDelta(turn.next_seq(), status.text))

    async def _say(self, text: str, reason: StopReason) -> None:
        """End the turn with words of our own, as the model's last message."""
        self.turn.text, self.turn.stop_reason = text, reason
        await self._session.commit(self.turn.own_words(text, reason))
        await tell(TextDelta(self.turn.next_seq(), text))

def _formed(turn: Turn, params: CompletionParams) -> Formed:
    from orkas.harness.formed import Formed  # a turn without a form needs none of it

    return Formed(turn, params)


def _info(problem: Exception) -> ErrorInfo:
    if isinstance(problem, ProviderError):
        return ErrorInfo(problem.class_, str(problem), problem.status)
    return ErrorInfo(_class_of(problem), hide(str(problem)) or type(problem).__name__)


def _fault(problem: Exception) -> ErrorInfo:
    """What others' code raised may say anything."""
    from orkas.infra.redact import redact  # its patterns take a while to compile

    return ErrorInfo("internal", redact(f"{type(problem).__name__}: {problem}"))


def _class_of(problem: Exception) -> ErrorClass:
    match problem:
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "connection"
        case StorageError() | OSError():
            return "storage"
        case _:
            return "invalid_request"
