"""The last words of a turn that had to be stopped: where things stand, from the model, else from us."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from orkas.harness.exchange import Exchange
from orkas.harness.governor import STATUS_TOKENS, plain_status, status_request
from orkas.harness.spending import CostReached
from orkas.harness.turn import Turn
from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, ToolMessage, Usage, calls_of, text_of
from orkas.providers.base import CompletionParams

__all__ = ["StatusAnswer"]

_TRIES = 1
"""Failures that are tried again: nobody waits long for the last words of a turn."""


class StatusAnswer:
    """Asks once, without tools. ``text`` and ``usage`` once ``ask`` has ended; there always is a text."""

    def __init__(self, turn: Turn, stop: str) -> None:
        self.text = ""
        self.usage: Usage | None = None
        self._turn = turn
        self._stop = stop

    async def ask(self) -> None:
        """Tells retries. The text is told by the caller.

        Raises:
            Aborted: Stop was pressed.
        """
        turn = self._turn
        turn.retries.limit = min(turn.retries.limit, turn.retries.failures + _TRIES)
        exchange = Exchange(turn, self._params(), told=False)
        with suppress(ProviderError, CostReached):  # its words would only hide why the turn was stopped
            await exchange.run()
        reply = exchange.reply
        if reply is not None:
            self.usage = reply.usage
            self.text = _said(reply)
        self.text = self.text or plain_status(turn.tools, self._last_error())

    def _params(self) -> CompletionParams:
        params = self._turn.params(status_request(self._stop), answer_only=True, free=True)
        thinking = params.thinking if params.thinking == "off" else None  # long thought would leave no room for words
        return replace(params, max_output=min(STATUS_TOKENS, params.max_output or STATUS_TOKENS), thinking=thinking)

    def _last_error(self) -> str:
        errors = (m for m in reversed(self._turn.setup.session.messages) if isinstance(m, ToolMessage) and m.is_error)
        return next((text_of(m) for m in errors), "")


def _said(reply: AssistantMessage) -> str:
    """The words of an answer; none when it is a call, or no answer at all."""
    if calls_of(reply) or reply.stop_reason in ("error", "overflow"):
        return ""
    return text_of(reply).strip()
