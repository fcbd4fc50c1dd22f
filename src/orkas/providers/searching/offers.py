"""Which vendors search the web for their models, and what they ask for it besides the tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

__all__ = ["OFFERS", "Fee", "Offer"]


class Fee(msgspec.Struct, frozen=True):
    """USD for models whose names begin so: ``per`` search that the vendor makes, or request in which it made any."""

    model: str
    usd: float
    per: Literal["search", "request"] = "search"

    def of(self, searches: int) -> float:
        return self.usd * (min(searches, 1) if self.per == "request" else searches)


class Offer(msgspec.Struct, frozen=True):
    """One vendor's search."""

    form: Literal["messages", "responses", "content"]
    fees: tuple[Fee, ...] = ()
    """Of a model that none is for, the fee is not known."""
    most: int = 1
    """Searches in one request. Where the vendor can be told so, there are never more; where it cannot, this is what is
    set aside of a cost limit."""
    tellable: bool = True
    """Can be made to search, and to search no more than once."""

    def fee(self, model: str) -> Fee | None:
        return next((fee for fee in self.fees if model.removeprefix("models/").startswith(fee.model)), None)


OFFERS: Mapping[str, Offer] = {
    "anthropic": Offer("messages", (Fee("claude-", 0.01),)),
    "openai": Offer("responses", (Fee("", 0.01),)),
    "google": Offer("content", (Fee("gemini-3", 0.014), Fee("gemini-2", 0.035, "request")), most=5, tellable=False),
    "vertex": Offer("content", most=5, tellable=False),
    "xai": Offer("responses", (Fee("", 0.005),), most=5, tellable=False),
}
"""By vendor. List prices beyond what is free, as of 2026-11-30. Sources, by the names of their pages: Anthropic, "Web
search tool" ($10 for 1,000 searches; failed ones are not billed); OpenAI, "Pricing", built-in tools ($10 for 1,000
calls); Google, "Gemini Developer API pricing", grounding with Google Search ($14 for 1,000 queries of Gemini 3, $35 for
1,000 grounded prompts of Gemini 2); xAI, "Pricing", tools ($5 for 1,000 calls; its answers say what they cost, and that
goes before). For Vertex AI none was found."""
