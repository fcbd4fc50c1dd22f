"""Recorded traffic of many vendors, read back: whole, byte by byte, cut anywhere, and through a real socket."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from orkas.infra.errors import ProviderError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Opaque,
    Text,
    Thinking,
    calls_of,
    decode_message,
    encode,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.infra.net import Http, Limits
from orkas.providers.anthropic import Anthropic
from orkas.providers.base import CompletionParams, Dialect, Part, Reader, TextPart, ThinkingPart
from orkas.providers.bedrock import Bedrock
from orkas.providers.bedrock.eventstream import Frames
from orkas.providers.cohere import Cohere
from orkas.providers.errors import classify
from orkas.providers.google import Google
from orkas.providers.http import HttpProvider
from orkas.providers.ollama import Ollama
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.openai_responses import OpenAIResponses
from orkas.providers.vendors import Vendor
from orkas.testing.conformance import cuttings, read
from orkas.testing.rendering_bedrock import frame

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
WIRE = SHARED / "wire"
FULL = bool(os.environ.get("ORKAS_FULL"))
"""Read every recording byte by byte, however long it is, and at 200 random cuttings."""

CASES = sorted(
    p.parent
    for kind in (
        "anthropic/messages", "vertex/anthropic_messages", "*/chat_completions", "*/responses", "*/*generate_content",
        "ollama/api_chat", "bedrock/*", "cohere/chat_v2",
    )
    for p in WIRE.glob(f"{kind}/*/expected.json")
)
if not CASES:
    pytest.skip("no recorded traffic at hand (set ORKAS_SHARED)", allow_module_level=True)

each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.parts[-3]}/{c.name}")


_DIALECTS: dict[str, Callable[[str], Dialect]] = {
    "messages": Anthropic, "chat_completions": OpenAIChat, "responses": OpenAIResponses, "generate_content": Google,
    "api_chat": Ollama, "chat_v2": Cohere, "converse": Bedrock, "converse_stream": Bedrock, "invoke_anthropic": Bedrock,
    "invoke_stream_anthropic": Bedrock,
}  # fmt: skip
"""By the end of the name of a case's folder."""


class Recording:
    def __init__(self, case: Path) -> None:
        self.case = case
        self.vendor = case.parts[-3]
        self.expected: dict[str, Any] = json.loads((case / "expected.json").read_bytes())
        self.meta: dict[str, Any] = json.loads((case / "response.meta.json").read_bytes())
        self.status: int = self.meta["status"]
        (path,) = (p for p in case.glob("response.*") if p.name != "response.meta.json")
        self.body = path.read_bytes()
        self.streamed = path.suffix in (".sse", ".ndjson")

    @property
    def dialect(self) -> Dialect:
        api = self.case.parts[-2]
        dialect = next(d for end, d in _DIALECTS.items() if api.endswith(end))
        return dialect(self.vendor)

    def reader(self) -> Reader:
        return self.dialect.reader(model=f"{self.vendor}/m")


def signatures(block: Block) -> list[str]:
    """All signatures of a block, wherever its dialect keeps them."""
    rest = block.vendor or {}
    own = [getattr(block, "signature", None), rest.get("thoughtSignature"), *(s[2] for s in rest.get("signed", ()))]
    return [s for s in own if s]


def facts(message: AssistantMessage, error: ProviderError | None) -> dict[str, Any]:
    """The message in the words of ``expected.json``."""
    thoughts = [b for b in message.content if isinstance(b, Thinking)]
    redacted = sum(t.redacted is not None for t in thoughts)
    encrypted = sum(t.encrypted is not None for t in thoughts)
    text = "".join(t.text for t in thoughts)
    usage = message.usage
    return {
        "text": text_of(message),
        "text_blocks": [b.text for b in message.content if isinstance(b, Text)],
        "thinking": {
            "present": bool(text or redacted or encrypted),
            "text": text,
            "signatures": [len(s) for b in message.content for s in signatures(b)],
            "redacted_blocks": redacted,
            "encrypted_items": encrypted,
        },
        "tool_calls": [
            {"id": c.id, "name": c.name, "arguments": c.arguments, "arguments_raw": c.arguments_raw}
            for c in calls_of(message)
        ],
        "server_side_blocks": [b.kind for b in message.content if isinstance(b, Opaque)],
        "media_parts": sum(isinstance(b, Image) for b in message.content),
        "stop_reason": "error" if error else message.stop_reason,
        "usage": None
        if usage is None
        else {
            "input": usage.input, "output": usage.output, "cache_read": usage.cache_read,
            "cache_write": usage.cache_write, "reasoning": usage.reasoning,
        },
    }  # fmt: skip


def wanted(expected: dict[str, Any]) -> dict[str, Any]:
    out = {k: expected[k] for k in ("text", "text_blocks", "thinking", "tool_calls", "server_side_blocks", "usage")}
    out["media_parts"] = expected.get("media_parts", 0)
    out["stop_reason"] = expected["stop_reason"]["normalized"]
    if out["usage"]:
        out["usage"] = {k: v for k, v in out["usage"].items() if k != "input_total"}
    return out


def check(recording: Recording, message: AssistantMessage, error: ProviderError | None) -> None:
    expected = recording.expected
    got, want = facts(message, error), wanted(deepcopy(expected))
    if recording.case.parts[-2] == "responses":
        check_items(message, want["tool_calls"], expected)
    for mine, theirs in zip(got["tool_calls"], want["tool_calls"], strict=False):
        if not theirs["id"]:  # the wire has none: any id of our own will do
            assert mine["id"]
            theirs["id"] = mine["id"]
    assert len({c["id"] for c in got["tool_calls"]}) == len(got["tool_calls"])
    if alternatives := expected.get("text_alternatives"):
        assert got["text"] in alternatives
        want["text"] = got["text"]
        want["text_blocks"] = got["text_blocks"]
    assert got == want
    check_error(expected["error"], error)


def check_items(message: AssistantMessage, calls: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    """What only Responses have: ids of items, calls given as free text, sources."""
    for mine, theirs in zip(calls_of(message), calls, strict=True):
        kept = mine.vendor or {}
        assert kept.get("id") == theirs.pop("item_id")
        assert (kept.get("type") == "custom_tool_call") is theirs.pop("custom", False)
    cited = sum(len((b.vendor or {}).get("annotations", ())) for b in message.content if isinstance(b, Text))
    assert cited == expected["citations"]
    assert (message.vendor or {}).get("refusal") == expected.get("refusal")


def check_error(expected: dict[str, Any] | None, error: ProviderError | None) -> None:
    if expected is None:
        assert error is None, error
        return
    assert error is not None
    if expected["type"] == "stream_truncated":
        assert error.class_ == "connection"
    else:
        assert " ".join(expected["message"].split())[:400] in str(error)


@each_case
def test_recorded_reply_is_read_exactly(case: Path) -> None:
    recording = Recording(case)
    if recording.status != 200:
        error = classify(recording.vendor, recording.status, recording.meta["headers"], recording.body)
        assert error.status == recording.status
        check_error(recording.expected["error"], error)
        return
    parts, message, error = read(recording.reader(), [recording.body])
    check(recording, message, error)
    assert "".join(p.text for p in parts if isinstance(p, TextPart)) == text_of(message)
    thinking = "".join(b.text for b in message.content if isinstance(b, Thinking))
    assert "".join(p.text for p in parts if isinstance(p, ThinkingPart)) == thinking


@each_case
def test_any_cutting_gives_the_same(case: Path) -> None:
    recording = Recording(case)
    if recording.status != 200:
        pytest.skip("refused requests have no stream")
    body, said = recording.body, None
    for pieces in cuttings(body, 200 if FULL else 20, seed=zlib.crc32(case.name.encode())):
        if len(pieces) == len(body) > 20_000 and not FULL:
            continue
        parts, message, error = read(recording.reader(), pieces)
        check(recording, message, error)
        now = [
            (type(p), "".join(q.text for q in parts if type(q) is type(p))) for p in (TextPart(""), ThinkingPart(""))
        ]
        assert said is None or now == said
        said = now


# ------------------------------------------------------------------ through a real socket


@asynccontextmanager
async def serving(recording: Recording) -> AsyncGenerator[str, None]:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        headers = {k: v for k, v in recording.meta["headers"].items() if k in ("content-type", "retry-after")}
        response = web.StreamResponse(status=recording.status, headers=headers)
        if not recording.streamed:
            response.content_length = len(recording.body)
        await response.prepare(request)
        for i in range(0, len(recording.body), 1_000):
            await response.write(recording.body[i : i + 1_000])
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def test_recorded_replies_through_a_socket() -> None:
    http = Http(limits=Limits(connect=5, first_byte=5, idle=5))
    for case in CASES:
        recording = Recording(case)
        async with serving(recording) as url:
            row = Vendor(dialect="openai_chat", local=True)
            provider = HttpProvider(
                recording.vendor, row, recording.dialect, base_url=url, api_key=None, key_name="", http=http
            )
            parts: list[Part] = []
            params = CompletionParams(model="m", messages=[user_message("hi")])
            try:
                async with provider.stream(params) as reply:
                    async for some in reply:
                        parts += some
                    check(recording, reply.message, None)
            except ProviderError as error:
                check_error(recording.expected["error"], error)
            text = "".join(p.text for p in parts if isinstance(p, TextPart))
            assert text == recording.expected["text"] or text in recording.expected.get("text_alternatives", [])
    await http.aclose()


# ------------------------------------------------------------------ damaged in any way

ODD: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "",
    "x",
    "\ud83c",
    [],
    [None],
    {},
    {"a": 1},
    [{"type": "text", "text": "t"}],
    10**30,
]


def damaged(value: Any, generator: random.Random, chance: float) -> Any:
    """The value with some of its parts replaced by something of another kind."""
    if generator.random() < chance:
        return generator.choice(ODD)
    if isinstance(value, dict):
        return {k: damaged(v, generator, chance) for k, v in value.items() if generator.random() > chance / 2}
    if isinstance(value, list):
        return [damaged(v, generator, chance) for v in value]
    return value


@each_case
def test_no_damage_breaks_the_reader(case: Path) -> None:
    """Whatever a vendor sends, there is a message that can be stored and sent, or one of our errors."""
    recording = Recording(case)
    if recording.status != 200 or len(recording.body) > 100_000:
        pytest.skip("nothing to damage, or too much")
    generator = random.Random(case.name)
    for chance in (0.005, 0.03, 0.2):
        reader = recording.reader()
        if recording.streamed:
            lines = recording.body.decode("utf-8-sig").splitlines()
            pieces = [damage_line(line, generator, chance) for line in lines]
        elif recording.body[0] == 0:
            pieces = [
                frame(f.name, json.dumps(damaged(json.loads(f.payload), generator, chance)).encode(), f.kind)
                for f in Frames().feed(recording.body)
            ]
        else:
            pieces = [json.dumps(damaged(json.loads(recording.body), generator, chance)).encode()]
        _, message, _ = read(reader, pieces)
        assert decode_message(encode(message)) is not None
        for call in calls_of(message):
            assert call.id and (call.arguments is None or isinstance(call.arguments, dict))
        history = [
            user_message("hi"),
            message,
            *(tool_result(c.id, "1") for c in calls_of(message)),
            user_message("go"),
        ]
        params = CompletionParams(model="m", messages=history)
        json.loads(recording.dialect.request(params, base_url="http://h", api_key=None).body)


def damage_line(line: str, generator: random.Random, chance: float) -> bytes:
    payload, bare = line.removeprefix("data:").strip(), line.startswith("{")
    if not (line.startswith("data:") or bare) or not payload.startswith("{") or not payload.endswith("}"):
        return line.encode() + b"\n"
    return (b"" if bare else b"data: ") + json.dumps(damaged(json.loads(payload), generator, chance)).encode() + b"\n"
