"""httpx, ``aiter_lines``, ``json.loads`` per event: the client everybody writes first. All ratios are to this one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

sys.modules["httpx._main"] = None  # type: ignore[assignment]  # its command line, which drags rich in where rich is
import httpx  # noqa: E402
from loop import RawClient  # noqa: E402


class Client(RawClient):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
        self.http = httpx.AsyncClient(timeout=600, limits=limits)

    async def lines(self, payload: bytes) -> AsyncIterator[str]:
        headers = {"content-type": "application/json"}
        async with self.http.stream("POST", self.url, content=payload, headers=headers) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    yield line[6:]

    async def close(self) -> None:
        await self.http.aclose()
