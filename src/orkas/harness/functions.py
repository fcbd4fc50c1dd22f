"""A function as a tool: its schema from the type hints, its description from the docstring.

A synchronous function runs in a thread; Stop does not wait for it.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any, Optional, overload

import msgspec

from orkas.harness import constraints, docstrings, hints
from orkas.harness.bare import NAMES, PARAMETER, name_fault
from orkas.harness.returned import as_result
from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.errors import ToolFailed, UsageError
from orkas.infra.threads import in_thread

__all__ = ["FunctionTool", "tool"]


class FunctionTool:
    """A function, method, ``functools.partial`` or other callable as a tool."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        limit_s: float | None = None,
        read_only: bool | None = None,
    ) -> None:
        _check_given(name, description, limit_s, read_only)
        given = {"name": name, "description": description, "limit_s": limit_s, "read_only": read_only}
        function, self._given = _taken(function, given)
        name, description, limit_s, read_only = self._given.values()
        self._of_class = isinstance(function, classmethod)
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        if isinstance(function, type) or not callable(function):
            raise UsageError(f"{function!r} is no function", hint="give a function, a method or a callable object")
        self.function = function
        called = _called_by(function)
        self._awaited = inspect.iscoroutinefunction(called)
        self._yields = inspect.isasyncgenfunction(called)
        self.limit_s = limit_s
        self.read_only = read_only
        said = _said_by(function)
        self.name = name or getattr(said, "__name__", "") or type(function).__name__
        if fault := name_fault(self.name):
            raise UsageError(fault, hint='give it another: tool(name="…")')
        self.description, notes = _doc(said, description)
        self._inputs = _read(function, said, self.name, notes)
        self.parameters = hints.schema(self._inputs.struct)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> FunctionTool:
        """``@tool`` on a method: the tool of one object, or of the class where it is a class method."""
        if self._of_class and self._inputs.own:
            return self._bound(owner or type(instance))
        if self._inputs.own and instance is not None:
            return self._bound(instance)
        return self

    def _bound(self, to: Any) -> FunctionTool:
        return FunctionTool(self.function.__get__(to), **self._given)

    @property
    def unbound(self) -> bool:
        """It is a method without its object, and cannot run."""
        return bool(self._inputs.own)

    async def run(self, arguments: dict[str, Any], context: ToolContext, /) -> ToolResult | str:
        if self._inputs.own:
            raise ToolFailed(f"{self.name} is a method and was given without its object")
        given = hints.check(arguments, self._inputs.struct)
        values = dict(zip(self._inputs.names, msgspec.structs.astuple(given), strict=True))
        values.update(dict.fromkeys(self._inputs.contexts, context))
        here = self._awaited or self._yields
        result = self.function(**values) if here else await in_thread(self.function, **values)
        while isinstance(result, Awaitable):
            result = await result
        if isinstance(result, AsyncIterator):
            result = await _last_of(result, context)
        elif inspect.isgenerator(result):
            result = await in_thread(_drained, result, context)
        return as_result(result)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    limit_s: float | None = None,
    read_only: bool | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    limit_s: float | None = None,
    read_only: bool | None = None,
) -> Any:
    """Make a tool of a function: the schema from its type hints, the description from its docstring.

    A parameter annotated ``ToolContext`` receives the context and is not shown to the model. The result may be a
    string, any JSON value, an image or its bytes, a ``ToolResult`` or None. What a generator yields is progress, and
    the last of it the result. ``limit_s``, ``read_only``: see ``Tool``.

    Raises:
        UsageError: ``limit_s`` is not above 0, a name is none that vendors take, a parameter has no type hint, or one
            that JSON cannot carry.
    """

    def made(f: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(f, name=name, description=description, limit_s=limit_s, read_only=read_only)

    return made if function is None else made(function)


def _taken(function: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function of what may be a tool already, and what is said of it: what is not said anew stays."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, FunctionTool):
        function = function.__func__._bound(function.__self__)
    if not isinstance(function, FunctionTool):
        return function, given
    return function.function, {key: function._given[key] if v is None else v for key, v in given.items()}


def _check_given(name: Any, description: Any, limit_s: Any, read_only: Any) -> None:
    number = isinstance(limit_s, int | float) and not isinstance(limit_s, bool)
    if limit_s is not None and not (number and 0 < limit_s < math.inf):
        raise UsageError(f"limit_s must be a number of seconds, more than 0, not {limit_s!r}")
    if not isinstance(read_only, bool | None):
        raise UsageError(f"read_only must be True or False, not {read_only!r}")
    for what, given in (("name", name), ("description", description)):
        if not isinstance(given, str | None):
            raise UsageError(f"the {what} of a tool must be text, not {given!r}")


def _called_by(function: Callable[..., Any]) -> Any:
    """What runs when it is called."""
    plain = inspect.isroutine(function) or isinstance(function, functools.partial)
    return function if plain else type(function).__call__


async def _last_of(pieces: AsyncIterator[Any], context: ToolContext) -> Any:
    last = None
    try:
        async for piece in pieces:
            if last is not None:
                context.progress(str(last))
            last = piece
    finally:
        if hasattr(pieces, "aclose"):
            await pieces.aclose()
    return last


def _drained(pieces: Iterator[Any], context: ToolContext) -> Any:
    """Its return value, else the last that it yields. Stop ends it between two steps."""
    last = None
    try:
        while True:
            context.abort.check()
            piece = next(pieces)
            if last is not None:
                context.progress(str(last))
            last = piece
    except StopIteration as end:
        if end.value is not None and last is not None:
            context.progress(str(last))
        return last if end.value is None else end.value
    finally:
        pieces.close()  # type: ignore[attr-defined]


def _said_by(function: Callable[..., Any]) -> Any:
    """Who has the name and the docstring."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function)


class _Inputs(msgspec.Struct):
    """What a function takes."""

    own: str = ""
    """The name of a method's own object, where it has none yet."""
    names: list[str] = []
    """Of the parameters that the model fills in, in the order of the struct's fields."""
    contexts: list[str] = []
    """Names of the parameters that get the context."""
    struct: type[msgspec.Struct] = msgspec.Struct


def _doc(said: Any, given: str | None) -> tuple[str, dict[str, str]]:
    """The description, and what is said of the parameters: of an object both by its class and by its ``__call__``."""
    described, notes = docstrings.split(_docstring(said))
    if inspect.isclass(said):
        called, more = docstrings.split(inspect.getdoc(said.__call__) or "")
        described, notes = described or called, {**notes, **more}
    if given is None:
        return described, notes
    described, more = docstrings.split(given)
    return described, {**notes, **more}


def _docstring(said: Any) -> str:
    """Its own, else the one it inherits. What is a tool in its class is not looked for: that would make it anew."""
    if isinstance(own := getattr(said, "__doc__", None), str):
        return own
    bound = getattr(said, "__self__", None)
    owner = bound if inspect.isclass(bound) else type(bound)
    held = inspect.getattr_static(owner, getattr(said, "__name__", ""), None)
    if isinstance(held.__func__ if isinstance(held, classmethod) else held, FunctionTool):
        return ""
    return inspect.getdoc(said) or ""


def _read(function: Callable[..., Any], said: Any, name: str, notes: dict[str, str]) -> _Inputs:
    inputs = _Inputs()
    names = _names_for(said)
    found, reader = _hints_of(said, name, names), hints.Hints(names)
    fields: list[tuple[str, Any, Any]] = []
    for at, parameter in enumerate(_parameters(function, name)):
        where = f"tool {name!r}: parameter {parameter.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"{where} cannot be named by a model", hint="make it a plain parameter")
        if parameter.name not in found:
            if at == 0 and parameter.name in ("self", "cls") and "." in getattr(function, "__qualname__", ""):
                inputs.own = parameter.name
                continue
            raise UsageError(f"{where} needs a type hint")
        if _is_context(found[parameter.name]):
            inputs.contexts.append(parameter.name)
            continue
        if not PARAMETER.fullmatch(parameter.name):
            raise UsageError(f"{where} has a name that not every model takes", hint=f"rename it: {NAMES}")
        fields.append(_field(len(fields), parameter, found[parameter.name], notes, reader, where))
        inputs.names.append(parameter.name)
    inputs.struct = msgspec.defstruct(f"{name}_input", fields, kw_only=True, forbid_unknown_fields=True)
    return inputs


def _field(
    at: int, parameter: inspect.Parameter, hint: Any, notes: dict[str, str], reader: hints.Hints, where: str
) -> tuple[str, Any, Any]:
    hint, value = _with_default(parameter, hint)
    try:
        hint = reader.readable(hint)
        if note := notes.get(parameter.name):
            hint = Annotated[hint, msgspec.Meta(description=note)]
        field = hints.field(at, parameter.name, hint, value)
        hints.schema(msgspec.defstruct("one", [field], kw_only=True))
        msgspec.json.Decoder(hint)
    except (TypeError, ValueError, NameError, AttributeError, RuntimeError, ImportError) as error:
        raise UsageError(f"{where}: {_sentence(error)}") from None
    return field


def _with_default(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """The hint and the default as a field of a struct takes it. None as the default may be sent, too; and pydantic's
    ``Field()`` may stand where the default does."""
    value = parameter.default
    if value is inspect.Parameter.empty:
        return hint, msgspec.NODEFAULT
    if constraints.is_field(value):
        hint = Annotated[hint, value]
        if value.is_required():
            return hint, msgspec.NODEFAULT
        if value.default_factory is not None:
            return hint, msgspec.field(default_factory=value.default_factory)
        value = value.default
    if value is None:
        hint = Optional[hint]  # noqa: UP045 - the hint may be the name of a type
    return hint, hints.default(value)


def _sentence(error: Exception) -> str:
    """The first paragraph in one line, without advice that is not for a tool's author."""
    return " ".join(str(error).partition("\n\n")[0].split())


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """Those that the model fills in: not what a partial has filled in already."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise UsageError(f"tool {name!r}: its parameters cannot be told", hint="wrap it in a function") from None
    filled = function.keywords if isinstance(function, functools.partial) else {}
    return [p for p in parameters.values() if p.name not in filled]


def _names_for(said: Any) -> dict[str, Any]:
    """What a hint may name that its module does not know: what stood around the function where it was written, while
    that still runs; and ``ToolContext``, which a program may import for its type checker alone."""
    function = inspect.unwrap(said.__call__ if inspect.isclass(said) else said)
    known = getattr(function, "__globals__", {})
    names: dict[str, Any] = {} if "ToolContext" in known else {"ToolContext": ToolContext}
    places = getattr(function, "__qualname__", "").split(".<locals>.")[:-1]
    outer = {".<locals>.".join(places[: n + 1]) for n in range(len(places))}
    frame = inspect.currentframe() if outer else None
    around: list[dict[str, Any]] = []
    while frame is not None:
        if frame.f_globals is known and frame.f_code.co_qualname in outer:
            around.append(frame.f_locals)
        frame = frame.f_back
    for scope in reversed(around):  # the innermost last
        names |= scope
    return names


def _hints_of(said: Any, name: str, names: dict[str, Any]) -> dict[str, Any]:
    """Of the parameters: what is returned needs no hint that can be read."""
    function = inspect.unwrap(said.__call__ if inspect.isclass(said) else said)
    function = getattr(function, "__func__", function)
    given = dict(getattr(function, "__annotations__", {}))
    given.pop("return", None)
    bare = types.SimpleNamespace(__annotations__=given)
    try:
        return typing.get_type_hints(bare, getattr(function, "__globals__", {}), names, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise UsageError(
            f"tool {name!r}: its type hints cannot be read: {error}",
            hint="import what they name when the program runs, not for the type checker alone",
        ) from None


def _is_context(hint: Any) -> bool:
    if typing.get_origin(hint) is Annotated:
        return _is_context(hint.__origin__)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return ToolContext in typing.get_args(hint)
    return hint is ToolContext
