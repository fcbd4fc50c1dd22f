"""Asking a person before a call runs, and waiting for the answer.

An answer is bound to the id of its question, and the question to the very call that was shown: what runs is what was
approved. Late answers, answers to what was never asked, and answers that were not offered are refused with a sentence.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from orkas.harness.execute import ready
from orkas.harness.policy import Verdict, sandbox_of
from orkas.harness.policy.grants import fingerprint
from orkas.harness.policy.question import Question, lines_of
from orkas.harness.telling import tell
from orkas.harness.tool import Tool, ToolContext
from orkas.infra.abort import Abort
from orkas.infra.errors import StorageError, UsageError
from orkas.infra.events import Approval, Notice
from orkas.infra.known import hide
from orkas.infra.messages import ToolCall, new_id, now
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.policy.grants import Grant, Scope
    from orkas.harness.turn import Setup, Turn

__all__ = ["Answer", "Approvals", "Reply", "asked_about", "bound", "permission"]

Answer: TypeAlias = Literal["once", "session", "always", "no"]
_KEPT = 1_000
"""Ids of questions that are over, remembered to tell a late answer from a wrong one."""

_log = logging.getLogger("orkas.approvals")


class Reply(msgspec.Struct, frozen=True):
    """What a person said."""

    answer: Answer
    note: str = ""
    """Words for the model, with a no."""

    @property
    def refusal(self) -> str:
        """What the model is told of a no; empty when it was a yes."""
        if self.answer != "no":
            return ""
        said = f" They said: “{self.note}”." if self.note else ""
        return f"The user refused this call; it was not run.{said} Do not try it another way; ask, or go on without it."


class Approvals:
    """The questions of one agent. ``answer`` from any task or thread; the rest by the runner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Question | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._over: dict[str, None] = {}

    @property
    def open(self) -> Question | None:
        """The question that waits for an answer now."""
        return self._open

    def put(self, question: Question) -> None:
        """Open a question; it can be answered from now on."""
        with self._lock:
            self._open = question
            self._waiting = asyncio.get_running_loop().create_future()

    async def reply(self, abort: Abort) -> Reply:
        """The answer to the open question; it is over when this ends, however it ends.

        Raises:
            Aborted: Stop was pressed.
        """
        waiting = self._waiting
        assert waiting is not None, "a question is open"
        try:
            with abort.guard():
                return await waiting
        finally:
            self.close()

    def close(self) -> None:
        """The open question is over; an answer to it comes too late."""
        with self._lock:
            if self._open is not None:
                self._over[self._open.id] = None
                if len(self._over) > _KEPT:
                    del self._over[next(iter(self._over))]
            self._open = self._waiting = None

    def answer(self, id: str, answer: str, note: str = "") -> None:
        """Answer the open question.

        Raises:
            UsageError: it is not open (any more), or this answer was not offered.
        """
        with self._lock:
            question, waiting = self._open, self._waiting
            if question is None or waiting is None or question.id != id:
                known = id in self._over
                raise UsageError(
                    f"the question {id!r} is over" if known else f"there is no open question {id!r}",
                    hint="answer an approval event with its own id, once, while it waits",
                )
            if answer not in get_args(Answer) or answer not in (*question.scopes, "no"):
                offered = ", ".join([*question.scopes, "no"])
                raise UsageError(f"{answer!r} is no answer to this question", hint=f"it is one of {offered}")
            self._over[question.id] = None
            self._open = None
        reply = Reply(answer, note)  # type: ignore[arg-type]  # checked above
        waiting.get_loop().call_soon_threadsafe(_settle, waiting, reply)


def _settle(waiting: asyncio.Future[Reply], reply: Reply) -> None:
    if not waiting.done():
        waiting.set_result(reply)


def bound(tool: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """What a yes is bound to: exactly this call, in this folder and sandbox."""
    return fingerprint(tool, dict(arguments), str(context.cwd), sandbox_of(context))


def asked_about(setup: Setup, call: ToolCall) -> tuple[Tool, Verdict] | None:
    """The tool and the verdict of a call that a person must be asked about; None where nobody needs to be."""
    tool = ready(call, setup.tools)
    if isinstance(tool, str) or not setup.policy.may_ask:
        return None
    verdict = setup.policy.decide(tool.name, call.arguments, setup.context, of=tool)
    return (tool, verdict) if verdict.verdict == "ask" else None


async def permission(turn: Turn, call: ToolCall) -> tuple[str, str]:
    """Put the question about this call, if there is one, and wait for its answer.

    Returns what the model is told of a no, empty otherwise, and what a yes is bound to. A question is durable before it
    is told, and so is its answer.

    Raises:
        Aborted: Stop was pressed while it waited.
    """
    setup = turn.setup
    found, approvals = asked_about(setup, call), setup.approvals
    if found is None or approvals is None:
        return "", ""
    tool, verdict = found
    with setup.context.abort.guard():
        question = await _question_for(call, tool, verdict, setup.context)
    await setup.session.note({"type": "approval", "ts": now(), **_record(question)})
    approvals.put(question)
    try:
        await tell(Approval(turn.next_seq(), **_record(question)))
        reply = await approvals.reply(setup.context.abort)
    finally:
        approvals.close()
    await setup.session.note({"type": "approval", "id": question.id, "ts": now(), "answer": reply.answer})
    if verdict.grant is not None and reply.answer in ("session", "always"):
        await _keep(turn, verdict.grant, reply.answer)
    return reply.refusal, question.shown


def _record(question: Question) -> dict[str, Any]:
    return {
        "id": question.id, "call_id": question.call_id, "tool": question.tool, "question": question.lines,
        "reasons": question.reasons, "rule": question.rule, "scopes": question.scopes,
    }  # fmt: skip


async def _keep(turn: Turn, grant: Grant, scope: Scope) -> None:
    try:
        await in_thread(turn.setup.policy.grants.add, grant, scope)
    except StorageError as error:
        text = f"The approval holds for this session only: it could not be saved ({error})"
        await tell(Notice(turn.next_seq(), "warning", text))


async def _question_for(
    call: ToolCall, tool: Tool, verdict: Verdict, context: ToolContext
) -> Question:
    """The question about a call, with what the tool itself says that it would change."""
    arguments = call.arguments or {}
    lines = [hide(line) for line in lines_of(tool.name, arguments, hide(await _preview(tool, arguments, context)))]
    scopes = ["once"] if verdict.grant is None else ["once", "session", "always"]
    rule = "" if verdict.grant is None else hide(verdict.grant.shown)
    shown = bound(tool.name, arguments, context)
    return Question(new_id(), call.id, tool.name, lines, list(map(hide, verdict.reasons)), rule, scopes, shown)


async def _preview(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> str:
    """A tool without a preview, or one that cannot give it, is asked about with its arguments."""
    preview = getattr(tool, "preview", None)
    if preview is None:
        return ""
    try:
        found = await in_thread(preview, arguments, context)
        if inspect.isawaitable(found):
            found = await found
    except Exception as error:  # noqa: BLE001 - foreign code: what it cannot show is asked about with its arguments
        _log.info("no preview of %s: %s", tool.name, error)
        return ""
    return found if isinstance(found, str) else ""
