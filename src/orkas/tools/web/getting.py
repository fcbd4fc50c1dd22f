"""Getting one page: each hop checked, nothing without a bound."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import urljoin

import msgspec

from orkas.infra.errors import ProviderError, ToolFailed
from orkas.infra.guard import Guard, Misspelled, Refused, Target
from orkas.infra.messages import well_formed
from orkas.infra.net import Answer, Http, Limits
from orkas.tools.foreign import WEB, framed

__all__ = ["MAX_BYTES", "MAX_HOPS", "TOTAL_S", "Elsewhere", "Page", "get"]

MAX_BYTES = 10_000_000
"""Of a body, after decompression and as it came; what is beyond is not read."""
MAX_HOPS = 5
_MEMBERS = 1_000
"""Pieces that a compressed body may be put together from; files that are made to be read from their middle have one for
every 64 KB."""
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
    moved: bool = False
    """Redirects led to it."""


Judge: TypeAlias = Callable[[str], str]
"""An address that a redirect leads to → why it is not followed in this call, and the way out; empty: it is."""


class Elsewhere(ToolFailed):
    """A redirect leads to where this call may not go."""

    def __init__(self, asked: Target, why: str, to: str) -> None:
        what = f"{asked.url} redirects to another host, where this call does not go: {why}"
        super().__init__(f"{what}\n{framed(to, 'a redirect')}")
        self.origin = WEB


async def get(url: str, guard: Guard, *, total_s: float = TOTAL_S, judge: Judge = lambda _url: "") -> Page:
    """The page at ``url``, after at most ``MAX_HOPS`` redirects. ``judge``: asked before another host is gone to.

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
                answered = await _ask(target, visited[0], guard)
                if isinstance(answered, Page):
                    answered.moved = len(visited) > 1
                    return answered
                _check_hop(visited, answered, judge)
                visited.append(target := answered)
    except TimeoutError:
        what = f"{_place(target, visited[0])} did not send the page within {total_s:g} seconds"
        raise ToolFailed(what, hint="try another source, or later") from None
    except ProviderError as error:
        if error.reached:  # what the client says of it may hold words of the server
            what = f"{_place(target, visited[0])} broke off, or sent what is no HTTP"
            raise ToolFailed(what, hint=_advice()) from None
        why = error.message if target is visited[0] else f"{_place(target, visited[0])} cannot be reached"
        raise ToolFailed(f"the page could not be got: {why}", hint=_advice()) from None


def _place(target: Target, first: Target) -> str:
    """A host in words that are not a stranger's."""
    return target.origin if target.host == first.host else f"where {first.url} redirects to"


def _check_hop(visited: Sequence[Target], to: Target, judge: Judge) -> None:
    first = visited[0]
    if to in visited:
        raise ToolFailed(f"{first.url} redirects in a circle", hint="try another address")
    if len(visited) > MAX_HOPS:
        raise ToolFailed(f"{first.url} redirects more than {MAX_HOPS} times", hint="fetch where it leads to")
    if any(to.host == one.host for one in visited):
        return
    if why := judge(to.url):
        raise Elsewhere(first, why, to.url)


async def _ask(target: Target, first: Target, guard: Guard) -> Page | Target:
    """One request: the page, or where it has moved to."""
    try:
        addresses = await guard.addresses(target)
    except OSError as error:
        why = error.strerror or str(error)
        what = f"{target.host} is not known" if target.host == first.host else f"{_place(target, first)} is not known"
        raise ToolFailed(f"{what}: {why}", hint=_advice()) from None
    except Refused as error:
        if target.host == first.host:
            raise
        raise _no_way(first, error) from None
    http = Http(limits=_LIMITS, only=addresses)
    try:
        async with http.get(target.url, {"accept": _ACCEPT, "accept-language": "en,*;q=0.5"}) as answer:
            location = answer.headers.get("location", "")
            if answer.status in _MOVED and location:
                return _moved(target, first, location, guard)
            body, partial = await _body(answer)
            return Page(target.url, answer.status, answer.headers, body, partial)
    finally:
        await http.aclose()


def _moved(target: Target, first: Target, location: str, guard: Guard) -> Target:
    """Where a redirect leads: an address like every other, but for what is said of it."""
    try:
        return guard.target(_joined(target.url, location))
    except Misspelled:  # the server's words are not repeated as ours
        raise Refused(f"{first.url} redirects to what is no plain address of a page", hint=_advice()) from None
    except Refused as error:
        raise _no_way(first, error) from None


def _no_way(first: Target, error: Refused) -> Refused:
    """The refusal of an address that a server named: its words are the server's, but for what they mean."""
    refused = Refused(f"{first.url} redirects to where this does not go\n{framed(str(error), 'a redirect')}")
    refused.origin = WEB
    return refused


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
        known = f" ({encoding})" if encoding in _PACKINGS else ""  # any other word is the server's own
        raise ToolFailed(f"the page is compressed in a way that was not asked for{known}", hint="try another source")
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
        if unpacker.size > MAX_BYTES or came > MAX_BYTES or unpacker.over:
            return unpacker.data[:MAX_BYTES], True


_PACKINGS = frozenset(["br", "zstd", "deflate", "compress"])


class _Unpacker:
    """Takes gzip off, if there is any, and never makes more of it than ``MAX_BYTES`` and one byte."""

    def __init__(self, *, packed: bool) -> None:
        self._packed = packed
        self._gzip: zlib._Decompress | None = None
        self._pieces: list[bytes] = []
        self._ahead = b""
        self._members = 0
        self.over = False  # no more of it is taken
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
        self._members += 1
        if self._members >= _MEMBERS and rest:
            self.over, self.unfinished = True, True
            return b""
        return rest if rest.startswith(b"\x1f\x8b") else b""

    def _take(self, data: bytes) -> None:
        self._pieces.append(data)
        self.size += len(data)
