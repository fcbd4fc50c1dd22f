"""A tool is a name, a description for the model, a JSON Schema and one function; nothing else.

Where a tool comes from does not matter to the runner. Built-in tools are classes with an ``Input`` struct;
a plain Python function becomes a tool with ``@tool`` (see ``functions``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from orkas.infra.abort import Abort
from orkas.infra.messages import Image, scrub

if TYPE_CHECKING:
    from orkas.harness.policy.verdict import Verdict
    from orkas.harness.undo.keeper import Keeper
    from orkas.infra.jobs import Jobs
    from orkas.infra.sandbox import Backend
    from orkas.providers.base import LLMProvider

__all__ = ["Tool", "ToolContext", "ToolResult", "check_arguments", "schema_of"]


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
    payable: Callable[[float | None], bool] = lambda _usd: True
    """Whether so many USD, or an unknown sum, may still be spent in this turn; they are set aside for this call."""
    seated: Callable[[], tuple[LLMProvider, str]] | None = None
    """Who answers in this turn now, for requests beside it: the provider, and the model's id there. None: nobody.
    May raise ``UsageError``."""
    onward: Callable[[Mapping[str, Any]], Verdict] | None = None
    """What the policy says of the same tool with other arguments, for a call that is led on: a redirect to another
    host. What it would ask about is not done in this call. None: nobody judges."""
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
    cost_usd: float | None = None
    """What the call cost the user, where it costs anything and that is known; counted in the turn's cost."""
    fault: bool = False
    """The tool broke or hung, rather than say that it could not. Set by the harness, never by a tool."""


class Tool(Protocol):
    """The bare interface. ``run`` may raise ``ToolFailed`` (or anything): it becomes an error result.

    A tool may also have ``limit_s``: the seconds a call may take, as a number or as a function of the arguments. It is
    then given up after that time, and until then may be as silent as it likes; without one it is given up when it has
    given no sign of life (``ToolContext.progress``, with a new text) for half an hour.

    ``read_only = True`` says that its calls change nothing: neighbours in one round then run side by side, in one event
    loop and, for what is synchronous, in threads; and one that was interrupted can be repeated. ``False`` says that it
    may change something, so that a person is asked; a tool that says nothing was given by the program, and runs.

    A tool that changes files of the user says so by ``touches(arguments, context)``: the paths that a call would change
    (text or Path, absolute or in ``context.cwd``), or None for any. What it changes can then be taken back with the
    turn. One that edits may have ``preview(arguments, context)``: the unified diff of what a call would change,
    without writing; it blocks.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    async def run(self, arguments: dict[str, Any], context: ToolContext, /) -> ToolResult | str: ...


T = TypeVar("T")


def check_arguments(arguments: dict[str, Any], shape: type[T]) -> T:
    """The model's arguments as a typed value; numbers and booleans written as strings are accepted.

    Raises:
        ToolFailed: with one sentence that names the argument and what is wrong with it.
    """
    try:
        return msgspec.convert(scrub(arguments), shape, strict=False)
    except msgspec.ValidationError as error:
        from orkas.harness.misfit import misfit

        raise misfit(error, schema_of(shape)) from None


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
