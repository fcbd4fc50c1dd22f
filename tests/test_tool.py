"""A function as a tool: what the model is told of it, what it is given, what comes back."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import msgspec
import pydantic
import pytest
from PIL import Image as Pillow

from orkas import Agent, ToolContext, ToolResult, builtins, tool
from orkas.harness import docstrings
from orkas.harness.functions import FunctionTool
from orkas.harness.json_schema import faults
from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import ToolFailed, UsageError
from orkas.infra.events import Notice
from orkas.infra.messages import Image
from orkas.testing import FakeVendor, ScriptedProvider, call

from cli_support import orkas  # isort: skip


async def result_of(made: Any, context: ToolContext | None = None, **given: Any) -> ToolResult:
    result = await made.run(given, context or ToolContext(Path()))
    assert isinstance(result, ToolResult)
    return result


# --- parameters ---------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    deep: bool
    note: NotRequired[str]


class Node(msgspec.Struct):
    name: str
    below: list[Node] = []


class Inner(pydantic.BaseModel):
    words: str


class Model(pydantic.BaseModel):
    count: int = pydantic.Field(ge=1)
    inner: Inner | None = None


class Tree(pydantic.BaseModel):
    below: list[Tree] = []


CASES: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (int, "3", 3),
    (bool, "true", True),
    (float, 2, 2.0),
    (str, "ü", "ü"),
    (Optional[int], None, None),  # noqa: UP045
    (int | str | None, "x", "x"),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (list[dict[str, list[int]]], [{"a": [1]}], [{"a": [1]}]),
    (dict[int, str], {"7": "x"}, {7: "x"}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[str], ["a"], {"a"}),
    (Annotated[int, msgspec.Meta(ge=1, le=5)], 5, 5),
    (Point, {"x": 1}, Point(1)),
    (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
    (Options, {"deep": True}, {"deep": True}),
    (Node, {"name": "a", "below": [{"name": "b"}]}, Node("a", [Node("b")])),
    (Model, {"count": 2, "inner": {"words": "w"}}, Model(count=2, inner=Inner(words="w"))),
    (list[Model], [{"count": 2}], [Model(count=2)]),
    (Model | None, {"count": 1}, Model(count=1)),
    (Tree, {"below": [{"below": []}]}, Tree(below=[Tree()])),
    (datetime.datetime, "2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (Path, "a/b.txt", Path("a/b.txt")),
    (list[Path], ["a"], [Path("a")]),
    (Path | None, None, None),
    (bytes, "AAE=", b"\0\1"),
    (Any, {"any": [1]}, {"any": [1]}),
]


@pytest.mark.parametrize(("hint", "given", "expected"), CASES, ids=[str(c[0])[:40] for c in CASES])
async def test_a_value_arrives_as_its_type(hint: Any, given: Any, expected: Any) -> None:
    seen: list[Any] = []

    async def take(value: Any) -> None:
        """Take it."""
        seen.append(value)

    take.__annotations__["value"] = hint
    made = FunctionTool(take)
    await result_of(made, value=given)
    assert seen == [expected] and type(seen[0]) is type(expected)
    schema = json.loads(json.dumps(made.parameters))
    assert schema["type"] == "object" and schema["required"] == ["value"]
    if given not in ("3", "true"):
        assert list(faults({"value": given}, schema)) == [], "the schema allows what the tool takes"


@pytest.mark.parametrize(("hint", "given", "said"), [
    (int, "x", "value"),
    (Literal["a"], "b", "value"),
    (Point, {"y": 1}, "x"),
    (Model, {"count": 0}, "count: Input should be greater than or equal to 1"),
    (list[Model], [{"count": 1}, {}], r"\$\.value\[1\]"),
    (Path, 3, "value"),
    (Annotated[int, msgspec.Meta(le=5)], 6, "<= 5"),
])  # fmt: skip
async def test_a_bad_argument_is_one_sentence_for_the_model(hint: Any, given: Any, said: str) -> None:
    async def take(value: Any) -> None:
        """Take it."""

    take.__annotations__["value"] = hint
    with pytest.raises(ToolFailed, match=said) as caught:
        await result_of(FunctionTool(take), value=given)
    assert "\n" not in str(caught.value)


async def test_defaults_are_kept_and_never_shared() -> None:
    @tool
    def collect(
        to: list[int] = [1],  # noqa: B006
        where: Path = Path("here"),
        at: Point = Point(1, 2),  # noqa: B008
        color: Color = Color.RED,
        *,
        deep: bool = False,
    ) -> str:
        """Collect."""
        to.append(2)
        return f"{to} {where} {at.y} {color.value} {deep}"

    for _ in range(2):
        assert (await result_of(collect)).text == "[1, 2] here 2 red False"
    shown = collect.parameters["properties"]
    assert (shown["color"]["default"], shown["deep"]["default"], collect.parameters["required"]) == ("red", False, [])


def plain(value):  # type: ignore[no-untyped-def]
    """No hint."""


def many(*values: int) -> None:
    """Many."""


def positional(value: int, /) -> None:
    """By place."""


def unknown(value: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Of no type."""


def strange(value: FunctionTool) -> None:
    """Of a type that JSON does not know."""


@pytest.mark.parametrize(("function", "said"), [
    (plain, "'value' needs a type hint"),
    (many, "cannot be named"),
    (positional, "cannot be named"),
    (unknown, "Nowhere"),
    (strange, "FunctionTool is no type that JSON can carry"),
])  # fmt: skip
def test_what_cannot_be_a_tool_is_told_when_it_is_made(function: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        tool(function)
    assert function.__name__ in str(caught.value)


# --- docstrings ---------------------------------------------------------------------------------------------------

GOOGLE = """Find something.

Longer words: of it.

Args:
    first (int): The first,
        of two lines.
    second: The second: with a colon.
    *rest: The rest.

Returns:
    What was found.

Raises:
    ValueError: never.
"""
NUMPY = """Find something.

Longer words: of it.

Parameters
----------
first : int
    The first,
    of two lines.
second : {'a', 'b'}, optional
    The second: with a colon.
*rest
    The rest.

Returns
-------
What was found.

Notes
-----
None.
"""
SPHINX = """Find something.

Longer words: of it.

:param int first: The first,
    of two lines.
:param second: The second: with a colon.
:type second: str
:param rest: The rest.
:return: What was found.
:raises ValueError: never.
"""


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_say_the_same(doc: str) -> None:
    said, notes = docstrings.split(doc)
    assert said == "Find something.\n\nLonger words: of it.\n\nReturns: What was found."
    assert notes == {"first": "The first, of two lines.", "second": "The second: with a colon.", "rest": "The rest."}


def test_types_with_brackets_within_and_dashes_in_place_of_colons() -> None:
    said = "Do.\n\nKeyword Arguments:\n    x (Optional[Tuple(int, str)]): The x.\n    y -- The y.\n    z - The z."
    assert docstrings.split(said) == ("Do.", {"x": "The x.", "y": "The y.", "z": "The z."})


def test_a_docstring_without_sections_is_the_description() -> None:
    for doc in ("", "One line.", "Two\n\nparagraphs: here.\n    args:\n      x: not a section", "Args are fine: a, b"):
        assert docstrings.split(doc) == (doc, {})


def test_notes_stand_in_the_schema_and_a_hint_of_its_own_goes_before() -> None:
    @tool
    def find(first: int, second: Annotated[str, msgspec.Meta(description="own")], color: Color) -> None:
        """Find.

        Args:
            first: the first
            color: which one
        """

    shown = find.parameters["properties"]
    assert (shown["first"]["description"], shown["second"]["description"]) == ("the first", "own")
    assert shown["color"]["description"] == "which one"
    assert find.description == "Find."


# --- callables ----------------------------------------------------------------------------------------------------


class Shop:
    """A shop."""

    def __init__(self, price: int) -> None:
        self.price = price

    def plain(self, count: int) -> int:
        """What so many cost."""
        return self.price * count

    @tool(read_only=True)
    async def marked(self, count: int) -> int:
        """What so many cost."""
        return self.price * count

    @tool
    @staticmethod
    def nothing() -> int:
        """Nothing."""
        return 0

    async def __call__(self, count: int, context: ToolContext | None = None) -> str:
        """Buy."""
        return f"{count} in {context.cwd if context else None}"


async def test_methods_partials_and_callable_objects() -> None:
    cheap, dear = Shop(1), Shop(100)
    agent = Agent(ScriptedProvider([]), tools=[dear.plain, cheap.marked, Shop.nothing, dear])
    assert [t.name for t in agent.tools] == ["plain", "marked", "nothing", "Shop"]
    assert [(await result_of(t, count=2)).text for t in agent.tools[:2]] == ["200", "2"]
    assert agent.tools[1].read_only is True  # type: ignore[attr-defined]
    assert (await result_of(agent.tools[2])).text == "0"
    assert (await result_of(agent.tools[3], ToolContext(Path("x")), count=2)).text == "2 in x"
    part = FunctionTool(functools.partial(functools.partial(dear.plain), count=3))
    assert (part.name, part.description, part.parameters["properties"]) == ("plain", "What so many cost.", {})
    assert (await result_of(part)).text == "300"


def test_a_method_without_its_object_and_a_class_are_refused() -> None:
    with pytest.raises(UsageError, match="'marked' is a method"):
        Agent(ScriptedProvider([]), tools=[Shop.marked])
    with pytest.raises(UsageError, match="is no tool"):
        Agent(ScriptedProvider([]), tools=[Shop])
    with pytest.raises(UsageError, match="two tools are called 'plain'"):
        Agent(ScriptedProvider([]), tools=[Shop(1).plain, Shop(2).plain])
    with pytest.raises(UsageError, match="two tools are called 'shell'"):
        Agent(ScriptedProvider([]), tools=[*builtins(), tool(name="shell")(Shop(1).plain)])


async def test_a_tool_is_still_the_function() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add(1) == 2 and Shop(3).marked is not Shop.marked


# --- results ------------------------------------------------------------------------------------------------------

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.mark.parametrize(("value", "text", "images"), [
    ("text", "text", 0),
    (None, "done", 0),
    (3, "3", 0),
    (True, "true", 0),
    ({"a": [1, None]}, '{"a":[1,null]}', 0),
    (["a", 1], '["a",1]', 0),
    (Point(1), '{"x":1,"y":0}', 0),
    (Model(count=1), '{"count":1,"inner":null}', 0),
    ([Inner(words="w")], '[{"words":"w"}]', 0),
    (Path("a"), '"a"', 0),
    (Color.RED, '"red"', 0),
    (datetime.date(2026, 1, 2), '"2026-01-02"', 0),
    (PNG, "", 1),
    (b"plain", "plain", 0),
    (b"\xff\xfe", "(2 bytes of binary data)", 0),
    (["before", PNG, "after"], "before\nafter", 1),
    (Pillow.new("RGB", (2, 2)), "", 1),
    (Pillow.new("CMYK", (2, 2)), "", 1),
    (Image(media_type="image/png", data="AAAA"), "", 1),
    (PNG + b"0" * 6_000_000, "(an image that has 5.7 MB; at most 3.75 MB can be shown)", 0),
    (1j, "1j", 0),
    (ToolResult("own", is_error=True), "own", 0),
], ids=range(22))  # fmt: skip
async def test_whatever_comes_back_is_a_result(value: Any, text: str, images: int) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    result = await result_of(give)
    assert (result.text, len(result.images)) == (text, images)


async def test_what_a_generator_yields_is_progress_and_the_last_of_it_the_result() -> None:
    @tool
    def steps(count: int) -> Iterator[str]:
        """Go."""
        for n in range(count):
            yield f"step {n}"

    @tool
    def ended() -> Iterator[str]:
        """Go."""
        yield "step"
        return {"end": 1}  # type: ignore[return-value]

    @tool
    async def flowing(count: int) -> AsyncIterator[str]:
        """Go."""
        for n in range(count):
            yield f"step {n}"

    for made, given, expected, said in (
        (steps, {"count": 3}, "step 2", ["step 0", "step 1"]),
        (flowing, {"count": 3}, "step 2", ["step 0", "step 1"]),
        (ended, {}, '{"end":1}', ["step"]),
        (steps, {"count": 0}, "done", []),
    ):
        told: list[str] = []
        result = await result_of(made, ToolContext(Path(), progress=told.append), **given)
        assert (result.text, told) == (expected, said)


async def test_stop_ends_a_generator_between_two_steps() -> None:
    closed: list[bool] = []
    abort = Abort()

    @tool
    def endless() -> Iterator[int]:
        """Go on."""
        try:
            while True:
                yield 1
                abort.fire()
        finally:
            closed.append(True)

    with pytest.raises(Aborted):
        await result_of(endless, ToolContext(Path(), abort))
    assert closed == [True]


async def test_an_exception_is_a_result_for_the_model() -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise LookupError("nothing there")

    provider = ScriptedProvider([[call("fail")], "so be it"])
    done = await Agent(provider, tools=[fail]).run("go")
    last = provider.requests[1].messages[-1]
    assert last.is_error and last.content[0].text == "LookupError: nothing there"  # type: ignore[union-attr]
    assert done.outcome == "completed"


# --- tools from a file --------------------------------------------------------------------------------------------

FILE = '''
from __future__ import annotations
from dataclasses import dataclass
from orkas import tool, ToolResult
import helper_beside

@dataclass
class Order:
    count: int

@tool(read_only=True)
def price(order: Order) -> int:
    """What it costs."""
    return helper_beside.EACH * order.count

def no_tool(x: int) -> int:
    return x

class Clock:
    name = "clock"
    description = "Tell the time."
    parameters = {"type": "object", "properties": {}}
    async def run(self, arguments, context):
        return "noon"

clock = Clock()
again = clock
'''


@pytest.fixture
def tools_file(tmp_path: Path) -> Path:
    (tmp_path / "helper_beside.py").write_text("EACH = 7\n")
    path = tmp_path / "tools.py"
    path.write_text(FILE)
    return path


async def test_every_tool_of_a_file_is_taken_and_that_it_was_run_is_told(tools_file: Path) -> None:
    before = list(sys.path)
    provider = ScriptedProvider([[call("price", order={"count": 2}), call("clock")], "done", "more"])
    agent = Agent(provider, tools=[str(tools_file)])
    assert [t.name for t in agent.tools] == ["price", "clock"]
    assert sys.path == before
    assert sorted(p.name for p in tools_file.parent.iterdir() if p.suffix == ".py") == ["helper_beside.py", "tools.py"]
    told = [e.text async for e in agent.stream("go") if isinstance(e, Notice)]
    assert len(told) == 1 and str(tools_file) in told[0] and "price, clock" in told[0]
    assert [m.content[0].text for m in provider.requests[1].messages[2:]] == ["14", "noon"]  # type: ignore[union-attr]
    assert [e async for e in agent.stream("again") if isinstance(e, Notice)] == []


@pytest.mark.parametrize(("source", "said"), [
    ("def broken(:\n", "line 1: "),
    ("x = 1\n\ny = x / 0\n", "line 3: ZeroDivisionError"),
    ("import sys\nsys.exit(3)\n", "line 2: SystemExit"),
    ("from orkas import tool\n@tool\ndef f(x):\n    pass\n", "line 2: tool 'f': parameter 'x' needs a type hint"),
    ("import no_such_module_anywhere\n", "line 1: ModuleNotFoundError"),
    ("x = 1\n", "no tool"),
    ("\0", "cannot be loaded"),
    (None, "cannot be read"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, source: str | None, said: str) -> None:
    path = tmp_path / "tools.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(UsageError, match=said) as caught:
        Agent(ScriptedProvider([]), tools=[str(path)])
    assert "\n" not in str(caught.value)


def test_a_file_in_the_working_folder_loads_nothing(tools_file: Path) -> None:
    tools_file.write_text("raise SystemExit('loaded')\n")
    Agent(ScriptedProvider([]), cwd=tools_file.parent)
    with pytest.raises(UsageError, match="there is no tool 'tools'"):
        Agent(ScriptedProvider([]), tools=["tools"], cwd=tools_file.parent)


def test_names_of_built_in_tools_stand_beside_files_and_functions(tools_file: Path) -> None:
    tools_file.write_text("import orkas\n\n@orkas.tool\ndef price(n: int) -> int:\n    return n\n")

    def add(a: int, b: int) -> int:
        return a + b

    agent = Agent(ScriptedProvider([]), tools=["read_file", tools_file, add, "shell"])
    assert [tool.name for tool in agent.tools] == ["read_file", "price", "add", "shell"]
    with pytest.raises(UsageError, match="two tools are called 'shell'"):
        Agent(ScriptedProvider([]), tools=["shell", "shell"])


def test_the_command_line_takes_files_beside_names(tools_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVendor([[call("price", order={"count": 3})], "21", "none"]) as vendor:
        monkeypatch.setenv("CUSTOM_BASE_URL", vendor.base_url)
        monkeypatch.setenv("CUSTOM_API_KEY", "k")
        names = ("run", "go", "--json", "--model", "custom/m", "--ephemeral", "--tools")
        ran = orkas(*names, f"read_file,{tools_file}")
        assert ran.status == 0, ran.err
        events = [json.loads(line) for line in ran.out.splitlines()]
        assert [e["result"] for e in events if e["type"] == "tool_end"] == ["21"]
        assert any("was run" in e["text"] for e in events if e["type"] == "notice")
        offered = [t["function"]["name"] for t in vendor.requests[0].body["tools"]]
        assert offered == ["read_file", "price", "clock"]
        orkas(*names, f"all,{tools_file}")
        assert len(vendor.requests[-1].body["tools"]) == len(builtins()) + 2
        orkas(*names, "read_files").refused(2, "did you mean read_file?")
        orkas(*names, "no/such.py").refused(2, "cannot be read")
