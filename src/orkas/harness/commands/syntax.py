"""The tree of a shell command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Command", "Group", "Lit", "NotUnderstood", "Part", "Pipeline", "Redirect", "Script", "Simple", "Sub", "Var",
    "Word",
]  # fmt: skip


class NotUnderstood(Exception):
    """The text is no shell command that this grammar knows; the argument says what is odd."""


@dataclass(slots=True)
class Lit:
    text: str
    quoted: bool = False
    """Quoted characters are neither patterns nor braces nor a home folder."""


@dataclass(slots=True)
class Var:
    name: str
    """``IFS``, ``1``, ``@``; empty when the expansion is not a plain look-up."""
    quoted: bool = False
    operator: str = ""
    """What follows the name in ``${name…}`` up to the operand: ``:-``, ``%``; empty for the plain value."""
    operand: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class Sub:
    """A command substitution ``$(`` or a process substitution ``<(`` or ``>(``."""

    script: Script
    kind: str = "$("
    quoted: bool = False


Part: TypeAlias = Lit | Var | Sub
Word: TypeAlias = list[Part]


@dataclass(slots=True)
class Redirect:
    operator: str
    target: Word
    """The file, the text of a here-string, or the body of a here-document."""
    source: str = ""
    """What stands in front of the operator: a descriptor as ``2``, a variable as ``{x}``, mostly nothing."""


@dataclass(slots=True)
class Simple:
    assignments: list[tuple[str, list[Word]]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """A compound command. ``kind``: ``(``, ``{``, ``if``, ``loop``, ``for``, ``case``, ``test``, ``function``."""

    kind: str
    bodies: list[Script] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    name: str = ""
    redirects: list[Redirect] = field(default_factory=list)


Command: TypeAlias = Simple | Group


@dataclass(slots=True)
class Pipeline:
    commands: list[Command]
    background: bool = False
    after: str = ""
    """``&&`` or ``||`` when it stands behind one."""
    words: list[str] = field(default_factory=list)
    """The reserved words ``!`` and ``time`` in front of its commands, each with the number of its command."""


Script: TypeAlias = list[Pipeline]
