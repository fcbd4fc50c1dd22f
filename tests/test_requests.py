"""What is sent: always valid, always the same bytes for the same beginning, whatever the history went through."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas.infra.errors import ProviderError, SessionUnreadable, StorageError
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
    UserMessage,
    calls_of,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.providers.anthropic import Anthropic
from orkas.providers.base import CompletionParams, Dialect, TextPart, ToolDef
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.openai_responses import OpenAIResponses
from orkas.providers.reading.calls import parse_arguments
from orkas.providers.vendors import table
from orkas.testing.rules import check_openai_responses
from published import validated

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
PNG = "iVBORw0KGgo="
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
CLAUDE, GPT = "claude-sonnet-4-5", "gpt-4o"


def chat(vendor: str = "openai") -> OpenAIChat:
    return OpenAIChat(vendor, table()["openai-chat" if vendor == "openai" else vendor].quirks)


def anthropic() -> Anthropic:
    return Anthropic("anthropic", table()["anthropic"].quirks)


def responses() -> OpenAIResponses:
    return OpenAIResponses("openai", table()["openai"].quirks)


EACH = pytest.mark.parametrize("dialect", [chat(), anthropic(), responses()], ids=["chat", "anthropic", "responses"])


SEARCH = {"type": "search", "query": "x"}
PUBLISHED = {"openai_chat": "openai", "anthropic_messages": "anthropic", "openai_responses": "responses"}


def said_to(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation in a request, whatever its vendor calls it."""
    found: list[dict[str, Any]] = body["messages"] if "messages" in body else body["input"]
    return found


def built(dialect: Dialect, messages: list[Message], model: str = "m", **more: Any) -> dict[str, Any]:
    params = CompletionParams(model=model, messages=messages, **more)
    body: dict[str, Any] = json.loads(dialect.request(params, base_url="http://h/v1", api_key="k").body)
    return body


def sent(dialect: Dialect, messages: list[Message], model: str = "m", **more: Any) -> dict[str, Any]:
    """The body of a request that the vendor's published types allow."""
    return validated(built(dialect, messages, model, **more), PUBLISHED[dialect.api])


def call(id: str = "call_1", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name="add", arguments=arguments)


def said(
    *blocks: Block, model: str = "anthropic/m", api: str = "anthropic_messages", stop: str = "stop"
) -> AssistantMessage:
    return AssistantMessage(list(blocks), model, api, stop)


# ------------------------------------------------------------------ shapes


def test_anthropic_request() -> None:
    messages: list[Message] = [
        user_message("look", [Image(media_type="image/png", data=PNG)]),
        said(Text(text="ok"), call("a"), call("b"), model=f"anthropic/{CLAUDE}", stop="tool_use"),
        tool_result("a", "1"),
        tool_result("b", "", is_error=True),
        user_message("and?"),
    ]
    request = anthropic().request(
        CompletionParams(CLAUDE, messages, system="sys", tools=[ADD], max_output=1_000),
        base_url="http://h/v1",
        api_key="k",
    )
    assert request.url == "http://h/v1/messages"
    assert request.headers["x-api-key"] == "k"
    body = json.loads(request.body)
    assert body["max_tokens"] == 1_000 and body["stream"] is True
    assert body["system"] == [{"type": "text", "text": "sys", "cache_control": {"type": "ephemeral"}}]
    assert body["cache_control"] == {"type": "ephemeral"}
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert [b["type"] for b in body["messages"][0]["content"]] == ["image", "text"]
    results = body["messages"][2]["content"]
    assert [b["type"] for b in results] == ["tool_result", "tool_result", "text"]
    assert results[1] == {
        "type": "tool_result",
        "tool_use_id": "b",
        "content": [{"type": "text", "text": "(no output)"}],
        "is_error": True,
    }


def test_chat_request() -> None:
    messages: list[Message] = [user_message("hi"), said(call(a=1)), tool_result("call_1", "2"), user_message("and?")]
    params = CompletionParams(
        "gpt-5", messages, system="sys", tools=[ADD], max_output=9, session_id="s" * 80, thinking="low"
    )
    request = chat().request(params, base_url="http://h/v1/", api_key="k")
    assert request.url == "http://h/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    body = json.loads(request.body)
    assert body["messages"] == [
        {"role": "developer", "content": "sys"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "2"},
        {"role": "user", "content": "and?"},
    ]  # fmt: skip
    assert body["max_completion_tokens"] == 9 and body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "low"
    assert len(body["prompt_cache_key"]) == 64
    assert not {"temperature", "top_p", "n", "seed"} & set(body)


def test_images_from_a_file_and_images_that_cannot_be_sent() -> None:
    def media(file: str) -> bytes:
        if file != "a.png":
            raise FileNotFoundError(file)
        return b"pixels"

    images = [
        Image(media_type="image/png", file="a.png"), Image(media_type="image/png", file="gone.png"),
        Image(media_type="image/bmp", data=PNG), Image(media_type="image/png", data=""),
    ]  # fmt: skip
    for dialect in (chat(), anthropic(), responses()):
        content = said_to(sent(dialect, [user_message("see", images)], GPT, media=media))[0]["content"]
        text = json.dumps(content)
        assert base64.b64encode(b"pixels").decode() in text
        assert [b["type"].removeprefix("input_") for b in content][1:] == ["text"] * 4
        assert "cannot be read" in text and "format" in text and "empty" in text
    (blind,) = sent(chat(), [user_message("see", images[:1])], "gpt-4", media=media)["messages"]
    assert "cannot see images" in blind["content"]


class Files:
    """A keeper of files that fails in its own way."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    def __call__(self, _file: str) -> Any:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


@EACH
@pytest.mark.parametrize(
    "outcome",
    [StorageError("gone"), SessionUnreadable("gone"), OSError(5, "io"), RuntimeError("closed"), None, "text", b""],
    ids=repr,
)
def test_a_picture_that_cannot_be_had_never_fails_the_request(outcome: Any, dialect: Dialect) -> None:
    message = user_message("see", [Image(media_type="image/png", file="a.png")])
    body = sent(dialect, [message], GPT, media=Files(outcome))
    assert "an image (image/png) stood here" in json.dumps(said_to(body))
    assert "see" in json.dumps(said_to(body))


@EACH
@pytest.mark.parametrize(
    ("data", "wire"),
    [
        (PNG, PNG), (f"data:image/png;base64,{PNG}", PNG), (f"DATA:image/png;name=a.png;base64,{PNG}\n", PNG),
        (PNG[:4] + "\r\n" + PNG[4:], PNG), ("not base64!", ""), ("data:image/png,abc", ""), ("iVBORw0KGgo", ""),
        ("é" * 4, ""), ("\ud83c", ""), ("data:image/png;base64,", ""), ("====", ""), ("https://h/a.png", ""),
    ],
)  # fmt: skip
def test_picture_data_is_base64_or_a_note(data: str, wire: str, dialect: Dialect) -> None:
    body = sent(dialect, [user_message("see", [Image(media_type="image/png", data=data)])], GPT)
    picture = said_to(body)[0]["content"]
    if wire:
        url = f"data:image/png;base64,{wire}"
        assert picture[0].get("image_url") in ({"url": url}, url) or picture[0]["source"]["data"] == wire
    else:
        assert "stood here" in json.dumps(picture) and '"type": "image' not in json.dumps(picture)


@pytest.mark.parametrize("vendor", [v for v, row in table().items() if row.dialect == "openai_chat"])
def test_every_row_makes_a_request(vendor: str) -> None:
    messages: list[Message] = [user_message("hi"), said(call("x", a=1)), tool_result("x", "2"), user_message("go")]
    for level in (None, "off", "high"):
        body = sent(chat(vendor), messages, "some-model", thinking=level, session_id="s", max_output=5, tools=[ADD])
        results = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
        assert results == [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())]


def test_mistral_wants_nine_characters_and_an_assistant_between_tool_and_user() -> None:
    messages: list[Message] = [
        user_message("hi"),
        said(call("call_x", a=1)),
        tool_result("call_x", "2"),
        user_message("go"),
    ]
    body = sent(chat("mistral"), messages)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert re.fullmatch("[A-Za-z0-9]{9}", body["messages"][2]["tool_call_id"])


@pytest.mark.parametrize("id", ["fn:0", "call_" + "x" * 60, "a b", "工具", "z" * 100, "", "functions.add:0"])
@pytest.mark.parametrize(
    ("dialect", "form"), [(anthropic(), "[A-Za-z0-9_-]{1,64}"), (chat(), "[!-~]{1,40}")], ids=["a", "c"]
)
def test_foreign_ids_fit_the_target(id: str, dialect: Dialect, form: str) -> None:
    messages: list[Message] = [
        user_message("hi"),
        said(call(id)),
        tool_result(id, "1"),
        said(call(id)),
        tool_result(id, "2"),
    ]
    calls, results = ids_in(sent(dialect, messages))
    assert calls == results
    assert len(set(calls)) == 2
    assert all(re.fullmatch(form, i) for i in calls)
    assert ids_in(sent(dialect, messages)) == (calls, results)


ODD_NAMES = [
    "web.search", "web search", "web/search", "functions.shell:0", "x" * 65, "x" * 66, "検索", "検索する", "\ud83c",
    ".", "..", "a\n", " ",
]  # fmt: skip


@EACH
def test_names_no_vendor_takes_are_mapped_and_stay_different(dialect: Dialect) -> None:
    history: list[Message] = [user_message("go")]
    good = ["add", "x" * 64, "A-b_9"]
    for i, name in enumerate([*ODD_NAMES, *good]):
        history += [said(ToolCall(id=f"c{i}", name=name, arguments={})), tool_result(f"c{i}", "1")]
    kept = [c.name for m in history for c in calls_of(m)]
    tools = [ToolDef(n, "", {}) for n in ODD_NAMES]
    body = sent(dialect, history, tools=tools)
    if "input" in body:
        names = [i["name"] for i in body["input"] if i.get("type") == "function_call"]
        offered = [t["name"] for t in body["tools"]]
    elif "tool_calls" in str(body):
        names = [c["function"]["name"] for m in body["messages"] for c in m.get("tool_calls", ())]
        offered = [t["function"]["name"] for t in body["tools"]]
    else:
        names = [b["name"] for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
        offered = [t["name"] for t in body["tools"]]
    assert all(NAME.fullmatch(n) for n in names)
    assert len(set(names)) == len(kept)
    assert names[-3:] == good and names[:-3] == offered and names[0].startswith("web_search_")
    assert [c.name for m in history for c in calls_of(m)] == kept == ODD_NAMES + good


def ids_in(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    calls: list[str] = []
    results: list[str] = []
    for message in body["messages"]:
        calls += [c["id"] for c in message.get("tool_calls", ())]
        results += [message["tool_call_id"]] if message["role"] == "tool" else []
        for block in message["content"] if isinstance(message["content"], list) else ():
            calls += [block["id"]] if block["type"] == "tool_use" else []
            results += [block["tool_use_id"]] if block["type"] == "tool_result" else []
    return calls, results


# ------------------------------------------------------------------ thinking and changes of model


def test_thinking_goes_back_to_exactly_the_model_that_wrote_it() -> None:
    thought = Thinking(text="hm", signature="sig")
    hidden = Thinking(redacted="blob")
    server = Opaque(kind="server_tool_use", vendor={"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    mine = said(thought, hidden, server, Text(text="so"), call(), model=f"anthropic/{CLAUDE}", stop="tool_use")
    messages: list[Message] = [user_message("hi"), mine, tool_result("call_1", "1")]
    (_, own, _) = sent(anthropic(), messages, CLAUDE)["messages"]
    assert own["content"][:3] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "redacted_thinking", "data": "blob"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ]  # fmt: skip
    for body in (sent(anthropic(), messages, "claude-opus-4-1"), sent(chat(), messages, GPT)):
        text = json.dumps(body)
        assert "sig" not in text and "blob" not in text and "hm" not in text
        assert "so" in text
    assert sent(anthropic(), messages, CLAUDE)["messages"][1] == own


def test_reasoning_details_go_back_as_they_came() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "why", "format": "f", "index": 0, "id": "r1"},
        {"type": "reasoning.encrypted", "data": "xyz", "format": "f", "index": 0, "id": "r1"},
        {"type": "reasoning.text", "text": "words", "signature": "s", "index": 1},
    ]
    message = {"content": "ok", "reasoning": "whywords", "reasoning_details": details}
    dialect = chat("openrouter")
    reader = dialect.reader(model="openrouter/a/b")
    reader.feed(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())
    reader.feed(b"")
    history: list[Message] = [user_message("hi"), reader.close(), user_message("go")]
    assert sent(dialect, history, "a/b")["messages"][1]["reasoning_details"] == details
    assert "reasoning_details" not in sent(dialect, history, "a/c")["messages"][1]


def test_calls_without_reasoning_still_carry_the_field_where_it_is_a_duty() -> None:
    messages: list[Message] = [user_message("hi"), said(call()), tool_result("call_1", "1")]
    assert sent(chat("deepseek"), messages)["messages"][1]["reasoning_content"] == ""
    assert "reasoning_content" not in sent(chat("openai"), messages)["messages"][1]


def test_thinking_levels_of_claude() -> None:
    def thinking(model: str, **more: Any) -> Any:
        return sent(anthropic(), more.pop("messages", [user_message("hi")]), model, **more).get("thinking")

    assert thinking(CLAUDE) is None
    assert thinking(CLAUDE, thinking="low", max_output=9_000) == {"type": "enabled", "budget_tokens": 2_048}
    assert thinking(CLAUDE, thinking="high", max_output=9_000) == {"type": "enabled", "budget_tokens": 7_976}
    assert thinking(CLAUDE, thinking="high", max_output=1_500) is None
    assert thinking(CLAUDE, thinking="off") == {"type": "disabled"}
    assert thinking("claude-opus-4-6", thinking="high") == {"type": "adaptive"}
    assert thinking("claude-3-5-haiku-latest", thinking="high") is None
    loop: list[Message] = [
        user_message("hi"),
        said(call(), model="openai/gpt-4o", api="openai_chat"),
        tool_result("call_1", "1"),
    ]
    assert thinking(CLAUDE, thinking="low", messages=loop) is None
    assert thinking(CLAUDE, thinking="low", messages=[*loop, user_message("go")]) is None, "the reply to it is missing"
    answered = [*loop, said(Text(text="1"), model="openai/gpt-4o", api="openai_chat"), user_message("go")]
    assert thinking(CLAUDE, thinking="low", messages=answered) is not None


def test_an_answer_that_broke_off_goes_with_its_text_alone() -> None:
    broken = said(
        Thinking(text="hm", signature="half"), Text(text="I was"), model=f"anthropic/{CLAUDE}", stop="aborted"
    )
    body = sent(anthropic(), [user_message("hi"), broken, user_message("go")], CLAUDE)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "I was"}]


# ------------------------------------------------------------------ any history

texts = st.sampled_from(["", " ", "hi", "caffè ☕", "\ud83c", "\udf78x", "a\nb", "日本", '"\\', "\x00"]) | st.text(
    max_size=8
)
images = st.builds(Image, media_type=st.sampled_from(["image/png", "image/bmp"]), data=st.sampled_from([PNG, "", None]))
values = st.dictionaries(texts, texts | st.integers() | st.lists(texts, max_size=2), max_size=3)
stamps = st.sampled_from([
    ("anthropic/m", "anthropic_messages"), ("openai/m", "openai_chat"), ("openai/m", "openai_responses"), ("", ""),
])  # fmt: skip
thoughts = st.builds(
    Thinking, text=texts, signature=st.sampled_from([None, "sig"]), redacted=st.sampled_from([None, None, "blob"]),
    encrypted=st.sampled_from([None, "sealed"]),
    vendor=st.sampled_from([
        None, {"other": 1}, {"reasoning_detail": {"type": "reasoning.text"}}, {"item": "rs_1", "part": "summary_text"},
        {"item": "rs_2", "part": "reasoning_text"}, {"part": "summary_text"},
    ]),
)  # fmt: skip
opaque = st.sampled_from([
    Opaque(kind="server_tool_use", vendor={"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
    Opaque(kind="web_search_call", vendor={"type": "web_search_call", "id": "ws_1", "status": "completed", "action": SEARCH}),
    Opaque(kind="tool_search_call", vendor={"type": "tool_search_call", "id": "ts_1", "call_id": "x"}),
])  # fmt: skip
ids = st.sampled_from(["call_1", "call_2", "x" * 80, "fn:0", "", "toolu_1", "\ud83c"])

names = st.sampled_from(["add", "\ud83c", "web.search", "検索", "x" * 65, " "])


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Paired histories of several models, with everything odd in them that can be stored."""
    out: list[Message] = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            content = draw(st.lists(st.builds(Text, text=texts) | images, max_size=3))
            out.append(UserMessage([*content]))
            continue
        calls = [
            ToolCall(id=draw(ids), name=draw(names), arguments=draw(values | st.none()),
                     arguments_raw=draw(st.sampled_from([None, "", '{"a": 1}', '{"a'])))
            for _ in range(draw(st.integers(0, 3)))
        ]  # fmt: skip
        blocks = [*draw(st.lists(st.builds(Text, text=texts) | thoughts | opaque, max_size=3)), *calls]
        model, api = draw(stamps)
        blocks = [b for b in blocks if not isinstance(b, Opaque) or ("search" in b.kind) is (api == "openai_responses")]
        stop = draw(st.sampled_from(["stop", "tool_use", "aborted", "error", "length"]))
        out.append(AssistantMessage(list(draw(st.permutations(blocks))), model, api, stop))
        out += [ToolMessage(c.id, [Text(text=draw(texts))], draw(st.booleans())) for c in calls_of(out[-1])]
    return [*out, user_message("go")]


def no_empty_texts(value: Any) -> bool:
    if isinstance(value, dict):
        return not (value.get("type") == "text" and not value["text"].strip()) and all(
            map(no_empty_texts, value.values())
        )
    return all(map(no_empty_texts, value)) if isinstance(value, list) else True


def check_anthropic(body: dict[str, Any]) -> None:
    roles = [m["role"] for m in body["messages"]]
    assert roles[0] == "user" and roles[-1] == "user"
    assert all(a != b for a, b in itertools.pairwise(roles))
    assert no_empty_texts(body["messages"])
    used: list[str] = []
    for message, following in zip(body["messages"], [*body["messages"][1:], None], strict=True):
        assert message["content"]
        kinds = [b["type"] for b in message["content"]]
        calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        assert all(NAME.fullmatch(b["name"]) for b in message["content"] if b["type"] == "tool_use")
        if message["role"] == "assistant":
            assert kinds[len(kinds) - len(calls) :] == ["tool_use"] * len(calls)
            assert kinds[-1] not in ("thinking", "redacted_thinking")
            answers = [b["tool_use_id"] for b in following["content"][: len(calls)]] if calls and following else []
            assert answers == calls
            used += calls
        else:
            results = kinds.count("tool_result")
            assert kinds[:results] == ["tool_result"] * results
    assert len(set(used)) == len(used) and all(re.fullmatch("[A-Za-z0-9_-]{1,64}", i) for i in used)


def check_chat(body: dict[str, Any]) -> None:
    assert no_empty_texts(body["messages"])
    waiting: list[str] = []
    used: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert message["content"].strip()
            continue
        assert not waiting
        waiting = [c["id"] for c in message.get("tool_calls", ())]
        used += waiting
        assert message["content"] or message.get("tool_calls")
        for c in message.get("tool_calls", ()):
            assert NAME.fullmatch(c["function"]["name"])
            assert isinstance(json.loads(c["function"]["arguments"]), dict)
    assert not waiting and len(set(used)) == len(used)


@settings(max_examples=150, deadline=None)
@given(histories())
def test_any_history_gives_a_valid_request(history: list[Message]) -> None:
    check_anthropic(built(anthropic(), history))
    for vendor in ("openai", "mistral", "openrouter", "deepseek"):
        check_chat(built(chat(vendor), history))
    assert check_openai_responses(built(responses(), history)) is None


def dialect_of(name: str) -> Dialect:
    return anthropic() if name == "anthropic" else responses() if name == "responses" else chat(name)


@settings(max_examples=100, deadline=None)
@given(histories(), st.sampled_from(["anthropic", "openai", "mistral", "responses"]))
def test_requests_grow_at_their_end_only(history: list[Message], vendor: str) -> None:
    """What is built on the last request is what a fresh process builds, and begins as the last one did."""
    running = dialect_of(vendor)
    before = b""
    for n in range(1, len(history) + 1):
        if calls_of(history[n - 1]) or (n < len(history) and isinstance(history[n], ToolMessage)):
            continue  # no request is made between a call and its last result
        params = CompletionParams("m", history[:n], system="s", tools=[ADD])
        body = running.request(params, base_url="http://h", api_key="k").body
        fresh = dialect_of(vendor)
        assert body == fresh.request(params, base_url="http://h", api_key="k").body
        if type(history[n - 1]) is not AssistantMessage:
            shared = before.rstrip(b"]}")
            assert body.startswith(shared)
            before = body


def test_two_conversations_and_a_rewind_on_one_dialect() -> None:
    dialect = anthropic()
    one: list[Message] = [user_message("one"), said(Text(text="1")), user_message("more")]
    two: list[Message] = [user_message("two")]
    first = sent(dialect, one)
    assert sent(dialect, two)["messages"][0]["content"][0]["text"] == "two"
    assert sent(dialect, one) == first
    assert sent(dialect, one[:1]) == sent(anthropic(), one[:1])
    assert sent(dialect, [*one[:1], user_message("else")]) == sent(anthropic(), [*one[:1], user_message("else")])


def test_a_long_history_costs_little_the_second_time() -> None:
    history: list[Message] = []
    for i in range(100):
        history += [
            user_message("x" * 1_000),
            said(Text(text="y" * 1_000), call(f"c{i}")),
            tool_result(f"c{i}", "z" * 2_000),
        ]
        history.append(said(Text(text="ok")))
    for dialect in (anthropic(), chat(), responses()):
        dialect.request(CompletionParams("m", history), base_url="http://h", api_key="k")
        best = 1.0
        for _ in range(20):
            history = [*history, user_message("go")]
            began = time.perf_counter()
            dialect.request(CompletionParams("m", history), base_url="http://h", api_key="k")
            best = min(best, time.perf_counter() - began)
        assert best < 0.002  # it is 0.04 ms; encoding everything again takes 2.5


# ------------------------------------------------------------------ calls in replies

ARGUMENTS = SHARED / "cases/09-providers/tool_arguments.jsonl"
CHUNKS = SHARED / "cases/09-providers/stream_chunks.jsonl"


@pytest.mark.skipif(not ARGUMENTS.exists(), reason="no cases at hand (set ORKAS_SHARED)")
def test_tool_arguments() -> None:
    for line in ARGUMENTS.read_text("utf-8").splitlines():
        case = json.loads(line)
        got, outcome = parse_arguments(case["arguments"]), case["outcome"]
        if "ok" in outcome:
            assert got == outcome["ok"], case["id"]
        elif "ok_sanitised" in outcome:
            assert got == outcome["ok_sanitised"], case["id"]
        elif "error_or_ok" in outcome:
            assert got is None or set(got) == set(outcome["error_or_ok"]), case["id"]
        elif "ok_long" in outcome:
            assert got == json.loads(case["arguments"]), case["id"]
        elif outcome["error"] not in ("wrong type", "missing path"):  # those two are the tool's to find
            assert got is None, case["id"]


@pytest.mark.skipif(not CHUNKS.exists(), reason="no cases at hand (set ORKAS_SHARED)")
@pytest.mark.parametrize(
    "line", CHUNKS.read_text("utf-8").splitlines() if CHUNKS.exists() else [], ids=lambda s: s[8:12]
)
def test_stream_chunks(line: str) -> None:
    case = json.loads(line)
    expect = case["expect"]
    reader = chat().reader(model="openai/m")
    parts = []
    for piece in case["chunks"]:
        parts += reader.feed(b"data: " + json.dumps(piece).encode() + b"\n\n")
    parts += reader.feed(b"")
    if expect.get("error") or (expect.get("incomplete") and "text" in expect):
        with pytest.raises(ProviderError) as caught:
            reader.close()
        allowed = {"rate_limit"} if expect.get("class") else {"overloaded", "server", "connection"}
        assert caught.value.class_ in allowed
        return
    message = reader.close()
    if "text" in expect:
        assert text_of(message) == expect["text"].encode("utf-16", "surrogatepass").decode("utf-16")
        assert "".join(p.text for p in parts if isinstance(p, TextPart)) == text_of(message)
    calls = [[c.name, c.arguments] for c in calls_of(message)]
    if "calls" in expect:
        assert [c for c in calls if c[1] is not None] == expect["calls"]
    if "calls_any_of" in expect:
        assert calls in expect["calls_any_of"]
    assert all(c.id for c in calls_of(message))
    if calls:
        assert message.stop_reason == ("length" if expect.get("incomplete") else "tool_use")
    if expect.get("usage_estimated"):
        assert message.usage is None


@pytest.mark.parametrize("arguments", ['{"a": 1}', '{"a": "cut'])
def test_a_reply_cut_at_its_limit_never_runs_its_last_call(arguments: str) -> None:
    reader = chat().reader(model="openai/m")
    for index, text in ((0, '{"a": 0}'), (1, arguments)):
        function = {"name": "add", "arguments": text}
        piece = {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}}
            ]
        }
        reader.feed(b"data: " + json.dumps(piece).encode() + b"\n\n")
    reader.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n')
    message = reader.close()
    assert message.stop_reason == "length"
    assert [(c.arguments, c.arguments_raw) for c in calls_of(message)] == [({"a": 0}, '{"a": 0}'), (None, arguments)]


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        ([(0, "x", "get", '{"a"'), (0, "x", "get", ":1}")], [{"a": 1}]),
        ([(0, None, "get", '{"a"'), (0, None, "get", ":1}"), (0, None, "get", "")], [{"a": 1}]),
        ([(0, "x", "get", '{"a":1}'), (0, "y", "get", '{"a":2}')], [{"a": 1}, {"a": 2}]),
        ([(None, None, "get", '{"a"'), (None, None, None, ":1}")], [{"a": 1}]),
        (
            [(None, "x", "f", '{"a"'), (None, "y", "f", '{"b"'), (None, "x", None, ":1}"), (None, "y", None, ":2}")],
            [{"a": 1}, {"b": 2}],
        ),
        ([(1, "y", "get", '{"a":2}'), (0, "x", "get", '{"a":1}')], [{"a": 1}, {"a": 2}]),
        ([(0, "x", "get", {"a": 1})], [{"a": 1}]),
        ([(0, "x", "get", '{"a":1}{"a":2}')], [None]),
        ([(0, "x", "get", ""), (0, "x", None, None)], [{}]),
    ],
)  # fmt: skip
def test_fragments(fragments: list[tuple[Any, ...]], calls: list[Any]) -> None:
    reader = chat().reader(model="openai/m")
    for index, id, name, arguments in fragments:
        piece: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "id": id}
        if index is not None:
            piece["index"] = index
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
        reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    reader.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    message = reader.close()
    assert [c.arguments for c in calls_of(message)] == calls
    assert message.stop_reason == "tool_use"


# ------------------------------------------------------------------ the vendors' own types


def strictly(value: Any, shape: Any) -> None:
    pydantic = pytest.importorskip("pydantic")

    def drain(item: Any) -> None:
        if isinstance(item, str | int | float | None):
            return
        for part in item.values() if isinstance(item, dict) else item:
            drain(part)

    adapter = pydantic.TypeAdapter(shape)  # must outlive the lazy iterators it makes
    drain(adapter.validate_python(value))


def rich_history() -> list[Message]:
    return [
        user_message("look", [Image(media_type="image/png", data=PNG)]),
        said(Thinking(text="h", signature="s"), Text(text="k"), call("a"), call("b"), model=f"anthropic/{CLAUDE}"),
        tool_result("a", "1"), tool_result("b", "", is_error=True), user_message("and?"),
        said(Text(text="done")), user_message("bye"),
    ]  # fmt: skip


def test_anthropic_types_accept_the_request() -> None:
    sdk = pytest.importorskip("anthropic.types.message_create_params", reason="the anthropic package is not installed")
    for level in ("off", "low", "high"):
        body = sent(anthropic(), rich_history(), CLAUDE, system="s", tools=[ADD], thinking=level, max_output=9_000)
        assert set(body) <= set(sdk.MessageCreateParamsStreaming.__annotations__) | set(
            sdk.MessageCreateParamsBase.__annotations__
        )
        strictly(body, sdk.MessageCreateParamsStreaming)


def test_openai_types_accept_the_request() -> None:
    sdk = pytest.importorskip(
        "openai.types.chat.completion_create_params", reason="the openai package is not installed"
    )
    for level in ("off", "low", "high"):
        body = sent(
            chat(), rich_history(), "gpt-5", system="s", tools=[ADD], thinking=level, session_id="s", max_output=9
        )
        known = set(sdk.CompletionCreateParamsStreaming.__annotations__) | set(
            sdk.CompletionCreateParamsBase.__annotations__
        )
        assert set(body) <= known
        strictly(body, sdk.CompletionCreateParamsStreaming)


# ------------------------------------------------------------------ the end of a stream


def chunk(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_what_follows_an_error_is_not_read_and_what_came_before_is(size: int) -> None:
    fault = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}}
    late = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}}
    line = b"data: %b\n\n"
    for reader, body in (
        (chat().reader(model="openai/m"), chunk(content="a") + line % json.dumps(fault).encode() + chunk(content="b")),
        (anthropic().reader(model="a/m"), b"".join(line % json.dumps(e).encode() for e in (start, fault, late))),
    ):
        parts = [p for i in range(0, len(body), size) for p in reader.feed(body[i : i + size])]
        assert [p.text for p in parts] == ["a"]
        assert reader.done
        with pytest.raises(ProviderError) as caught:
            reader.close()
        assert caught.value.class_ == "overloaded"
        assert text_of(reader.partial()) == "a"


def test_pairs_split_over_deltas_are_joined_in_thinking_too() -> None:
    reader = chat().reader(model="openai/m")
    body = chunk(reasoning="x\ud83c") + chunk(reasoning="\udf78y") + chunk(content="\ud83c") + chunk(content="z")
    parts = reader.feed(body + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    assert reader.close().content == [Thinking(text="x\U0001f378y"), Text(text="\ufffdz")]
    assert "".join(p.text for p in parts) == "x\U0001f378y\ufffdz"


def test_an_empty_finish_reason_is_no_end() -> None:
    reader = chat().reader(model="openai/m")
    reader.feed(b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}\n\n')
    with pytest.raises(ProviderError) as caught:
        reader.close()
    assert caught.value.class_ == "connection"


# ------------------------------------------------------------------ replies that are not all there


def line(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def chat_call(arguments: Any, finish: str | None = "tool_calls", **more: Any) -> bytes:
    """A streamed call to ``add`` and what ends it."""
    calls = [{"index": 0, "id": "c", "function": {"name": "add", "arguments": arguments}}]
    choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": finish, **more}
    return line({"choices": [choice]})


DONE = b"data: [DONE]\n\n"
START = line({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}})
STOPPED, END = line({"type": "content_block_stop", "index": 0}), line({"type": "message_stop"})


def begin(kind: str, **fields: Any) -> bytes:
    return line({"type": "content_block_start", "index": 0, "content_block": {"type": kind, **fields}})


def delta(kind: str, **fields: Any) -> bytes:
    return line({"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}})


def reason(stop: str | None) -> bytes:
    return line({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}})


USE = begin("tool_use", id="t", name="add", input={})
ARGS = delta("input_json_delta", partial_json='{"a": 1}')


def heard(dialect: Dialect, body: bytes, size: int = 10_000) -> tuple[str, AssistantMessage | ProviderError]:
    """The text that was told and how the reply ended."""
    reader = dialect.reader(model="v/m")
    parts = [p for i in range(0, len(body), size) for p in reader.feed(body[i : i + size])] + reader.feed(b"")
    told = "".join(p.text for p in parts if isinstance(p, TextPart))
    assert all(c.arguments is None for c in calls_of(reader.partial()))
    try:
        message = reader.close()
    except ProviderError as error:
        return told, error
    assert text_of(message) == told
    return told, message


def broke_off(dialect: Dialect, body: bytes, told: str = "") -> None:
    for size in (1, 11, 10_000):
        said, error = heard(dialect, body, size)
        assert isinstance(error, ProviderError) and error.class_ == "connection", (error, body)
        assert said == told


def calls_in(dialect: Dialect, body: bytes) -> list[tuple[Any, str | None]]:
    said = {}
    for size in (1, 11, 10_000):
        _, message = heard(dialect, body, size)
        assert isinstance(message, AssistantMessage), message
        said[size] = [(c.arguments, c.arguments_raw) for c in calls_of(message)]
    assert said[1] == said[11] == said[10_000]
    return said[1]


LOST = [
    b'{"choices":[{"index":0,"delta":{"content":"ever', b'{"type":"content_block_delta","index":0,"delta', b"{",
    b'{"a"',
    b'index":0,"delta":{"content":"x"}}]}', b"{}}", b'{"a": 1}{"a": 2}', b'[{"a": 1', b'{"a":"\xff', b"{'error': 1}",
    b'{"a": 1},{"a": 2}',
]  # fmt: skip


@pytest.mark.parametrize("lost", LOST, ids=repr)
def test_a_damaged_event_ends_the_reply(lost: bytes) -> None:
    text = chunk(content="do not ")
    last = line({"choices": [{"index": 0, "delta": {"content": " run it"}, "finish_reason": "stop"}]}) + DONE
    broke_off(chat(), text + line(lost) + last, "do not ")
    broke_off(chat(), chat_call('{"a": 1', None) + line(lost) + chat_call("}") + DONE)
    close = STOPPED + reason("end_turn") + END
    body = START + begin("text", text="") + delta("text_delta", text="do not ") + line(lost)
    broke_off(anthropic(), body + delta("text_delta", text="run it") + close, "do not ")
    broke_off(anthropic(), START + USE + line(lost) + ARGS + STOPPED + reason("tool_use") + END)


def test_two_halves_of_an_event_are_not_made_one() -> None:
    """They would parse together, with a comma between them, when they come in the same read."""
    halves = line(b'{"choices":[{"index":0,"delta":{"content":"a"}') + line(b'"finish_reason":"stop"}]}')
    broke_off(chat(), halves + DONE)
    broke_off(anthropic(), START + line(b'{"type":"ping"') + line(b'"x":1}') + reason("end_turn") + END)


@pytest.mark.parametrize(
    "alive", [b"", b"ping", b"[KEEPALIVE]", b'"keep-alive"', b"null", b"1", b"{}", b'{"type":"keepalive"}']
)
def test_what_only_keeps_a_connection_alive_is_passed_over(alive: bytes) -> None:
    assert calls_in(chat(), line(alive) + chat_call('{"a":', None) + line(alive) + chat_call(" 1}") + DONE) == [
        ({"a": 1}, '{"a": 1}')
    ]
    body = START + line(alive) + USE + line(alive) + ARGS + b": comment\n\n" + STOPPED + reason("tool_use") + END
    assert calls_in(anthropic(), body) == [({"a": 1}, '{"a": 1}')]


def test_a_torn_end_after_the_finish_reason_loses_nothing() -> None:
    assert calls_in(chat(), chat_call('{"a": 1}') + b'data: {"choices":[],"usa') == [({"a": 1}, '{"a": 1}')]


@pytest.mark.parametrize("arguments", ['{"a": 1}', "{}", "", None, {"a": 1}])
def test_a_chat_call_runs_only_when_the_finish_reason_came(arguments: Any) -> None:
    broke_off(chat(), chat_call(arguments, None) + DONE)
    broke_off(chat(), chunk(content="I call it") + chat_call(arguments, None) + DONE, "I call it")
    ((given, _),) = calls_in(chat(), chat_call(arguments) + DONE)
    assert given == (arguments if isinstance(arguments, dict) else json.loads(arguments or "{}"))
    # a server that gives its reasons as empty texts has said all it will say
    assert calls_in(chat(), chat_call(arguments, "") + DONE)[0][0] == given
    broke_off(chat(), chat_call(arguments, ""))


def test_an_end_marker_alone_is_no_answer() -> None:
    usage = line({"choices": [], "usage": {"prompt_tokens": 1}})
    for before in (b"", b": hi\n\n", usage, chunk(role="assistant")):
        broke_off(chat(), before + DONE)
    broke_off(chat(), chunk(reasoning="hm") + DONE)
    for body in (END, START + END, START + reason(None) + END):
        broke_off(anthropic(), body)
    for dialect, body in (
        (chat(), chunk(content="a") + DONE),
        (anthropic(), START + begin("text", text="a") + STOPPED + END),
    ):
        told, message = heard(dialect, body)
        assert told == "a" and isinstance(message, AssistantMessage) and message.stop_reason == "stop"


def test_an_anthropic_call_runs_only_when_its_block_and_the_reply_were_ended() -> None:
    for pieces in (b"", ARGS, delta("input_json_delta", partial_json="")):
        broke_off(anthropic(), START + USE + pieces + STOPPED + END)
        broke_off(anthropic(), START + USE + pieces + STOPPED + reason(None) + END)
        ((given, raw),) = calls_in(anthropic(), START + USE + pieces + reason("tool_use") + END)
        assert given is None and raw == ('{"a": 1}' if pieces == ARGS else "")
        ((given, _),) = calls_in(anthropic(), START + USE + pieces + STOPPED + reason("tool_use") + END)
        assert given == ({"a": 1} if pieces == ARGS else {})
    ready = begin("tool_use", id="t", name="add", input={"a": 1})
    assert calls_in(anthropic(), START + ready + reason("tool_use") + END) == [(None, '{"a":1}')]


@pytest.mark.parametrize("stop", ["content_filter", "refusal"])
def test_calls_of_a_reply_that_was_stopped_for_what_it_says_do_not_run(stop: str) -> None:
    assert calls_in(chat(), chat_call('{"a": 1}', stop) + DONE) == [(None, '{"a": 1}')]
    if stop == "refusal":
        body = START + USE + ARGS + STOPPED + reason(stop) + END
        assert calls_in(anthropic(), body) == [(None, '{"a": 1}')]


def test_a_call_cut_by_the_end_of_the_window_does_not_run() -> None:
    stop = "model_context_window_exceeded"
    assert calls_in(chat(), chat_call('{"a": 1}', stop) + DONE) == [(None, '{"a": 1}')]
    assert calls_in(anthropic(), START + USE + ARGS + STOPPED + reason(stop) + END) == [(None, '{"a": 1}')]


def test_a_call_with_damaged_characters_does_not_run_and_text_is_shown() -> None:
    good, broken = json.dumps('{"a": "\ufffd"}', ensure_ascii=False).encode(), b'"{\\"a\\": \\"\xc3(\\"}"'
    calls = b'[{"index":0,"id":"c","function":{"name":"f","arguments":%b}}]'
    chat_body = b'{"choices":[{"index":0,"%b":{"content":"a","tool_calls":' + calls + b'},"finish_reason":"stop"}]}'
    whole = b'{"content":[{"type":"tool_use","id":"t","name":"f","input":{"a":"%b"}}],"stop_reason":"tool_use"}'
    piece = b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":%b}}'
    for arguments, runs in ((good, True), (broken, False)):
        for body in (line(chat_body % (b"delta", arguments)) + DONE, chat_body % (b"message", arguments)):
            ((given, raw),) = calls_in(chat(), body)
            assert (given is not None) is runs and raw and "\ufffd" in raw
        body = START + USE + line(piece % arguments) + STOPPED + reason("tool_use") + END
        ((given, raw),) = calls_in(anthropic(), body)
        assert (given is not None) is runs and raw and "\ufffd" in raw
    assert calls_in(anthropic(), whole % b"\xef\xbf\xbd")[0][0] == {"a": "\ufffd"}
    assert calls_in(anthropic(), whole % b"\xc3(")[0] == (None, '{"a":"\ufffd("}')
    told, _ = heard(chat(), line(b'{"choices":[{"index":0,"delta":{"content":"a\xc3("},"finish_reason":"stop"}]}'))
    assert told == "a\ufffd("


def test_a_delta_of_another_kind_is_not_taken_for_the_blocks_own() -> None:
    close = STOPPED + reason("end_turn") + END
    wrong = delta("thinking_delta", thinking="h") + delta("signature_delta", signature="s")
    body = START + begin("text", text="") + ARGS + delta("text_delta", text="a") + ARGS + wrong + close
    told, message = heard(anthropic(), body)
    assert told == "a" and isinstance(message, AssistantMessage) and message.content == [Text(text="a")]
    body = START + USE + delta("text_delta", text='{"a"') + ARGS + delta("text_delta", text="}") + STOPPED
    assert calls_in(anthropic(), body + reason("tool_use") + END) == [({"a": 1}, '{"a": 1}')]
    body = START + line({"type": "content_block_start", "index": 0}) + delta("text_delta", text="a") + close
    assert heard(anthropic(), body)[0] == "a"


def test_one_call_that_is_not_in_a_list() -> None:
    one = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    streamed = {"choices": [{"index": 0, "delta": {"tool_calls": one}, "finish_reason": "tool_calls"}]}
    whole = {"choices": [{"index": 0, "message": {"tool_calls": one}, "finish_reason": "tool_calls"}]}
    assert calls_in(chat(), line(streamed) + DONE) == [({"a": 1}, '{"a": 1}')]
    assert calls_in(chat(), json.dumps(whole).encode()) == [({"a": 1}, '{"a": 1}')]


@EACH
def test_an_empty_body_and_half_a_json_body_broke_off(dialect: Dialect) -> None:
    said = {"choices": [{"index": 0, "message": {"content": "who"}}], "content": [{"type": "text", "text": "w"}]}
    whole = json.dumps({**said, "output": []})
    assert isinstance(heard(dialect, whole.encode())[1], AssistantMessage)
    for body in (b"", b"\n\n \r\n", b"\xef\xbb\xbf", *(whole[:n].encode() for n in range(1, len(whole)))):
        broke_off(dialect, body)


@EACH
def test_an_error_as_the_whole_body_has_a_class_and_a_sentence(dialect: Dialect) -> None:
    for body, class_, words in (
        (b'{"error":"model not found"}', "not_found", "model not found"),
        (b'{"error":{}}', "server", "reported an error without saying why"),
        (b'{"error":{"type":"overloaded_error"}}', "overloaded", "(overloaded_error)"),
    ):
        _, error = heard(dialect, body)
        assert isinstance(error, ProviderError)
        assert error.class_ == class_ and words in str(error) and "{" not in str(error)


def test_models_behind_openrouter_that_cache_only_what_is_marked_are_marked() -> None:
    def sent(model: str) -> dict[str, Any]:
        params = CompletionParams(model, [user_message("hi")], tools=[ADD], tool_choice="none")
        return json.loads(chat("openrouter").request(params, base_url="http://h/v1", api_key="k").body)  # type: ignore[no-any-return]

    claude, gpt = sent("anthropic/claude-sonnet-5"), sent("openai/gpt-5")
    assert claude["cache_control"] == {"type": "ephemeral"} and "tool_choice" not in claude and claude["tools"]
    assert "cache_control" not in gpt and gpt["tool_choice"] == "none"
