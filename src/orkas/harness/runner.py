"""THE loop: ask the model, tell what it says, run its tools, ask again.

Told by one async generator (see ``telling``); ``run`` and ``run_sync`` drain it, there is no second path. Promises:
- a message is durable before the event that announces it, and before the next request;
- every call gets exactly one result, in declared order, on every way out;
- ``Done`` comes exactly once, last; a caller that leaves early leaves a valid session behind.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orkas.harness import pairing
from orkas.harness.abreast import MOST, Abreast, leading_reads
from orkas.harness.exchange import Exchange
from orkas.harness.execute import Say, execute
from orkas.harness.fallback import opening, succeeding
from orkas.harness.governor import Governor, converging
from orkas.harness.limit import EMPTY, STILL_CUT, cut_call, is_cut, is_empty
from orkas.harness.outcome import HARMLESS, NOT_STARTED, STOPPED, interrupted
from orkas.harness.refusal import Refusal, is_refusal, refusal_notice
from orkas.harness.sessions.session import Session
from orkas.harness.spending import CostReached
from orkas.harness.status import StatusAnswer
from orkas.harness.telling import tell
from orkas.harness.tool import ToolResult
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
    ToolEnd,
    ToolProgress,
    ToolStart,
    UserInput,
)  # fmt: skip
from orkas.infra.known import hide
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
)  # fmt: skip
from orkas.providers.base import CompletionParams

if TYPE_CHECKING:
    from orkas.harness.formed import Formed
    from orkas.harness.undo.keeper import Keeper
    from orkas.infra.jobs import Jobs

__all__ = ["Runner"]

_log = logging.getLogger("orkas.runner")

_GOING_ON = ("tool_use", "pause")
"""Stop reasons after which the model is asked again."""


class Runner:
    """Runs one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._session = turn.setup.session
        self._abort = turn.setup.context.abort
        turn.setup.context.payable = turn.spending.payable
        turn.setup.context.seated = turn.setup.seated
        self._governor = Governor(turn.setup.tools, small=turn.small)
        self._nudge = ""
        self._cut = False  # the output limit ended the last reply in its calls
        self._cuts = 0  # how often in this turn
        self._approved = ""  # what a person said yes to, last
        self._running: dict[str, bool] = {}  # ids of the calls that run now, each with whether it only reads
        self._results: dict[str, ToolResult] = {}  # of calls that have ended and wait for those before them
        self._images: list[UserMessage] = []  # what tools showed in this round; they follow all results
        self._marked: str | None = None  # what the newest record says of the call that begins next
        self._reads = 0  # and how many from that one on only read

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
                await self._close_calls()
                await self._tell_running(turn.setup.context.jobs)
            except (OrkasError, OSError) as problem:
                outcome, error = "failed", _info(problem)
                turn.stop_reason = turn.stop_reason if isinstance(problem, Refusal) else "error"
                _log.error("turn failed: %s", problem)
            except Exception as problem:  # noqa: BLE001 - a fault of ours ends the turn as an event, not as a caller left hanging
                outcome, turn.stop_reason = "failed", "error"
                error = _fault(problem)
                _log.exception("internal fault")
        finally:
            self._leave_paired()
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
        await self._tell_ended(turn.setup.context.jobs)
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
                await self._act(calls)
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
        turn, compactor = self.turn, self.turn.setup.compactor
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
        calls = calls_of(reply)
        self._cut = bool(calls) and turn.stop_reason == "length"
        self._cuts += self._cut
        if calls:
            starts, reads = self._next(calls, 0)
            reply = replace(reply, starts=starts, reads=reads)
        [stored] = await self._session.commit(reply)
        self._marked, self._reads = stored.starts, stored.reads  # type: ignore[union-attr]  # it is an assistant's

    def _keep(self, rest: AssistantMessage | None) -> None:
        """What the user saw of a reply that did not come whole is kept, marked as such."""
        self.turn.text = text_of(rest) if rest is not None else ""
        if rest is not None:
            with suppress(StorageError):  # kept in memory; the fault that ends the turn is the one to tell
                self._session.append(rest)

    async def _act(self, calls: list[ToolCall]) -> None:
        """Run the calls: those that only read side by side, any other alone. Images follow all results."""
        turn, place = self.turn, 0
        while place < len(calls):
            self._abort.check()
            if self._reads > 1:
                place = await self._abreast(calls, place, place + self._reads)
                continue
            call = calls[place]
            refusal = await self._permitted(call)
            if not refusal:
                await self._begin(call)
            await tell(ToolStart(turn.next_seq(), call.id, call.name, call.arguments))
            if refusal:
                result = ToolResult(refusal, is_error=True)
            else:
                result = await self._result(call, partial(self._say_progress, call.id))
            message = await self._store(calls, place, result)
            await tell(self._end(call, message, result))
            if turn.setup.context.undo is not None:
                await self._tell_of_undo(turn.setup.context.undo)
            await self._tell_ended(turn.setup.context.jobs)
            place += 1
        if self._images:
            images, self._images = self._images, []
            await self._session.commit(*images)

    async def _abreast(self, calls: list[ToolCall], place: int, end: int) -> int:
        """Run those from ``place`` to ``end``: begun and ended in declared order, whoever is first; what they say comes
        as they say it. Returns ``end``."""
        turn, abreast, begins = self.turn, Abreast(self._result), place
        self._approved = ""
        self._results = abreast.results
        try:
            while place < end:
                while begins < end and abreast.running < MOST and not self._abort.fired:
                    call = calls[begins]
                    self._running[call.id] = True
                    await tell(ToolStart(turn.next_seq(), call.id, call.name, call.arguments))
                    abreast.begin(call)
                    begins += 1
                await abreast.news()
                while abreast.said:
                    said, text = abreast.said.popleft()
                    await self._say_progress(said.id, text)
                if (result := abreast.results.get(calls[place].id)) is not None:
                    message = await self._store(calls, place, result)
                    await tell(self._end(calls[place], message, result))
                    place += 1
                elif not abreast.running:
                    self._abort.check()
                    abreast.check()
        finally:
            await abreast.end()
        return end

    async def _permitted(self, call: ToolCall) -> str:
        """Ask whoever has to be asked, before the call counts as begun. Returns what the model is told of a no.

        A call that a record names was not asked about, and is not looked at once more before it is executed.
        """
        self._approved = ""
        if self._marked == call.id or not self.turn.setup.policy.may_ask:
            return ""
        from orkas.harness.approvals import permission

        refusal, self._approved = await permission(self.turn, call)
        return refusal

    def _next(self, calls: Sequence[ToolCall], place: int) -> tuple[str | None, int]:
        """What the record before the call at this place says: ``starts``, for it begins as soon as the record is
        durable, and ``reads``, how many begin with it.

        A call that waits for an answer must not be named: then ``starts`` is "", and ``Session.start`` marks it when it
        begins.
        """
        if place >= len(calls):
            return None, 0
        setup = self.turn.setup
        reads = leading_reads(calls, setup.tools, place)
        if setup.policy.may_ask:
            from orkas.harness.approvals import asked_about

            if asked_about(setup, calls[place]):
                return "", 0
            reads = next((n for n in range(1, reads) if asked_about(setup, calls[place + n])), reads)
        return calls[place].id, reads

    async def _tell_ended(self, jobs: Jobs | None) -> None:
        """Background jobs that have ended are told to the user."""
        for job in jobs.news("user") if jobs is not None else []:
            text = "; ".join([f"Background job {job.title}: {job.state}", *job.notes])
            await tell(Notice(self.turn.next_seq(), "info", f"{text}."))

    async def _tell_running(self, jobs: Jobs | None) -> None:
        """Stop ends the turn, not what runs beside it."""
        if jobs is not None and (running := jobs.running):
            names = ", ".join(job.title for job in running)
            await tell(Notice(self.turn.next_seq(), "info", f"Still running in the background: {names}."))

    async def _begin(self, call: ToolCall) -> None:
        """Between a call's record and its start."""
        if self._marked != call.id:
            await self._session.start(call)
        self._running[call.id] = self._reads > 0

    async def _store(self, calls: list[ToolCall], place: int, result: ToolResult) -> ToolMessage:
        """Make a result durable, and with it what begins next. Returns it as stored."""
        call = calls[place]
        if (jobs := self.turn.setup.context.jobs) is not None:
            result = _with_news(result, jobs)
        message = _result_message(call, result, self._session)
        if (after := place + 1) < len(calls) and calls[after].id not in self._running:
            message.starts, message.reads = self._next(calls, after)
        [message] = await self._session.commit(message)  # type: ignore[assignment]  # a result stays one
        self._marked, self._reads = message.starts, message.reads
        if result.images:
            self._images += _image_messages(call, result)
        if self._results:
            self._results.pop(call.id, None)
        return message

    def _end(self, call: ToolCall, message: ToolMessage, result: ToolResult | None) -> ToolEnd:
        """A call that ran has ended, by us where there is no result: it is counted, and to be told."""
        turn = self.turn
        self._running.pop(call.id, None)  # one that was refused never ran
        if result is not None and result.cost_usd:
            turn.paid(result.cost_usd)
        turn.count(call.name, is_error=message.is_error)
        turn.setup.recorder.used(call.name, error=_error_of(result) if result is not None else "")
        return ToolEnd(turn.next_seq(), call.id, call.name, text_of(message), message.is_error)

    async def _say_progress(self, call_id: str, text: str) -> None:
        await tell(ToolProgress(self.turn.next_seq(), call_id, text))

    async def _tell_of_undo(self, undo: Keeper) -> None:
        for text in undo.told():
            await tell(Notice(self.turn.next_seq(), "info", text))

    async def _result(self, call: ToolCall, say: Say) -> ToolResult:
        """The one result of a call."""
        setup = self.turn.setup
        if call.arguments is None and self._cut:
            return ToolResult(cut_call(self._cuts), is_error=True)
        if refusal := self._governor.refusal(call):
            return ToolResult(refusal, is_error=True)
        return await execute(call, setup.tools, setup.policy, setup.context, say, approved=self._approved)

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

    async def _close_calls(self) -> None:
        """After Stop: a result for every open call; those that ran are told to have ended."""
        calls = pairing.open_calls(self._session.messages)
        closed = self._closing_results(calls)
        try:
            stored = await self._session.commit(*closed, *self._images)
        except StorageError as problem:
            _log.error("the interrupted results are not saved yet: %s", problem)
            stored = [*closed]
        self._images = []
        for call, message in zip(calls, stored, strict=False):
            if call.id in self._running and isinstance(message, ToolMessage):
                await tell(self._end(call, message, self._results.get(call.id)))

    def _closing_results(self, calls: list[ToolCall]) -> list[ToolMessage]:
        """The results that are there, and what is true of the calls that have none."""
        closing = []
        for call in calls:
            if (result := self._results.get(call.id)) is not None:
                closing.append(_result_message(call, result, self._session))
                self._images += _image_messages(call, result)
                continue
            reads = self._running.get(call.id)
            text = NOT_STARTED if reads is None else HARMLESS if reads else STOPPED
            closing.append(replace(interrupted(call, text), ts=now()))
        return closing

    def _leave_paired(self) -> None:
        """Whoever left, and how: no call stays open. A save that fails is pending in the session and heals on load."""
        closing = self._closing_results(pairing.open_calls(self._session.messages))
        if closing or self._images:
            with suppress(StorageError):
                self._session.append(*closing, *self._images)


def _formed(turn: Turn, params: CompletionParams) -> Formed:
    from orkas.harness.formed import Formed  # a turn without a form needs none of it

    return Formed(turn, params)


def _error_of(result: ToolResult) -> str:
    """As the statistics call it."""
    return "fault" if result.fault else "failed" if result.is_error else ""


def _with_news(result: ToolResult, jobs: Jobs) -> ToolResult:
    """The model is told with this result which background jobs have ended."""
    ended = [f"[{job.name} {job.state}; read its last output with shell_job]" for job in jobs.news("model")]
    return replace(result, text="\n".join([result.text, *ended])) if ended else result


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


def _result_message(call: ToolCall, result: ToolResult, session: Session) -> ToolMessage:
    text = Text(text=result.text)
    if result.file and session.files is not None and Path(result.file).is_relative_to(session.files):
        text = Text(text=result.text, file=str(Path(result.file).relative_to(session.files)), bytes=result.bytes)
    return ToolMessage(call.id, [text], result.is_error, id=new_id(), ts=now(), origin=result.origin)


def _image_messages(call: ToolCall, result: ToolResult) -> list[UserMessage]:
    """What a tool showed, each picture as the message that follows the results of its round."""
    foreign = result.origin is not None
    return [
        UserMessage([image], id=new_id(), ts=now(), origin="tool_image", tool_call_id=call.id, foreign=foreign)
        for image in result.images
    ]
