"""One tool call, from the model's wish to a result. Whatever goes wrong becomes a result for the model."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from orkas.harness.policy import Policy, bound
from orkas.harness.tool import Tool, ToolContext, ToolResult
from orkas.harness.watchdog import Watchdog, limit_of
from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import OrkasError
from orkas.infra.known import hide
from orkas.infra.messages import Image, ToolCall, well_formed
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.undo.keeper import Keeper

__all__ = ["IDLE_S", "STOP_GRACE", "Say", "execute", "ready"]

Say: TypeAlias = Callable[[str], Awaitable[object]]

_log = logging.getLogger("orkas.tools")

STOP_GRACE = 0.5
"""Seconds a stopped tool gets to clean up before the turn goes on without it; the bound for Stop is one second."""

IDLE_S = 1_800.0
"""Seconds without a sign of life after which a tool is given up, unless it declares a limit of its own."""


async def execute(
    call: ToolCall,
    tools: Mapping[str, Tool],
    policy: Policy,
    context: ToolContext,
    say: Say,
    *,
    idle_s: float = IDLE_S,
    approved: str = "",
) -> ToolResult:
    """Run one call to its one result; ``say`` is given its progress, in order. Never raises for what the tool does.

    A tool that gives no sign of life for ``idle_s``, or does not end within the limit it declares, is given up: it is
    cancelled, and left behind if it does not listen. ``approved``: the call that a person said yes to, as
    ``policy.bound`` names it; any other call that the policy asks about is refused.

    Raises:
        Aborted: Stop was pressed; the tool was told and given ``STOP_GRACE`` seconds, then left behind.
    """
    loop = asyncio.get_running_loop()
    running = _Running(loop, context.abort)
    work = loop.create_task(_attempt(call, tools, policy, replace(context, progress=running.progress), approved))
    try:
        await asyncio.sleep(0)  # what ends at once needs no watch
        if not work.done() or running.said:
            why = await running.watched(work, idle_s, limit_of(_find(tools, call.name), call.arguments), say)
            if why:
                _log.warning("tool %s given up: %s", call.name, why)
                return _failure(f"{why} {_GIVEN_UP}", fault=True)
        return work.result()
    finally:
        if work.done():
            _look(work)
        else:
            work.add_done_callback(_look)
            work.cancel()


class _Running:
    """A call under way. ``said``: progress that was not passed on yet; it may come from any thread."""

    __slots__ = ("_abort", "_dog", "_loop", "_tick", "said")

    def __init__(self, loop: asyncio.AbstractEventLoop, abort: Abort) -> None:
        self.said: list[str] = []
        self._loop = loop
        self._abort = abort
        self._dog: Watchdog | None = None
        self._tick: asyncio.Future[None] | None = None

    def progress(self, text: str) -> None:
        text = text if isinstance(text, str) else str(text)
        if self._dog is not None:
            self._dog.heard(text)
        self.said.append(hide(text))
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self, _: object = None) -> None:
        if self._tick is not None and not self._tick.done():
            self._tick.set_result(None)

    async def watched(
        self, work: asyncio.Task[ToolResult], idle_s: float, limit_s: float | None, say: Say
    ) -> str:
        """Wait for the work to end and pass on what it says. Returns why it was given up, if it was.

        Raises:
            Aborted: it had not ended ``STOP_GRACE`` seconds after Stop.
        """
        abort = self._abort
        self._dog = dog = Watchdog(self._loop, idle_s, limit_s, self._wake)
        work.add_done_callback(self._wake)
        forget = abort.on_fire(self._wake)
        try:
            while True:
                while self.said:
                    await say(self.said.pop(0))
                if work.done() or abort.fired or dog.barks:
                    break
                dog.watch()
                self._tick = self._loop.create_future()
                await self._tick
            given_up = not (work.done() or abort.fired)
            if given_up:
                work.cancel()
            if not work.done():
                await asyncio.wait({work}, timeout=STOP_GRACE)
            if given_up and not abort.fired:
                return dog.barks
            if given_up or not work.done():
                raise Aborted(abort.reason)
            return ""
        finally:
            dog.rest()
            forget()


_GIVEN_UP = "It was given up and may still be at work: check what it did before calling it again."


def _find(tools: Mapping[str, Tool], name: str) -> Tool | None:
    return tools.get(name) or tools.get(name.strip())


async def _attempt(
    call: ToolCall, tools: Mapping[str, Tool], policy: Policy, context: ToolContext, approved: str
) -> ToolResult:
    """One result, whatever the tool is and does: it is foreign code, and its failure is news for the model."""
    try:
        return await _run(call, tools, policy, context, approved)
    except OrkasError as error:
        return _failure(str(error), origin=error.origin)
    except (Aborted, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if context.abort.fired or (task is not None and task.cancelling()):
            raise
        return _failure(f"the tool was cancelled from within ({type(error).__name__})")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also SystemExit: a tool does not end the program
        _log.warning("tool %s failed", call.name, exc_info=True)
        return _failure(f"{type(error).__name__}: {_words(error)}", fault=True)


def ready(call: ToolCall, tools: Mapping[str, Tool]) -> Tool | str:
    """The tool that this call would run, or why it cannot."""
    if call.arguments is None:
        return "The arguments are not one complete JSON object, so the tool was not run. Call it again."
    tool = _find(tools, call.name)
    if tool is None:
        return f"There is no tool {call.name!r}. {_offer(tools)}"
    missing = [name for name in tool.parameters.get("required", ()) if name not in call.arguments]
    if missing:
        return f"Missing arguments: {', '.join(missing)}. The tool was not run."
    return tool


async def _run(
    call: ToolCall, tools: Mapping[str, Tool], policy: Policy, context: ToolContext, approved: str
) -> ToolResult:
    tool = ready(call, tools)
    if isinstance(tool, str):
        return _failure(tool)
    assert call.arguments is not None, "it is ready"
    verdict = policy.decide(tool.name, call.arguments, context, of=tool)
    if verdict.verdict != "allow" and not (verdict.verdict == "ask" and _is(approved, tool, call, context)):
        return _failure(f"Refused by policy, not run: {'; '.join(verdict.reasons)}")
    if getattr(tool, "network", False):
        context = _judging(policy, tool, context)
    touches = getattr(tool, "touches", None)
    if context.undo is None or touches is None:
        with context.abort.guard():
            return _tidy(await tool.run(call.arguments, context))
    async with _watched(tool.name, touches, call.arguments, context, context.undo):
        with context.abort.guard():
            result = await tool.run(call.arguments, context)
    return _tidy(result)


def _judging(policy: Policy, tool: Tool, context: ToolContext) -> ToolContext:
    """The context with the policy at hand, for a call that strangers may lead on."""
    return replace(context, onward=lambda arguments: policy.decide(tool.name, arguments, context, of=tool))


def _is(approved: str, tool: Tool, call: ToolCall, context: ToolContext) -> bool:
    return bool(approved) and approved == bound(tool.name, call.arguments or {}, context)


@asynccontextmanager
async def _watched(
    name: str, touches: Callable[..., Any], arguments: dict[str, Any], context: ToolContext, undo: Keeper
) -> AsyncGenerator[None, None]:
    """What the tool changes is known afterwards, so that it can be taken back."""

    def before() -> None:
        try:
            touched = touches(arguments, context)
        except OrkasError:
            return  # the tool will say what is wrong with its arguments
        undo.before(name, None if touched is None else [context.cwd / path for path in _listed(touched)])

    try:
        await in_thread(before)
        yield
    finally:
        await in_thread(undo.after)  # also where Stop came before the tool: it waits for ``before``


def _listed(touched: Any) -> Iterable[Any]:
    """One path is as good as a list of one."""
    return [touched] if isinstance(touched, str | os.PathLike) else touched


def _tidy(result: ToolResult | str | Any) -> ToolResult:
    """The result with the types it promises, whoever made it, and without our secrets."""
    if not isinstance(result, ToolResult):
        result = ToolResult("" if result is None else str(result))
    images = [image for image in result.images or [] if isinstance(image, Image)]
    text = hide(well_formed(result.text if isinstance(result.text, str) else str(result.text or "")))
    return ToolResult(
        text or ("(an image)" if images else "(no output)"), images, bool(result.is_error), result.file, result.bytes,
        result.origin if isinstance(result.origin, str) else None, result.cost_usd,
    )  # fmt: skip


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        return "it cannot be told"


def _look(task: asyncio.Future[Any]) -> None:
    """Take the outcome of a task nobody waits for any more, so that asyncio does not complain of it."""
    if not task.cancelled():
        task.exception()


def _failure(text: str, *, fault: bool = False, origin: str | None = None) -> ToolResult:
    return ToolResult(hide(well_formed(text)), is_error=True, fault=fault, origin=origin)


def _offer(tools: Mapping[str, Tool]) -> str:
    return f"Available: {', '.join(tools)}." if tools else "No tools are available."
