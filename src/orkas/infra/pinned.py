"""Connections to addresses that were checked, and to no other. A part of ``net``, loaded when it is needed."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["pinned_session"]


def pinned_session(addresses: Sequence[str], *, connect_s: float, user_agent: str) -> aiohttp.ClientSession:
    """A client without pool, cookies, proxy or decompression, whose sockets go to these IP addresses alone."""
    connector = aiohttp.TCPConnector(
        resolver=_Known(addresses), use_dns_cache=False, force_close=True, socket_factory=_only(addresses)
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
        headers={"user-agent": user_agent, "accept-encoding": "gzip"},
        auto_decompress=False,
        trust_env=False,
        read_bufsize=1 << 18,
    )


class _Known(AbstractResolver):
    """Asks nobody: the addresses are known."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            {"hostname": host, "host": address, "port": port, "family": _family(address), "proto": 0, "flags": 0}
            for address in self._addresses
        ]

    async def close(self) -> None:
        pass


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _only(addresses: Sequence[str]) -> Any:
    """Makes sockets for these addresses: the last look before a connection, whichever way the client came to it."""

    def make(info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, place = info
        if place[0] not in addresses:
            raise OSError(f"{place[0]} was not checked")
        return socket.socket(family, kind, protocol)

    return make
