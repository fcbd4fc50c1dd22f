"""How far a turn has come: the one bundle that the rooms around the loop share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from orkas.harness import pairing
from orkas.harness.retry import Retries
from orkas.harness.setup import Setup
from orkas.harness.spending import Spending
from orkas.infra.events import ToolCount
from orkas.infra.messages import AssistantMessage, StopReason, Text, Usage, new_id, now, user_message
from orkas.providers.base import CompletionParams

__all__ = ["Turn"]


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
        self.spending.heard(self.setup, reply)
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
