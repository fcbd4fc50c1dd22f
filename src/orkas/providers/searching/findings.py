"""What a vendor's search found, out of one whole body, beside what the dialect itself reads in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Usage, scrub
from orkas.providers.base import Part, Reader
from orkas.providers.reading.payloads import loads

__all__ = ["Findings", "Noting", "Source", "dicts", "findings_of", "merged", "said"]

_MOST = 16 * 1024 * 1024
"""Bytes of one answer. Ten results of Anthropic's with their sealed contents have some 20,000."""
_FINDINGS = "findings"
"""Where a message holds them: it is read once, and never stored or sent."""


class Source(msgspec.Struct, frozen=True):
    """A page as the vendor named it: a stranger's words, whatever is in them."""

    url: str
    title: str = ""
    snippet: str = ""


class Findings(msgspec.Struct, frozen=True):
    sources: list[Source] = []
    searches: int = 0
    """That the vendor made and counts; none: the model answered without."""
    error: str = ""
    """Why the vendor's tool failed, as the vendor calls it."""
    cost_usd: float | None = None
    """Of the whole request, where the vendor says it."""
    usage: Usage | None = None
    refusal: str = ""
    """Why the model would not, in its vendor's words."""


class Noting:
    """A ``Reader`` of a body in one piece: its dialect's own, and beside it what ``read`` finds in the body."""

    brisk = False

    def __init__(self, reader: Reader, vendor: str, read: Callable[[dict[str, Any]], Findings]) -> None:
        self._reader, self._vendor, self._read = reader, vendor, read
        self._pieces: list[bytes] = []
        self._size = 0
        self.done = False

    def feed(self, data: bytes) -> list[Part]:
        self._size += len(data)
        if self._size <= _MOST:
            self._pieces.append(data)
            self._reader.feed(data)
        self.done = self._reader.done or self._size > _MOST
        return []

    def close(self) -> AssistantMessage:
        try:
            return self._closed()
        except ProviderError as error:
            error.answered = True  # whatever is wrong with it, the vendor may have searched
            raise

    def _closed(self) -> AssistantMessage:
        if self._size > _MOST:
            what = f"{self._vendor} answered with more than {_MOST // 2**20} MB"
            raise ProviderError(what, class_="invalid_request", hint="search with other words")
        message = self._reader.close()
        body = loads(b"".join(self._pieces))
        found = self._read(scrub(body) if isinstance(body, dict) else {})
        return replace(message, vendor={**(message.vendor or {}), _FINDINGS: found})

    def partial(self) -> AssistantMessage:
        return self._reader.partial()


def findings_of(message: AssistantMessage) -> Findings:
    """What a ``Noting`` found, with what its dialect knows of the reply."""
    vendor = message.vendor or {}
    refused = message.stop_reason in ("refusal", "content_filter")
    why = said(vendor.get("refusal")) or ("the model refused" if refused else "")
    found: Findings = vendor[_FINDINGS]
    return replace(found, usage=message.usage, refusal=why)


def merged(sources: list[Source]) -> list[Source]:
    """One for each address, in order, with the first title and all snippets of it."""
    found: dict[str, Source] = {}
    for source in sources:
        if not source.url:
            continue
        before = found.get(source.url, Source(source.url))
        snippets = dict.fromkeys(filter(None, (*before.snippet.split(_BETWEEN), source.snippet)))
        found[source.url] = Source(source.url, before.title or source.title, _BETWEEN.join(snippets))
    return list(found.values())


_BETWEEN = " … "


def said(value: Any) -> str:
    return value if isinstance(value, str) else ""


def dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
