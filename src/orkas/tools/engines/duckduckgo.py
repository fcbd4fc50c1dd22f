"""DuckDuckGo without a key: its page for browsers without scripts, read like any page."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from orkas.infra.threads import in_thread
from orkas.tools.engines.base import ASKS_FOR_PROOF, EngineFailed, Hit, Settings, ask, is_challenge
from orkas.tools.web.html import Element, parse

__all__ = ["DuckDuckGo"]


class DuckDuckGo:
    name = "duckduckgo"

    def __init__(self, base_url: str = "") -> None:
        self._base = base_url.rstrip("/") or "https://html.duckduckgo.com"

    async def search(self, query: str, count: int) -> list[Hit]:
        headers = {
            "content-type": "application/x-www-form-urlencoded", "accept": "text/html", "accept-language": "en;q=0.5",
        }  # fmt: skip
        body = urlencode({"q": query}).encode()
        status, page = await ask("DuckDuckGo", f"{self._base}/html/", headers, body, settings=_SETTINGS)
        found, said = await in_thread(_read, page)
        if found or said == "none":
            return found[:count]
        if said == "challenge" or status == 202 or is_challenge(page):
            raise EngineFailed(f"DuckDuckGo {ASKS_FOR_PROOF}", hint=_HINT)
        raise EngineFailed("DuckDuckGo answered with a page that holds no results in the form we know", hint=_HINT)


_HINT = "wait some minutes, or the user sets BRAVE_API_KEY, TAVILY_API_KEY or SEARXNG_BASE_URL"
_SETTINGS = Settings("DUCKDUCKGO_BASE_URL", otherwise=_HINT)


def _read(html: str) -> tuple[list[Hit], str]:
    """The results, and what the page says when there are none: ``none``, ``challenge`` or nothing that is known."""
    found: list[Hit] = []
    title, url, advert, said = "", "", False, ""
    for element in parse(html).walk():
        classes = element.get("class").split()
        if "result" in classes:
            found += _hit(title, url, "")
            title, url, advert = "", "", "result--ad" in classes
        elif element.tag == "a" and "result__a" in classes and not advert:
            found += _hit(title, url, "")
            title, url = element.text(), _target(element)
        elif "result__snippet" in classes and url:
            found += _hit(title, url, element.text())
            title, url = "", ""
        elif "no-results" in classes:
            said = said or "none"
        elif "anomaly-modal" in " ".join(classes) or element.get("id") == "challenge-form":
            said = "challenge"
    return found + _hit(title, url, ""), said


def _hit(title: str, url: str, snippet: str) -> list[Hit]:
    return [Hit(title, url, snippet)] if url else []


def _target(link: Element) -> str:
    """Where a result leads, without the way by their counter; empty for an advertisement and for no address at all."""
    try:
        whole = urljoin("https://duckduckgo.com/", link.get("href"))
        parts = urlsplit(whole)
    except ValueError:
        return ""
    if parts.path == "/y.js":
        return ""
    if parts.path.startswith("/l/") and (parts.hostname or "").endswith("duckduckgo.com"):
        return parse_qs(parts.query).get("uddg", [""])[0]
    return whole
