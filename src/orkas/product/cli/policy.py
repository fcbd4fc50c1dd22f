"""``orkas policy check``: what the policy says of a shell command."""

from __future__ import annotations

import argparse

from orkas.product.cli import out, parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(prog="orkas policy", description="What the policy says; runs nothing.")
    add = parsing.choose(own)
    check = add(
        "check", _check, "say whether a shell command may run (allow, ask or deny), and why not; runs nothing. "
        "The answer stands in the output; the exit status is 0 for each",
        example="orkas policy check 'rm -rf build' --json",
    )  # fmt: skip
    check.add_argument(
        "shell_command", metavar="COMMAND", help="one shell command, quoted; after -- if it begins with a dash"
    )
    return own


def _check(options: argparse.Namespace) -> int:
    from orkas.harness.policy import check_command

    verdict = check_command(parsing.plain(options.shell_command))
    if options.json:
        out.data({"verdict": verdict.verdict, "reasons": list(verdict.reasons)})
    else:
        out.line(": ".join(part for part in (verdict.verdict, "; ".join(verdict.reasons)) if part))
    return 0
