"""Gemini generateContent: AI Studio and Vertex AI."""

from __future__ import annotations

from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.google.reader import ContentReader
from orkas.providers.google.request import API, GoogleRequests
from orkas.providers.vendors import Quirks

__all__ = ["Google"]


class Google:
    """The dialect. ``quirks`` are the row's switches."""

    api = API

    def __init__(self, vendor: str = "google", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = GoogleRequests(vendor, quirks or Quirks(), key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return ContentReader(model)
