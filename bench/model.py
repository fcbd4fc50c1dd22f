"""A model that costs nothing: OpenAI chat completions from bytes that were made before they are asked for.

The script stands in the path, so the server has no state but what it saw:

    POST /s/<script>/v1/chat/completions     <script>: base64url of a JSON object, see Script
    GET  /seen/<id>                          what came with this id: [{"at": monotonic ns, "size": bytes of the body}]

Prints its port. Every event is a chunk of its own, and 64 of them go out in one write, as fast as they are read.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import time
from dataclasses import dataclass

BATCH = 64
FRAGMENT = 24
"""Characters of tool arguments in one event, as live models send them."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Script:
    id: str
    deltas: int = 1
    """Text deltas of the last answer, ``size`` characters each."""
    size: int = 4
    rounds: int = 0
    """Tool rounds before the last answer, each one call of ``bump`` with ``arguments`` characters."""
    arguments: int = 32
    first_byte_s: float = 0.0


def event(delta: object, finish: str | None = None, usage: object = None) -> bytes:
    choices = [] if usage else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    data = {
        "id": "chatcmpl-000000000000000000000000", "object": "chat.completion.chunk", "created": 1760000000,
        "model": "gpt-4o-2024-08-06", "service_tier": "default", "system_fingerprint": "fp_0000000000",
        "choices": choices, "usage": usage,
    }  # fmt: skip
    payload = b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def ending(finish: str) -> bytes:
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return event({}, finish) + event(None, usage=counts) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


@functools.lru_cache(64)
def text_writes(deltas: int, size: int) -> list[bytes]:
    words = [(" " + "abcdefghijklmnopqrstuvwxyz"[i % 20 :] * (size // 6 + 1))[:size] for i in range(20)]
    events = [event({"content": word}) for word in words]
    all_events = [events[i % 20] for i in range(deltas)]
    return [b"".join(all_events[i : i + BATCH]) for i in range(0, deltas, BATCH)]


def call_writes(script: Script, turn: int) -> list[bytes]:
    value = (f"r{turn}-" + "q" * script.arguments)[: script.arguments]
    text = json.dumps({"x": value})
    head = {"name": "bump", "arguments": ""}
    events = [event({"tool_calls": [{"index": 0, "id": f"call_{turn}", "type": "function", "function": head}]})]
    for at in range(0, len(text), FRAGMENT):
        part = {"index": 0, "function": {"arguments": text[at : at + FRAGMENT]}}
        events.append(event({"tool_calls": [part]}))
    return [b"".join(events[i : i + BATCH]) for i in range(0, len(events), BATCH)]


def rounds_done(body: bytes) -> int:
    """Tool results after the last question."""
    compact = body.rfind(b'"role":"user"')
    spaced = body.rfind(b'"role": "user"')
    start = max(compact, spaced, 0)
    return body.count(b'"role":"tool"', start) + body.count(b'"role": "tool"', start)


class Model:
    def __init__(self) -> None:
        self.seen: dict[str, list[dict[str, int]]] = {}

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                body = await reader.readexactly(length)
                await self.answer(line.split()[1].decode(), body, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        kind, value = path.strip("/").split("/")[:2]
        if kind == "seen":
            data = json.dumps(self.seen.get(value, [])).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
            return
        script = Script(**json.loads(base64.urlsafe_b64decode(value)))
        self.seen.setdefault(script.id, []).append({"at": time.monotonic_ns(), "size": len(body)})
        done = rounds_done(body)
        if script.first_byte_s:
            await asyncio.sleep(script.first_byte_s)
        writer.write(HEAD + event({"role": "assistant", "content": "", "refusal": None}))
        more = done < script.rounds
        for data in call_writes(script, done) if more else text_writes(script.deltas, script.size):
            writer.write(data)
            await writer.drain()
        writer.write(ending("tool_calls" if more else "stop"))
        await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(Model().connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
