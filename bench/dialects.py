"""What each wire dialect costs: a delta read, next to a client written by hand, and a long history written again.

    python bench/dialects.py                    all seven, both figures
    python bench/dialects.py google bedrock     only these;  -r 5 repetitions;  -n 20000 deltas an answer

`deltas`: CPU time of the whole process's turn for one answer, per delta, as a ratio to raw httpx with json.loads in the
same repetition. `again`: CPU time for the request of a 2 MB history that was sent before and has grown by one message.
It ends with status 1 when a figure is over its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

HERE = Path(__file__).resolve().parent
SOURCE = str(HERE.parent / "src")
sys.path.insert(0, SOURCE)

MODELS = {
    "anthropic": ("anthropic/claude-opus-4-6", "/v1"), "openai": ("custom/gpt-4o", "/v1"),
    "responses": ("openai/gpt-5", "/v1"), "google": ("google/gemini-2.5-pro", "/v1beta"), "ollama": ("ollama/m", ""),
    "bedrock": ("bedrock/anthropic.claude-sonnet-4-5", ""), "cohere": ("cohere/command-a", "/v2"),
}  # fmt: skip
"""Model string, and what stands behind the address."""
MOST_RATIO, MOST_MS = 0.5, 5.0
HISTORY, LETTERS = 2_000, 1_000
"""Messages of the long history, and characters in each."""
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# ---- the vendor: bytes that were made beforehand


def answer(api: str, count: int) -> list[bytes]:
    """An answer of so many deltas, as writes of 64 events."""
    from orkas.testing.rendering import Say, as_stream

    words = [" " + "abcdefghijklmnopqrstuvwxyz"[i % 20 : i % 20 + 3] for i in range(count)]
    events = [e for e in as_stream(Say(words), api, {"model": "m"}) if isinstance(e, bytes)]  # type: ignore[arg-type]
    return [b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in events[i : i + 64]) for i in range(0, len(events), 64)]


async def serve(count: int) -> None:
    kinds = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
    made: dict[tuple[str, int], list[bytes]] = {}

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(int(x[15:]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:"))
                await reader.readexactly(size)
                _, few, api, *_ = head.split(b" ")[1].decode().split("/")
                wanted = 3 if few == "warm" else count
                writes = made.setdefault((api, wanted), answer(api, wanted) if (api, wanted) not in made else [])
                kind = kinds.get(api, "text/event-stream")
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
                for data in writes:
                    writer.write(data)
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# ---- the clients


async def ours(api: str, base: str) -> int:
    from orkas import Agent

    model, path = MODELS[api]
    heard = 0
    async with Agent(model, base_url=base + path, api_key="k", tools=[]) as agent:
        async for event in agent.stream("go"):
            if event.type == "text_delta":
                heard += len(event.text)
            elif event.type == "done" and event.outcome != "completed":
                raise RuntimeError(str(event.error))
    return heard


TEXT: dict[str, Callable[[Any], str | None]] = {
    "anthropic": lambda e: e["delta"].get("text") if e["type"] == "content_block_delta" else None,
    "openai": lambda e: e["choices"][0]["delta"].get("content") if e["choices"] else None,
    "responses": lambda e: e["delta"] if e["type"] == "response.output_text.delta" else None,
    "google": lambda e: e["candidates"][0]["content"]["parts"][0]["text"] if "content" in e["candidates"][0] else None,
    "ollama": lambda e: e["message"]["content"],
    "cohere": lambda e: e["delta"]["message"]["content"]["text"] if e["type"] == "content-delta" else None,
    "bedrock": lambda e: e["delta"].get("text") if "delta" in e else None,
}
"""The text of an event, as somebody would write it who knows the vendor's stream."""


async def raw(api: str, base: str) -> int:
    import httpx

    heard: list[str] = []
    text = TEXT[api]
    async with httpx.AsyncClient() as client, client.stream("POST", base + "/x", json={"m": 1}) as response:
        if api == "bedrock":
            async for payload in frames(response.aiter_bytes()):
                heard.append(text(json.loads(payload)) or "")  # noqa: PERF401 - as it is written by hand
        else:
            async for line in response.aiter_lines():
                if api == "ollama" and line:
                    heard.append(text(json.loads(line)) or "")
                elif line.startswith("data: ") and line != "data: [DONE]":
                    heard.append(text(json.loads(line[6:])) or "")
    return len("".join(heard))


async def frames(chunks: Any) -> Any:
    """Payloads of Amazon's binary messages, their sums checked."""
    have = b""
    async for chunk in chunks:
        have += chunk
        while len(have) >= 12 and len(have) >= (size := struct.unpack(">I", have[:4])[0]):
            message, have = have[:size], have[size:]
            if crc32(message[:-4]) != struct.unpack(">I", message[-4:])[0]:
                raise ConnectionError("damaged")
            yield message[12 + struct.unpack(">I", message[4:8])[0] : -4]


async def turn(client: str, api: str, port: int) -> tuple[float, int]:
    talk = {"ours": ours, "raw": raw}[client]
    await talk(api, f"http://127.0.0.1:{port}/warm/{api}")
    began = cpu()
    heard = await talk(api, f"http://127.0.0.1:{port}/full/{api}")
    return cpu() - began, heard


# ---- writing


def again(api: str) -> float:
    """CPU milliseconds of the second request, the median of several."""
    from orkas.infra.messages import AssistantMessage, Message, Text, user_message
    from orkas.providers.base import CompletionParams
    from orkas.providers.registry import resolve

    os.environ["AWS_BEARER_TOKEN_BEDROCK"] = "k"
    provider, name = resolve(MODELS[api][0], base_url="http://127.0.0.1:9" + MODELS[api][1], api_key="k")
    filler = ("The quick brown fox jumps over the lazy dog. " * (LETTERS // 40))[:LETTERS]
    history: list[Message] = []
    for n in range(HISTORY // 2):
        said = AssistantMessage([Text(text=f"{n} {filler}")], MODELS[api][0], provider.api, "stop")
        history += [user_message(f"{n} {filler}"), said]
    params = CompletionParams(name, history, max_output=1_000)
    provider.request(params)
    taken = []
    for n in range(9):
        history = [*history, user_message(f"more {n}")]
        params = CompletionParams(name, history, max_output=1_000)
        began = time.process_time()
        body = provider.request(params).body
        taken.append((time.process_time() - began) * 1e3)
        assert len(body) > HISTORY * LETTERS
        history = [*history, AssistantMessage([Text(text="so")], MODELS[api][0], provider.api, "stop")]
    return statistics.median(taken)


# ---- the run


def child(*words: str) -> Any:
    env = {k: v for k, v in os.environ.items() if not k.startswith("ORKAS_") and not k.lower().endswith("_proxy")}
    with tempfile.TemporaryDirectory() as home:
        env |= {"PYTHONPATH": SOURCE, "ORKAS_HOME": home, "NO_PROXY": "*"}
        program = [sys.executable, str(HERE / "dialects.py"), *words]
        done = subprocess.run(program, capture_output=True, text=True, env=env, preexec_fn=lambda: pin(CORES[0]))
    if done.returncode:
        sys.exit(f"bench: {' '.join(words)} failed: {done.stderr[-800:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(apis: list[str], count: int, repetitions: int) -> bool:
    """Print both figures of each dialect; whether all are within their limits."""
    well = True
    program = [sys.executable, str(HERE / "dialects.py"), "serve", str(count)]
    server = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(CORES[-1]))
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    print(f"{'dialect':<11}{'a delta':>10}{'raw httpx':>11}{'ratio':>8}  limit{'again':>10}  limit")
    try:
        for api in apis:
            ratios, mine = [], []
            for _ in range(repetitions):
                (base, heard), (used, said) = child("turn", "raw", api, port), child("turn", "ours", api, port)
                if heard != said:
                    sys.exit(f"bench: {api}: {said} characters came, and {heard} to the raw client")
                ratios.append(used / base)
                mine.append(used / count * 1e6)
            ratio, ms = statistics.median(ratios), child("again", api)
            fine = ratio <= MOST_RATIO and ms <= MOST_MS
            well = well and fine
            delta, other = statistics.median(mine), statistics.median(mine) / ratio
            print(
                f"{api:<11}{delta:>7.2f} µs{other:>8.2f} µs{ratio:>7.2f}×  ≤ {MOST_RATIO}{ms:>7.2f} ms  ≤ {MOST_MS:g}"
                f"{'' if fine else '  OVER'}",
                flush=True,
            )
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return well


def main() -> int:
    match sys.argv[1:]:
        case ["serve", count]:
            asyncio.run(serve(int(count)))
        case ["turn", client, api, port]:
            print(json.dumps(asyncio.run(turn(client, api, int(port)))))
        case ["again", api]:
            print(json.dumps(again(api)))
        case _:
            parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
            parser.add_argument("dialects", nargs="*", choices=[*MODELS, []], default=[])
            parser.add_argument("-r", "--repetitions", type=int, default=3)
            parser.add_argument("-n", "--deltas", type=int, default=20_000)
            given = parser.parse_args()
            return int(not measure(given.dialects or list(MODELS), given.deltas, given.repetitions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
