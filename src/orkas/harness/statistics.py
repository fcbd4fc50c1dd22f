"""What was used, as it happens: a line for each model call and each round of tools."""

from __future__ import annotations

from orkas.infra.messages import AssistantMessage

__all__ = ["Recorder"]


class Recorder:
    """Writes for one session. A session in memory leaves no trace."""

    def heard(self, reply: AssistantMessage) -> None:
        """A reply of the model, also one that only summarises."""

    def retried(self) -> None:
        """A request was made again."""

    def compacted(self) -> None:
        """Messages were replaced by a summary."""

    def used(self, tool: str, *, error: str) -> None:
        """A tool has run. ``error``: empty, ``failed`` (it said it could not) or ``fault`` (it broke or hung)."""
