"""What the shape of a command line tells: who reads what is fed to it, what starts programs without end."""

from __future__ import annotations

import posixpath

from orkas.harness.commands import known
from orkas.harness.commands.syntax import Command, Group, Script, Simple, Sub, Var, Word

__all__ = ["plain", "reads_commands", "starts_without_end"]


def reads_commands(body: Script) -> bool:
    """A compound command that has a shell in it, which would run what is fed to the whole."""
    return any(
        isinstance(c, Simple) and posixpath.basename(plain(c.words[:1])).lower() in known.SHELLS and len(c.words) == 1
        for p in body
        for c in p.commands[:1]
    )


def starts_without_end(loop: Group) -> bool:
    """``while :; do … & done``, with nothing in it that waits."""
    condition, body = loop.bodies
    commands = [c for p in condition for c in p.commands]
    endless = len(commands) == 1 and _name(commands[0]) in (":", "true", "false")
    waits = any(_name(c) in ("sleep", "wait", "read") for p in body for c in p.commands)
    return endless and not waits and any(p.background for p in body)


def _name(command: Command) -> str:
    return plain(command.words[:1]) if isinstance(command, Simple) else ""


def plain(words: list[Word]) -> str:
    return "".join(p.text for w in words for p in w if not isinstance(p, Sub | Var))
