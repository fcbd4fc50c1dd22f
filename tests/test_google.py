"""Gemini: what is sent, what is read, and what the strict vendor refuses."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas import Agent, tool
from orkas.harness.tool import ToolResult
from orkas.infra.errors import ProviderError
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
    decode_message,
    encode,
    text_of,
    tool_result,
    user_message,
)  # fmt: skip
from orkas.providers.base import CompletionParams, LLMProvider, TextPart, ThinkingPart, ToolDef
from orkas.providers.google import Google
from orkas.providers.google.request import API
from orkas.providers.google.schema import openapi
from orkas.providers.google.wire import Grown
from orkas.providers.registry import resolve
from orkas.testing import FakeVendor, Say, VendorRequest, Whole, call
from orkas.testing.rules import Rejection, check_google, check_http
from published import google, validated

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
needs_shared = pytest.mark.skipif(not (SHARED / "wire").is_dir(), reason="recorded traffic is not here")

PNG = "iVBORw0KGgo="
G2, G25, G3 = "gemini-2.0-flash", "gemini-2.5-flash", "gemini-3-pro-preview"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = ToolDef("add", "Add.", SCHEMA)
DUMMY = "skip_thought_signature_validator"

Body = dict[str, Any]


def test_the_published_types_are_really_asked() -> None:
    if google() is None:
        pytest.skip("google-genai is not installed")
    with pytest.raises(AssertionError, match="thinkingBudge"):
        validated({"generationConfig": {"thinkingConfig": {"thinkingBudge": 1}}})


def sent(messages: list[Message], model: str = G3, dialect: Google | None = None, **more: Any) -> Body:
    params = CompletionParams(model=model, messages=messages, **more)
    request = (dialect or Google()).request(params, base_url="http://h/v1beta", api_key="k")
    body = validated(json.loads(request.body))
    if messages:
        assert check_google(body, model=model) is None
    return body


def said(*blocks: Block, model: str = f"google/{G3}", api: str = API, stop: str = "stop") -> AssistantMessage:
    return AssistantMessage(list(blocks), model, api, stop)


def use(id: str = "c1", name: str = "add", signature: str | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments, signature=signature)


def picture(call_id: str, kind: str = "image/png") -> UserMessage:
    return UserMessage([Image(media_type=kind, data=PNG)], origin="tool_image", tool_call_id=call_id)


# ------------------------------------------------------------------ what is sent


def test_a_request() -> None:
    messages: list[Message] = [
        user_message("look", [Image(media_type="image/png", data=PNG)]),
        said(Text(text="ok"), use("x", a=1, signature="c2ln"), use("y"), stop="tool_use"),
        tool_result("x", "1"),
        tool_result("y", "", is_error=True),
        user_message("and?"),
        user_message("now"),
    ]
    params = CompletionParams(G3, messages, system="sys", tools=[ADD], max_output=9, thinking="low")
    request = Google().request(params, base_url="http://h/v1beta/", api_key="k")
    assert request.url == f"http://h/v1beta/models/{G3}:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == "k" and "k" not in request.url.partition("?")[2]
    assert validated(json.loads(request.body)) == {
        "generationConfig": {
            "maxOutputTokens": 9, "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
        },
        "systemInstruction": {"parts": [{"text": "sys"}]},
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "tools": [{"functionDeclarations": [
            {"name": "add", "description": "Add.", "parametersJsonSchema": SCHEMA},
        ]}],
        "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "look"}]},
            {"role": "model", "parts": [
                {"text": "ok"},
                {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "add", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "add", "response": {"output": "1"}}},
                {"functionResponse": {"name": "add", "response": {"error": "(no output)"}}},
            ]},
            {"role": "user", "parts": [{"text": "and?"}, {"text": "now"}]},
        ],
    }  # fmt: skip


def test_older_models_get_the_subset_of_openapi() -> None:
    messages: list[Message] = [user_message("hi")]
    none = ToolDef("now", "Now.", {})
    (declared,) = (t["functionDeclarations"] for t in sent(messages, G2, tools=[ADD, none])["tools"])
    assert declared == [
        {
            "name": "add", "description": "Add.",
            "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}, "required": ["a"]},
        },
        {"name": "now", "description": "Now."},
    ]  # fmt: skip
    assert sent(messages, G25, tools=[ADD, none])["tools"][0]["functionDeclarations"][1]["parametersJsonSchema"] == {
        "type": "object", "properties": {},
    }  # fmt: skip
    off = sent(messages, G3, tools=[ADD], tool_choice="none")
    assert off["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


def test_thinking_levels() -> None:
    def thinking(model: str, level: Any, **more: Any) -> Any:
        body = sent([user_message("hi")], model, thinking=level, **more)
        return body.get("generationConfig", {}).get("thinkingConfig")

    assert thinking(G25, None) is None and thinking(G2, "high") is None
    assert thinking(G25, "off") == {"thinkingBudget": 0, "includeThoughts": False}
    assert thinking("gemini-2.5-pro", "off") == {"thinkingBudget": 128, "includeThoughts": False}
    assert thinking(G25, "medium") == {"thinkingBudget": 8_192, "includeThoughts": True}
    assert thinking(G25, "high", max_output=9_000) == {"thinkingBudget": 7_976, "includeThoughts": True}
    assert thinking(G25, "low", max_output=1_300) == {"thinkingBudget": 0, "includeThoughts": False}
    assert thinking(G25, "low", max_output=500) == {"thinkingBudget": 0, "includeThoughts": False}
    assert thinking("gemini-2.5-pro", "low", max_output=500) == {"thinkingBudget": 128, "includeThoughts": True}
    assert thinking(G3, "medium") == {"thinkingLevel": "HIGH", "includeThoughts": True}
    assert thinking("gemini-3.1-pro-preview", "medium") == {"thinkingLevel": "MEDIUM", "includeThoughts": True}
    assert thinking(G3, "off") == {"thinkingLevel": "LOW", "includeThoughts": False}
    assert thinking("gemini-3-flash-preview", "off") == {"thinkingLevel": "MINIMAL", "includeThoughts": False}


def test_signatures_go_back_on_the_parts_they_came_on() -> None:
    text = Text(text="one two", vendor={"signed": [[0, 3, "c2ln"], [7, 7, "ZW5k"]]})
    server = {"toolCall": {"id": "s", "toolType": "FILE_SEARCH"}, "thoughtSignature": "c2Vy"}
    mine = said(
        Thinking(text="hm"), Thinking(text="so", signature="dGgx"), Opaque(kind="toolCall", vendor=server), text,
        Image(media_type="image/png", data=PNG, vendor={"thoughtSignature": "aW1n"}),
        ToolCall(id="v1", name="add", arguments={}, signature="Y2Fs", vendor={"id": "v1"}), use("made"),
    )  # fmt: skip
    history: list[Message] = [user_message("hi"), mine, tool_result("v1", "1"), tool_result("made", "2")]
    (_, own, results) = sent(history)["contents"]
    assert own["parts"] == [
        {"text": "so", "thought": True, "thoughtSignature": "dGgx"},
        server,
        {"text": "one", "thoughtSignature": "c2ln"},
        {"text": " two"},
        {"text": "", "thoughtSignature": "ZW5k"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "aW1n"},
        {"functionCall": {"name": "add", "args": {}, "id": "v1"}, "thoughtSignature": "Y2Fs"},
        {"functionCall": {"name": "add", "args": {}}},
    ]
    assert [p["functionResponse"].get("id") for p in results["parts"]] == ["v1", None]
    for model in (G25, "gemini-3-flash-preview"):
        other = json.dumps(sent(history, model))
        assert not any(s in other for s in ("c2ln", "ZW5k", "c2Vy", "dGgx", "aW1n", "Y2Fs", "v1", "hm", "toolCall"))
        assert "one two" in other and (DUMMY in other) == (model != G25)
    assert sent(history)["contents"][1] == own


def test_an_answer_that_broke_off_goes_with_its_text_alone() -> None:
    text = Text(text="I was", vendor={"signed": [[0, 5, "c2ln"]]})
    broken = said(Thinking(text="hm", signature="aGFsZg=="), text, stop="aborted")
    (_, own, _) = sent([user_message("hi"), broken, user_message("go")])["contents"]
    assert own["parts"] == [{"text": "I was"}]


def test_calls_of_other_models_carry_the_documented_stand_in() -> None:
    history: list[Message] = []
    for n in range(2):
        history += [
            user_message("go"),
            said(use(f"a{n}"), use(f"b{n}"), model="anthropic/m", api="anthropic_messages"),
            tool_result(f"a{n}", "1"), tool_result(f"b{n}", "2"),
        ]  # fmt: skip
    for body, wanted in ((sent(history), [DUMMY, None, DUMMY, None]), (sent(history, G25), [None] * 4)):
        calls = [p for c in body["contents"] for p in c["parts"] if "functionCall" in p]
        assert [c.get("thoughtSignature") for c in calls] == wanted
        assert all("id" not in c["functionCall"] for c in calls)


def test_pictures_of_results_stand_in_them_or_in_a_part_of_their_own() -> None:
    history: list[Message] = [
        user_message("hi"), said(use("a"), use("b")), tool_result("a", "1"), tool_result("b", "2"),
        picture("b"), picture("a", "image/gif"), user_message("and?"),
    ]  # fmt: skip
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    new = sent(history)["contents"]
    assert [p["functionResponse"].get("parts") for p in new[2]["parts"]] == [None, [image]]
    old = sent(history, G25)["contents"]
    assert [list(p["functionResponse"]) for p in old[2]["parts"]] == [["name", "response"]] * 2
    assert old[3]["parts"][0] == image
    for contents in (new, old):
        assert "format is not accepted" in json.dumps(contents[3])
        assert contents[4 if contents[3]["parts"][-1] != {"text": "and?"} else 3]["parts"][-1] == {"text": "and?"}
    within = ToolMessage("a", [Text(text="1"), Image(media_type="image/png", data=PNG)])
    alone: list[Message] = [user_message("hi"), said(use("a")), within]
    assert sent(alone)["contents"][-1]["parts"][0]["functionResponse"]["parts"] == [image]
    assert sent(alone, G25)["contents"][-1] == {"role": "user", "parts": [image]}


def test_a_picture_whose_result_is_long_gone_is_the_users() -> None:
    history: list[Message] = [user_message("hi"), picture("gone")]
    assert "inlineData" in sent(history)["contents"][0]["parts"][1]


def test_odd_beginnings_and_ends() -> None:
    hello = said(Text(text="hello"))
    first = sent([hello, user_message("hi")])["contents"]
    assert [c["role"] for c in first] == ["user", "model", "user"]
    last = sent([user_message("hi"), hello, hello])["contents"]
    assert [c["role"] for c in last] == ["user", "model", "user"] and len(last[1]["parts"]) == 2
    assert sent([user_message("")])["contents"][0]["parts"] == [{"text": "(empty)"}]
    nothing = said(Text(text=" "), Text(text="", vendor={"signed": [[0, 0, "c2ln"]]}), Thinking(text="hm"))
    (only,) = sent([user_message("hi"), nothing, user_message("go")])["contents"]
    assert only["parts"] == [{"text": "hi"}, {"text": "go"}]
    assert sent([])["contents"] == []


@pytest.mark.parametrize(
    "signed",
    [None, 1, [1], [[0]], [["a", 1, "s"]], [[0, 99, "s"]], [[5, 2, "s"]], [[-1, 1, "s"]], [[0, 2, None]],
     [[2, 3, "c2ln"], [0, 1, "c2ln"]]],
    ids=repr,
)  # fmt: skip
def test_signatures_that_do_not_fit_their_text_cost_no_text(signed: Any) -> None:
    text = Text(text="words", vendor={"signed": signed})
    (_, own, _) = sent([user_message("hi"), said(text), user_message("go")])["contents"]
    assert "".join(p["text"] for p in own["parts"]) == "words"


def test_names_that_google_does_not_take_are_mapped() -> None:
    names = ["2fa", "-x", "web.search", "x" * 65, "検索", "9" * 70]
    tools = [ToolDef(n, "", {}) for n in names]
    history: list[Message] = [user_message("hi")]
    for i, name in enumerate(names):
        history += [said(use(f"c{i}", name)), tool_result(f"c{i}", "1")]
    body = sent(history, tools=tools)
    offered = [t["name"] for t in body["tools"][0]["functionDeclarations"]]
    calls = [p["functionCall"]["name"] for c in body["contents"] for p in c["parts"] if "functionCall" in p]
    assert calls == offered and len(set(calls)) == len(names)


def test_old_messages_are_written_once() -> None:
    """Counted by the pictures that are read for it."""
    read: list[str] = []

    def media(file: str) -> bytes:
        read.append(file)
        return b"pixels"

    history: list[Message] = []
    for n in range(20):
        history += [user_message("see", [Image(media_type="image/png", file=f"{n}.png")]), said(use(f"c{n}"))]
        shown = UserMessage([Image(media_type="image/png", file=f"r{n}.png")], origin="tool_image", tool_call_id=f"c{n}")
        history += [tool_result(f"c{n}", "1"), shown, said(Text(text="ok"))]
    dialect = Google()
    for _ in range(5):
        history.append(user_message("go"))
        sent(history, dialect=dialect, media=media)
    assert len(read) == 40


# ------------------------------------------------------------------ any history

texts = st.sampled_from(["", " ", "hi", "caffè ☕", "\ud83c", "a\nb"]) | st.text(max_size=5)
images = st.builds(
    Image, media_type=st.sampled_from(["image/png", "image/gif"]), data=st.sampled_from([PNG, "", None]),
    vendor=st.sampled_from([None, {"thoughtSignature": "c2ln"}]),
)  # fmt: skip
signed = st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 6), st.just("c2ln")).map(list), max_size=2)
spoken = st.builds(Text, text=texts, vendor=st.none() | signed.map(lambda s: {"signed": s}))
thoughts = st.builds(Thinking, text=texts, signature=st.sampled_from([None, "c2ln"]))
opaque = st.just(Opaque(kind="toolCall", vendor={"toolCall": {"id": "s"}, "thoughtSignature": "c2ln"}))
stamps = st.sampled_from(
    [(f"google/{G3}", API), (f"google/{G25}", API), ("vertex/x", API), ("openai/m", "openai_chat"), ("", "")]
)
ids = st.sampled_from(["c1", "c2", "x" * 80, "", "\ud83c"])


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Paired histories of several models, with everything odd in them that can be stored."""
    out: list[Message] = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            out.append(UserMessage([*draw(st.lists(st.builds(Text, text=texts) | images, max_size=3))]))
            continue
        calls = [
            ToolCall(
                id=draw(ids), name=draw(st.sampled_from(["add", "2x", "\ud83c", " "])),
                arguments=draw(st.none() | st.dictionaries(texts, texts, max_size=2)),
                signature=draw(st.sampled_from([None, "c2ln"])), vendor=draw(st.sampled_from([None, {"id": "v"}, {"id": 1}])),
            )
            for _ in range(draw(st.integers(0, 3)))
        ]  # fmt: skip
        blocks = [*draw(st.lists(spoken | thoughts | opaque | images, max_size=3)), *calls]
        model, api = draw(stamps)
        stop = draw(st.sampled_from(["stop", "tool_use", "aborted", "error"]))
        out.append(AssistantMessage(list(draw(st.permutations(blocks))), model, api, stop))
        made = calls_of(out[-1])
        out += [ToolMessage(c.id, [Text(text=draw(texts)), *draw(st.lists(images, max_size=1))]) for c in made]
        out += [picture(c.id) for c in made if draw(st.booleans())]
    return [*out, user_message("go")]


@settings(max_examples=150, deadline=None)
@given(histories(), st.sampled_from([G2, G25, G3]))
def test_any_history_gives_a_valid_request(history: list[Message], model: str) -> None:
    kept = [encode(m) for m in history]
    sent(history, model)
    assert [encode(m) for m in history] == kept


@settings(max_examples=100, deadline=None)
@given(histories(), st.sampled_from([G25, G3]))
def test_requests_grow_at_their_end_only(history: list[Message], model: str) -> None:
    running, before = Google(), b""
    for n in range(1, len(history) + 1):
        following = history[n] if n < len(history) else None
        if calls_of(history[n - 1]) or isinstance(following, ToolMessage):
            continue  # no request is made between a call and its last result
        if isinstance(following, UserMessage) and following.origin == "tool_image":
            continue  # pictures come with their results
        params = CompletionParams(model, history[:n], system="s", tools=[ADD])
        body = running.request(params, base_url="http://h", api_key="k").body
        assert body == Google().request(params, base_url="http://h", api_key="k").body
        if type(history[n - 1]) is not AssistantMessage:
            assert body.startswith(before.rstrip(b"]}"))
            before = body


# ------------------------------------------------------------------ schemas


def cleaned(**properties: Any) -> Any:
    defs = properties.pop("defs", {})
    return (openapi({"type": "object", "properties": properties, "$defs": defs}) or {})["properties"]


def test_schemas_in_the_words_of_openapi() -> None:
    out = cleaned(
        one={"const": "a"}, maybe={"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
        many={"type": ["string", "integer", "null"]}, either={"oneOf": [{"type": "string"}, {"type": "integer"}]},
        number={"enum": [1, 2], "type": "integer"}, list={"type": "array"}, choice={"enum": ["a", None, "b"]},
        above={"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2, "title": "T", "$schema": "x"},
        ref={"$ref": "#/$defs/P"}, tree={"$ref": "#/$defs/Tree"}, anything={}, truth=True,
        when={"type": "string", "format": "date-time"}, mail={"type": "string", "format": "email"},
        both={"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {}}}]},
        free={"type": "object", "additionalProperties": {"type": "string"}},
        defs={
            "P": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x", "gone"]},
            "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}},
        },
    )  # fmt: skip
    assert out["one"] == {"type": "STRING", "enum": ["a"]}
    assert out["maybe"] == {"type": "STRING", "description": "d", "nullable": True}
    assert out["many"] == {"anyOf": [{"nullable": True, "type": "STRING"}, {"nullable": True, "type": "INTEGER"}]}
    assert out["either"] == {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}
    assert out["number"] == {"type": "INTEGER", "description": "One of: 1, 2."}
    assert out["list"] == {"type": "ARRAY", "items": {"type": "STRING"}}
    assert out["choice"] == {"type": "STRING", "enum": ["a", "b"], "nullable": True}
    assert out["above"] == {"type": "INTEGER", "minimum": 0, "description": "T"}
    assert out["ref"] == {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}, "required": ["x"]}
    assert out["tree"]["properties"]["next"]["type"] == "OBJECT"
    assert out["anything"] == out["truth"] == {"type": "STRING"}
    assert out["when"] == {"type": "STRING", "format": "date-time"} and out["mail"] == {"type": "STRING"}
    assert out["both"]["properties"].keys() == {"a", "b"} and out["both"]["required"] == ["a"]
    assert out["free"] == {"type": "OBJECT"}


def test_a_schema_without_an_end_is_cut() -> None:
    tree = {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcdef"}}
    for parameters in (tree, {**tree, "allOf": [{"$ref": "#"}] * 3}, {**tree, "anyOf": [{"$ref": "#"}] * 3}):
        sent([user_message("hi")], G2, tools=[ToolDef("t", "d", parameters)])
    assert len(json.dumps(openapi(tree))) < 100_000


def test_tools_without_arguments_and_odd_ones() -> None:
    for odd in ({}, {"type": "object", "properties": {}}, {"type": "array"}, {"type": "string"}, {"properties": 1}):
        assert openapi(odd) is None


leaves = st.sampled_from(
    [{}, True, None, 1, "x", [], {"type": "string"}, {"type": ["null"]}, {"const": None}, {"enum": [1, "a", None]},
     {"$ref": "#/$defs/A"}, {"$ref": "#"}, {"$ref": "http://h"}, {"type": "array"}, {"enum": []}, {"pattern": 1}]
)  # fmt: skip
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.dictionaries(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, max_size=3), min_size=1),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
            optional={"required": st.just(["a", "z", 1]), "additionalProperties": inner, "not": inner},
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(schemas, schemas)
def test_no_schema_makes_google_refuse_a_tool(schema: Any, other: Any) -> None:
    parameters = {"type": "object", "properties": {"p": schema}, "$defs": {"A": other}}
    sent([user_message("hi")], G2, tools=[ToolDef("t", "d", parameters)])


# ------------------------------------------------------------------ what is read


def chunk(*parts: Any, finish: Any = None, **more: Any) -> bytes:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return b"data: " + json.dumps({"candidates": [candidate], **more}).encode() + b"\r\n\r\n"


def heard(body: bytes, size: int = 10_000) -> AssistantMessage | ProviderError:
    """How a reply ended; what was told of it is what it holds."""
    reader = Google().reader(model=f"google/{G3}")
    parts = [p for i in range(0, len(body), size) for p in reader.feed(body[i : i + size])] + reader.feed(b"")
    partial = reader.partial()
    assert partial.stop_reason == "error" and all(c.arguments is None for c in calls_of(partial))
    assert decode_message(encode(partial)) is not None
    told = ["".join(p.text for p in parts if type(p) is kind) for kind in (TextPart, ThinkingPart)]
    assert told == [text_of(partial), "".join(b.text for b in partial.content if isinstance(b, Thinking))]
    try:
        return reader.close()
    except ProviderError as error:
        return error


def reply(body: bytes) -> AssistantMessage:
    first, *rest = (heard(body, size) for size in (1, 7, 10_000))
    assert isinstance(first, AssistantMessage), first
    for other in rest:
        assert isinstance(other, AssistantMessage)
        assert [type(b) for b in other.content] == [type(b) for b in first.content]
        assert (text_of(other), other.stop_reason, other.usage) == (text_of(first), first.stop_reason, first.usage)
    return first


def failure(body: bytes) -> ProviderError:
    for size in (1, 7, 10_000):
        error = heard(body, size)
        assert isinstance(error, ProviderError), error
    return error


def test_every_block_keeps_its_own_signature_and_place() -> None:
    body = (
        chunk({"text": "a", "thought": True}, {"text": "b", "thought": True, "thoughtSignature": "s1"})
        + chunk({"text": "c", "thought": True}, {"text": "one "}, {"text": "two", "thoughtSignature": "s2"})
        + chunk({"text": " three"})
        + chunk({"functionCall": {"name": "f", "args": {"a": 1}, "id": "v"}, "thoughtSignature": "s3"})
        + chunk({"text": "end"}, {"executableCode": {"code": "1"}, "thoughtSignature": "s4"}, {"newKind": {"x": 1}})
        + chunk({"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "s5"})
        + chunk({"text": "", "thoughtSignature": "s6"}, finish="STOP")
    )
    message = reply(body)
    assert message.stop_reason == "tool_use"
    assert message.content == [
        Thinking(text="a"), Thinking(text="b", signature="s1"), Thinking(text="c"),
        Text(text="one two three", vendor={"signed": [[4, 7, "s2"]]}),
        ToolCall(id="v", name="f", arguments={"a": 1}, signature="s3", vendor={"id": "v"}), Text(text="end"),
        Opaque(kind="executableCode", vendor={"executableCode": {"code": "1"}, "thoughtSignature": "s4"}),
        Opaque(kind="newKind", vendor={"newKind": {"x": 1}}),
        Image(media_type="image/png", data=PNG, vendor={"thoughtSignature": "s5"}),
        Text(text="", vendor={"signed": [[0, 0, "s6"]]}),
    ]  # fmt: skip
    assert decode_message(encode(message)) == message


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("STOP", "stop"), (1, "stop"), ("MAX_TOKENS", "length"), (2, "length"), ("SAFETY", "content_filter"),
     (8, "content_filter"), ("MODEL_ARMOR", "content_filter"), ("MALFORMED_FUNCTION_CALL", "error"), (99, "error"),
     ("OTHER", "error"), ("SOMETHING_NEW", "stop")],
)  # fmt: skip
def test_finish_reasons(finish: Any, stop: str) -> None:
    message = reply(chunk({"text": "a"}) + chunk({"text": "b"}, finish=finish))
    assert (text_of(message), message.stop_reason) == ("ab", stop)
    call = {"functionCall": {"name": "f", "args": {"a": 1}}}
    (made,) = calls_of(reply(chunk(call, finish=finish)))
    runs = stop in ("stop", "error")  # a reply that ended in an error is asked for again as a whole
    assert made.arguments == ({"a": 1} if runs else None)


def test_a_blocked_prompt_says_why() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}
    for body in (b"data: " + json.dumps(blocked).encode() + b"\n\n", json.dumps(blocked).encode()):
        message = reply(body)
        assert message.stop_reason == "content_filter" and not message.content
        assert message.vendor == {**blocked["promptFeedback"], "refusal": "no"}


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_without_a_finish_reason_nothing_is_whole(size: int) -> None:
    call = chunk({"functionCall": {"name": "f", "args": {}}})
    for body in (b"", b"\n", chunk({"text": "a"}), call, b"[]", b"[{}]", b"{}", b'data: {"usageMetadata":{}}\n\n'):
        error = heard(body, size)
        assert isinstance(error, ProviderError)
        if body not in (b"[]", b"[{}]", b"{}"):
            assert error.class_ == "connection", body


def test_forms_of_a_stream_and_errors_in_them() -> None:
    parts = [chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP")]
    bare = [p.removeprefix(b"data: ").strip() for p in parts]
    for body in (b"".join(parts), b"[" + b"\n,\r\n".join(bare) + b"\n]", b"\xef\xbb\xbf" + b"".join(parts)):
        assert text_of(reply(body)) == "ab"
    fault = json.dumps({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}).encode()
    for body in (
        parts[0] + b"data: " + fault + b"\n\n" + parts[1], b"[" + fault + b"]", fault, b"[" + bare[0] + b"," + fault + b"]",
    ):  # fmt: skip
        error = failure(body)
        assert error.class_ == "overloaded" and "The model is overloaded." in error.message
    whole = b"[" + b",".join(bare) + b"]"
    for end in range(len(whole)):
        assert failure_class(whole[:end]) == "connection"


def failure_class(body: bytes) -> str:
    error = heard(body)
    assert isinstance(error, ProviderError)
    return error.class_


def test_other_answers_and_late_counts() -> None:
    two = {"candidates": [
        {"index": 0, "content": {"parts": [{"text": "a"}]}}, {"index": 1, "content": {"parts": [{"text": "z"}]}},
    ]}  # fmt: skip
    last = {"candidates": [], "usageMetadata": {
        "promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 5, "thoughtsTokenCount": 7,
        "toolUsePromptTokenCount": "3",
    }}  # fmt: skip
    line = b"data: %s\n\n"
    body = line % json.dumps(two).encode() + chunk(finish="STOP") + line % json.dumps(last).encode()
    message = reply(body)
    assert text_of(message) == "a" and message.usage is not None
    usage = message.usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (63, 40, 12, 7)


def test_ids_are_our_own_where_google_gives_none_or_one_twice() -> None:
    calls = [{"functionCall": {"name": "f", "args": {}, **more}} for more in ({}, {"id": "v"}, {"id": "v"}, {})]
    made = calls_of(reply(chunk(*calls, finish="STOP")))
    assert len({c.id for c in made}) == 4 and made[1].id == "v"
    assert [c.vendor for c in made] == [None, {"id": "v"}, {"id": "v"}, None]


def test_arguments_in_pieces() -> None:
    def pieces(*pieces: Any, more: bool = True, **rest: Any) -> bytes:
        call = {"partialArgs": list(pieces), **({"willContinue": True} if more else {}), **rest}
        return chunk({"functionCall": call})

    start = chunk({"functionCall": {"name": "f", "willContinue": True}})
    end = chunk({"functionCall": {}}, finish="STOP")
    grow = pieces({"jsonPath": "$.a[0]['b c']", "stringValue": "x", "willContinue": True})
    grow += pieces({"jsonPath": "$.a[0]['b c']", "stringValue": "y"}, {"jsonPath": "$.n", "numberValue": 2})
    grow += pieces({"jsonPath": "$.t", "boolValue": False}, {"jsonPath": "$.z", "nullValue": None})
    (made,) = calls_of(reply(start + grow + end))
    assert made.arguments == {"a": [{"b c": "xy"}], "n": 2, "t": False, "z": None} and made.arguments_raw is None
    for broken in (
        pieces({"jsonPath": "$.a[7]", "stringValue": "x"}), pieces({"jsonPath": "a", "stringValue": "x"}),
        pieces({"stringValue": "x"}), pieces({"jsonPath": "$.a"}), pieces({"jsonPath": "$", "numberValue": 1}),
        pieces({"jsonPath": "$.a", "stringValue": "x"}, {"jsonPath": "$.a.b", "stringValue": "x"}),
    ):  # fmt: skip
        (made,) = calls_of(reply(start + broken + end))
        assert made.arguments is None
    (made,) = calls_of(reply(start + grow + chunk(finish="STOP")))  # it never said that it was done
    assert made.arguments is None and "xy" in str(made.arguments_raw)


@given(
    st.recursive(
        st.text(max_size=5) | st.booleans() | st.integers(-9, 9) | st.none(),
        lambda inner: st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("ab.'[]\\\"ü", min_size=1, max_size=4), inner, min_size=1, max_size=3),
        max_leaves=8,
    ).map(lambda v: {"top": v}),
    st.integers(1, 3),
)
def test_whatever_is_taken_apart_is_put_together(value: Any, size: int) -> None:
    grown = Grown(None)
    for path, leaf in leaf_paths(value, "$"):
        if isinstance(leaf, str):
            for at in range(0, max(len(leaf), 1), size):
                more = at + size < len(leaf)
                grown.take({"jsonPath": path, "stringValue": leaf[at : at + size], "willContinue": more})
        else:
            kind = "nullValue" if leaf is None else "boolValue" if isinstance(leaf, bool) else "numberValue"
            grown.take({"jsonPath": path, kind: leaf})
    assert grown.value == value and not grown.broken


def leaf_paths(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            plain = re.fullmatch(r"[a-z]+", key)
            quoted = key.replace("\\", "\\\\").replace("'", "\\'")
            yield from leaf_paths(inner, f"{at}.{key}" if plain else f"{at}['{quoted}']")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from leaf_paths(inner, f"{at}[{i}]")
    else:
        yield at, value


def test_arguments_that_are_no_object_do_not_run() -> None:
    for args, wanted in (("[1]", None), ("x", None), (5, None), (None, {}), ('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1})):
        (made,) = calls_of(reply(chunk({"functionCall": {"name": "f", "args": args}}, finish="STOP")))
        assert made.arguments == wanted, args


def test_damaged_bytes_and_lost_events() -> None:
    call = b'data: {"candidates":[{"content":{"parts":[{"text":"x%b"},{"functionCall":{"name":"f","args":{"a":"%b"}}}]},'
    call += b'"finishReason":"STOP"}]}\n\n'
    (made,) = calls_of(reply(call % (b"\xc3(", b"\xc3(")))
    assert made.arguments is None and "\ufffd" in str(made.arguments_raw)
    assert calls_of(reply(call % (b"\xc3\xa9", b"")))[0].arguments == {"a": ""}
    for lost in (b'{"candidates":[{"content":{"par', b'"text":"x"}]}}]}', b'{"a":"\xff'):
        body = chunk({"text": "do not "}) + b"data: " + lost + b"\n\n" + chunk({"text": "run it"}, finish="STOP")
        assert failure_class(body) == "connection"
    for alive in (b"ping", b"{}", b"null", b'"alive"', b": comment"):
        assert text_of(reply(b"data: " + alive + b"\n\n" + chunk({"text": "a"}, finish="STOP"))) == "a"


def test_halves_of_surrogate_pairs_are_joined() -> None:
    body = chunk({"text": "a\ud83c"}) + chunk({"text": "\udf78b"}) + chunk({"text": "\ud83c"}, finish="STOP")
    reader = Google().reader(model="google/m")
    reader.feed(body)
    assert text_of(reader.close()) == "a\U0001f378b\ufffd"


# ------------------------------------------------------------------ through a socket

KEY = "AIzaTest"
ROWS = {
    "gemini3": f"google/{G3}", "gemini2.5": f"google/{G25}", "vertex": f"vertex/{G3}",
    "vertex-claude": "vertex-anthropic/claude-sonnet-4-5@20250929",
}  # fmt: skip
ENVIRON = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-east5"}


def connect(vendor: FakeVendor, name: str) -> tuple[LLMProvider, str]:
    return resolve(ROWS[name], base_url=vendor.base_url, api_key=KEY, environ=ENVIRON)


async def ask(vendor: FakeVendor, name: str, history: list[Message], answer: Any, **more: Any) -> AssistantMessage:
    """One exchange with a strict vendor; the reply joins the history."""
    vendor.script([answer])
    provider, model = connect(vendor, name)
    try:
        message = await provider.complete(CompletionParams(model, history, system="s", tools=[ADD], **more))
    finally:
        await provider.aclose()
    request = vendor.requests[-1]
    assert request.status == 200
    if "enerateContent" in request.path and request.body:
        validated(request.body)
    history.append(message)
    return message


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


@pytest.mark.parametrize("form", [Say, lambda pieces: Whole(Say(pieces))], ids=["events", "body"])
@pytest.mark.parametrize("name", ["gemini3", "gemini2.5", "vertex"])
async def test_a_script_is_spoken(vendor: FakeVendor, name: str, form: Callable[[Any], Any]) -> None:
    history: list[Message] = [user_message("hi")]
    said = [Thinking(text="hm"), "so ", "be it", call("add", id="c1", a=2), call("add", id="c2", b="ü")]
    first = await ask(vendor, name, history, form(said))
    kinds: list[type] = [Thinking, Text, ToolCall, ToolCall]
    assert [type(b) for b in first.content] == kinds and first.stop_reason == "tool_use"
    one, two = calls_of(first)
    assert (one.arguments, two.arguments) == ({"a": 2}, {"b": "ü"}) and one.signature and not two.signature
    assert (one.id == "c1") == (name != "gemini2.5")
    history += [tool_result(c.id, "5") for c in calls_of(first)]
    last = await ask(vendor, name, history, form([Thinking(text="well"), "seven"]))
    assert text_of(last) == "seven" and last.stop_reason == "stop"
    assert (last.content[-1].vendor or {})["signed"][0][:2] == [5, 5]
    body = vendor.requests[-1].body
    assert body is not None and body["contents"][1]["parts"][1]["thoughtSignature"] == one.signature
    headers = vendor.requests[-1].headers
    assert headers["x-goog-api-key"] == KEY and KEY not in repr(vendor.requests[-1])
    assert vendor.requests[-1].path.endswith(":streamGenerateContent?alt=sse")


def test_a_stream_without_events_is_one_list(vendor: FakeVendor) -> None:
    import urllib.request

    vendor.script([["a", "b"]])
    body = json.dumps({"contents": [{"parts": [{"text": "hi"}]}]}).encode()
    url = f"{vendor.base_url}/v1beta/models/{G3}:streamGenerateContent"
    request = urllib.request.Request(url, body, {"x-goog-api-key": "k"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        raw = answer.read()
    assert isinstance(json.loads(raw), list)
    assert text_of(reply(raw)) == "ab"


async def test_broken_arguments_have_no_form_on_this_wire(vendor: FakeVendor) -> None:
    broken = ToolCall(id="c", name="add", arguments=None, arguments_raw='{"a": ')
    message = await ask(vendor, "gemini3", [user_message("hi")], [broken])
    assert message.stop_reason == "error" and message.vendor == {"finishReason": "MALFORMED_FUNCTION_CALL"}


@pytest.mark.parametrize("name", ["gemini3", "vertex", "vertex-claude"])
async def test_credentials_are_checked_with_a_cheap_request(name: str) -> None:
    with FakeVendor(keys=[KEY]) as vendor:
        provider, _ = connect(vendor, name)
        status = await provider.validate_auth()
        assert status.ok, status
        wrong, _ = resolve(ROWS[name], base_url=vendor.base_url, api_key="AIzaWrong", environ=ENVIRON)
        refused = await wrong.validate_auth()
        assert refused.ok is False and "AIzaWrong" not in refused.message
        for one in (provider, wrong):
            await one.aclose()
        assert {r.method for r in vendor.requests} == {"GET"}
        paths = {r.path for r in vendor.requests}
    place = "projects/p/locations/us-east5/cachedContents"
    wanted = {"gemini3": "/v1beta/models", "vertex": f"/v1beta1/{place}", "vertex-claude": f"/v1/{place}"}
    assert paths == {wanted[name]}


async def test_a_model_that_is_not_there() -> None:
    with FakeVendor(models=["gemini-9"]) as vendor:
        with pytest.raises(ProviderError) as caught:
            await ask(vendor, "gemini3", [user_message("hi")], "x")
        assert caught.value.class_ == "not_found" and G3 in caught.value.message


@pytest.mark.filterwarnings("ignore")
def test_googles_own_client_understands_the_fake(vendor: FakeVendor) -> None:
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
    client = genai.Client(api_key=KEY, http_options={"base_url": vendor.base_url})
    vendor.script([["he", "llo", call("add", id="c1", a=2)], [Thinking(text="hm"), "he", "llo"]])
    whole = client.models.generate_content(model=G3, contents="hi")
    (made,) = whole.function_calls
    assert (made.name, made.args, made.id) == ("add", {"a": 2}, "c1")
    assert whole.candidates[0].content.parts[-1].thought_signature
    streamed = list(client.models.generate_content_stream(model=G3, contents="hi"))
    assert "".join(c.text or "" for c in streamed) == "hello"
    assert streamed[-1].usage_metadata.prompt_token_count == 10
    assert [m.name for m in client.models.list()] == ["models/fake-model"]
    client.close()


@pytest.mark.parametrize("model", [G3, G25])
async def test_an_agent_works_with_gemini(vendor: FakeVendor, model: str, tmp_path: Path) -> None:
    """A whole turn through the loop: an odd tool name, two calls at once, a picture among the results."""

    @tool(name="2add")
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    @tool
    def snap() -> ToolResult:
        """Take a picture."""
        return ToolResult("taken", images=[Image(media_type="image/png", data=PNG)])

    def calls(request: VendorRequest) -> list[Any]:
        names = [d["name"] for d in (request.body or {})["tools"][0]["functionDeclarations"]]
        return [Thinking(text="hm"), "wait", call(names[0], a=2, b=3), call(names[1])]

    vendor.script([calls, ["it is 5"]])
    agent = Agent(f"google/{model}", tools=[add, snap], cwd=tmp_path, base_url=vendor.base_url, api_key=KEY)
    result = await agent.run("2 + 3? and a picture")
    await agent.aclose()
    assert result.text == "it is 5" and [r.status for r in vendor.requests] == [200, 200]
    (*_, answers) = [c for c in (vendor.requests[1].body or {})["contents"] if "functionResponse" in c["parts"][0]]
    assert [p["functionResponse"]["response"] for p in answers["parts"]] == [{"output": "5"}, {"output": "taken"}]
    assert PNG in json.dumps(vendor.requests[1].body)


# ------------------------------------------------------------------ the strict vendor


def full_body() -> Body:
    sign = {"thoughtSignature": "c2ln"}
    return {
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "go"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
            {"role": "model", "parts": [
                {"text": "yes"}, {"functionCall": {"name": "f", "args": {}}, **sign}, {"functionCall": {"name": "g"}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "1"}}},
                {"functionResponse": {"name": "g", "response": {"error": "2"}}},
            ]},
            {"role": "user", "parts": [{"text": "on"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}, "id": "x"}, **sign}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "id": "x", "response": {}}}]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "f", "description": "d", "parametersJsonSchema": copy.deepcopy(SCHEMA)},
            {"name": "g", "parameters": {"type": "OBJECT", "properties": {
                "a": {"type": "array", "items": {"type": "STRING", "enum": ["x"]}},
                "b": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            }, "required": ["a"]}},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"maxOutputTokens": 9, "thinkingConfig": {"thinkingLevel": "LOW"}},
    }  # fmt: skip


SIGNATURES = {"c2ln"}


def parts(body: Body, i: int) -> list[Body]:
    found: list[Body] = body["contents"][i]["parts"]
    return found


def declared(body: Body, k: int = 1) -> Body:
    found: Body = body["tools"][0]["functionDeclarations"][k]
    return found


COUNT = "Please ensure that the number of function response parts is equal to the number of function call parts"
ORDER = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
REFUSED: dict[str, tuple[Callable[[Body], Any], str]] = {
    "no contents": (lambda b: b.pop("contents"), "contents is not specified"),
    "empty contents": (lambda b: b.update(contents=[]), "contents is not specified"),
    "unknown field": (lambda b: b.update(messages=[]), 'Unknown name "messages": Cannot find field.'),
    "no parts": (lambda b: b["contents"][0].update(parts=[]), "contents[0].parts: contents.parts must not be empty."),
    "role": (lambda b: b["contents"][0].update(role="assistant"), "valid role: user, model"),
    "empty part": (lambda b: parts(b, 0)[0].clear(), "required oneof field 'data' must have one initialized field"),
    "unknown part": (lambda b: parts(b, 0)[0].update(type="text"), "Unknown name \"type\" at 'contents[0].parts[0]'"),
    "empty text": (lambda b: parts(b, 0)[0].update(text=" "), "must have a text parameter"),
    "image kind": (lambda b: parts(b, 0)[1]["inlineData"].update(mimeType="image/gif"), "Unsupported MIME type: image/gif"),
    "image data": (lambda b: parts(b, 0)[1]["inlineData"].update(data="no!"), "Base64 decoding failed"),
    "empty image": (lambda b: parts(b, 0)[1]["inlineData"].update(data=""), "Unable to process input image"),
    "one result gone": (lambda b: parts(b, 2).pop(), COUNT),
    "all results gone": (lambda b: b["contents"].pop(2), COUNT),
    "results missing at the end": (lambda b: b["contents"].pop(), COUNT),
    "result without call": (lambda b: parts(b, 3).append(parts(b, 2)[0]), "function response turn comes immediately"),
    "results in another order": (lambda b: parts(b, 2).reverse(), "names of calls and responses differ"),
    "another id": (lambda b: parts(b, 5)[0]["functionResponse"].update(id="y"), "ids of calls and responses differ"),
    "call first": (lambda b: b["contents"].pop(0), ORDER),
    "call after the model's words": (
        lambda b: b["contents"].insert(4, {"role": "model", "parts": [{"text": "I will"}]}), ORDER,
    ),
    "call of the user": (lambda b: parts(b, 3).append({"functionCall": {"name": "f"}}), ORDER),
    "model last": (lambda b: b["contents"].append({"role": "model", "parts": [{"text": "a"}]}), "end with a user role"),
    "result no object": (
        lambda b: parts(b, 2)[0]["functionResponse"].update(response="1"), "type.googleapis.com/google.protobuf.Struct",
    ),
    "arguments no object": (lambda b: parts(b, 1)[1]["functionCall"].update(args="{}"), "google.protobuf.Struct"),
    "signature gone": (lambda b: parts(b, 4)[0].pop("thoughtSignature"), "missing a thought_signature"),
    "signature changed": (lambda b: parts(b, 1)[1].update(thoughtSignature="b2xk"), "Corrupted thought signature."),
    "signature no base64": (lambda b: parts(b, 1)[1].update(thoughtSignature="?"), "Base64 decoding failed"),
    "name": (lambda b: declared(b).update(name="2f"), "Must start with a letter or an underscore"),
    "long name": (lambda b: declared(b).update(name="f" * 65), "maximum length of 64"),
    "same name": (lambda b: declared(b).update(name="f"), "Duplicate function declaration found: f"),
    "both schemas": (lambda b: declared(b).update(parametersJsonSchema=SCHEMA), "Only one of"),
    "unknown word of the schema": (
        lambda b: declared(b)["parameters"]["properties"]["b"]["anyOf"][0].update(const="a"),
        "Invalid JSON payload received. Unknown name \"const\" at "
        "'tools[0].function_declarations[1].parameters.properties[1].value.any_of[0]': Cannot find field.",
    ),
    "type beside choices": (
        lambda b: declared(b)["parameters"]["properties"]["b"].update(type="STRING"), "must be the only field set",
    ),
    "no items": (lambda b: declared(b)["parameters"]["properties"]["a"].pop("items"), "items: missing field."),
    "required, not there": (lambda b: declared(b)["parameters"].update(required=["z"]), "property is not defined"),
    "no object": (lambda b: declared(b)["parameters"].update(type="STRING"), "should be of type OBJECT"),
    "format": (
        lambda b: declared(b)["parameters"]["properties"]["b"]["anyOf"][0].update(format="email"),
        "only 'date-time' and 'enum' are supported for STRING type",
    ),
    "mode": (lambda b: b["toolConfig"]["functionCallingConfig"].update(mode="auto"), "Invalid value at"),
    "no output": (lambda b: b["generationConfig"].update(maxOutputTokens=0), "must be positive"),
    "level and budget": (
        lambda b: b["generationConfig"]["thinkingConfig"].update(thinkingBudget=1), "only one of thinking budget",
    ),
    "level it has not": (
        lambda b: b["generationConfig"]["thinkingConfig"].update(thinkingLevel="MINIMAL"), "Thinking level MINIMAL is not",
    ),
    "empty system": (lambda b: b["systemInstruction"].update(parts=[]), "system_instruction.parts"),
    "half a pair": (lambda b: parts(b, 0)[0].update(text="\ud83c"), "Invalid JSON payload received."),
}  # fmt: skip


def refusal(change: Callable[[Body], Any], model: str = G3) -> Rejection | None:
    body = full_body()
    change(body)
    return check_google(body, model=model, signatures=SIGNATURES)


def test_a_body_with_everything_in_it_is_let_through() -> None:
    assert refusal(lambda _: None) is None
    assert refusal(lambda b: parts(b, 4)[0].update(thoughtSignature=DUMMY)) is None
    assert refusal(lambda b: parts(b, 1)[1].pop("thoughtSignature")) is None  # of an older turn
    validated(full_body())


@pytest.mark.parametrize("name", REFUSED)
def test_google_refuses(name: str) -> None:
    change, words = REFUSED[name]
    refused = refusal(change)
    assert refused is not None and words in refused.message and refused.status == 400
    assert json.loads(refused.body("google"))["error"]["status"] == "INVALID_ARGUMENT"


def test_what_only_some_models_take() -> None:
    level = refusal(lambda _: None, G25)
    assert level is not None and "Thinking level is not supported" in level.message
    for model, config in ((G2, {"thinkingBudget": 1}), ("gemini-2.5-pro", {"thinkingBudget": 0})):
        refused = refusal(lambda b, config=config: b["generationConfig"].update(thinkingConfig=config), model)
        assert refused is not None
    media = [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    assert refusal(lambda b: parts(b, 5)[0]["functionResponse"].update(parts=media)) is None
    body = full_body()
    del body["generationConfig"]
    parts(body, 5)[0]["functionResponse"]["parts"] = media
    refused = check_google(body, model=G25)
    assert refused is not None and "Multimodal function response" in refused.message


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 403), ({"x-goog-api-key": "no"}, 400), ({"authorization": "Bearer no"}, 401), ({"x-goog-api-key": "k"}, 0),
     ({"authorization": "Bearer k"}, 0)],
)  # fmt: skip
def test_keys(headers: dict[str, str], status: int) -> None:
    refused = check_http("google", headers, 0, ["k"])
    assert (refused.status if refused else 0) == status


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(p for key, inner in items for p in places(inner, (*at, key)))]


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["user", "model", "", "text"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["text", "parts"]), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_body_breaks_the_check(data: st.DataObject) -> None:
    body: Any = {"top": full_body()}
    path = data.draw(st.sampled_from(places(body["top"])))
    place, key = body, "top"
    for step in path:
        place, key = place[key], step
    place[key] = data.draw(odd)
    refused = check_google(body["top"], model=G3, signatures=SIGNATURES)
    assert refused is None or refused.message


RECORDED = {
    "gemini-function-call-turn-order": "call first",
    "gemini-function-parts-mismatch": "one result gone",
    "gemini-missing-thought-signature": "signature gone",
    "gemini-schema-unknown-const": "unknown word of the schema",
}


@needs_shared
@pytest.mark.parametrize("name", RECORDED)
def test_the_words_are_the_recorded_ones(name: str) -> None:
    def shape(text: str) -> str:
        return re.sub(r"default_api:\w+|\d+", "N", text)

    real = json.loads(json.loads((SHARED / "errors" / f"{name}.json").read_text())["body"])
    error = (real[0] if isinstance(real, list) else real)["error"]
    ours = refusal(REFUSED[RECORDED[name]][0])
    assert ours is not None
    made = json.loads(ours.body("google"))["error"]
    assert shape(made["message"]) == shape(error["message"])
    assert (made["status"], made["code"]) == (error["status"], error["code"])


@needs_shared
def test_what_google_took_is_let_through() -> None:
    seen = 0
    for request in sorted((SHARED / "wire").glob("*/*generate_content/*/request.json")):
        status = json.loads((request.parent / "response.meta.json").read_text())["status"]
        asked = json.loads(request.read_text())
        if status == 200 and asked.get("body"):
            seen += 1
            model = re.search(r"/models/([^:]+):", asked["url"])
            assert model is not None
            assert check_google(asked["body"], model=model[1]) is None, request.parent.name
    assert seen > 30


@needs_shared
def test_a_recorded_conversation_goes_on() -> None:
    """The reply of a first turn, read and sent back, is what the real client sent and Google took."""
    for folder in sorted((SHARED / "wire").glob("*/*generate_content/*-t1")):
        (following,) = folder.parent.glob(f"*{folder.name.split('__')[-1][:-1]}2")
        asked = json.loads((following / "request.json").read_text())
        theirs = asked["body"]["contents"][1]
        model = asked["url"].rpartition("/")[2].partition(":")[0]
        body = next(p for p in folder.glob("response.*") if "meta" not in p.name).read_bytes()
        reader = Google().reader(model=f"google/{model}")
        reader.feed(body)
        reader.feed(b"")
        message = reader.close()
        if message.stop_reason == "error":
            continue
        history = [user_message("hi"), message, *(tool_result(c.id, "1") for c in calls_of(message))]
        ours = sent(history, model)["contents"][1]
        assert [signature(p) for p in ours["parts"]] == [signature(p) for p in theirs["parts"]], folder.name


def signature(part: Body) -> tuple[str, str]:
    """What kind of part it is and its signature, in one spelling."""
    given = part.get("thoughtSignature") or part.get("thought_signature") or ""
    kind = "text" if "text" in part else "call"
    return kind, given.replace("-", "+").replace("_", "/")
