"""The cost limit of a turn: the request that would pass it is never made."""

from __future__ import annotations

from msgspec.structs import replace

from orkas.harness.setup import Setup
from orkas.infra.amounts import usd
from orkas.infra.messages import AssistantMessage, Usage, text_of
from orkas.providers.base import CompletionParams, Rates

__all__ = ["CostReached", "Spending"]

_LEAST_ANSWER = 64
"""Tokens below which an answer is none: a request that could pay for fewer is not made."""


class CostReached(Exception):
    """The next request would pass the limit. Its text is for the user."""


class Spending:
    """What a turn has cost, at most, and what it may still cost. Without a limit it does nothing.

    What is not known is taken for its dearest, so that the limit holds; what a reply costs is bounded by the output
    limit of its request. Only a prompt that is dearer than estimated (more tokens, a cache that did not hold) can pass
    the limit, by that much.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._aside = 0.0  # for calls that may be under way side by side; until the next request
        self._prompt = 0  # tokens of the request under way, as estimated
        self._cached = 0  # tokens that the vendor's cache is believed to have of the next prompt
        self._wrote = False
        self._model = ""

    def allowed(self, setup: Setup, params: CompletionParams) -> CompletionParams:
        """The request, its answer not longer than can be paid for.

        Raises:
            CostReached: it would pass the limit.
        """
        if self.limit is None:
            return params
        self._aside = 0.0  # whatever ran has ended, and has paid
        info = setup.provider.info(setup.model)
        if info.price is None:
            return params
        self._asks(setup.full_model)
        self._prompt = _prompt(setup, params)
        rates = info.price.rates(self._prompt)
        left = self.limit - self.spent - self._input_cost(rates)
        payable = left * 1e6 / rates.output if rates.output else float("inf") if left >= 0 else 0.0
        if payable < _LEAST_ANSWER:
            raise CostReached(self._text())
        if payable < (params.max_output or info.max_output or float("inf")):
            return replace(params, max_output=int(payable))
        return params

    def _asks(self, model: str) -> None:
        """Another model takes over: its vendor's cache has nothing of this conversation, as far as we know."""
        if model != self._model:
            self._model, self._cached, self._wrote = model, 0, False

    def payable(self, usd: float | None) -> bool:
        """Whether a tool may spend so much; what is not known is too much where there is a limit. It is set aside, so
        that calls side by side do not pass the limit together."""
        if self.limit is None:
            return True
        if usd is None or self.spent + self._aside + usd > self.limit:
            return False
        self._aside += usd
        return True

    def paid(self, usd: float) -> None:
        """A tool has spent so much."""
        self.spent += usd
        self._aside = max(0.0, self._aside - usd)

    def heard(self, setup: Setup, reply: AssistantMessage) -> None:
        """A reply came whole."""
        if self.limit is None:
            return
        usage = reply.usage
        if usage is not None and usage.cost_usd is not None:
            self.spent += usage.cost_usd
        elif (price := setup.provider.info(setup.model).price) is not None:
            self.spent += price.most(self._counted(setup, reply))
        if usage is not None:
            self._believe(usage)

    def _believe(self, usage: Usage) -> None:
        """A cache is believed in after its first write, and from then on as long as it is read from."""
        believed = bool(usage.cache_read) or (bool(usage.cache_write) and not self._wrote)
        self._cached = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0) if believed else 0
        self._wrote = self._wrote or bool(usage.cache_write)

    def _counted(self, setup: Setup, reply: AssistantMessage) -> Usage:
        """What the vendor counted, with our estimate in place of what it did not."""
        usage = reply.usage or Usage()
        if usage.input is None:
            usage = replace(usage, input=self._prompt)
        if usage.output is None:
            usage = replace(usage, output=setup.meter.text(text_of(reply)))
        return usage

    def _input_cost(self, rates: Rates) -> float:
        read = min(self._cached, self._prompt) if rates.cache_read is not None else 0
        fresh = (self._prompt - read) * max(rates.input, rates.cache_write or 0.0)
        return (fresh + read * (rates.cache_read or 0.0)) / 1e6

    def _text(self) -> str:
        return (
            f"Stopped: the next request would pass the cost limit of {usd(self.limit or 0.0)} for one turn "
            f"({usd(self.spent)} spent). Say “continue” to go on."
        )


def _prompt(setup: Setup, params: CompletionParams) -> int:
    """Tokens of a request: of the conversation and words behind it, or of one that has nothing to do with it."""
    if params.system is not setup.system:
        return setup.meter.size(params.messages) + setup.meter.text(params.system)
    history = setup.session.messages
    load = setup.meter.load(replace(params, messages=history), setup.provider.info(setup.model))
    return load.messages + load.fixed + setup.meter.size(params.messages[len(history) :])
