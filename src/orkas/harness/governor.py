"""Watches a turn for loops: the model is nudged first, then stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from orkas.harness.tool import Tool
from orkas.infra.messages import ToolCall, ToolMessage
from orkas.providers.small import REPEATED

__all__ = ["Governor", "Ruling"]

_canonical = msgspec.json.Encoder(order="sorted").encode

MAX_UNUSABLE = 3
"""Rounds in a row in which no call could be run at all before the turn is ended."""


class Ruling(msgspec.Struct, frozen=True):
    """What follows from the rounds so far. ``nudge``: words for the next request only. ``stop``: the sentence for the
    user when the turn must end."""

    nudge: str = ""
    stop: str = ""


class Governor:
    """One for each turn. ``small``: the model is a small one, which is told at once when it repeats a call."""

    def __init__(self, tools: Mapping[str, Tool], *, small: bool = False) -> None:
        self._tools = tools
        self._small = small
        self._unusable = 0
        self._called: set[bytes] = set()
        self.answer_only = False
        """The next request asks for an answer without tools."""

    def refusal(self, call: ToolCall) -> str:
        """Why this call is not run; empty when it is. Small models repeat a call whose result they have."""
        if not self._small:
            return ""
        key = _canonical([call.name, call.arguments])
        self.answer_only = key in self._called
        self._called.add(key)
        return REPEATED if self.answer_only else ""

    def judge(self, calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> Ruling:
        """Take in one round: its calls and their results, in order."""
        usable = any(c.arguments is not None and c.name in self._tools for c in calls)
        self._unusable = 0 if usable or not calls else self._unusable + 1
        if self._unusable >= MAX_UNUSABLE:
            return Ruling(stop=f"Stopped: the model's tool calls could not be read {MAX_UNUSABLE} times in a row.")
        return Ruling()

    def spoken(self) -> None:
        """The user has spoken: what was repeated before does not count any more."""
        self._unusable = 0
