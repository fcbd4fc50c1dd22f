"""What loading a session found, for programs and for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orkas.harness.pairing import Repaired
from orkas.harness.sessions.recovery import Recovered
from orkas.infra.messages import AssistantMessage, Message, ToolMessage

__all__ = ["Loaded", "open_at_tail", "warnings_of"]


class Loaded(msgspec.Struct, eq=False):
    """What loading found, as counts and physical line numbers."""

    damaged: list[int] = msgspec.field(default_factory=list)
    synthesized: int = 0
    dropped: int = 0
    reordered: int = 0
    renamed: int = 0
    duplicates: int = 0
    version: int = 1

    @classmethod
    def of(cls, found: Recovered, repaired: Repaired) -> Loaded:
        return cls(
            found.damaged, repaired.synthesized, repaired.dropped, repaired.reordered, repaired.renamed,
            found.duplicates, found.version,
        )  # fmt: skip


def open_at_tail(messages: Sequence[Message], stored: Sequence[Message]) -> list[Message]:
    """The results that repair made up for the newest group, if nothing was said after it."""
    known = {id(m) for m in stored}
    made: list[Message] = []
    for m in reversed(messages):
        if type(m) is AssistantMessage:
            break
        if type(m) is ToolMessage:
            if id(m) not in known:
                made.append(m)
        elif getattr(m, "origin", None) != "tool_image":
            return []
    return made[::-1]


def warnings_of(name: str, found: Recovered) -> list[str]:
    """What the user should know: a newer version, damage."""
    warnings = []
    if found.newer:
        warnings.append(
            f"session {name!r} was written by a newer release of Orkas: what this one does not know is kept, "
            "and its file is only added to"
        )
    bad = list(found.damaged)
    if found.torn:
        warnings.append(
            f"the last record of session {name!r} (line {bad.pop()}) was cut short and is left out; "
            f"it is set aside in '{name}.jsonl.damaged' with the next message"
        )
    if bad:
        shown = ", ".join(map(str, bad[:10])) + (f" and {len(bad) - 10} more" if len(bad) > 10 else "")
        lost = "what they held was left out" if found.lost > bool(found.torn) else "all messages were recovered"
        warnings.append(f"session {name!r} has damaged lines ({shown}): {lost}")
    answered = {m.tool_call_id for m in found.messages if type(m) is ToolMessage}
    warnings += [
        f"session {name!r} ended while a question was open: whether {question.get('tool')} may run. It was never "
        "started; the model may call it again"
        for question in found.questions.values()
        if question.get("call_id") not in answered
    ]
    return warnings
