"""What the block list says about programs that start the command which stands among their arguments."""

from __future__ import annotations

import re

from orkas.harness.commands import known, runners
from orkas.harness.commands.judge import Judge
from orkas.harness.commands.variables import finds_programs, risky
from orkas.harness.commands.words import Arg, Scope, Stdin
from orkas.infra.patterns import lazy

__all__ = ["environment", "find_names", "project_runner", "wrapper", "xargs"]

_ENV_STRING = lazy(r"(?:-[iv0]*S|--split-string)=?(.*)", re.DOTALL)


def wrapper(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """A program whose arguments are, after its own, another command.

    No table of options is complete: a denied program that stands among what was taken for options is asked about.
    """
    takes = runners.WRAPPERS[name]
    code = runners.CODE_OPTIONS.get(name, ())
    own = runners.POSITIONALS.get(name, 0)
    if behind := _behind_option(rest, runners.COMMAND_BEHIND.get(name, ())):
        judge.run(behind, scope, stdin)
        return
    i = 0
    while i < len(rest):
        text = rest[i].text
        if text == "--" and (own == 0 or i > 0):
            i += 1
            break
        flag, _, glued = text.partition("=")
        if flag in code:
            value = Arg(glued, rest[i].sure) if glued else rest[i + 1] if i + 1 < len(rest) else Arg("")
            _command_line(judge, name, value, scope)
            i += 1 if glued else 2
            continue
        if not text.startswith("-") or (text == "-" and name != "env"):
            if name in ("env", "busybox", "cross-env") and re.match(r"[A-Za-z_]\w*=", text):
                environment(judge, text)
                i += 1
                continue
            if own > 0:
                own -= 1
                i += 1
                continue
            break
        if name == "env" and (found := _ENV_STRING.match(text)):
            words = [a.text for a in rest[i + 1 :]]
            judge.string(Arg(" ".join([found.group(1), *words]), all(a.sure for a in rest[i : i + 2])), scope)
            return
        if name == "command" and text in ("-v", "-V"):
            return
        i += 3 if text in runners.TAKE_TWO.get(name, ()) else 2 if _takes_next(text, takes) else 1
    _names_among_options(judge, name, rest[:i])
    if i < len(rest):
        judge.run(rest[i:], scope, stdin)


def _behind_option(rest: list[Arg], flags: tuple[str, ...]) -> list[Arg]:
    """The command that stands behind one of these options, be it its value and then, after ``--``, the rest."""
    for i, arg in enumerate(rest):
        flag, _, glued = arg.text.partition("=")
        if flag in flags:
            return [*([Arg(glued, arg.sure)] if glued else []), *(a for a in rest[i + 1 :] if a.text != "--")]
    return []


def _command_line(judge: Judge, name: str, value: Arg, scope: Scope) -> None:
    """The value of an option that takes one: of a shell, or of a debugger."""
    if name not in ("gdb", "lldb", "cgdb"):
        judge.string(value, scope)
        return
    judge.ask(f"{name} is told to run commands of its own")
    judge.guess(re.sub(r"^\s*(!|shell\b|make\b|platform shell\b)", "", value.text), scope)


def _takes_next(flag: str, takes: tuple[str, ...]) -> bool:
    """The value of the flag is the next argument: of a cluster, only the last letter can take one."""
    if flag in takes:
        return True
    if not re.fullmatch(r"-[A-Za-z]{2,}", flag):
        return False
    return "-" + flag[-1] in takes and not any("-" + c in takes for c in flag[1:-1])


def _names_among_options(judge: Judge, name: str, skipped: list[Arg]) -> None:
    for arg in skipped:
        if arg.program in known.PRIVILEGE | known.HALT and arg.program != "please":
            judge.ask(f"{name} may be told to run {arg.program}")


def environment(judge: Judge, assignment: str) -> None:
    name, _, value = assignment.partition("=")
    if risky(name, value, exported=True):
        judge.ask(f"it sets {name}, which can change what later programs run", seen=finds_programs(name))


def project_runner(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``uv run …``, ``npm exec …``; behind their other verbs stands no program (``npm run x`` names a script)."""
    takes, verbs = runners.RUNNERS[name]
    i = _behind_options(rest, 0, takes)
    if i < len(rest) and not rest[i].sure and not rest[i].text:
        judge.ask(f"what {name} runs is known only when it runs")
    if verbs:
        if i >= len(rest) or rest[i].text not in verbs:
            words = [a.text for a in rest[i : i + 2]]
            if name in ("npm", "pnpm", "yarn") and words in (["config", "set"], ["set", "script-shell"]):
                judge.ask(f"{name} is told to change its settings")
            return
        i += 1
    for j in range(i, len(rest)):
        flag, _, value = rest[j].text.partition("=")
        if not flag.startswith("-") or flag == "--":
            break
        if flag in ("-c", "--call", "--shell-mode"):
            judge.ask(f"{name} runs a command line that it is given")
            judge.string(Arg(value) if value else rest[j + 1] if j + 1 < len(rest) else Arg(""), scope)
            return
    start = _behind_options(rest, i, takes)
    _names_among_options(judge, name, rest[i:start])
    if start < len(rest):
        judge.run(rest[start:], scope, stdin)


def _behind_options(rest: list[Arg], i: int, takes: tuple[str, ...]) -> int:
    while i < len(rest) and rest[i].text.startswith("-"):
        if rest[i].text == "--":
            return i + 1
        i += 2 if rest[i].text in takes else 1
    return i


_XARGS_TAKE = (
    "-I", "-n", "-L", "-P", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file",
    "--replace", "--max-lines", "-J", "-R", "-S", "-j", "--jobs", "--max-chars", "--process-slot-var",
)  # fmt: skip


def xargs(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    i = 0
    while i < len(rest) and rest[i].text.startswith("-"):
        i += 2 if rest[i].text in _XARGS_TAKE else 1
    _names_among_options(judge, name, rest[:i])
    if i >= len(rest):
        if name == "parallel":
            judge.ask("parallel runs lines that another program prints")
        return
    inner = rest[i:]
    if "{}" in inner[0].text:
        judge.ask("which program it runs is known only when it runs")
    text = stdin.text(scope) if stdin else None
    if text is None:
        _unknown_arguments(judge, inner[0].program)
        fed = [Arg("", False)] if inner[0].program in ("rm", "sh", "bash", "env", "git") else []
    else:
        fed = [Arg(word) for word in text.replace("\0", " ").split()]
    judge.run([*inner, *fed], scope)


_COMMAND_START = r"(?:^|[\n;&|(`!'\"=][ \t]{0,9}|\$\(|\b(?:shell|system|exec|spawn|syscmd|run|popen)\W{1,4})"
_RIGHTS = "|".join(re.escape(n) for n in sorted(known.PRIVILEGE - {"please", "su", "op", "newgrp"}, reverse=True))
_NAMED_IN_TEXT = lazy(
    rf"{_COMMAND_START}(?:/[\w./-]{{0,60}}/)?(?:(?:{_RIGHTS}|shutdown|poweroff)\s|rm\s+-\w*[rR]\w*\s+[/~$])"
)
_IN_FRONT = lazy(r"^(?:[!.\\:]+\w*\s+|[!.\\:]+|--?[\w-]*=|-[A-Za-z])")
_NAMED_WORD = lazy(rf"(?:.*/)?(?:{_RIGHTS}|su)", re.IGNORECASE | re.DOTALL)
MAX_GUESSES = 4


def find_names(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """A program that is not known: does a denied one stand among its arguments as if it were to be run?"""
    guesses = 0
    for i, arg in enumerate(rest):
        text = arg.text
        told = name in runners.START_OTHERS or i > 0 or "/" in text
        if _NAMED_WORD.fullmatch(text) or (told and arg.program in known.HALT):
            judge.ask(f"{name} may be told to run {arg.program}")
            return
        inner = _IN_FRONT.sub("", text, count=1)
        if any(c in " \t\n" for c in text) and (_NAMED_IN_TEXT.search(text) or _NAMED_IN_TEXT.match(inner + " ")):
            judge.ask(f"{name} may be told to run a denied program")
            return
        may_run = arg.program in runners.MAY_BE_TOLD or arg.program.startswith("mkfs")
        if guesses < MAX_GUESSES and may_run and i + 1 < len(rest):
            guesses += 1
            if judge.would_deny(rest[i:], scope):
                judge.ask(f"{name} may be told to run {arg.program}, which would be denied")
                return
    fed = stdin.text(scope) if stdin and name in runners.START_OTHERS else None
    if fed and _NAMED_IN_TEXT.search(fed + " "):
        judge.ask(f"{name} may be told to run a denied program")


def _unknown_arguments(judge: Judge, program: str) -> None:
    if program in ("rm", "rmdir", "unlink", "shred", "mv", "dd", "chmod", "chown") or program in known.SHELLS:
        judge.ask(f"{program} gets its arguments from another program", seen=program not in known.SHELLS)
