"""OpenAI Responses: items instead of messages, stateless, with sealed reasoning given back."""

from __future__ import annotations

from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.openai_responses.reader import ResponsesReader
from orkas.providers.openai_responses.request import API, ResponsesRequests
from orkas.providers.vendors import Quirks

__all__ = ["OpenAIResponses"]


class OpenAIResponses:
    """The dialect. ``quirks`` are the row's switches."""

    api = API

    def __init__(self, vendor: str = "openai", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = ResponsesRequests(vendor, quirks or Quirks(ids="responses"), key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return ResponsesReader(model)
