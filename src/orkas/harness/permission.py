"""Whether a call needs a person's yes, and asking for it before the call begins.

A question is durable before it is told, and so is its answer. The verdict is looked for again when the call is run: an
answer may take an hour, and the disk is another one then.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any

from orkas.harness.execute import ready
from orkas.harness.policy import Verdict, bound
from orkas.harness.policy.question import Question, lines_of
from orkas.harness.setup import Setup
from orkas.harness.telling import tell
from orkas.harness.tool import Tool, ToolContext
from orkas.harness.turn import Turn
from orkas.infra.errors import StorageError
from orkas.infra.events import Approval, Notice
from orkas.infra.known import hide
from orkas.infra.messages import ToolCall, new_id, now
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.policy.grants import Grant, Scope

__all__ = ["asked_about", "permission"]

_log = logging.getLogger("orkas.approvals")


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
