"""Every kind of type hint and callable: it works as a tool's parameter, or is refused in one sentence."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import signal
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    LiteralString,
    NamedTuple,
    Never,
    NewType,
    NotRequired,
    Optional,
    ParamSpec,
    Protocol,
    Required,
    Self,
    TypedDict,
    TypeVar,
    overload,
)  # fmt: skip

import annotated_types
import hypothesis
import msgspec
import pydantic
import pytest
from hypothesis import strategies as st

from orkas import Agent, ToolContext, tool
from orkas.harness import json_schema
from orkas.harness.functions import FunctionTool
from orkas.harness.json_schema import faults
from orkas.infra.errors import ToolFailed, UsageError
from orkas.infra.events import ToolProgress
from orkas.testing import ScriptedProvider, call

if TYPE_CHECKING:
    from nowhere_at_all import Frame  # type: ignore[import-not-found]

T = TypeVar("T")
Number = TypeVar("Number", int, float)
P = ParamSpec("P")
Name = NewType("Name", str)


@dataclasses.dataclass
class A:
    x: int


@dataclasses.dataclass
class B:
    x: int
    y: int = 0


class PM(pydantic.BaseModel):
    x: int


class PN(pydantic.BaseModel):
    x: int
    y: int = 1


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Shade(enum.Enum):
    DARK = (0, 0)
    LIGHT = (9, 9)


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Folder:
    """A folder and what is in it."""

    path: str | Path
    below: list[Folder] = dataclasses.field(default_factory=list)
    depth: Annotated[int, pydantic.Field(ge=1, description="how deep")] = 1
    label: Label | None = None


@dataclasses.dataclass
class Label:
    of: Folder | None = None


@dataclasses.dataclass
class Loosely:
    x: int = None  # type: ignore[assignment]


class Undecided(msgspec.Struct):
    path: str | Path


class Place(NamedTuple):
    row: int
    name: str | Path = "x"


class Loose(TypedDict, total=False):
    a: Required[int]
    b: str | bytes


class Strict(TypedDict):
    a: int
    b: NotRequired[Annotated[int, annotated_types.Ge(3)]]


@pydantic.dataclasses.dataclass
class Kept:
    x: int
    y: pydantic.PositiveInt = 1


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


class Duck(Protocol):
    def quack(self) -> int: ...


class Callback(pydantic.BaseModel):
    call: Callable[[], int]


def taking(hint: Any) -> tuple[FunctionTool, list[Any]]:
    """A tool with one parameter of that type, and what it was given."""
    seen: list[Any] = []

    async def take(value: Any) -> None:
        """Take it."""
        seen.append(value)

    take.__annotations__["value"] = hint
    return FunctionTool(take), seen


WORKS: list[tuple[Any, Any, Any]] = [
    (str | Path, "a", "a"),
    (Path | str, "a", Path("a")),
    (A | B, {"x": 1}, A(1)),
    (A | B, {"x": 1, "y": 2}, B(1, 2)),
    (list[A | B], [{"x": 1}, {"x": 1, "y": 2}], [A(1), B(1, 2)]),
    (PM | PN, {"x": 1}, PM(x=1)),
    (PM | PN, {"x": 1, "y": 2}, PN(x=1, y=2)),
    (PM | str, "a", "a"),
    (PM | str, {"x": 1}, PM(x=1)),
    (Optional[PM | A], None, None),  # noqa: UP045
    (str | datetime.datetime, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    (datetime.date | str, "2026-01-02", datetime.date(2026, 1, 2)),
    (datetime.date | str, "soon", "soon"),
    (str | bytes, "AAE=", "AAE="),
    (int | str | Path, 1, 1),
    (list[int] | tuple[str, ...], ["a"], ("a",)),
    (dict[str, PM | str], {"a": {"x": 1}, "b": "c"}, {"a": PM(x=1), "b": "c"}),
    (Mixed, 1, Mixed.ONE),
    (Mixed, "two", Mixed.TWO),
    (Shade, "DARK", Shade.DARK),
    (Access, ["READ", "WRITE"], Access.READ | Access.WRITE),
    (Level, 1, Level.LOW),
    (Word, "a", Word.A),
    (Literal["a", 1, True, None], True, True),
    (Literal["1", 1], "1", "1"),
    (Iterable[int], [1], [1]),
    (Sequence[str | Path], ["a"], ["a"]),
    (object, {"a": [1]}, {"a": [1]}),
    (collections.deque[int], [1], collections.deque([1])),
    (collections.OrderedDict[str, int], {"a": 1}, collections.OrderedDict(a=1)),
    (collections.Counter[str], {"a": 1}, collections.Counter("a")),
    (frozenset[int], [1], frozenset([1])),
    (dict[Mixed, int], {"two": 1}, {Mixed.TWO: 1}),
    (Name, "n", "n"),
    (Number, 1.5, 1.5),
    (T, {"any": 1}, {"any": 1}),
    (LiteralString, "a", "a"),
    (Box[int], {"item": 1}, Box(1)),
    (Loosely, {"x": None}, Loosely()),
    (Place, {"row": 1}, Place(1, "x")),
    (Loose, {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (Strict, {"a": 1}, {"a": 1}),
    (Kept, {"x": 1}, Kept(1, 1)),
    (pydantic.SecretStr, "s", pydantic.SecretStr("s")),
    (Folder, {"path": "a", "below": [{"path": "b", "depth": 2}]}, Folder("a", [Folder("b", depth=2)])),
    (Label, {"of": {"path": "a", "label": {"of": None}}}, Label(Folder("a", label=Label()))),
    (Annotated[str, pydantic.StringConstraints(to_upper=True)], "ab", "AB"),
    (Annotated[int, pydantic.AfterValidator(lambda v: v + 1)], 1, 2),
    (Annotated[decimal.Decimal, annotated_types.Gt(0)], "1.5", decimal.Decimal("1.5")),
    (datetime.timedelta, "PT3S", datetime.timedelta(seconds=3)),
]


@pytest.mark.parametrize(("hint", "given", "expected"), WORKS, ids=range(len(WORKS)))
async def test_a_value_of_any_type_arrives(hint: Any, given: Any, expected: Any) -> None:
    made, seen = taking(hint)
    schema = json.loads(json.dumps(made.parameters))
    assert json_schema.check(schema) == "" and list(faults({"value": given}, schema)) == []
    await made.run({"value": given}, ToolContext(Path()))
    assert seen == [expected] and type(seen[0]) is type(expected)


@pytest.mark.parametrize(("hint", "given", "said"), [
    (A | B, {"q": 1}, "no A (Object missing required field `x`); no B"),
    (PM | str, 3, "no str"),
    (Mixed, "three", "one of 1, 'two'"),
    (Access, ["EXECUTE"], "a list of READ, WRITE"),
    (Access, 99, "a list of READ, WRITE"),
    (Folder, {"path": "a", "below": [{"path": "b", "depth": 0}]}, ">= 1"),
    (Strict, {"a": 1, "b": 2}, "b: Expected `int` >= 3 - at `$.value`"),
    (Kept, {"x": 1, "y": 0}, "y: Input should be greater than 0"),
    (Annotated[int, pydantic.Field(ge=1)], 0, ">= 1"),
    (Annotated[int, annotated_types.Interval(ge=1, le=3)], 4, "<= 3"),
    (Annotated[str, annotated_types.Len(2, 3)], "a", "length >= 2"),
    (Annotated[int, annotated_types.Predicate(lambda v: v % 2 == 0)], 1, "1 is not allowed"),
    (Annotated[int | None, annotated_types.Ge(1)], 0, "greater than or equal to 1"),
    (Annotated[str, pydantic.Field(pattern="^a+$")], "b", "^a+$"),
    (Annotated[datetime.datetime, annotated_types.Timezone(...)], "2026-01-02T03:04:05", "timezone"),
    (dict[str, Annotated[int, annotated_types.Lt(3)]], {"a": 3}, "<= 2"),
])  # fmt: skip
async def test_a_value_that_does_not_fit_is_one_sentence(hint: Any, given: Any, said: str) -> None:
    made, seen = taking(hint)
    with pytest.raises(ToolFailed) as caught:
        await made.run({"value": given}, ToolContext(Path()))
    assert said in str(caught.value) and "\n" not in str(caught.value) and not seen


@pytest.mark.parametrize(("hint", "said"), [
    (Duck, "Duck"), (Callable, "Callable"), (type[int], "type"), (Self, "Self"), (Iterator[int], "Iterator"),
    (Never, "Never"), (complex, "complex"), (Hashable, "Hashable"), (int | Duck, "Duck"), (list[Duck], "Duck"),
    (A | Duck, "Duck"), (dict[complex, str], "complex"), (dict[tuple[int, int], str], "text"), (enum.Enum, "no values"),
    (list[ToolContext], "ToolContext"), (Callback, "Callable"), (Literal[b"a"], "b'a'"), (3, "3"),
    (Annotated[int, msgspec.Meta(min_length=1)], "min_length"), (Undecided, "cannot read Undecided, a dataclass"),
])  # fmt: skip
def test_what_json_cannot_carry_is_refused_by_the_name_of_the_parameter(hint: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        taking(hint)
    assert "tool 'take': parameter 'value': " in str(caught.value) and said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("note", [
    pydantic.Field(ge=1, description="how many"), "how many", msgspec.Meta(description="how many"),
])  # fmt: skip
def test_what_an_annotation_says_is_the_description(note: Any) -> None:
    for hint in (Annotated[int, note], Annotated[int | str | Path, note] if isinstance(note, str) else Annotated[int, note]):
        assert taking(hint)[0].parameters["properties"]["value"]["description"] == "how many"


def test_two_classes_of_one_name_stay_two() -> None:
    def made(hint: Any) -> type[pydantic.BaseModel]:
        inner = pydantic.create_model("Inner", value=(hint, ...))
        return pydantic.create_model("Outer", inner=(inner, ...), again=(inner, ...))

    async def take(first: Any, second: Any) -> None:
        """Take them."""

    take.__annotations__.update(first=made(int), second=made(str))
    schema = FunctionTool(take).parameters
    one, two = {"inner": {"value": 1}, "again": {"value": 1}}, {"inner": {"value": "a"}, "again": {"value": "a"}}
    assert list(faults({"first": one, "second": two}, schema)) == []
    assert list(faults({"first": two, "second": two}, schema)) and list(faults({"first": one, "second": one}, schema))


_LEAVES = st.sampled_from([int, str, bool, float, Path, bytes, datetime.date, A, B, PM, Mixed, Shade, Access, Any])
_HINTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda a: list[a]), inner.map(lambda a: dict[str, a]),  # type: ignore[valid-type]
        inner.map(lambda a: Optional[a]),  # noqa: UP045 - of what may be Any
        st.tuples(inner, inner).map(lambda ab: ab[0] | ab[1] if ab[0] is not Any and ab[1] is not Any else Any),
    ),
    max_leaves=6,
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just({"x": 1}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@hypothesis.given(_HINTS, _JSON)
async def test_any_such_hint_has_a_schema_and_any_value_is_taken_or_refused_in_a_sentence(hint: Any, value: Any) -> None:
    made, seen = taking(hint)
    assert json_schema.check(made.parameters) == ""
    try:
        await made.run({"value": value}, ToolContext(Path()))
    except ToolFailed as error:
        assert not seen and str(error).startswith("bad arguments: ")


# --- callables ----------------------------------------------------------------------------------------------------


async def text_of(made: Any, **given: Any) -> str:
    result = await made.run(given, ToolContext(Path("here")))
    return str(result.text)


async def test_none_as_the_default_may_be_sent() -> None:
    @tool
    def find(limit: int = None, where: str | Path = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
        """Find."""
        return f"{limit} {where}"

    assert list(faults({"limit": None, "where": None}, find.parameters)) == []
    assert await text_of(find, limit=None, where=None) == await text_of(find) == "None None"
    assert await text_of(find, limit=3) == "3 None"


async def test_a_field_of_pydantic_may_stand_where_the_default_does() -> None:
    @tool
    def find(
        limit: int = pydantic.Field(3, ge=1, description="how many"),
        word: str = pydantic.Field(min_length=2),
        names: list[str] = pydantic.Field(default_factory=list),  # noqa: B008
    ) -> str:
        """Find."""
        return f"{limit} {word} {names}"

    shown = find.parameters
    assert shown["properties"]["limit"] == {"type": "integer", "minimum": 1, "description": "how many", "default": 3}
    assert shown["required"] == ["word"] and await text_of(find, word="ab") == "3 ab []"
    with pytest.raises(ToolFailed, match="length >= 2"):
        await text_of(find, word="a")


async def test_what_is_returned_needs_no_hint_that_can_be_read_nor_does_the_context() -> None:
    @tool
    def load(path: str, context: ToolContext) -> Frame:
        """Load."""
        return f"{context.cwd}/{path}"

    assert await text_of(load, path="a") == "here/a"


async def test_every_parameter_of_the_context_gets_it() -> None:
    @tool
    def look(first: ToolContext, x: int, second: Annotated[ToolContext | None, "the same"] = None) -> str:
        """Look."""
        return f"{first is second} {x}"

    assert list(look.parameters["properties"]) == ["x"] and await text_of(look, x=1) == "True 1"


async def test_any_name_of_a_parameter_that_models_take() -> None:
    @tool
    def odd(__y: int, __post_init__: int = 2, self_: int = 3, _0: int = 4) -> int:
        """Odd."""
        return __y + __post_init__ + self_ + _0

    assert await text_of(odd, __y=1) == "10"
    with pytest.raises(UsageError, match="parameter 'größe' has a name that not every model takes"):

        @tool
        def size(größe: int) -> None:
            """Size."""


async def test_classes_that_are_known_only_where_the_function_is_written() -> None:
    @dataclasses.dataclass
    class Leaf:
        x: int
        below: list[Leaf] = dataclasses.field(default_factory=list)

    @tool
    def walk(leaf: Leaf) -> int:
        """Walk."""
        return leaf.below[0].x

    assert await text_of(walk, leaf={"x": 1, "below": [{"x": 2}]}) == "2"


async def test_decorated_cached_and_overloaded_functions() -> None:
    def logged(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def inner(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        return inner

    @tool
    @logged
    def add(x: int, *, y: int = 2) -> int:
        """Add."""
        return x + y

    @tool
    @functools.cache
    def double(x: int) -> int:
        """Double."""
        return 2 * x

    @overload
    def either(x: int) -> int: ...
    @overload
    def either(x: str) -> str: ...
    def either(x: int | str) -> int | str:
        """Either."""
        return x

    assert [await text_of(t, x=1) for t in (add, double, tool(either), tool(functools.partial(either)))] == [
        "3", "2", "1", "1",
    ]  # fmt: skip


class Shop:
    rate = 2

    @tool
    @classmethod
    def total(cls, count: int) -> int:
        return cls.rate * count

    @classmethod
    @tool
    def half(cls, count: int) -> int:
        """Half of it."""
        return cls.rate * count // 2

    def __call__(self, count: int) -> int:
        """Buy.

        Args:
            count: how many
        """
        return count


async def test_a_class_method_is_the_tool_of_its_class_and_an_object_says_what_its_call_says() -> None:
    class Dear(Shop):
        rate = 100

    assert [await text_of(t, count=2) for t in (Shop.total, Dear.total, Dear().total)] == ["4", "200", "200"]
    assert [await text_of(tool(t), count=2) for t in (Shop.half, Dear.half, Dear().half)] == ["2", "100", "100"]
    again = tool(name="other")(tool(read_only=True)(Shop.half))
    assert (again.name, again.read_only, again.description) == ("other", True, "Half of it.")
    bought = tool(name="buy")(Shop())
    assert bought.description == "Buy." and bought.parameters["properties"]["count"]["description"] == "how many"


async def test_what_a_coroutine_gives_back_may_itself_be_waited_for() -> None:
    async def steps() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    @tool
    async def outer() -> AsyncIterator[str]:
        """Outer."""
        return steps()

    assert await text_of(outer) == "two"


@pytest.mark.parametrize("name", ["bad name!", "a" * 65, "fü", "a.b", "", "a\n"])
def test_a_name_that_no_vendor_takes_is_refused_of_whatever_tool(name: str, tmp_path: Path) -> None:
    class Bare:
        def __init__(self) -> None:
            self.name, self.description = name, ""
            self.parameters: dict[str, Any] = {}

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return "ok"

    file = tmp_path / "tools.py"
    run = "    async def run(self, arguments, context):\n        return ''\n"
    file.write_text(f"class T:\n    name, description, parameters = {name!r}, '', {{}}\n{run}t = T()\n")
    for given in (Bare(), str(file)):
        with pytest.raises(UsageError, match="by the name") as caught:
            Agent(ScriptedProvider([]), tools=[given])
        assert repr(name) in str(caught.value)
    if name:
        with pytest.raises(UsageError, match="by the name"):
            tool(name=name)(lambda: None)


@pytest.mark.parametrize(("given", "said"), [
    ({"limit_s": "5"}, "limit_s must be a number of seconds, more than 0, not '5'"),
    ({"limit_s": True}, "limit_s"),
    ({"limit_s": float("nan")}, "limit_s"),
    ({"limit_s": float("inf")}, "limit_s"),
    ({"read_only": "yes"}, "read_only"),
    ({"name": 3}, "name"),
    ({"description": 3}, "description"),
])  # fmt: skip
def test_what_is_said_of_a_tool_is_checked_when_it_is_made(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tool(**given)(lambda: None)


@pytest.mark.parametrize("function", [lambda: None, print, int, 3, Shop])
def test_what_cannot_be_called_by_name_is_refused(function: Any) -> None:
    with pytest.raises(UsageError):
        tool(function)


@pytest.mark.parametrize(("changed", "said"), [
    ({"description": None}, "its description must be text"),
    ({"parameters": None}, "no JSON Schema: there are none"),
    ({"parameters": [1]}, "a list where an object should be"),
    ({"parameters": {"type": "string"}}, "its type is 'string'"),
    ({"parameters": {"type": "object", "properties": []}}, "properties"),
    ({"parameters": {"properties": {"x": {"type": "strin"}}}}, "unknown type: 'strin'"),
    ({"parameters": {"required": "x"}}, "list of names"),
    ({"parameters": {"x": object()}}, "cannot be written as JSON"),
    ({"name": None}, "has no name"),
    ({"run": 3}, "no method run"),
    ({"run": lambda arguments, context: "ok"}, "its run is not async"),
    ({"limit_s": "5"}, "limit_s must be a number of seconds, more than 0, not '5'"),
    ({"parameters": {"unevaluatedProperties": False}}, ""),
])  # fmt: skip
def test_a_tool_made_by_hand_is_checked_when_it_is_given(changed: dict[str, Any], said: str) -> None:
    class Bare:
        name, description, parameters = "bare", "Bare.", {"type": "object"}

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return "ok"

    bare = Bare()
    vars(bare).update(changed)
    if not said:
        assert list(Agent(ScriptedProvider([]), tools=[bare]).tools) == [bare]
        return
    with pytest.raises(UsageError) as caught:
        Agent(ScriptedProvider([]), tools=[bare])
    assert said in str(caught.value) and "\n" not in str(caught.value)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@tool
def order(kind: Literal["tea", "milk"], sizes: list[Size] = [], by: dict[str, Literal[1, 2]] = {}) -> str:  # noqa: B006
    """Order."""
    return kind


@pytest.mark.parametrize(("arguments", "said"), [
    ({"kind": "beer"}, "bad arguments: kind cannot be 'beer'; it is one of 'milk', 'tea'"),
    ({"kind": "tea", "sizes": ["s", "xl"]}, "bad arguments: sizes[1] cannot be 'xl'; it is one of 'l', 's'"),
    ({"kind": "tea", "by": {"x": 3}}, "bad arguments: by[...] cannot be 3; it is one of 1, 2"),
])  # fmt: skip
async def test_a_value_that_is_not_possible_is_told_with_those_that_are(arguments: dict[str, Any], said: str) -> None:
    agent = Agent(ScriptedProvider([[call("order", **arguments)], "Sorry."]), tools=[order])
    await agent.run("order")
    assert agent.session.records()[2]["content"][0]["text"] == said


def test_an_object_without_parameters_is_told_what_it_lacks() -> None:
    class Without:
        name, description = "without", ""

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return "ok"

    with pytest.raises(UsageError, match="tool 'without': its parameters are no JSON Schema: there are none"):
        Agent(ScriptedProvider([]), tools=[Without()])  # type: ignore[list-item]


# --- ways to end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("awaited", [True, False])
def test_what_a_tool_raises_never_ends_the_program(error: BaseException, awaited: bool) -> None:
    async def flowing() -> None:
        """Go."""
        raise error

    def blocking() -> None:
        """Go."""
        raise error

    made = tool(name="go")(flowing if awaited else blocking)
    provider = ScriptedProvider([[call("go")], "so be it"])
    assert Agent(provider, tools=[made]).run_sync("go").text == "so be it"
    last = provider.requests[1].messages[-1]
    assert last.is_error and type(error).__name__ in last.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("handler", ["the loop's", "Python's"])
def test_ctrl_c_within_a_tool_still_ends_the_program(handler: str) -> None:
    before = signal.getsignal(signal.SIGINT)

    @tool
    async def work() -> None:
        """Work."""
        if handler == "Python's":
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for _ in range(2):  # the first asks the loop to end, which this does not let it do
            signal.raise_signal(signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            Agent(ScriptedProvider([[call("work")], "never"]), tools=[work]).run_sync("go")
    finally:
        signal.signal(signal.SIGINT, before)


async def test_progress_is_text_whatever_is_said() -> None:
    @tool
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(None)  # type: ignore[arg-type]
        context.progress(3)  # type: ignore[arg-type]
        return "worked"

    provider = ScriptedProvider([[call("work")], "end"])
    told = [e.text async for e in Agent(provider, tools=[work]).stream("go") if isinstance(e, ToolProgress)]
    assert told == ["None", "3"]
    assert provider.requests[1].messages[-1].content[0].text == "worked"  # type: ignore[union-attr]


class Mute:
    def __str__(self) -> str:
        raise ValueError("no")


_LOOP: list[Any] = []
_LOOP.append(_LOOP)


@pytest.mark.parametrize(("value", "text"), [
    (float("nan"), "NaN"),
    ({"a": float("inf"), "b": None}, '{"a":"Infinity","b":null}'),
    (2**70, str(2**70)),
    ({"a": 2**70}, f'{{"a":{2**70}}}'),
    (10**5000, "(a whole number of 16,610 bits, too long to be shown)"),
    ({"a": 10**5000}, "(a dict that cannot be shown: ValueError)"),
    (_LOOP, "[[...]]"),
    (Shade.DARK, "[0,0]"),
    (datetime.timedelta(seconds=3), '"PT3S"'),
    (Place(1), '[1,"x"]'),
    (collections.deque([1]), "[1]"),
    (range(2), "[0,1]"),
    ({"a": 1}.keys(), '["a"]'),
    (Mute(), "(a Mute that cannot be shown: ValueError)"),
    ([Kept(1)], '[{"x":1,"y":1}]'),
], ids=range(15))  # fmt: skip
async def test_whatever_comes_back_is_told(value: Any, text: str) -> None:
    made = tool(name="give")(lambda: value)
    assert await text_of(made) == text


async def test_an_exception_that_comes_back_is_an_error() -> None:
    result = await tool(name="give")(lambda: LookupError("nothing")).run({}, ToolContext(Path()))
    assert not isinstance(result, str) and result.is_error and result.text == "LookupError: nothing"
