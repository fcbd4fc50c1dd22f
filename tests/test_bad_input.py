"""Whatever a vendor sends, in each of the seven dialects: never a traceback, never a call that did not arrive whole,
and a stream that was cut is never taken for a whole one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orkas.harness import pairing
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
    user_message,
)  # fmt: skip
from orkas.providers.anthropic import Anthropic
from orkas.providers.base import CompletionParams, Dialect, Part, TextPart, ToolDef
from orkas.providers.bedrock import Bedrock
from orkas.providers.bedrock.eventstream import Frames
from orkas.providers.cohere import Cohere
from orkas.providers.google import Google
from orkas.providers.ollama import Ollama
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.openai_responses import OpenAIResponses
from orkas.testing.rendering import Say, as_json, as_stream
from orkas.testing.rendering_bedrock import frame
from orkas.testing.rules.base import Api

TIMES = 2_000 if os.environ.get("ORKAS_FULL") else 60

DIALECTS: dict[Api, tuple[str, Callable[[str], Dialect]]] = {
    "anthropic": ("anthropic/claude-opus-4-6", Anthropic),
    "openai": ("custom/m", OpenAIChat),
    "responses": ("openai/gpt-5", OpenAIResponses),
    "google": ("google/gemini-3-pro", Google),
    "ollama": ("ollama/m", Ollama),
    "bedrock": ("bedrock/anthropic.claude-sonnet-4-5", Bedrock),
    "cohere": ("cohere/command-a-reasoning", Cohere),
}
each = pytest.mark.parametrize("api", DIALECTS)
thorough = settings(max_examples=TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FIRST = ToolCall(id="call_first1", name="add", arguments={"a": 1, "b": "Grüß 🐙\u2028", "deep": [{"x": None}]})
SECOND = ToolCall(id="call_second", name="add", arguments={"text": 'quote " and \\ and }' * 5})
SCRIPTS = {
    "words": [Thinking(text="so ", signature="c2ln"), "Grüß ", "dich 🐙, end."],
    "calls": [Thinking(text="hm", signature="c2ln"), "I add.", FIRST, SECOND],
}
WHOLE = [FIRST.arguments, SECOND.arguments]


def events(api: Api, script: str, fragment: int | None = 24) -> list[bytes]:
    made = as_stream(Say(SCRIPTS[script], fragment), api, {"model": DIALECTS[api][0].partition("/")[2], "thinking": {}})
    return [event for event in made if isinstance(event, bytes)]


def read(api: Api, pieces: list[bytes], *, ordered: bool = True) -> tuple[list[Part], AssistantMessage, ProviderError | None]:
    """As the transport does it. What is read is also looked at, whole or not: it can be kept and sent again."""
    model, dialect = DIALECTS[api]
    vendor = model.partition("/")[0]
    reader = dialect(vendor).reader(model=model)
    parts: list[Part] = []
    for piece in [*filter(None, pieces), b""]:
        if not reader.done:
            parts += reader.feed(piece)
    try:
        message, error = reader.close(), None
    except ProviderError as problem:
        message, error = reader.partial(), problem
        assert message.stop_reason == "error" and all(c.arguments is None for c in calls_of(message))
    can_be_kept(api, message)
    for part in parts:
        part.text.encode()
    if error is None:
        said, kept = "".join(p.text for p in parts if isinstance(p, TextPart)), text_of(message)
        assert kept.count("\ufffd") >= said.count("\ufffd")  # half a character at the end of a block is not told
        said, kept = said.replace("\ufffd", ""), kept.replace("\ufffd", "")
        assert said == kept if ordered else sorted(said) == sorted(kept)
    return parts, message, error


def can_be_kept(api: Api, message: AssistantMessage) -> None:
    """The message stands in a session file, and in the next request to its own vendor and to another one."""
    assert encode(decode_message(encode(message))) == encode(message)
    for call in calls_of(message):
        assert isinstance(call.id, str) and call.id and isinstance(call.name, str)
        assert call.arguments is None or isinstance(call.arguments, dict)
    history = pairing.repair([user_message("go"), message, user_message("on")]).messages
    assert pairing.is_paired(history)
    for other in (api, "anthropic" if api != "anthropic" else "openai"):
        sendable(other, history)


def sendable(api: Api, history: list[Message]) -> Any:
    model, dialect = DIALECTS[api]
    vendor, _, name = model.partition("/")
    params = CompletionParams(name, history, tools=[ToolDef("add", "Add.", {"type": "object"})])
    body = dialect(vendor).request(params, base_url="http://h/v1", api_key="k").body
    return json.loads(body.decode("utf-8", "strict"))


def told(message: AssistantMessage) -> list[Any]:
    """What it says, without the ids that readers make up."""
    return [(b.name, b.arguments) if isinstance(b, ToolCall) else getattr(b, "text", b) for b in message.content]


# -- cut


@each
@pytest.mark.parametrize("script", SCRIPTS)
def test_cut_anywhere_it_is_whole_or_an_error(api: Api, script: str) -> None:
    stream = b"".join(events(api, script))
    _, whole, error = read(api, [stream])
    assert error is None and [c.arguments for c in calls_of(whole)] == (WHOLE if script == "calls" else [])
    for end in range(len(stream)):
        _, message, error = read_cut(api, stream[:end])
        if error is None:
            assert told(message) == told(whole), end
        else:
            assert error.class_ in ("connection", "server"), (end, error.class_)


def read_cut(api: Api, data: bytes) -> tuple[None, AssistantMessage, ProviderError | None]:
    """As ``read``, without the checks of what can be sent: there are thousands."""
    model, dialect = DIALECTS[api]
    reader = dialect(model.partition("/")[0]).reader(model=model)
    for piece in (data, b""):
        if not reader.done:
            reader.feed(piece)
    try:
        return None, reader.close(), None
    except ProviderError as error:
        assert all(c.arguments is None for c in calls_of(reader.partial()))
        return None, reader.partial(), error


@each
@thorough
@given(st.data())
def test_any_cutting_of_the_bytes_gives_the_same(api: Api, data: st.DataObject) -> None:
    stream = b"".join(events(api, "calls"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    _, message, error = read(api, pieces)
    assert error is None and told(message) == told(read(api, [stream])[1])


# -- junk between the events

_JUNK = [
    b": keep-alive\n\n", b": OPENROUTER PROCESSING\n", b"\n\n\n", b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
    b"data: {\"type\":\"keepalive\"}\n\n", b"data:\n\n", b"retry: 3\n\n", b"id: 7\n\n", b"data: null\n\n", b"data: 3\n\n",
    b"data: []\n\n", b"data: \"x\"\n\n", b"data: {}\n\n", b"data: {\"choices\":[]}\n\n", b"data: {\"choices\":null}\n\n",
    b"event: of_tomorrow\ndata: {\"type\":\"of_tomorrow\",\"index\":0,\"delta\":null}\n\n",
]  # fmt: skip
_LINES = [b"\n", b"\r\n", b"null\n", b"3\n", b"[]\n", b"{}\n", b'{"model":"m"}\n', b'{"message":null,"done":false}\n']

_FRAMES = [frame("ofTomorrow", b'{"p":"x"}'), frame("metadata", b"{}"), frame("ping", b"")]


@each
@thorough
@given(st.data())
def test_junk_between_events_changes_nothing(api: Api, data: st.DataObject) -> None:
    made = events(api, "calls")
    junk = {"ollama": _LINES, "bedrock": _FRAMES}.get(api, _JUNK)
    for _ in range(data.draw(st.integers(1, 4))):
        first = int(api == "ollama")  # what kind of body it is shows in the first line
        made.insert(data.draw(st.integers(first, len(made) - 1)), data.draw(st.sampled_from(junk)))
    stream = b"".join(made)
    if api != "bedrock" and data.draw(st.booleans()):
        stream = stream.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    if api != "bedrock" and data.draw(st.booleans()):
        stream = b"\xef\xbb\xbf" + stream
    _, message, error = read(api, [stream])
    assert error is None and told(message) == told(read(api, events(api, "calls"))[1])


@each
@pytest.mark.parametrize("body", [b"<html><body>Sign in</body></html>", b"", b"  \n", b"\xef\xbb\xbf", b"null", b"[]", b"{}",
                                  b"Bad Gateway", b"\x1f\x8b\x08\x00\x00", b"\x00" * 400, b"data: <html>\n\n"])  # fmt: skip
def test_what_is_no_reply_is_an_error_that_says_so(api: Api, body: bytes) -> None:
    parts, message, error = read(api, [body])
    assert error is not None and not parts and not calls_of(message)
    assert str(error).strip() and "Traceback" not in str(error)


# -- what is said is not what it should be

odd = st.sampled_from([
    None, True, False, 0, -1, 10**30, 1.5, "", " ", "\ud83d", "\udc19 tail", "x" * 5_000, [], {}, [None], {"text": None}, [[]],
    float("nan"), float("-inf"), "@deep 70", "@deep 300", "@deep 600", "@deep 900", "@deep 5000",
    {"a": {"b": [1, {"c": None}]}}, "null", '""', "{}", '"{\\"a\\": 1}"', '{"a": 1', "[1]", "stop", "tool_use", "call_0",
])  # fmt: skip


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if len(path) > 20:
        return
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from spots(part, (*path, key))


def changed(value: Any, data: st.DataObject) -> Any:
    """One place in it is something else, gone, there twice, or under another name."""
    places = list(spots(value))
    if not places:
        return data.draw(odd)
    *path, last = data.draw(st.sampled_from(places))
    at = value
    for key in path:
        at = at[key]
    match data.draw(st.sampled_from(["odd", "odd", "gone", "twice", "wrapped"])):
        case "odd":
            at[last] = deepcopy(data.draw(odd))
        case "gone":
            del at[last]
        case "twice" if isinstance(at, list):
            at.insert(last, json.loads(json.dumps(at[last])))
        case "twice":
            at[f"{last}_more"] = at[last]
        case _:
            at[last] = [at[last]] if data.draw(st.booleans()) else {"value": at[last]}
    return value


def mutated(api: Api, event: bytes, data: st.DataObject) -> bytes:
    """The event with its JSON changed; as it is where there is none."""
    head, mark, payload = event.rpartition(b"data: ")
    if api == "bedrock":
        [one] = Frames().feed(event)
        payload = one.payload
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return event
    if api == "bedrock":
        return frame(one.name, dumped(changed(value, data)))
    return head + mark + dumped(changed(value, data)) + (b"\n" if api == "ollama" else b"\n\n")


def dumped(value: Any) -> bytes:
    return re.sub(rb'"@deep (\d+)"', lambda found: deep(int(found[1])), json.dumps(value).encode())


def deep(levels: int) -> bytes:
    """JSON with so many levels. Some can be read and not be written again."""
    return b'{"a":[' * (levels // 2) + b"1" + b"]}" * (levels // 2)


@each
@thorough
@given(st.data())
def test_fields_of_other_types_missing_or_twice_are_never_a_traceback(api: Api, data: st.DataObject) -> None:
    made = events(api, data.draw(st.sampled_from(list(SCRIPTS))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(made) - 1))
        match data.draw(st.sampled_from(["change", "change", "change", "drop", "repeat", "swap"])):
            case "change":
                made[at] = mutated(api, made[at], data)
            case "drop" if len(made) > 1:
                del made[at]
            case "repeat":
                made.insert(at, made[at])
            case _:
                made[at], made[-1 - at] = made[-1 - at], made[at]
    read(api, [b"".join(made)] if data.draw(st.booleans()) else made, ordered=False)


@each
@thorough
@given(st.data())
def test_events_out_of_order_twice_or_lost_change_no_call(api: Api, data: st.DataObject) -> None:
    made = events(api, "calls", fragment=None)
    at, to = (data.draw(st.integers(0, len(made) - 1)) for _ in range(2))
    what = data.draw(st.sampled_from(["drop", "repeat", "swap"]))
    if what == "drop":
        del made[at]
    elif what == "repeat":
        made.insert(to, made[at])
    else:
        made[at], made[to] = made[to], made[at]
    lost = what == "drop" or len(made) - 1 in (at, to)  # what stands behind the end is not read
    _, message, _ = read(api, made, ordered=False)
    for call in calls_of(message):
        assert call.arguments in (*WHOLE, None) or (lost and call.arguments == {})


@each
@thorough
@given(st.data())
def test_whole_bodies_of_another_form_are_never_a_traceback(api: Api, data: st.DataObject) -> None:
    body = json.loads(as_json(Say(SCRIPTS["calls"]), api, {"model": DIALECTS[api][0].partition("/")[2], "thinking": {}}))
    for _ in range(data.draw(st.integers(1, 3))):
        if isinstance(body, dict | list):
            body = changed(body, data)
    encoded = dumped(body)
    read(api, [encoded], ordered=False)
    _, cut, error = read(api, [encoded[: data.draw(st.integers(0, len(encoded) - 1))]])
    assert error is not None and not [c for c in calls_of(cut) if c.arguments is not None]


@each
@thorough
@given(st.data())
def test_damaged_bytes_are_never_a_traceback_and_never_a_changed_call(api: Api, data: st.DataObject) -> None:
    stream = bytearray(b"".join(events(api, "calls")))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 3))] = data.draw(st.sampled_from([b"\xff", b"\xc3", b"\x80", b"\xed\xa0\x80"]))
    _, message, error = read(api, [bytes(stream)])
    if error is None:
        for call in calls_of(message):
            assert call.arguments is None or "\ufffd" not in encode(call.arguments).decode()


# -- how arguments may come

WAYS: dict[str, tuple[Any, Any]] = {
    "": ({}, {}), "null": ({}, {}), '""': ({}, {}), "{}": ({}, {}), '{"a": 1}': ({"a": 1},) * 2,
    '"{\\"a\\": 1}"': ({"a": 1},) * 2, '{"a": "\\ud83d"}': ({"a": "\ufffd"},) * 2, '{"a": "\\ud83d\\udc19"}': ({"a": "🐙"},) * 2,
    '{"a": 1': (None,) * 2, '{"a": NaN}': (None,) * 2, "[1]": (None,) * 2, "3": (None,) * 2, '{"a": 1} {"a": 2}': (None,) * 2,
}  # fmt: skip


@pytest.mark.parametrize("api", ["anthropic", "openai", "responses", "bedrock", "cohere"])
@pytest.mark.parametrize("raw", WAYS)
@pytest.mark.parametrize("fragment", [None, 1])
def test_argument_texts_are_read_the_same_way_everywhere(api: Api, raw: str, fragment: int | None) -> None:
    call = ToolCall(id="call_x", name="no_such_tool", arguments=None, arguments_raw=raw)
    made = as_stream(Say([call], fragment=fragment), api, {"model": "m"})
    _, message, error = read(api, [e for e in made if isinstance(e, bytes)])
    assert error is None and [c.arguments for c in calls_of(message)] == [WAYS[raw][0]]


NO_VALUES = [b"NaN", b"-Infinity", b"1e999", deep(66), deep(400), deep(900)]


@each
@pytest.mark.parametrize("value", NO_VALUES, ids=lambda v: v[:9].decode())
@pytest.mark.parametrize("whole", [False, True])
def test_what_cannot_be_stored_and_sent_back_as_it_is_never_runs(api: Api, value: bytes, whole: bool) -> None:
    call, fits = ToolCall(id="call_x", name="add", arguments={"a": "@"}), ToolCall(id="call_y", name="add", arguments={"a": 1})
    if whole:
        made = as_json(Say([call, fits]), api, {"model": "m"})
        body = [made if isinstance(made, bytes) else json.dumps(made).encode()]
    else:
        body = [e for e in as_stream(Say([call, fits], fragment=None), api, {"model": "m"}) if isinstance(e, bytes)]
        if api == "bedrock":
            body = [frame(one.name, put(one.payload, value)) for e in body for one in Frames().feed(e)]
    _, message, error = read(api, [put(piece, value) for piece in body])
    assert error is None and [c.arguments for c in calls_of(message)] == [None, {"a": 1}]
    assert calls_of(message)[0].arguments_raw


def put(body: bytes, value: bytes) -> bytes:
    """``value`` in the place of the ``@``, in arguments that are an object and in such that are its text."""
    return body.replace(b'\\"@\\"', value.replace(b'"', b'\\"')).replace(b'"@"', value)


@each
def test_calls_with_one_id_are_told_apart(api: Api) -> None:
    calls = [ToolCall(id="call_same1", name="add", arguments={"a": n}) for n in (1, 2)]
    _, message, error = read(api, [e for e in as_stream(Say(calls), api, {"model": "m"}) if isinstance(e, bytes)])
    assert error is None and [c.arguments for c in calls_of(message)] == [{"a": 1}, {"a": 2}]
    assert len({c.id for c in calls_of(message)}) == 2


# -- and back: whatever stands in a history can be sent

texts = st.text(st.characters(codec=None) | st.sampled_from("\ud83d\udc19\x00\u2028"), max_size=6)  # type: ignore[arg-type]
ids = st.sampled_from(["", "call_0", "call_0", "x" * 300, "functions.add:0", "ä ö", "\ud83d", "toolu_01"])
plain = st.recursive(st.none() | st.integers(-9, 9) | texts, lambda i: st.lists(i, max_size=2) | st.dictionaries(texts, i, max_size=2))
blocks = st.one_of(
    st.builds(Text, text=texts),
    st.builds(Thinking, text=texts, signature=st.none() | texts, redacted=st.none() | texts, encrypted=st.none() | texts),
    st.builds(ToolCall, id=ids, name=texts, arguments=st.none() | st.dictionaries(texts, plain, max_size=2)),
    st.builds(Image, media_type=st.sampled_from(["image/png", "", "x/y"]), data=st.sampled_from([None, "", "aGk=", "?"])),
    st.builds(Opaque, kind=texts, vendor=st.none() | st.dictionaries(texts, plain, max_size=2)),
)
vendor_fields = st.none() | st.dictionaries(st.sampled_from(["refusal", "id", "phase", "signed", "details"]), plain, max_size=2)
messages = st.one_of(
    st.builds(UserMessage, content=st.lists(blocks, max_size=3)),
    st.builds(AssistantMessage, content=st.lists(blocks, max_size=4), model=st.sampled_from([m for m, _ in DIALECTS.values()]),
              api=st.sampled_from([d("v").api for _, d in DIALECTS.values()]), vendor=vendor_fields,
              stop_reason=st.sampled_from(["stop", "tool_use", "length", "error", "refusal", "pause", ""])),
    st.builds(ToolMessage, tool_call_id=ids, content=st.lists(blocks, max_size=2)),
)  # fmt: skip


@each
@thorough
@given(st.lists(messages, max_size=6), texts)
def test_any_history_makes_a_request_of_plain_utf_8(api: Api, history: list[Message], system: str) -> None:
    model, dialect = DIALECTS[api]
    vendor, _, name = model.partition("/")
    repaired = pairing.repair(history).messages
    params = CompletionParams(name, repaired, system=system, tools=[ToolDef(system or "t", system, {"type": "object"})])
    maker = dialect(vendor)
    body = maker.request(params, base_url="http://h/v1", api_key="k").body
    json.loads(body.decode("utf-8", "strict"), parse_constant=pytest.fail)
    again = maker.request(replace(params, messages=[*repaired]), base_url="http://h/v1", api_key="k").body
    assert again == body  # the second one is made of kept bytes
