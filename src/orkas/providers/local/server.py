"""One local model server as a child of this process: started on first use, shared, never left behind."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orkas.infra.errors import ProviderError

__all__ = ["LocalServer", "ServerConfig", "shared"]

_SCRIPT = Path(__file__).with_name("gguf_serve.py")
_START_S = 180.0
"""Loading takes 2 to 8 s where it was measured; a slow disk may need longer, a broken start must end."""
_POLL_S = 0.02
_KEPT = (
    "PATH", "HOME", "USERPROFILE", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)  # fmt: skip
"""What the child gets of our environment: no key of any vendor."""


def cores() -> int:
    """Processors this process may use, at most 8: more threads make a small model no faster."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, usable))


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What is served, and how. ``context`` and ``max_output`` in tokens."""

    name: str
    gguf: Path
    template: Path | None = None
    """A chat template (Jinja); None: the one inside the model file."""
    context: int = 8192
    max_output: int = 1024
    temperature: float = 0.2
    """Used where a request names none."""


class _Child:
    """A running child: the pipes, what it said, and how it is ended."""

    def __init__(self, argv: Sequence[str], config: Mapping[str, object], env: Mapping[str, str]) -> None:
        self.api_key = str(config["api_key"])
        self.ready = threading.Event()
        self.port: int | None = None
        self.complaints: deque[str] = deque(maxlen=40)
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(env),
            start_new_session=True,  # Ctrl-C stops the turn, not the model
        )  # fmt: skip
        assert self.process.stdin is not None
        self._readers = [
            threading.Thread(target=self._hear, daemon=True),
            threading.Thread(target=self._hear_complaints, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        with contextlib.suppress(OSError):  # it died at once; its exit status and complaints tell
            self.process.stdin.write(json.dumps(config).encode() + b"\n")
            self.process.stdin.flush()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, port = line.decode("utf-8", "replace").strip().partition(" ")
            if word == "PORT" and port.isdigit():
                self.port = int(port)
                self.ready.set()
        self.ready.set()

    def _hear_complaints(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text := line.decode("utf-8", "replace").strip():
                self.complaints.append(text)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Kill, reap, close the pipes. There is nothing the child would have to save."""
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(1)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # a first line that never got through
                    pipe.close()


class LocalServer:
    """Serves one model file on 127.0.0.1 with a random port and a random key, both known to this process only.

    The child ends with ``close()``, with this process however that ends, and never with Ctrl-C alone. Safe to use
    from several threads and event loops.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """Process id of the running child; None: there is none."""
        child = self._child
        return child.process.pid if child is not None and child.alive else None

    async def ensure(self) -> tuple[str, str]:
        """Base URL and key of the server, started or restarted if need be. Cancelling leaves it loading.

        Raises:
            ProviderError: class ``not_found`` without the runtime or the model file, ``internal`` if it will not start.
        """
        child = self._current()
        limit = time.monotonic() + _START_S
        while not child.ready.is_set():
            if time.monotonic() > limit:
                self._drop(child)
                raise ProviderError(f"the local model did not load within {_START_S:.0f} s", class_="internal")
            await asyncio.sleep(_POLL_S)
        if child.port is None:
            raise self._failed(child)
        return f"http://127.0.0.1:{child.port}/v1", child.api_key

    def close(self) -> None:
        """End the child. The server may be used again and then starts afresh."""
        with self._lock:
            child, self._child = self._child, None
        atexit.unregister(self.close)
        if child is not None and self._owner == os.getpid():
            child.end()

    def _drop(self, child: _Child) -> None:
        """End ``child``, which may not be the current one any more."""
        with self._lock:
            if self._child is child:
                self._child = None
        child.end()

    def _current(self) -> _Child:
        with self._lock:
            if self._owner != os.getpid():  # forked: the child is our parent's
                self._child, self._owner = None, os.getpid()
            if self._child is not None and not self._child.alive:
                self._child.end()
                self._child = None
            if self._child is None:
                self._child = self._start()
                atexit.unregister(self.close)
                atexit.register(self.close)
            return self._child

    def _start(self) -> _Child:
        library = _library()
        if not self.config.gguf.is_file():
            raise ProviderError(
                f"the model file {self.config.gguf} is gone", class_="not_found", hint="run: orkas models install local"
            )
        try:
            return _Child([sys.executable, "-P", str(_SCRIPT)], self._first_line(library), _environment())
        except OSError as error:
            raise ProviderError(f"cannot start the local model server: {error.strerror}", class_="internal") from None

    def _first_line(self, library: str) -> dict[str, object]:
        c = self.config
        # The kernel's signal comes when the *thread* that spawned ends, so only the main thread may ask for it.
        in_main = threading.current_thread() is threading.main_thread()
        return {
            "gguf": str(c.gguf), "name": c.name, "template": str(c.template or ""), "context": c.context,
            "max_output": c.max_output, "temperature": c.temperature, "threads": cores(),
            "api_key": secrets.token_urlsafe(32), "library": library, "parent": os.getpid() if in_main else 0,
        }  # fmt: skip

    def _failed(self, child: _Child) -> ProviderError:
        self._drop(child)
        said = child.complaints[-1] if child.complaints else f"exit status {child.process.returncode}"
        return ProviderError(
            f"the local model server did not start: {said[:300]}",
            class_="internal",
            hint="run: orkas doctor, or orkas models install local again",
        )


def _library() -> str:
    """The folder that holds the runtime, found by our own import path and handed to the child.

    Raises:
        ProviderError: class ``not_found``, when it is not installed.
    """
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        raise ProviderError(
            "the local model needs the package xllamacpp, which is not installed",
            class_="not_found",
            hint="run: orkas models install local",
        )
    return str(Path(spec.origin).parent.parent)


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # OpenMP threads spin while they wait: on a busy machine that cost nine tenths of the speed.
    return {**kept, "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


_servers: dict[ServerConfig, LocalServer] = {}
_servers_lock = threading.Lock()


def shared(config: ServerConfig) -> LocalServer:
    """The one server of this process for ``config``; not started here."""
    with _servers_lock:
        return _servers.setdefault(config, LocalServer(config))
