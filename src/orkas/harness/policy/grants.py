"""What a person has approved, and for how long.

A grant holds for one tool, one canonical form of its arguments, one working folder and one sandbox: another file,
another folder or a weaker sandbox is another question. ``session`` grants live in memory; ``always`` grants in
``grants.jsonl`` of the user's own data folder, never in the working folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from orkas.harness.policy.question import visible
from orkas.harness.policy.rules import WEB, host_of
from orkas.infra import files
from orkas.infra.home import home
from orkas.infra.messages import now

__all__ = ["Grant", "Grants", "Scope", "fingerprint", "grant_for"]

Scope: TypeAlias = Literal["once", "session", "always"]


class Grant(msgspec.Struct, frozen=True):
    key: str
    """Over tool, canonical arguments, folder and sandbox."""
    rule: str
    """The same for people: what is shown before it is stored."""
    tool: str
    folder: str
    sandbox: str
    ts: str = ""
    """When it was given."""

    @property
    def shown(self) -> str:
        """The rule with the place where it holds, every character of it visible."""
        return visible(f"{self.rule} (in {self.folder})")


def fingerprint(*parts: object) -> str:
    """A name for exactly these values."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def grant_for(
    tool: str, arguments: Mapping[str, Any], cwd: Path, sandbox: str, paths: Sequence[str] = ()
) -> Grant:
    """The grant that would answer this call and its like: the same command, the same host, the same ``paths``."""
    canonical: Any = dict(arguments)
    said = _plain(canonical)
    if tool == "shell":
        canonical.pop("timeout_s", None)
        said = str(canonical.get("command", ""))
    elif tool in WEB and (host := host_of(canonical.get("url"))):
        canonical, said = host, host
    elif paths:
        canonical, said = sorted(str((cwd / path).resolve()) for path in paths), ", ".join(paths)
    return Grant(fingerprint(tool, canonical, str(cwd), sandbox), f"{tool}: {said}", tool, str(cwd), sandbox)


def _plain(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


class Grants:
    """All grants in force for one agent."""

    def __init__(self) -> None:
        self._session: set[str] = set()
        self._always: dict[str, Grant] | None = None

    def holds(self, grant: Grant) -> bool:
        return grant.key in self._session or grant.key in self._stored()

    def add(self, grant: Grant, scope: Scope) -> None:
        """Keep a grant for as long as was said.

        Raises:
            StorageError: it could not be saved; it holds for this session.
        """
        if scope == "once":
            return
        self._session.add(grant.key)
        if scope == "always" and grant.key not in self._stored():
            grant = msgspec.structs.replace(grant, ts=now())
            files.append(path(), msgspec.json.encode(grant) + b"\n")
            self._stored()[grant.key] = grant

    def _stored(self) -> dict[str, Grant]:
        if self._always is None:
            self._always = {grant.key: grant for grant in stored()}
        return self._always


def path() -> Path:
    """Where ``always`` grants are kept; it need not exist."""
    return home() / "grants.jsonl"


def stored() -> list[Grant]:
    """The grants on disk, oldest first. A line that cannot be read grants nothing."""
    try:
        lines = path().read_bytes().splitlines()
    except OSError:
        return []
    found: list[Grant] = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=Grant))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return found


def revoke(number: int) -> Grant | None:
    """Take the n-th stored grant back, counted from 1; None when there is none of this number."""
    grants = stored()
    if not 1 <= number <= len(grants):
        return None
    gone = grants.pop(number - 1)
    left = [g for g in grants if g.key != gone.key]
    files.replace(path(), b"".join(msgspec.json.encode(g) + b"\n" for g in left))
    return gone
