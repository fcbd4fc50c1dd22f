"""``orkas policy check``: what the policy says of a shell command."""

from __future__ import annotations

import argparse
from pathlib import Path

from orkas.harness.policy.verdict import Verdict
from orkas.infra.errors import UsageError
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
    add("grants", _grants, "list what you approved for always, with the number that revoke takes",
        example="orkas policy grants --json")  # fmt: skip
    revoke = add("revoke", _revoke, "take back what you approved for always", example="orkas policy revoke 1")
    revoke.add_argument("number", metavar="N", type=_number)
    return own


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number; `orkas policy grants` prints them")
    return int(text)


def _grants(options: argparse.Namespace) -> int:
    from orkas.harness.policy.grants import stored

    found = stored()
    if options.json:
        out.data([
            {"number": n, "rule": g.rule, "tool": g.tool, "folder": g.folder, "sandbox": g.sandbox, "ts": g.ts}
            for n, g in enumerate(found, 1)
        ])  # fmt: skip
    else:
        out.table([(str(n), g.shown) for n, g in enumerate(found, 1)])
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from orkas.harness.policy.grants import revoke

    gone = revoke(options.number)
    if gone is None:
        raise UsageError(f"there is no approval {options.number}", hint="`orkas policy grants` lists them")
    if options.json:
        out.data({"revoked": gone.rule, "folder": gone.folder})
    else:
        out.line(f"no longer allowed: {gone.shown}")
    return 0


def _with_rules(verdict: Verdict, command: str) -> Verdict:
    """With what the user's own rules say of it, for the current folder: deny beats ask beats allow."""
    from orkas.harness.policy.rules import LEVELS, Rules

    rule = Rules.load().judge("shell", {"command": command}, Path.cwd())
    if rule is None or LEVELS.index(rule.level) <= LEVELS.index(verdict.verdict):
        return verdict
    said = "denies it" if rule.level == "deny" else "asks"
    return Verdict(rule.level, [f"the rule “{rule}” {said}", *verdict.reasons])


def _check(options: argparse.Namespace) -> int:
    from orkas.harness.commands.effects import effects_of
    from orkas.harness.policy import check_command

    command = parsing.plain(options.shell_command)
    verdict, effects = _with_rules(check_command(command), command), effects_of(command)
    if options.json:
        about = {"effect": effects.kind, "effect_reasons": list(effects.reasons)}
        out.data({"verdict": verdict.verdict, "reasons": list(verdict.reasons), **about})
    else:
        out.line(": ".join(part for part in (verdict.verdict, "; ".join(verdict.reasons)) if part))
        if verdict.verdict == "allow" and effects.kind != "reads":
            why = "; ".join(effects.reasons) or "what it does is not known"
            out.note(f"the block list has nothing against it; in mode ask you are asked all the same: {why}")
    return 0
