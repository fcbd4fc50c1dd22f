"""Ollama's own chat: what is sent, what is read, and how much context is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

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
from orkas.providers.ollama import Ollama
from orkas.providers.ollama.request import API
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say, Whole, call
from orkas.testing.rules import check_ollama

Body = dict[str, Any]
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
STAMPS = [("ollama/qwen3:8b", API), ("ollama/gemma3", API), ("openai/m", "openai_chat"), ("", "")]


def sent(messages: list[Message], model: str = "qwen3:8b", dialect: Ollama | None = None, **more: Any) -> Body:
    params = CompletionParams(model=model, messages=messages, **more)
    request = (dialect or Ollama()).request(params, base_url="http://h/api", api_key=None)
    body: Body = json.loads(request.body)
    assert check_ollama(body) is None
    return body


def said(*blocks: Block, model: str = "ollama/qwen3:8b", stop: str = "stop") -> AssistantMessage:
    return AssistantMessage(list(blocks), model, API, stop)


def use(id: str = "c1", name: str = "add", **more: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=more.pop("arguments", {}), **more)


# ------------------------------------------------------------------ what is sent


def test_a_request() -> None:
    messages: list[Message] = [
        user_message("look", [Image(media_type="image/png", data=PNG)]),
        said(Thinking(text="hm"), Text(text="ok"), use("x", arguments={"a": 1}), use("y", vendor={"id": "y"})),
        tool_result("x", "1"),
        tool_result("y", "", is_error=True),
        picture("x"),
        user_message("and?"),
    ]
    params = CompletionParams("qwen3:8b", messages, system="sys", tools=[ADD], max_output=9, thinking="low")
    request = Ollama().request(params, base_url="http://h/api/", api_key="k")
    assert request.url == "http://h/api/chat"
    assert request.headers["authorization"] == "Bearer k"
    assert json.loads(request.body) == {
        "model": "qwen3:8b", "stream": True, "truncate": False, "shift": False, "think": True,
        "options": {"num_ctx": 16_384, "num_predict": 9},
        "tools": [{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": ADD.parameters}}],
        "messages": [
            {"role": "system", "content": "sys"},
            {"role": "user", "content": "look", "images": [PNG]},
            {
                "role": "assistant", "content": "ok", "thinking": "hm", "tool_calls": [
                    {"function": {"name": "add", "arguments": {"a": 1}}},
                    {"id": "y", "function": {"name": "add", "arguments": {}}},
                ],
            },
            {"role": "tool", "content": "1", "tool_name": "add"},
            {"role": "tool", "content": "(no output)", "tool_name": "add", "tool_call_id": "y"},
            {"role": "user", "content": "", "images": [PNG]},
            {"role": "user", "content": "and?"},
        ],
    }  # fmt: skip


def test_how_thinking_is_told() -> None:
    def think(model: str, level: Any) -> Any:
        return sent([user_message("hi")], model, thinking=level).get("think")

    assert think("qwen3", None) is None
    assert [think("qwen3", level) for level in ("off", "low", "high")] == [False, True, True]
    assert [think("gpt-oss:20b", level) for level in ("off", "medium")] == ["low", "medium"]


def test_another_model_gets_no_thinking_and_no_ids() -> None:
    mine = said(Thinking(text="hm"), Text(text="ok"), use(vendor={"id": "v"}))
    body = sent([user_message("hi"), mine, tool_result("c1", "1")], "gemma3")
    assert body["messages"][1] == {
        "role": "assistant", "content": "ok", "tool_calls": [{"function": {"name": "add", "arguments": {}}}],
    }  # fmt: skip
    assert "tool_call_id" not in body["messages"][2]


def test_tools_that_may_not_be_called_are_not_offered() -> None:
    """The protocol has no field that forbids a call."""
    assert "tools" not in sent([user_message("hi")], tools=[ADD], tool_choice="none")


def test_odd_beginnings_and_ends() -> None:
    assert sent([user_message("hi"), said(Text(text="a"))])["messages"][-1] == {"role": "user", "content": "Continue."}
    assert sent([user_message("")])["messages"][0]["content"] == "(empty)"
    nothing = said(Thinking(text="hm"), Text(text=" "))
    assert len(sent([user_message("hi"), nothing, user_message("go")])["messages"]) == 2
    gif = user_message("see", [Image(media_type="image/gif", data=PNG)])
    assert "format is not accepted" in sent([gif])["messages"][0]["content"]
    assert sent([])["messages"] == []


# ------------------------------------------------------------------ how much context


def context(messages: list[Message], dialect: Ollama | None = None, **more: Any) -> int:
    size: int = sent(messages, dialect=dialect, **more)["options"]["num_ctx"]
    return size


def test_the_context_holds_what_is_sent_and_its_answer() -> None:
    assert context([user_message("hi")]) == 16_384
    assert context([user_message("x" * 60_000)]) == 32_768
    assert context([user_message("hi")], max_output=20_000) == 32_768
    assert context([user_message("hi")], system="x" * 200_000) == 131_072
    assert context([user_message("hi")], tools=[ToolDef("t", "x" * 60_000, {})]) == 32_768


def test_pictures_weigh_what_a_model_makes_of_them_and_not_their_bytes() -> None:
    large = Image(media_type="image/png", data="A" * 400_000)
    assert context([user_message("see", [large])]) == 16_384
    assert context([user_message("see", [large] * 8)]) == 32_768


def test_a_window_that_was_set_is_asked_for() -> None:
    assert context([user_message("hi")], window=8_192) == 8_192
    assert context([user_message("hi")], window=100_000) == 100_000
    assert context([user_message("x" * 60_000)], window=8_192) == 32_768  # never less than the request needs


def test_a_conversation_is_compacted_before_its_context_outgrows_the_machine() -> None:
    provider, model = resolve("ollama/qwen3:8b", environ={})
    assert provider.info(model).context_window == 32_768
    assert provider.info("gpt-oss:120b-cloud").context_window is None


def test_the_context_never_shrinks() -> None:
    """The server loads the model again for every other size."""
    dialect = Ollama()
    assert context([user_message("x" * 60_000)], dialect) == 32_768
    assert context([user_message("hi")], dialect) == 32_768
    assert sent([user_message("hi")], "gemma3", dialect)["options"]["num_ctx"] == 16_384


@given(histories(STAMPS))
@settings(max_examples=100, deadline=None)
def test_any_history_gives_a_valid_request(history: list[Message]) -> None:
    kept = [encode(m) for m in history]
    body = sent(history)
    assert [encode(m) for m in history] == kept
    assert body["messages"][-1]["role"] != "assistant"
    assert all(m.get("content") or m.get("images") or m.get("tool_calls") for m in body["messages"])


@given(histories(STAMPS))
@settings(max_examples=100, deadline=None)
def test_requests_grow_at_their_end_only(history: list[Message]) -> None:
    running, before = Ollama(), b""
    for n in range(1, len(history) + 1):
        if not askable(history, n):
            continue
        params = CompletionParams("qwen3:8b", history[:n], system="s", tools=[ADD], window=1_000_000)
        body = running.request(params, base_url="http://h", api_key=None).body
        assert body == Ollama().request(params, base_url="http://h", api_key=None).body
        assert body.startswith(before)
        before = b"" if type(history[n - 1]) is AssistantMessage else body.removesuffix(b"]}")


# ------------------------------------------------------------------ what is read


def line(message: Any = None, **more: Any) -> bytes:
    shown = {"message": {"role": "assistant", "content": "", **message}} if message is not None else {}
    return json.dumps({"model": "m", **shown, "done": False, **more}).encode() + b"\n"


END = line({}, done=True, done_reason="stop", prompt_eval_count=3, eval_count=2)


def heard(body: bytes, size: int) -> AssistantMessage | ProviderError:
    reader = Ollama().reader(model="ollama/m")
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


def function(**fields: Any) -> Any:
    return {"tool_calls": [{"function": {"name": "f", **fields}}]}


def test_pieces_in_their_order() -> None:
    body = line({"thinking": "h"}) + line({"thinking": "m"}) + line({"content": "a"}) + line(function(arguments={"a": 1}))
    two = {"tool_calls": [{"id": "v", "function": {"name": "g"}}, {"id": "v", "function": {"name": "g"}}]}
    message = reply(b"\xef\xbb\xbf" + body + b"\r\n\n" + line(two) + line({"content": "b"}) + END)
    kinds = [Thinking, Text, ToolCall, ToolCall, ToolCall, Text]
    assert [type(b) for b in message.content] == kinds and message.stop_reason == "tool_use"
    one, first, second = calls_of(message)
    assert (one.arguments, one.arguments_raw, one.vendor) == ({"a": 1}, None, None)
    assert first.id == "v" and first.arguments == {} and len({one.id, first.id, second.id}) == 3
    assert message.usage is not None and (message.usage.input, message.usage.output) == (3, 2)


def test_a_body_in_one_piece_in_any_spelling() -> None:
    whole = {"message": {"content": "hello", "thinking": "hm", **function(arguments={})}, "done": True}
    for body in (json.dumps(whole), json.dumps(whole, indent=2), "\n" + json.dumps(whole, indent=1) + "\n"):
        message = reply(body.encode())
        assert text_of(message) == "hello" and len(calls_of(message)) == 1 and message.usage is None


def test_reasons() -> None:
    for raw, wanted in (("stop", "stop"), ("length", "length"), ("load", "stop"), ("new", "stop"), (None, "stop")):
        assert reply(line({"content": "a"}) + line({}, done=True, done_reason=raw)).stop_reason == wanted
    (cut,) = calls_of(reply(line(function(arguments={"a": 1})) + line({}, done=True, done_reason="length")))
    assert cut.arguments is None


@pytest.mark.parametrize("arguments", ["[1]", [1], 5, "x", True])
def test_arguments_that_are_no_object_do_not_run(arguments: Any) -> None:
    (made,) = calls_of(reply(line(function(arguments=arguments)) + END))
    assert made.arguments is None
    for meant in (None, {}, "", "{}"):
        (made,) = calls_of(reply(line(function(arguments=meant)) + END))
        assert made.arguments == {}


def test_without_the_last_line_nothing_is_whole() -> None:
    for body in (b"", b"\n", line({"content": "a"}), line(function(arguments={})), b'{"message":{"content":"a"},"do'):
        assert failure(body).class_ == "connection", body
    assert failure(line({"content": "a"}) + END[:-20]).class_ == "connection"


def test_errors_in_the_place_of_a_line() -> None:
    for body in (
        b'{"error":"prompt too long; exceeded max context length by 12 tokens"}\n',
        line({"content": "a"}) + b'{"error":"the input length exceeds the context length"}\n' + END,
        b'{\n"error": "the input length exceeds the context length"\n}',
    ):
        assert failure(body).class_ == "context_overflow"
    assert failure(b'{"error":"an error was encountered while running the model: unexpected EOF"}').class_ == "server"
    assert failure(b"<html><body>Log in</body></html>").class_ == "invalid_request"


def test_damage_and_what_is_none() -> None:
    for lost in (b'{"message":{"conte\n', b'tent":"x"},"done":false}\n'):
        body = line({"content": "do not "}) + lost + line({"content": "run it"}) + END
        assert failure(body).class_ == "connection"
    for alive in (b"ping\n", b"null\n", b"{}\n", b": x\n"):
        assert text_of(reply(line({"content": "a"}) + alive + END)) == "a"
    torn = b'{"message":{"content":"x%b","tool_calls":[{"function":{"name":"f","arguments":{"a":"%b"}}}]}}\n'
    assert calls_of(reply(torn % (b"\xc3(", b"\xc3(") + END))[0].arguments is None
    halves = line({"content": "a\ud83c"}) + line({"content": "\udf78b"}) + line({"content": "\ud83c"}) + END
    reader = Ollama().reader(model="ollama/m")
    reader.feed(halves)
    assert text_of(reader.close()) == "a\U0001f378b\ufffd"


# ------------------------------------------------------------------ through a socket


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


@pytest.mark.parametrize("form", [Say, lambda pieces: Whole(Say(pieces))], ids=["lines", "body"])
async def test_a_script_is_spoken(vendor: FakeVendor, form: Callable[[Any], Any]) -> None:
    vendor.script([form([Thinking(text="hm"), "so ", "be it", call("add", a=2), call("add", b="ü")])])
    provider, model = resolve("ollama/qwen3:8b", base_url=vendor.base_url)
    message = await provider.complete(CompletionParams(model, [user_message("hi")], tools=[ADD]))
    assert [type(b) for b in message.content] == [Thinking, Text, ToolCall, ToolCall]
    assert [c.arguments for c in calls_of(message)] == [{"a": 2}, {"b": "ü"}] and message.stop_reason == "tool_use"
    assert vendor.requests[-1].path == "/api/chat"
    status = await provider.validate_auth()
    assert status.ok and vendor.requests[-1].path == "/api/tags"
    await provider.aclose()


async def test_a_model_that_cannot_think_is_asked_without(vendor: FakeVendor) -> None:
    """And from then on not told to: a setting for all models must not cost a request each time."""
    vendor.script(["one", "two"])
    provider, model = resolve("ollama/gemma3:4b", base_url=vendor.base_url)
    for wanted in ("one", "two"):
        answer = await provider.complete(CompletionParams(model, [user_message("hi")], thinking="high"))
        assert text_of(answer) == wanted
    assert [(r.status, (r.body or {}).get("think")) for r in vendor.requests] == [(400, True), (200, None), (200, None)]
    await provider.aclose()


async def test_what_ollama_refuses(vendor: FakeVendor) -> None:
    vendor.models = ["other"]
    provider, model = resolve("ollama/qwen3:8b", base_url=vendor.base_url)
    with pytest.raises(ProviderError, match="not found") as caught:
        await provider.complete(CompletionParams(model, [user_message("hi")]))
    assert caught.value.class_ == "not_found"
    await provider.aclose()


def full_body() -> Body:
    return {
        "model": "m", "options": {"num_ctx": 100_000}, "think": True,
        "messages": [
            {"role": "user", "content": "x" * 20_000, "images": [PNG]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
            {"role": "tool", "content": "1", "tool_name": "f"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    }  # fmt: skip


REFUSED: dict[str, tuple[Callable[[Body], Any], str]] = {
    "no model": (lambda b: b.pop("model"), "model is required"),
    "role": (lambda b: b["messages"][0].update(role="developer"), "role must be one of [system, user, assistant, tool]"),
    "content": (lambda b: b["messages"][0].update(content=[]), "cannot unmarshal array into Go struct field ChatRequest"),
    "arguments": (
        lambda b: b["messages"][1]["tool_calls"][0]["function"].update(arguments="{}"),
        "cannot unmarshal string into Go struct field ToolCallFunction.messages.tool_calls.function.arguments",
    ),
    "image": (lambda b: b["messages"][0].update(images=["no!"]), "illegal base64 data"),
    "image kind": (lambda b: b["messages"][0].update(images=["R0lGODdh"]), "Failed to load image"),
    "think": (lambda b: b.update(think="a lot"), "invalid think value"),
    "no thinking": (lambda b: b.update(model="gemma3:1b"), '"gemma3:1b" does not support thinking'),
    "level": (lambda b: b.update(think="low"), "is not supported for this model"),
    "context": (lambda b: b.update(options={"num_ctx": 4_096}), "the input length exceeds the context length"),
    "the server's own context": (lambda b: b.pop("options"), "the input length exceeds the context length"),
    "option": (lambda b: b["options"].update(n_ctx=1), "invalid option provided"),
    "tool": (lambda b: b["tools"][0].pop("function"), "tools.function"),
    "messages": (lambda b: b.update(messages="hi"), "of type []api.Message"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_body_with_a_fault_is_refused(name: str) -> None:
    assert check_ollama(full_body()) is None
    change, words = REFUSED[name]
    body = full_body()
    change(body)
    refused = check_ollama(body)
    assert refused is not None and words in refused.message
    assert json.loads(refused.body("ollama")) == {"error": refused.message}


async def test_an_agent_works_with_ollama(vendor: FakeVendor, tmp_path: Path) -> None:
    """A whole turn through the loop. The window that the user set is the one that the server is asked for."""

    @tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    vendor.script([["wait", call("add", a=2, b=3)], ["it is 5"]])
    agent = Agent("ollama/qwen3:8b", tools=[add], cwd=tmp_path, base_url=vendor.base_url, context_window=20_000)
    result = await agent.run("2 + 3?")
    await agent.aclose()
    assert result.text == "it is 5" and [r.status for r in vendor.requests] == [200, 200]
    body = vendor.requests[1].body or {}
    assert body["options"]["num_ctx"] == 20_000
    assert body["messages"][-1] == {"role": "tool", "content": "5", "tool_name": "add"}
