"""What a turn stands on, and how far it has come: the one bundle that the rooms around the loop share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from orkas.harness import pairing
from orkas.harness.context.budget import Meter
from orkas.harness.context.compaction import Compactor
from orkas.harness.fallback import Succession
from orkas.harness.policy import Policy
from orkas.harness.retry import MAX_RETRIES, Retries
from orkas.harness.sessions.inbox import Inbox
from orkas.harness.sessions.session import Session
from orkas.harness.spending import Spending
from orkas.harness.statistics import Recorder
from orkas.harness.tool import Tool, ToolContext
from orkas.infra.events import ToolCount
from orkas.infra.messages import AssistantMessage, StopReason, Text, Usage, new_id, now, user_message
from orkas.providers.base import CompletionParams, LLMProvider, ThinkingLevel, ToolDef

if TYPE_CHECKING:
    from orkas.harness.approvals import Approvals
    from orkas.harness.output import Output

__all__ = ["MAX_ROUNDS", "Setup", "Turn"]

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
    compactor: Compactor
    """Lives as long as the agent: it remembers what it tried in vain."""
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


class Turn(msgspec.Struct, eq=False):
    """One request of the user and everything that follows from it, as it stands now. Used once."""

    setup: Setup
    seq: int = 0
    rounds: int = 0
    text: str = ""
    stop_reason: str = ""
    output: Any = None
    """The final answer as plain data, where it must have a form."""
    spoke: bool = False
    """The model has said something visible since the user spoke."""
    usage: Usage = msgspec.field(default_factory=Usage)
    tools: dict[str, ToolCount] = msgspec.field(default_factory=dict)
    retries: Retries = msgspec.field(default_factory=Retries)
    """The one budget for asking again, whoever asks."""
    spending: Spending = msgspec.field(default_factory=lambda: Spending(None))
    _paired: pairing.Check = msgspec.field(default_factory=pairing.Check)

    def __post_init__(self) -> None:
        self.retries.limit = self.setup.max_retries
        self.spending.limit = self.setup.max_cost

    def next_seq(self) -> int:
        """The number of the next event. Every event of the turn takes one."""
        seq = self.seq
        self.seq = seq + 1
        return seq

    def params(self, control: str = "", *, answer_only: bool = False, free: bool = False) -> CompletionParams:
        """The next request, for the history as it stands.

        ``control``: words of ours for this one request; they stand behind the history and are never stored.
        ``answer_only``: the model may not call tools; they stay in the request, so that the cached prefix holds.
        ``free``: the reply is for us and need not have the form that the user asked for.
        """
        setup = self.setup
        messages: Sequence[object] = setup.session.messages
        if not self._paired.holds(setup.session.messages):
            messages = pairing.repair(setup.session.messages).messages
        if control:
            messages = [*messages, user_message(control)]
        return CompletionParams(
            model=setup.model,
            messages=messages,  # type: ignore[arg-type]
            system=setup.system,
            tools=setup.offered,
            tool_choice="none" if answer_only else "auto",
            max_output=setup.max_output,
            window=setup.meter.window,
            thinking=setup.thinking,
            session_id=setup.session.id,
            output=setup.output.wire if setup.output is not None and not free else None,
            media=setup.session.media,
        )

    def own_words(self, text: str, reason: StopReason) -> AssistantMessage:
        """A message written by us in the model's place."""
        setup = self.setup
        return AssistantMessage(
            [Text(text=text)], setup.full_model, setup.provider.api, reason, id=new_id(), ts=now()
        )  # fmt: skip

    @property
    def small(self) -> bool:
        """Whether the model that is asked now is a small one."""
        return self.setup.provider.info(self.setup.model).small

    @property
    def spare(self) -> bool:
        """Whether somebody else could still give the reply that is asked for."""
        return not self.retries.spoken and self.setup.succession.spare

    def answered(self) -> None:
        """A reply came whole and is one: budgets begin anew."""
        self.retries.succeeded()
        self.setup.succession.answered()

    def heard(self, reply: AssistantMessage) -> None:
        """A reply came whole: its usage is counted, once, whoever asked for it."""
        self.setup.recorder.heard(reply)
        self.spending.heard(self, reply)
        if reply.usage is not None:
            self.usage = self.usage.plus(reply.usage)

    def paid(self, usd: float) -> None:
        """A tool has spent so much of the user's money."""
        self.spending.paid(usd)
        self.setup.recorder.paid(usd)
        self.usage = self.usage.plus(Usage(cost_usd=usd))

    def count(self, tool: str, *, is_error: bool) -> None:
        count = self.tools.get(tool)
        if count is None:
            count = self.tools[tool] = ToolCount()
        count.calls += 1
        count.errors += is_error
