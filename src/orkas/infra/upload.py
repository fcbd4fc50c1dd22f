"""A long body on its way. Loaded with the first one that is sent."""

from __future__ import annotations

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

__all__ = ["Upload"]


class Upload(Payload):
    """Bytes that are handed to the connection as they are. aiohttp would copy them once more to stand directly behind
    the headers, which for megabytes takes longer than to send them.
    """

    _value: bytes

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        writer.send_headers()
        await writer.write(memoryview(self._value)[:content_length])
