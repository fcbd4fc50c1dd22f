"""What a turn stands on, wired by the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from orkas.harness.context.budget import Meter
from orkas.harness.policy import Policy
from orkas.harness.retry import MAX_RETRIES
from orkas.harness.sessions.inbox import Inbox
from orkas.harness.sessions.session import Session
from orkas.harness.statistics import Recorder
from orkas.harness.succession import Succession
from orkas.harness.tool import Tool, ToolContext
from orkas.providers.base import LLMProvider, ThinkingLevel, ToolDef

if TYPE_CHECKING:
    from orkas.harness.approvals import Approvals
    from orkas.harness.output import Output

__all__ = ["MAX_ROUNDS", "Setup"]

MAX_ROUNDS = 100
"""Model calls a turn may make by default."""


class Setup(msgspec.Struct, eq=False):
    """What a turn stands on, wired by the agent."""

    provider: LLMProvider
    model: str
    """The model id without the vendor."""
    session: Session
    tools: Mapping[str, Tool]
    """All that can be called, by name."""
    offered: Sequence[ToolDef]
    """What the model is told of them."""
    policy: Policy
    context: ToolContext
    meter: Meter
    """How full the window is. Lives as long as the agent."""
    inbox: Inbox
    """What the user sends while the turn runs."""
    recorder: Recorder
    succession: Succession = msgspec.field(default_factory=lambda: Succession([]))
    """Who is asked next where the provider does not answer."""
    approvals: Approvals | None = None
    """Where a person answers; None where nobody can."""
    output: Output | None = None
    """The form that the final answer must have."""
    told: Sequence[str] = ()
    """What the user has to know before the turn begins."""
    system: str = ""
    thinking: ThinkingLevel | None = None
    max_output: int | None = None
    max_rounds: int = MAX_ROUNDS
    max_retries: int = MAX_RETRIES
    max_cost: float | None = None
    """USD; the model's price is known where this is set."""

    @property
    def full_model(self) -> str:
        return f"{self.provider.id}/{self.model}"

    def seated(self) -> tuple[LLMProvider, str]:
        """Who is asked now, and the model's id there."""
        return self.provider, self.model
