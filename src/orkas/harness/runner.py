"""THE loop: ask the model, tell what it says, run its tools, ask again.

One async generator; ``run`` and ``run_sync`` drain it, there is no second path. Promises:
- a message is durable before the event that announces it, and before the next request;
- every call gets exactly one result, in declared order, on every way out;
- ``Done`` comes exactly once, last; a caller that leaves early leaves a valid session behind. For this each generator
  closes the ones it draws from before it ends itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path

import msgspec

from orkas.harness import pairing
from orkas.harness.execute import execute
from orkas.harness.policy import Policy
from orkas.harness.session import Session
from orkas.harness.tool import Tool, ToolContext, ToolResult
from orkas.infra.abort import Aborted
from orkas.infra.errors import OrkasError, ProviderError, StorageError
from orkas.infra.events import (
    Done,
    ErrorClass,
    ErrorInfo,
    Event,
    Outcome,
    TextDelta,
    ThinkingDelta,
    ToolCount,
    ToolEnd,
    ToolProgress,
    ToolStart,
)  # fmt: skip
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    StopReason,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    calls_of,
    new_id,
    now,
    text_of,
    tool_result,
)  # fmt: skip
from orkas.providers.base import CompletionParams, LLMProvider, Part, TextPart, ThinkingLevel, ToolDef
from orkas.providers.small import REPEATED

__all__ = ["MAX_ROUNDS", "Setup", "Turn"]

_log = logging.getLogger("orkas.runner")
_canonical = msgspec.json.Encoder(order="sorted").encode

MAX_ROUNDS = 100
"""Model calls a turn may make by default."""
MAX_UNUSABLE = 3
"""Rounds in a row in which no call could be run at all before the turn is ended."""

STOPPED = "Interrupted: the user stopped the run while this tool was running. Check what it did before repeating."
NOT_STARTED = "Interrupted: the run was stopped before this tool was started. It did nothing."


class Setup(msgspec.Struct, eq=False):
    """What a turn stands on, wired by the agent."""

    provider: LLMProvider
    model: str
    """The model id without the vendor."""
    session: Session
    tools: Mapping[str, Tool]
    """All that can be called, by name."""
    offered: Sequence[ToolDef]
    """What the model is told of them."""
    policy: Policy
    context: ToolContext
    system: str = ""
    thinking: ThinkingLevel | None = None
    max_output: int | None = None
    max_rounds: int = MAX_ROUNDS

    @property
    def full_model(self) -> str:
        return f"{self.provider.id}/{self.model}"


class Turn(msgspec.Struct, eq=False):
    """One request of the user and everything that follows from it. Used once."""

    setup: Setup
    seq: int = 0
    rounds: int = 0
    text: str = ""
    stop_reason: str = ""
    usage: Usage = msgspec.field(default_factory=Usage)
    tools: dict[str, ToolCount] = msgspec.field(default_factory=dict)
    running: str | None = None
    """Id of the call that runs now."""
    _paired: pairing.Check = msgspec.field(default_factory=pairing.Check)
    _unusable: int = 0
    _called: set[bytes] = msgspec.field(default_factory=set)
    _answer_now: bool = False

    async def run(self, message: UserMessage) -> AsyncGenerator[Event, None]:
        """Tell the turn, event by event, to its ``Done``."""
        outcome: Outcome = "completed"
        error: ErrorInfo | None = None
        try:
            try:
                await self.setup.session.commit(message)
                async with aclosing(self._loop()) as events:
                    async for event in events:
                        yield event
            except Aborted:
                outcome, self.stop_reason = "aborted", "aborted"
                async for event in self._close_calls():
                    yield event
            except (OrkasError, OSError) as problem:
                outcome, self.stop_reason, error = "failed", "error", _info(problem)
                _log.error("turn failed: %s", problem)
            except Exception as problem:  # noqa: BLE001 - a fault of ours ends the turn as an event, not as a caller left hanging
                outcome, self.stop_reason = "failed", "error"
                error = ErrorInfo("internal", f"{type(problem).__name__}: {problem}")
                _log.exception("internal fault")
        finally:
            self._leave_paired()
        yield Done(
            self.seq, outcome, self.text, self.stop_reason, self.setup.full_model, self.setup.session.id, self.rounds,
            self.usage, self.tools, error,
        )  # fmt: skip

    async def _loop(self) -> AsyncGenerator[Event, None]:
        while True:
            self.rounds += 1
            async with aclosing(self._ask()) as deltas:
                async for event in deltas:
                    yield event
            reply = self.setup.session.messages[-1]
            calls = calls_of(reply)
            async with aclosing(self._act(calls)) as events:
                async for event in events:
                    yield event
            if not calls and self.stop_reason != "pause":
                return
            if ending := self._ending(calls):
                async for event in self._say(*ending):
                    yield event
                return

    async def _ask(self) -> AsyncGenerator[Event, None]:
        """One model call: its deltas. The message is in the session, durable, when this ends."""
        setup, abort = self.setup, self.setup.context.abort
        heard: list[list[Part]] = []
        reply: AssistantMessage | None = None
        try:
            async with AsyncExitStack() as stack:
                with abort.guard():
                    completion = await stack.enter_async_context(setup.provider.stream(self.params()))
                batches = completion.__aiter__()
                while True:
                    try:
                        with abort.guard():
                            batch = await anext(batches)
                    except StopAsyncIteration:
                        break
                    heard.append(batch)
                    for part in batch:
                        seq = self.seq
                        self.seq = seq + 1
                        yield TextDelta(seq, part.text) if type(part) is TextPart else ThinkingDelta(seq, part.text)
                reply = completion.message
        finally:
            if reply is None:
                self._keep_partial(heard)
        self.text, self.stop_reason = text_of(reply), reply.stop_reason
        if reply.usage is not None:
            self.usage = self.usage.plus(reply.usage)
        await setup.session.commit(reply)
        _raise_for(reply)

    def params(self) -> CompletionParams:
        """The next request, for the history as it stands."""
        setup = self.setup
        messages = setup.session.messages
        if not self._paired.holds(messages):
            messages = list(pairing.repair(messages).messages)
        return CompletionParams(
            model=setup.model,
            messages=messages,
            system=setup.system,
            tools=setup.offered,
            tool_choice="none" if self._answer_now else "auto",
            max_output=setup.max_output,
            thinking=setup.thinking,
            session_id=setup.session.id,
            media=setup.session.media,
        )

    def _keep_partial(self, heard: list[list[Part]]) -> None:
        """What the user saw of a reply that did not end is kept, marked as such; it is never taken for an answer."""
        text = "".join(p.text for batch in heard for p in batch if type(p) is TextPart)
        self.text = text
        if text:
            reason: StopReason = "aborted" if self.setup.context.abort.fired else "error"
            with suppress(StorageError):  # kept in memory; the fault that ends the turn is the one to tell
                self.setup.session.append(self._message(text, reason))

    def _message(self, text: str, reason: StopReason) -> AssistantMessage:
        """A message written by us in the model's place."""
        setup = self.setup
        return AssistantMessage(
            [Text(text=text)], setup.full_model, setup.provider.api, reason, id=new_id(), ts=now()
        )  # fmt: skip

    async def _act(self, calls: list[ToolCall]) -> AsyncGenerator[Event, None]:
        """Run the calls one after another; images that tools returned follow all results."""
        session = self.setup.session
        images: list[UserMessage] = []
        for call in calls:
            self.setup.context.abort.check()
            self.running = call.id
            yield ToolStart(self._next(), call.id, call.name, call.arguments)
            result = ToolResult(REPEATED, is_error=True)
            if not self._repeated(call):
                work = execute(call, self.setup.tools, self.setup.policy, self.setup.context)
                async with aclosing(work) as telling:
                    async for told in telling:
                        if isinstance(told, ToolResult):
                            result = told
                        else:
                            yield ToolProgress(self._next(), call.id, told)
            [message] = await session.commit(_result_message(call, result, session))
            self.running = None
            self._count(call.name, is_error=result.is_error)
            images += [_image_message(call, image) for image in result.images]
            yield ToolEnd(self._next(), call.id, call.name, text_of(message), result.is_error)
        if images:
            await session.commit(*images)

    def _repeated(self, call: ToolCall) -> bool:
        """Small models repeat a call whose result they have; the second time they are told to answer instead."""
        if not self.setup.provider.info(self.setup.model).small:
            return False
        key = _canonical([call.name, call.arguments])
        self._answer_now = key in self._called
        self._called.add(key)
        return self._answer_now

    def _name_of(self, call_id: str) -> str:
        return next(c.name for m in reversed(self.setup.session.messages) for c in calls_of(m) if c.id == call_id)

    def _count(self, tool: str, *, is_error: bool) -> None:
        count = self.tools.setdefault(tool, ToolCount())
        count.calls += 1
        count.errors += is_error

    def _ending(self, calls: list[ToolCall]) -> tuple[str, StopReason] | None:
        """Why the turn must end although the model would go on: what to say, and the stop reason."""
        if self.rounds >= self.setup.max_rounds:
            rounds = f"{self.rounds} rounds" if self.rounds > 1 else "one round"
            return f"Stopped after {rounds}, the limit for one turn. Say “continue” to go on.", "max_rounds"
        usable = any(c.arguments is not None and c.name in self.setup.tools for c in calls)
        self._unusable = 0 if usable or not calls else self._unusable + 1
        if self._unusable >= MAX_UNUSABLE:
            return f"Stopped: the model's tool calls could not be read {MAX_UNUSABLE} times in a row.", "loop"
        return None

    async def _say(self, text: str, reason: StopReason) -> AsyncGenerator[Event, None]:
        """End the turn with words of our own, as the model's last message."""
        self.text, self.stop_reason = text, reason
        await self.setup.session.commit(self._message(text, reason))
        yield TextDelta(self._next(), text)

    async def _close_calls(self) -> AsyncGenerator[Event, None]:
        """After Stop: a result for every open call; the one that ran is told to have ended."""
        try:
            closed = self._closing_results()
            await self.setup.session.commit(*closed)
        except StorageError as problem:
            _log.error("the interrupted results are not saved yet: %s", problem)
        for message in closed:
            if message.tool_call_id == self.running:
                name = self._name_of(message.tool_call_id)
                self._count(name, is_error=True)
                yield ToolEnd(self._next(), message.tool_call_id, name, text_of(message), is_error=True)

    def _closing_results(self) -> list[ToolMessage]:
        return [
            tool_result(c.id, STOPPED if c.id == self.running else NOT_STARTED, is_error=True, synthetic=True)
            for c in pairing.open_calls(self.setup.session.messages)
        ]

    def _leave_paired(self) -> None:
        """Whoever left, and how: no call stays open. A save that fails is pending in the session and heals on load."""
        closing = self._closing_results()
        if closing:
            with suppress(StorageError):
                self.setup.session.append(*closing)

    def _next(self) -> int:
        seq = self.seq
        self.seq = seq + 1
        return seq


def _raise_for(reply: AssistantMessage) -> None:
    if reply.stop_reason == "overflow":
        raise ProviderError("the conversation no longer fits the model's context window", class_="context_overflow")
    if reply.stop_reason == "error":
        raise ProviderError("the model ended its reply with an error", class_="server")


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


def _result_message(call: ToolCall, result: ToolResult, session: Session) -> ToolMessage:
    text = Text(text=result.text)
    if result.file and session.files is not None and Path(result.file).is_relative_to(session.files):
        text = Text(text=result.text, file=str(Path(result.file).relative_to(session.files)), bytes=result.bytes)
    return ToolMessage(call.id, [text], result.is_error, id=new_id(), ts=now())


def _image_message(call: ToolCall, image: Image) -> UserMessage:
    return UserMessage([image], id=new_id(), ts=now(), origin="tool_image", tool_call_id=call.id)
