"""The only opener of sockets. aiohttp behind a small door, loaded when it is first used.

An answer's bytes come as they arrive, without a queue, a task or a timer per read: one timer per answer looks now and
then at the time of the last read.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from orkas.infra.errors import ErrorClass, ProviderError, UsageError

if TYPE_CHECKING:
    import ssl

    import aiohttp

__all__ = ["Answer", "Http", "Limits"]

_DRAIN_S = 0.05
"""How long the end of a finished stream is waited for, to keep its connection."""
_LARGE = 1 << 16
"""Bytes from which on a body is not copied once more to leave in one piece with its headers."""
_PIECE = 1 << 18
"""Bytes of a large body that are handed over at a time."""


class Limits(msgspec.Struct, frozen=True):
    """Seconds. ``first_byte``: of silence before an answer is ``brisk``, for models that think for minutes before their
    first word; ``idle``: of silence after that, where silence is a fault."""

    connect: float = 15.0
    first_byte: float = 300.0
    idle: float = 45.0

    def patient(self, factor: float) -> Limits:
        """The same with more patience for silence; for the first word never more than ten minutes by that."""
        if factor == 1.0:
            return self
        first_byte = min(self.first_byte * factor, max(self.first_byte, 600.0))
        return Limits(self.connect, first_byte, self.idle * factor)


class Http:
    """Connections to one vendor: kept alive, as many as needed, one pool per running event loop.

    Proxies come from the environment (``HTTPS_PROXY``, ``NO_PROXY``, …), certificates from ``ca_file`` or
    ``SSL_CERT_FILE`` or the system. No cookies; redirects are not followed, they would carry the key elsewhere.

    ``only``: for addresses that somebody else named. Connections go to these IP addresses, whatever the name in the
    URL stands for, and to no other; there is no proxy; the URL goes out letter by letter, and bodies are given as they
    came, also where they are compressed.
    """

    def __init__(
        self, *, limits: Limits | None = None, ca_file: str | None = None, only: Sequence[str] | None = None
    ) -> None:
        self.limits = limits or Limits()
        self._only = only
        self._ca_file = ca_file
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        weakref.finalize(self, _forget, self._sessions)
        self._tls: ssl.SSLContext | None = None

    async def ask(self, url: str, headers: Mapping[str, str], body: bytes, *, patience: float = 1.0) -> Answer:
        """The answer to a POST. The caller closes it.

        ``patience``: factor on the limits for silence.

        Raises:
            ProviderError: class ``connection`` or ``timeout``, on opening; and later while reading.
        """
        return await self._open("POST", url, headers, body, self.limits.patient(patience))

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, patience: float = 1.0
    ) -> AsyncGenerator[Answer, None]:
        """As ``ask``, for ``async with``: the connection is given back or closed on every way out."""
        with closing(await self.ask(url, headers, body, patience=patience)) as answer:
            yield answer

    @asynccontextmanager
    async def get(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[Answer, None]:
        """As ``post``, without a body."""
        with closing(await self._open("GET", url, headers, None, self.limits)) as answer:
            yield answer

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of loops that are closed already."""
        _forget_closed(self._sessions)
        if session := self._sessions.pop(asyncio.get_running_loop(), None):
            await session.close()

    async def _open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> Answer:
        """Raises as ``ask``."""
        session = self._session()
        try:
            async with asyncio.timeout(limits.first_byte) as waiting:
                response = await session.request(
                    method, url if self._only is None else _as_it_is(url), headers=headers, data=_whole(body),
                    allow_redirects=False, proxy=_proxy(url) if self._only is None else None,
                    ssl=self._certificates(url),
                )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - whatever the client library raises, the caller gets one kind
            if waiting.expired():
                raise _timeout(_host(url), "did not answer", limits.first_byte) from None
            raise _plain(error, _host(url)) from None
        return Answer(response, limits, url)

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            _forget_closed(self._sessions)
            session = self._sessions[loop] = self._new_session()
        return session

    def _new_session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._only is not None:
            from orkas.infra.pinned import pinned_session

            return pinned_session(self._only, connect_s=self.limits.connect, user_agent=_user_agent())
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect),
            headers={"user-agent": _user_agent(), "accept-encoding": "gzip, deflate"},
            read_bufsize=1 << 18,
        )

    def _certificates(self, url: str) -> ssl.SSLContext | bool:
        ca_file = self._ca_file or os.environ.get("SSL_CERT_FILE")
        if not ca_file or not url.startswith("https:"):
            return True
        if self._tls is None:
            import ssl

            if not Path(ca_file).is_file():
                raise UsageError(f"the certificate file {ca_file!r} is missing", hint="set SSL_CERT_FILE to a PEM file")
            try:
                self._tls = ssl.create_default_context(cafile=ca_file)
            except (ssl.SSLError, OSError) as error:
                raise UsageError(f"the certificate file {ca_file!r} cannot be used: {error}") from None
        return self._tls


class Answer:
    """An answer under way. Read it from one task.

    ``brisk``: set by its reader when what comes now comes in small pieces, so that silence is a fault; until then the
    longer limit holds.
    """

    __slots__ = (
        "_begun", "_content", "_last", "_limits", "_loop", "_response", "_timer", "_url", "_waiting",
        "brisk", "status",
    )  # fmt: skip

    def __init__(self, response: aiohttp.ClientResponse, limits: Limits, url: str) -> None:
        self.status: int = response.status
        self._response = response
        self._content = response.content
        self._url = url
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._last = 0.0
        self._waiting = False
        self._begun = False
        self.brisk = False
        self._timer = self._loop.call_later(min(limits.first_byte, limits.idle), self._look)

    @property
    def headers(self) -> dict[str, str]:
        """Names in small letters; of a name that came more than once the last value."""
        return {k.lower(): v for k, v in self._response.headers.items()}

    async def read(self) -> bytes:
        """The bytes that are there, or the next ones; empty at the end of the body.

        Raises:
            ProviderError: the connection was cut, or nothing came for too long.
        """
        self._last, self._waiting = self._loop.time(), True
        try:
            data = await self._content.readany()
        except Exception as error:  # noqa: BLE001 - whatever the client library raises, the caller gets one kind
            raise _plain(error, _host(self._url)) from None
        self._waiting, self._begun = False, True
        return data

    async def read_all(self, limit: int = 1 << 20, *, within: float | None = None) -> bytes:
        """The whole body, of at most ``limit`` bytes; what goes beyond, and what is not there ``within`` so many
        seconds, is not read.

        Raises:
            ProviderError: as ``read``, when nothing of the body came.
        """
        ends = None if within is None else self._loop.time() + within
        pieces: list[bytes] = []
        size = 0
        while size < limit:
            try:
                async with asyncio.timeout_at(ends):
                    data = await self.read()
            except TimeoutError:  # it drips, or stays open: who asks has the status, and that may be enough
                break
            except ProviderError:
                if not pieces:
                    raise
                break  # part of an error text is better than none
            if not data:
                break
            pieces.append(data)
            size += len(data)
        return b"".join(pieces)[:limit]

    async def drain(self) -> None:
        """The reader has all it needs: take the end of the body if it comes at once, so the connection is kept."""
        if self._content.at_eof():
            return
        try:
            async with asyncio.timeout(_DRAIN_S):
                while await self.read():
                    pass
        except (TimeoutError, ProviderError):
            pass

    def close(self) -> None:
        """Give the connection back if the body was read to its end, else close it. Idempotent."""
        self._timer.cancel()
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()

    def _look(self) -> None:
        """The one timer: since when does a read wait?"""
        limits = self._limits
        limit = limits.idle if self.brisk else limits.first_byte
        left = self._last + limit - self._loop.time() if self._waiting else limit  # a slow caller is not their fault
        if left > 0:  # looked at often enough for an answer that becomes brisk meanwhile
            self._timer = self._loop.call_later(min(left, limits.idle), self._look)
            return
        what = "stopped sending" if self._begun else "did not begin to answer"
        self._content.set_exception(_timeout(_host(self._url), what, limit))
        self._response.close()


def _as_it_is(url: str) -> Any:
    """The URL as the client takes it without reading it once more in its own way."""
    from yarl import URL

    return URL(url, encoded=True)


def _timeout(host: str, what: str, seconds: float) -> ProviderError:
    return ProviderError(f"{host} {what} for {seconds:g} seconds", class_="timeout", hint="try again")


def _plain(error: Exception, host: str) -> Exception:
    """One sentence for whatever went wrong between us and ``host``."""
    import aiohttp

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        hint = "set SSL_CERT_FILE if a proxy with its own certificates stands in between"
        return _unreached(f"no trusted connection to {host}: {_cause(error)}", host, hint)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return _unreached(f"the proxy for {host} cannot be reached: {_cause(error)}", host, "check its settings")
    if isinstance(error, TimeoutError):
        return _unreached(f"{host} could not be reached in time", host, "check the network", "timeout")
    if isinstance(error, aiohttp.ClientConnectorError):
        hint = "check the network and the base URL"
        if _is_local(host):
            hint = "start the server on this machine, it does not appear by itself, or check the base URL"
        return _unreached(f"{host} cannot be reached: {_cause(error)}", host, hint)
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return UsageError(f"the address of {host} is not valid: {_cause(error)}", hint="check the base URL")
    if isinstance(error, aiohttp.ClientError | OSError | EOFError):
        what = f"the connection to {host} was cut: {_cause(error)}"
        return ProviderError(what, class_="connection", hint="try again")
    return error


def _unreached(what: str, host: str, hint: str, class_: ErrorClass = "connection") -> ProviderError:
    return ProviderError(what, class_=class_, reached=False, local=_is_local(host), hint=hint)


def _is_local(host: str) -> bool:
    """Whether ``host``, perhaps with a port, is this machine."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name in ("localhost", "[::1]", "::1") or name.startswith("127.") or name.endswith(".localhost")


def _cause(error: BaseException) -> str:
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(said := getattr(inner, "message", None), str) and said:  # without a status that nobody sent
        inner = said
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(str(text).split())[:200]


def _whole(body: bytes | None) -> Any:
    """The body as the client library takes it."""
    return body if body is None or len(body) < _LARGE else _large()(body)


@cache
def _large() -> Callable[[bytes], aiohttp.BytesPayload]:
    import aiohttp

    class Large(aiohttp.BytesPayload):
        """Many bytes, sent as they are after the headers: no copy of them is made."""

        def __init__(self, value: bytes) -> None:
            super().__init__(b"")  # it warns of many bytes that leave in one piece, which these do not
            self._value, self._size = value, len(value)

        async def write_with_length(self, writer: Any, content_length: int | None) -> None:
            writer.send_headers()
            view = memoryview(self._value)
            for start in range(0, len(view), _PIECE):
                await writer.write(view[start : start + _PIECE])

    return Large


def _forget_closed(sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession]) -> None:
    """Let go of the pools whose event loop is closed: their sockets closed with it, nothing is awaited."""
    for loop in [x for x in sessions if x.is_closed()]:
        _drop(sessions.pop(loop))


def _forget(sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession]) -> None:
    """Let go of all pools: their owner is gone without ``aclose``, which is allowed."""
    while sessions:
        _drop(sessions.popitem()[1])


def _drop(session: aiohttp.ClientSession) -> None:
    connector: Any = session.connector
    session.detach()
    if connector is not None:  # its first step closes the sockets; the rest only waits for them
        with suppress(StopIteration, RuntimeError):
            next(connector.close().__await__())


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).netloc.rpartition("@")[2] or "the server"


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address."""
    if sys.platform == "linux" and not any(name in os.environ for name in _PROXIES):
        return None
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    found = getproxies()
    proxy = found.get(parts.scheme) or found.get("all")
    if not proxy or (parts.hostname and proxy_bypass(parts.hostname)):
        return None
    if not proxy.startswith(("http://", "https://")):
        if "://" in proxy:
            kind = proxy.partition("://")[0]
            raise UsageError(f"proxies of the kind {kind!r} are not supported", hint="use an HTTP proxy")
        proxy = "http://" + proxy
    return proxy


def _user_agent() -> str:
    from orkas._version import __version__

    return f"orkas/{__version__}"
