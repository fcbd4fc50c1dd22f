"""OpenAI Responses with its web search: the sources of each call, and citations of the answer. xAI speaks it too."""

from __future__ import annotations

import re
from typing import Any

from orkas.infra.messages import encode, text_of
from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.catalog import openai_effort
from orkas.providers.openai_responses.reader import ResponsesReader
from orkas.providers.searching.findings import Findings, Noting, Source, dicts, merged, said
from orkas.providers.vendors import Vendor
from orkas.providers.writing.transform import endpoint, key_headers

__all__ = ["ResponsesSearch"]

_TICKS = 1e10
"""Of xAI's, in one USD. Source: its page on cost tracking."""


class ResponsesSearch:
    """``sources``: they can be asked for, and a search can be forced and bounded; xAI documents none of these."""

    api = "openai_search"

    def __init__(self, vendor: str, row: Vendor, *, forced: bool, sources: bool) -> None:
        self._vendor, self._row, self._forced, self._sources = vendor, row, forced, sources

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        body: dict[str, Any] = {
            "model": params.model, "stream": False, "store": False, "max_output_tokens": params.max_output,
            "instructions": params.system, "tools": [{"type": "web_search"}],
            "input": [{"role": "user", "content": text_of(params.messages[-1])}],
        }  # fmt: skip
        if self._sources:
            body["include"] = ["web_search_call.action.sources"]
            body["max_tool_calls"] = 1
            body["tool_choice"] = "required" if self._forced else "auto"
            if "-pro" not in params.model and (effort := openai_effort(params.model, "low")):  # those take high alone
                body["reasoning"] = {"effort": effort}
        headers = {
            "content-type": "application/json", "accept": "application/json",
            **key_headers(api_key, self._row.key_header),
        }  # fmt: skip
        return Request(endpoint(base_url, "/responses"), headers, encode(body))

    def reader(self, *, model: str) -> Reader:
        return Noting(ResponsesReader(model), self._vendor, _read)


def _read(body: dict[str, Any]) -> Findings:
    listed: list[Source] = []
    cited: list[Source] = []
    calls, error = 0, ""
    for item in dicts(body.get("output")):
        if item.get("type") == "web_search_call":
            calls += 1
            error = error or ("unavailable" if item.get("status") == "failed" else "")
            action = item.get("action")
            listed += _listed(action if isinstance(action, dict) else {})
        elif item.get("type") == "message":
            for part in dicts(item.get("content")):
                cited += _cited(part)
    return Findings(merged([*cited, *listed]), _counted(body, calls), error, _cost(body.get("usage")))


def _listed(action: dict[str, Any]) -> list[Source]:
    return [Source(_own(said(source.get("url")))) for source in dicts(action.get("sources"))]


def _cited(part: dict[str, Any]) -> list[Source]:
    """What the answer cites. A citation covers its own link; what it is for stands before it."""
    text, end = said(part.get("text")), 0
    found = []
    for note in dicts(part.get("annotations")):
        if note.get("type") != "url_citation":
            continue
        start, stop = note.get("start_index"), note.get("end_index")
        words = ""
        if isinstance(start, int) and isinstance(stop, int) and 0 <= start <= stop <= len(text):
            words = text[end:start].rpartition("\n\n")[2].strip(" \n([-*")
            end = max(end, stop)
        found.append(Source(_own(said(note.get("url"))), said(note.get("title")), words))
    return found


def _own(url: str) -> str:
    """The address without the mark that OpenAI adds to it."""
    return re.sub(r"[?&]utm_source=openai$", "", url)


def _counted(body: dict[str, Any], calls: int) -> int:
    """The vendor's own count where it gives one."""
    usage, tools = body.get("usage"), body.get("tool_usage")
    search = tools.get("web_search") if isinstance(tools, dict) else None
    count = search.get("num_requests") if isinstance(search, dict) else None
    if count is None and isinstance(usage, dict):
        count = usage.get("num_server_side_tools_used")
    return count if isinstance(count, int) and count >= calls else calls


def _cost(usage: Any) -> float | None:
    ticks = usage.get("cost_in_usd_ticks") if isinstance(usage, dict) else None
    return ticks / _TICKS if isinstance(ticks, int | float) and not isinstance(ticks, bool) and ticks >= 0 else None
