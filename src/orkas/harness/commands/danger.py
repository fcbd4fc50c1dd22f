"""Which commands the block list denies, which ones only a person can judge, and what a command line starts and changes
as far as its text tells.

A finding is ``deny`` (the block list) or ``ask`` (what the command does cannot be told from its text, or reaches beyond
the working folder).
"""

from __future__ import annotations

import functools
import posixpath

import msgspec

from orkas.harness.commands.judge import Finding, Judge
from orkas.harness.commands.programs import judge_program
from orkas.harness.commands.words import Arg, Scope, Stdin

__all__ = ["Judged", "Started", "judged"]


class Started(msgspec.Struct, frozen=True):
    """One command that a command line starts, perhaps."""

    argv: tuple[str, ...]
    sure: tuple[bool, ...]
    """By argument: False where a part of it is known only when it runs."""
    cwd: str | None
    """Where it is started, relative to the working folder or absolute; None: not known."""
    fed: str
    """The here-document or the text that it reads; empty where there is none."""


class Judged(msgspec.Struct, frozen=True):
    """What the text of a command line tells."""

    findings: tuple[Finding, ...]
    """What the block list finds; nothing: it lets it pass."""
    commands: tuple[Started, ...]
    """Every command that it starts, through wrappers, shells and substitutions, rather too many than too few."""
    written: tuple[str, ...]
    """Files that it writes to, as they are named from the working folder; patterns as they are."""

    @property
    def whole(self) -> bool:
        """Whether ``commands`` is all that it starts."""
        return all(finding.seen for finding in self.findings)


class _Listing(Judge):
    """Also remembers what is started and what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: dict[Started, None] = {}
        self.written: dict[str, None] = {}

    def program(self, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
        judge_program(self, name, rest, scope, stdin)

    def run(self, args: list[Arg], scope: Scope, stdin: Stdin | None = None) -> None:
        fed = (stdin.text(scope) or "") if stdin and stdin.is_document else ""
        self.commands[Started(tuple(a.text for a in args), tuple(a.sure for a in args), scope.cwd, fed)] = None
        super().run(args, scope, stdin)

    def writes(self, target: Arg, scope: Scope, *, changes: bool = False) -> None:
        if target.text and scope.path(target.text) is not None:
            self.written[posixpath.join(scope.cwd or "", target.text)] = None
        super().writes(target, scope, changes=changes)


@functools.lru_cache(maxsize=64)
def judged(command: str) -> Judged:
    """Judge a command line by its text alone."""
    listing = _Listing()
    listing.command(command)
    return Judged(tuple(listing.findings), tuple(listing.commands), tuple(listing.written))
