"""The search of the vendor whose model answers in the turn: one more request to it, which holds the query alone."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from orkas.infra.errors import ProviderError, UsageError
from orkas.tools.beside import asked, may_cost
from orkas.tools.engines.base import EngineFailed, Found, Hit

if TYPE_CHECKING:
    from orkas.harness.tool import ToolContext
    from orkas.providers.searching import Findings, Search

__all__ = ["VendorSearch"]

_TIMEOUT_S = 75.0
"""Seconds for all attempts: a model reads before it answers, and the engines behind it need some of the tool's time."""
_ELSE = "name another engine in search.engine"
_WHY = {
    "max_uses_exceeded": "would search more often than one request may",
    "too_many_requests": "has been asked to search too often",
    "query_too_long": "finds the query too long",
    "request_too_large": "finds the request too large",
    "invalid_tool_input": "did not take what its own model searched for",
    "unavailable": "cannot search at the moment",
}
"""What a vendor's tool says of its own failure; the codes are Anthropic's. Source: its page on web search."""
_WAYS = {"query_too_long": "search with fewer words", "request_too_large": "search with fewer words"}


class VendorSearch:
    name = "vendor"

    async def search_in(self, context: ToolContext, query: str, count: int) -> Found:
        search = _search(context)
        vendor, asking = search.vendor, _Asking(search, query[:400], context)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                findings = await asked(asking.attempt, context.progress, brief=True)
        except TimeoutError:
            asking.broke_off()
            what = f"{vendor} did not search within {_TIMEOUT_S:g} seconds{asking.counted}"
            raise EngineFailed(what, hint="try again later", cost_usd=asking.lost) from None
        except ProviderError as error:
            what = f"{vendor} did not search: {error.message[:300]}{asking.counted}"
            raise EngineFailed(what, hint=error.hint or "try again later", cost_usd=asking.lost) from None
        cost = _sum(asking.lost, search.cost(findings))
        if not findings.sources and (why := _failure(vendor, findings)):
            raise EngineFailed(why, hint=_WAYS.get(findings.error, "try again later"), cost_usd=cost)
        hits = [Hit(source.title, source.url, source.snippet) for source in findings.sources]
        return Found(hits, f"{vendor}'s own search", cost)


class _Asking:
    """Attempts at one search. What broke off, or was answered with what is of no use, is counted at its dearest: the
    vendor may have searched all the same."""

    def __init__(self, search: Search, query: str, context: ToolContext) -> None:
        self.lost: float | None = 0.0
        """USD for what broke off; None: not known."""
        self._search, self._query, self._context = search, query, context
        self._most = search.most_usd
        self._payable = False

    async def attempt(self) -> Findings:
        """
        Raises:
            EngineFailed: it would pass the cost limit.
            ProviderError: as the request.
        """
        if not self._payable and not self._context.payable(self._most):
            raise EngineFailed(_too_dear(self._search.vendor, self._most), hint=_ELSE, cost_usd=self.lost)
        self._payable = True
        try:
            return await self._search.ask(self._query)
        except ProviderError as error:
            if may_cost(error):
                self.broke_off()
            raise

    def broke_off(self) -> None:
        self.lost = _sum(self.lost, self._most)
        self._payable = False

    @property
    def counted(self) -> str:
        return f" (it may have cost up to ${self.lost:.2f}, which is counted)" if self.lost else ""


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _search(context: ToolContext) -> Search:
    """The search of whoever answers in the turn now.

    Raises:
        EngineFailed: nobody does, or that vendor has none.
    """
    from orkas.providers.searching import offered

    if context.seated is None:
        raise EngineFailed("a vendor searches only in a turn of one of its models", hint=_ELSE)
    try:
        provider, model = context.seated()
    except UsageError as error:
        raise EngineFailed(f"there is no model whose vendor could search: {error.message}", hint=error.hint) from None
    if (search := offered(provider, model)) is None:
        raise EngineFailed(f"{provider.id} has no web search that is known here", hint=_ELSE)
    return search


def _too_dear(vendor: str, usd: float | None) -> str:
    if usd is None:
        return f"this turn has a cost limit, and what a search by {vendor} costs is not known"
    return f"a search by {vendor} may cost ${usd:.2f}, which would pass the cost limit of this turn"


def _failure(vendor: str, findings: Findings) -> str:
    """Why nothing was found, where that is a failure; empty where it is an answer."""
    if findings.refusal:
        return f"{vendor} did not search: the model refused"  # in what words is not repeated: it has read pages
    if findings.error:
        code = re.sub(r"[^a-z_]", "", findings.error.lower())[:40]
        return f"{vendor} {_WHY.get(code, f'failed to search ({code})')}"
    return "" if findings.searches else f"the model of {vendor} answered without a search"
