"""Ollama's own chat (``/api/chat``): the only door through which the size of the context can be asked for."""

from __future__ import annotations

from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.ollama.reader import LinesReader
from orkas.providers.ollama.request import API, OllamaRequests
from orkas.providers.vendors import Quirks

__all__ = ["Ollama"]


class Ollama:
    """The dialect."""

    api = API

    def __init__(self, vendor: str = "ollama", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = OllamaRequests(vendor, key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return LinesReader(model)
