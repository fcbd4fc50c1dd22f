"""``orkas request``: what the next turn would send, with the secrets masked. Nothing is sent or written."""

from __future__ import annotations

import argparse
from typing import Any

from orkas.infra.amounts import counted
from orkas.product.cli import out, parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas request",
        description="Show the request that the next turn of a conversation would send; nothing is sent.",
        example="orkas request --model anthropic/claude-sonnet-4-5 --session trip --json",
    )
    parsing.model_options(own)
    own.add_argument("--session", metavar="FILE|ID", help="the conversation (default: an empty one)")
    own.add_argument("--cache", action="store_true", help="show how far its replies came from the prompt cache instead")
    return parsing.common(own, _do)


def _do(options: argparse.Namespace) -> int:
    if options.cache:
        return _cache(options)
    from orkas.harness.sessions.session import Session
    from orkas.product.cli.agents import agent_for
    from orkas.product.cli.driving import drive

    agent = agent_for(options)
    if options.session is not None:
        agent.session = Session.read(options.session)
        for text in agent.session.warnings:
            out.warning(str(text))

    async def show() -> int:
        request = await agent.request()
        await agent.aclose()
        _print(request.url, request.headers, request.body, as_json=options.json)
        return 0

    return drive(show())


def _cache(options: argparse.Namespace) -> int:
    from orkas.harness.sessions.session import Session
    from orkas.infra.errors import UsageError
    from orkas.product.caching import as_lines, rows

    if options.session is None:
        raise UsageError("--cache looks at a conversation", hint="name it with --session")
    session = Session.read(options.session)
    for text in session.warnings:
        out.warning(str(text))
    found = rows(session.messages)
    if options.json:
        out.data(found)
        return 0
    out.table(as_lines(found))
    if lost := sum(row.lost for row in found):
        out.note(f"sent again, though the cache had held it: {counted(lost, 'token')}")
    return 0


def _print(url: str, headers: dict[str, str], body: bytes, *, as_json: bool) -> None:
    import json

    from orkas.infra.known import hide
    from orkas.infra.redact import mask_headers, redact

    value: Any = json.loads(hide(body.decode())) if body else None
    shown = {"url": redact(url), "headers": mask_headers(headers), "body": value}
    if as_json:
        out.data(shown)
        return
    out.line(f"POST {shown['url']}")
    out.lines(f"{name}: {text}" for name, text in mask_headers(headers).items())
    out.line()
    out.data(value)
