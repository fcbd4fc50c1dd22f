"""When the history is compacted and how the room is shared out: a named policy, as figures."""

from __future__ import annotations

from typing import Protocol

import msgspec

from orkas.infra.errors import UsageError

__all__ = ["POLICIES", "Budgets", "ContextPolicy", "Threshold", "least_saving", "policy"]


class Budgets(msgspec.Struct, frozen=True):
    """Sizes in tokens."""

    trigger: int
    """The messages may weigh this much before they are compacted, and at most this much afterwards."""
    tail: int
    """For the newest messages, which stay as they are."""
    request: int
    """For the words of the running request; what is longer is quoted in part when there is no other way."""
    summary: int
    """For the prose that stands for what is replaced."""
    ledger: int
    """For the exact facts beside it."""

    def harder(self, target: int) -> Budgets:
        """The same shares of less."""
        share = min(1.0, target / max(self.trigger, 1))
        return Budgets(*(int(getattr(self, name) * share) for name in self.__struct_fields__))


class ContextPolicy(Protocol):
    name: str

    def budgets(self, usable: int, compact_at: float) -> Budgets:
        """For a window with so much room for messages."""
        ...


class Threshold:
    """One coarse summary once the messages fill a share of the usable window; until then history is left alone, so
    that the vendor's prompt cache keeps its prefix. The shares leave about a fifth of the trigger free afterwards."""

    name = "threshold"

    def budgets(self, usable: int, compact_at: float) -> Budgets:
        trigger = max(1, int(usable * compact_at))
        return Budgets(
            trigger=trigger,
            tail=min(20_000, int(trigger * 0.3)),
            request=int(trigger * 0.5),
            summary=min(4_000, max(int(trigger * 0.15), min(400, int(trigger * 0.3)))),
            ledger=max(int(trigger * 0.1), min(600, int(trigger * 0.2))),
        )


POLICIES: dict[str, type[ContextPolicy]] = {Threshold.name: Threshold}


def policy(name: str) -> ContextPolicy:
    """The policy of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in POLICIES:
        raise UsageError(f"there is no context policy {name!r}", hint=f"there is {', '.join(POLICIES)}")
    return POLICIES[name]()


def least_saving(tokens: int) -> int:
    """What a compaction of so many tokens must save to be worth its price, and how much must be new before another
    attempt follows one that failed."""
    return max(64, min(6_000, tokens // 10))
