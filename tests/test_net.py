"""The transport and the provider over it, against small servers on real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import subprocess
import sys
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.messages import calls_of, text_of, user_message
from orkas.infra.net import Http, Limits
from orkas.providers.base import CompletionParams, LLMProvider, ToolDef
from orkas.providers.http import HttpProvider
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.registry import resolve
from orkas.providers.vendors import Vendor

Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
QUICK = Limits(connect=2, first_byte=0.4, idle=0.3)
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Answers each request with ``handler``; counts connections and requests."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                body = await reader.readexactly(length)
                self.requests.append(head + body)
                await self._handler(head + body, reader, writer)
                await writer.drain()
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str, None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()


def provider(url: str, limits: Limits = QUICK, key: str | None = None) -> HttpProvider:
    row = Vendor(dialect="openai_chat", local=True)
    return HttpProvider(
        "v", row, OpenAIChat("v"), base_url=url, api_key=key, key_name="V_API_KEY", http=Http(limits=limits)
    )


PARAMS = CompletionParams(model="m", messages=[user_message("hi")])


async def ask(asked: LLMProvider) -> str:
    return text_of(await asked.complete(PARAMS))


async def test_a_finished_stream_keeps_its_connection() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"ok") + chunk(END) + b"0\r\n\r\n")

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url)
        assert [await ask(asked) for _ in range(3)] == ["ok"] * 3
        assert server.connections == 1
        await asked.aclose()


@pytest.mark.parametrize("size", [1_000, 300_000, 8_000_000])
async def test_a_body_of_any_length_arrives_whole_and_keeps_its_connection(size: int) -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"ok") + chunk(END) + b"0\r\n\r\n")

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url, Limits(2, 30, 30))
        for _ in range(2):
            said = CompletionParams(model="m", messages=[user_message("文" * (size // 3))])
            assert text_of(await asked.complete(said)) == "ok"
        await asked.aclose()
    heads, bodies = zip(*(request.split(b"\r\n\r\n") for request in server.requests), strict=True)
    assert server.connections == 1 and all(b"content-type: application/json" in head.lower() for head in heads)
    assert [len(json.loads(body)["messages"][0]["content"]) for body in bodies] == [size // 3] * 2


async def test_a_long_body_that_is_refused_before_it_is_read_is_told_as_refused() -> None:
    done = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        words = b'{"error":{"message":"the request is too large"}}'
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: %d\r\n\r\n%s" % (len(words), words))
        await writer.drain()
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        writer.close()
        done.set()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    asked = provider(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", Limits(2, 30, 30))
    with pytest.raises(ProviderError, match="too large"):
        await asked.complete(CompletionParams(model="m", messages=[user_message("x" * 6_000_000)]))
    await asked.aclose()
    await done.wait()
    server.close()


async def test_a_body_that_stays_open_after_the_end_marker_is_not_waited_for() -> None:
    async def answer(_: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"ok" + END))
        await reader.read()

    async with Server(answer).running() as url:
        asked = provider(url, Limits(2, 30, 30))
        async with asyncio.timeout(5):
            assert await ask(asked) == "ok"
        await asked.aclose()


async def test_silence_after_the_finish_reason_loses_nothing() -> None:
    async def answer(_: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"ok" + END.partition(b"data: [DONE]")[0]))
        await reader.read()

    async with Server(answer).running() as url:
        asked = provider(url)
        assert await ask(asked) == "ok"
        await asked.aclose()


@pytest.mark.parametrize("tail", [b"", b"0\r\n\r\n"], ids=["cut", "ended well-formed"])
async def test_a_stream_without_its_end_is_a_connection_error(tail: bytes) -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"half") + tail)
        writer.close()

    async with Server(answer).running() as url:
        asked = provider(url)
        told: list[str] = []
        with pytest.raises(ProviderError) as caught:
            async with asked.stream(PARAMS) as reply:
                async for parts in reply:
                    told += [p.text for p in parts]
        assert told == ["half"]
        assert caught.value.class_ == "connection"
        await asked.aclose()


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + chunk(TEXT % b"half")], ids=["nothing", "headers", "half"])
async def test_silence_is_a_timeout(sent: bytes) -> None:
    async def answer(_: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await reader.read()

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url)
        async with asyncio.timeout(5):
            with pytest.raises(ProviderError) as caught:
                await ask(asked)
            assert caught.value.class_ == "timeout"
            assert "seconds" in str(caught.value)
            await server.closed.wait() if sent else None
        await asked.aclose()


@pytest.mark.parametrize("sent", [b"", b'{"error":'], ids=["nothing", "half"])
async def test_the_words_of_a_refusal_are_not_waited_for_without_end(sent: bytes) -> None:
    async def answer(_: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 429 Slow\r\ncontent-length: 500\r\n\r\n" + sent)
        await reader.read()

    async with Server(answer).running() as url:
        http = Http()
        async with asyncio.timeout(20), http.post(url, {}, b"{}") as refused:
            assert refused.status == 429
            assert await refused.read_all(within=0.05) == sent
        await http.aclose()


@pytest.mark.parametrize("status", [b"201 Created", b"202 Accepted"])
async def test_any_success_is_a_reply(status: bytes) -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD.replace(b"200 OK", status) + chunk(TEXT % b"ok" + END) + b"0\r\n\r\n")

    async with Server(answer).running() as url:
        asked = provider(url)
        assert await ask(asked) == "ok"
        await asked.aclose()


async def test_a_slow_stream_that_keeps_talking_is_no_timeout() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for _i in range(6):
            writer.write(chunk(b": keep-alive\n\n"))
            await writer.drain()
            await asyncio.sleep(0.1)
        writer.write(chunk(TEXT % b"ok" + END) + b"0\r\n\r\n")

    async with Server(answer).running() as url:
        asked = provider(url)
        assert await ask(asked) == "ok"
        await asked.aclose()


async def test_a_slow_caller_is_no_timeout() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"o"))
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(chunk(TEXT % b"k" + END) + b"0\r\n\r\n")

    async with Server(answer).running() as url:
        asked = provider(url, Limits(2, 0.2, 0.2))
        async with asked.stream(PARAMS) as reply:
            async for _parts in reply:
                await asyncio.sleep(0.5)
            assert text_of(reply.message) == "ok"
        await asked.aclose()


def test_a_program_that_never_closes_its_provider_ends_without_a_word() -> None:
    code = """
import asyncio
from orkas.infra.messages import calls_of, text_of, user_message
from orkas.providers.base import CompletionParams
from orkas.providers.registry import resolve

BODY = b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\\n\\ndata: [DONE]\\n\\n'

async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(BODY) + BODY)
    await writer.drain()

kept = []

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d/v1" % server.sockets[0].getsockname()[1]
    provider, model = resolve("custom/m", base_url=url)
    kept.append(provider)
    message = await provider.complete(CompletionParams(model, [user_message("hi")]))
    print(text_of(message))

asyncio.run(main())
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ok\nok\n", "", 0)


async def test_nobody_listens() -> None:
    async with Server(_never).running() as url:
        pass
    asked = provider(url)
    with pytest.raises(ProviderError) as caught:
        await ask(asked)
    assert caught.value.class_ == "connection"
    assert "cannot be reached" in str(caught.value) and "127.0.0.1" in str(caught.value)
    await asked.aclose()


async def _never(_: bytes, _r: asyncio.StreamReader, _w: asyncio.StreamWriter) -> None:
    raise AssertionError("not reached")


@pytest.mark.parametrize(("coding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
async def test_packed_answers_are_unpacked(coding: bytes, pack: Callable[[bytes], bytes]) -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = pack(TEXT % b"ok" + END)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n%s" % (coding, len(data), data)
        )

    async with Server(answer).running() as url:
        asked = provider(url)
        assert await ask(asked) == "ok"
        await asked.aclose()


async def test_blank_lines_before_a_whole_json_reply() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for _i in range(200):
            writer.write(chunk(b"\n\n\n\n"))
        body = json.dumps({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}).encode()
        writer.write(chunk(body) + b"0\r\n\r\n")

    async with Server(answer).running() as url:
        asked = provider(url)
        assert await ask(asked) == "whole"
        await asked.aclose()


async def test_a_tool_whose_name_no_vendor_takes_is_called_by_its_own_name() -> None:
    async def answer(request: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(request.partition(b"\r\n\r\n")[2])
        calls = [
            {"index": i, "id": f"c{i}", "function": {"name": t["function"]["name"], "arguments": "{}"}}
            for i, t in enumerate(asked["tools"])
        ]
        body = {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
        writer.write(HEAD + chunk(b"data: " + json.dumps(body).encode() + b"\n\n") + chunk(END) + b"0\r\n\r\n")

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url)
        names = ["web.search", "add", "検索"]
        tools = [ToolDef(n, "", {}) for n in names]
        message = await asked.complete(CompletionParams(model="m", messages=[user_message("hi")], tools=tools))
        assert [c.name for c in calls_of(message)] == names
        body = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", t["function"]["name"]) for t in body["tools"])
        await asked.aclose()


async def test_a_login_page_instead_of_a_reply() -> None:
    page = b"\n<!doctype html><html><body><h1>Sign in</h1>" + b"<p>x</p>" * 5_000

    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%s" % (len(page), page))

    async with Server(answer).running() as url:
        asked = provider(url)
        with pytest.raises(ProviderError, match="web page") as caught:
            await ask(asked)
        assert "Sign in" in str(caught.value) and "<" not in str(caught.value)
        assert caught.value.status == 200
        await asked.aclose()


async def test_refusals_carry_class_status_and_wait() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b'{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}'
        writer.write(b"HTTP/1.1 429 X\r\nRetry-After: 7\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url)
        for _i in range(2):
            with pytest.raises(ProviderError) as caught:
                await ask(asked)
            assert (caught.value.class_, caught.value.status, caught.value.wait_s) == ("rate_limit", 429, 7)
            assert "Rate limit reached" in str(caught.value)
        assert server.connections == 1
        await asked.aclose()


async def test_redirects_are_told_and_not_followed() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 307 X\r\nlocation: http://elsewhere.example/v1\r\ncontent-length: 0\r\n\r\n")

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url, key="secret-key")
        with pytest.raises(ProviderError, match="elsewhere") as caught:
            await ask(asked)
        assert caught.value.class_ == "invalid_request"
        assert len(server.requests) == 1
        await asked.aclose()


async def test_a_missing_key_is_told_before_anything_is_sent() -> None:
    async with Server(_never).running() as url:
        asked, model = resolve("openai/gpt-4o", base_url=url, environ={})
        with pytest.raises(ProviderError) as caught:
            await asked.complete(CompletionParams(model=model, messages=[user_message("hi")]))
        assert caught.value.class_ == "auth"
        assert "OPENAI_API_KEY" in caught.value.message
        status = await asked.validate_auth()
        assert status.ok is False


@pytest.mark.parametrize(("code", "ok"), [(b"200", True), (b"401", False), (b"503", None)])
async def test_validate_auth(code: bytes, ok: bool | None) -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %s X\r\ncontent-length: 2\r\n\r\n{}" % code)

    server = Server(answer)
    async with server.running() as url:
        asked = provider(url, key="net-key-98765432")
        assert (await asked.validate_auth()).ok is ok
        assert server.requests[0].startswith(b"GET /v1/models HTTP/1.1")
        assert b"Bearer net-key-98765432" in server.requests[0]
        await asked.aclose()


async def test_stop_ends_a_stream_and_closes_its_connection() -> None:
    async def answer(_: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"first"))
        await reader.readexactly(1)

    server = Server(answer)
    async with server.running() as url:
        asked, abort = provider(url, Limits(2, 30, 30)), Abort()
        told: list[str] = []
        async with asyncio.timeout(5):
            with pytest.raises(Aborted):
                async with asked.stream(PARAMS) as reply:
                    parts = aiter(reply)
                    while True:
                        with abort.guard():
                            told += [p.text for p in await anext(parts)]
                        asyncio.get_running_loop().call_soon(abort.fire)
            await server.closed.wait()
        assert told == ["first"]
        await asked.aclose()


def test_one_provider_in_several_event_loops() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"ok" + END) + b"0\r\n\r\n")

    asked: list[HttpProvider] = []

    async def once(close: bool) -> str:
        async with Server(answer).running() as url:
            if not asked:
                asked.append(provider(url))
            asked[0].base_url = url
            try:
                return await ask(asked[0])
            finally:
                if close:
                    await asked[0].aclose()

    assert [asyncio.run(once(close)) for close in (True, True, True)] == ["ok"] * 3


async def test_a_certificate_file_that_is_not_there() -> None:
    http = Http(ca_file="/nowhere/ca.pem")
    with pytest.raises(UsageError, match="certificate file"):
        async with http.get("https://127.0.0.1:1/", {}):
            pass
    await http.aclose()


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"ok" + END) + b"0\r\n\r\n")

    proxy = Server(answer)
    async with proxy.running() as url:
        monkeypatch.setenv("http_proxy", url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        asked = provider("http://model.example/v1")
        assert await ask(asked) == "ok"
        assert proxy.requests[0].startswith(b"POST http://model.example/v1/chat/completions ")
        await asked.aclose()


async def test_many_streams_at_once() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(TEXT % b"a"))
        await asyncio.sleep(0.05)
        writer.write(chunk(TEXT % b"b" + END) + b"0\r\n\r\n")

    async with Server(answer).running() as url:
        asked = provider(url, Limits(5, 10, 10))
        assert await asyncio.gather(*(ask(asked) for _ in range(150))) == ["ab"] * 150
        await asked.aclose()


async def test_bodies_of_any_size_arrive_whole_on_one_connection() -> None:
    async def answer(_: bytes, _r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    server, http = Server(answer), Http()
    sizes = [0, 1, (1 << 16) - 1, 1 << 16, (1 << 18) + 1, 3 << 20]
    async with server.running() as url:
        for size in sizes:
            body = bytes(i % 251 for i in range(257)) * (size // 257 + 1)
            async with http.post(url, {"x": "y"}, body[:size]) as answered:
                assert await answered.read_all() == b"ok"
            head, _, came = server.requests[-1].partition(b"\r\n\r\n")
            assert came == body[:size]
            assert head.lower().count(b"content-length: %d" % size) == 1
            assert b"transfer-encoding" not in head.lower()
        assert server.connections == 1
        await http.aclose()


@asynccontextmanager
async def serving(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncGenerator[str, None]:
    """The address of a server that has one caller, who is gone when this is left."""
    gone = asyncio.Event()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
        gone.set()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        await gone.wait()
    finally:
        server.close()


async def test_a_server_that_takes_only_the_beginning_of_a_large_body_is_told() -> None:
    given_up = asyncio.Event()

    async def stops_reading(_r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await given_up.wait()

    async def leaves(reader: asyncio.StreamReader, _w: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    http = Http(limits=QUICK)
    for serve, class_ in ((stops_reading, "timeout"), (leaves, "connection")):
        async with serving(serve) as url:
            with pytest.raises(ProviderError) as caught:
                await http.ask(url, {}, bytes(64 << 20))
            assert caught.value.class_ == class_
            given_up.set()
    await http.aclose()


async def test_a_large_request_that_is_refused_early_tells_the_refusal() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 X\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
        with suppress(ConnectionError):
            while await reader.read(1 << 20):
                pass

    http = Http(limits=QUICK)
    async with serving(refuse) as url, http.post(url, {}, bytes(8 << 20)) as answer:
        assert (answer.status, await answer.read_all()) == (413, b"big")
        answer.close()
    await http.aclose()
