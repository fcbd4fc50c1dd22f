"""aiohttp, whole reads cut at blank lines, ``json.loads`` per event: about the best one can do by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from loop import RawClient


class Client(RawClient):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        timeout = aiohttp.ClientTimeout(total=600)
        self.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout)

    async def lines(self, payload: bytes) -> AsyncIterator[bytes]:
        headers = {"content-type": "application/json"}
        async with self.http.post(self.url, data=payload, headers=headers) as response:
            response.raise_for_status()
            rest = b""
            async for data in response.content.iter_any():
                *events, rest = (rest + data).split(b"\n\n")
                for event in events:
                    if event.startswith(b"data: ") and event != b"data: [DONE]":
                        yield event[6:]

    async def close(self) -> None:
        await self.http.close()
