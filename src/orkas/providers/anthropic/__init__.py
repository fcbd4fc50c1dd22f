"""Anthropic Messages."""

from __future__ import annotations

from orkas.providers.anthropic.reader import MessagesReader
from orkas.providers.anthropic.request import API, AnthropicRequests
from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.vendors import Quirks

__all__ = ["Anthropic"]


class Anthropic:
    """The dialect. ``quirks`` are the row's switches."""

    api = API

    def __init__(self, vendor: str = "anthropic", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = AnthropicRequests(vendor, quirks or Quirks(ids="anthropic"), key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return MessagesReader(model)
