"""Which commands the block list denies, and which ones only a person can judge.

A finding is ``deny`` (the block list) or ``ask`` (what the command does cannot be told from its text, or reaches beyond
the working folder).
"""

from __future__ import annotations

import functools

from orkas.harness.commands.judge import Judge, Level
from orkas.harness.commands.programs import judge_program
from orkas.harness.commands.words import Arg, Scope, Stdin

__all__ = ["findings_of", "started"]


class _BlockList(Judge):
    def program(self, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
        judge_program(self, name, rest, scope, stdin)


def findings_of(command: str) -> list[tuple[Level, str]]:
    """What the block list finds in a command, each as a clause; nothing: it lets it pass."""
    judge = _BlockList()
    judge.command(command)
    return judge.findings


class _Listing(_BlockList):
    """Also remembers what is started, and what might be."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, ...]] = []

    def run(self, args: list[Arg], scope: Scope, stdin: Stdin | None = None) -> None:
        self.seen.append(tuple(a.text for a in args))
        super().run(args, scope, stdin)


_UNSEEN = (
    "it could not be understood", "which program it runs is known", "a shell runs", "eval runs", "it is too large",
)  # fmt: skip


@functools.lru_cache(maxsize=64)
def started(command: str) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """Every command that this command line starts, through wrappers, shells and substitutions, with its arguments as
    far as the text tells them, rather too many than too few; and whether that is all, as far as the text tells."""
    listing = _Listing()
    listing.command(command)
    return tuple(listing.seen), not any(reason.startswith(_UNSEEN) for _, reason in listing.findings)
