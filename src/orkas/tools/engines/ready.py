"""Which engines are asked, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orkas.infra.secrets import Secret
from orkas.tools.engines.base import Engine, EngineFailed, Hit, TurnEngine
from orkas.tools.engines.brave import Brave
from orkas.tools.engines.duckduckgo import DuckDuckGo
from orkas.tools.engines.searxng import SearXNG
from orkas.tools.engines.tavily import Tavily
from orkas.tools.engines.vendor import VendorSearch

__all__ = ["ready"]


def ready(
    chosen: Sequence[str], settings: Mapping[str, str], environ: Mapping[str, str]
) -> list[Engine | TurnEngine]:
    """The engines to ask, in order: those that were chosen, else the first that has what it needs. The vendor's is only
    asked where it was chosen: it costs money.

    ``settings``: ``searxng``, the address of the user's own. ``environ``: keys, and other addresses (``…_BASE_URL``).
    One that was chosen and lacks its key or address is there too, and says so when it is asked.
    """
    brave, tavily = environ.get("BRAVE_API_KEY", "").strip(), environ.get("TAVILY_API_KEY", "").strip()
    searxng = settings.get("searxng", "")
    made: dict[str, Engine | TurnEngine | None] = {
        "brave": Brave(Secret(brave), environ.get("BRAVE_BASE_URL", "")) if brave else None,
        "tavily": Tavily(Secret(tavily), environ.get("TAVILY_BASE_URL", "")) if tavily else None,
        "searxng": SearXNG(searxng) if searxng else None,
        "duckduckgo": DuckDuckGo(environ.get("DUCKDUCKGO_BASE_URL", "")),
        "vendor": VendorSearch(),
    }
    if not chosen:
        return [next(engine for engine in made.values() if engine is not None)]
    return [made[name] or _Unready(name) for name in chosen]


class _Unready:
    """An engine that was chosen and cannot be asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def search(self, query: str, count: int) -> list[Hit]:
        if self.name == "searxng":
            need = "SEARXNG_BASE_URL or search.searxng is not set, or is no address"
        else:
            need = f"{self.name.upper()}_API_KEY is not set"
        raise EngineFailed(f"the search engine {self.name} is chosen and {need}", hint="the user has to set it")
