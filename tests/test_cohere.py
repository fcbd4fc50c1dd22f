"""Cohere's chat: what is sent, what is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import PNG, askable, histories, picture
from orkas import Agent, tool
from orkas.infra.errors import ProviderError
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    calls_of,
    decode_message,
    encode,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.providers.base import CompletionParams, ToolDef
from orkas.providers.cohere import Cohere
from orkas.providers.cohere.request import API
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say, Whole, call
from orkas.testing.rules import check_cohere

Body = dict[str, Any]
REASONING, PLAIN, EYES = "command-a-reasoning-08-2025", "command-a-03-2025", "command-a-plus-05-2026"
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
STAMPS = [(f"cohere/{REASONING}", API), (f"cohere/{PLAIN}", API), ("openai/m", "openai_chat"), ("", "")]


def sent(messages: list[Message], model: str = REASONING, dialect: Cohere | None = None, **more: Any) -> Body:
    params = CompletionParams(model=model, messages=messages, **more)
    request = (dialect or Cohere()).request(params, base_url="http://h/v2", api_key="k")
    body: Body = json.loads(request.body)
    if messages:
        assert check_cohere(body) is None
    return body


def said(*blocks: Block, plan: str = "", model: str = REASONING, stop: str = "stop") -> AssistantMessage:
    vendor = {"tool_plan": plan} if plan else None
    return AssistantMessage(list(blocks), f"cohere/{model}", API, stop, vendor=vendor)


def use(id: str = "c1", name: str = "add", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


# ------------------------------------------------------------------ what is sent


def test_a_request() -> None:
    messages: list[Message] = [
        user_message("look", [Image(media_type="image/png", data=PNG)]),
        said(Thinking(text="hm"), Text(text="ok"), use("x", a=1), use("y"), plan="I will add."),
        tool_result("x", "1"),
        tool_result("y", "", is_error=True),
        picture("y"),
    ]
    params = CompletionParams(EYES, messages, system="sys", tools=[ADD], max_output=9_000, thinking="high")
    request = Cohere().request(params, base_url="http://h/v2/", api_key="k")
    assert request.url == "http://h/v2/chat" and request.headers["authorization"] == "Bearer k"
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}

    def called(id: str, arguments: str) -> Body:
        return {"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}}

    body = json.loads(request.body)
    assert body == {
        "model": EYES, "stream": True, "max_tokens": 9_000, "thinking": {"type": "enabled", "token_budget": 7_976},
        "tools": [{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": ADD.parameters}}],
        "messages": [
            {"role": "system", "content": "sys"},
            {"role": "user", "content": [image, {"type": "text", "text": "look"}]},
            {"role": "assistant", "tool_plan": "ok", "tool_calls": [called("x", '{"a":1}'), called("y", "{}")]},
            {"role": "tool", "tool_call_id": "x", "content": "1"},
            {"role": "tool", "tool_call_id": "y", "content": "(no output)"},
            {"role": "user", "content": [image]},
        ],
    }  # fmt: skip
    assert sent(messages)["messages"][1] == {
        "role": "assistant", "tool_plan": "I will add.",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}],
        "tool_calls": [called("x", '{"a":1}'), called("y", "{}")],
    }  # fmt: skip
    assert "cannot see images" in sent(messages)["messages"][0]["content"]


def test_how_thinking_is_told() -> None:
    def told(level: Any, model: str = REASONING, **more: Any) -> Any:
        return sent([user_message("hi")], model, thinking=level, **more).get("thinking")

    assert told(None) is None and told("high", PLAIN) is None
    assert told("off") == {"type": "disabled"} and told("low") == {"type": "enabled", "token_budget": 2_048}
    assert told("low", max_output=900) == {"type": "disabled"}


def test_tools_that_may_not_be_called_stay() -> None:
    body = sent([user_message("hi")], tools=[ADD], tool_choice="none")
    assert body["tools"] and body["tool_choice"] == "NONE"
    assert "tool_choice" not in sent([user_message("hi")], tool_choice="none")


def test_odd_beginnings_and_ends() -> None:
    assert sent([user_message("hi"), said(Text(text="a"))])["messages"][-1] == {"role": "user", "content": "Continue."}
    assert sent([user_message("")])["messages"][0]["content"] == "(empty)"
    nothing = said(Thinking(text="hm"), Text(text=" "))
    assert len(sent([user_message("hi"), nothing, user_message("go")])["messages"]) == 2
    assert sent([])["messages"] == []


@settings(max_examples=150, deadline=None)
@given(histories(STAMPS), st.sampled_from([REASONING, PLAIN, EYES]))
def test_any_history_gives_a_valid_request(history: list[Message], model: str) -> None:
    kept = [encode(m) for m in history]
    sent(history, model, system="s")
    assert [encode(m) for m in history] == kept


@settings(max_examples=100, deadline=None)
@given(histories(STAMPS))
def test_requests_grow_at_their_end_only(history: list[Message]) -> None:
    running, before = Cohere(), b""
    for n in range(1, len(history) + 1):
        if not askable(history, n):
            continue
        params = CompletionParams(REASONING, history[:n], system="s", tools=[ADD])
        body = running.request(params, base_url="http://h", api_key="k").body
        assert body == Cohere().request(params, base_url="http://h", api_key="k").body
        if type(history[n - 1]) is not AssistantMessage:
            assert body.startswith(before)
            before = body.removesuffix(b"]}")


# ------------------------------------------------------------------ what is read


def event(kind: str, index: int | None = None, **message: Any) -> bytes:
    fields = {"type": kind, **({} if index is None else {"index": index}), "delta": {"message": message}}
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps(fields).encode())


def end(reason: str = "COMPLETE", **more: Any) -> bytes:
    usage = {"tokens": {"input_tokens": 10.0, "output_tokens": 2}, "cached_tokens": 4, "billed_units": {}}
    delta = {"finish_reason": reason, "usage": usage, **more}
    return b"data: %s\n\ndata: [DONE]\n\n" % json.dumps({"type": "message-end", "delta": delta}).encode()


def words(text: str, index: int = 0) -> bytes:
    return event("content-delta", index, content={"text": text})


def heard(body: bytes, size: int) -> AssistantMessage | ProviderError:
    reader = Cohere().reader(model="cohere/m")
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


def test_every_kind_of_event() -> None:
    start = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    body = (
        event("message-start", role="assistant", content=[], tool_calls=[], citations=[])
        + event("content-start", 0, content={"type": "thinking", "thinking": ""})
        + event("content-delta", 0, content={"thinking": "hm"}) + event("content-end", 0)
        + event("content-start", 1, content={"type": "text", "text": "o"}) + words("k", 1)
        + event("citation-start", 0, citations={"start": 0, "end": 1}) + event("of a kind to come", 9, audio={"x": 1})
        + event("tool-plan-delta", tool_plan="I ") + event("tool-plan-delta", tool_plan="will.")
        + event("tool-call-start", 0, tool_calls=start)
        + event("tool-call-delta", 0, tool_calls={"function": {"arguments": '{"a"'}})
        + event("tool-call-delta", 0, tool_calls={"function": {"arguments": ": 1}"}}) + event("tool-call-end", 0)
        + event("tool-call-start", 1, tool_calls={"function": {"name": "g", "arguments": None}}) + end("TOOL_CALL")
    )  # fmt: skip
    message = reply(body)
    assert message.stop_reason == "tool_use" and message.vendor == {"tool_plan": "I will."}
    assert message.content[:2] == [Thinking(text="hm"), Text(text="ok")]
    first, second = calls_of(message)
    assert (first.id, first.arguments, first.arguments_raw) == ("c1", {"a": 1}, '{"a": 1}')
    assert second.arguments == {} and second.id not in ("", "c1")
    usage = message.usage
    assert usage is not None and (usage.input, usage.cache_read, usage.output) == (6, 4, 2)
    assert type(usage.input) is int


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [("COMPLETE", "stop"), ("STOP_SEQUENCE", "stop"), ("MAX_TOKENS", "length"), ("ERROR", "error"),
     ("ERROR_TOXIC", "content_filter"), ("NEW", "stop")],
)  # fmt: skip
def test_reasons(raw: str, wanted: str) -> None:
    assert reply(words("a") + end(raw)).stop_reason == wanted
    call_ = event("tool-call-start", 0, tool_calls={"id": "c", "function": {"name": "f", "arguments": "{}"}})
    (made,) = calls_of(reply(call_ + end(raw)))
    assert (made.arguments is None) == (wanted in ("length", "content_filter"))


def test_errors_in_the_place_of_an_event() -> None:
    late = words("a") + b'data: {"id":"x","message":"internal server error, this has been reported"}\n\n'
    assert "internal server error" in failure(late).message
    said_ = words("a") + end("ERROR", error="too many tokens: size limit exceeded")
    assert failure(said_).class_ == "context_overflow"
    assert failure(b'{"message":"invalid api token"}').class_ in ("auth", "invalid_request", "server")
    assert failure(b"<html><body>Log in</body></html>").class_ == "invalid_request"


def test_without_an_end_nothing_is_whole() -> None:
    for body in (b"", b"\n", words("a"), words("a") + b"data: [DONE]\n\n", b'{"message":{"content":'):
        assert failure(body).class_ == "connection", body


def test_damage_and_what_is_none() -> None:
    for lost in (b'data: {"type":"content-de\n\n', b'data: "text":"x"}}}}\n\n'):
        assert failure(words("do not ") + lost + words("run it") + end()).class_ == "connection"
    for alive in (b"data: ping\n\n", b"data: null\n\n", b"data: {}\n\n", b": x\n\n"):
        assert text_of(reply(words("a") + alive + end())) == "a"
    torn = b'data: {"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c","function":'
    torn += b'{"name":"f","arguments":"{\\"a\\":\\"\xc3(\\"}"}}}}}\n\n'
    assert calls_of(reply(torn + end()))[0].arguments is None
    reader = Cohere().reader(model="cohere/m")
    reader.feed(words("a\ud83c") + words("\udf78b") + words("\ud83c") + end())
    assert text_of(reader.close()) == "a\U0001f378b\ufffd"


# ------------------------------------------------------------------ through a socket


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor(keys=["good"]) as running:
        yield running


@pytest.mark.parametrize("form", [Say, lambda pieces: Whole(Say(pieces))], ids=["events", "body"])
async def test_a_script_is_spoken(vendor: FakeVendor, form: Callable[[Any], Any]) -> None:
    said_ = [Thinking(text="hm"), "so ", "be it", call("add", id="c1", a=2), call("add", id="c2", b="ü")]
    vendor.script([form(said_), form(["seven"])])
    provider, model = resolve(f"cohere/{REASONING}", base_url=vendor.base_url, environ={"CO_API_KEY": "good"})
    history: list[Message] = [user_message("hi")]
    first = await provider.complete(CompletionParams(model, history, tools=[ADD], thinking="low"))
    assert [type(b) for b in first.content] == [Thinking, Text, ToolCall, ToolCall]
    history += [first, *(tool_result(c.id, "5") for c in calls_of(first))]
    last = await provider.complete(CompletionParams(model, history, tools=[ADD]))
    assert text_of(last) == "seven" and last.stop_reason == "stop"
    assert vendor.requests[-1].path == "/v2/chat"
    assert (await provider.validate_auth()).ok and vendor.requests[-1].path == "/v1/models"
    await provider.aclose()
    wrong, _ = resolve(f"cohere/{REASONING}", base_url=vendor.base_url, api_key="bad-0123456789")
    with pytest.raises(ProviderError, match="invalid api token") as caught:
        await wrong.complete(CompletionParams(model, history))
    assert caught.value.class_ == "auth"
    await wrong.aclose()


def full_body() -> Body:
    function = {"name": "f", "arguments": "{}"}
    return {
        "model": REASONING, "stream": True, "thinking": {"type": "enabled", "token_budget": 9}, "tool_choice": "NONE",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "tool_plan": "I", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    }  # fmt: skip


REFUSED: dict[str, tuple[Callable[[Body], Any], str]] = {
    "field": (lambda b: b.update(n=1), "unknown field"),
    "model": (lambda b: b.pop("model"), "model is required"),
    "messages": (lambda b: b.update(messages=[]), "non-empty list"),
    "role": (lambda b: b["messages"][0].update(role="developer"), "invalid role"),
    "empty": (lambda b: b["messages"][0].update(content=" "), "must have non-empty content"),
    "part": (lambda b: b["messages"][1]["content"][0].update(type="audio"), "invalid type"),
    "arguments": (lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments={}), "arguments as a string"),
    "result gone": (lambda b: b["messages"][3].update(role="user"), "missing tool results for tool call ids: c"),
    "no results": (lambda b: b["messages"].pop(), "the last message must have the role 'user' or 'tool'"),
    "another id": (lambda b: b["messages"][3].update(tool_call_id="d"), "not found in previous tool calls"),
    "result twice": (lambda b: b["messages"].append(b["messages"][3]), "not found in previous tool calls"),
    "name": (lambda b: b["tools"][0]["function"].update(name="a b"), "can only contain"),
    "schema": (lambda b: b["tools"][0]["function"].update(parameters={}), "of type object"),
    "choice": (lambda b: b.update(tool_choice="auto"), "REQUIRED"),
    "choice alone": (lambda b: b.pop("tools"), "only be specified when tools are provided"),
    "thinking": (lambda b: b.update(model=PLAIN), "thinking is not supported"),
    "budget": (lambda b: b["thinking"].update(token_budget=0), "positive integer"),
    "half a pair": (lambda b: b["messages"][0].update(content="\ud83c"), "surrogate"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_body_with_a_fault_is_refused(name: str) -> None:
    assert check_cohere(full_body()) is None
    change, sentence = REFUSED[name]
    body = full_body()
    change(body)
    refused = check_cohere(body)
    assert refused is not None and sentence in refused.message
    assert json.loads(refused.body("cohere"))["message"] == refused.message


async def test_an_agent_works_with_cohere(vendor: FakeVendor, tmp_path: Path) -> None:
    @tool(name="2add")
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    def calls(request: Any) -> list[Any]:
        return ["wait", call(request.body["tools"][0]["function"]["name"], a=2, b=3)]

    vendor.script([calls, ["it is 5"]])
    agent = Agent(f"cohere/{PLAIN}", tools=[add], cwd=tmp_path, base_url=vendor.base_url, api_key="good")
    result = await agent.run("2 + 3?")
    await agent.aclose()
    assert result.text == "it is 5" and [r.status for r in vendor.requests] == [200, 200]
    assert (vendor.requests[1].body or {})["messages"][-1]["content"] == "5"
