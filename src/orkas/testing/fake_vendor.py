"""A vendor on a loopback socket: it speaks the real wire, and it is as strict as the real one.

>>> import json, urllib.request
>>> from orkas.testing import FakeVendor, Refuse, call
>>> with FakeVendor([[call("add", a=2, b=3)], Refuse(429, headers={"retry-after": "1"})]) as vendor:
...     body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "2 + 3?"}]}).encode()
...     headers = {"Authorization": "Bearer k"}
...     request = urllib.request.Request(vendor.base_url + "/v1/chat/completions", body, headers)
...     with urllib.request.urlopen(request) as answer:
...         print(json.load(answer)["choices"][0]["message"]["tool_calls"][0]["function"])
{'name': 'add', 'arguments': '{"a":2,"b":3}'}
>>> vendor.requests[0].status, vendor.requests[0].body["model"]
(200, 'm')
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, TypeAlias
from urllib.parse import unquote

from orkas.infra.messages import AssistantMessage
from orkas.testing import http1
from orkas.testing.given import given_out
from orkas.testing.replay import RESET, Asked, Recording, Reply, Response, as_reply
from orkas.testing.rules import (
    Rejection,
    check_anthropic,
    check_bedrock,
    check_cohere,
    check_google,
    check_http,
    check_ollama,
    check_openai_chat,
    check_openai_responses,
    parse_body,
)
from orkas.testing.rules.base import Api, model_missing
from orkas.testing.say import Piece, Say

__all__ = ["FakeVendor", "Scripted", "VendorRequest"]

_ENDPOINTS: dict[str, Api] = {
    "/chat/completions": "openai", "/responses": "responses", "/messages": "anthropic",
    "/api/chat": "ollama", "/v2/chat": "cohere", "/converse-stream": "bedrock", "/converse": "bedrock",
    ":streamGenerateContent": "google", ":generateContent": "google", ":streamRawPredict": "anthropic",
}  # fmt: skip
_LISTS = ("/models", "/cachedContents", "/api/tags", "/foundation-models")
_CHECKS: dict[str, Callable[[dict[str, Any]], Rejection | None]] = {
    "openai": check_openai_chat, "ollama": check_ollama, "cohere": check_cohere,
}  # fmt: skip
_SECRETS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@dataclass(slots=True)
class VendorRequest:
    """One request as it arrived. ``headers`` in lower case; ``body`` None where there was none or no JSON object."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any] | None
    at: float = field(default_factory=time.monotonic)
    """When it had arrived whole, by ``time.monotonic()``."""
    status: int = 0
    """The HTTP status of the answer; 0 as long as none was given."""

    def __repr__(self) -> str:
        shown = {k: "***" if k in _SECRETS else v for k, v in self.headers.items()}
        return f"<{self.method} {self.path} -> {self.status} {shown} {self.raw[:200]!r}>"


Scripted: TypeAlias = str | AssistantMessage | Say | Reply | Sequence[Piece] | Callable[[VendorRequest], "Scripted"]
"""What a script may hold: text, pieces, a whole message, any reply, or a function that sees the request first."""


class FakeVendor:
    """A server of its own thread that speaks OpenAI Responses, Chat Completions, Anthropic Messages, Gemini
    generateContent, Ollama's own chat, Bedrock Converse and Cohere's chat.

    The n-th request that is well-formed gets the n-th reply; one that the real vendor would refuse is refused in its
    words and takes no reply. Any path that ends like the vendor's is served, so the base URL of every vendor's row
    fits. Use it as a context manager, from synchronous and asynchronous code and for child processes alike.

    ``replies``: a bare string is one. ``strict`` False accepts every request that can be parsed. ``keys``: the good API
    keys, None for any but none. ``models``: the models there are, None for any.
    """

    witness: ClassVar[Callable[[Api, VendorRequest], None] | None] = None
    """Sees every request that any strict fake vendor of this process accepts, before it is answered and in the
    server's thread: the place for a test suite's checks of its own."""

    def __init__(
        self,
        replies: Iterable[Scripted] = (),
        *,
        strict: bool = True,
        keys: Collection[str] | None = None,
        models: Collection[str] | None = None,
    ) -> None:
        self.requests: list[VendorRequest] = []
        """Every request, in order of arrival."""
        self.signatures: dict[str, str] = {}
        """Thinking that was given out, by its signature (redacted: by its data; Responses: by its sealed content; of
        Google's signatures only they themselves count). Add what older sessions hold."""
        self.bonds: dict[str, str] = {}
        """Ids of items that were given out behind a reasoning item, with that one's id (Responses)."""
        self.strict = strict
        self.keys = keys
        self.models = models
        self._replies: deque[Scripted] = deque([replies] if isinstance(replies, str) else replies)
        self._arrived = threading.Condition()
        self._failure: Exception | None = None
        self._socket: socket.socket | None = None
        self._port = 0
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._connections: set[asyncio.Task[None]] = set()

    # ---- what it will say

    def script(self, replies: Iterable[Scripted]) -> None:
        """Add replies behind those that wait; a bare string is one reply."""
        self._replies.extend([replies] if isinstance(replies, str) else replies)

    def replay(
        self,
        body: bytes,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        cut: int | Sequence[int] | None = None,
        pace: float = 0.0,
    ) -> None:
        """Add one answer of recorded bytes; see ``Recording``."""
        self._replies.append(Recording(body, status, headers or {}, cut, pace))

    # ---- its life

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:<port>`` without a path."""
        assert self._port, "start the vendor first, best with a `with` block"
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> FakeVendor:
        """Listen on a free port. Returns itself."""
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake-vendor", daemon=True)
        self._thread.start()
        self._started.wait()
        return self

    def close(self) -> None:
        """Break what is under way and stop listening. Idempotent."""
        if self._thread is None or self._loop is None or self._closing is None:
            return
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._thread = None

    def __enter__(self) -> FakeVendor:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close; what a script's own function raised is raised here, unless the block raised first."""
        self.close()
        if error is None and self._failure is not None:
            raise self._failure

    def wait_for(self, count: int, timeout_s: float = 5.0) -> VendorRequest:
        """Block until ``count`` requests have arrived; the last of them.

        Raises:
            TimeoutError: they did not.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came within {timeout_s} s")
        return self.requests[count - 1]

    # ---- the server thread

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        server = await asyncio.start_server(self._connection, sock=self._socket)
        self._started.set()
        await self._closing.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        writer.transport.set_write_buffer_limits(high=0)  # drain() returns when the kernel has every byte
        try:
            while (got := await http1.read_request(reader, writer)) is not None:
                if not await self._exchange(got, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # the client left, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # close() ends the connection; the task has nothing more to tell
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, got: http1.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. False: the connection is not to be used again."""
        request = VendorRequest(got.method, got.path, got.headers, got.body, _object(got.body))
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        try:
            response = self._answer(request)
        except Exception as error:  # noqa: BLE001 - a script's own function: raised where the test sees it
            self._failure = self._failure or error
            response = _refusal(Rejection(f"the fake vendor's script failed: {error!r}", 400), "openai")
        if response.delay_s:
            await _pause(reader, response.delay_s)
        request.status = response.status
        return await _send(response, reader, writer)

    def _answer(self, request: VendorRequest) -> Response:
        path = request.path.partition("?")[0].rstrip("/")
        if request.method == "GET" and path.endswith(_LISTS):
            return self._model_list(request)
        api = next((api for end, api in _ENDPOINTS.items() if path.endswith(end)), None)
        if api is None or request.method != "POST" or "/v1/v1/" in path:
            return _refusal(Rejection(f"Invalid URL ({request.method} {request.path})", 404), _api_of(request))
        if (refused := self._check(api, request)) is not None:
            return _refusal(refused, api)
        if self.strict and (witness := FakeVendor.witness) is not None:
            witness(api, request)
        return self._next_reply(api, request)

    def _check(self, api: Api, request: VendorRequest) -> Rejection | None:
        if self.strict and (refused := check_http(api, request.headers, len(request.raw), self.keys)) is not None:
            return refused
        body = parse_body(api, request.raw)
        if isinstance(body, Rejection):
            return body
        if not isinstance(body, dict):
            return Rejection("The request body must be a JSON object.")
        model = _model_of(request) or body.get("model")
        if self.models is not None and model not in self.models:
            return model_missing(api, model)
        if not self.strict:
            return None
        if api == "responses":
            return check_openai_responses(body, seals=self.signatures, bonds=self.bonds)
        if api == "google":
            return check_google(body, model=str(model), signatures=self.signatures)
        if api == "bedrock":
            return check_bedrock(body, model=str(model), signatures=self.signatures)
        if (check := _CHECKS.get(api)) is not None:
            return check(body)
        return check_anthropic(_named(body, request), signatures=self.signatures)

    def _next_reply(self, api: Api, request: VendorRequest) -> Response:
        if not self._replies:
            return _refusal(Rejection("the fake vendor's script has no reply left", 400), api)
        body = _named(request.body or {}, request)
        reply = _reply_of(self._replies.popleft(), request)
        stream = _streams(api, request, body)
        as_list = api == "google" and stream and "alt=sse" not in request.path
        response = reply.respond(Asked(api, stream, body, as_list))
        steps = list(response.steps)
        if response.status == 200:
            self._remember(api, b"".join(s for s in steps if isinstance(s, bytes)))
        response.steps = iter(steps)
        return response

    def _remember(self, api: Api, body: bytes) -> None:
        """Keep what must come back as it was given out."""
        seals, bonds = given_out(api, body)
        self.signatures |= seals
        self.bonds |= bonds

    def _model_list(self, request: VendorRequest) -> Response:
        path = request.path.partition("?")[0]
        cached = path.endswith("/cachedContents")
        api: Api = "google" if cached else _api_of(request)
        if path.endswith("/api/tags"):
            api = "ollama"
        elif path.endswith("/foundation-models"):
            api = "bedrock"
        if (refused := check_http(api, request.headers, 0, self.keys)) is not None:
            return _refusal(refused, api)
        names = sorted(self.models or ["fake-model"])
        if api == "google":
            rows = [{"name": f"models/{n}", "supportedGenerationMethods": ["generateContent"]} for n in names]
            return _json(200, {} if cached else {"models": rows})
        if api == "anthropic":
            dated = {"type": "model", "created_at": "2025-01-01T00:00:00Z"}
            rows = [{"id": name, "display_name": name, **dated} for name in names]
            return _json(200, {"data": rows, "has_more": False, "first_id": names[0], "last_id": names[-1]})
        if api == "ollama":
            return _json(200, {"models": [{"name": n, "model": n, "size": 1} for n in names]})
        if api == "bedrock":
            return _json(200, {"modelSummaries": [{"modelId": n} for n in names]})
        owned = {"object": "model", "created": 1760000000, "owned_by": "fake"}
        return _json(200, {"object": "list", "data": [{"id": name, **owned} for name in names]})


def _api_of(request: VendorRequest) -> Api:
    """Whose client this is, by its headers."""
    if "x-goog-api-key" in request.headers:
        return "google"
    return "anthropic" if "anthropic-version" in request.headers else "openai"


def _streams(api: Api, request: VendorRequest, body: dict[str, Any]) -> bool:
    """Whether a stream was asked for: some name that in the path, and Ollama does it unless told not to."""
    if api in ("google", "bedrock"):
        return "stream" in request.path.rpartition("/")[2].lower()
    return bool(body.get("stream", api == "ollama"))


def _model_of(request: VendorRequest) -> str:
    """The model in a path like ``/v1beta/models/gemini-3-pro:generateContent``; empty for other paths."""
    if called := re.search(r"/model/([^/?]+)/converse", request.path):
        return unquote(called[1])
    found = re.search(r"/models/([^/?]+):(?:stream)?(?:generateContent|GenerateContent|RawPredict)", request.path)
    return unquote(found[1]) if found else ""


def _named(body: dict[str, Any], request: VendorRequest) -> dict[str, Any]:
    """The body with the model in it. Claude on Vertex names it in the path and a version in its place."""
    if not (model := _model_of(request)) or "anthropic_version" not in body:
        return {**body, "model": model} if model else body
    return {"model": model, **{k: v for k, v in body.items() if k != "anthropic_version"}}


def _reply_of(scripted: Scripted, request: VendorRequest) -> Reply:
    match scripted:
        case str():
            return as_reply(Say([scripted]))
        case AssistantMessage():
            return as_reply(Say.message(scripted))
        case list() | tuple():
            return as_reply(Say(scripted))
        case Say():
            return as_reply(scripted)
        case _ if callable(scripted):
            return _reply_of(scripted(request), request)
    return scripted  # type: ignore[return-value]  # what is left is a Reply


def _refusal(rejection: Rejection, api: Api) -> Response:
    return Response(rejection.status, {"content-type": "application/json"}, iter([rejection.body(api)]))


def _json(status: int, value: dict[str, Any]) -> Response:
    return Response(status, {"content-type": "application/json"}, iter([json.dumps(value).encode()]))


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


async def _send(response: Response, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(http1.head(response.status, response.headers))
    for step in response.steps:
        if step is RESET:
            await writer.drain()
            _reset(writer)
            return False
        if isinstance(step, bytes):
            writer.write(http1.chunk(step))
            await writer.drain()
        elif isinstance(step, float | int):
            await _pause(reader, step)
    writer.write(http1.END)
    await writer.drain()
    return True


async def _pause(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait, but no longer than the client does."""
    try:
        async with asyncio.timeout(None if math.isinf(seconds) else seconds):
            await reader.read(1)
    except TimeoutError:
        return
    raise ConnectionResetError("the client left")


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() now sends RST
    writer.transport.abort()
