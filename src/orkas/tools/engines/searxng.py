"""SearXNG: the user's own meta search (``SEARXNG_BASE_URL`` or ``search.searxng``), which must give JSON."""

from __future__ import annotations

from orkas.tools.engines.base import EngineFailed, Hit, Settings, ask_json, query_of, rows

__all__ = ["SearXNG"]


_SETTINGS = Settings("SEARXNG_BASE_URL or search.searxng")


class SearXNG:
    name = "searxng"

    def __init__(self, base_url: str) -> None:
        self._base = base_url.rstrip("/").removesuffix("/search")

    async def search(self, query: str, count: int) -> list[Hit]:
        url = query_of(f"{self._base}/search", {"q": query, "format": "json"})
        try:
            headers = {"accept": "application/json"}
            answer = await ask_json("SearXNG", url, headers, having=("results",), settings=_SETTINGS)
        except EngineFailed as error:
            if "HTTP 403" in error.message:
                error.hint = "the user has to enable the format json under search.formats in its settings"
            raise
        found = rows(answer.get("results"), snippet="content")
        silent = answer.get("unresponsive_engines")
        if not found and isinstance(silent, list) and silent:
            raise EngineFailed("SearXNG got no answer from its own engines", hint="try again later, or another engine")
        return found
