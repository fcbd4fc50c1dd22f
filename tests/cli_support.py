"""The real command in a real process, and a small model server for it. Used by the ``test_cli_*`` files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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


class Model(ThreadingHTTPServer):
    """Answers the n-th request with the n-th script, the last one again and again.

    A script is a status, or a list of deltas: text, a pause in seconds, or a tool call ``(name, arguments)``.
    """

    daemon_threads = False

    def __init__(self, scripts: Sequence[int | list[Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.scripts = scripts
        self.requests: list[dict[str, Any]] = []
        self.ended = threading.Event()

    @property
    def env(self) -> Environ:
        return environ(CUSTOM_BASE_URL=f"http://127.0.0.1:{self.server_port}/v1", CUSTOM_API_KEY="key-of-a-test")


class _Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        model = self.server
        model.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        script = model.scripts[min(len(model.requests), len(model.scripts)) - 1]
        with suppress(OSError):  # the client left
            if isinstance(script, int):
                body = json.dumps({"error": {"message": "the server says no", "type": "none"}}).encode()
                self._head(script, "application/json")
                self.wfile.write(body)
            else:
                self._head(200, "text/event-stream")
                self._say(script)

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()

    def _say(self, script: list[Any]) -> None:
        reason = "stop"
        for piece in script:
            if isinstance(piece, float):
                if self.server.ended.wait(piece):
                    return
                continue
            delta: dict[str, Any] = {"content": piece}
            if isinstance(piece, tuple):
                reason = "tool_calls"
                function = {"name": piece[0], "arguments": json.dumps(piece[1])}
                call_id = f"call_{len(self.server.requests)}"
                delta = {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, chunk: dict[str, Any]) -> None:
        whole = {"id": "c", "object": "chat.completion.chunk", "model": "x", "created": 1, **chunk}
        self.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(*scripts: int | list[Any]) -> Iterator[Model]:
    """A model server on loopback, in threads of its own that end with it."""
    with Model(scripts) as model:
        thread = threading.Thread(target=model.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield model
        finally:
            model.ended.set()
            model.shutdown()
            thread.join()


CUSTOM = ("--model", "custom/x")
