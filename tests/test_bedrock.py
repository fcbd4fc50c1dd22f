"""Bedrock Converse: what is sent, what is read, signatures and keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import environ, orkas
from histories import PNG, askable, histories, picture
from orkas import Agent, tool
from orkas.harness.tool import ToolResult
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    calls_of,
    decode_message,
    encode,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.infra.secrets import Secret
from orkas.providers.accounts.auth import Keys
from orkas.providers.accounts.logins import Login, Logins
from orkas.providers.base import CompletionParams, ToolDef
from orkas.providers.bedrock import Bedrock
from orkas.providers.bedrock.eventstream import Frames
from orkas.providers.bedrock.request import API
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say, Whole, call
from orkas.testing.rendering_bedrock import frame
from orkas.testing.rules import Rejection, check_bedrock, check_http

Body = dict[str, Any]
CLAUDE, NEWER = "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-opus-4-6-v1"
NOVA, MISTRAL, GPT = "us.amazon.nova-2-lite-v1:0", "mistral.mistral-large-2402-v1:0", "openai.gpt-oss-120b-1:0"
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
STAMPS = [(f"bedrock/{CLAUDE}", API), (f"bedrock/{NOVA}", API), ("anthropic/claude", "anthropic_messages"), ("", "")]
MARK = {"cachePoint": {"type": "default"}}


def sent(messages: list[Message], model: str = CLAUDE, dialect: Bedrock | None = None, **more: Any) -> Body:
    params = CompletionParams(model=model, messages=messages, **more)
    request = (dialect or Bedrock()).request(params, base_url="http://h/model", api_key="k")
    body: Body = json.loads(request.body)
    if messages:
        assert check_bedrock(body, model=model) is None
    return body


def said(*blocks: Block, model: str = f"bedrock/{CLAUDE}", stop: str = "stop") -> AssistantMessage:
    return AssistantMessage(list(blocks), model, API, stop)


def use(id: str = "c1", name: str = "add", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


# ------------------------------------------------------------------ what is sent


def test_a_request() -> None:
    messages: list[Message] = [
        user_message("look", [Image(media_type="image/jpeg", data=PNG)]),
        said(Thinking(text="hm", signature="c2ln"), Thinking(redacted="cmVk"), Text(text="ok"), use("x", a=1), use("y")),
        tool_result("x", "1"),
        tool_result("y", "", is_error=True),
        picture("y"),
        user_message("and?"),
        user_message("now"),
    ]
    params = CompletionParams(CLAUDE, messages, system="sys", tools=[ADD], max_output=9_000, thinking="high")
    request = Bedrock().request(params, base_url="http://h/model/", api_key="k")
    assert request.url == f"http://h/model/{CLAUDE}/converse-stream"
    assert request.headers["authorization"] == "Bearer k"
    assert json.loads(request.body) == {
        "inferenceConfig": {"maxTokens": 9_000},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 7_976}},
        "system": [{"text": "sys"}, MARK],
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "add", "description": "Add.", "inputSchema": {"json": ADD.parameters}}}, MARK,
        ]},
        "messages": [
            {"role": "user", "content": [{"image": {"format": "jpeg", "source": {"bytes": PNG}}}, {"text": "look"}]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": "cmVk"}},
                {"text": "ok"},
                {"toolUse": {"toolUseId": "x", "name": "add", "input": {"a": 1}}},
                {"toolUse": {"toolUseId": "y", "name": "add", "input": {}}},
            ]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "x", "content": [{"text": "1"}]}},
                {"toolResult": {"toolUseId": "y", "status": "error", "content": [
                    {"text": "(no output)"}, {"image": {"format": "png", "source": {"bytes": PNG}}},
                ]}},
                {"text": "and?"}, {"text": "now"}, MARK,
            ]},
        ],
    }  # fmt: skip


def test_model_names_in_the_address() -> None:
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5"
    for model, wanted in ((arn, arn.replace("/", "%2F")), ("a?b#c d", "a%3Fb%23c%20d")):
        params = CompletionParams(model, [user_message("hi")])
        assert Bedrock().request(params, base_url="http://h/model", api_key="k").url == (
            f"http://h/model/{wanted}/converse-stream"
        )


def test_a_history_with_calls_names_its_tools_even_if_none_are_offered() -> None:
    history: list[Message] = [user_message("hi"), said(use("a"), use("b", "look")), tool_result("a", ""), tool_result("b", "")]
    for model in (CLAUDE, NOVA, MISTRAL):
        specs = sent(history, model)["toolConfig"]["tools"]
        assert [s["toolSpec"]["name"] for s in specs if "toolSpec" in s] == ["add", "look"]
    assert "toolConfig" not in sent([user_message("hi")])


def test_how_each_maker_is_told_to_think() -> None:
    def told(model: str, level: Any, **more: Any) -> tuple[Any, Any]:
        body = sent([user_message("hi")], model, thinking=level, **more)
        return body.get("additionalModelRequestFields"), body.get("inferenceConfig", {}).get("maxTokens")

    assert told(CLAUDE, None) == (None, None)
    assert told(CLAUDE, "low") == ({"thinking": {"type": "enabled", "budget_tokens": 2_048}}, 16_384)
    assert told(CLAUDE, "low", max_output=1_500) == (None, 1_500)
    assert told(CLAUDE, "off")[0] == {"thinking": {"type": "disabled"}}
    assert told(NEWER, "high")[0] == {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}
    assert told(NOVA, "medium", max_output=9) == (
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}}, 9,
    )  # fmt: skip
    assert told(NOVA, "high", max_output=9)[1] is None
    assert told(GPT, "off")[0] == {"reasoning_effort": "low"}
    assert told(MISTRAL, "high") == (None, None)
    assert told("anthropic.claude-3-haiku-20240307-v1:0", "high") == (None, None)


def test_a_loop_that_began_without_thinking_ends_without() -> None:
    foreign = AssistantMessage([Text(text="a"), use()], "openai/m", "openai_chat", "tool_use")
    history: list[Message] = [user_message("hi"), foreign, tool_result("c1", "1")]
    assert "additionalModelRequestFields" not in sent(history, thinking="low")
    mine = said(Thinking(text="hm", signature="c2ln"), use())
    assert "additionalModelRequestFields" in sent([history[0], mine, history[2]], thinking="low")


def test_marks_of_the_cache_stand_where_the_model_knows_them() -> None:
    def marks(model: str) -> list[bool]:
        body = sent([user_message("hi")], model, system="s", tools=[ADD])
        rows = (body["system"], body["toolConfig"]["tools"], body["messages"][-1]["content"])
        return [row[-1] == MARK for row in rows]

    assert marks(CLAUDE) == [True, True, True] and marks(NOVA) == [True, False, True]
    assert marks(MISTRAL) == marks("anthropic.claude-3-haiku-20240307-v1:0") == [False] * 3


def test_what_other_models_and_servers_left() -> None:
    server = Opaque(kind="toolUse:server_tool_use", vendor={"toolUse": {"toolUseId": "s"}})
    mine = said(Thinking(text="hm", signature="c2ln"), server, Text(text="ok"), Thinking(text="so", signature="c2ln"))
    for model in (NOVA, MISTRAL):
        assert sent([user_message("hi"), mine, user_message("go")], model)["messages"][1]["content"] == [{"text": "ok"}]
    own = sent([user_message("hi"), mine, user_message("go")])["messages"][1]["content"]
    assert [next(iter(b)) for b in own] == ["reasoningContent", "text"]


def test_some_models_take_words_and_calls_apart_only() -> None:
    history: list[Message] = [user_message("hi"), said(Text(text="ok"), use()), tool_result("c1", "1"), user_message("go")]
    (_, called, answered, ok, last) = sent(history, MISTRAL)["messages"]
    assert [next(iter(b)) for b in called["content"] + answered["content"]] == ["toolUse", "toolResult"]
    assert ok == {"role": "assistant", "content": [{"text": "OK."}]} and last["content"] == [{"text": "go"}]


def test_pictures_that_no_result_may_hold() -> None:
    within = ToolMessage("c1", [Text(text="1"), Image(media_type="image/png", data=PNG)])
    history: list[Message] = [user_message("hi"), said(use()), within]
    held = sent(history)["messages"][-1]["content"][0]["toolResult"]["content"]
    assert [next(iter(b)) for b in held] == ["text", "image"]
    noted = sent(history, MISTRAL)["messages"][-1]["content"][0]["toolResult"]["content"]
    assert "a result holds text only" in noted[1]["text"]
    long_gone = sent([user_message("hi"), picture("gone")])
    assert "image" in long_gone["messages"][0]["content"][1]


def test_odd_beginnings_and_ends() -> None:
    hello = said(Text(text="hello"))
    assert [m["role"] for m in sent([hello, user_message("hi")])["messages"]] == ["user", "assistant", "user"]
    assert sent([user_message("hi"), hello])["messages"][-1]["content"] == [{"text": "Continue."}, MARK]
    assert sent([user_message("")])["messages"][0]["content"] == [{"text": "(empty)"}, MARK]
    assert sent([])["messages"] == []


@settings(max_examples=150, deadline=None)
@given(histories(STAMPS), st.sampled_from([CLAUDE, NOVA, MISTRAL, GPT]))
def test_any_history_gives_a_valid_request(history: list[Message], model: str) -> None:
    kept = [encode(m) for m in history]
    sent(history, model, system="s")
    assert [encode(m) for m in history] == kept


@settings(max_examples=100, deadline=None)
@given(histories(STAMPS), st.sampled_from([CLAUDE, MISTRAL]))
def test_requests_grow_at_their_end_only(history: list[Message], model: str) -> None:
    running, before = Bedrock(), b""
    mark = b"," + json.dumps(MARK, separators=(",", ":")).encode()
    for n in range(1, len(history) + 1):
        if not askable(history, n):
            continue
        params = CompletionParams(model, history[:n], system="s", tools=[ADD])
        body = running.request(params, base_url="http://h", api_key="k").body
        assert body == Bedrock().request(params, base_url="http://h", api_key="k").body
        if type(history[n - 1]) is not AssistantMessage:
            assert body.startswith(before)
            before = body.removesuffix(b"]}]}").removesuffix(mark)


def test_old_messages_are_written_once_and_again_from_their_bytes() -> None:
    """Counted by the pictures that are read for it; those that a result took up are read again with their round."""
    read: list[str] = []

    def media(file: str) -> bytes:
        read.append(file)
        return b"pixels"

    history: list[Message] = []
    for n in range(20):
        within = ToolMessage(f"c{n}", [Text(text="1"), Image(media_type="image/png", file=f"r{n}.png")])
        history += [user_message("see", [Image(media_type="image/png", file=f"{n}.png")]), said(use(f"c{n}")), within]
        history.append(said(Text(text="ok")))
    dialect = Bedrock()
    for _ in range(5):
        history.append(user_message("go"))
        sent(history, dialect=dialect, media=media)
    assert len(read) == 40
    rewound = sent(history[:40], dialect=dialect, media=media)
    assert len(read) == 40 and rewound == sent(history[:40], media=media)
    shown = [*history[:3], picture("c0")]
    assert "iVBORw0KGgo=" in json.dumps(sent(shown, dialect=dialect, media=media)["messages"][-1])


# ------------------------------------------------------------------ what is read


def event(name: str, **fields: Any) -> bytes:
    return frame(name, json.dumps(fields).encode())


def delta(index: int = 0, **fields: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=fields)


def start(index: int = 0, **fields: Any) -> bytes:
    return event("contentBlockStart", contentBlockIndex=index, start=fields)


END = event("messageStop", stopReason="end_turn") + event("metadata", usage={"inputTokens": 3, "outputTokens": 2})


def heard(body: bytes, size: int) -> AssistantMessage | ProviderError:
    reader = Bedrock().reader(model=f"bedrock/{CLAUDE}")
    parts = [p for i in range(0, len(body), size) for p in reader.feed(body[i : i + size])] + reader.feed(b"")
    partial = reader.partial()
    assert partial.stop_reason == "error" and all(c.arguments is None for c in calls_of(partial))
    assert decode_message(encode(partial)) is not None
    assert "".join(p.text for p in parts) == "".join(getattr(b, "text", "") for b in partial.content)
    try:
        return reader.close()
    except ProviderError as error:
        return error


def reply(body: bytes) -> AssistantMessage:
    first, *rest = (heard(body, size) for size in (1, 7, 100_000))
    assert isinstance(first, AssistantMessage), first
    for other in rest:
        assert isinstance(other, AssistantMessage)
        assert [type(b) for b in other.content] == [type(b) for b in first.content]
        assert (text_of(other), other.stop_reason, other.usage) == (text_of(first), first.stop_reason, first.usage)
    return first


def failure(body: bytes) -> ProviderError:
    for size in (1, 7, 100_000):
        error = heard(body, size)
        assert isinstance(error, ProviderError), error
    return error


def test_every_kind_of_block() -> None:
    body = (
        event("messageStart", role="assistant")
        + delta(reasoningContent={"text": "h"}) + delta(reasoningContent={"text": "m"})
        + delta(reasoningContent={"signature": "c2"}) + delta(reasoningContent={"signature": "ln"})
        + delta(1, reasoningContent={"redactedContent": "cmVk"}) + delta(2, text="o") + delta(2, text="k")
        + start(3, toolUse={"toolUseId": "c1", "name": "f"}) + delta(3, toolUse={"input": '{"a"'})
        + delta(3, toolUse={"input": ": 1}"}) + start(4, toolUse={"toolUseId": "c1", "name": "g"})
        + start(5, toolUse={"toolUseId": "s", "name": "web", "type": "server_tool_use"}) + delta(5, toolUse={"input": "{}"})
        + start(6, toolResult={"toolUseId": "s", "status": "success"}) + delta(6, toolResult=[{"text": "found"}])
        + event("contentBlockStop", contentBlockIndex=6) + event("of a kind to come", x=[1]) + END
    )  # fmt: skip
    message = reply(body)
    assert message.stop_reason == "tool_use"
    first, second = calls_of(message)
    assert (first.id, first.arguments, first.arguments_raw) == ("c1", {"a": 1}, '{"a": 1}')
    assert second.arguments == {} and second.id not in ("", "c1")
    assert [b for b in message.content if type(b) is not ToolCall] == [
        Thinking(text="hm", signature="c2ln"), Thinking(redacted="cmVk"), Text(text="ok"),
        Opaque(kind="toolUse:server_tool_use", vendor={
            "toolUse": {"toolUseId": "s", "name": "web", "input": {}, "type": "server_tool_use"},
        }),
        Opaque(kind="toolResult", vendor={
            "toolResult": {"toolUseId": "s", "status": "success", "content": [{"text": "found"}]},
        }),
    ]  # fmt: skip
    assert message.usage is not None and (message.usage.input, message.usage.output) == (3, 2)


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("guardrail_intervened", "content_filter"),
     ("content_filtered", "content_filter"), ("model_context_window_exceeded", "overflow"), ("new", "stop"),
     ("malformed_tool_use", "error")],
)  # fmt: skip
def test_reasons(raw: str, wanted: str) -> None:
    body = delta(text="a") + event("messageStop", stopReason=raw)
    assert reply(body).stop_reason == wanted
    call_ = start(1, toolUse={"toolUseId": "c", "name": "f"}) + delta(1, toolUse={"input": '{"a":1}'})
    (made,) = calls_of(reply(call_ + event("messageStop", stopReason=raw)))
    assert (made.arguments is None) == (wanted in ("length", "content_filter", "overflow"))


@pytest.mark.parametrize(
    ("name", "message", "class_"),
    [("throttlingException", "Too many tokens, please wait before trying again.", "rate_limit"),
     ("validationException", "Input is too long for requested model.", "context_overflow"),
     ("validationException", "The text field in the ContentBlock object is blank.", "invalid_request"),
     ("serviceUnavailableException", "Bedrock is unable to process your request.", "overloaded"),
     ("internalServerException", "The system encountered an unexpected error.", "server"),
     ("modelStreamErrorException", "Model produced invalid sequence as part of ToolUse.", "server")],
)  # fmt: skip
def test_exceptions_in_the_place_of_an_event(name: str, message: str, class_: str) -> None:
    body = delta(text="a") + frame(name, json.dumps({"message": message}).encode(), "exception") + END
    error = failure(body)
    assert (error.class_, message in error.message) == (class_, True)


def test_without_a_stop_nothing_is_whole() -> None:
    for body in (b"", b"\n", delta(text="a"), (delta(text="a") + END)[:-1], delta(text="a") + END[:30]):
        error = heard(body, 5)
        if body != (delta(text="a") + END)[:-1]:  # the figures alone are lost there
            assert isinstance(error, ProviderError) and error.class_ == "connection", body


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damaged_byte_is_believed(data: st.DataObject) -> None:
    call_ = start(1, toolUse={"toolUseId": "c", "name": "f"}) + delta(1, toolUse={"input": '{"a":1}'})
    body = bytearray(delta(text="a") + call_ + END)
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    result = heard(bytes(body), data.draw(st.sampled_from([1, 9, 1_000])))
    if isinstance(result, AssistantMessage):  # only the figures, behind the stop, may be lost
        assert at >= len(body) - len(event("metadata", usage={"inputTokens": 3, "outputTokens": 2}))
    else:
        assert result.class_ in ("connection", "server", "invalid_request")


def invoked(**said: Any) -> bytes:
    raw = base64.b64encode(json.dumps(said).encode()).decode()
    return event("chunk", bytes=raw, p="abc")


def test_claudes_own_form_inside() -> None:
    block, delta_ = "content_block_start", "content_block_delta"
    body = (
        invoked(type="message_start", message={"usage": {"input_tokens": 3, "cache_read_input_tokens": 4}})
        + invoked(type=block, index=0, content_block={"type": "thinking", "thinking": "", "signature": ""})
        + invoked(type=delta_, index=0, delta={"type": "thinking_delta", "thinking": "hm"})
        + invoked(type=delta_, index=0, delta={"type": "signature_delta", "signature": "c2ln"})
        + invoked(type=block, index=1, content_block={"type": "redacted_thinking", "data": "cmVk"})
        + invoked(type=block, index=2, content_block={"type": "text", "text": ""}) + event("chunk", bytes="no!")
        + invoked(type=delta_, index=2, delta={"type": "text_delta", "text": "ok"}) + invoked(type="ping")
        + invoked(type=block, index=3, content_block={"type": "tool_use", "id": "c1", "name": "f", "input": {}})
        + invoked(type=delta_, index=3, delta={"type": "input_json_delta", "partial_json": '{"a":1}'})
        + invoked(type="message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5})
    )  # fmt: skip
    assert failure(body).class_ == "connection"
    message = reply(body + invoked(type="message_stop"))
    assert message.content[:3] == [Thinking(text="hm", signature="c2ln"), Thinking(redacted="cmVk"), Text(text="ok")]
    assert calls_of(message)[0].arguments == {"a": 1} and message.stop_reason == "tool_use"
    assert message.usage is not None
    assert (message.usage.input, message.usage.cache_read, message.usage.output) == (3, 4, 5)
    fault = {"type": "overloaded_error", "message": "Overloaded"}
    assert failure(body + invoked(type="error", error=fault)).class_ == "overloaded"
    whole = {"type": "message", "stop_reason": "tool_use", "usage": {"input_tokens": 3}, "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "text", "text": "ok"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    ]}  # fmt: skip
    other = reply(json.dumps(whole).encode())
    assert other.content[:3] == message.content[:3] and calls_of(other)[0].arguments == {"a": 1}


def test_headers_of_every_type() -> None:
    import struct
    from zlib import crc32

    values = [b"\x00", b"\x01", b"\x02x", b"\x03xx", b"\x04xxxx", b"\x05xxxxxxxx", b"\x06\x00\x02xx", b"\x08xxxxxxxx",
              b"\x09" + b"x" * 16]  # fmt: skip
    headers = b"".join(bytes([2]) + b"h%d" % i + v for i, v in enumerate(values))
    headers += b"\x0d:message-type\x07\x00\x05event\x0b:event-type\x07\x00\x01e"
    prelude = struct.pack(">II", 16 + len(headers) + 2, len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + b"{}"
    message += struct.pack(">I", crc32(message))
    ((kind, name, payload, _),) = Frames().feed(message)
    assert (kind, name, payload) == ("event", "e", b"{}")


def test_lengths_that_cannot_be_are_not_waited_for() -> None:
    frames = Frames()
    assert frames.feed(b"\x7f\xff\xff\xff" + b"\x00" * 8) == [] and frames.damaged


def test_other_answers() -> None:
    assert failure(b"<html><body>Log in</body></html>").class_ == "invalid_request"
    assert failure(b'{"message": "Too many requests, please wait before trying again."}').class_ == "rate_limit"
    assert failure(b'{"output": {"message": ').class_ == "connection"
    cited = {"citationsContent": {"content": [{"text": "the sky "}, {"text": "is blue"}, 1], "citations": []}}
    whole = {"output": {"message": {"content": [cited]}}, "stopReason": "end_turn"}
    assert text_of(reply(json.dumps(whole).encode())) == "the sky is blue"
    for content in ([], [1], [{"text": 1}], [{"toolUse": 1}], [{"reasoningContent": {}}], "x"):
        whole = {"output": {"message": {"content": content}}, "stopReason": "end_turn"}
        result = heard(json.dumps(whole).encode(), 9)
        assert isinstance(result, AssistantMessage | ProviderError)
    whole = {"output": {"message": {"content": [{"toolUse": {"name": "f", "input": [1]}}]}}, "stopReason": "tool_use"}
    assert calls_of(reply(json.dumps(whole).encode()))[0].arguments is None


def test_halves_of_surrogate_pairs_are_joined() -> None:
    reader = Bedrock().reader(model="bedrock/m")
    reader.feed(delta(text="a\ud83c") + delta(text="\udf78b") + delta(text="\ud83c") + END)
    assert text_of(reader.close()) == "a\U0001f378b\ufffd"


# ------------------------------------------------------------------ through a socket

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secretsecret", "AWS_REGION": "eu-west-1"}


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


@pytest.mark.parametrize("form", [Say, lambda pieces: Whole(Say(pieces))], ids=["events", "body"])
async def test_a_script_is_spoken(vendor: FakeVendor, form: Callable[[Any], Any]) -> None:
    said_ = [Thinking(text="hm"), "so ", "be it", call("add", id="c1", a=2), call("add", id="c2", b="ü")]
    vendor.script([form(said_), form(["seven"])])
    provider, model = resolve(f"bedrock/{CLAUDE}", base_url=vendor.base_url, environ={"AWS_BEARER_TOKEN_BEDROCK": "key"})
    history: list[Message] = [user_message("hi")]
    first = await provider.complete(CompletionParams(model, history, tools=[ADD]))
    assert [type(b) for b in first.content] == [Thinking, Text, ToolCall, ToolCall]
    history += [first, *(tool_result(c.id, "5") for c in calls_of(first))]
    last = await provider.complete(CompletionParams(model, history, tools=[ADD]))
    assert text_of(last) == "seven" and last.stop_reason == "stop"
    assert vendor.requests[-1].path == f"/model/{CLAUDE}/converse-stream"
    assert vendor.requests[-1].headers["authorization"] == "Bearer key"
    await provider.aclose()


async def test_requests_signed_with_an_access_key(vendor: FakeVendor) -> None:
    vendor.keys = ["AKIDEXAMPLE"]
    vendor.script(["hi"])
    arn = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5"
    provider, model = resolve(f"bedrock/{arn}", base_url=vendor.base_url, environ={**KEYS, "AWS_SESSION_TOKEN": "t"})
    assert text_of(await provider.complete(CompletionParams(model, [user_message("hi")]))) == "hi"
    request = vendor.requests[-1]
    assert request.path == f"/model/{arn.replace('/', '%2F')}/converse-stream"  # the bytes that were signed
    assert request.headers["x-amz-security-token"] == "t" and "secretsecret" not in repr(request)
    assert f"/{KEYS['AWS_REGION']}/bedrock/aws4_request" in request.headers["authorization"]
    assert (await provider.validate_auth()).ok and vendor.requests[-1].path == "/foundation-models"
    vendor.keys = ["another"]
    status = await provider.validate_auth()
    assert status.ok is False and "security token" in status.message
    await provider.aclose()


async def test_keys_and_regions() -> None:
    with pytest.raises(UsageError, match="region"):
        resolve(f"bedrock/{CLAUDE}", environ={"AWS_BEARER_TOKEN_BEDROCK": "k"})
    provider, model = resolve(f"bedrock/{CLAUDE}", environ={"AWS_REGION": "us-east-1"})
    request = provider.request(CompletionParams(model, [user_message("hi")]))
    assert request.url == f"https://bedrock-runtime.us-east-1.amazonaws.com/model/{CLAUDE}/converse-stream"
    with pytest.raises(ProviderError, match="AWS_BEARER_TOKEN_BEDROCK, BEDROCK_API_KEY or AWS_ACCESS_KEY_ID with AWS_SECRET") as caught:
        await provider.complete(CompletionParams(model, [user_message("hi")]))
    assert caught.value.class_ == "auth"
    both, _ = resolve(f"bedrock/{CLAUDE}", environ={**KEYS, "AWS_BEARER_TOKEN_BEDROCK": "bearer"})
    assert both.request(CompletionParams(model, [])).headers["authorization"] == "Bearer bearer"
    assert provider.info(CLAUDE).context_window == 200_000 and provider.info(NOVA).context_window == 1_000_000


def test_whose_requests_are_signed() -> None:
    """An access key signs where nothing else was given, before a stored login; the commands know of it."""

    def shown(environ: dict[str, str], **given: Any) -> str:
        url = "https://bedrock-runtime.eu-west-1.amazonaws.com"
        provider, model = resolve(f"bedrock/{CLAUDE}", base_url=url, environ=environ, **given)
        return provider.request(CompletionParams(model, [])).headers.get("authorization", "")

    Logins().put("bedrock", Login(keys=(Secret("stored-key"),)))
    assert shown({}) == "Bearer stored-key"
    assert shown(KEYS).startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert shown(KEYS, api_key="given") == "Bearer given"
    assert shown(KEYS, credentials=Keys(["token"], bearer=True)) == "Bearer token"
    found = {row["vendor"]: row for row in orkas("models", "--json", env=environ(**KEYS, GOOGLE_CLOUD_PROJECT="p")).json}
    assert found["bedrock"]["key"] == "AWS_SECRET_ACCESS_KEY" and "eu-west-1" in found["bedrock"]["base_url"]
    assert "set AWS_REGION" in orkas("models").out


async def test_an_agent_works_with_bedrock(vendor: FakeVendor, tmp_path: Path) -> None:
    """A whole turn through the loop: an odd tool name, two calls at once, a picture among the results."""

    @tool(name="2add")
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    @tool
    def snap() -> ToolResult:
        """Take a picture."""
        return ToolResult("taken", images=[Image(media_type="image/png", data=PNG)])

    def calls(request: Any) -> list[Any]:
        names = [t["toolSpec"]["name"] for t in request.body["toolConfig"]["tools"] if "toolSpec" in t]
        return [Thinking(text="hm"), "wait", call(names[0], a=2, b=3), call(names[1])]

    vendor.script([calls, ["it is 5"]])
    agent = Agent(f"bedrock/{CLAUDE}", tools=[add, snap], cwd=tmp_path, base_url=vendor.base_url, api_key="k")
    result = await agent.run("2 + 3? and a picture")
    await agent.aclose()
    assert result.text == "it is 5" and [r.status for r in vendor.requests] == [200, 200]
    answers = [b["toolResult"]["content"] for b in (vendor.requests[1].body or {})["messages"][-1]["content"][:2]]
    assert [next(iter(b)) for b in answers[1]] == ["text", "image"] and answers[0] == [{"text": "5"}]


# ------------------------------------------------------------------ the strict vendor


def full_body() -> Body:
    use_ = {"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    return {
        "inferenceConfig": {"maxTokens": 4_000}, "system": [{"text": "s"}, MARK],
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1_024}},
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": {"type": "object"}}}}, MARK,
        ]},
        "messages": [
            {"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]},
            {"role": "assistant", "content": [thought, {"text": "ok"}, use_]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "1"}]}}, MARK]},
        ],
    }  # fmt: skip


def content(body: Body, i: int) -> list[Body]:
    found: list[Body] = body["messages"][i]["content"]
    return found


def spec(body: Body) -> Body:
    found: Body = body["toolConfig"]["tools"][0]["toolSpec"]
    return found


REFUSED: dict[str, tuple[Callable[[Body], Any], str]] = {
    "unknown field": (lambda b: b.update(stream=True), "extraneous key [stream] is not permitted"),
    "no messages": (lambda b: b.update(messages=[]), "at 'messages' failed to satisfy constraint"),
    "role": (lambda b: b["messages"][0].update(role="system"), "Member must satisfy enum value set: [user, assistant]"),
    "no content": (lambda b: content(b, 0).clear(), "The content field in the Message object at messages.0 is empty."),
    "blank text": (lambda b: content(b, 0)[0].update(text=" "), "ContentBlock object at messages.0.content.0 is blank"),
    "blank system": (lambda b: b["system"][0].update(text=""), "SystemContentBlock object at system.0 is blank"),
    "image": (lambda b: content(b, 0)[1]["image"]["source"].update(bytes="no!"), "Invalid base64 string"),
    "image kind": (lambda b: content(b, 0)[1]["image"].update(format="tiff"), "Could not process image"),
    "id": (lambda b: content(b, 1)[2]["toolUse"].update(toolUseId="a b"), "regular expression pattern: [a-zA-Z0-9_.:-]+"),
    "long id": (lambda b: content(b, 1)[2]["toolUse"].update(toolUseId="a" * 65), "length less than or equal to 64"),
    "name": (lambda b: spec(b).update(name="a b"), "toolSpec.name' failed to satisfy constraint"),
    "input": (lambda b: content(b, 1)[2]["toolUse"].update(input="{}"), "Provide a json object for the field"),
    "result gone": (lambda b: content(b, 2).pop(0), "Expected toolResult blocks at messages.2.content for the following Ids: c1"),
    "results gone": (lambda b: b["messages"].pop(), "Expected toolResult blocks at messages.2.content"),
    "call gone": (lambda b: content(b, 1).pop(), "exceeds the number of toolUse blocks of previous turn."),
    "words first": (lambda b: content(b, 2).insert(0, {"text": "a"}), "`tool_result` blocks immediately after"),
    "empty error": (
        lambda b: content(b, 2)[0]["toolResult"].update(content=[], status="error"),
        "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",
    ),
    "blank result": (
        lambda b: content(b, 2)[0]["toolResult"].update(content=[{"text": ""}]), "messages.2.content.0.toolResult.content.0",
    ),
    "assistant first": (lambda b: b["messages"].pop(0), "A conversation must start with a user message."),
    "twice": (lambda b: b["messages"].append({"role": "user", "content": [{"text": "a"}]}), "must alternate"),
    "assistant last": (
        lambda b: b["messages"].append({"role": "assistant", "content": [{"text": "a"}]}), "must end with a user message",
    ),
    "no tools": (
        lambda b: b.pop("toolConfig"), "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    ),
    "schema": (lambda b: spec(b)["inputSchema"].update(json={}), "inputSchema.json.type must be one of the following: object"),
    "description": (lambda b: spec(b).update(description=""), "length greater than or equal to 1"),
    "same name": (lambda b: b["toolConfig"]["tools"].append({"toolSpec": spec(b)}), "is already defined"),
    "five marks": (lambda b: content(b, 2).extend([MARK, MARK]), "A maximum of 4 blocks with cache_control"),
    "mark first": (lambda b: content(b, 0).insert(0, MARK), "cachePoint cannot be the first"),
    "signature": (
        lambda b: content(b, 1)[0]["reasoningContent"]["reasoningText"].update(signature="b2xk"), "Invalid `signature`",
    ),
    "thought changed": (
        lambda b: content(b, 1)[0]["reasoningContent"]["reasoningText"].update(text="so"), "Invalid `signature`",
    ),
    "no signature": (
        lambda b: content(b, 1)[0]["reasoningContent"]["reasoningText"].pop("signature"), "signature: Field required",
    ),
    "redacted": (lambda b: content(b, 1)[0].update(reasoningContent={"redactedContent": "x"}), "redacted_thinking"),
    "no thought": (lambda b: content(b, 1).pop(0), "Expected `thinking` or `redacted_thinking`, but found `text`"),
    "budget": (lambda b: b["inferenceConfig"].update(maxTokens=1_000), "must be greater than"),
    "no output": (lambda b: b["inferenceConfig"].update(maxTokens=0), "greater than or equal to 1"),
    "half a pair": (lambda b: content(b, 0)[0].update(text="\ud83c"), "Unable to parse request body"),
}  # fmt: skip


def refusal(change: Callable[[Body], Any], model: str = CLAUDE) -> Rejection | None:
    body = full_body()
    change(body)
    return check_bedrock(body, model=model, signatures={"c2ln": "hm"})


@pytest.mark.parametrize("name", REFUSED)
def test_bedrock_refuses(name: str) -> None:
    assert refusal(lambda _: None) is None
    change, words = REFUSED[name]
    refused = refusal(change)
    assert refused is not None and words in refused.message
    assert json.loads(refused.body("bedrock")) == {"message": refused.message}


def test_what_only_some_models_take() -> None:
    mixed = refusal(lambda b: b.pop("additionalModelRequestFields"), MISTRAL)
    assert mixed is not None and "cannot be provided in the same turn" in mixed.message
    plain = {"messages": [{"role": "user", "content": [{"text": "hi"}, MARK]}]}
    refused = check_bedrock(plain, model=MISTRAL)
    assert refused is not None and "did not allow prompt caching" in refused.message
    assert check_bedrock(plain, model=NOVA) is None


@pytest.mark.parametrize(
    ("header", "status"),
    [("", 403), ("Bearer no", 403), ("Bearer k", 0), ("AWS4-HMAC-SHA256 Credential=k", 403),
     (f"AWS4-HMAC-SHA256 Credential=k/20260101/eu-west-1/bedrock/aws4_request, SignedHeaders=host, Signature={'0' * 64}", 0)],
)  # fmt: skip
def test_keys(header: str, status: int) -> None:
    refused = check_http("bedrock", {"authorization": header}, 0, ["k"])
    assert (refused.status if refused else 0) == status


def test_amazons_own_library_reads_the_fake() -> None:
    stream = pytest.importorskip("botocore.eventstream", reason="botocore is not installed")
    from orkas.testing.rendering_bedrock import bedrock_frames

    buffer = stream.EventStreamBuffer()
    for piece in bedrock_frames(Say(["he", "llo", call("add", id="c1", a=2)]), {}):
        assert isinstance(piece, bytes)
        buffer.add_data(piece)
    events = [(e.headers[":event-type"], json.loads(e.payload)) for e in buffer]
    assert "".join(e["delta"].get("text", "") for _, e in events if "delta" in e) == "hello"
    assert events[-1][0] == "metadata" and events[-2][1]["stopReason"] == "tool_use"
