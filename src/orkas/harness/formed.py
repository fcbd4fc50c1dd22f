"""One reply whose final text must have a form: checked, and once asked for again where it has not."""

from __future__ import annotations

from msgspec.structs import replace

from orkas.harness.exchange import Exchange
from orkas.harness.refusal import Refusal, is_refusal
from orkas.harness.spending import CostReached
from orkas.harness.telling import tell
from orkas.harness.turn import Turn
from orkas.infra.errors import OrkasError, OutputError
from orkas.infra.events import Retry, TextDelta
from orkas.infra.messages import AssistantMessage, ToolCall, calls_of, text_of, user_message
from orkas.providers.base import CompletionParams

__all__ = ["Formed"]



class Formed:
    """As ``Exchange``. A reply without calls is checked; one that has not the form is taken back and asked for once
    more, with words of ours that name what is wrong and are stored nowhere. ``turn.output`` is the value afterwards.

    ``fault``: what is wrong with the reply that stands in the end. It is kept all the same.
    """

    def __init__(self, turn: Turn, params: CompletionParams) -> None:
        assert turn.setup.output is not None
        self.reply: AssistantMessage | None = None
        self.fault: OrkasError | None = None
        self._turn = turn
        self._params = params
        self._output = turn.setup.output
        self._exchange = Exchange(turn, params)
        turn.output = None

    async def run(self) -> None:
        """As ``Exchange.run``."""
        turn = self._turn
        await self._exchange.run()
        first = self._exchange.reply
        assert first is not None
        if calls_of(first) or first.stop_reason in ("pause", "max_cost") or turn.setup.inbox.waiting():
            self.reply = first
            return
        fault = self._judge(first)
        if fault is None or is_refusal(first):
            self.reply, self.fault = first, fault
            return
        await tell(Retry(turn.next_seq(), turn.retries.next_ordinal(), fault.message, 0.0, len(text_of(first))))
        turn.setup.recorder.retried(first.model)
        self._exchange = Exchange(turn, _again(self._params, first, fault))
        try:
            await self._exchange.run()
        except CostReached as reached:  # there is what there is
            await tell(TextDelta(turn.next_seq(), text_of(first)))
            self.reply, self.fault = first, OutputError(f"{fault.message}; {reached}", hint="its text is kept")
            return
        assert self._exchange.reply is not None
        reply = _without_calls(self._exchange.reply)
        self.fault = self._judge(reply)
        self.reply = reply

    def rest(self) -> AssistantMessage | None:
        """As ``Exchange.rest``."""
        return self._exchange.rest()

    def _judge(self, reply: AssistantMessage) -> OrkasError | None:
        if is_refusal(reply):
            return Refusal(reply)
        try:
            self._turn.output = self._output.read(text_of(reply))
        except OutputError as error:
            return error
        return None


def _again(params: CompletionParams, reply: AssistantMessage, fault: OrkasError) -> CompletionParams:
    """The request for the same answer in the right form. The tools stay in it, forbidden, so that the cached prefix
    holds."""
    words = (
        f"Your last message was not taken: {fault.message}. Give your final answer again, with the same content: "
        "exactly one complete JSON object that matches the schema, no words around it, no tool calls."
    )
    tail = [reply, user_message(words)] if text_of(reply).strip() else [user_message(words)]
    return replace(params, messages=[*params.messages, *tail], tool_choice="none")


def _without_calls(reply: AssistantMessage) -> AssistantMessage:
    """Calls that were not to be made are not made."""
    if not calls_of(reply):
        return reply
    content = [b for b in reply.content if not isinstance(b, ToolCall)]
    return replace(reply, content=content, stop_reason="stop")
