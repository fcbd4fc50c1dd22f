"""A tool is a name, a description for the model, a JSON Schema and one function; nothing else.

Where a tool comes from does not matter to the runner. Built-in tools are classes with an ``Input`` struct;
a plain Python function becomes a tool with ``@tool``.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import msgspec

from orkas.infra.abort import Abort
from orkas.infra.errors import ToolFailed, UsageError
from orkas.infra.messages import Image, scrub
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.undo.keeper import Keeper
    from orkas.infra.jobs import Jobs
    from orkas.infra.sandbox import Backend

__all__ = ["FunctionTool", "Tool", "ToolContext", "ToolResult", "check_arguments", "tool"]


class ToolContext(msgspec.Struct, eq=False):
    """What a tool may use. Tools share nothing else."""

    cwd: Path
    """The working folder, resolved. Paths of the model are relative to it and may not leave it."""
    abort: Abort = msgspec.field(default_factory=Abort)
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Extra variables for child processes, besides the short allow-list."""
    files: Path | None = None
    """Folder for whole outputs whose preview goes to the model; None: no place for them."""
    sandbox: Backend | Literal["find", "off"] = "find"
    """What is put around commands: the best that works here, nothing (the user said so), or this one."""
    progress: Callable[[str], None] = lambda _text: None
    """Say that the tool is alive; shown to the user, not to the model. The same text again says nothing."""
    jobs: Jobs | None = None
    """Commands in the background; None: there can be none, for whoever calls does not stay."""
    undo: Keeper | None = None
    """Watches what tools change, for undo. Asked by the harness, not by tools."""


class ToolResult(msgspec.Struct, eq=False):
    """``text`` goes to the model. ``images`` follow as a user message after all results of the round."""

    text: str
    images: list[Image] = msgspec.field(default_factory=list)
    is_error: bool = False
    file: str | None = None
    """Where the whole lies when ``text`` is only a preview: an absolute path below ``ToolContext.files``."""
    bytes: int | None = None
    """Size of the whole in bytes, with ``file``."""
    origin: str | None = None
    """``web`` where strangers wrote the text: whoever acts on it later can know."""
    fault: bool = False
    """The tool broke or hung, rather than say that it could not. Set by the harness, never by a tool."""


class Tool(Protocol):
    """The bare interface. ``run`` may raise ``ToolFailed`` (or anything): it becomes an error result.

    A tool may also have ``limit_s``: the seconds a call may take, as a number or as a function of the arguments. It is
    then given up after that time, and until then may be as silent as it likes; without one it is given up when it has
    given no sign of life (``ToolContext.progress``, with a new text) for half an hour.

    A tool that changes files of the user says so by ``touches(arguments, context)``: the paths that a call would
    change, or None for any. What it changes can then be taken back with the turn. One that edits may have
    ``preview(arguments, context)``: the unified diff of what a call would change, without writing; it blocks.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    async def run(self, arguments: dict[str, Any], context: ToolContext, /) -> ToolResult | str: ...


T = typing.TypeVar("T")


def check_arguments(arguments: dict[str, Any], shape: type[T]) -> T:
    """The model's arguments as a typed value; numbers and booleans written as strings are accepted.

    Raises:
        ToolFailed: with one sentence that names the argument and what is wrong with it.
    """
    try:
        return msgspec.convert(scrub(arguments), shape, strict=False)
    except msgspec.ValidationError as error:
        raise ToolFailed(f"bad arguments: {error}") from None


def schema_of(shape: Any) -> dict[str, Any]:
    """JSON Schema of an input struct: one plain object, definitions inlined where the struct itself is one."""
    (schema,), definitions = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    name = schema.get("$ref", "").rpartition("/")[2]
    top = dict(definitions.pop(name)) if name else dict(schema)
    top.pop("title", None)
    top.setdefault("properties", {})
    if definitions:
        top["$defs"] = definitions
    return top


class FunctionTool:
    """A plain function as a tool. A synchronous one runs in a thread; Stop does not wait for it."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        limit_s: float | None = None,
    ) -> None:
        if limit_s is not None and not limit_s > 0:
            raise UsageError("limit_s must be more than 0 seconds")
        self.function = function
        self._awaited = inspect.iscoroutinefunction(function)
        self.limit_s = limit_s
        self.name = name or function.__name__
        doc = inspect.cleandoc(description or inspect.getdoc(function) or "")
        self.description, notes = _split_docstring(doc)
        self._input, self._context_name = _input_struct(function, self.name, notes)
        self.parameters = schema_of(self._input)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    async def run(self, arguments: dict[str, Any], context: ToolContext, /) -> ToolResult | str:
        given = check_arguments(arguments, self._input)
        values = msgspec.structs.asdict(given)
        if self._context_name:
            values[self._context_name] = context
        if self._awaited:
            result = await self.function(**values)
        else:
            result = await in_thread(self.function, **values)
            if isinstance(result, Awaitable):
                result = await result
        return _as_result(result)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, limit_s: float | None = None
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    limit_s: float | None = None,
) -> Any:
    """Make a tool of a function: the schema from its type hints, the description from its docstring.

    A parameter annotated ``ToolContext`` receives the context and is not shown to the model. The result may be a
    string, any JSON value, a ``ToolResult`` or None. ``limit_s``: the seconds that a call may take; see ``Tool``.

    Raises:
        UsageError: ``limit_s`` is not above 0, a parameter has no type hint, or one that JSON cannot carry.
    """
    if function is None:
        return lambda f: FunctionTool(f, name=name, description=description, limit_s=limit_s)
    return FunctionTool(function, name=name, description=description, limit_s=limit_s)


def _split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Description and ``Args:`` notes of a Google-style docstring."""
    head, _, args = doc.partition("\nArgs:")
    notes: dict[str, str] = {}
    for line in args.splitlines():
        name, colon, text = line.strip().partition(":")
        if not line.startswith(" "):
            if line.strip():
                break
            continue
        if colon and name.split(" ")[0].isidentifier():
            notes[name.split(" ")[0]] = text.strip()
    return head.strip(), notes


def _input_struct(
    function: Callable[..., Any], name: str, notes: dict[str, str]
) -> tuple[type[msgspec.Struct], str | None]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(f"tool {name!r}: its type hints cannot be read: {error}") from None
    fields: list[tuple[str, Any, Any]] = []
    context_name = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"tool {name!r}: parameter {parameter.name!r} cannot be named by a model")
        if parameter.name not in hints:
            raise UsageError(f"tool {name!r}: parameter {parameter.name!r} needs a type hint")
        hint = hints[parameter.name]
        if hint is ToolContext:
            context_name = parameter.name
            continue
        if note := notes.get(parameter.name):
            hint = typing.Annotated[hint, msgspec.Meta(description=note)]
        default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        fields.append((parameter.name, hint, default))
    try:
        struct = msgspec.defstruct(f"{name}_input", fields, kw_only=True, forbid_unknown_fields=True)
        schema_of(struct)
    except (TypeError, ValueError) as error:
        raise UsageError(f"tool {name!r}: {error}") from None
    return struct, context_name


def _as_result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult("done")
    if isinstance(value, str):
        return ToolResult(value)
    try:
        return ToolResult(msgspec.json.encode(value).decode())
    except (TypeError, UnicodeEncodeError):
        return ToolResult(str(value))
