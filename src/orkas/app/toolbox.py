"""The tools of an agent: the built-in ones, and what a caller may hand in as one."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, cast

from orkas.harness.tool import Tool
from orkas.infra.errors import UsageError

__all__ = ["Given", "absent", "builtins", "by_name"]

Given: TypeAlias = "Tool | Callable[..., Any] | str | os.PathLike[str]"
"""A tool, a plain function, the name of a built-in tool, or the path of a Python file with tools."""


def builtins() -> list[Tool]:
    """The built-in tools: read_file, write_file, edit_file, apply_patch, list_files, search_files, shell, shell_job,
    read_result, web_fetch, web_search; and generate_image where ``image.model`` is set and there is a key for it."""
    from orkas.tools import builtins as make

    return make()


_TOOLS = "give a list of functions, tools, or names: of built-in tools, or of Python files"


def by_name(tools: Iterable[Given] | None, told: list[str]) -> dict[str, Tool]:
    """The tools under their names, in the order given; None: the built-in ones. ``told`` takes what the user has to
    know.

    Raises:
        UsageError: an entry is no tool, or two have the same name.
    """
    if tools is None:
        return {tool.name: tool for tool in builtins()}
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list, not {tools!r}", hint=_TOOLS)
    from orkas.harness.bare import check_tool

    named: dict[str, Tool] = {}
    shipped = functools.cache(lambda: {tool.name: tool for tool in builtins()})
    for one in chain.from_iterable(_tools_of(given, shipped, told) for given in tools):
        check_tool(one)
        if one.name in named:
            theirs = "; a built-in one is called so" if one.name in shipped() else ""
            hint = f"give one of them another name{theirs}"
            raise UsageError(f"two tools are called {one.name!r}", hint=hint)
        named[one.name] = one
    return named


def _tools_of(given: Given, shipped: Callable[[], dict[str, Tool]], told: list[str]) -> list[Tool]:
    """The tools that one entry of the list means."""
    if isinstance(given, os.PathLike):
        return _tools_in(os.fspath(given), told)
    if isinstance(given, str):
        from orkas.harness.tool_file import is_tool_file

        return _tools_in(given, told) if is_tool_file(given) else [_called(given, shipped())]
    bare = hasattr(given, "run") and (hasattr(given, "parameters") or not callable(given))
    if isinstance(given, type) or not (bare or callable(given)):
        raise UsageError(f"{given!r} is no tool", hint=_TOOLS)
    from orkas.harness.functions import FunctionTool

    one = cast("Tool", given) if bare else FunctionTool(cast("Callable[..., Any]", given))
    if isinstance(one, FunctionTool) and one.unbound:
        raise UsageError(f"{one.name!r} is a method", hint="give the method of an object: tools=[thing.method]")
    return [one]


def _called(name: str, shipped: dict[str, Tool]) -> Tool:
    """A built-in tool."""
    if (found := shipped.get(name)) is not None:
        return found
    if why := absent(name):
        raise UsageError(f"the tool {name!r} is not offered", hint=why)
    near = difflib.get_close_matches(name, shipped, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(shipped)}; or the path of a Python file"
    raise UsageError(f"there is no tool {name!r}", hint=hint)


def absent(name: str) -> str:
    """Why a tool of ours is not offered here, and what offers it; empty: there is none of this name."""
    if name != "generate_image":
        return ""
    from orkas.infra import config
    from orkas.tools.generate_image import obstacle

    if model := config.load(tolerant=True)["image.model"]:
        return f"{model} cannot draw now: {obstacle(model)}"
    return "name a model that draws: orkas config set image.model openai/gpt-image-1"


def _tools_in(name: str, told: list[str]) -> list[Tool]:
    """The tools of a Python file."""
    from orkas.harness.tool_file import load_tools

    found = load_tools(name)
    names = ", ".join(tool.name for tool in found)
    told.append(f"The code of {str(Path(name).absolute())!r} was run; its tools ({names}) have all your rights.")
    return found
