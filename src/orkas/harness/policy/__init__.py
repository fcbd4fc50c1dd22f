"""Which tool calls run, which need a person's yes, which never run.

Three things are asked in turn: the block list and what always needs a person (``check_command``), the user's rules and
grants, and the mode. Deny beats ask beats allow, whichever of them says so. What a command does is told by
``orkas.harness.commands.effects``, which trusts only what it knows. None of this is a sandbox: it decides what is
started, the sandbox decides what a started program can reach.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orkas.harness.policy.verdict import Verdict
from orkas.harness.tool import Tool, ToolContext
from orkas.infra.errors import OrkasError, UsageError

if TYPE_CHECKING:
    from orkas.harness.commands.effects import Effects
    from orkas.harness.commands.typed import Level
    from orkas.harness.policy.grants import Grant, Grants
    from orkas.harness.policy.rules import Rule, Rules

__all__ = ["Mode", "Policy", "Verdict", "as_judged", "bound", "check_command", "reaches_network", "sandbox_of"]

Mode: TypeAlias = Literal["ask", "edits", "all", "none"]

EDITS = frozenset({"write_file", "edit_file", "apply_patch", "generate_image"})
READS = frozenset({"read_file", "list_files", "search_files", "read_result"})
_JUDGED = EDITS | {"shell", "shell_job"}
"""Tools that are judged by what they are asked to do, also where no rule speaks."""
_BEYOND = {"network": "it wants the network", "outside": "it wants to run outside the sandbox"}
"""Arguments of ``shell`` that are a permission of their own."""
_NO = (None, False, "false", "0")
"""Their values that say no. Whatever is not plainly a no is a yes."""
_MAX_COMMAND = 20_000
"""Characters of a command outside here-documents beyond which nobody reads it: ask."""


_ALLOW = Verdict("allow", [])


@functools.lru_cache(maxsize=64)
def check_command(command: str) -> Verdict:
    """Judge a shell command by its text; nothing is run or looked up.

    ``deny``: the block list. ``ask``: what it does cannot be told from the text, or reaches beyond the working folder.
    """
    from orkas.harness.commands.danger import judged  # the grammar is loaded with the first command

    found = judged(command).findings
    denied = [finding.reason for finding in found if finding.level == "deny"]
    if denied:
        return Verdict("deny", denied)
    asked = list(dict.fromkeys(finding.reason for finding in found))
    if len(command) > _MAX_COMMAND and "<<" not in command:
        asked.append("it is too long to be read")
    return Verdict("ask", asked) if asked else _ALLOW


def as_judged(command: str) -> tuple[str, Mapping[str, str]]:
    """The command as it is run, and variables for it. One of which a part only reads is written again with each
    argument in quotes, so that the shell cannot read it in another way than the policy did; every other runs as it is.
    git is quiet where it only reads, and nowhere else."""
    from orkas.harness.commands.effects import effects_of
    from orkas.harness.commands.git_reading import QUIET

    effects = effects_of(command)
    quiet = QUIET if effects.reading.repositories else {}
    if effects.kind == "reads":
        return effects.text or command, quiet
    if effects.kind == "writes":  # by programs that all are known: none of them runs git
        return command, quiet
    return (effects.text or command) if effects.reading.programs else command, {}


def reaches_network(command: str) -> bool:
    """Whether a program of the command is known for nothing else than reaching the network."""
    from orkas.harness.commands.effects import effects_of
    from orkas.harness.commands.reading import NETWORK

    return any(program.rpartition("/")[2] in NETWORK for program in effects_of(command).programs)


class Policy:
    """The one seam between a call of the model and its execution: asked before each tool runs.

    ``mode``: ``ask``: what only reads runs, the rest is asked; ``edits``: writing in the working folder is approved
    too; ``all``: whatever would be asked is approved; ``none``: it is denied. A deny is never approved.
    ``headless``: there is nobody to ask, so every question is denied. ``rules``: None takes those of the user's
    configuration.
    """

    def __init__(self, mode: Mode = "ask", *, headless: bool = True, rules: Rules | None = None) -> None:
        self.mode: Mode = mode
        self.headless = headless
        self._rules = rules
        self._grants: Grants | None = None

    @property
    def grants(self) -> Grants:
        """What this agent's user has approved so far."""
        if self._grants is None:
            from orkas.harness.policy.grants import Grants

            self._grants = Grants()
        return self._grants

    @property
    def rules(self) -> Rules:
        """The user's rules.

        Raises:
            UsageError: one of them cannot be used.
        """
        if self._rules is None:
            from orkas.harness.policy.rules import Rules

            self._rules = Rules.load()
        return self._rules

    @property
    def may_ask(self) -> bool:
        """Whether ``decide`` can say ``ask`` at all."""
        return not self.headless and self.mode in ("ask", "edits")

    def decide(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        context: ToolContext | None = None,
        *,
        of: Tool | None = None,
    ) -> Verdict:
        """``ask`` is answered only where somebody can be asked. ``of``: the tool, which may say ``read_only`` and
        ``touches`` of itself; one that does not was given by the program that runs us, and is allowed unless a rule
        speaks."""
        try:
            rules = self.rules
        except UsageError as error:
            return Verdict("deny", [str(error)])
        if not rules and tool not in _JUDGED and getattr(of, "read_only", None) is not False:
            return _ALLOW  # nothing below has a word to say
        given = arguments or {}
        context = context or ToolContext(Path.cwd())
        paths = _paths(tool, given, context, of)
        if not all(map(_is_name, paths)):
            return Verdict("deny", ["it names a file with a character that no file name can hold"])
        if isinstance(command := given.get("command"), str) and not _is_name(command.replace("\0", "")):
            return Verdict("deny", ["it holds a character that no command line can hold"])
        rule = rules.judge(tool, given, context.cwd, paths) if rules else None
        denied = rule is not None and rule.level == "deny"
        if denied and (sure := rules.judge(tool, given, context.cwd, paths, doubt=False)) and sure.level == "deny":
            return Verdict("deny", [f"the rule “{sure}” denies it"])
        fixed = self._fixed(tool, given, context, paths)
        if fixed is not None and fixed.verdict == "deny":
            return fixed
        reasons = list(fixed.reasons) if fixed is not None else []
        if denied:
            reasons.append(f"what it starts cannot be told, and the rule “{rule}” denies a command that it may start")
            return Verdict("ask" if self.may_ask else "deny", reasons)
        if rule is not None and rule.level == "ask":
            reasons.append(f"the rule “{rule}” asks")
        if reasons:
            return self._settled(reasons, None, "all")
        if rule is None:
            return self._by_mode(tool, given, context, paths, getattr(of, "read_only", None))
        beside = _not_named(rule, tool, given, context)
        return self._by_mode(tool, given, context, paths, None, beside) if beside else _ALLOW

    def _fixed(
        self, tool: str, arguments: Mapping[str, Any], context: ToolContext, paths: Sequence[str]
    ) -> Verdict | None:
        """What holds whatever rules, grants and mode say: a deny, or a question that must be put each time."""
        if tool == "shell":
            command = arguments.get("command")
            verdict = check_command(command) if isinstance(command, str) else _ALLOW
            if verdict.verdict == "deny":
                return verdict
            walls = context.sandbox != "off"
            asked = [why for name, why in _BEYOND.items() if walls and arguments.get(name) not in _NO]
            if isinstance(command, str) and (ours := _own_data(command, context.cwd)):
                return Verdict("deny", [f"it changes {ours}, which is Orkas' own data"])
            obeyed = _obeyed(command, context.cwd) if isinstance(command, str) else []
            return Verdict("ask", [*verdict.reasons, *asked, *obeyed])
        if tool == "shell_job":
            level, reasons = _typed(arguments, context)
            return Verdict(level, reasons) if level in ("ask", "deny") else None
        if tool in EDITS:
            return _odd_path(tool, paths, context.cwd)
        return None

    def _by_mode(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        paths: Sequence[str],
        read_only: bool | None,
        more: Sequence[str] = (),
    ) -> Verdict:
        """``more``: what speaks against the call besides."""
        if tool == "shell":
            command = arguments.get("command")
            if not isinstance(command, str):
                return _ALLOW  # the tool says what is wrong with it
            asked, by_edits = self._about_command(command, context)
            asked = list(dict.fromkeys([*asked, *more]))
        elif tool == "shell_job":
            level, asked = _typed(arguments, context)
            by_edits = context.sandbox != "off"
            if level == "allow":
                return _ALLOW
        elif tool in EDITS:
            asked, by_edits = [f"{tool} changes {', '.join(paths) or 'files'}"], True
        elif self.rules.names(tool):
            asked, by_edits = ["no rule of [policy] names this host"], False
        elif tool in READS or read_only is not False:
            return _ALLOW
        else:
            asked, by_edits = [f"{tool} may change something"], False
        if not asked or (by_edits and self.mode == "edits"):
            return _ALLOW
        from orkas.harness.policy.grants import grant_for

        grant = grant_for(tool, arguments, context.cwd, sandbox_of(context), paths if tool in EDITS else ())
        if self.grants.holds(grant):
            return _ALLOW
        return self._settled(asked, grant, "edits" if by_edits else "all")

    def _about_command(self, command: str, context: ToolContext) -> tuple[list[str], bool]:
        """What a person is asked about a command, nothing when it only reads; whether mode ``edits`` approves it."""
        from orkas.harness.commands.effects import effects_of
        from orkas.harness.policy import surroundings
        from orkas.harness.policy.removals import removes_much

        effects = effects_of(command)
        cwd, walls = context.cwd, context.sandbox != "off"
        odd = surroundings.harmful(effects, cwd, sandboxed=walls)
        if effects.kind == "reads":
            return odd, False
        odd += removes_much(command, cwd)
        within = effects.kind == "writes" or (walls and effects.kind == "unknown")
        return [*(effects.reasons or ("what it does is not known",)), *odd], within and not odd

    def _settled(self, reasons: list[str], grant: Grant | None, flag: str) -> Verdict:
        if self.mode == "all":
            return Verdict("allow", reasons)
        if self.mode == "none":
            return Verdict("deny", [*reasons, "nothing is approved here (--approve none)"])
        if self.headless:
            return Verdict("deny", [*reasons, f"nobody can be asked here; --approve {flag} would allow it"])
        return Verdict("ask", reasons, grant)


def _typed(arguments: Mapping[str, Any], context: ToolContext) -> tuple[Level, list[str]]:
    from orkas.harness.commands.typed import judge_typing

    return judge_typing(arguments, context.jobs)


def _not_named(rule: Rule, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> list[str]:
    """What speaks against a command though a rule allows it: the rule speaks neither of the parts that only read nor of
    where links lead."""
    command = arguments.get("command")
    if tool != "shell" or not rule.pattern or not isinstance(command, str):
        return []
    from orkas.harness.commands.effects import effects_of
    from orkas.harness.policy import surroundings

    effects = effects_of(command)
    odd = surroundings.harmful(effects, context.cwd, sandboxed=context.sandbox != "off", named=True)
    if effects.reading.repositories and effects.kind not in ("reads", "writes") and effects.text is None:
        odd.append("git cannot be kept from starting programs in a command of this form")
    return odd


def sandbox_of(context: ToolContext) -> str:
    """The sandbox that commands run in, as grants name it; empty: none."""
    if isinstance(context.sandbox, str):
        return "" if context.sandbox == "off" else "on"
    return context.sandbox.name


def bound(tool: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """What a yes is bound to: exactly this call, in this folder and sandbox."""
    from orkas.harness.policy.grants import fingerprint  # only what is asked about needs it

    return fingerprint(tool, dict(arguments), str(context.cwd), sandbox_of(context))


_HEADS = re.compile(r"^\s*(?:\*\*\* [A-Za-z ]+:|---|\+\+\+|rename (?:from|to)|diff --git) *(.+)", re.MULTILINE)
"""Lines of a patch that name files."""


def _paths(tool: str, arguments: Mapping[str, Any], context: ToolContext, of: Tool | None) -> list[str]:
    """The files that a call names, as it names them; for a patch, as the tool understands it."""
    from orkas.harness.commands.known import is_git
    from orkas.harness.policy.rules import paths_of

    paths = paths_of(arguments)
    if tool != "apply_patch":
        return paths
    touches = getattr(of, "touches", None)
    if touches is not None:
        with suppress(OrkasError):  # the tool will say what is wrong with its arguments
            paths += [shown_in(path, context.cwd) for path in touches(dict(arguments), context) or ()]
    heads = [head.strip() for head in _HEADS.findall(str(arguments.get("patch")))]
    odd = [head for head in heads if any(map(is_git, head.replace("\\", "/").split("/")))]
    return list(dict.fromkeys([*paths, *odd])) or heads


def shown_in(path: Path, cwd: Path) -> str:
    """A path as it is called in the working folder."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def _is_name(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _odd_path(tool: str, paths: Sequence[str], cwd: Path) -> Verdict | None:
    """What is said of files that other programs obey, whatever name leads to them."""
    from orkas.harness.policy.obeyed import why
    from orkas.harness.policy.rules import is_device

    for path in paths:
        if is_device(path):
            return Verdict("deny", [f"{path} names a device or another machine, not a file here"])
        if reason := why(path, cwd):
            return Verdict("ask", [f"{tool} changes {path}, {reason}"])
    from orkas.harness.policy.surroundings import makes_repository

    if folder := makes_repository(paths, cwd):
        reason = f"{folder} is then a repository to git, which runs programs that its settings name"
        return Verdict("ask", [f"{tool} changes {', '.join(paths)}: {reason}"])
    return None


def _obeyed(command: str, cwd: Path) -> list[str]:
    """What a command changes of what git and other programs obey."""
    from orkas.harness.commands.effects import effects_of

    if effects_of(command).kind == "reads":
        return []
    from orkas.harness.policy.obeyed import changed_by

    return changed_by(command, cwd)


def _own_data(command: str, cwd: Path) -> str:
    """The file of Orkas' own data that a command changes, as far as its text tells."""
    from orkas.harness.commands.effects import effects_of
    from orkas.harness.policy import surroundings

    effects: Effects = effects_of(command)
    return next((p for p in (*effects.written, *effects.beyond) if surroundings.is_our_data(p, cwd)), "")
