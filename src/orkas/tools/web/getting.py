"""Getting one page: each hop checked, nothing without a bound."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Mapping
from urllib.parse import urljoin

import msgspec

from orkas.infra.errors import ProviderError, ToolFailed
from orkas.infra.guard import Guard, Misspelled, Refused, Target
from orkas.infra.messages import well_formed
from orkas.infra.net import Answer, Http, Limits

__all__ = ["MAX_BYTES", "MAX_HOPS", "TOTAL_S", "Page", "get"]

MAX_BYTES = 10_000_000
"""Of a body, after decompression and as it came; what is beyond is not read."""
MAX_HOPS = 5
TOTAL_S = 30.0
"""Seconds for everything, redirects included."""
_LIMITS = Limits(connect=10.0, first_byte=2 * TOTAL_S, idle=2 * TOTAL_S)
_MOVED = frozenset([301, 302, 303, 307, 308])
_ACCEPT = "text/html,application/xhtml+xml,text/plain,text/markdown,application/json,application/xml;q=0.9,*/*;q=0.5"


class Page(msgspec.Struct):
    """What a server sent. ``url``: where it came from in the end."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    partial: bool = False
    """The body is longer, or its end did not arrive."""


async def get(url: str, guard: Guard, *, total_s: float = TOTAL_S) -> Page:
    """The page at ``url``, after at most ``MAX_HOPS`` redirects.

    Nothing of the user goes along: no cookies, no credentials, no referrer.

    Raises:
        Refused: an address on the way may not be reached; nothing was sent to it.
        ToolFailed: it could not be got; one sentence says why.
    """
    target = guard.target(url)
    visited = [target]
    try:
        async with asyncio.timeout(total_s):
            while True:
                answered = await _ask(target, guard)
                if isinstance(answered, Page):
                    return answered
                if answered in visited:
                    raise ToolFailed(f"{visited[0].url} redirects in a circle", hint="try another address")
                if len(visited) > MAX_HOPS:
                    raise ToolFailed(
                        f"{visited[0].url} redirects more than {MAX_HOPS} times", hint="fetch where it leads to"
                    )
                visited.append(target := answered)
    except TimeoutError:
        raise ToolFailed(
            f"{target.origin} did not send the page within {total_s:g} seconds", hint="try another source, or later"
        ) from None
    except ProviderError as error:
        if error.reached:  # what the client says of it may hold words of the server
            raise ToolFailed(f"{target.origin} broke off, or sent what is no HTTP", hint=_advice()) from None
        raise ToolFailed(f"the page could not be got: {error.message}", hint=_advice()) from None


async def _ask(target: Target, guard: Guard) -> Page | Target:
    """One request: the page, or where it has moved to."""
    try:
        addresses = await guard.addresses(target)
    except OSError as error:
        why = error.strerror or str(error)
        raise ToolFailed(f"{target.host} is not known: {why}", hint=_advice()) from None
    http = Http(limits=_LIMITS, only=addresses)
    try:
        async with http.get(target.url, {"accept": _ACCEPT, "accept-language": "en,*;q=0.5"}) as answer:
            location = answer.headers.get("location", "")
            if answer.status in _MOVED and location:
                return _moved(target, location, guard)
            body, partial = await _body(answer)
            return Page(target.url, answer.status, answer.headers, body, partial)
    finally:
        await http.aclose()


def _moved(target: Target, location: str, guard: Guard) -> Target:
    """Where a redirect leads: an address like every other, but for what is said of it."""
    try:
        return guard.target(_joined(target.url, location))
    except Misspelled:  # the server's words are not repeated as ours
        raise Refused(f"{target.url} redirects to what is no plain address of a page", hint=_advice()) from None
    except Refused as error:
        raise Refused(f"{target.url} redirects to where this does not go: {error.message}", hint=error.hint) from None


def _joined(base: str, location: str) -> str:
    """Where a redirect leads; it is read by the guard, like every address."""
    try:
        return urljoin(base, well_formed(location).strip(" \t"))
    except ValueError:
        return location


def _advice() -> str:
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY")):
        return "the web tools go to the network directly and not by the proxy of the environment"
    return "check the address, or try another source"


async def _body(answer: Answer) -> tuple[bytes, bool]:
    """The body without its compression, and whether it is only the beginning."""
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise ToolFailed(f"the page is compressed in a way that was not asked for ({encoding[:40]})")
    unpacker = _Unpacker(packed="gzip" in encoding)
    came = 0
    while True:
        try:
            data = await answer.read()
        except ProviderError:
            if not unpacker.size:
                raise
            return unpacker.data, True
        if not data:
            return unpacker.data, unpacker.unfinished
        came += len(data)
        unpacker.feed(data)
        if unpacker.size > MAX_BYTES or came > MAX_BYTES:
            return unpacker.data[:MAX_BYTES], True


class _Unpacker:
    """Takes gzip off, if there is any, and never makes more of it than ``MAX_BYTES`` and one byte."""

    def __init__(self, *, packed: bool) -> None:
        self._packed = packed
        self._gzip: zlib._Decompress | None = None
        self._pieces: list[bytes] = []
        self._ahead = b""
        self.size = 0
        self.unfinished = False

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> None:
        if not self._packed:
            self._take(data)
            return
        data = self._ahead + data
        if self._gzip is None and len(data) < 2:
            self._ahead = data
            return
        self._ahead = b""
        if self._gzip is None and not data.startswith(b"\x1f\x8b"):  # some servers only say so
            self._packed = False if not self.size else self._packed
            self.unfinished = self._packed
            if not self._packed:
                self._take(data)
            return
        while data and self.size <= MAX_BYTES:
            data = self._inflate(data)

    def _inflate(self, data: bytes) -> bytes:
        """Take some in; returns what is left of it."""
        self._gzip = self._gzip or zlib.decompressobj(31)
        try:
            self._take(self._gzip.decompress(data, MAX_BYTES + 1 - self.size))
        except zlib.error:
            if not self.size:
                raise ToolFailed("the page arrived damaged: its compression cannot be undone") from None
            self.unfinished = True
            return b""
        self.unfinished = not self._gzip.eof
        if not self._gzip.eof:
            return self._gzip.unconsumed_tail
        rest = self._gzip.unused_data
        self._gzip = None  # another member may follow
        return rest if rest.startswith(b"\x1f\x8b") else b""

    def _take(self, data: bytes) -> None:
        self._pieces.append(data)
        self.size += len(data)
