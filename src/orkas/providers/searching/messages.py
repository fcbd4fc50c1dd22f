"""Anthropic Messages with its web search: results as blocks, what they say as citations of the answer."""

from __future__ import annotations

from typing import Any

from orkas.infra.messages import encode, text_of
from orkas.providers.anthropic.reader import MessagesReader
from orkas.providers.anthropic.request import VERSION
from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.searching.findings import Findings, Noting, Source, dicts, merged, said
from orkas.providers.vendors import Vendor
from orkas.providers.writing.transform import endpoint, key_headers

__all__ = ["MessagesSearch"]

_TOOL = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}


class MessagesSearch:
    api = "anthropic_search"

    def __init__(self, vendor: str, row: Vendor, *, forced: bool) -> None:
        self._vendor, self._row, self._forced = vendor, row, forced

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        body: dict[str, Any] = {
            "model": params.model, "max_tokens": params.max_output, "stream": False, "system": params.system,
            "messages": [{"role": "user", "content": text_of(params.messages[-1])}], "tools": [_TOOL],
        }  # fmt: skip
        if self._forced:
            body["tool_choice"] = {"type": "tool", "name": _TOOL["name"]}
        headers = {
            "content-type": "application/json", "accept": "application/json", "anthropic-version": VERSION,
            **key_headers(api_key, self._row.key_header or "x-api-key"),
        }  # fmt: skip
        return Request(endpoint(base_url, "/messages"), headers, encode(body))

    def reader(self, *, model: str) -> Reader:
        return Noting(MessagesReader(model), self._vendor, _read)


def _read(body: dict[str, Any]) -> Findings:
    sources: list[Source] = []
    cited: list[Source] = []
    error = ""
    for block in dicts(body.get("content")):
        if block.get("type") == "web_search_tool_result":
            if isinstance(content := block.get("content"), dict):
                error = error or said(content.get("error_code")) or "unavailable"
            sources += [_result(item) for item in dicts(content)]
        cited += [
            Source(said(item.get("url")), said(item.get("title")), said(item.get("cited_text")))
            for item in dicts(block.get("citations")) if item.get("type") == "web_search_result_location"
        ]  # fmt: skip
    usage = body.get("usage")
    used = usage.get("server_tool_use") if isinstance(usage, dict) else None
    count = used.get("web_search_requests") if isinstance(used, dict) else None
    searches = count if isinstance(count, int) and count >= 0 else int(bool(sources))
    return Findings(merged([*sources, *cited]), searches, error)


def _result(item: dict[str, Any]) -> Source:
    age = said(item.get("page_age"))
    return Source(said(item.get("url")), said(item.get("title")), f"({age})" if age else "")
