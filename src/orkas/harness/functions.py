"""A function as a tool: its schema from the type hints, its description from the docstring.

A synchronous function runs in a thread; Stop does not wait for it.
"""

from __future__ import annotations

import copy
import enum
import functools
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, overload

import msgspec

from orkas.harness import docstrings, hints
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
        if limit_s is not None and not limit_s > 0:
            raise UsageError("limit_s must be more than 0 seconds")
        if isinstance(function, staticmethod | classmethod):
            function = function.__func__
        self.function = function
        self._given = {"name": name, "description": description, "limit_s": limit_s, "read_only": read_only}
        called = _called_by(function)
        self._awaited = inspect.iscoroutinefunction(called)
        self._yields = inspect.isasyncgenfunction(called)
        self.limit_s = limit_s
        self.read_only = read_only
        said = _said_by(function)
        self.name = name or getattr(said, "__name__", "") or type(function).__name__
        self.description, notes = docstrings.split(description or inspect.getdoc(said) or "")
        self._self, self._input, self._context_name = _read(function, said, self.name, notes)
        self.parameters = hints.schema(self._input)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> FunctionTool:
        """``@tool`` on a method: the tool of one object."""
        if self._self and instance is not None:
            return FunctionTool(self.function.__get__(instance, owner), **self._given)  # type: ignore[arg-type]
        return self

    @property
    def unbound(self) -> bool:
        """It is a method without its object, and cannot run."""
        return bool(self._self)

    async def run(self, arguments: dict[str, Any], context: ToolContext, /) -> ToolResult | str:
        if self._self:
            raise ToolFailed(f"{self.name} is a method and was given without its object")
        given = hints.check(arguments, self._input)
        values = msgspec.structs.asdict(given)
        if self._context_name:
            values[self._context_name] = context
        if self._awaited:
            return as_result(await self.function(**values))
        result = self.function(**values) if self._yields else await in_thread(self.function, **values)
        if isinstance(result, AsyncIterator):
            result = await _last_of(result, context)
        elif inspect.isgenerator(result):
            result = await in_thread(_drained, result, context)
        elif isinstance(result, Awaitable):
            result = await result
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
        UsageError: ``limit_s`` is not above 0, a parameter has no type hint, or one that JSON cannot carry.
    """

    def made(f: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(f, name=name, description=description, limit_s=limit_s, read_only=read_only)

    return made if function is None else made(function)


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


def _read(
    function: Callable[..., Any], said: Any, name: str, notes: dict[str, str]
) -> tuple[str, type[msgspec.Struct], str | None]:
    """The name of a method's own object, the struct of the arguments, the name of the context's parameter."""
    own, found, context_name = "", _hints_of(said, name), None
    fields: list[tuple[str, Any, Any]] = []
    for at, parameter in enumerate(_parameters(function, name)):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"tool {name!r}: parameter {parameter.name!r} cannot be named by a model")
        if parameter.name not in found:
            if at == 0 and parameter.name in ("self", "cls") and "." in getattr(function, "__qualname__", ""):
                own = parameter.name
                continue
            raise UsageError(f"tool {name!r}: parameter {parameter.name!r} needs a type hint")
        hint = found[parameter.name]
        if _is_context(hint):
            context_name = parameter.name
            continue
        if note := notes.get(parameter.name):
            hint = typing.Annotated[hint, msgspec.Meta(description=note)]
        fields.append((parameter.name, hint, _default(parameter.default)))
    try:
        struct = msgspec.defstruct(f"{name}_input", fields, kw_only=True, forbid_unknown_fields=True)
        hints.schema(struct)
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(f"tool {name!r}: {error}") from None
    return own, struct, context_name


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """Those that the model fills in: not what a partial has filled in already."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise UsageError(f"tool {name!r}: its parameters cannot be told", hint="wrap it in a function") from None
    filled = function.keywords if isinstance(function, functools.partial) else {}
    return [p for p in parameters.values() if p.name not in filled]


def _hints_of(said: Any, name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(said.__call__ if inspect.isclass(said) else said, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise UsageError(f"tool {name!r}: its type hints cannot be read: {error}") from None


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in typing.get_args(hint)


def _default(value: Any) -> Any:
    """The default as a field of a struct takes it: what could be changed is made anew for each call, and what is no
    JSON is not shown to the model."""
    if value is inspect.Parameter.empty:
        return msgspec.NODEFAULT
    if value is None or isinstance(value, str | int | float | enum.Enum):
        return value
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=functools.partial(copy.deepcopy, value))
    return msgspec.field(default_factory=lambda: value)
