"""What the words of a command line come to, as far as the text alone tells.

A value that only the running shell knows is taken as empty and marked as not sure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from orkas.harness.commands.braces import spread
from orkas.harness.commands.parser import unescape
from orkas.harness.commands.syntax import Lit, NotUnderstood, Part, Pipeline, Script, Simple, Sub, Var, Word

__all__ = ["HOME", "Arg", "Scope", "Stdin", "arguments", "one_text", "printed", "runs_when_evaluated", "shown"]

HOME = "/home/~"
"""Stands for the home folder of whoever runs the command."""
_HERE = "."
MAX_TEXT = 1_000_000
"""Characters of one word: ``a=$a$a`` doubles."""
_BLANK = " \t\n"


@dataclass(slots=True, frozen=True)
class Arg:
    """One argument as the program would get it."""

    text: str
    sure: bool = True
    """False: a part of it is known only at run time; ``text`` is what it is when that part is empty."""
    pattern: bool = False
    """It holds unquoted ``*``, ``?`` or ``[``: the shell replaces it by names of files."""

    @property
    def program(self) -> str:
        """As the name of a program: without folder, in lower case (some file systems do not care)."""
        return posixpath.basename(self.text).lower()


@dataclass(slots=True)
class Scope:
    """What is known at one point of a command line."""

    variables: dict[str, Arg] = field(default_factory=dict)
    functions: dict[str, Script] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    """Files that this command line itself has written."""
    cwd: str | None = _HERE
    """Where it is, relative to the working folder or absolute; None: not known."""
    positional: bool = False
    """``$1`` and the like may hold something."""

    def copy(self) -> Scope:
        return replace(self, variables=dict(self.variables), functions=dict(self.functions), written=set(self.written))

    def doubt(self, before: Scope) -> None:
        """What was set since ``before`` was set perhaps."""
        for name, value in self.variables.items():
            if before.variables.get(name) is not value:
                self.variables[name] = replace(value, sure=False)
        if self.cwd != before.cwd:
            self.cwd = None

    def path(self, text: str) -> str | None:
        """A path of an argument, normalised; None when it is relative to a place that is not known."""
        if text.startswith("/"):
            return posixpath.normpath("/" + text.lstrip("/"))
        return None if self.cwd is None else posixpath.normpath(posixpath.join(self.cwd, text))


def arguments(words: Iterable[Word], scope: Scope) -> list[Arg]:
    """All arguments that the words come to: braces, variables and splitting done, patterns left as they are."""
    found: list[Arg] = []
    for word in words:
        for one in spread(word):
            found += _fields(_tilde(one, scope), scope)
    return found


def one_text(word: Word, scope: Scope) -> Arg:
    """A word that the shell does not split: an assignment, the target of a redirection."""
    text = ""
    sure = True
    for part in _tilde(word, scope):
        value = _value(part, scope)
        text += value.text
        sure = sure and value.sure
        if len(text) > MAX_TEXT:
            raise NotUnderstood("a word that grows without end")
    return Arg(text, sure)


def _fields(word: Word, scope: Scope) -> list[Arg]:
    fields: list[Arg] = []
    text = ""
    began = False
    sure, pattern = True, False
    for part in word:
        value = _value(part, scope)
        sure = sure and value.sure
        if len(text) > MAX_TEXT:
            raise NotUnderstood("a word that grows without end")
        if isinstance(part, Lit) or part.quoted:
            began = True
            pattern = pattern or (isinstance(part, Lit) and not part.quoted and any(c in "*?[" for c in part.text))
            text += value.text
            continue
        pattern = pattern or any(c in "*?[" for c in value.text)
        pieces = _split(value.text)
        text += pieces[0]
        for piece in pieces[1:]:
            if text or began:
                fields.append(Arg(text, sure, pattern))
            text, began = piece, False
    if text or began or not sure:
        fields.append(Arg(text, sure, pattern))
    return fields


def _split(text: str) -> list[str]:
    pieces = [""]
    for char in text:
        if char in _BLANK:
            pieces.append("")
        else:
            pieces[-1] += char
    return pieces


def _tilde(word: Word, scope: Scope) -> Word:
    """A leading unquoted tilde as the folder that it names."""
    if not word or not isinstance(word[0], Lit) or word[0].quoted or not word[0].text.startswith("~"):
        return word
    name, slash, tail = word[0].text[1:].partition("/")
    rest: Word = [Lit(slash + tail), *word[1:]]
    if not slash and len(word) > 1:
        return word if any(p.quoted for p in word[1:2]) else [Var("", True), *rest]
    if name == "":
        folder = HOME
    elif name == "+":
        folder = scope.cwd or ""
    elif name == "-":
        return [Var("OLDPWD", True), *rest]
    else:
        folder = "/root" if name == "root" else f"/home/{name}"
    return [Lit(folder, True), *rest]


def _value(part: Part, scope: Scope) -> Arg:
    if isinstance(part, Lit):
        return Arg(part.text)
    if isinstance(part, Sub):
        return _output(part, scope)
    return _variable(part, scope)


def _variable(part: Var, scope: Scope) -> Arg:
    value = _plain_variable(part.name, scope)
    if not part.operator:
        return value
    operand = one_text(part.operand, scope)
    if part.operator in (":-", "-", ":=", "="):
        return value if value.text else replace(operand, sure=value.sure and operand.sure)
    if part.operator in (":+", "+"):
        return replace(operand, sure=False)
    if part.operator in (":?", "?"):
        return value
    return Arg(value.text if part.operator != "((" else "", False)


def _plain_variable(name: str, scope: Scope) -> Arg:
    if name in scope.variables:
        return scope.variables[name]
    if name == "IFS":
        return Arg(_BLANK)
    if name == "HOME":
        return Arg(HOME)
    if name == "PWD":
        return Arg(scope.cwd or "", scope.cwd is not None)
    if name in ("SHELL", "BASH", "0"):
        return Arg("bash")
    if name == "PPID":
        return Arg("$PPID", False)
    if name.isdigit() or name in ("@", "*"):
        return Arg("", not scope.positional)
    return Arg("", False)


def _output(part: Sub, scope: Scope) -> Arg:
    """What a substitution prints, where the text tells."""
    if part.kind != "$(":
        return Arg("/dev/fd/63")
    text = printed(part.script, scope)
    return Arg("", False) if text is None else Arg(text.rstrip("\n"))


def printed(script: Script, scope: Scope) -> str | None:
    """The output of a script of plain ``echo``, ``printf``, ``pwd``, ``which``; None: it cannot be told."""
    text = ""
    for pipeline in script:
        piece = _printed_by(pipeline, scope)
        if piece is None:
            return None
        text += piece
    return text


def _printed_by(pipeline: Pipeline, scope: Scope) -> str | None:
    command = pipeline.commands[0]
    if len(pipeline.commands) != 1 or not isinstance(command, Simple) or command.assignments:
        return None
    args = arguments(command.words, scope)
    bodies = [r for r in command.redirects if r.operator in ("<<", "<<-", "<<<")]
    if not args or not all(a.sure and not a.pattern for a in args) or len(bodies) != len(command.redirects):
        return None
    name, *rest = [args[0].program, *(a.text for a in args[1:])]
    if name == "cat" and not rest and bodies:
        return one_text(bodies[-1].target, scope).text
    if bodies:
        return None
    return _printed_words(name, rest, scope)


def _printed_words(name: str, rest: list[str], scope: Scope) -> str | None:
    if name == "echo":
        escapes = False
        while rest and rest[0] in ("-n", "-e", "-E", "-ne", "-en"):
            escapes = escapes or "e" in rest.pop(0)
        text = " ".join(rest)
        return (unescape(text) if escapes else text) + "\n"
    if name == "printf" and rest and not rest[0].startswith("-"):
        return _formatted(rest[0], rest[1:])
    if name == "pwd":
        return scope.cwd
    if name == "mktemp" and all(re.fullmatch(r"-[dqut]+|[\w.-]*X{3}[\w.-]*", word) for word in rest):
        return "/tmp/tmp.XXXXXXXXXX\n"  # noqa: S108 - what the command would print, as far as it matters
    if name in ("which", "command", "type") and rest and not rest[-1].startswith("-"):
        return rest[-1]
    return None


def _formatted(form: str, values: list[str]) -> str | None:
    form = unescape(form)
    if "%" not in form:
        return form
    slots = form.count("%s") + form.count("%b")
    if form.replace("%s", "").replace("%b", "").count("%") or not slots:
        return None
    text = ""
    while True:
        piece = form
        for _ in range(slots):
            at = min(i for i in (piece.find("%s"), piece.find("%b")) if i >= 0)
            value = values.pop(0) if values else ""
            value = unescape(value) if piece[at + 1] == "b" else value
            piece = piece[:at] + value.replace("%", "\x00") + piece[at + 2 :]
        text += piece
        if not values:
            return text.replace("\x00", "%")


class Stdin:
    """What a command reads."""

    def __init__(self, script: Script | None = None, word: Word | None = None) -> None:
        self._script_before = script
        self._word = word

    @property
    def is_document(self) -> bool:
        return self._word is not None

    def text(self, scope: Scope) -> str | None:
        """The input itself, where the text tells."""
        if self._word is not None:
            value = one_text(self._word, scope)
            return value.text if value.sure else None
        return printed(self._script_before, scope) if self._script_before else None


def shown(path: str) -> str:
    """A path for people."""
    return path.replace(HOME, "~", 1)


def runs_when_evaluated(text: str) -> bool:
    """A subscript with a substitution in it: arithmetic and names of variables run it."""
    return "[" in text and ("$(" in text or "`" in text)
