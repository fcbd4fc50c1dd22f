"""OpenAI Chat Completions and everybody who speaks it, more or less."""

from __future__ import annotations

from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.openai_chat.reader import ChatReader
from orkas.providers.openai_chat.request import API, ChatRequests
from orkas.providers.vendors import Quirks

__all__ = ["OpenAIChat"]


class OpenAIChat:
    """The dialect. ``quirks`` are the row's switches."""

    api = API

    def __init__(self, vendor: str = "custom", quirks: Quirks | None = None, key_header: str = "") -> None:
        self._requests = ChatRequests(vendor, quirks or Quirks(), key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return ChatReader(model)
