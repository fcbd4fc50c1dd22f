"""OpenAI Responses: what goes out is what its vendor describes and takes; what comes in is read however it is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orkas.infra.errors import ProviderError
from orkas.infra.messages import (
    AssistantMessage,
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
from orkas.providers.base import CompletionParams, Part, TextPart, ThinkingPart, ToolDef
from orkas.providers.openai_responses import OpenAIResponses
from orkas.providers.vendors import Quirks, table
from orkas.providers.writing.schemas import clean
from orkas.testing.rules import check_openai_responses
from published import validated

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
OPENAPI = SHARED / "specs" / "openai-openapi.json"
PNG = "iVBORw0KGgo="
MODEL, STAMP, API = "gpt-5.4", "openai/gpt-5.4", "openai_responses"
ADD = ToolDef("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
SEAL = "gAAAAsealed"


def dialect(**quirks: Any) -> OpenAIResponses:
    return OpenAIResponses("openai", Quirks(ids="responses", **quirks) if quirks else table()["openai"].quirks)


def sent(messages: list[Message], model: str = MODEL, speaker: OpenAIResponses | None = None, **more: Any) -> Any:
    """The body of a request: described and taken by the vendor."""
    params = CompletionParams(model=model, messages=messages, **more)
    body = json.loads((speaker or dialect()).request(params, base_url="http://h/v1", api_key="k").body)
    assert check_openai_responses(body) is None
    described(body)
    return body


def described(body: dict[str, Any]) -> None:
    """The body is one that the vendor's own description of its API allows."""
    validated(body, "responses")


def own(*blocks: Any, stop: str = "stop", model: str = STAMP) -> AssistantMessage:
    return AssistantMessage(list(blocks), model, API, stop)


def thought(id: str = "rs_1", text: str = "", seal: str | None = SEAL) -> Thinking:
    vendor = {"item": id, "part": "summary_text"} if text else {"item": id}
    return Thinking(text=text, encrypted=seal, vendor=vendor)


def call(id: str = "call_1", item: str = "fc_1", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name="add", arguments=arguments, vendor={"id": item})


# ------------------------------------------------------------------ requests


@pytest.mark.skipif(not OPENAPI.exists(), reason="no description of the API at hand (set ORKAS_SHARED)")
def test_the_description_refuses_what_is_wrong() -> None:
    good: dict[str, Any] = {"model": "m", "input": [{"role": "user", "content": "hi"}]}
    described(good)
    for bad in (
        {"role": "somebody", "content": "hi"}, {"type": "function_call", "name": "f"}, {"type": "reasoning"},
        {"type": "function_call_output", "call_id": "x" * 65, "output": "1"},
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            described({**good, "input": [bad]})


def test_a_request_is_stateless_and_whole() -> None:
    history: list[Message] = [
        user_message("look", [Image(media_type="image/png", data=PNG)]),
        own(thought(text="hm"), Text(text="So.", vendor={"id": "msg_1", "phase": "commentary"}), call(a=1)),
        ToolMessage("call_1", [Text(text="2"), Image(media_type="image/png", data=PNG)]),
        user_message("and?"),
    ]
    request = dialect().request(
        CompletionParams(MODEL, history, system="sys", tools=[ADD], max_output=9, session_id="s" * 80, thinking="low"),
        base_url="http://h/v1/",
        api_key="k",
    )
    assert request.url == "http://h/v1/responses"
    assert request.headers["authorization"] == "Bearer k"
    body = json.loads(request.body)
    described(body)
    picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}
    assert body.pop("input") == [
        {"role": "user", "content": [picture, {"type": "input_text", "text": "look"}]},
        {
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": SEAL,
        },
        {
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
            "content": [{"type": "output_text", "text": "So.", "annotations": [], "logprobs": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "2"}, picture]},
        {"role": "user", "content": "and?"},
    ]  # fmt: skip
    assert len(body.pop("prompt_cache_key")) == 64
    assert body == {
        "model": MODEL, "stream": True, "store": False, "include": ["reasoning.encrypted_content"],
        "instructions": "sys", "max_output_tokens": 16, "tool_choice": "auto", "parallel_tool_calls": True,
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [{"type": "function", "name": "add", "description": "Add.", "parameters": ADD.parameters,
                   "strict": False}],
    }  # fmt: skip


def test_a_server_without_instructions_gets_them_from_the_developer() -> None:
    body = sent([user_message("hi")], system="sys", speaker=dialect(developer=True))
    assert body["input"][0] == {"role": "developer", "content": "sys"} and "instructions" not in body
    assert sent([], system="sys", speaker=dialect(developer=True))["input"] == [{"role": "developer", "content": "sys"}]


@pytest.mark.parametrize(
    ("model", "level", "effort"),
    [
        ("gpt-5.4", "off", "none"), ("gpt-5", "off", "minimal"), ("gpt-5-codex", "off", "low"), ("o3", "off", None),
        ("gpt-5-pro", "off", None), ("gpt-5", "high", "high"), ("o4-mini", "medium", "medium"), ("gpt-4o", "low", None),
        ("gpt-5-chat-latest", "high", None), ("gpt-5", None, None),
    ],
)  # fmt: skip
def test_efforts(model: str, level: Any, effort: str | None) -> None:
    body = sent([user_message("hi")], model, thinking=level, tools=[ADD])
    assert body.get("reasoning", {}).get("effort") == effort
    assert ("summary" in body.get("reasoning", {})) is (effort is not None and level != "off")
    assert ("include" in body) is (model not in ("gpt-4o", "gpt-5-chat-latest"))
    assert ("parallel_tool_calls" in body) is not model.startswith("o")


def test_a_turn_without_tools_may_not_call() -> None:
    body = sent([user_message("hi")], tools=[ADD], tool_choice="none")
    assert body["tool_choice"] == "none" and body["tools"]
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent([user_message("hi")]))


# ------------------------------------------------------------------ reasoning and its followers


def items(*blocks: Any, model: str = MODEL, **more: Any) -> list[dict[str, Any]]:
    """What one message of the model's own becomes."""
    message = own(*blocks, **more)
    answers = [tool_result(c.id, "1") for c in calls_of(message)]
    out: list[dict[str, Any]] = sent([user_message("hi"), message, *answers, user_message("go")], model)["input"]
    return [i for i in out[1:-1] if not str(i.get("type")).endswith("call_output")]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [i.get("type", "said") for i in found]


def test_reasoning_stands_directly_before_its_follower() -> None:
    found = items(thought("rs_1"), call("c1", "fc_1"), thought("rs_2"), call("c2", "fc_2"))
    assert [i["id"] for i in found] == ["rs_1", "fc_1", "rs_2", "fc_2"]


def test_reasoning_that_lost_its_follower_is_left_out() -> None:
    assert kinds(items(Text(text="a"), thought())) == ["said"]
    assert kinds(items(thought(), Text(text=" ", vendor={"id": "msg_1"}))) == []
    found = items(thought(), Text(text="", vendor={"id": "msg_1"}), call("c1", "fc_1"))
    assert kinds(found) == ["function_call"] and "id" not in found[0]


@pytest.mark.parametrize("lost", [thought(seal=None), thought(seal=None, text="why"), Thinking(text="x", encrypted="y")])
def test_what_followed_reasoning_that_cannot_go_back_loses_its_id(lost: Thinking) -> None:
    found = items(lost, call("c1", "fc_1"), call("c2", "fc_2"))
    assert kinds(found) == ["function_call"] * 2 and not any("id" in i for i in found)
    found = items(lost, Text(text="a", vendor={"id": "msg_1", "phase": "final_answer"}))
    assert found == [{"role": "assistant", "phase": "final_answer", "content": "a"}]


def test_reasoning_that_is_spelled_out_goes_back_without_a_seal() -> None:
    spelled = Thinking(text="hm", vendor={"item": "rs_1", "part": "reasoning_text"})
    found = items(spelled, call())
    assert found[0] == {
        "type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]
    }  # fmt: skip


def test_calls_go_last_unless_sealed_reasoning_binds_them() -> None:
    text = [Text(text=t, vendor={"id": f"msg_{t}"}) for t in "ab"]
    assert kinds(items(text[0], call("c1", "fc_1"), text[1], call("c2", "fc_2"))) == [
        "message", "message", "function_call", "function_call",
    ]  # fmt: skip
    assert kinds(items(thought(), text[0], call("c1", "fc_1"), text[1])) == [
        "reasoning", "message", "function_call", "message",
    ]  # fmt: skip


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_a_turn_that_broke_off_goes_with_its_words_and_calls_alone(stop: str) -> None:
    found = items(thought(), Text(text="I was", vendor={"id": "msg_1"}), call(a=1), stop=stop)
    assert found == [
        {"role": "assistant", "content": "I was"},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
    ]


@pytest.mark.parametrize("stamp", ["openai/gpt-5", "azure/gpt-5.4", "anthropic/gpt-5.4"])
def test_items_of_another_model_lose_ids_and_reasoning_and_keep_call_ids(stamp: str) -> None:
    found = items(thought(), Text(text="a", vendor={"id": "msg_1", "phase": "commentary"}), call("toolu_1"), model=MODEL)
    assert kinds(found) == ["reasoning", "message", "function_call"]
    message = own(thought(), Text(text="a", vendor={"id": "msg_1"}), call("toolu_1"), model=stamp)
    body = sent([user_message("hi"), message, tool_result("toolu_1", "1")])
    assert body["input"][1:] == [
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "toolu_1", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "1"},
    ]


@pytest.mark.parametrize("id", ["x" * 65, "", "a b", "工具", "\ud83c"])
def test_ids_that_do_not_fit_are_mapped_in_call_and_result_alike(id: str) -> None:
    history: list[Message] = [user_message("hi")]
    for _ in range(2):
        history += [own(call(id)), tool_result(id, "1")]
    found = sent(history)["input"]
    calls = [i["call_id"] for i in found if i.get("type") == "function_call"]
    assert calls == [i["call_id"] for i in found if i.get("type") == "function_call_output"]
    assert len(set(calls)) == 2 and all(0 < len(c) <= 64 and c.isascii() for c in calls)
    assert sent(history)["input"] == found


def test_no_request_holds_an_item_twice() -> None:
    one, again = (own(thought("rs_1"), call(c, "fc_1")) for c in ("c1", "c2"))
    found = sent([user_message("hi"), one, tool_result("c1", "1"), again, tool_result("c2", "1")])["input"]
    assert [i.get("id") for i in found] == [None, "rs_1", "fc_1", None, None, None]
    assert kinds(items(Text(text="a", vendor={"id": "x"}), call("c1", "x"))) == ["said", "function_call"]


def test_an_id_of_64_characters_is_kept_and_a_longer_item_id_is_not_sent() -> None:
    found = items(Text(text="a", vendor={"id": "x" * 65}), call("c:" + "x" * 62, "fc_" + "x" * 80))
    assert found[0] == {"role": "assistant", "content": "a"}
    assert found[1]["call_id"] == "c:" + "x" * 62 and "id" not in found[1]


def test_a_call_given_as_free_text_goes_back_as_one() -> None:
    free = ToolCall(id="c1", name="sql", arguments=None, arguments_raw="SELECT 1", vendor={"type": "custom_tool_call"})
    history: list[Message] = [user_message("hi"), own(free), tool_result("c1", "no")]
    assert sent(history)["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "no"},
    ]
    assert kinds(sent(history, "gpt-5")["input"][1:]) == ["function_call", "function_call_output"]


def test_items_of_the_server_go_back_unless_they_wait_for_an_output() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
    found = items(thought(), Opaque(kind="web_search_call", vendor=search), Text(text="a", vendor={"id": "msg_1"}))
    assert kinds(found) == ["reasoning", "web_search_call", "message"] and found[1] == search
    assert items(thought(seal=None), Opaque(kind="web_search_call", vendor=search), Text(text="a")) == [
        {"role": "assistant", "content": "a"}
    ]
    waits = {"type": "local_shell_call", "id": "ls_1", "call_id": "c9", "status": "completed"}
    found = items(thought(), Opaque(kind="local_shell_call", vendor=waits), Text(text="a", vendor={"id": "msg_1"}))
    assert found == [{"role": "assistant", "content": "a"}]


def test_sources_go_back_with_the_text_that_cites_them() -> None:
    cited = {"type": "url_citation", "start_index": 0, "end_index": 1, "url": "http://h", "title": "t"}
    (found,) = items(Text(text="a", vendor={"id": "msg_1", "annotations": [cited]}))
    assert found["content"][0]["annotations"] == [cited]


def test_nothing_is_ever_empty() -> None:
    found = sent([UserMessage([]), own(call()), ToolMessage("call_1", []), user_message(" ")])["input"]
    assert [i.get("content", i.get("output")) for i in found] == ["(empty)", None, "(no output)", "(empty)"]


# ------------------------------------------------------------------ schemas

ODD_SCHEMAS: list[dict[str, Any]] = [
    {}, {"type": "object"}, {"properties": {"a": {"type": "array"}}}, {"type": "array", "items": {"type": "string"}},
    {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"$ref": "#/$defs/B"}], "$defs": {"B": {"properties": {}}}},
    {"type": "object", "properties": {"a": {"$ref": "#/gone"}, "b": {"enum": []}, "c": {"type": "strin"}}},
    {"type": "object", "properties": {"a": {"type": ["array", "null"]}, "b": {"items": [{"type": "string"}]}}},
    {"type": "string", "properties": {}}, {"type": "object", "properties": [], "required": "a"},
    {"allOf": [{"properties": {"a": {}}, "required": ["a"]}], "required": ["b"]}, {"properties": {"a": {"properties": 1}}},
    {"type": "object", "properties": {"a": {"enum": ["x", None]}}, "additionalProperties": "no"},
    {"$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}}, "properties": {"n": {"$ref": "#/$defs/N"}}},
    {"type": "object", "properties": {"a": {"anyOf": [], "oneOf": {}, "items": 3}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", ODD_SCHEMAS, ids=lambda s: json.dumps(s)[:40])
def test_no_schema_has_the_request_refused(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    sent([user_message("hi")], tools=[ToolDef("t", "", schema), ADD])
    assert json.dumps(schema) == before


def test_a_good_schema_is_told_as_it_is() -> None:
    good = {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
        "properties": {"a": {"type": ["string", "null"], "minLength": 1}, "b": {"anyOf": [{"type": "integer"}]}},
        "required": ["a"], "$defs": {"X": {"type": "string"}},
    }  # fmt: skip
    assert clean(good) == good


def test_alternatives_at_the_top_become_the_properties_of_all() -> None:
    found = clean({
        "oneOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}},
        ]
    })  # fmt: skip
    assert found == {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


# ------------------------------------------------------------------ replies


def line(kind: str, **fields: Any) -> bytes:
    return b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


def added(index: int | None, kind: str, **fields: Any) -> bytes:
    where = {} if index is None else {"output_index": index}
    return line("response.output_item.added", item={"type": kind, **fields}, **where)


def done(index: int | None, kind: str, **fields: Any) -> bytes:
    where = {} if index is None else {"output_index": index}
    return line("response.output_item.done", item={"type": kind, **fields}, **where)


def text(index: int | None, piece: str, part: int = 0) -> bytes:
    where = {} if index is None else {"output_index": index}
    return line("response.output_text.delta", content_index=part, delta=piece, **where)


def arguments(index: int | None, piece: str) -> bytes:
    where = {} if index is None else {"output_index": index}
    return line("response.function_call_arguments.delta", delta=piece, **where)


def completed(output: Any = (), **fields: Any) -> bytes:
    return line("response.completed", response={"status": "completed", "output": list(output), **fields})


def message_item(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": t} for t in texts], **fields}


def heard(body: bytes) -> AssistantMessage | ProviderError:
    """How a reply ended; the same however its bytes are cut, and told as it is kept."""
    ends: list[AssistantMessage | ProviderError] = []
    for size in (1, 13, 100_000):
        reader = dialect().reader(model=STAMP)
        parts: list[Part] = []
        for i in range(0, len(body), size):
            parts += reader.feed(body[i : i + size])
        parts += reader.feed(b"")
        kept = reader.partial()
        assert all(c.arguments is None for c in calls_of(kept))
        assert decode_message(encode(kept)) is not None
        told = ["".join(p.text for p in parts if type(p) is kind) for kind in (TextPart, ThinkingPart)]
        assert told == [text_of(kept), "".join(b.text for b in kept.content if isinstance(b, Thinking))]
        try:
            ends.append(reader.close())
        except ProviderError as error:
            ends.append(error)
    assert len({str(_shape(e)) for e in ends}) == 1
    return ends[0]


def _shape(end: AssistantMessage | ProviderError) -> Any:
    if isinstance(end, ProviderError):
        return str(end), end.class_
    return [(type(b), getattr(b, "text", ""), getattr(b, "arguments", ""), b.vendor) for b in end.content], end.stop_reason


def answer(body: bytes) -> AssistantMessage:
    message = heard(body)
    assert isinstance(message, AssistantMessage), message
    return message


def fault(body: bytes) -> ProviderError:
    error = heard(body)
    assert isinstance(error, ProviderError), error
    return error


CALL = {"id": "fc_1", "call_id": "c1", "name": "add"}


def test_items_are_told_apart_by_place_though_their_ids_change() -> None:
    message = answer(
        added(0, "message", id="a") + added(1, "function_call", **CALL) + text(0, "x") + arguments(1, '{"a":')
        + text(0, "y") + arguments(1, "1}") + done(1, "function_call", **{**CALL, "id": "z"}, arguments='{"a":1}')
        + done(0, "message", id="b", content=[{"type": "output_text", "text": "xy"}]) + completed()
    )  # fmt: skip
    assert message.content[0] == Text(text="xy", vendor={"id": "b"})
    ((given),) = [c.arguments for c in calls_of(message)]
    assert given == {"a": 1} and message.stop_reason == "tool_use"


def test_a_server_that_tells_no_places() -> None:
    message = answer(
        added(None, "message") + text(None, "hi") + done(None, "message", content=[])
        + added(None, "function_call", **CALL) + arguments(None, "{}")
        + done(None, "function_call", **CALL, arguments="{}") + completed()
    )  # fmt: skip
    assert text_of(message) == "hi" and [c.arguments for c in calls_of(message)] == [{}]


def test_what_deltas_left_out_is_taken_from_the_whole() -> None:
    for body in (
        text(0, "ab") + done(0, "message", content=[{"type": "output_text", "text": "abcd"}]) + completed(),
        text(0, "ab") + line("response.output_text.done", output_index=0, text="abcd") + completed(),
        text(0, "ab") + completed([message_item("abcd")]),
        completed([message_item("abcd")]),
        completed([message_item("ab", "cd")]),
        json.dumps({"status": "completed", "output": [message_item("abcd")]}).encode(),
    ):
        assert text_of(answer(body)) == "abcd"
    assert text_of(answer(text(0, "xy") + completed([message_item("abcd")]))) == "xy"


def test_a_call_told_only_as_a_whole() -> None:
    whole = {"type": "function_call", **CALL, "arguments": '{"a":1}'}
    for body in (completed([whole]), done(0, **{k: v for k, v in whole.items() if k != "type"}, kind="function_call")
                 + completed(), json.dumps({"output": [whole]}).encode()):  # fmt: skip
        assert [c.arguments for c in calls_of(answer(body))] == [{"a": 1}]


def test_a_call_that_was_not_closed_does_not_run() -> None:
    begun = added(0, "function_call", **CALL) + arguments(0, '{"a":1}')
    (cut,) = calls_of(answer(begun + completed()))
    assert cut.arguments is None and cut.arguments_raw == '{"a":1}'
    ended = line("response.function_call_arguments.done", output_index=0, arguments='{"a":1}')
    assert [c.arguments for c in calls_of(answer(begun + ended + completed()))] == [{"a": 1}]
    assert fault(begun + ended).class_ == "connection"
    half = line("response.incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}})
    message = answer(begun + ended + half)
    assert message.stop_reason == "length" and [c.arguments for c in calls_of(message)] == [None]


@pytest.mark.parametrize("body", [b"", text(0, "a"), done(0, "message", content=[]), text(0, "a") + b"data: [DONE]\n\n"])
def test_without_its_end_a_reply_broke_off(body: bytes) -> None:
    assert fault(body).class_ == "connection"


@pytest.mark.parametrize("status", ["in_progress", "queued", "failed", "cancelled"])
def test_a_body_that_is_no_answer_yet(status: str) -> None:
    error = fault(json.dumps({"object": "response", "status": status, "output": []}).encode())
    assert status in str(error) and error.class_ == "server"


@pytest.mark.parametrize(
    ("event", "class_", "words"),
    [
        (line("error", code="rate_limit_exceeded", message="Slow down."), "rate_limit", "Slow down."),
        (line("error", error={"code": "server_is_overloaded", "message": "Busy."}), "overloaded", "Busy."),
        (line("response.failed", response={"error": {"code": "server_error", "message": "Oops."}}), "server", "Oops."),
        (line("response.failed", response={"status": "failed"}), "server", "failed"),
        (line("response.failed"), "server", "failed"),
        (line("response.failed", response={"error": {"code": "invalid_prompt", "message": "No."}}), "content_filter", "No."),
        (b'data: {"error": {"message": "Gone.", "type": "server_error"}}\n\n', "server", "Gone."),
        (b'{"error": {"message": "Your input exceeds the context window of this model."}}', "context_overflow", "exceeds"),
    ],
)  # fmt: skip
def test_errors_in_a_reply(event: bytes, class_: str, words: str) -> None:
    error = fault(event if event.startswith(b"{") else text(0, "a") + event + text(0, "b"))
    assert error.class_ == class_ and words in str(error)


@pytest.mark.parametrize(("reason", "stop"), [("max_output_tokens", "length"), ("content_filter", "content_filter")])
def test_a_reply_that_was_stopped(reason: str, stop: str) -> None:
    end = line("response.incomplete", response={"status": "incomplete", "incomplete_details": {"reason": reason}})
    message = answer(text(0, "a") + end)
    assert (text_of(message), message.stop_reason) == ("a", stop)
    whole = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [message_item("a")]}
    assert answer(json.dumps(whole).encode()).stop_reason == stop


def test_a_refusal_is_kept_apart_from_the_text_and_told_to_the_model_again() -> None:
    pieces = [line("response.refusal.delta", output_index=0, content_index=0, delta=d) for d in ("I ca", "n't.")]
    part = {"type": "refusal", "refusal": "I can't."}
    for body in (
        added(0, "message") + b"".join(pieces) + done(0, "message", content=[part]) + completed(),
        json.dumps({"output": [{"type": "message", "content": [part]}]}).encode(),
    ):
        message = answer(body)
        assert text_of(message) == "" and message.vendor == {"refusal": "I can't."}
        found = sent([user_message("hi"), message, user_message("go")])["input"]
        assert found[1] == {"role": "assistant", "content": "I can't."}


def test_a_seal_counts_only_when_its_item_was_closed() -> None:
    begun = added(0, "reasoning", id="rs_1", summary=[], encrypted_content="half")
    seen = line("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm")
    reader = dialect().reader(model=STAMP)
    reader.feed(begun + seen)
    assert reader.partial().content == [Thinking(text="hm", vendor={"item": "rs_1", "part": "summary_text"})]
    whole = {"id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": SEAL}
    message = answer(begun + seen + done(0, "reasoning", **whole) + text(1, "a") + completed())
    assert message.content[0] == thought(text="hm")


def test_a_reasoning_item_of_many_parts_goes_back_as_it_came() -> None:
    item = {
        "id": "rs_1", "type": "reasoning", "encrypted_content": SEAL,
        "summary": [{"type": "summary_text", "text": t} for t in ("one", "two")],
        "content": [{"type": "reasoning_text", "text": "three"}],
    }  # fmt: skip
    other = {"id": "rs_2", "type": "reasoning", "encrypted_content": SEAL + "2", "summary": []}
    said = message_item("a", "b", id="msg_1", status="completed", role="assistant", phase="final_answer")
    message = answer(json.dumps({"output": [item, said, other, {"type": "function_call", **CALL}]}).encode())
    assert [b.text for b in message.content if isinstance(b, Text)] == ["a", "b"]
    found = sent([user_message("hi"), message, tool_result("c1", "1")])["input"]
    assert found[1] == item and found[3] == other
    assert [p["text"] for p in found[2]["content"]] == ["a", "b"] and found[2]["phase"] == "final_answer"


def test_events_and_items_nobody_knows() -> None:
    own_kind = {"type": "hologram", "id": "h_1", "data": [1]}
    message = answer(
        line("response.hologram.delta", output_index=0, delta={"x": 1}) + line("keepalive")
        + b": comment\n\n" + done(0, **{k: v for k, v in own_kind.items() if k != "type"}, kind="hologram")
        + text(1, "a") + line("response.metadata", metadata={}) + completed()
    )  # fmt: skip
    assert message.content == [Opaque(kind="hologram", vendor=own_kind), Text(text="a")]


def test_an_item_that_says_nothing_of_itself() -> None:
    nothing = line("response.output_item.added", output_index=0)
    assert answer(nothing + text(0, "a") + completed()).content == [Text(text="a")]
    assert answer(nothing + line("response.output_item.added", output_index=1) + completed()).content == []
    assert answer(completed([{"type": "reasoning", "summary": []}, message_item("a")])).content == [Text(text="a")]


def test_a_delta_of_another_kind_is_not_taken_for_the_items_own() -> None:
    body = (
        added(0, "function_call", **CALL) + text(0, "x") + arguments(0, "{}") + added(1, "message") + arguments(1, "y")
        + text(1, "a") + done(0, "function_call", **CALL, arguments="{}") + completed()
    )  # fmt: skip
    message = answer(body)
    assert text_of(message) == "a" and [c.arguments for c in calls_of(message)] == [{}]


def test_pairs_split_over_deltas_are_joined() -> None:
    summary = [line("response.reasoning_summary_text.delta", output_index=0, delta=d) for d in ("\ud83c", "\udf78")]
    body = b"".join(summary) + text(1, "x\ud83c") + text(1, "\udf78y\ud83c") + text(1, "z") + completed()
    message = answer(body)
    assert [getattr(b, "text", "") for b in message.content] == ["\U0001f378", "x\U0001f378y\ufffdz"]


def test_a_damaged_event_ends_the_reply_and_a_damaged_call_does_not_run() -> None:
    lost = b'data: {"type":"response.output_text.delta","output_index":0,"del\n\n'
    assert fault(text(0, "a") + lost + completed()).class_ == "connection"
    piece = b'data: {"type":"response.output_item.done","output_index":0,"item":%b}\n\n'
    item = b'{"type":"function_call","call_id":"c","name":"f","arguments":"{\\"a\\": \\"%b\\"}"}'
    for bad, runs in ((b"\xef\xbf\xbd", True), (b"\xc3(", False)):
        for body in (piece % (item % bad) + completed(), b'{"output":[%b]}' % (item % bad)):
            (one,) = calls_of(answer(body))
            assert (one.arguments is not None) is runs and "\ufffd" in (one.arguments_raw or "")


def test_usage_tells_the_cache_apart() -> None:
    usage = {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 109,
    }  # fmt: skip
    found = answer(text(0, "a") + completed(usage=usage)).usage
    assert found is not None
    assert (found.input, found.cache_read, found.cache_write, found.output, found.reasoning) == (10, 60, 30, 9, 4)


def test_calls_without_an_id_or_with_the_same_get_their_own() -> None:
    calls = [{"type": "function_call", "name": "add", "arguments": "{}", "call_id": c} for c in ("", "x", "x", None)]
    found = [c.id for c in calls_of(answer(completed(calls)))]
    assert all(found) and len(set(found)) == 4
