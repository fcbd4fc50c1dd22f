"""What a command line does, told from its tree alone: it reads, it writes in the working folder, it reaches beyond.

The opposite of the block list: here only what is known is trusted.
"""

from __future__ import annotations

import functools

import msgspec

from orkas.harness.commands.reading import judge
from orkas.harness.commands.survey import MAX_BYTES, MAX_COMMANDS, MAX_DEPTH, RANK, Kind, Part, Piece, Survey, Unknown
from orkas.harness.commands.syntax import NotUnderstood

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
    """The same command line with each argument quoted, so that no shell can read it in another way; None where it has
    constructs that cannot be written so."""


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
    text = None
    if script is not None and kind == "reads":
        from orkas.harness.commands.canonical import quoted

        text = quoted(script)
    return Effects(
        kind,
        tuple(survey.parts),
        reasons,
        _once(survey.programs),
        _once(survey.outside),
        _once(survey.inside),
        _once(survey.written),
        _once(survey.beyond),
        text,
    )


def _once(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))
