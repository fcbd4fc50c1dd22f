"""``orkas policy check``: what the policy says of a shell command."""

from __future__ import annotations

import argparse
from pathlib import Path

from orkas.harness.policy.verdict import Verdict
from orkas.infra.errors import UsageError
from orkas.product.cli import out, parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas policy",
        description="What the policy says; runs nothing.",
        stray=lambda _: "put the whole command in quotes: orkas policy check 'ls -la'",
    )
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
        if not found:
            out.note("nothing is approved for always; the answer “always” to a question adds to it")
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
    if not command.strip():
        raise UsageError("there is no command to check", hint="give one in quotes")
    _warn()
    verdict, effects = _with_rules(check_command(command), command), effects_of(command)
    asked, by = _unasked(command) if verdict.verdict == "allow" else (verdict, "")
    if options.json:
        about = {"effect": effects.kind, "effect_reasons": list(effects.reasons), "in_mode_ask": asked.verdict}
        out.data({"verdict": verdict.verdict, "reasons": list(verdict.reasons), **about, "allowed_by": by or None})
        return 0
    out.line(": ".join(part for part in (verdict.verdict, "; ".join(verdict.reasons)) if part))
    if by:
        out.note(f"{by} allows it: nobody is asked")
    elif verdict.verdict == "allow" and asked.verdict != "allow":
        why = "; ".join(asked.reasons)
        out.note(f"the block list has nothing against it; in mode ask you are asked all the same: {why}")
    return 0


def _unasked(command: str) -> tuple[Verdict, str]:
    """What mode ``ask`` says of it in the current folder; and which rule or approval lets it run, where one does."""
    from orkas.harness.policy import Policy
    from orkas.harness.tool import ToolContext
    from orkas.infra import config

    folder = Path.cwd()
    call = {"command": command}
    context = ToolContext(folder, sandbox="off" if config.load()["sandbox"] == "off" else "find")
    verdict = Policy("ask", headless=False).decide("shell", call, context)
    if verdict.verdict != "allow":
        return verdict, ""
    from orkas.harness.policy.rules import Rules

    without = Policy("ask", headless=False, rules=Rules()).decide("shell", call, context)
    if without.verdict == "allow":
        from orkas.harness.commands.effects import effects_of

        return verdict, "" if effects_of(command).kind == "reads" else "what you approved for always"
    rule = Rules.load().judge("shell", call, folder)
    return verdict, f"your rule “{rule}”"


def _warn() -> None:
    """What of the configuration is without effect."""
    from orkas.app import builtins
    from orkas.harness.policy.rules import Rules
    from orkas.infra import config

    for text in (*config.load(tolerant=True).warnings, *Rules.load().strange(tool.name for tool in builtins())):
        out.warning(text)
