"""Tavily: a search made for models, with a key (``TAVILY_API_KEY``)."""

from __future__ import annotations

import msgspec

from orkas.infra.secrets import Secret
from orkas.tools.engines.base import Hit, Settings, ask_json, rows

__all__ = ["Tavily"]


_SETTINGS = Settings("TAVILY_BASE_URL", "TAVILY_API_KEY")


class Tavily:
    name = "tavily"

    def __init__(self, key: Secret, base_url: str = "") -> None:
        self._key = key
        self._base = base_url.rstrip("/") or "https://api.tavily.com"

    async def search(self, query: str, count: int) -> list[Hit]:
        body = msgspec.json.encode({"query": query[:400], "max_results": min(count, 20), "search_depth": "basic"})
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._key.reveal()}"}
        url = f"{self._base}/search"
        answer = await ask_json("Tavily", url, headers, body, having=("results",), settings=_SETTINGS)
        return rows(answer.get("results"), snippet="content")
