"""The real command in a real process, and a small model server for it. Used by the ``test_cli_*`` files."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

Environ = dict[str, str]
DEMO = ("--model", "demo/offline")


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def refused(self, status: int, *words: str) -> None:
        """One plain sentence on stderr, nothing on stdout, this status, no traceback."""
        assert (self.status, self.out) == (status, ""), self
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if "warning" not in line]
        assert len(lines) == 1 and lines[0].startswith("orkas: "), self.err
        for word in words:
            assert word in self.err, self.err


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "orkas", *words]


def environ(**extra: str) -> Environ:
    return {**os.environ, **extra}


def orkas(*words: str, input: str | bytes | None = None, env: Environ | None = None, cwd: Any = None) -> Ran:
    """Run it to its end. ``input`` None: stdin is empty."""
    data = input.encode() if isinstance(input, str) else input
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
    ran = subprocess.run(command(*words), capture_output=True, env=env or environ(), cwd=cwd, timeout=60, **given)
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def start(*words: str, env: Environ | None = None, **options: Any) -> subprocess.Popen[bytes]:
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*words), env=env or environ(), **{**pipes, **options})


# A model server that speaks Chat Completions


@dataclass
class Model:
    """Answers the n-th request with the n-th script, the last one again and again.

    A script is a status, or a list of deltas: text, a pause in seconds, or a tool call ``(name, arguments)``.
    """

    scripts: Sequence[int | list[Any]]
    requests: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def env(self) -> Environ:
        return environ(CUSTOM_BASE_URL=f"http://127.0.0.1:{self.port}/v1", CUSTOM_API_KEY="key-of-a-test")

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            self.requests.append(json.loads(await reader.readexactly(size)))
            script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
            if isinstance(script, int):
                body = json.dumps({"error": {"message": "the server says no", "type": "none"}}).encode()
                writer.write(b"HTTP/1.1 %d No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (script, len(body)) + body)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
                await self._say(script, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            writer.close()

    async def _say(self, script: list[Any], writer: asyncio.StreamWriter) -> None:
        reason = "stop"
        for piece in script:
            if isinstance(piece, float):
                await writer.drain()
                await asyncio.sleep(piece)
                continue
            delta: dict[str, Any] = {"content": piece}
            if isinstance(piece, tuple):
                reason = "tool_calls"
                function = {"name": piece[0], "arguments": json.dumps(piece[1])}
                delta = {"tool_calls": [{"index": 0, "id": f"call_{len(self.requests)}", "type": "function", "function": function}]}
            self._event(writer, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self._event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        writer.write(b"data: [DONE]\n\n")

    def _event(self, writer: asyncio.StreamWriter, chunk: dict[str, Any]) -> None:
        whole = {"id": "c", "object": "chat.completion.chunk", "model": "x", "created": 1, **chunk}
        writer.write(b"data: " + json.dumps(whole).encode() + b"\n\n")


@contextmanager
def serving(*scripts: int | list[Any]) -> Iterator[Model]:
    """A model server on loopback, in a thread of its own."""
    model, loop, up = Model(scripts), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(model.handle, "127.0.0.1", 0)
        model.port = server.sockets[0].getsockname()[1]
        up.set()
        await ended.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    ended = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    up.wait(10)
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()


def _custom_vendor() -> bool:
    from orkas.infra.errors import OrkasError
    from orkas.providers.registry import resolve

    try:
        resolve("custom/x", base_url="http://127.0.0.1:9/v1")
    except OrkasError:
        return False
    return True


needs_custom = pytest.mark.skipif(not _custom_vendor(), reason="the registry does not know the vendor `custom`")
CUSTOM = ("--model", "custom/x")
