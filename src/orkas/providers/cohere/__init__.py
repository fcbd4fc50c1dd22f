"""Cohere's chat, version 2."""

from __future__ import annotations

from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.cohere.reader import ChatReader
from orkas.providers.cohere.request import API, CohereRequests
from orkas.providers.vendors import Quirks

__all__ = ["Cohere"]


class Cohere:
    """The dialect."""

    api = API

    def __init__(self, vendor: str = "cohere", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = CohereRequests(vendor, key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def probe(self, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.probe(base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return ChatReader(model)
