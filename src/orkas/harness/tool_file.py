"""Tools from a Python file that the user names. Nothing is looked for: a file in the working folder loads nothing."""

from __future__ import annotations

import inspect
import sys
import types
from pathlib import Path
from typing import Any

from orkas.harness.functions import FunctionTool
from orkas.harness.tool import Tool
from orkas.infra.errors import UsageError

__all__ = ["is_tool_file", "load_tools"]


def is_tool_file(name: str) -> bool:
    """Whether a word among the tools means a file."""
    return name.endswith(".py")


def load_tools(given: str) -> list[Tool]:
    """Run the file, with all rights of this program, and take every tool that stands in it, in order: functions with
    ``@tool``, and objects with the bare interface. What it imports is looked for beside it too, last.

    Raises:
        UsageError: one sentence: it cannot be read, fails, or holds no tool.
    """
    path = Path(given).expanduser().absolute()
    try:
        source = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        what = f"the tools in {given!r} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError(what, hint="give a Python file") from None
    module = types.ModuleType(f"orkas_tools_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # type hints and dataclasses look themselves up there
    sys.path.append(str(path.parent))
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - the user named this file to be run
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - foreign code, also one that ends the program
        raise UsageError(f"the tools in {given!r} cannot be loaded: {_said(error, path)}") from None
    finally:
        sys.path.remove(str(path.parent))
    found = {id(value): value for value in vars(module).values() if _is_tool(value)}
    if not found:
        raise UsageError(f"there is no tool in {given!r}", hint="put @tool above a function in it")
    return list(found.values())


def _is_tool(value: Any) -> bool:
    if isinstance(value, FunctionTool):
        return not value.unbound
    bare = ("name", "description", "parameters", "run")
    return not inspect.isclass(value) and not inspect.ismodule(value) and all(hasattr(value, name) for name in bare)


def _said(error: BaseException, path: Path) -> str:
    """What went wrong and in which line of the file."""
    what = error.message if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.tb_lineno for frame in _frames(error) if frame.tb_frame.f_code.co_filename == str(path)]
    return f"line {lines[-1]}: {what}" if lines else what


def _frames(error: BaseException) -> list[types.TracebackType]:
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append(at)
        at = at.tb_next
    return frames
