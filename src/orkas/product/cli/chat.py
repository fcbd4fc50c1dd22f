"""``orkas`` without a command: the chat where there is a terminal, one turn where a prompt is piped in."""

from __future__ import annotations

import argparse
import sys
from textwrap import fill

from orkas._version import __version__
from orkas.infra import terminal
from orkas.infra.errors import UsageError
from orkas.product.cli import parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    from orkas.product.cli import COMMANDS

    width = max(map(len, COMMANDS))
    hang = " " * (width + 4)
    rows = ((f"  {name:<{width}}  ", about) for name, about in COMMANDS.items())
    commands = "\n".join(fill(about, 80, initial_indent=start, subsequent_indent=hang) for start, about in rows)
    own = parsing.Parser(
        prog="orkas",
        usage="orkas [options]\n       orkas COMMAND …",
        description="Chat with an agent that works in the current folder, or run one of the commands.\n\n"
        f"commands (each has --help):\n{commands}",
        example='orkas run "What is in this folder?"',
        stray=_stray,
    )
    own.add_argument("--version", action="version", version=f"orkas {__version__}", help="print the version")
    parsing.model_options(own)
    parsing.turn_options(own)
    return parsing.common(own, _do, json=False)


def _stray(words: list[str]) -> str:
    from orkas.product.cli import COMMANDS

    if words[0] in COMMANDS:
        return f"the command comes first, its options follow: orkas {words[0]} …"
    return "" if words[0].startswith("-") else 'a prompt goes to `orkas run "…"`'


def _do(options: argparse.Namespace) -> int:
    seen, heard = terminal.is_tty(sys.stdout), terminal.is_tty(sys.stdin)
    if seen and heard:
        return _chat(options)
    if not heard and sys.stdin is not None:
        from orkas.product.cli import run

        own = {"prompt": "-", "ephemeral": False, "json": False, "max_cost": None, "schema": None}
        return run.do(argparse.Namespace(**vars(options), **own))
    raise UsageError("the chat needs a terminal", hint='for one turn without one: orkas run "your prompt"')


def _chat(options: argparse.Namespace) -> int:
    from orkas.product.cli.agents import settings_for, walls

    settings = settings_for(options)
    options.model = settings["model"] or None
    options.approve = settings["approve"]
    options.sandbox = walls(settings)
    options.thinking = settings["thinking"] or None
    options.max_rounds = settings["max_rounds"]
    try:
        from orkas.product.chat import main
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("rich", "prompt_toolkit"):
            raise
        raise UsageError(
            "the chat needs two more packages", hint="pip install rich prompt-toolkit, or use `orkas run`"
        ) from None
    return int(main(options))
