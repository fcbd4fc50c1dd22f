"""File patterns: globs of the model and the rules of ``.gitignore``, matched in linear time.

The rules come from strangers. ``pathspec`` turns them into regular expressions whose ``*`` and ``**`` try every split
of a name: exponential in their number, in one call that holds the interpreter. ``steady`` makes each of them commit
to the first place that fits, which is enough for wildcards: what follows can only stand further right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orkas.harness.commands.braces import expand_braces
from orkas.infra.errors import ToolFailed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["Glob", "Rules", "rules", "steady"]

_MAX_GLOB = 1_000
"""Characters; longer than any path a person writes a pattern for."""
_ATOM = r"(?:\\.|\[\^/\](?![*+])|\[(?!\^/\])\^?\]?(?:\\.|[^\]\\])*\]|[^][/\\()*+?^$|.])"
_STARS = re.compile(r"(?:\[\^/\]\*)+")
_CHUNK = re.compile(rf"\[\^/\]\*({_ATOM}+)(?=\[\^/\]\*)", re.DOTALL)
_LEADING, _INNER = "^(?:.+/)?", "(?:/.+)?/"


def steady(regex: str) -> str:
    """The expression of ``pathspec`` without the backtracking.

    It matches the same names, but for a class like ``[!a]``, which may take a slash in ``pathspec`` and in git may not.
    """
    regex = _STARS.sub("[^/]*", regex)
    regex = _CHUNK.sub(r"(?>[^/]*?\1)", regex)
    first, *rest = regex.split(_INNER)
    if first.startswith(_LEADING):
        first = _committed("^", "(?:[^/]+/)*", first.removeprefix(_LEADING), last=not rest)
    return first + "".join(
        _committed("", "(?:/[^/]+)*", "/" + part, last=i == len(rest) - 1) for i, part in enumerate(rest)
    )


def _committed(before: str, folders: str, part: str, *, last: bool) -> str:
    return f"{before}{folders}{part}" if last else f"{before}(?>{folders}?{part}(?=/))"


def rules(lines: list[str]) -> GitIgnoreSpec:
    """The lines of a ``.gitignore``; what is no pattern is left out, as git does."""
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error):
        spec = GitIgnoreSpec.from_lines([line for line in lines if _usable(line)])
    for pattern in spec.patterns:
        expression = pattern.regex
        if expression is not None and (safe := steady(expression.pattern)) != expression.pattern:
            pattern.regex = re.compile(safe)
    return spec


class Rules:
    """The lines of one ``.gitignore``, asked from above: nobody asks for what lies in an ignored folder.

    So each rule is held against a path alone and never against the folders above it, and the last that fits decides,
    as in git. (``pathspec`` weighs rules for folders otherwise, since it is asked for files alone.)
    """

    def __init__(self, lines: list[str]) -> None:
        self._rules = [
            (bool(p.include), re.compile(_exact(p.regex.pattern))) for p in reversed(rules(lines).patterns) if p.regex
        ]

    def opinion(self, name: str, *, is_folder: bool) -> bool | None:
        """Whether the path, relative to the folder of the file, is ignored; None: no rule fits."""
        path = f"{name}/" if is_folder else name
        return next((include for include, pattern in self._rules if pattern.search(path)), None)


_FOLDER, _EITHER = "(?P<ps_d>/)", "(?:(?P<ps_d>/)|$)"


def _exact(regex: str) -> str:
    """The expression of ``pathspec`` for the path itself and nothing below it."""
    if regex.endswith(_EITHER):
        return f"{regex.removesuffix(_EITHER)}/?$"
    if regex == _FOLDER:
        return "/$"
    if regex.endswith(_FOLDER):
        return f"{regex.removesuffix(_FOLDER)}/$"
    return f"{regex}." if regex.endswith("/") else regex  # "a/**" is all in the folder and not the folder


def _usable(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


class Glob:
    """A file pattern as people write it: ``*.py`` at any depth, ``src/**/*.ts``, ``*.{md,txt}``."""

    def __init__(self, pattern: str) -> None:
        """
        Raises:
            ToolFailed: it is too long, or no pattern.
        """
        if len(pattern) > _MAX_GLOB:
            raise ToolFailed(f"a file pattern can have at most {_MAX_GLOB:,} characters; use a shorter one")
        patterns = [p.removeprefix("./") for p in expand_braces(pattern.strip())]
        patterns = [("\\" + p if p[:1] in "!#" else p) for p in patterns]
        if not all(_usable(p) for p in patterns):
            raise ToolFailed(f"{pattern!r} is no file pattern; write it like *.py or src/**/*.ts")
        self._spec = rules(patterns)

    def matches(self, name: str) -> bool:
        return self._spec.match_file(name)
