"""What kind of body is it: a stream of events, one JSON value, or a page that has no business here."""

from __future__ import annotations

from orkas.infra.errors import ProviderError
from orkas.infra.messages import well_formed
from orkas.providers.sse import SSE

__all__ = ["Body", "whole_pairs"]

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
            data = self._sort(data)
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
        """The error that a web page in the place of a reply stands for; None when it is none."""
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


def whole_pairs(text: str) -> tuple[str, str]:
    """Text of a delta without lone surrogates, and the half of a pair at its end that waits for the next delta."""
    held = ""
    if text and "\ud800" <= text[-1] <= "\udbff":
        text, held = text[:-1], text[-1]
    return well_formed(text), held
