"""THE loop: ask the model, tell what it says, run its tools, ask again.

One async generator; ``run`` and ``run_sync`` drain it, there is no second path. Promises:
- a message is durable before the event that announces it, and before the next request;
- every call gets exactly one result, in declared order, on every way out;
- ``Done`` comes exactly once, last; a caller that leaves early leaves a valid session behind. For this each generator
  closes the ones it draws from before it ends itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orkas.harness import pairing
from orkas.harness.exchange import Exchange
from orkas.harness.execute import execute
from orkas.harness.fallback import opening, succeeding
from orkas.harness.governor import Governor, converging
from orkas.harness.limit import STILL_CUT, cut_call, is_cut
from orkas.harness.sessions.session import Session
from orkas.harness.status import StatusAnswer
from orkas.harness.tool import ToolResult
from orkas.harness.turn import Turn
from orkas.infra.abort import Aborted
from orkas.infra.errors import OrkasError, ProviderError, StorageError
from orkas.infra.events import (
    Done,
    ErrorClass,
    ErrorInfo,
    Event,
    Fallback,
    Notice,
    Outcome,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    UserInput,
)  # fmt: skip
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    StopReason,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    calls_of,
    new_id,
    now,
    text_of,
    tool_result,
)  # fmt: skip

if TYPE_CHECKING:
    from orkas.harness.formed import Formed
    from orkas.providers.base import CompletionParams

__all__ = ["Runner"]

_log = logging.getLogger("orkas.runner")

STOPPED = "Interrupted: the user stopped the run while this tool was running. Check what it did before repeating."
NOT_STARTED = "Interrupted: the run was stopped before this tool was started. It did nothing."


class Runner:
    """Runs one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._session = turn.setup.session
        self._abort = turn.setup.context.abort
        self._governor = Governor(turn.setup.tools, small=turn.small)
        self._nudge = ""
        self._cut = False  # the output limit ended the last reply in its calls
        self._cuts = 0  # how often in this turn
        self._running: str | None = None  # id of the call that runs now

    async def run(self, message: UserMessage) -> AsyncGenerator[Event, None]:
        """Tell the turn, event by event, to its ``Done``."""
        turn = self.turn
        outcome: Outcome = "completed"
        error: ErrorInfo | None = None
        try:
            try:
                async with aclosing(self._loop(message)) as events:
                    async for event in events:
                        yield event
            except Aborted:
                outcome, turn.stop_reason = "aborted", "aborted"
                async for event in self._close_calls():
                    yield event
            except (OrkasError, OSError) as problem:
                outcome, turn.stop_reason, error = "failed", "error", _info(problem)
                _log.error("turn failed: %s", problem)
            except Exception as problem:  # noqa: BLE001 - a fault of ours ends the turn as an event, not as a caller left hanging
                outcome, turn.stop_reason = "failed", "error"
                error = ErrorInfo("internal", f"{type(problem).__name__}: {problem}")
                _log.exception("internal fault")
        finally:
            self._leave_paired()
            turn.setup.recorder.close()
        if trouble := turn.setup.recorder.trouble():
            text = f"The statistics could not be kept ({trouble}); the conversation is not affected."
            yield Notice(turn.next_seq(), "warning", text)
        yield Done(
            turn.next_seq(), outcome, turn.text, turn.stop_reason, turn.setup.full_model, self._session.id, turn.rounds,
            turn.usage, turn.tools, error, turn.output if outcome == "completed" else None,
        )  # fmt: skip

    async def _loop(self, message: UserMessage) -> AsyncGenerator[Event, None]:
        """Round after round until the model has answered and nobody has anything to add."""
        async with aclosing(self._take(self.turn.setup.inbox.waiting())) as events:
            async for event in events:  # what was sent to a turn that ended too soon goes first
                yield event
        await self._session.commit(message)
        for told in opening(self.turn):
            yield told
        going_on = True
        while going_on:
            async with aclosing(self._round()) as events:
                async for event in events:
                    yield event
            going_on = self.turn.stop_reason in ("tool_use", "pause")
            taken = self.turn.setup.inbox.steered() or ([] if going_on else self.turn.setup.inbox.queued())
            if self.turn.stop_reason in ("loop", "max_rounds", "max_cost"):
                return
            async with aclosing(self._take(taken)) as events:
                async for event in events:
                    yield event
            going_on = going_on or bool(taken)

    async def _round(self) -> AsyncGenerator[Event, None]:
        """One reply of the model and the calls in it."""
        self.turn.rounds += 1
        async with aclosing(succeeding(self.turn, self._ask)) as events:
            async for event in events:
                if type(event) is Fallback:
                    self._governor.small = self.turn.small
                yield event
        reply = self._session.messages[-1]
        calls = calls_of(reply)
        self._cut = bool(calls) and self.turn.stop_reason == "length"
        self._cuts += self._cut
        before = len(self._session.messages)
        async with aclosing(self._act(calls)) as events:
            async for event in events:
                yield event
        if not calls:
            return
        self.turn.stop_reason = "tool_use"
        async with aclosing(self._govern(calls, self._session.messages[before:])) as events:
            async for event in events:
                yield event

    async def _take(self, messages: list[UserMessage]) -> AsyncGenerator[Event, None]:
        """Put what the user sent into the conversation, exactly once, then tell."""
        if not messages:
            return
        known = {m.id for m in self._session.messages}  # one whose save failed before waits in the session
        await self._session.commit(*(m for m in messages if m.id not in known))
        self.turn.setup.inbox.taken(messages)
        self._governor.spoken()
        for message in messages:
            yield UserInput(self.turn.next_seq(), message.id, text_of(message))

    async def _ask(self) -> AsyncGenerator[Event, None]:
        """One reply, with room made for it where needed. It is in the session, durable, when this ends."""
        compactor = self.turn.setup.compactor
        if compactor.due(self.turn):
            async with aclosing(compactor.run(self.turn)) as events:
                async for event in events:
                    yield event
        try:
            async with aclosing(self._exchange()) as events:
                async for event in events:
                    yield event
        except ProviderError as error:
            if error.class_ != "context_overflow":
                raise
            self.turn.setup.meter.refused(self.turn.setup.full_model, error)
            async with aclosing(compactor.run(self.turn, overflowed=True)) as events:
                async for event in events:
                    yield event
            async with aclosing(self._exchange()) as events:
                async for event in events:
                    yield event

    async def _exchange(self) -> AsyncGenerator[Event, None]:
        turn = self.turn
        params = turn.params(self._nudge, answer_only=self._governor.answer_only)
        exchange = Exchange(turn, params) if turn.setup.output is None else _formed(turn, params)
        try:
            async with aclosing(exchange.events()) as events:
                async for event in events:
                    yield event
        finally:
            if exchange.reply is None:
                self._keep(exchange.rest())
        reply = exchange.reply
        assert reply is not None
        self._nudge = ""
        turn.setup.meter.heard(params, reply)
        turn.text, turn.stop_reason = text_of(reply), reply.stop_reason
        calls = calls_of(reply)
        await self._session.commit(replace(reply, starts=calls[0].id) if calls else reply)
        if is_cut(reply):
            yield Notice(turn.next_seq(), "warning", STILL_CUT)
        if exchange.fault is not None:
            raise exchange.fault

    def _keep(self, rest: AssistantMessage | None) -> None:
        """What the user saw of a reply that did not come whole is kept, marked as such."""
        self.turn.text = text_of(rest) if rest is not None else ""
        if rest is not None:
            with suppress(StorageError):  # kept in memory; the fault that ends the turn is the one to tell
                self._session.append(rest)

    async def _act(self, calls: list[ToolCall]) -> AsyncGenerator[Event, None]:
        """Run the calls one after another; images that tools returned follow all results."""
        images: list[UserMessage] = []
        for place, call in enumerate(calls):
            following = calls[place + 1].id if place + 1 < len(calls) else None
            self._abort.check()
            self._running = call.id
            yield ToolStart(self.turn.next_seq(), call.id, call.name, call.arguments)
            result = ToolResult("")
            async with aclosing(self._result(call)) as telling:
                async for told in telling:
                    if isinstance(told, ToolResult):
                        result = told
                    else:
                        yield ToolProgress(self.turn.next_seq(), call.id, told)
            [message] = await self._session.commit(_result_message(call, result, self._session, following))
            self._running = None
            self.turn.count(call.name, is_error=result.is_error)
            self.turn.setup.recorder.used(call.name, error=_error_of(result))
            images += [_image_message(call, image) for image in result.images]
            yield ToolEnd(self.turn.next_seq(), call.id, call.name, text_of(message), result.is_error)
        if images:
            await self._session.commit(*images)

    async def _result(self, call: ToolCall) -> AsyncGenerator[str | ToolResult, None]:
        """The call's progress and its one result."""
        if call.arguments is None and self._cut:
            yield ToolResult(cut_call(self._cuts), is_error=True)
            return
        if refusal := self._governor.refusal(call):
            yield ToolResult(refusal, is_error=True)
            return
        setup = self.turn.setup
        async with aclosing(execute(call, setup.tools, setup.policy, setup.context)) as telling:
            async for told in telling:
                yield told

    async def _govern(self, calls: list[ToolCall], results: list[Message]) -> AsyncGenerator[Event, None]:
        """After a round of tools: end the turn where the model would go on for ever."""
        turn = self.turn
        ruling = self._governor.judge(calls, results)
        self._nudge = "\n\n".join(filter(None, (ruling.nudge, converging(turn.rounds, turn.setup.max_rounds))))
        if turn.rounds >= turn.setup.max_rounds:
            rounds = f"{turn.rounds} rounds" if turn.rounds > 1 else "one round"
            text = f"Stopped after {rounds}, the limit for one turn. Say “continue” to go on."
            ending = self._say(text, "max_rounds")
        elif ruling.stop and not turn.setup.inbox.steered():  # the user's word may lead out of it
            ending = self._break_off(ruling.stop) if ruling.ask else self._say(ruling.stop, "loop")
        else:
            return
        async with aclosing(ending) as events:
            async for event in events:
                yield event

    async def _break_off(self, why: str) -> AsyncGenerator[Event, None]:
        """End a turn that repeats itself: why, then where things stand."""
        turn = self.turn
        yield TextDelta(turn.next_seq(), f"{why}\n\n")
        status = StatusAnswer(turn, why)
        try:
            async with aclosing(status.events()) as events:
                async for event in events:
                    yield event
        except Aborted:
            self._keep(turn.own_words(why, "aborted"))
            raise
        turn.text, turn.stop_reason = f"{why}\n\n{status.text}", "loop"
        await self._session.commit(replace(turn.own_words(turn.text, "loop"), usage=status.usage))
        yield TextDelta(turn.next_seq(), status.text)

    async def _say(self, text: str, reason: StopReason) -> AsyncGenerator[Event, None]:
        """End the turn with words of our own, as the model's last message."""
        self.turn.text, self.turn.stop_reason = text, reason
        await self._session.commit(self.turn.own_words(text, reason))
        yield TextDelta(self.turn.next_seq(), text)

    async def _close_calls(self) -> AsyncGenerator[Event, None]:
        """After Stop: a result for every open call; the one that ran is told to have ended."""
        try:
            closed = self._closing_results()
            await self._session.commit(*closed)
        except StorageError as problem:
            _log.error("the interrupted results are not saved yet: %s", problem)
        for message in closed:
            if message.tool_call_id == self._running:
                name = self._name_of(message.tool_call_id)
                self.turn.count(name, is_error=True)
                self.turn.setup.recorder.used(name, error="")
                yield ToolEnd(self.turn.next_seq(), message.tool_call_id, name, text_of(message), is_error=True)

    def _name_of(self, call_id: str) -> str:
        return next(c.name for m in reversed(self._session.messages) for c in calls_of(m) if c.id == call_id)

    def _closing_results(self) -> list[ToolMessage]:
        return [
            tool_result(c.id, STOPPED if c.id == self._running else NOT_STARTED, is_error=True, synthetic=True)
            for c in pairing.open_calls(self._session.messages)
        ]

    def _leave_paired(self) -> None:
        """Whoever left, and how: no call stays open. A save that fails is pending in the session and heals on load."""
        closing = self._closing_results()
        if closing:
            with suppress(StorageError):
                self._session.append(*closing)


def _formed(turn: Turn, params: CompletionParams) -> Formed:
    from orkas.harness.formed import Formed

    return Formed(turn, params)


def _error_of(result: ToolResult) -> str:
    """As the statistics call it."""
    return "fault" if result.fault else "failed" if result.is_error else ""


def _info(problem: Exception) -> ErrorInfo:
    if isinstance(problem, ProviderError):
        return ErrorInfo(problem.class_, str(problem), problem.status)
    return ErrorInfo(_class_of(problem), str(problem) or type(problem).__name__)


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


def _result_message(call: ToolCall, result: ToolResult, session: Session, following: str | None) -> ToolMessage:
    text = Text(text=result.text)
    if result.file and session.files is not None and Path(result.file).is_relative_to(session.files):
        text = Text(text=result.text, file=str(Path(result.file).relative_to(session.files)), bytes=result.bytes)
    return ToolMessage(call.id, [text], result.is_error, id=new_id(), ts=now(), starts=following)


def _image_message(call: ToolCall, image: Image) -> UserMessage:
    return UserMessage([image], id=new_id(), ts=now(), origin="tool_image", tool_call_id=call.id)
