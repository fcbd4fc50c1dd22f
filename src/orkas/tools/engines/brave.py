"""Brave Search: its web search API, with a key (``BRAVE_API_KEY``)."""

from __future__ import annotations

from orkas.infra.secrets import Secret
from orkas.tools.engines.base import Hit, Settings, ask_json, query_of, rows

__all__ = ["Brave"]


_SETTINGS = Settings("BRAVE_BASE_URL", "BRAVE_API_KEY")


class Brave:
    name = "brave"

    def __init__(self, key: Secret, base_url: str = "") -> None:
        self._key = key
        self._base = base_url.rstrip("/") or "https://api.search.brave.com"

    async def search(self, query: str, count: int) -> list[Hit]:
        url = query_of(f"{self._base}/res/v1/web/search", {"q": query[:400], "count": str(min(count, 20))})
        headers = {"accept": "application/json", "x-subscription-token": self._key.reveal()}
        answer = await ask_json("Brave", url, headers, having=("web", "query", "mixed"), settings=_SETTINGS)
        web = answer.get("web")
        return rows(web.get("results") if isinstance(web, dict) else None, snippet="description")
