"""The fake vendors over a real socket: what is said, what goes wrong, and what is remembered."""

from __future__ import annotations

import asyncio
import doctest
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orkas.testing.fake_vendor
from orkas import Agent
from orkas.infra.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from orkas.testing import Cut, FakeVendor, Late, Recording, Refuse, Say, Whole, call, replay
from orkas.testing.rendering import as_json, as_stream

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).parents[2] / "shared"))
needs_shared = pytest.mark.skipif(not (SHARED / "wire").is_dir(), reason="recorded traffic is not here")

OPENAI_HEADERS = {"authorization": "Bearer k"}
ANTHROPIC_HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


@pytest.fixture
def vendor() -> Iterator[FakeVendor]:
    with FakeVendor() as running:
        yield running


Answer = tuple[int, dict[str, str], bytes]


def ask(vendor: FakeVendor, api: str = "openai", *, stream: bool = True, **fields: Any) -> Answer:
    """Status, headers and body of one request."""
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream, **fields}
    path, headers = "/v1/chat/completions", OPENAI_HEADERS
    if api == "anthropic":
        path, headers = "/v1/messages", ANTHROPIC_HEADERS
        body.setdefault("max_tokens", 100)
    if api == "responses":
        path = "/v1/responses"
        body.setdefault("input", body.pop("messages"))
    return post(vendor, path, json.dumps(body).encode(), headers)


def post(vendor: FakeVendor, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
    request = urllib.request.Request(vendor.base_url + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def events(body: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def heard(body: bytes) -> dict[str, Any]:
    """Text, thinking, calls and stop of a streamed answer of any vendor, joined."""
    out: dict[str, Any] = {"text": "", "thinking": "", "calls": {}, "stop": None}
    for event in events(body):
        if "sequence_number" in event:
            hear_item(event, out)
        elif "type" in event:
            index, delta, start = event.get("index"), event.get("delta", {}), event.get("content_block", {})
            out["text"] += delta.get("text", "")
            out["thinking"] += delta.get("thinking", "")
            if start.get("type") == "tool_use":
                out["calls"][index] = [start["id"], start["name"], ""]
            if "partial_json" in delta:
                out["calls"][index][2] += delta["partial_json"]
            out["stop"] = delta.get("stop_reason") or out["stop"]
        for choice in event.get("choices", []):
            delta = choice["delta"]
            out["text"] += delta.get("content") or ""
            out["thinking"] += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls", []):
                entry = out["calls"].setdefault(piece["index"], [piece.get("id"), piece["function"].get("name"), ""])
                entry[2] += piece["function"]["arguments"]
            out["stop"] = choice["finish_reason"] or out["stop"]
    out["calls"] = list(out["calls"].values())
    return out


def hear_item(event: dict[str, Any], out: dict[str, Any]) -> None:
    """One event of Responses."""
    kind = event["type"].removeprefix("response.")
    if kind in ("output_text.delta", "reasoning_summary_text.delta"):
        out["text" if kind.startswith("output") else "thinking"] += event["delta"]
    elif kind == "output_item.added" and event["item"]["type"] == "function_call":
        out["calls"][event["output_index"]] = [event["item"]["call_id"], event["item"]["name"], ""]
    elif kind == "function_call_arguments.delta":
        out["calls"][event["output_index"]][2] += event["delta"]
    elif "response" in event and event["response"]["status"] != "in_progress":
        out["stop"] = (event["response"]["incomplete_details"] or {}).get("reason") or event["response"]["status"]


# ---- what is said


def test_a_bare_string_is_one_reply() -> None:
    with FakeVendor("Hi") as vendor:
        vendor.script("Ho")
        agent = Agent("openai-chat/m", tools=[], base_url=vendor.base_url, api_key="k")
        assert [agent.run_sync("go").text, agent.run_sync("go").text] == ["Hi", "Ho"]


def test_the_documented_example() -> None:
    assert doctest.testmod(orkas.testing.fake_vendor).failed == 0


@pytest.mark.parametrize(
    ("api", "stops"),
    [
        ("openai", ["tool_calls", "stop"]), ("anthropic", ["tool_use", "end_turn"]),
        ("responses", ["completed", "completed"]),
    ],
)  # fmt: skip
def test_a_script_is_spoken_in_the_dialect_of_the_request(vendor: FakeVendor, api: str, stops: list[str]) -> None:
    vendor.script([[Thinking(text="hm"), "su", "re", call("add", id="c1", a=2), call("add", id="c2", b="ü")], "5"])
    status, headers, body = ask(vendor, api)
    first = heard(body)
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    assert first["text"] == "sure" and first["thinking"] == "hm" and first["stop"] == stops[0]
    assert first["calls"] == [["c1", "add", '{"a":2}'], ["c2", "add", '{"b":"ü"}']]
    second = heard(ask(vendor, api)[2])
    assert second["text"] == "5" and second["stop"] == stops[1]


def test_an_answer_that_is_not_streamed(vendor: FakeVendor) -> None:
    said = ["a", "b", Thinking(text="t"), call("add", id="c1", a=1)]
    vendor.script([["a", "b", call("add", id="c1", a=1)], said, said])
    openai = json.loads(ask(vendor, stream=False)[2])
    assert openai["choices"][0]["message"]["content"] == "ab"
    assert openai["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert openai["usage"] == {
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    anthropic = json.loads(ask(vendor, "anthropic", stream=False)[2])
    assert [b["type"] for b in anthropic["content"]] == ["text", "thinking", "tool_use"]
    assert anthropic["stop_reason"] == "tool_use" and anthropic["content"][2]["input"] == {"a": 1}
    responses = json.loads(ask(vendor, "responses", stream=False)[2])
    assert [i["type"] for i in responses["output"]] == ["message", "reasoning", "function_call"]
    assert responses["status"] == "completed" and responses["output"][2]["arguments"] == '{"a":1}'


def test_usage_is_told_when_it_is_asked_for(vendor: FakeVendor) -> None:
    counts = Usage(input=7, output=3, cache_read=100, cache_write=20, reasoning=2)
    vendor.script([Say(["a"], usage=counts), Say(["a"], usage=counts), Say(["a"], usage=counts)])
    with_usage = events(ask(vendor, stream_options={"include_usage": True})[2])
    assert with_usage[-1]["choices"] == [] and with_usage[-1]["usage"]["prompt_tokens"] == 127
    assert all("usage" not in event for event in events(ask(vendor)[2]))
    (last,) = [e for e in events(ask(vendor, "anthropic")[2]) if e["type"] == "message_delta"]
    assert last["usage"] == {
        "input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 3,
    }  # fmt: skip
    vendor.script([Say(["a"], usage=counts, stop_reason="length")])
    end = events(ask(vendor, "responses")[2])[-1]["response"]
    assert end["usage"]["input_tokens"] == 127 and end["incomplete_details"] == {"reason": "max_output_tokens"}


pieces = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
    | st.builds(Thinking, text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))
    | st.builds(
        ToolCall,
        id=st.uuids().map(lambda u: u.hex),
        name=st.just("add"),
        arguments=st.dictionaries(st.text(max_size=3), st.text(max_size=9), max_size=3),
    ),
    max_size=6,
)


@pytest.mark.parametrize("api", ["openai", "anthropic", "responses"])
@given(pieces=pieces, fragment=st.none() | st.integers(1, 9))
def test_stream_and_whole_say_the_same(api: Any, pieces: list[Any], fragment: int | None) -> None:
    say = Say(pieces, fragment)
    streamed = heard(b"".join(b for b in as_stream(say, api, {}) if isinstance(b, bytes)))
    whole = json.loads(as_json(say, api, {}))
    if api == "openai":
        message = whole["choices"][0]["message"]
        text, thinking = message["content"] or "", message.get("reasoning_content", "")
        calls = [[c["id"], json.loads(c["function"]["arguments"])] for c in message.get("tool_calls", [])]
    elif api == "responses":
        parts = [p for i in whole["output"] for p in [*i.get("content", []), *i.get("summary", [])]]
        text = "".join(p["text"] for p in parts if p["type"] == "output_text")
        thinking = "".join(p["text"] for p in parts if p["type"] == "summary_text")
        calls = [[i["call_id"], json.loads(i["arguments"])] for i in whole["output"] if i["type"] == "function_call"]
    else:
        text = "".join(b["text"] for b in whole["content"] if b["type"] == "text")
        thinking = "".join(b["thinking"] for b in whole["content"] if b["type"] == "thinking")
        calls = [[b["id"], b["input"]] for b in whole["content"] if b["type"] == "tool_use"]
    assert (streamed["text"], streamed["thinking"]) == (text, thinking)
    assert [[c[0], json.loads(c[2])] for c in streamed["calls"]] == calls


def test_fragments_have_the_size_that_was_asked_for() -> None:
    def sizes(fragment: int | None) -> list[int]:
        stream = as_stream(Say([call("add", id="c", x="1234567")], fragment), "openai", {})
        body = b"".join(step for step in stream if isinstance(step, bytes))
        parts = [event["choices"][0]["delta"].get("tool_calls") for event in events(body)]
        return [len(p[0]["function"]["arguments"]) for p in parts if p]

    assert sizes(5) == [0, 5, 5, 5]
    assert sizes(None) == [0, 15]


def test_broken_arguments_and_half_a_surrogate_pair_go_out_as_they_are(vendor: FakeVendor) -> None:
    vendor.script([["\ud83d", ToolCall(id="c", name="add", arguments=None, arguments_raw='{"a": ')]])
    body = ask(vendor)[2]
    assert b'"\\ud83d"' in body
    assert heard(body)["calls"] == [["c", "add", '{"a": ']]


def test_a_whole_message_and_a_function_may_reply(vendor: FakeVendor) -> None:
    message = AssistantMessage([Text(text="cut"), call("add", id="c1")], stop_reason="length")
    vendor.script([message, lambda request: f"you said {request.body['messages'][-1]['content']}"])  # type: ignore[index]
    assert heard(ask(vendor, "anthropic")[2])["stop"] == "max_tokens"
    assert heard(ask(vendor)[2])["text"] == "you said hi"


def test_a_pause_is_kept(vendor: FakeVendor) -> None:
    vendor.script([["a", 0.15, "b"], Late(Say(["c"]), 0.15)])
    for _ in range(2):
        began = time.monotonic()
        ask(vendor)
        assert time.monotonic() - began >= 0.15


def test_the_models(vendor: FakeVendor) -> None:
    vendor.models = ["b", "a"]
    assert [m["id"] for m in json.loads(post(vendor, "/v1/models", None, OPENAI_HEADERS)[2])["data"]] == ["a", "b"]
    assert json.loads(post(vendor, "/v1/models", None, ANTHROPIC_HEADERS)[2])["last_id"] == "b"
    assert post(vendor, "/v1/models", None, {})[0] == 401


# ---- what is refused


@pytest.mark.parametrize(
    ("api", "fields", "status", "words"),
    [
        ("openai", {"messages": [{"role": "tool", "tool_call_id": "c", "content": ""}]}, 400, "must be a response to"),
        ("anthropic", {"messages": [{"role": "user", "content": ""}]}, 400, "must have non-empty content"),
        ("openai", {"model": "nope"}, 404, "The model `nope` does not exist or you do not have access to it."),
        ("anthropic", {"model": "nope"}, 404, "model: nope"),
        ("responses", {"model": "nope"}, 400, "The requested model 'nope' does not exist."),
        ("responses", {"input": []}, 400, "Invalid 'input': empty array."),
    ],
)
def test_a_refused_request_takes_no_reply(api: str, fields: dict[str, Any], status: int, words: str) -> None:
    with FakeVendor(["fine"], models=["m"]) as vendor:
        refused, headers, body = ask(vendor, api, **fields)
        assert refused == status and words in json.loads(body)["error"]["message"]
        assert headers["content-type"] == "application/json"
        assert heard(ask(vendor, api)[2])["text"] == "fine"
        assert [r.status for r in vendor.requests] == [status, 200]


def test_keys_and_broken_json_are_refused() -> None:
    with FakeVendor(keys=["other"]) as vendor:
        assert ask(vendor)[0] == 401
        assert json.loads(ask(vendor, "anthropic")[2])["error"]["type"] == "authentication_error"
        vendor.keys = None
        assert post(vendor, "/v1/chat/completions", b'{"x": "\\ud83d"}', OPENAI_HEADERS)[0] == 400
        assert post(vendor, "/v1/v1/chat/completions", b"{}", OPENAI_HEADERS)[0] == 404
        assert vendor.requests[-1].body == {}


def test_a_lenient_vendor_takes_what_can_be_parsed() -> None:
    with FakeVendor(["fine"], strict=False) as vendor:
        assert ask(vendor, "anthropic", messages=[], oops=1)[0] == 200
        assert post(vendor, "/v1/messages", b"{", {})[0] == 400


def thinking_turn(text: str, signature: str) -> list[dict[str, Any]]:
    block = {"type": "thinking", "thinking": text, "signature": signature}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [block, {"type": "text", "text": "yes"}]},
        {"role": "user", "content": "on"},
    ]


@pytest.mark.parametrize("stream", [True, False])
def test_the_signatures_that_were_given_out_are_remembered(vendor: FakeVendor, stream: bool) -> None:
    vendor.script([[Thinking(text="hm"), "yes"], "again"])
    ask(vendor, "anthropic", stream=stream)
    (signature,) = vendor.signatures
    for text, sent, words in (("hm", "x", "Invalid `signature`"), ("ha", signature, "cannot be modified")):
        status, _, body = ask(vendor, "anthropic", messages=thinking_turn(text, sent))
        assert status == 400 and words in body.decode()
    assert ask(vendor, "anthropic", messages=thinking_turn("hm", signature))[0] == 200


def test_redacted_thinking_is_remembered_too(vendor: FakeVendor) -> None:
    vendor.script([[Thinking(redacted="blob"), "yes"], "again"])
    ask(vendor, "anthropic")
    turn = thinking_turn("", "")
    for data, status in (("other", 400), ("blob", 200)):
        turn[1]["content"][0] = {"type": "redacted_thinking", "data": data}
        assert ask(vendor, "anthropic", messages=turn)[0] == status


@pytest.mark.parametrize("stream", [True, False])
def test_sealed_reasoning_and_what_it_binds_are_remembered(vendor: FakeVendor, stream: bool) -> None:
    vendor.script([[Thinking(text="hm"), call("add", id="c1")], "5"])
    body = ask(vendor, "responses", stream=stream)[2]
    given = [e["item"] for e in events(body) if e["type"].endswith("item.done")] or json.loads(body)["output"]
    reasoning, bound = ({k: v for k, v in item.items() if k != "status"} for item in given)
    assert vendor.signatures == {reasoning["encrypted_content"]: reasoning["id"]}
    asked, result = {"role": "user", "content": "hi"}, {"type": "function_call_output", "call_id": "c1", "output": "5"}
    for items, words in (
        ([asked, bound, result], f"without its required 'reasoning' item: '{reasoning['id']}'"),
        ([asked, {**reasoning, "encrypted_content": "gAAAAother"}, bound, result], "could not be verified"),
        ([asked, {**reasoning, "encrypted_content": None}, bound, result], "Items are not persisted"),
        ([asked, reasoning], "without its required following item"),
    ):
        status, _, refused = ask(vendor, "responses", input=items, store=False)
        assert status in (400, 404) and words in json.loads(refused)["error"]["message"]
    assert ask(vendor, "responses", input=[asked, reasoning, bound, result], store=False)[0] == 200


def test_a_key_in_a_header_of_its_own(vendor: FakeVendor) -> None:
    vendor.script(["a"])
    body = json.dumps({"model": "m", "input": "hi"}).encode()
    assert post(vendor, "/openai/v1/responses", body, {"api-key": "k"})[0] == 200


def test_a_script_that_ends_says_so(vendor: FakeVendor) -> None:
    status, _, body = ask(vendor)
    assert status == 400 and b"no reply left" in body


def test_an_error_in_a_scripted_function_is_raised_in_the_test() -> None:
    def broken(_: object) -> str:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), FakeVendor([broken]) as vendor:
        assert ask(vendor)[0] == 400


# ---- what goes wrong


async def read(vendor: FakeVendor, timeout_s: float = 5.0) -> tuple[int, bytes, str]:
    """Status, the bytes that came, and how the body ended: whole, broken, or late."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    got = bytearray()
    status = 0
    limits = aiohttp.ClientTimeout(sock_read=timeout_s)
    async with aiohttp.ClientSession(timeout=limits) as session:
        try:
            url = vendor.base_url + "/v1/chat/completions"
            async with session.post(url, json=body, headers=OPENAI_HEADERS) as answer:
                status = answer.status
                async for data in answer.content.iter_any():
                    got += data
        except TimeoutError:
            return status, bytes(got), "late"
        except aiohttp.ClientError:
            return status, bytes(got), "broken"
    return status, bytes(got), "whole"


@pytest.mark.parametrize("after", [1, 60, 500])
@pytest.mark.parametrize(("how", "end"), [("reset", "broken"), ("end", "whole"), ("stall", "late")])
async def test_a_reply_is_cut_after_n_bytes(vendor: FakeVendor, after: int, how: Any, end: str) -> None:
    words = Say(["hello", "world", "and so on"])
    full = b"".join(b for b in as_stream(words, "openai", {"model": "m"}) if isinstance(b, bytes))
    vendor.script([Cut(words, after, how)])
    status, got, ended = await read(vendor, 0.5)
    assert (status, got, ended) == (200, full[:after], end)


async def test_a_request_hangs_before_the_first_byte(vendor: FakeVendor) -> None:
    vendor.script([Late(Say(["never"])), "next"])
    assert await read(vendor, 0.5) == (0, b"", "late")
    assert (await read(vendor))[2] == "whole"


async def test_a_pause_of_a_reply_that_was_cut_is_kept(vendor: FakeVendor) -> None:
    vendor.script([Late(Cut(Recording(b"data: 1\n\ndata: 2\n\n", cut=[9]), 12, "reset"), 0.1)])
    began = time.monotonic()
    assert await read(vendor) == (200, b"data: 1\n\ndat", "broken")
    assert time.monotonic() - began >= 0.1


def test_an_error_in_the_form_of_each_vendor(vendor: FakeVendor) -> None:
    page = "<html>bad gateway</html>"
    vendor.script([Refuse(429, headers={"retry-after": "2"}), Refuse(529), Refuse(502, body=page)])
    status, headers, body = ask(vendor)
    assert status == 429 and headers["retry-after"] == "2" and json.loads(body)["error"]["message"]
    status, _, body = ask(vendor, "anthropic")
    assert status == 529 and json.loads(body)["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    status, headers, body = ask(vendor)
    assert (status, headers["content-type"], body) == (502, "text/html", b"<html>bad gateway</html>")


def test_one_body_in_answer_to_a_stream_request(vendor: FakeVendor) -> None:
    vendor.script([Whole(Say(["hello"]))])
    _, headers, body = ask(vendor)
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["choices"][0]["message"]["content"] == "hello"


async def test_closing_the_vendor_breaks_what_is_under_way() -> None:
    vendor = FakeVendor([Cut(Say(["hello"]), 40, "stall")]).start()
    reading = asyncio.create_task(read(vendor))
    await asyncio.to_thread(vendor.wait_for, 1)
    await asyncio.to_thread(vendor.close)
    assert (await reading)[2] == "broken"
    vendor.close()


# ---- recordings


def test_recorded_bytes_are_sent_as_they_are(vendor: FakeVendor) -> None:
    body = "data: {\"ü\": 1}\r\n\r\n".encode()
    vendor.replay(body, headers={"request-id": "r1"}, cut=1)
    vendor.replay(b"[]", status=400)
    status, headers, got = ask(vendor)
    assert (status, headers["request-id"], got) == (200, "r1", body)
    assert ask(vendor)[::2] == (400, b"[]")


@given(st.binary(min_size=1, max_size=40), st.integers(1, 50) | st.lists(st.integers(-3, 50), max_size=6) | st.none())
def test_every_cut_keeps_every_byte(body: bytes, cut: Any) -> None:
    steps = list(Recording(body, cut=cut).respond(None).steps)  # type: ignore[arg-type]
    assert b"".join(s for s in steps if isinstance(s, bytes)) == body
    assert all(steps)


def test_cuts_are_paced(vendor: FakeVendor) -> None:
    vendor.replay(b"data: 1\n\n", cut=[2, 4], pace=0.05)
    began = time.monotonic()
    assert ask(vendor)[2] == b"data: 1\n\n"
    assert time.monotonic() - began >= 0.1


def test_a_folder_is_a_recording(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replay.load(tmp_path)
    (tmp_path / "response.sse").write_bytes(b"data: [DONE]\n\n")
    headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", "x-id": "7"}
    (tmp_path / "response.meta.json").write_text(json.dumps({"status": 200, "headers": headers}))
    (tmp_path / "expected.json").write_text('{"text": ""}')
    recording = replay.load(tmp_path)
    assert recording.body == b"data: [DONE]\n\n" and recording.expected == {"text": ""} and recording.request is None
    assert dict(recording.headers) == {"content-type": "text/event-stream", "x-id": "7"}
    assert [(folder, r.name) for folder, r in replay.load_tree(tmp_path.parent)] == [(tmp_path, tmp_path.name)]


@needs_shared
def test_recorded_folders_come_over_the_socket_unchanged(vendor: FakeVendor) -> None:
    folders = list((SHARED / "wire" / "anthropic" / "messages").iterdir())
    recordings = [replay.load(folder, cut=97) for folder in sorted(folders)]
    vendor.script(recordings)
    for recording in recordings:
        status, _, body = ask(vendor, "anthropic")
        assert (status, body) == (recording.status, recording.body)
    assert len(vendor.signatures) > 5


@needs_shared
@pytest.mark.foreign
def test_a_recorded_conversation_with_thinking_goes_on(vendor: FakeVendor) -> None:
    """The second request of a recorded pair holds the thinking of the first answer: the fake must know it."""
    root = SHARED / "wire" / "anthropic" / "messages"
    first = replay.load(root / "sse-tool-noargs-think__claude-haiku-4-5-20251001__caf508a6-t1")
    second = replay.load(root / "sse-aftertool-text__claude-haiku-4-5-20251001__caf508a6-t2")
    vendor.script([first, second])
    for recording in (first, second):
        assert recording.request is not None
        body = json.dumps(recording.request["body"]).encode()
        status, _, got = post(vendor, "/v1/messages", body, ANTHROPIC_HEADERS)
        assert status == 200, got


# ---- what is remembered


def test_requests_are_kept_and_secrets_are_not_shown(vendor: FakeVendor) -> None:
    vendor.script(["a"])
    before = time.monotonic()
    ask(vendor)
    (request,) = vendor.requests
    assert (request.method, request.path, request.status) == ("POST", "/v1/chat/completions", 200)
    assert request.headers["authorization"] == "Bearer k" and "Bearer k" not in repr(request)
    assert request.body == json.loads(request.raw)
    assert before <= request.at <= time.monotonic()


def test_waiting_for_a_request_that_does_not_come(vendor: FakeVendor) -> None:
    with pytest.raises(TimeoutError, match=r"0 of 1 requests came"):
        vendor.wait_for(1, timeout_s=0.05)


def test_connections_are_kept_and_many_may_be_open(vendor: FakeVendor) -> None:
    vendor.script(["x"] * 50)

    async def many() -> list[tuple[int, bytes, str]]:
        return await asyncio.gather(*(read(vendor) for _ in range(50)))

    answers = asyncio.run(many())
    assert all(status == 200 and ended == "whole" for status, _, ended in answers)


def test_a_chunked_request_body_is_read(vendor: FakeVendor) -> None:
    async def send() -> int:
        async def parts() -> Any:
            yield b'{"model": "m", "messages": [{"role": '
            yield b'"user", "content": "hi"}]}'

        async with (
            aiohttp.ClientSession() as session,
            session.post(vendor.base_url + "/v1/chat/completions", data=parts(), headers=OPENAI_HEADERS) as answer,
        ):
            return answer.status

    vendor.script(["a"])
    assert asyncio.run(send()) == 200


def test_what_is_no_http_ends_its_connection_only(vendor: FakeVendor) -> None:
    host, _, port = vendor.base_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 5) as raw:
        raw.sendall(b"hello\r\n\r\n")
        assert raw.recv(10) == b""
    vendor.script(["a"])
    assert ask(vendor)[0] == 200


def test_a_child_process_can_use_it(vendor: FakeVendor) -> None:
    vendor.script(["from afar"])
    code = (
        "import sys, urllib.request as u;"
        "r = u.Request(sys.argv[1], sys.argv[2].encode(), {'Authorization': 'Bearer k'});"
        "sys.stdout.write(u.urlopen(r).read().decode())"
    )
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    command = [sys.executable, "-c", code, vendor.base_url + "/v1/chat/completions", body]
    assert "from afar" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


# ---- the vendors' own clients


def test_the_openai_client_understands_it(vendor: FakeVendor) -> None:
    openai = pytest.importorskip("openai", reason="the vendor's client is not installed")
    vendor.script([["a", "b", call("add", id="c1", x=1)], Say([call("add", id="c1", x=1)]), Refuse(401)])
    with openai.OpenAI(base_url=vendor.base_url + "/v1", api_key="k", max_retries=0) as client:
        messages = [{"role": "user", "content": "hi"}]
        text, arguments, finish = "", "", None
        for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
            delta = chunk.choices[0].delta
            text += delta.content or ""
            arguments += "".join(c.function.arguments or "" for c in delta.tool_calls or [])
            finish = chunk.choices[0].finish_reason or finish
        assert (text, arguments, finish) == ("ab", '{"x":1}', "tool_calls")
        whole = client.chat.completions.create(model="m", messages=messages)
        assert whole.choices[0].message.tool_calls[0].id == "c1" and whole.usage.total_tokens == 15
        with pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="m", messages=messages)
        with pytest.raises(openai.BadRequestError, match="must be a response to"):
            client.chat.completions.create(model="m", messages=[{"role": "tool", "tool_call_id": "x", "content": ""}])
        assert [m.id for m in client.models.list()] == ["fake-model"]


def test_the_anthropic_client_understands_it(vendor: FakeVendor) -> None:
    anthropic = pytest.importorskip("anthropic", reason="the vendor's client is not installed")
    add = call("add", id="t1", x=1)
    vendor.script([[Thinking(text="hm"), "a", "b", add], [add], Refuse(429)])
    with anthropic.Anthropic(base_url=vendor.base_url, api_key="k", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        assert [b.type for b in streamed.content] == ["thinking", "text", "tool_use"]
        assert streamed.content[1].text == "ab" and streamed.content[2].input == {"x": 1}
        assert streamed.content[0].signature in vendor.signatures
        assert client.messages.create(**asked).stop_reason == "tool_use"
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(**asked)
        with pytest.raises(anthropic.BadRequestError, match="at least one message"):
            client.messages.create(**{**asked, "messages": []})
        assert [m.id for m in client.models.list()] == ["fake-model"]
