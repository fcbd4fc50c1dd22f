"""What becomes of the calls of a reply: each begun, run and ended in declared order, with exactly one result."""

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
from orkas.harness.execute import Say, execute
from orkas.harness.governor import Governor
from orkas.harness.limit import cut_call
from orkas.harness.outcome import HARMLESS, NOT_STARTED, STOPPED, interrupted
from orkas.harness.sessions.session import Session
from orkas.harness.telling import tell
from orkas.harness.tool import ToolResult
from orkas.harness.turn import Turn
from orkas.infra.errors import StorageError
from orkas.infra.events import Notice, ToolEnd, ToolProgress, ToolStart
from orkas.infra.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    calls_of,
    new_id,
    now,
    text_of,
)  # fmt: skip

if TYPE_CHECKING:
    from orkas.harness.undo.keeper import Keeper

__all__ = ["Rounds"]

_log = logging.getLogger("orkas.runner")


class Rounds:
    """The calls of a turn, round after round."""

    def __init__(self, turn: Turn, governor: Governor) -> None:
        self.turn = turn
        self._session = turn.setup.session
        self._abort = turn.setup.context.abort
        self._governor = governor
        self._cut = False  # the output limit ended the last reply in its calls
        self._cuts = 0  # how often in this turn
        self._approved = ""  # what a person said yes to, last
        self._running: dict[str, bool] = {}  # ids of the calls that run now, each with whether it only reads
        self._results: dict[str, ToolResult] = {}  # of calls that have ended and wait for those before them
        self._images: list[UserMessage] = []  # what tools showed in this round; they follow all results
        self._marked: str | None = None  # what the newest record says of the call that begins next
        self._reads = 0  # and how many from that one on only read

    # -------------------------------------------------------------- records

    def announced(self, reply: AssistantMessage) -> AssistantMessage:
        """A whole reply, with what its record is to say of the calls that begin with it."""
        calls = calls_of(reply)
        self._cut = bool(calls) and reply.stop_reason == "length"
        self._cuts += self._cut
        if not calls:
            return reply
        starts, reads = self._next(calls, 0)
        return replace(reply, starts=starts, reads=reads)

    def recorded(self, message: AssistantMessage | ToolMessage) -> None:
        """This record is durable: the calls that it names may begin."""
        self._marked, self._reads = message.starts, message.reads

    # -------------------------------------------------------------- running

    async def act(self, calls: list[ToolCall]) -> None:
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
            if (jobs := turn.setup.context.jobs) is not None:
                from orkas.harness.background import tell_ended

                await tell_ended(turn, jobs)
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
        from orkas.harness.permission import permission

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
            from orkas.harness.permission import asked_about

            if asked_about(setup, calls[place]):
                return "", 0
            reads = next((n for n in range(1, reads) if asked_about(setup, calls[place + n])), reads)
        return calls[place].id, reads

    async def _begin(self, call: ToolCall) -> None:
        """Between a call's record and its start."""
        if self._marked != call.id:
            await self._session.start(call)
        self._running[call.id] = self._reads > 0

    async def _store(self, calls: list[ToolCall], place: int, result: ToolResult) -> ToolMessage:
        """Make a result durable, and with it what begins next. Returns it as stored."""
        call = calls[place]
        if (jobs := self.turn.setup.context.jobs) is not None:
            from orkas.harness.background import with_news  # where no job can be, none of it is loaded

            result = with_news(result, jobs)
        message = _result_message(call, result, self._session)
        if (after := place + 1) < len(calls) and calls[after].id not in self._running:
            message.starts, message.reads = self._next(calls, after)
        [message] = await self._session.commit(message)  # type: ignore[assignment]  # a result stays one
        self.recorded(message)
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

    # -------------------------------------------------------------- ending early

    async def close(self) -> None:
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

    def leave_paired(self) -> None:
        """Whoever left, and how: no call stays open. A save that fails is pending in the session and heals on load."""
        closing = self._closing_results(pairing.open_calls(self._session.messages))
        if closing or self._images:
            with suppress(StorageError):
                self._session.append(*closing, *self._images)


def _error_of(result: ToolResult) -> str:
    """As the statistics call it."""
    return "fault" if result.fault else "failed" if result.is_error else ""


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
