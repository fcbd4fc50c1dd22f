"""The user's own rules: which calls are allowed, asked about or denied.

A rule is one line, ``TOOL`` or ``TOOL: PATTERN``. The pattern of ``shell`` is the beginning of a command, that of a
file tool a path or a pattern of paths, that of a web tool a host. Rules are read from ``[policy]`` in the user's
``config.toml`` and from nowhere else; deny beats ask beats allow, whatever source they are from.
"""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from orkas.infra.errors import UsageError
from orkas.infra.home import home

if TYPE_CHECKING:
    from orkas.harness.commands.danger import Started

__all__ = ["LEVELS", "Level", "Rule", "Rules", "host_of", "is_device", "paths_of"]

Level: TypeAlias = Literal["allow", "ask", "deny"]
LEVELS: tuple[Level, ...] = ("allow", "ask", "deny")
_TOOL = re.compile(r"[A-Za-z_][\w.-]*|\*")
WEB = frozenset({"web_fetch"})
_PATH_NAMES = ("path", "paths", "file", "files", "source", "target", "destination", "from", "to")


class Rule(msgspec.Struct, frozen=True):
    level: Level
    tool: str
    """A name, or ``*`` for every tool."""
    pattern: str = ""
    """Empty: every call of the tool."""

    @classmethod
    def read(cls, level: Level, text: object) -> Rule:
        """A rule as it stands in the configuration.

        Raises:
            UsageError: it is none, or one that could match nothing.
        """
        if not isinstance(text, str) or not text.isprintable():
            raise _no_rule(text, "it must be text of one line")
        tool, colon, pattern = (part.strip() for part in text.partition(":"))
        if not _TOOL.fullmatch(tool) or (colon and not pattern):
            raise _no_rule(text, "it has the form \"TOOL\" or \"TOOL: PATTERN\"")
        rule = cls(level, tool, pattern)
        if pattern:
            rule._check(text)
        return rule

    def _check(self, text: str) -> None:
        if self.tool == "*":
            raise _no_rule(text, "a pattern needs the name of a tool")
        if self.tool == "shell":
            try:
                words = shlex.split(self.pattern)
            except ValueError:
                words = []
            if not words:
                raise _no_rule(text, "its quotes do not match")
        elif self.tool in WEB and not _host_pattern(self.pattern):
            raise _no_rule(text, "its pattern must be a host, such as docs.python.org or *.python.org")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a pattern of ``shell``."""
        return tuple(shlex.split(self.pattern))

    def __str__(self) -> str:
        return f"{self.tool}: {self.pattern}" if self.pattern else self.tool


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _no_rule(text: object, why: str) -> UsageError:
    return UsageError(f"{text!r} is no rule of [policy]: {why}", hint=f"correct it in {home() / 'config.toml'}")


class Rules:
    """All rules in force, from all sources."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = list(rules)

    @classmethod
    def load(cls) -> Rules:
        """The rules of the user's configuration.

        Raises:
            UsageError: the file cannot be read, or one of its rules cannot be used: none is left out in silence.
        """
        if not (home() / "config.toml").exists():
            return cls()
        from orkas.infra import config

        table = config.content().get("policy", {})
        if not isinstance(table, dict) or set(table) - set(LEVELS):
            raise UsageError(
                "[policy] in config.toml can hold allow, ask and deny", hint="each is a list of rules"
            )
        found = []
        for level in LEVELS:
            given = table.get(level, [])
            if not isinstance(given, list):
                raise UsageError(f"{level} in [policy] must be a list of rules", hint='such as ["shell: git status"]')
            found += [Rule.read(level, text) for text in given]
        return cls(found)

    def __add__(self, other: Rules) -> Rules:
        return Rules([*self._rules, *other._rules])

    def __iter__(self) -> Any:
        return iter(self._rules)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def strange(self, tools: Iterable[str]) -> list[str]:
        """A sentence for each rule that names a tool that is none of these: it is in force, and perhaps never met."""
        known = sorted(set(tools))
        names = dict.fromkeys(rule.tool for rule in self._rules if rule.tool != "*" and rule.tool not in known)
        said = "A rule of [policy] names the tool"
        return [f"{said} {name!r}, which there is not{_near(name, known)}." for name in names]

    def names(self, tool: str) -> bool:
        """Whether a rule allows some hosts for this web tool: then the others are asked about."""
        return tool in WEB and any(r.level == "allow" and r.tool == tool for r in self._rules)

    def judge(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        cwd: Path,
        paths: Sequence[str] | None = None,
        *,
        doubt: bool = True,
    ) -> Rule | None:
        """The rule that decides: a denying one before one that asks before one that allows. None: no rule speaks.

        ``paths``: the files that the call names; None: as its arguments say. ``doubt``: what tightens is met also by a
        command of which it cannot be told whether it starts what the rule means.
        """
        found: Rule | None = None
        about = _About(tool, arguments, cwd, paths_of(arguments) if paths is None else paths, doubt=doubt)
        for rule in self._rules:
            if rule.tool not in ("*", tool) or (found and LEVELS.index(rule.level) <= LEVELS.index(found.level)):
                continue
            if about.met(rule):
                found = rule
        return found


class _About:
    """One call, taken apart as far as the rules need it."""

    def __init__(
        self, tool: str, arguments: Mapping[str, Any], cwd: Path, paths: Sequence[str], *, doubt: bool
    ) -> None:
        self.doubt = doubt
        self.tool = tool
        self.arguments = arguments
        self.cwd = cwd
        self.paths = paths

    def met(self, rule: Rule) -> bool:
        if not rule.pattern:
            return True
        if self.tool == "shell":
            command = self.arguments.get("command")
            return isinstance(command, str) and _command_met(rule, command, doubt=self.doubt)
        if self.tool in WEB:
            return _host_met(rule, host_of(self.arguments.get("url")))
        paths = self.paths
        if rule.level == "allow":
            return bool(paths) and all(_path_met(rule.pattern, path, self.cwd, loose=False) for path in paths)
        return any(_path_met(rule.pattern, path, self.cwd, loose=True) for path in paths)


# commands


def _command_met(rule: Rule, command: str, *, doubt: bool) -> bool:
    words = rule.words
    if rule.level == "allow":
        return _all_allowed(words, command)
    from orkas.harness.commands.danger import judged

    line = judged(command)
    if any(_is_told(words, one.argv) for one in line.commands):
        return True
    return doubt and (not line.whole or any(_may_be_told(words, one) for one in line.commands))


def _is_told(words: Sequence[str], argv: Sequence[str]) -> bool:
    """The program by its name, however it is spelled, and the words behind it in this order, others between them."""
    return bool(argv) and _program(argv[0]) == _program(words[0]) and _in_order(words[1:], argv[1:])


def _program(name: str) -> str:
    return re.sub(r"\.(exe|com|cmd|bat)$", "", posixpath.basename(name.replace("\\", "/")).casefold())


def _in_order(words: Iterable[str], argv: Iterable[str]) -> bool:
    rest = iter(argv)
    return all(any(word == one for one in rest) for word in words)


def _may_be_told(words: Sequence[str], one: Started) -> bool:
    """The program with a first word that only the running shell knows; or one that nobody knows, with the words of the
    rule among its arguments as if it were to start them."""
    name = _program(one.argv[0]) if one.argv else ""
    if name == _program(words[0]):
        first = next((i for i, word in enumerate(one.argv) if i and not _is_option(one.argv, i)), None)
        return len(words) > 1 and first is not None and not one.sure[first]
    if _is_known(name) or (re.match(r"[^/].*/", one.argv[0]) if one.argv else True):
        return False
    told = [part.strip("\"'`;&|()$ ") for part in " ".join(one.argv[1:]).split()]
    starts = [told[i:] for i, part in enumerate(told) if _program(part) == _program(words[0])]
    return any(_in_order(words[1:], behind[1:]) for behind in starts)


def _is_option(argv: Sequence[str], at: int) -> bool:
    """An option, or the folder or setting that stands behind one of git's."""
    return argv[at].startswith("-") or argv[at - 1] in ("-C", "-c")


def _is_known(name: str) -> bool:
    """A program of which it is known what it starts of what it is given."""
    from orkas.harness.commands import known, programs, reading, runners

    if name in runners.START_OTHERS:
        return False
    return (
        name in runners.READERS
        or name in reading.KNOWN
        or name in reading.NETWORK
        or name in programs.HAVE_RULES
        or bool(known.INTERPRETERS.match(name))
    )


def _all_allowed(words: tuple[str, ...], command: str) -> bool:
    """Each part of the command is this one or only reads; at least one is it."""
    from orkas.harness.commands.effects import effects_of

    effects = effects_of(command)
    meant = [p for p in effects.parts if p.kind != "reads"]
    return bool(meant) and all(_is_meant(words, p.argv) for p in meant if p.whole) and all(p.whole for p in meant)


def _is_meant(words: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    """``npm test`` means ``npm test --silent`` too. Of a program that runs others, or whose harmless uses are known,
    only these very words are meant: ``find`` does not mean ``find -exec``. What puts another program, configuration or
    folder in its place is not meant either."""
    if argv == words:
        return True
    if argv[: len(words)] != words or _needs_all(words):
        return False
    from orkas.harness.policy.replacing import replaces

    return not replaces(words, argv)


def _needs_all(words: tuple[str, ...]) -> bool:
    from orkas.harness.commands import known, reading, runners
    from orkas.harness.commands.git_reading import ROWS
    from orkas.harness.policy.replacing import behind_runner

    name = posixpath.basename(words[0]).casefold()
    if name == "git":
        return len(words) < 2 or words[1].startswith("-") or words[1] in ROWS
    if name in runners.RUNNERS and (behind := behind_runner(words)):
        return behind >= len(words) or _needs_all(words[behind:])
    return (
        name in known.SHELLS
        or name in runners.WRAPPERS
        or name in runners.START_OTHERS
        or name in reading.KNOWN
        or (bool(known.INTERPRETERS.match(name) or name == "java") and _names_no_script(words))
        or name in known.PRIVILEGE
    )


def _names_no_script(words: tuple[str, ...]) -> bool:
    return words[-1] == "-m" or all(word.startswith("-") for word in words[1:])


# paths


def paths_of(arguments: Mapping[str, Any]) -> list[str]:
    """What in the arguments names files."""
    found: list[str] = []
    for name in _PATH_NAMES:
        value = arguments.get(name)
        values = value if isinstance(value, list) else [value]
        found += [one for one in values if isinstance(one, str)]
    return found


def is_device(path: str) -> bool:
    """A name that is no path in a folder on Windows: a device, another machine, a place relative to a drive."""
    text = path.replace("/", "\\")
    if text.startswith(("\\\\", "\\??\\")) and not path.startswith("/"):
        return True
    drive = re.match(r"[A-Za-z]:(?!\\)", text)
    stem = re.split(r"[.:]", text.rpartition("\\")[2])[0].strip().casefold()
    return bool(drive) or (os.name == "nt" and re.fullmatch(r"con|prn|aux|nul|(com|lpt)\d", stem) is not None)


def _path_met(pattern: str, path: str, cwd: Path, *, loose: bool) -> bool:
    """``loose``: met by the name given or the file behind it, in any case of letters; else by the file alone."""
    real = os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH111, PTH118 - as it is written
    names = [real]
    if loose:
        names.append(os.path.normpath(os.path.join(cwd, os.path.expanduser(path))))  # noqa: PTH111, PTH118
    wanted = os.path.expandvars(pattern)
    for name in names:
        if _one_met(wanted, name, str(cwd), loose=loose) or _one_met(wanted, name, os.path.realpath(cwd), loose=loose):
            return True
    return False


def _one_met(pattern: str, name: str, cwd: str, *, loose: bool) -> bool:
    if pattern.startswith(("~", "/")):
        base = os.path.normpath(os.path.expanduser(pattern))  # noqa: PTH111
        if not any(c in pattern for c in "*?["):
            bases = {base, os.path.realpath(base)} if loose else {os.path.realpath(base)}
            return any(_below(name, one, loose=loose) for one in bases)
        root = "/"
        pattern = base
    else:
        root = cwd
        if not _below(name, cwd, loose=False) or name == cwd:
            return False
    from pathspec import GitIgnoreSpec

    relative = os.path.relpath(name, root)

    if loose:
        relative, pattern = relative.casefold(), pattern.casefold()
    return GitIgnoreSpec.from_lines([pattern.removeprefix("./")]).match_file(relative)


def _below(name: str, folder: str, *, loose: bool) -> bool:
    """By parts, not by letters: ``/srv/app`` does not hold ``/srv/app-secrets``."""
    parts, above = Path(name).parts, Path(folder).parts
    if loose:
        parts, above = tuple(p.casefold() for p in parts), tuple(p.casefold() for p in above)
    return parts[: len(above)] == above


# hosts


def host_of(url: object) -> str:
    """The host of a web address as the tool would reach it; empty when it has none that can be compared."""
    from orkas.infra import guard  # its parser is the only one: what is judged is what is reached

    return guard.host_of(url) if isinstance(url, str) else ""


@lru_cache(maxsize=256)
def _host_pattern(pattern: str) -> str:
    """A pattern of hosts as hosts are compared; empty where it is none."""
    from orkas.infra import guard

    name = pattern.removeprefix("*.")
    host = guard.host_named(name)
    if pattern.startswith("*."):
        return f"*.{host}" if host and not host.replace(".", "").isdecimal() and ":" not in host else ""
    return host


def _host_met(rule: Rule, host: str) -> bool:
    """Label by label. An address without a host is met by whatever tightens."""
    if not host:
        return rule.level != "allow"
    pattern = _host_pattern(rule.pattern)
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern
