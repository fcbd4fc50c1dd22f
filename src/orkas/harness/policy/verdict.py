"""What the policy says of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from orkas.harness.policy.grants import Grant

__all__ = ["Decision", "Verdict"]

Decision: TypeAlias = Literal["allow", "ask", "deny"]


class Verdict(msgspec.Struct, frozen=True):
    verdict: Decision
    reasons: list[str]
    """Plain clauses, empty when allowed without remark."""
    grant: Grant | None = None
    """What a yes for longer than once would store; None: it can be said once only, or nothing is asked."""
