"""Which tool calls run, which need a person's yes, which never run.

The verdict on a shell command is a speed bump against accidents and the plainest attacks. It is not a sandbox: a
program that the command starts can do whatever its user may. Deny beats ask beats allow over all parts of a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from orkas.harness.tool import ToolContext

__all__ = ["Mode", "Policy", "Verdict", "check_command"]

Mode: TypeAlias = Literal["ask", "edits", "all", "none"]
Decision: TypeAlias = Literal["allow", "ask", "deny"]

_EDITS = frozenset({"write_file", "edit_file", "apply_patch"})
_MAX_COMMAND = 20_000
"""Characters of a command outside here-documents beyond which nobody reads it: ask."""


class Verdict(msgspec.Struct, frozen=True):
    verdict: Decision
    reasons: list[str]
    """Plain clauses, empty when allowed without remark."""


_HEADS = re.compile(r"^\s*(?:\*\*\* [A-Za-z ]+:|---|\+\+\+|rename (?:from|to)|diff --git) *(.+)", re.MULTILINE)
"""Lines of a patch that name files."""

_ALLOW = Verdict("allow", [])


def check_command(command: str) -> Verdict:
    """Judge a shell command by its text; nothing is run or looked up.

    ``deny``: the block list. ``ask``: what it does cannot be told from the text, or reaches beyond the working folder.
    """
    from orkas.harness.commands.danger import (
        Judge,  # the grammar is loaded with the first command, not with the package
    )

    judge = Judge()
    judge.command(command)
    denied = [reason for level, reason in judge.findings if level == "deny"]
    if denied:
        return Verdict("deny", denied)
    asked = [reason for _, reason in judge.findings]
    if len(command) > _MAX_COMMAND and "<<" not in command:
        asked.append("it is too long to be read")
    return Verdict("ask", asked) if asked else _ALLOW


class Policy:
    """The one seam between a call of the model and its execution: asked before each tool runs.

    Modes, as in ``--approve``: ``ask`` puts the policy's questions; ``edits`` pre-approves file edits in the working
    folder; ``all`` approves whatever would be asked; ``none`` denies it. A deny is never approved. ``headless``: there
    is nobody to ask, so every question is denied.
    """

    def __init__(self, mode: Mode = "all", *, headless: bool = True) -> None:
        self.mode: Mode = mode
        self.headless = headless

    def decide(self, tool: str, arguments: Mapping[str, Any] | None, context: ToolContext | None = None) -> Verdict:
        """``ask`` is answered only where somebody can be asked. Tools the policy does not know were given by the
        program that runs us: they are allowed."""
        walls = context is None or context.sandbox != "off"
        if tool == "shell_job" and context is not None:
            return self._settled(_typed(arguments or {}, context, self.mode))
        return self._settled(_judged(tool, arguments or {}, self.mode, walls=walls))

    def _settled(self, verdict: Verdict) -> Verdict:
        if verdict.verdict != "ask" or (self.mode in ("ask", "edits") and not self.headless):
            return verdict
        if self.mode == "all":
            return Verdict("allow", verdict.reasons)
        return Verdict("deny", [*verdict.reasons, f"nobody can be asked (--approve {self.mode})"])


def _typed(arguments: Mapping[str, Any], context: ToolContext, mode: Mode) -> Verdict:
    from orkas.harness.commands.typed import judge_typing

    level, reasons = judge_typing(arguments, context)
    if level == "edits":
        level = "allow" if mode == "edits" and context.sandbox != "off" else "ask"
    return Verdict(level, reasons)


_NO = (None, False, "false", "0")


def _beyond(arguments: Mapping[str, Any]) -> list[str]:
    """What a command asks for beyond the sandbox. Whatever is not plainly a no is a yes."""
    named = {"network": "it wants the network", "outside": "it wants to run outside the sandbox"}
    return [reason for name, reason in named.items() if arguments.get(name) not in _NO]


def _judged(tool: str, arguments: Mapping[str, Any], mode: Mode, *, walls: bool) -> Verdict:
    if tool == "shell":
        command = arguments.get("command")
        verdict = check_command(command) if isinstance(command, str) else _ALLOW
        beyond = _beyond(arguments) if walls and verdict.verdict != "deny" else []
        return Verdict("ask", [*verdict.reasons, *beyond]) if beyond else verdict
    if tool in _EDITS:
        path = _patched(arguments) if tool == "apply_patch" else str(arguments.get("path", "a file"))
        if any(part.casefold() == ".git" for part in path.replace("\\", "/").split("/")):
            return Verdict("ask", [f"{tool} changes {path}, from which git runs programs"])
        if mode != "edits":
            return Verdict("ask", [f"{tool} changes {path}"])
    return _ALLOW


def _patched(arguments: Mapping[str, Any]) -> str:
    """The files that a patch names, by its own header lines; one from which git runs programs first."""
    heads = _HEADS.findall(str(arguments.get("patch")))
    for path in heads:
        if any(part.strip().casefold() == ".git" for part in path.replace("\\", "/").split("/")):
            return str(path)
    return ", ".join(dict.fromkeys(heads)) or "files"
