"""Whether what a program hands over as a tool is one: its name, its description, its schema."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from orkas.harness import json_schema
from orkas.harness.tool import ToolResult
from orkas.infra.errors import UsageError

__all__ = ["NAMES", "PARAMETER", "check_tool", "name_fault"]

NAMES = "up to 64 letters from a to z, digits, _ and -"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What OpenAI and Anthropic take. Google wants a letter or _ first: a name that begins otherwise goes to every vendor
with a word before it, and comes back as it is."""
PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What Anthropic, the narrowest, takes as the name of a property."""


def name_fault(name: object) -> str:
    """Why no tool can be called so, as one sentence; empty: it can."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return ""
    return f"no model can call a tool by the name {name!r}: a name is {NAMES}"


def check_tool(tool: Any) -> None:
    """What a tool made by hand must have, so that no vendor refuses every request that offers it.

    Raises:
        UsageError: one sentence: what is wrong with it.
    """
    name = getattr(tool, "name", None)
    if not isinstance(name, str):
        raise UsageError(f"a tool of the class {type(tool).__name__} has no name", hint="give it one: name = \"…\"")
    if fault := name_fault(name):
        raise UsageError(fault, hint="give it another name")
    if not isinstance(getattr(tool, "description", None), str):
        raise UsageError(f"tool {name!r}: its description must be text", hint='without one, say description = ""')
    limit = getattr(tool, "limit_s", None)
    if not (limit is None or callable(limit) or (isinstance(limit, int | float) and limit > 0)):
        what = f"tool {name!r}: limit_s must be a number of seconds, more than 0, not {limit!r}"
        raise UsageError(what, hint="or a function of the arguments that gives one")
    run = getattr(tool, "run", None)
    if not callable(run):
        raise UsageError(f"tool {name!r} has no method run", hint="write async def run(self, arguments, context)")
    plain = inspect.isroutine(run) and not inspect.iscoroutinefunction(run) and not hasattr(run, "__wrapped__")
    if plain and inspect.get_annotations(run).get("return") in (None, ToolResult, "ToolResult", str, "str"):
        raise UsageError(f"tool {name!r}: its run is not async", hint="write async def run(self, arguments, context)")
    if fault := _schema_fault(getattr(tool, "parameters", None)):
        empty = '{"type": "object", "properties": {}}'
        raise UsageError(f"tool {name!r}: its parameters are no JSON Schema: {fault}", hint=f"without any, say {empty}")


def _schema_fault(parameters: Any) -> str:
    if not isinstance(parameters, dict):
        return "there are none" if parameters is None else f"a {type(parameters).__name__} where an object should be"
    try:
        msgspec.json.encode(parameters)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"it cannot be written as JSON ({error})"
    if parameters.get("type", "object") != "object":
        return f'its type is {parameters["type"]!r}, not "object"'
    if not isinstance(parameters.get("properties", {}), dict):
        return "its properties are no object"
    fault = json_schema.check(parameters)
    return "" if fault.endswith("not supported") else fault  # what is not known here is the vendor's to judge
