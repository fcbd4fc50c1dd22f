"""``orkas session compact`` and ``uncompact``: older messages make room, and come back."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import aclosing

from orkas.infra.amounts import counted
from orkas.infra.events import Compaction, Notice, Retry
from orkas.product.cli import out, parsing
from orkas.product.cli.driving import drive, stopping

__all__ = ["add_to"]


def add_to(add: Callable[..., parsing.Parser]) -> None:
    """Add both commands to the family ``orkas session``."""
    compact = add(
        "compact",
        _compact,
        "replace older messages by a summary; they are kept beside the conversation",
        example='orkas session compact trip --keep "the hotel bookings"',
    )
    compact.add_argument("id", metavar="ID")
    compact.add_argument("--keep", metavar="TEXT", default="", help="what the summary must keep in particular")
    parsing.model_options(compact)
    uncompact = add(
        "uncompact",
        _uncompact,
        "take the newest compaction back; once more takes back the one before",
        example="orkas session uncompact trip",
    )
    uncompact.add_argument("id", metavar="ID")


def _compact(options: argparse.Namespace) -> int:
    from orkas.harness.sessions.session import Session
    from orkas.product.cli.agents import agent_for

    agent = agent_for(options)
    done: list[Compaction] = []
    with Session.open(options.id, create=False) as session:
        agent.session = session
        for text in session.warnings:
            out.warning(text)

        async def work() -> int:
            async with agent:
                with stopping(agent.stop):
                    async with aclosing(agent.compacting(parsing.plain(options.keep))) as events:
                        async for event in events:
                            match event:
                                case Compaction():
                                    done.append(event)
                                case Retry():
                                    out.note(f"· {event.reason}; trying again in {event.wait_s:.0f} s")
                                case Notice():
                                    out.warning(event.text)
            return 0 if done else 130

        status = drive(work())
    for event in done:
        _tell(options, event)
    return status


def _tell(options: argparse.Namespace, event: Compaction) -> None:
    if options.json:
        out.data(
            {
                "id": options.id,
                "tokens_before": event.tokens_before,
                "tokens_after": event.tokens_after,
                "method": event.method,
            }
        )
    else:
        out.line(
            f"{options.id}: {event.tokens_before:,} tokens before, {event.tokens_after:,} after; "
            f"`orkas session uncompact {options.id}` takes it back"
        )


def _uncompact(options: argparse.Namespace) -> int:
    from orkas.harness.sessions.session import Session

    with Session.open(options.id, create=False) as session:
        count = session.uncompact()
        total = len(session.messages)
    if options.json:
        out.data({"id": options.id, "restored": count, "messages": total})
    else:
        out.line(f"{options.id}: {counted(count, 'message')} restored; it has {total} now")
    return 0
