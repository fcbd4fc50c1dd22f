"""A form in, a checked value out: by the vendor's own means, by words, and by asking once more."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cli_support import environ, orkas
from hurried import hurry
from orkas import Agent, Session, tool
from orkas.harness import json_schema, pairing
from orkas.harness.output import Output, objects_in
from orkas.infra.errors import OutputError, ProviderError, UsageError
from orkas.infra.events import Done, Event, Retry, TextDelta, decode, encode
from orkas.infra.messages import AssistantMessage, Text, Usage, calls_of, text_of, user_message
from orkas.providers.base import ModelInfo
from orkas.providers.writing.output import ANTHROPIC, OPENAI, strict
from orkas.testing import FakeVendor, Refuse, Say, ScriptedProvider, call
from orkas.testing.rules import check_anthropic
from orkas.testing.rules.schema import strict_fault

SCHEMA: dict[str, Any] = {
    "title": "Trip",
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
}
GOOD = '{"city": "Oslo", "days": 3}'
TRIP = {"city": "Oslo", "days": 3}


class Stop(msgspec.Struct):
    name: str
    on: datetime.date | None = None


class Trip(msgspec.Struct):
    """A trip."""

    city: str
    days: int
    stops: list[Stop] = []


@dataclasses.dataclass
class TripData:
    city: str
    days: int = 1


class TripDict(TypedDict):
    city: str
    days: NotRequired[int]


RICH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "stop": {"$ref": "#/$defs/Stop", "description": "where", "default": None}, "mode": {"enum": ["a", "b"]}, "level": {"enum": [1, 2]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}, "any": {}, "free": {"type": "object"},
        "mixed": {"enum": ["a", 1]}, "n": {"type": ["integer", "null"], "minimum": 0, "default": 1},
    },
    "required": ["stop", "n"],
    "additionalProperties": False,
    "$defs": {"Stop": {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}},
}  # fmt: skip


class Kind(enum.Enum):
    CITY = "city"
    SEA = "sea"


class Node(msgspec.Struct):
    name: str
    below: list[Node] = []


async def events_of(agent: Agent, prompt: str = "Where to?") -> list[Event]:
    async with aclosing(agent.stream(prompt)) as stream:
        return [event async for event in stream]


def told(events: list[Event]) -> str:
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, Retry) and event.discard:
            assert event.discard <= len(text)
            text = text[: -event.discard]
    return text


def turn(*replies: Any, output: Any = None, **options: Any) -> tuple[list[Event], Done, ScriptedProvider, Agent]:
    provider = ScriptedProvider(replies)
    agent = Agent(provider, output=output or SCHEMA, **{"tools": [], **options})
    events = hurry(events_of(agent))
    done = events[-1]
    assert isinstance(done, Done) and [e.seq for e in events] == list(range(len(events)))
    assert pairing.is_paired(agent.session.messages)
    assert told(events).endswith(done.text)
    return events, done, provider, agent


# ------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("shape", "answer", "value"),
    [
        (Trip, '{"city":"Oslo","days":3,"stops":[{"name":"Bergen","on":"2026-05-17"}]}', Trip("Oslo", 3, [Stop("Bergen", datetime.date(2026, 5, 17))])),
        (TripData, '{"city":"Oslo"}', TripData("Oslo", 1)),
        (TripDict, '{"city":"Oslo"}', {"city": "Oslo"}),
        (Node, '{"name":"a","below":[{"name":"b"}]}', Node("a", [Node("b")])),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (SCHEMA, GOOD, TRIP),
    ],
    ids=["struct", "dataclass", "typed dict", "recursive", "mapping", "schema"],
)
def test_a_type_in_a_value_of_it_out(shape: Any, answer: str, value: Any) -> None:
    done = hurry(Agent(ScriptedProvider([answer]), output=shape, tools=[]).run("Where to?"))
    assert (done.outcome, done.output, done.text) == ("completed", value, answer)
    events = hurry(events_of(Agent(ScriptedProvider([answer]), output=shape, tools=[])))
    assert json.loads(encode(events[-1]))["output"] == json.loads(answer)
    assert decode(encode(events[-1])).output == json.loads(answer)


def test_a_pydantic_model_is_known_by_what_it_can_do() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Trip", city=(str, ...), days=(int, pydantic.Field(ge=1)))
    agent = Agent(ScriptedProvider(['{"city":"Oslo","days":0}', GOOD]), output=model, tools=[])
    done = hurry(agent.run("Where to?"))
    assert isinstance(done.output, model) and done.output.model_dump() == TRIP


def test_without_a_form_nothing_is_different() -> None:
    provider = ScriptedProvider([GOOD])
    done = hurry(Agent(provider, tools=[]).run("Where to?"))
    assert done.output is None and "output" not in json.loads(encode(done))
    assert provider.requests[0].output is None and "JSON" not in provider.requests[0].system


@pytest.mark.parametrize(
    "shape",
    [
        int, list[int], object(), lambda: 1, {"type": "string"}, {"type": "nothing"}, {"type": "object", "properties": []},
        {"$ref": "#/nowhere"}, {"type": "object", "properties": {"a": {"pattern": "("}}}, {"type": "object", "x": {1, 2}},
        {"type": "object", "unevaluatedProperties": False}, {"type": "object", "properties": {"a": {"$ref": "https://x/y"}}},
    ],
)  # fmt: skip
def test_what_is_no_form_of_an_object_is_refused_at_once(shape: Any) -> None:
    with pytest.raises(UsageError):
        Agent(ScriptedProvider([]), output=shape)


# ------------------------------------------------------------------ asking once more


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ("Oslo, for three days.", "no JSON object"),
        ('{"city": "Oslo", "days": 3', "does not parse"),
        ('{"city": "Oslo"}', "lacks 'days'"),
        ('{"city": "Oslo", "days": "three"}', "$.days must be an integer"),
        ('{"city": "Oslo", "days": 0}', "at least 1"),
        ('{"city": "Oslo", "days": NaN}', "$.days must be an integer, not null"),
        ("", "no JSON object"),
        ("[1, 2]", "no JSON object"),
    ],
)
def test_what_is_wrong_is_told_once_and_the_answer_taken_back(bad: str, word: str) -> None:
    events, done, provider, agent = turn(bad, GOOD)
    assert (done.outcome, done.output, done.text, done.rounds) == ("completed", TRIP, GOOD, 1)
    assert told(events) == GOOD
    [retry] = [e for e in events if isinstance(e, Retry)]
    assert (retry.attempt, retry.discard, retry.wait_s) == (1, len(bad), 0.0) and word in retry.reason
    asked = provider.requests[1]
    assert word in text_of(asked.messages[-1]) and asked.tool_choice == "none"
    assert [type(m).__name__ for m in agent.session.messages] == ["UserMessage", "AssistantMessage"]
    assert text_of(agent.session.messages[-1]) == GOOD
    assert (done.usage.input, done.usage.output) == (20, 10)


def test_it_is_asked_once_more_and_then_the_turn_fails_with_its_text_kept() -> None:
    events, done, provider, agent = turn("Oslo.", "Oslo, I said.", "Never asked.")
    assert (done.outcome, done.output, done.text, len(provider.requests)) == ("failed", None, "Oslo, I said.", 2)
    assert done.error is not None and done.error.class_ == "invalid_request"
    assert "no JSON object" in done.error.message
    assert told(events) == text_of(agent.session.messages[-1]) == "Oslo, I said."


def test_the_next_turn_goes_on_after_a_failed_one() -> None:
    agent = Agent(ScriptedProvider(["Oslo.", "Oslo.", GOOD]), output=SCHEMA, tools=[])
    assert [hurry(agent.run("Where to?")).outcome for _ in range(2)] == ["failed", "completed"]


def test_tools_run_first_and_only_the_answer_is_checked() -> None:
    ran: list[str] = []

    @tool
    async def look(place: str) -> str:
        """Look."""
        ran.append(place)
        return "3 days are enough"

    _, done, provider, agent = turn(["I look it up. ", call("look", place="Oslo")], "Three days.", GOOD, tools=[look])
    assert (done.output, ran, done.rounds, done.tools["look"].calls) == (TRIP, ["Oslo"], 2, 1)
    assert [r.tool_choice for r in provider.requests] == ["auto", "auto", "none"]
    assert [len(r.tools) for r in provider.requests] == [1, 1, 1]
    assert provider.requests[1].messages == provider.requests[2].messages[:-2]
    assert len(agent.session.messages) == 4


def test_calls_in_place_of_the_repaired_answer_are_not_made() -> None:
    @tool
    async def look() -> str:
        """Look."""
        raise AssertionError

    _, done, _, agent = turn("Oslo.", [GOOD, call("look")], tools=[look])
    assert (done.outcome, done.output, done.tools) == ("completed", TRIP, {})
    assert not calls_of(agent.session.messages[-1])


@pytest.mark.parametrize("reason", ["refusal", "content_filter"])
def test_a_refusal_is_not_argued_with(reason: str) -> None:
    no = AssistantMessage([Text(text="I will not.")], "scripted/model", "scripted", reason, Usage(10, 5))
    _, done, provider, _ = turn(no, "Never asked.")
    assert (done.outcome, done.text, len(provider.requests)) == ("failed", "I will not.", 1)
    assert done.error is not None and done.error.class_ == "content_filter"


def test_a_cut_answer_goes_on_before_it_is_checked() -> None:
    half = AssistantMessage([Text(text='{"city": "Os')], "scripted/model", "scripted", "length", Usage(10, 5))
    _, done, provider, _ = turn(half, 'lo", "days": 3}')
    assert (done.output, len(provider.requests)) == (TRIP, 2)


def test_a_failure_while_repairing_is_retried_like_any_other() -> None:
    cut = ProviderError("the connection was cut", class_="connection")
    events, done, provider, _ = turn("Oslo.", ['{"city"', cut], GOOD)
    assert (done.output, len(provider.requests), told(events)) == (TRIP, 3, GOOD)
    assert provider.requests[1].messages == provider.requests[2].messages


def test_a_turn_that_comes_to_a_limit_has_no_output() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "fog"

    _, done, _, _ = turn([call("look")], tools=[look], max_rounds=1)
    assert (done.outcome, done.stop_reason, done.output) == ("completed", "max_rounds", None)


def test_what_the_user_says_meanwhile_makes_the_next_answer_the_one() -> None:
    provider = ScriptedProvider(["I think of Oslo.", GOOD])
    agent = Agent(provider, output=SCHEMA, tools=[])

    async def steered() -> Done:
        async with aclosing(agent.stream("Where to?")) as events:
            async for event in events:
                if isinstance(event, TextDelta) and "think" in event.text:
                    agent.steer("For three days.")
                if isinstance(event, Done):
                    return event
        raise AssertionError

    done = hurry(steered())
    assert (done.output, len(provider.requests)) == (TRIP, 2)


def test_summaries_are_not_held_to_the_form() -> None:
    session = Session()
    for i in range(20):
        session.append(user_message(f"Question {i}: " + "what about the harbour and its ships? " * 20))
        session.append(AssistantMessage([Text(text=f"Answer {i}. " + "They are well. " * 30)], "scripted/model", "scripted"))
    summary = "The user asked twenty times about the harbour and its ships; each time the answer was that they are well. " * 3
    provider = ScriptedProvider([summary, GOOD], info=ModelInfo(context_window=200_000))
    agent = Agent(provider, output=SCHEMA, tools=[], session=session)
    hurry(agent.compact())
    assert hurry(agent.run("Where to?")).output == TRIP
    assert [r.output is None for r in provider.requests] == [True, False]


def test_it_works_with_a_fallback() -> None:
    a = ScriptedProvider(["Oslo.", ProviderError("no credit", class_="quota")], model="a")
    b = ScriptedProvider([f"```json\n{GOOD}\n```"], model="b")
    done = hurry(Agent(a, fallback=b, output=Trip, tools=[]).run("Where to?"))
    assert (done.output, done.model) == (Trip("Oslo", 3), "scripted/b")


def test_output_of_the_prompt_is_the_same_in_every_request() -> None:
    provider = ScriptedProvider([GOOD, "x", GOOD])
    agent = Agent(provider, output=SCHEMA, tools=[], system="Be brief.")
    hurry(agent.run("Where to?"))
    hurry(agent.run("And then?"))
    assert len({r.system for r in provider.requests}) == 1
    assert json.dumps(SCHEMA, separators=(",", ":")) in provider.requests[0].system
    assert provider.requests[0].output is provider.requests[1].output


# ------------------------------------------------------------------ finding it


@pytest.mark.parametrize(
    "text",
    [
        GOOD, f"  \n{GOOD}\n", f"```json\n{GOOD}\n```", f"Here it is:\n\n```\n{GOOD}\n```\nEnjoy {{it}}!", f"<think>{{hm}}</think>{GOOD}",
        f'For example {{"city": "Rome", "days": 1}}. But the answer is {GOOD}', f"{GOOD} {{}}", f"{{not this}} {GOOD}", "\ufeff" + GOOD,
    ],
)  # fmt: skip
def test_the_object_is_found_between_words(text: str) -> None:
    assert Output(SCHEMA).read(text) == TRIP


def test_what_lies_in_a_broken_object_is_not_the_answer() -> None:
    loose = Output({"type": "object", "properties": {"name": {"type": "string"}}})
    for text in ('{"stops": [{"name": "Bergen"}, {"name": "Voss"}', '{"stop": {"name": "Bergen"},}'):
        with pytest.raises(OutputError, match="does not parse"):
            loose.read(text)


def test_half_characters_do_not_break_what_is_told() -> None:
    value = Output(SCHEMA).read('{"city": "\\ud800slo", "days": 3}')
    assert value["city"] == "\ufffdslo"


@settings(deadline=None)
@given(st.text())
@example("{" * 100_000)
@example('{"' * 100_000)
@example('{"a":{} ' * 50_000)
@example('{"a":' * 50_000)
@example('{"a":[' * 5_000 + "1")
@example('{"a": ' + "9" * 5_000 + "}")
@example("[" * 100_000 + '{"a":' + "[" * 100_000)
def test_no_text_breaks_the_search(text: str) -> None:
    found = objects_in(text)
    assert found.values or found.fault


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, 2.0]) | st.sampled_from(["", "a", "ab", "x1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
JSON = st.deferred(lambda: _JSON)


@given(st.dictionaries(st.sampled_from(["a", "b"]), JSON, max_size=2), st.sampled_from(["{}", "```json\n{}\n```", "So: {} - done.", "{{x}} {}"]))
def test_every_object_is_found_as_it_is(value: dict[str, Any], around: str) -> None:
    text = around.replace("{{x}}", "{x}").replace("{}", json.dumps(value))
    assert objects_in(text).values == [value]


# ------------------------------------------------------------------ the check against the reference


NAMES = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
COUNT, BOUND = st.integers(0, 2), st.integers(-2, 2)
WORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True), "enum": st.lists(JSON, min_size=1, max_size=2), "const": JSON,
    "required": st.lists(NAMES, max_size=2, unique=True), "minProperties": COUNT, "maxProperties": COUNT, "minItems": COUNT, "maxItems": COUNT,
    "uniqueItems": st.booleans(), "minContains": COUNT, "maxContains": COUNT, "minLength": COUNT, "maxLength": COUNT,
    "pattern": st.sampled_from(["a", "^x"]), "minimum": BOUND, "maximum": BOUND, "exclusiveMinimum": BOUND, "exclusiveMaximum": BOUND,
    "multipleOf": st.sampled_from([1, 2, 0.5]), "$ref": st.sampled_from(["#", "#/$defs/d"]), "title": st.just("t"),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
}  # fmt: skip
ONE = ["additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"]
MANY = ["prefixItems", "allOf", "anyOf", "oneOf"]
MAPS = {"properties": ["a", "b"], "patternProperties": ["^a", "b"], "dependentSchemas": ["a", "c"]}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([True, False, {}]))
    deeper = [*ONE, *MANY, *MAPS] if depth else []
    schema: dict[str, Any] = {}
    for key in draw(st.lists(st.sampled_from([*WORDS, *deeper, *deeper]), max_size=3, unique=True)):
        if key in WORDS:
            schema[key] = draw(WORDS[key])
        elif key in ONE:
            schema[key] = draw(schemas(depth - 1))
        elif key in MANY:
            schema[key] = [draw(schemas(depth - 1)) for _ in range(draw(st.integers(1, 2)))]
        else:
            schema[key] = {draw(st.sampled_from(MAPS[key])): draw(schemas(depth - 1))}
    return schema


@given(schemas(), JSON)
@example({"const": 1}, True)
@example({"enum": [[1.0]]}, [1])
@example({"uniqueItems": True}, [1, True, 1.0])
@example({"$ref": "#/$defs/d", "type": "object"}, {"a": 1})
@example({"multipleOf": 0.1}, 0.3)
def test_the_check_agrees_with_the_reference(schema: Any, value: Any) -> None:
    whole = {**schema, "$defs": {"d": {"properties": {"a": {"$ref": "#/$defs/d"}}, "required": ["b"]}}} if isinstance(schema, dict) else schema
    assert json_schema.check(whole) == ""
    try:
        expected = jsonschema.Draft202012Validator(whole).is_valid(value)
    except RecursionError:  # "$ref": "#" at the top leads nowhere but to itself
        return
    if value == 0.3 and isinstance(schema, dict) and schema.get("multipleOf") == 0.1:
        expected = True  # as written; the reference divides in binary
    assert (not list(json_schema.faults(value, whole))) == expected


@given(st.recursive(JSON, lambda inner: st.dictionaries(st.sampled_from(["type", "properties", "items", "anyOf", "$ref", "required", "enum", "minimum", "pattern", "minItems", "not"]), inner, max_size=3)), JSON)
def test_no_schema_breaks_the_check(schema: Any, value: Any) -> None:
    if not json_schema.check(schema):
        list(json_schema.faults(value, schema))


# ------------------------------------------------------------------ on the wire


def refused_by_anthropic(schema: Any) -> Any:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    return check_anthropic({**body, "output_config": {"format": {"type": "json_schema", "schema": schema}}})


def strict_schema(shape: Any, how: Any) -> Any:
    return strict(Output(shape).wire.schema, how)


class Place(msgspec.Struct):
    name: str


class Rich(msgspec.Struct):
    kind: Kind
    mode: Literal["a", "b"]
    level: Literal[1, 2]
    at: datetime.datetime
    stop: Annotated[Place, msgspec.Meta(description="where")]
    tags: Annotated[list[str], msgspec.Meta(min_length=1)]
    note: str | None
    either: Place | int


def test_strict_schemas_are_closed_and_complete_or_none() -> None:
    told = strict_schema(SCHEMA, OPENAI)
    assert told["additionalProperties"] is False and told["properties"]["days"] == {"type": "integer", "minimum": 1}
    assert strict_schema(SCHEMA, ANTHROPIC)["properties"]["days"] == {"type": "integer"}
    assert strict_schema(Trip, OPENAI) is None  # `stops` may be missing
    assert strict_schema(Trip, ANTHROPIC)["$defs"]["Stop"]["additionalProperties"] is False
    assert strict_schema(Node, ANTHROPIC) is None and "below" in strict_schema(Node, ANTHROPIC._replace(recursion=True))["properties"]
    assert strict_schema(dict[str, int], ANTHROPIC) is None
    assert strict_schema(RICH, ANTHROPIC) is None  # `any`, `free`, `mixed`
    rich = strict_schema(Rich, OPENAI)
    assert (rich["properties"]["mode"]["type"], rich["properties"]["level"]["type"]) == ("string", "integer")
    for how, refused in ((OPENAI, strict_fault), (ANTHROPIC, refused_by_anthropic)):
        told = strict_schema(Rich, how)
        assert told is not None and refused(told) is None
    assert strict_schema({**SCHEMA, "additionalProperties": True}, OPENAI) is None
    assert strict_schema({**SCHEMA, "allOf": [{}]}, OPENAI) is None


@tool
def noop(x: int) -> str:
    """Do nothing."""
    return "nothing"


FORMS = {"text", "response_format", "output_config", "generationConfig", "format"}
"""The fields that hold the form of an answer, at one vendor or another."""


def sent(vendor: FakeVendor, model: str, output: Any = SCHEMA, tools: Any = ()) -> tuple[Done, list[dict[str, Any]]]:
    agent = Agent(model, base_url=vendor.base_url, api_key="k", output=output, tools=list(tools))
    done = agent.run_sync("Where to?")
    return done, [r.body or {} for r in vendor.requests]


@pytest.mark.parametrize("tools", [[], [noop]], ids=["alone", "tools"])
@pytest.mark.parametrize(
    ("model", "where", "with_tools"),
    [
        ("openai/gpt-4o", "text", True), ("azure/mine", "text", True),
        ("openai-chat/gpt-4o", "response_format", True), ("xai/grok-4", "response_format", True), ("custom/x", "", True),
        ("ollama/qwen3", "format", False), ("ollama-chat/qwen3", "response_format", False),
        ("cohere/command-a-03-2025", "", True), ("bedrock/amazon.nova-pro-v1:0", "", True),
        ("mistral/mistral-large-latest", "response_format", False),
        ("deepseek/deepseek-chat", "response_format", False), ("groq/x", "", True), ("anthropic/claude-sonnet-4-5", "output_config", True),
        ("anthropic/claude-3-5-sonnet-latest", "", True), ("google/gemini-3-pro-preview", "generationConfig", True),
        ("google/gemini-2.5-flash", "generationConfig", False), ("google/gemini-2.0-flash", "", True),
    ],
)  # fmt: skip
def test_vendors_are_told_by_their_own_means(model: str, where: str, with_tools: bool, tools: Any) -> None:
    with FakeVendor([GOOD]) as vendor:
        done, bodies = sent(vendor, model, tools=tools)
        assert [r.status for r in vendor.requests] == [200]
    assert (done.outcome, done.output) == ("completed", TRIP)
    held = bodies[0].keys() & FORMS
    assert held == ({where} if where and (with_tools or not tools) else set())
    assert "Trip" in json.dumps(bodies[0]), "the words are there wherever the form is not"


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai-chat/gpt-4o", "ollama/qwen3", "anthropic/claude-sonnet-4-5", "google/gemini-3-pro-preview", "openrouter/x/y"])
@pytest.mark.parametrize("shape", [Trip, TripData, TripDict, Node, dict[str, int], SCHEMA, RICH], ids=repr)
def test_no_form_makes_a_request_that_the_vendor_refuses(model: str, shape: Any) -> None:
    answer: Any = {"city": "Oslo", "days": 3, "name": "x"} if shape is not RICH else {"stop": {"name": "x"}, "n": 1}
    with FakeVendor([json.dumps(answer if shape != dict[str, int] else {"a": 1})]) as vendor:
        done, _ = sent(vendor, model, output=shape, tools=[noop])
        assert [r.status for r in vendor.requests] == [200]
    assert done.outcome == "completed"


@pytest.mark.parametrize("shape", [SCHEMA, Trip, Node], ids=repr)
def test_chat_requests_are_valid_by_the_vendors_own_description(shape: Any, shared: Path) -> None:
    spec = json.loads((shared / "specs" / "openai-openapi.json").read_bytes())
    with FakeVendor(['{"city": "Oslo", "days": 3, "name": "x"}']) as vendor:
        _, bodies = sent(vendor, "openai-chat/gpt-4o", output=shape)
    formats = {"$ref": "#/components/schemas/ResponseFormatJsonSchema", "components": spec["components"]}
    jsonschema.Draft202012Validator(formats).validate(bodies[0]["response_format"])


@pytest.mark.parametrize("shape", [SCHEMA, Trip, Node], ids=repr)
def test_responses_requests_are_valid_by_the_vendors_own_description(shape: Any, shared: Path) -> None:
    spec = json.loads((shared / "specs" / "openai-openapi.json").read_bytes())
    with FakeVendor(['{"city": "Oslo", "days": 3, "name": "x"}']) as vendor:
        _, bodies = sent(vendor, "openai/gpt-4o", output=shape)
    formats = {"$ref": "#/components/schemas/TextResponseFormatJsonSchema", "components": spec["components"]}
    jsonschema.Draft202012Validator(formats).validate(bodies[0]["text"]["format"])


def test_thinking_and_the_form_stand_side_by_side() -> None:
    with FakeVendor([GOOD]) as vendor:
        agent = Agent("anthropic/claude-opus-4-8", base_url=vendor.base_url, api_key="k", output=SCHEMA, thinking="low", tools=[])
        agent.run_sync("Where to?")
        config = (vendor.requests[0].body or {})["output_config"]
    assert config["effort"] == "low" and config["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("model", "refusal"),
    [
        ("openai/gpt-4", "Invalid parameter: 'text.format' of type 'json_schema' is not supported with model `gpt-4`."),
        ("ollama/qwen3", "invalid JSON schema in format"),
        ("openai-chat/gpt-4", "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
        ("anthropic/claude-sonnet-4-5", "output_config.format.schema: Schema is too complex."),
        ("google/gemini-3-pro-preview", "* GenerateContentRequest.generation_config.response_json_schema: too many states\n"),
    ],
)
def test_a_model_that_refuses_the_form_is_asked_without_it_from_then_on(model: str, refusal: str) -> None:
    with FakeVendor([Refuse(400, refusal), GOOD, GOOD]) as vendor:
        agent = Agent(model, base_url=vendor.base_url, api_key="k", output=SCHEMA, tools=[])

        async def twice() -> list[Done]:
            async with agent:
                return [await agent.run("Where to?") for _ in range(2)]

        import asyncio

        dones = asyncio.run(twice())
        bodies = [r.body or {} for r in vendor.requests]
    assert [d.output for d in dones] == [TRIP, TRIP]
    held = [bool(b.keys() & FORMS) for b in bodies]
    assert held == [True, False, False]


def test_another_refusal_is_told_as_ever() -> None:
    with FakeVendor([Refuse(400, "temperature is out of range"), GOOD]) as vendor:
        done, bodies = sent(vendor, "openai/gpt-4o")
    assert (done.outcome, len(bodies)) == ("failed", 1)


@pytest.mark.parametrize("vendor_model", ["openai/gpt-4o", "openai-chat/gpt-4o", "ollama/qwen3", "anthropic/claude-sonnet-4-5", "google/gemini-3-pro-preview", "cohere/command-a-03-2025"])
def test_the_repair_is_well_formed_for_every_vendor(vendor_model: str) -> None:
    with FakeVendor([[call("noop", x=1)], "", Say(["Oslo."]), GOOD]) as vendor:
        agent = Agent(vendor_model, base_url=vendor.base_url, api_key="k", output=SCHEMA, tools=[noop])

        async def both() -> list[Done]:
            async with agent:
                return [await agent.run("Where to?"), await agent.run("And now?")]

        import asyncio

        dones = asyncio.run(both())
        statuses = [r.status for r in vendor.requests]
    assert set(statuses) == {200}, statuses
    assert dones[-1].output == TRIP or dones[0].outcome == "failed"


# ------------------------------------------------------------------ the command


@pytest.fixture
def schema_file(tmp_path: Path) -> str:
    path = tmp_path / "trip.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def test_the_command_prints_the_data_alone(schema_file: str) -> None:
    with FakeVendor([f"Here you are:\n```json\n{GOOD}\n```", "Oslo.", GOOD]) as vendor:
        env = environ(OPENAI_BASE_URL=vendor.base_url, OPENAI_API_KEY="k")
        words = ("run", "Where to?", "--model", "openai/gpt-4o", "--schema", schema_file, "--tools", "none")
        fenced, repaired = orkas(*words, env=env), orkas(*words, "--json", env=env)
    assert (fenced.status, fenced.json) == (0, TRIP)
    assert repaired.events[-1]["output"] == TRIP and repaired.events[-1]["text"] == GOOD


def test_the_command_says_what_is_wrong_with_an_answer(schema_file: str) -> None:
    with FakeVendor(["Oslo.", "Oslo."]) as vendor:
        env = environ(OPENAI_BASE_URL=vendor.base_url, OPENAI_API_KEY="k")
        ran = orkas("run", "Where to?", "--model", "openai/gpt-4o", "--schema", schema_file, env=env)
    assert (ran.status, ran.out) == (1, "")
    assert "no JSON object" in ran.err.splitlines()[-1] + ran.err


@pytest.mark.parametrize("content", [None, "not JSON", "[]", '{"type": "array"}', '{"type": "objekt"}', "\xff", "{" * 100_000])
def test_the_command_refuses_what_is_no_schema(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content, "latin-1")
    orkas("run", "x", "--model", "demo/offline", "--schema", str(path)).refused(2)
