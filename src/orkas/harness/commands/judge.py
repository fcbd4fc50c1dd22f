"""Walking a command, however deep: lists, pipelines, substitutions, here-documents of shells, strings that a shell or a
wrapper runs. What each program does is told by ``programs``."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from orkas.harness.commands import known
from orkas.harness.commands.parser import parse
from orkas.harness.commands.syntax import Group, Lit, NotUnderstood, Pipeline, Redirect, Script, Simple, Sub, Var, Word
from orkas.harness.commands.words import (
    HOME,
    Arg,
    Scope,
    Stdin,
    arguments,
    one_text,
    printed,
    runs_when_evaluated,
    shown,
)  # fmt: skip

__all__ = ["Finding", "Judge", "Level"]

Level: TypeAlias = Literal["ask", "deny"]
MAX_NESTED = 60
"""Shells in shells and wrappers around wrappers; nothing honest goes so deep."""
MAX_STEPS = 10_000
"""Simple commands looked at, loops and functions unrolled: bounds the time that a verdict takes."""


class Finding(msgspec.Struct, frozen=True):
    """What speaks against a command."""

    level: Level
    reason: str
    """A clause."""
    seen: bool
    """It is about what is in sight. False: something may be started that nobody has seen."""


class _TooMuch(Exception):
    """The budget is used up."""


class Judge:
    """Walks the tree of a command and collects what speaks against it: ``findings``, in the order of discovery, each
    reason once. Who makes one says what is known of ``program``; those that run others come back here."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._nested = 0
        self._steps = 0
        self._function_names: list[str] = []
        self._calls: list[str] = []
        self._guessing = False

    def command(self, command: str) -> None:
        """Judge a whole command line. What cannot be judged to the end is denied."""
        try:
            self.text(command, Scope())
        except (_TooMuch, RecursionError):
            self.deny("it is too large to be judged to the end")

    def text(self, command: str, scope: Scope) -> None:
        """Judge a text that a shell runs."""
        if self._nested > MAX_NESTED:
            self.deny("it is nested too deep to be judged")
            return
        if known.INVISIBLE.search(command):
            self.ask("it holds control or invisible characters")
        try:
            script = parse(command)
        except NotUnderstood as odd:
            self.ask(f"it could not be understood ({odd})")
            return
        self._nested += 1
        self._script(script, scope)
        self._nested -= 1

    def deny(self, reason: str) -> None:
        self._add(Finding("deny", reason, True))

    def ask(self, reason: str, *, seen: bool = False) -> None:
        """``seen``: the finding is about what it does; otherwise it may start something that is not in sight."""
        self._add(Finding("ask", reason, seen))

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def would_deny(self, args: list[Arg], scope: Scope) -> bool:
        """Whether a command among the arguments of an unknown program would be denied. No guess within a guess."""
        return self._guessed(lambda: self.run(args, scope.copy()))

    def guess(self, text: str, scope: Scope) -> None:
        """Deny if this text, taken as a command line, would be denied; nothing else of it counts."""
        if self._guessed(lambda: self.text(text, scope.copy())):
            self.deny("a program is told to run a denied command")

    def _guessed(self, judging: Callable[[], None]) -> bool:
        if self._guessing:
            return False
        before, self.findings = self.findings, []
        self._guessing = True
        try:
            judging()
            return any(finding.level == "deny" for finding in self.findings)
        except NotUnderstood:
            return False
        finally:
            self.findings, self._guessing = before, False

    # the tree

    def _script(self, script: Script, scope: Scope) -> None:
        """In a row of ``&&`` each part may count on those before it; behind the row, and behind ``||``, it may not."""
        before: Scope | None = None
        for pipeline in script:
            if before is not None and pipeline.after != "&&":
                scope.doubt(before)
                before = None
            if pipeline.after and before is None:
                before = scope.copy()
            self._pipeline(pipeline, scope)
        if before is not None:
            scope.doubt(before)

    def _pipeline(self, pipeline: Pipeline, scope: Scope) -> None:
        alone = len(pipeline.commands) == 1
        for i, command in enumerate(pipeline.commands):
            inner = scope if alone else scope.copy()
            stdin = None if i == 0 else Stdin([Pipeline(pipeline.commands[:i])])
            try:
                if isinstance(command, Simple):
                    self._simple(command, inner, stdin)
                else:
                    self._group(command, inner, stdin)
            except NotUnderstood as odd:
                self.ask(f"it could not be understood ({odd})")
            scope.written |= inner.written
        self._look_for_bomb(pipeline)

    def _look_for_bomb(self, pipeline: Pipeline) -> None:
        """A function that starts itself more than once, or in the background, at the same time."""
        if not self._function_names:
            return
        name = self._function_names[-1]
        selves = sum(1 for c in pipeline.commands if isinstance(c, Simple) and _plain(c.words[:1]) == name)
        if selves > 1 or (selves and (pipeline.background or len(pipeline.commands) > 1)):
            self.deny(f"a fork bomb: {name} starts itself again and again")

    def _group(self, group: Group, scope: Scope, stdin: Stdin | None) -> None:
        for word in group.words:
            self._substitutions(word, scope)
        if group.kind == "test":
            self._arithmetic(scope)
            if any(isinstance(p, Lit) and p.quoted and runs_when_evaluated(p.text) for w in group.words for p in w):
                self.ask("a test runs what stands in the subscript of a variable")
        self._redirects(group.redirects, scope)
        if group.kind == "function":
            self._function(group, scope)
        elif group.kind == "for":
            self._for(group, scope)
        elif group.kind == "{":
            self._script(group.bodies[0], scope)
        else:
            before = scope.copy()
            inner = scope.copy() if group.kind == "(" else scope
            for body in group.bodies:
                self._script(body, inner)
            scope.written |= inner.written
            scope.doubt(before)
        if stdin and any(_reads_commands(b) for b in group.bodies):
            self.fed(stdin, scope)

    def _function(self, group: Group, scope: Scope) -> None:
        body = group.bodies[0]
        self._function_names.append(group.name)
        inner = scope.copy()
        inner.positional = True
        self._script(body, inner)
        scope.written |= inner.written
        self._function_names.pop()
        scope.functions[group.name] = body

    def _for(self, group: Group, scope: Scope) -> None:
        before = scope.copy()
        values = arguments(group.words, scope) if group.name else []
        if len(values) > 50 or not values or any(v.pattern for v in values):
            values = [*values[:50], Arg("", False)]
        for value in values:
            if group.name:
                scope.variables[group.name] = value
            self._script(group.bodies[0], scope)
        scope.doubt(before)

    def _substitutions(self, word: Word, scope: Scope) -> None:
        for part in word:
            if isinstance(part, Sub):
                self._script(part.script, scope.copy())
                if part.kind == ">(" and _reads_commands(part.script):
                    self.ask("a shell runs what another program prints or a file holds")
            elif isinstance(part, Var):
                self._substitutions(part.operand, scope)
                self._evaluations(part, scope)

    def _evaluations(self, part: Var, scope: Scope) -> None:
        """Expansions that run what stands in the value of a variable: ``${x@P}``, arithmetic, indirection."""
        text = "".join(p.text for p in part.operand if isinstance(p, Lit))
        if part.operator.endswith("@") and text == "P":
            self.ask("it evaluates the value of a variable")
        elif part.operator in ("((", "[", "!", ":"):
            self._arithmetic(scope)

    def _arithmetic(self, scope: Scope) -> None:
        if any(runs_when_evaluated(value.text) for value in scope.variables.values()):
            self.ask("arithmetic runs what stands in the value of a variable")

    def _redirects(self, redirects: list[Redirect], scope: Scope) -> None:
        for redirect in redirects:
            self._substitutions(redirect.target, scope)
            document = redirect.operator in ("<<", "<<-", "<<<")
            if not document and one_text(redirect.target, scope).text.startswith(("/dev/tcp/", "/dev/udp/")):
                self.ask("it connects to the network")
            if redirect.operator in ("<", "<<", "<<-", "<<<", "<&"):
                continue
            target = one_text(redirect.target, scope)
            self.writes(target, scope)

    def writes(self, target: Arg, scope: Scope, *, changes: bool = False) -> None:
        """A command line that writes to this file; ``changes``: what is in it may stay the same."""
        path = scope.path(target.text) if target.text else None
        if path and known.BLOCK_DEVICE.match(path):
            self.deny(f"it writes to the device {path}")
        elif path == "/proc/sysrq-trigger":
            self.deny("it can stop or restart the machine")
        elif path and (path == "/" or (path + "/").startswith(known.SYSTEM)):
            self.ask(f"it writes to {path}, which belongs to the system", seen=True)
        elif path and (path + "/").startswith(HOME + "/"):
            self.ask(f"it writes to {shown(path)}, outside the working folder", seen=True)
        if path and not changes:
            scope.written.add(path)

    # one command

    def _simple(self, command: Simple, scope: Scope, stdin: Stdin | None) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooMuch
        for _, words in command.assignments:
            for word in words:
                self._substitutions(word, scope)
        for word in command.words:
            self._substitutions(word, scope)
        self._redirects(command.redirects, scope)
        stdin = _stdin_of(command, scope) or stdin
        args = arguments(command.words, scope)
        self._assigned(command, scope, args)
        if command.words and any(isinstance(p, Var) and p.name not in ("IFS", "HOME", "PWD") for p in command.words[0]):
            self.ask("which program it runs is known only when it runs")
        if args:
            self.run(args, scope, stdin)
            if args[0].program in known.SHELLS or args[0].program in ("source", "."):
                self._printed_files(command.words, scope)

    def _printed_files(self, words: list[Word], scope: Scope) -> None:
        """``bash <(echo …)``: the text that a shell runs from a process substitution, where it can be told."""
        for word in words:
            for part in word:
                if isinstance(part, Sub) and part.kind == "<(" and (text := printed(part.script, scope)):
                    self.text(text, scope.copy())

    def _assigned(self, command: Simple, scope: Scope, args: list[Arg]) -> None:
        for name, words in command.assignments:
            plain = name.removesuffix("[]")
            value = one_text(words[0], scope) if len(words) == 1 and plain == name else Arg("", False)
            only_for_read = plain == "IFS" and bool(args) and args[0].text in ("read", "mapfile", "readarray")
            if known.RISKY_VARIABLES.match(plain) and not only_for_read and not known.harmless_value(plain, value.text):
                seen = bool(known.FINDS_PROGRAMS.fullmatch(plain))
                self.ask(f"it sets {plain}, which can change what later programs run", seen=seen)
            if not args or args[0].text in ("export", "declare", "local", "readonly", "typeset"):
                scope.variables[plain] = value

    def run(self, args: list[Arg], scope: Scope, stdin: Stdin | None = None) -> None:
        """Judge a program with its arguments; ``stdin`` is what is fed to it."""
        head, rest = args[0], args[1:]
        name = head.program
        self._steps += 1
        if self._steps > 2 * MAX_STEPS:
            raise _TooMuch
        if self._nested > MAX_NESTED:
            self.deny("it is nested too deep to be judged")
            return
        if any(c in " \t\n" for c in head.text):
            self.string(head, scope)
        if head.pattern and head.text not in ("[", "?"):
            self._pattern_as_program(name)
        if re.match(r"--?[A-Za-z]", head.text) and rest:
            self.run(rest, scope, stdin)  # options of the reserved word in front of it, as in: time -v
            return
        if not head.sure:
            self.ask("which program it runs is known only when it runs")
            if not name and rest:
                self.run(rest, scope, stdin)
                return
        if head.text in scope.functions:
            self._call(head.text, scope)
            return
        self._own_script(head, scope)
        self._nested += 1
        self.program(name, rest, scope, stdin)
        self._nested -= 1

    def program(self, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
        """Judge a program by its name."""
        raise NotImplementedError

    def _pattern_as_program(self, name: str) -> None:
        blocked = known.PRIVILEGE | known.HALT | known.DISK | {"rm", "dd", "mkfs"}
        if any(fnmatch.fnmatchcase(program, name) for program in blocked):
            self.deny(f"the pattern {name} can stand for a blocked program")
        else:
            self.ask("the name of the program is a pattern")

    def _call(self, name: str, scope: Scope) -> None:
        if name in self._calls:
            return
        self._calls.append(name)
        inner = scope.copy()
        inner.positional = True
        self._script(scope.functions[name], inner)
        self._calls.pop()

    def _own_script(self, head: Arg, scope: Scope) -> None:
        if "/" in head.text and scope.path(head.text) in scope.written:
            self.ask(f"it runs {head.text}, which it has just written")

    def string(self, arg: Arg, scope: Scope) -> None:
        """A text that a shell runs."""
        if not arg.sure:
            self.ask("a shell runs a text that is known only when it runs")
        inner = scope.copy()
        inner.positional = True
        self.text(arg.text, inner)
        scope.written |= inner.written

    def script_file(self, file: Arg, scope: Scope) -> None:
        if not file.sure or file.text.startswith(("/dev/fd/", "/dev/tcp/", "/proc/")):
            self.ask("a shell runs a file that is known only when it runs")
        elif scope.path(file.text) in scope.written:
            self.ask(f"it runs {file.text}, which it has just written")

    def fed(self, stdin: Stdin, scope: Scope) -> None:
        """A shell that runs its input."""
        text = stdin.text(scope)
        if text is None:
            self.ask("a shell runs what another program prints or a file holds")
        else:
            self.string(Arg(text), scope)


def _stdin_of(command: Simple, scope: Scope) -> Stdin | None:
    for redirect in reversed(command.redirects):
        if redirect.operator in ("<<", "<<-", "<<<"):
            return Stdin(word=redirect.target)
        if redirect.operator == "<&" and one_text(redirect.target, scope).text not in ("-", "0"):
            return Stdin()
        if redirect.operator == "<" and one_text(redirect.target, scope).text != "/dev/null":
            return Stdin()
    return None


def _reads_commands(body: Script) -> bool:
    """A compound command that has a shell in it, which would run what is fed to the whole."""
    return any(
        isinstance(c, Simple) and posixpath.basename(_plain(c.words[:1])).lower() in known.SHELLS and len(c.words) == 1
        for p in body
        for c in p.commands[:1]
    )


def _plain(words: list[Word]) -> str:
    return "".join(p.text for w in words for p in w if not isinstance(p, Sub | Var))
