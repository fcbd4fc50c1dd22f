"""Amazon Bedrock Converse: every model of Bedrock in one form, streamed as binary messages."""

from __future__ import annotations

from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.bedrock.reader import ConverseReader
from orkas.providers.bedrock.request import API, ConverseRequests
from orkas.providers.clouds.aws import Signer
from orkas.providers.vendors import Quirks

__all__ = ["Bedrock"]


class Bedrock:
    """The dialect. ``signer`` signs requests for which there is no bearer key."""

    api = API

    def __init__(
        self, vendor: str = "bedrock", quirks: Quirks | None = None, key_header: str = "", signer: Signer | None = None
    ) -> None:
        self._requests = ConverseRequests(vendor, signer, key_header)

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.build(params, base_url=base_url, api_key=api_key)

    def probe(self, *, base_url: str, api_key: str | None) -> Request:
        return self._requests.probe(base_url=base_url, api_key=api_key)

    def reader(self, *, model: str) -> Reader:
        return ConverseReader(model)
