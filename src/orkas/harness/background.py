"""What is told of commands in the background: to the user when it happens, to the model with its next result."""

from __future__ import annotations

from msgspec.structs import replace

from orkas.harness.telling import tell
from orkas.harness.tool import ToolResult
from orkas.harness.turn import Turn
from orkas.infra.events import Notice
from orkas.infra.jobs import Jobs

__all__ = ["tell_ended", "tell_running", "with_news"]


async def tell_ended(turn: Turn, jobs: Jobs) -> None:
    """Jobs that have ended are told to the user."""
    for job in jobs.news("user"):
        text = "; ".join([f"Background job {job.title}: {job.state}", *job.notes])
        await tell(Notice(turn.next_seq(), "info", f"{text}."))


async def tell_running(turn: Turn, jobs: Jobs) -> None:
    """Stop ends the turn, not what runs beside it."""
    if running := jobs.running:
        names = ", ".join(job.title for job in running)
        await tell(Notice(turn.next_seq(), "info", f"Still running in the background: {names}."))


def with_news(result: ToolResult, jobs: Jobs) -> ToolResult:
    """The model is told with this result which jobs have ended."""
    ended = [f"[{job.name} {job.state}; read its last output with shell_job]" for job in jobs.news("model")]
    return replace(result, text="\n".join([result.text, *ended])) if ended else result
