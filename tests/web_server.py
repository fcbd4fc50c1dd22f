"""A small web server on a real socket, and a spy on every connection that this process makes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

Route = bytes | Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
_watching: list[list[tuple[str, Any]]] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watching and event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        what = args[1][:2] if event != "socket.getaddrinfo" and isinstance(args[1], tuple) else args[0]
        for seen in _watching:
            seen.append((event, what))


sys.addaudithook(_hook)  # the interpreter tells it every connect, whichever library makes it


@contextmanager
def spying() -> Iterator[list[tuple[str, Any]]]:
    """What this process connected to and looked up, as the interpreter itself tells it."""
    seen: list[tuple[str, Any]] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


def page(body: bytes | str, kind: str = "text/html; charset=utf-8", status: str = "200 OK", extra: str = "") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n{extra}\r\n"
    return head.encode() + data


def moved(location: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


class Site:
    """Answers by path. ``requests``: heads and bodies as they came."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.requests: list[bytes] = []
        self.port = 0

    @property
    def allow(self) -> str:
        return f"localhost:{self.port}"

    def url(self, path: str = "/") -> str:
        return f"http://localhost:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            self.requests.append(head + await reader.readexactly(length))
            path = head.split(b" ")[1].decode().partition("?")[0]
            route = self.routes.get(path, page("<p>nothing here</p>", status="404 Not Found"))
            if isinstance(route, bytes):
                writer.write(route)
                await writer.drain()
            else:
                await route(head, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def site(host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[Site, None]:
    made = Site()
    server = await asyncio.start_server(made._serve, host, port)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
