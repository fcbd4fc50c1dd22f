"""Searching the web: titles, addresses and a few words of each result, told as foreign text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra import environment
from orkas.infra.errors import ToolFailed
from orkas.infra.known import hide
from orkas.tools.foreign import WEB, framed, plain

if TYPE_CHECKING:
    from orkas.tools.engines import Engine, EngineFailed, Found, Hit, TurnEngine

__all__ = ["WebSearch", "users_engines"]

_COUNT = 8
_MOST = 20
_TITLE = 200
_SNIPPET = 400
_ADDRESS = 1_000
"""Characters of each that are shown."""


class WebSearchInput(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="What to search for, as typed into a search box.")]
    count: Annotated[int, Meta(description=f"Results at most, up to {_MOST}.", ge=1)] = _COUNT


def users_engines() -> list[Engine | TurnEngine]:
    """The engines that the user's configuration and environment name, in the order they are asked."""
    from orkas.infra import config
    from orkas.tools.engines import ready

    settings = config.load(tolerant=True)
    return ready(settings["search.engine"], {"searxng": settings["search.searxng"]}, environment.environ)


class WebSearch:
    """The ``web_search`` tool. ``engines``: asked before each call; omitted: the user's."""

    name = "web_search"
    description = "Search the web: titles, addresses and snippets. Read a result with web_fetch."
    parameters = schema_of(WebSearchInput)
    read_only = True
    network = True
    limit_s = 120.0

    def __init__(self, engines: Callable[[], Sequence[Engine | TurnEngine]] = users_engines) -> None:
        self._engines = engines

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        from orkas.tools.engines import EngineFailed  # loaded with the first search

        given = check_arguments(arguments, WebSearchInput)
        query = " ".join(given.query.split())
        if not query:
            raise ToolFailed("the query is empty", hint="give the words to search for")
        if hide(query) != query:
            raise ToolFailed("the query holds one of the user's keys, which is not sent", hint="search without it")
        count = min(given.count, _MOST)
        failed: list[EngineFailed] = []
        for engine in self._engines():
            context.progress(f"asking {engine.name}")
            try:
                found = await _found(engine, context, query, count)
            except EngineFailed as error:
                failed.append(error)
                continue
            cost, unpriced = _cost([found.cost_usd, *(error.cost_usd for error in failed)])
            shown = list(islice(filter(None, map(_shown, found.hits)), count))
            text = _told(query, shown, found.by, [str(error) for error in failed])
            return ToolResult(text + unpriced, origin=WEB, cost_usd=cost)
        cost, unpriced = _cost([error.cost_usd for error in failed])
        what = "no search engine answered: " + "; and ".join(map(str, failed)) + unpriced
        if cost is None:
            raise ToolFailed(what)
        return ToolResult(what, is_error=True, cost_usd=cost)


async def _found(engine: Engine | TurnEngine, context: ToolContext, query: str, count: int) -> Found:
    from orkas.tools.engines import Found

    if hasattr(engine, "search_in"):
        return await engine.search_in(context, query, count)
    return Found(await engine.search(query, count), engine.name)


def _cost(costs: Sequence[float | None]) -> tuple[float | None, str]:
    """What all engines cost together, None where that is nothing; and what is to be said of those that did not say."""
    unpriced = "\nWhat the search cost is not known here and not counted." if None in costs else ""
    return sum(filter(None, costs)) or None, unpriced


def _told(query: str, shown: Sequence[str], engine: str, failed: Sequence[str]) -> str:
    notes = "".join(f"[{why}; asked {engine} instead]\n" for why in failed)
    if not shown:
        return f"{notes}{engine} found nothing for {query[:200]!r}. Try fewer or other words."
    listed = "\n".join(f"{n}. {text}" for n, text in enumerate(shown, 1))
    count = "one result" if len(shown) == 1 else f"{len(shown)} results"
    return f"{notes}{count} of {engine} for {query[:200]!r}\n{framed(listed, engine)}"


def _shown(hit: Hit) -> str:
    """A result as three lines at most; empty for one that leads nowhere a page could be."""
    url = plain(hit.url).strip()
    if not re.fullmatch(r"https?://[^\s<>\"]+", url, re.IGNORECASE) or len(url) > _ADDRESS:
        return ""
    title, snippet = _line(hit.title, _TITLE), _line(hit.snippet, _SNIPPET)
    return "\n   ".join(filter(None, [title, url, snippet]))


def _line(text: str, most: int) -> str:
    """Words without markup, on one line."""
    from orkas.tools.web.html import unescape

    words = " ".join(plain(unescape(re.sub(r"</?[a-zA-Z][^<>]{0,200}>", "", text[: 8 * most]))).split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"
