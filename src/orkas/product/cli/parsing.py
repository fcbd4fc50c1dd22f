"""Parsing as all our commands share it: no abbreviations, one sentence for a mistake, an example in help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from orkas.infra.errors import UsageError

__all__ = ["Parser", "choose", "common", "model_options", "plain", "tools_option", "turn_options"]


class Parser(argparse.ArgumentParser):
    """``ArgumentParser`` whose errors are ``UsageError`` and whose options cannot be abbreviated."""

    def __init__(
        self, *args: Any, example: str = "", stray: Callable[[list[str]], str] = lambda _: "", **kwargs: Any
    ) -> None:
        """``stray``: what to do about words that do not belong here; empty: see the help."""
        self._stray = stray
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        if example:
            kwargs.setdefault("epilog", f"example:\n  {example}")
        super().__init__(*args, **kwargs)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of old, but the way out names the subcommand that was meant."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            prog = f"{self.prog} {found.command}" if getattr(found, "command", None) else self.prog
            hint = self._stray(rest) or f"see `{prog} --help`"
            raise UsageError(f"unrecognized arguments: {' '.join(rest)}", hint=hint)
        return found

    def _print_message(self, message: str, file: Any = None) -> None:
        """As of old, but an output that takes nothing is no success."""
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")


Do = Callable[[argparse.Namespace], int]


def common(parser: Parser, do: Do, *, json: bool = True) -> Parser:
    """What every command has: ``--json`` where it prints data, ``--debug``, and what it does."""
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--debug", action="store_true", help="log to stderr, with tracebacks")
    parser.set_defaults(do=do)
    return parser


def choose(parser: Parser) -> Callable[..., Parser]:
    """Subcommands of a family. The result adds one: ``add("list", do, "what it does", example="…")``."""
    actions = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")

    def add(name: str, do: Do, about: str, *, example: str, json: bool = True) -> Parser:
        described = about[0].upper() + about[1:] + "."
        one = actions.add_parser(name, help=about, description=described, example=example)
        return common(one, do, json=json)

    return add


def model_options(parser: Parser) -> None:
    """The options that say who answers and with what."""
    parser.add_argument("--model", metavar="M", help="vendor/model, or a bare model name")
    parser.add_argument("--cwd", metavar="DIR", help="folder the tools work in (default: the current one)")
    parser.add_argument("--system", metavar="TEXT", default="", help="text added to the system prompt")
    tools_option(parser)
    parser.add_argument("--thinking", choices=("off", "low", "medium", "high"), help="reasoning effort")
    parser.add_argument("--base-url", help=argparse.SUPPRESS)


def tools_option(parser: Parser) -> None:
    """Which tools there are: names of built-in ones, and files of the user's own."""
    parser.add_argument(
        "--tools", metavar="a,b|all|none", default="all",
        help="tools the model may call, and Python files with more of them, as in all,mine.py (default: all)",
    )


def turn_options(parser: Parser) -> None:
    """The options of a turn that runs, beyond those of the model."""
    parser.add_argument("--session", metavar="ID", help="continue this conversation, or begin it under this name")
    parser.add_argument("--continue", dest="continue_", action="store_true", help="continue the last conversation")
    parser.add_argument(
        "--image", metavar="FILE", action="append", default=[], help="an image for the model (repeatable)"
    )
    parser.add_argument(
        "--approve", choices=("ask", "edits", "all", "none"),
        help="answer to the policy's questions (default: ask; where nobody can be asked that denies)",
    )
    parser.add_argument(
        "--fallback", metavar="M", action="append", default=[],
        help="another model to ask when the first does not answer (repeatable, in order)",
    )  # fmt: skip
    parser.add_argument("--max-rounds", metavar="N", type=_positive, help="model calls the turn may make")
    parser.add_argument(
        "--max-retries", metavar="N", type=_count, help="times a failed request is made again (default: 5; 0: never)"
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def amount(text: str) -> float:
    """An amount of USD above 0, as ``0.5``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no price: give an amount of USD above 0, such as 0.50")
    return value


def plain(argument: str) -> str:
    """An argument as UTF-8 text whatever the locale said; bytes that are none become U+FFFD."""
    import os

    from orkas.infra.messages import well_formed

    try:
        return os.fsencode(argument).decode("utf-8", "replace")
    except UnicodeEncodeError:  # not from a command line of this locale
        return well_formed(argument)
