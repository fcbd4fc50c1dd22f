"""Walking a command whose every effect must be known: a word, a flag, a construct that is in no table makes the whole
command unknown. Nothing is executed or looked up. What programs do is told by ``reading``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from orkas.harness.commands import known
from orkas.harness.commands.parser import parse
from orkas.harness.commands.syntax import Group, Lit, Pipeline, Redirect, Script, Simple, Sub, Var, Word
from orkas.harness.commands.words import HOME, Scope, arguments
from orkas.infra.patterns import lazy

__all__ = [
    "MAX_BYTES", "MAX_COMMANDS", "MAX_DEPTH", "RANK", "Kind", "Looks", "Part", "Piece", "Survey", "Unknown",
]  # fmt: skip

Kind: TypeAlias = Literal["reads", "writes", "beyond", "unknown"]
"""``reads``: changes nothing. ``writes``: changes files of the working folder. ``beyond``: changes others, or reaches
the network. ``unknown``: a program, a flag or a construct that no table knows."""

RANK: dict[Kind, int] = {"reads": 0, "writes": 1, "beyond": 2, "unknown": 3}
MAX_BYTES = 4_096
"""A command that is longer is read by nobody."""
MAX_DEPTH = 3
"""Groups and substitutions in one another."""
MAX_COMMANDS = 50
"""Simple commands; beyond them nothing is approved, whatever they are."""

_NAME = lazy(r"[a-z_][a-z0-9_]*")
"""Variables that a command line may set for itself: those in capitals can change what programs do."""
_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/urandom"})
_PRINTED = "/dev/fd/63"
"""What the shell puts in the place of ``<(…)``."""
_GROUPS = ("(", "{", "if", "loop", "for")
_FLAG_WITH_PATH = lazy(r"(?:=|^-[A-Za-z]+)((?:/|~|\.\.(?:/|$)).*)", re.DOTALL)
_MOVE = (("cd",), ("pushd",), ("popd",))
_VALUES = frozenset({"", ":-", "-", ":+", "+", "#", "##", "%", "%%"})
"""Operators of ``${x…}`` that neither set nor evaluate anything."""


class Unknown(Exception):
    """Not in the tables; the argument says what, as a clause."""


class Piece(msgspec.Struct, frozen=True):
    """One argument, as far as the text tells it."""

    text: str
    fixed: bool = True
    """It is exactly this text."""
    wild: bool = False
    """It may be a flag, several arguments or none."""
    hidden: bool = False
    """As a path it may lead anywhere: what a variable holds is in it, or a pattern that stands for ``..``."""


class Part(msgspec.Struct, frozen=True):
    """One simple command."""

    kind: Kind
    argv: tuple[str, ...]
    """The arguments when all of them are known, else those before the first that is not."""
    whole: bool
    """``argv`` is all of it, and nothing else is done beside it (no assignment, no redirection into a file)."""
    reason: str
    """A clause that says why it is not read-only; empty when it is."""
    folder: str | None = None
    """Where it runs, relative to the working folder or absolute; None: not known."""


class Looks(msgspec.Struct, frozen=True):
    """What is to be looked at on the disk before it is known that a command, or a part of one, only reads."""

    programs: list[str] = msgspec.field(default_factory=list)
    repositories: list[str] = msgspec.field(default_factory=list)
    outside: list[str] = msgspec.field(default_factory=list)
    inside: list[str] = msgspec.field(default_factory=list)

    def add(self, other: Looks) -> None:
        for name in self.__struct_fields__:
            getattr(self, name).extend(getattr(other, name))


Judge: TypeAlias = "Callable[..., tuple[Kind, str]]"
"""What a program with these arguments does: ``judge(survey, name, rest, alone=…)``."""


class Survey:
    """Walks the tree of one command line and collects what it does."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.parts: list[Part] = []
        self.reading = Looks()
        """Of the parts that only read, of words and of redirections."""
        self.acting = Looks()
        """Of all other parts."""
        self.looks = self.reading
        self.quiet: set[int] = set()
        """Which commands of the tree only read and run git."""
        self.written: list[str] = []
        self.beyond: list[str] = []
        self.scope = Scope()
        self._depth = 0
        self._moves = 0
        """So often it went to another folder."""

    def command(self, command: str) -> Script:
        if len(command.encode(errors="surrogatepass")) > MAX_BYTES:
            raise Unknown("it is longer than 4 KB")
        unseen = known.INVISIBLE.search(command) or known.BLANK.search(command)
        if unseen or any(c.isspace() and c not in " \t\n" for c in command):
            raise Unknown("it holds control or invisible characters")
        if re.search(r"[ \t]{40}|\n\s*\n\s*\n\s*\n\s*\n\s*\n\s*\n", command):
            raise Unknown("a long gap could hide a part of it")
        script = parse(command)
        self._script(script)
        return script

    def add(
        self,
        kind: Kind,
        argv: tuple[str, ...],
        reason: str = "",
        *,
        whole: bool = False,
        folder: str | None = None,
    ) -> None:
        self.parts.append(Part(kind, argv, whole, reason, folder))
        if len(self.parts) > MAX_COMMANDS:
            raise Unknown(f"it holds more than {MAX_COMMANDS} commands")

    @property
    def programs(self) -> list[str]:
        return self.looks.programs

    @property
    def outside(self) -> list[str]:
        return self.looks.outside

    @property
    def inside(self) -> list[str]:
        return self.looks.inside

    def works_in(self, folder: str) -> None:
        """git reads in this folder."""
        self.looks.repositories.append(folder)

    # the tree

    def _script(self, script: Script) -> None:
        """In a row of ``&&`` alone each command may count on the ``cd`` before it; behind the row, where not all of it
        need have run, it may not."""
        moves, either = self._moves, False
        for pipeline in script:
            if pipeline.background:
                raise Unknown("it leaves a program running in the background")
            either = pipeline.after == "||" or (either and pipeline.after == "&&")
            if pipeline.after != "&&" and self._moves != moves:
                self.scope.cwd, moves = None, self._moves
            before = self._moves
            self._pipeline(pipeline)
            if self._moves != before and (either or pipeline.words):
                self.scope.cwd = None
        if self._moves != moves and script[-1].after:
            self.scope.cwd = None

    def _pipeline(self, pipeline: Pipeline) -> None:
        if any(not word.endswith("0") for word in pipeline.words):
            raise Unknown("a reserved word stands behind a pipe")
        for command in pipeline.commands:
            if isinstance(command, Simple):
                self._simple(command, alone=len(pipeline.commands) == 1)
            else:
                self._group(command)

    def _group(self, group: Group) -> None:
        if group.kind == "test" and _tests_plainly(group.words):
            for word in group.words:
                self._inner(word)
            self._redirects(group.redirects)
            self.add("reads", ())
            return
        if group.kind not in _GROUPS or (group.kind == "for" and not _NAME.fullmatch(group.name)):
            raise Unknown("it holds a construct that is not judged (a function, a test, a case or arithmetic)")
        self._deeper()
        for word in group.words:
            self._piece(word)
        self._redirects(group.redirects)
        before, moves = self.scope.cwd, self._moves
        for body in group.bodies:
            self._script(body)
            if self._moves == moves:
                continue
            if group.kind in ("loop", "for"):
                raise Unknown("it goes to another folder again and again")
            if group.kind != "(":
                self.scope.cwd = None
        if group.kind == "(":
            self.scope.cwd, self._moves = before, moves
        self._depth -= 1

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unknown(f"it is nested deeper than {MAX_DEPTH} levels")

    def _redirects(self, redirects: list[Redirect]) -> bool:
        """Whether one of them writes into a file."""
        wrote = False
        for redirect in redirects:
            if not (redirect.source == "" or redirect.source.isdigit()):
                raise Unknown("a redirection sets a variable")
            if redirect.operator in ("<<", "<<-", "<<<"):
                self._inner(redirect.target)
                continue
            target = self._piece(redirect.target)
            duplicate = redirect.operator in (">&", "<&") and re.fullmatch(r"\d-?|-", target.text)
            if not target.fixed:
                raise Unknown("which file a redirection names is known only when it runs")
            if duplicate or target.text == "/dev/null":
                continue
            if redirect.operator in ("<", "<&"):
                if target.text.startswith("/dev/") and target.text not in _DEVICES:
                    raise Unknown(f"a redirection opens {target.text}")
                self.read(target)
            else:
                wrote = True
                self.add(*self.written_to(target, "a redirection"))
        return wrote

    # words

    def _inner(self, word: Word) -> None:
        """What stands in a word: expansions that only read, substitutions that only read."""
        for part in word:
            if isinstance(part, Var):
                if part.operator not in _VALUES or (not part.name and part.operator == ""):
                    raise Unknown("it holds an expansion that sets or evaluates something")
                self._inner(part.operand)
            elif isinstance(part, Sub):
                if part.kind == ">(":
                    raise Unknown("it feeds a program through >(…)")
                self._deeper()
                before = self.scope.cwd, self._moves
                self._script(part.script)
                self.scope.cwd, self._moves = before
                self._depth -= 1

    def _piece(self, word: Word) -> Piece:
        self._inner(word)
        bare = "".join(p.text for p in word if isinstance(p, Lit) and not p.quoted)
        if all(isinstance(p, Lit) for p in word) and not ("{" in bare and ("," in bare or ".." in bare)):
            if bare.startswith("~") and not (isinstance(word[0], Lit) and re.match(r"~(/|$)", word[0].text)):
                raise Unknown("it names the home folder of somebody")
            if re.search(r"[=:]~", bare):
                raise Unknown("it names a home folder within a word")
            text = "".join(p.text for p in word if isinstance(p, Lit))
            found = arguments([word], self.scope)
            if len(found) != 1:
                raise Unknown("a word that is several")
            if "\0" in found[0].text:
                raise Unknown("it holds a character that no argument can hold")
            pattern = bare != "[" and any(c in "*?[" for c in bare)
            up = pattern and bool(re.search(r"(^|/)\.*[*?[]*\.+[*?[]", text))
            return Piece(found[0].text, not pattern, pattern and (not text or text[0] in "*?[-"), up)
        first = word[0]
        if len(word) == 1 and isinstance(first, Sub) and first.kind == "<(":
            return Piece(_PRINTED, False)
        safe = isinstance(first, Lit) and first.text[:1] not in ("", "-", "{", "*", "?", "[")
        one = all(p.quoted or isinstance(p, Lit) for p in word) and "{" not in bare
        lead = first.text if isinstance(first, Lit) else ""
        return Piece(lead, False, not (safe and one), True)

    # one command

    def _simple(self, command: Simple, *, alone: bool) -> None:
        pieces = [self._piece(word) for word in command.words]
        wrote = self._redirects(command.redirects)
        argv = tuple(p.text for p in _leading(pieces))
        if command.assignments and (pieces or not self._sets(command)):
            self.add("unknown", (), "it sets variables, which can change what programs do")
            return
        if not pieces:
            if command.redirects or command.assignments:
                self.add("reads", ())
            return
        whole = len(argv) == len(pieces) and not wrote
        folder = self.scope.cwd
        self.looks = Looks()
        try:
            kind, reason = self.program(pieces, alone=alone)
        except Unknown as odd:
            kind, reason = "unknown", str(odd)
            if argv[:1] in _MOVE:
                self.scope.cwd = None
        (self.reading if kind == "reads" else self.acting).add(self.looks)
        if kind == "reads" and self.looks.repositories:
            self.quiet.add(id(command))
        self.looks = self.reading
        self.add(kind, argv, reason, whole=whole, folder=folder)

    def _sets(self, command: Simple) -> bool:
        """Only variables in small letters, each of them one text."""
        for name, words in command.assignments:
            if not _NAME.fullmatch(name) or len(words) > 1:
                return False
            for word in words:
                self._inner(word)
        return True

    def program(self, pieces: list[Piece], *, alone: bool = False) -> tuple[Kind, str]:
        """What this program does with these arguments.

        Raises:
            Unknown: it, or one of its arguments, is not in the tables.
        """
        head = pieces[0]
        if not head.fixed:
            raise Unknown("which program it runs is known only when it runs")
        self.programs.append(head.text)
        return self._judge(self, head.text, pieces[1:], alone=alone)

    # files

    def read(self, piece: Piece) -> None:
        """A file, perhaps, that is read."""
        text = piece.text
        if text.startswith("-"):
            found = _FLAG_WITH_PATH.search(text)
            if not found:
                return
            text = found[1]
        if piece.hidden or not text:
            self.outside.append("?")
            return
        path = self.scope.path(text)
        if path is None:
            self.outside.append("?")
        elif not path.startswith(("/", "../")) and path != "..":
            self.inside.append(path)
        elif path not in _DEVICES and path != _PRINTED:
            self.outside.append(_shown(path))

    def written_to(self, piece: Piece, who: str) -> tuple[Kind, tuple[str, ...], str]:
        """A file that is written, made or removed; what to add for it."""
        path = self.scope.path(piece.text) if piece.text else None
        if piece.hidden or not piece.text:
            return "unknown", (), f"{who} changes a file that is known only when it runs"
        if path is None:
            return "beyond", (), f"{who} changes a file, and where is not known"
        shown = _shown(path)
        if path.startswith(("/", "../")) or path == "..":
            self.beyond.append(shown)
            return "beyond", (), f"{who} changes {shown}, outside the working folder"
        if any(map(known.is_git, path.split("/"))):
            return "beyond", (), f"{who} changes {shown}, from which git runs programs"
        self.written.append(path)
        return "writes", (), f"{who} changes {shown}"

    def go(self, piece: Piece | None, *, alone: bool) -> None:
        """``cd``."""
        if piece is None or not piece.fixed or piece.text in ("", "-") or piece.text.startswith("-"):
            raise Unknown("where it goes is known only when it runs")
        path = self.scope.path(piece.text)
        self.read(piece)
        if alone:
            self._moves += 1
            self.scope.cwd = path


_UNARY = lazy(r"-[abcdefghkLOGNprsStuwxzn]")


def _tests_plainly(words: list[Word]) -> bool:
    """``[[ … ]]`` that asks for files or compares texts: no arithmetic, no names of variables, no patterns to match."""
    i = 0
    while i < len(words):
        text = _bare(words[i])
        if text == "!":
            i += 1
        elif _UNARY.fullmatch(text):
            i += 2
        elif i + 1 < len(words) and _bare(words[i + 1]) in ("=", "==", "!="):
            i += 3
        else:
            return False
    return i == len(words) and bool(words)


def _bare(word: Word) -> str:
    return "".join(p.text for p in word if isinstance(p, Lit)) if all(isinstance(p, Lit) for p in word) else ""


def _shown(path: str) -> str:
    return posixpath.join("~", path[len(HOME) + 1 :]) if path.startswith(HOME) else path


def _leading(pieces: list[Piece]) -> list[Piece]:
    found = []
    for piece in pieces:
        if not piece.fixed:
            break
        found.append(piece)
    return found
