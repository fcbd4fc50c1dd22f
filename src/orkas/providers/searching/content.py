"""Gemini generateContent with Google Search: what the answer stands on, with the pieces of it that each page supports.

Addresses are Google's own, which lead on to the pages; titles are mostly the pages' domains. A search cannot be forced
here, nor bounded: the model is asked for it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from orkas.infra.messages import encode, text_of
from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.catalog import gemini
from orkas.providers.google.reader import ContentReader
from orkas.providers.google.request import key_headers
from orkas.providers.searching.findings import Findings, Noting, Source, dicts, merged, said
from orkas.providers.vendors import Vendor
from orkas.providers.writing.transform import endpoint

__all__ = ["ContentSearch"]

_BUDGET = 1_024
"""Tokens of thinking; all models that take a budget take this one."""


class ContentSearch:
    api = "google_search"

    def __init__(self, vendor: str, row: Vendor) -> None:
        self._vendor, self._row = vendor, row

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        body = {
            "systemInstruction": {"parts": [{"text": params.system}]}, "tools": [{"googleSearch": {}}],
            "contents": [{"role": "user", "parts": [{"text": text_of(params.messages[-1])}]}],
            "generationConfig": {"maxOutputTokens": params.max_output, **_thinking(params.model)},
        }  # fmt: skip
        headers = {
            "content-type": "application/json", "accept": "application/json",
            **key_headers(api_key, self._row.key_header),
        }  # fmt: skip
        model = quote(params.model.removeprefix("models/"), safe="/@:.-_~")
        path = (self._row.quirks.model_path or "/models/{model}").format(model=model)
        return Request(endpoint(base_url, f"{path}:generateContent"), headers, encode(body))

    def reader(self, *, model: str) -> Reader:
        return Noting(ContentReader(model), self._vendor, _read)


def _thinking(model: str) -> dict[str, Any]:
    """Little of it: it counts against the limit of the answer, and for nothing else here."""
    match gemini(model).thinking:
        case "level":
            return {"thinkingConfig": {"thinkingLevel": "LOW"}}
        case "budget":
            return {"thinkingConfig": {"thinkingBudget": _BUDGET}}
    return {}


def _read(body: dict[str, Any]) -> Findings:
    candidate = next(iter(dicts(body.get("candidates"))), {})
    known = candidate.get("groundingMetadata")
    if not isinstance(known, dict):
        return Findings()
    snippets = _snippets(known.get("groundingSupports"))
    chunks = known.get("groundingChunks")
    sources = []
    for place, chunk in enumerate(chunks if isinstance(chunks, list) else []):
        web = chunk.get("web") if isinstance(chunk, dict) else None
        if isinstance(web, dict):
            title = said(web.get("title")) or said(web.get("domain"))
            sources.append(Source(said(web.get("uri")), title, " … ".join(snippets.get(place, ()))))
    queries = known.get("webSearchQueries")
    count = len(queries) if isinstance(queries, list) else 0
    return Findings(merged(sources), max(count, int(bool(sources))))


def _snippets(supports: Any) -> dict[int, list[str]]:
    """Pieces of the answer by the places of the pages that they stand on."""
    found: dict[int, list[str]] = {}
    for support in dicts(supports):
        segment, places = support.get("segment"), support.get("groundingChunkIndices")
        words = said(segment.get("text")).strip() if isinstance(segment, dict) else ""
        for place in places if words and isinstance(places, list) else []:
            if isinstance(place, int):
                found.setdefault(place, []).append(words)
    return found
