"""What a command line does, told from its tree alone: it reads, it writes in the working folder, it reaches beyond.

The opposite of the block list: here only what is known is trusted.
"""

from __future__ import annotations

import functools

import msgspec

from orkas.harness.commands.reading import judge
from orkas.harness.commands.survey import (
    MAX_BYTES,
    MAX_COMMANDS,
    MAX_DEPTH,
    RANK,
    Kind,
    Looks,
    Part,
    Piece,
    Survey,
    Unknown,
)
from orkas.harness.commands.syntax import NotUnderstood, Script

__all__ = ["MAX_BYTES", "MAX_COMMANDS", "MAX_DEPTH", "Effects", "Kind", "Part", "Piece", "effects_of"]


class Effects(msgspec.Struct, frozen=True):
    kind: Kind
    """The worst of all parts."""
    parts: tuple[Part, ...]
    reasons: tuple[str, ...]
    programs: tuple[str, ...]
    """Every program that was judged, also those that another one starts. A part that reads starts nothing else."""
    outside: tuple[str, ...]
    """What may be files outside the working folder that it reads; ``?`` for one that only the running shell knows."""
    read: tuple[str, ...]
    """What may be files in it that it reads, by their names; patterns as they are."""
    written: tuple[str, ...]
    """Files of the working folder that it changes; patterns as they are."""
    beyond: tuple[str, ...]
    """Files outside the working folder that it changes."""
    text: str | None
    """The same command line with each argument quoted, so that no shell can read it in another way, and git quiet where
    it only reads beside what does more; None where it has constructs that cannot be written so."""
    reading: Looks
    """What is to be looked at for those of its parts alone that only read."""


@functools.lru_cache(maxsize=64)
def effects_of(command: str) -> Effects:
    """What this command line does."""
    survey = Survey(judge)
    try:
        script = survey.command(command)
    except (Unknown, NotUnderstood, RecursionError) as odd:
        reason = f"{odd}" if isinstance(odd, Unknown) else f"it could not be understood ({odd})"
        survey.parts.append(Part("unknown", (), False, reason))
        script = None
    kind: Kind = max((p.kind for p in survey.parts), key=RANK.__getitem__, default="reads")
    reasons = _once([p.reason for p in survey.parts if p.reason])
    looks = Looks()
    for one in (survey.reading, survey.acting, survey.looks):
        looks.add(one)
    return Effects(
        kind,
        tuple(survey.parts),
        reasons,
        _once(looks.programs),
        _once(looks.outside),
        _once(looks.inside),
        _once(survey.written),
        _once(survey.beyond),
        _written_again(script, survey, kind) if script is not None else None,
        survey.reading,
    )


_TAKE_ASSIGNMENTS = frozenset({"alias", "declare", "export", "local", "readonly", "typeset"})
"""Read otherwise by the shell when they are in quotes."""


def _written_again(script: Script, survey: Survey, kind: Kind) -> str | None:
    """The text in quotes, where all that does more than read is told to the last argument, or nothing does."""
    from orkas.harness.commands.canonical import in_quotes, quoted
    from orkas.harness.commands.git_reading import QUIET

    if kind == "reads":
        return quoted(script)
    acting = [part for part in survey.parts if part.kind != "reads"]
    if not all(part.whole and part.argv[0] not in _TAKE_ASSIGNMENTS for part in acting):
        return None
    quiet = "".join(f"{name}={in_quotes(value)} " for name, value in QUIET.items())
    return quoted(script, dict.fromkeys(survey.quiet, quiet))


def _once(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))
