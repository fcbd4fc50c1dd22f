"""What kind of body is it: a stream of events, one JSON value, or a page that has no business here."""

from __future__ import annotations

import json

from orkas.infra.errors import ProviderError
from orkas.infra.messages import well_formed
from orkas.providers.reading.sse import SSE

__all__ = ["Body", "broken_off", "is_damaged", "is_utf8", "whole_pairs"]

_BLANKS = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_MAX_WHOLE = 64 * 1024 * 1024
"""Bytes of a reply in one piece that are kept at most; no model writes so much."""


class Body:
    """Sorts the bytes of one reply. ``feed`` gives event payloads; a body in one piece is in ``whole`` at the end."""

    __slots__ = ("_head", "_kind", "_pieces", "_size", "_sse", "whole")

    def __init__(self) -> None:
        self._sse = SSE()
        self._kind = ""
        self._head = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self.whole: bytes | None = None

    @property
    def names(self) -> dict[int, bytes]:
        """Event names of the last read by position."""
        return self._sse.names

    def feed(self, data: bytes) -> list[bytes]:
        """Payloads of the events that this read completed. No bytes: the body has ended."""
        if self._kind == "events":
            return self._sse.feed(data) if data else self._sse.end()
        if not self._kind:
            ended, data = not data, self._sort(data)
            if not self._kind and not ended:
                return []
        if self._kind == "events":
            return self._sse.feed(data) if data else self._sse.end()
        self._keep(data)
        return []

    def _sort(self, data: bytes) -> bytes:
        """Look at the first bytes that are no blanks; what was waiting for them comes back once they are known."""
        self._kind = _kind_of(data if not self._head else self._head + data)
        if not self._kind:
            if len(self._head) < 64:
                self._head += data
            return b""
        waiting, self._head = self._head, b""
        return waiting + data

    def _keep(self, data: bytes) -> None:
        if not data:
            self.whole = b"".join(self._pieces).removeprefix(_BOM)
        elif self._size < _MAX_WHOLE:
            self._size += len(data)
            self._pieces.append(data)

    def not_a_reply(self, vendor: str) -> ProviderError | None:
        """The error that a body stands for which holds nothing, half a JSON value or a web page; None for others."""
        if self.whole is not None and not self.whole.strip(_BLANKS):
            return broken_off(vendor, "the reply is empty")
        if self._kind == "json" and self.whole is not None and is_damaged(self.whole):
            return broken_off(vendor)
        if self._kind != "page":
            return None
        from orkas.providers.errors import page_text

        excerpt = page_text(b"".join(self._pieces)[:40_000])
        return ProviderError(
            f"{vendor} answered HTTP 200 with a web page (text/html) instead of a model's reply: {excerpt}",
            class_="invalid_request",
            status=200,
            hint="check the base URL and whether a proxy or a login page stands in between",
        )


def _kind_of(head: bytes) -> str:
    """``events``, ``json``, ``page``, or nothing yet."""
    if len(head) < 3 and _BOM.startswith(head):
        return ""
    first = head.removeprefix(_BOM).lstrip(_BLANKS)[:1]
    if not first:
        return ""
    return "json" if first in (b"{", b"[") else "page" if first == b"<" else "events"


def broken_off(vendor: str, what: str = "the reply broke off before its end") -> ProviderError:
    """A reply that is not all there: the same request may well succeed."""
    return ProviderError(f"{vendor}: {what}", class_="connection", hint="try again")


def is_damaged(payload: bytes) -> bool:
    """It has the signs of JSON and is none: part of it got lost, and nobody knows what. Keep-alives have no such
    signs."""
    if not any(sign in payload for sign in (b"{", b"}", b'"')):
        return False
    try:
        json.loads(payload.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return True
    return False


def is_utf8(payload: bytes) -> bool:
    """What is not was damaged on its way; its text can be shown, a call in it cannot be trusted."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def whole_pairs(text: str) -> tuple[str, str]:
    """Text of a delta without lone surrogates, and the half of a pair at its end that waits for the next delta."""
    held = ""
    if text and "\ud800" <= text[-1] <= "\udbff":
        text, held = text[:-1], text[-1]
    return well_formed(text), held
