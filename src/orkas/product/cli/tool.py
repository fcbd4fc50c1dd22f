"""``orkas tool``: the tools and their schemas; one tool run exactly as the model would run it."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkas.harness.policy import Policy, Verdict
from orkas.infra.amounts import counted
from orkas.infra.errors import UsageError
from orkas.infra.terminal import is_tty
from orkas.product.cli import out, parsing

if TYPE_CHECKING:
    from orkas.harness.tool import Tool, ToolContext, ToolResult
    from orkas.infra.messages import ToolCall
    from orkas.providers.base import LLMProvider

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(prog="orkas tool", description="The tools a model may call.")
    add = parsing.choose(own)
    listed = add(
        "list", _list, "list the tools; with --json their schemas", example="orkas tool list --tools all,mine.py"
    )
    run = add(
        "run", _run, "run one tool exactly as the model would, policy included, and print its result",
        example="""orkas tool run read_file '{"path": "README.md"}'""",
    )  # fmt: skip
    for one in (listed, run):
        parsing.tools_option(one)
    run.add_argument("name", metavar="NAME")
    run.add_argument("arguments", metavar="JSON", help="the arguments as one JSON object")
    run.add_argument("--cwd", metavar="DIR", help="folder the tool works in (default: the current one)")
    run.add_argument("--approve", choices=("ask", "edits", "all", "none"), default="all",
        help="answer to the policy's questions (default: all, for you name the very call)",)
    return own


def _offered(options: argparse.Namespace) -> list[Tool]:
    """The tools that an agent of these options would offer.

    Raises:
        UsageError: there is no such tool, or a file of them cannot be used.
    """
    from orkas.app import Agent
    from orkas.product.cli.agents import tools_for

    return Agent(tools=tools_for(options.tools), cwd=os.sep).tools  # which folder makes no difference to them


def _list(options: argparse.Namespace) -> int:
    tools = _offered(options)
    if options.json:
        out.data([{"name": t.name, "description": t.description, "parameters": t.parameters} for t in tools])
    else:
        out.table([(t.name, t.description.partition("\n")[0]) for t in tools])
    return 0


def _run(options: argparse.Namespace) -> int:
    with out.alone() if options.json else nullcontext():
        return _called(options)


def _called(options: argparse.Namespace) -> int:
    from orkas.harness.tool import ToolContext
    from orkas.infra import environment
    from orkas.infra.messages import ToolCall, new_id
    from orkas.product.cli.agents import settings_for, walls
    from orkas.product.cli.driving import drive

    tools = {tool.name: tool for tool in _offered(options)}
    if options.name not in tools:
        from orkas.app.toolbox import absent

        if why := absent(options.name):
            raise UsageError(f"the tool {options.name!r} is not offered", hint=why)
        there = f"there are {', '.join(tools)}" if tools else "--tools says which there are"
        raise UsageError(f"there is no tool {options.name!r}", hint=f"{there}; one of your own: --tools FILE.py")
    call = ToolCall(id=f"call_{new_id()}", name=options.name, arguments=_arguments(options.arguments))
    settings = settings_for(options)
    policy = _Watched(options.approve or "all")  # who types the call says yes to it
    seat = _Seat(settings["model"])
    context = ToolContext(_folder(options.cwd), sandbox="find" if walls(settings) else "off", seated=seat)
    environment.learn()
    environment.learn_folder(context.cwd)
    return drive(_execute(call, tools, policy, context, seat, as_json=options.json))


class _Seat:
    """Who would answer in a turn, for tools that ask: found when the first one does."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._found: tuple[LLMProvider, str] | None = None

    def __call__(self) -> tuple[LLMProvider, str]:
        if self._found is None:
            from orkas.providers.discovery import choose
            from orkas.providers.registry import resolve

            self._found = resolve(self._model or choose().model or "")
        return self._found

    async def aclose(self) -> None:
        if self._found is not None:
            await self._found[0].aclose()


class _Watched(Policy):
    """The policy, remembering whether it refused: that has an exit status of its own."""

    refused = False

    def decide(self, *call: Any, **named: Any) -> Verdict:
        verdict = super().decide(*call, **named)
        self.refused = verdict.verdict != "allow"
        return verdict


async def _execute(
    call: ToolCall, tools: dict[str, Tool], policy: _Watched, context: ToolContext, seat: _Seat, *, as_json: bool
) -> int:
    from orkas.harness.execute import execute
    from orkas.infra.abort import Aborted
    from orkas.infra.messages import ToolCall
    from orkas.product.cli.driving import stopping

    async def say(text: str) -> None:
        if is_tty(sys.stderr):
            out.note(text)

    try:
        with stopping(context.abort.fire):
            if call.name == "write_file" and "read_file" in tools:  # who types the call knows what it replaces
                reading = ToolCall(id="read", name="read_file", arguments={"path": (call.arguments or {}).get("path")})
                await execute(reading, tools, policy, context, say)
            result = await execute(call, tools, policy, context, say)
    except Aborted:
        return 130
    finally:
        await seat.aclose()
    _print(call.name, result, as_json=as_json)
    if policy.refused:
        return 4
    return 130 if context.abort.fired else int(result.is_error)


def _print(name: str, result: ToolResult, *, as_json: bool) -> None:
    sizes = [(image.media_type, len(image.data or "") * 3 // 4) for image in result.images]
    if as_json:
        images = [{"media_type": kind, "bytes": size} for kind, size in sizes]
        out.data({"name": name, "result": result.text, "is_error": result.is_error, "images": images})
        return
    out.line(result.text.removesuffix("\n"))
    for kind, size in sizes:
        out.note(f"and an image: {kind}, {counted(size, 'byte')}")


def _arguments(text: str) -> dict[str, Any]:
    import json

    try:
        value = json.loads(parsing.plain(text))
    except ValueError as error:
        raise UsageError(
            f"the arguments are no JSON: {error}", hint="""give one object, such as '{"path": "."}'"""
        ) from None
    except RecursionError:
        raise UsageError("the arguments are nested too deep", hint="give one flat object") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments must be one JSON object", hint="""such as '{"path": "."}'""")
    return value


def _folder(cwd: str | None) -> Path:
    path = Path(cwd) if cwd is not None else Path.cwd()
    if not path.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder", hint="give an existing folder to work in")
    return path.resolve()
