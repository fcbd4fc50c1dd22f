"""How full the window is: an estimate, held against what the vendor last reported."""

from __future__ import annotations

import msgspec

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage
from orkas.providers.base import CompletionParams, ModelInfo

__all__ = ["COMPACT_AT", "DEFAULT_WINDOW", "Load", "Meter"]

COMPACT_AT = 0.6
"""Share of the usable window at which older messages are replaced by a summary."""
DEFAULT_WINDOW = 128_000
"""Assumed where nobody told the window and no refusal has taught it."""


class Load(msgspec.Struct, frozen=True):
    """Sizes in tokens."""

    messages: int
    """The messages alone."""
    fixed: int
    """System prompt and tool schemas."""
    window: int
    max_output: int

    @property
    def usable(self) -> int:
        """What is left for messages. Not above 0: the fixed part alone does not fit."""
        return self.window - self.max_output - self.fixed


class Meter:
    """Estimates for one session and whatever model is in use."""

    def __init__(self, *, window: int | None = None, compact_at: float = COMPACT_AT) -> None:
        self.compact_at = compact_at
        self._window = window

    def load(self, params: CompletionParams, info: ModelInfo) -> Load:
        """What this request weighs."""
        window = self._window or info.context_window or DEFAULT_WINDOW
        return Load(0, 0, window, params.max_output or info.max_output or 0)

    def heard(self, params: CompletionParams, reply: AssistantMessage) -> None:
        """A reply to this request came: what the vendor counted anchors and calibrates the next estimates."""

    def refused(self, model: str, error: ProviderError) -> None:
        """The vendor called a request too long: learn the window from its words."""

    def forget(self) -> None:
        """The history was rewritten: what was reported before no longer describes it."""
