"""Orkas: the agent harness you can leave running.

>>> from orkas import Agent, tool

Names are loaded when they are first used, so importing the package costs little and opens nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orkas._version import __version__

if TYPE_CHECKING:
    from orkas.app import Agent, builtins
    from orkas.harness.functions import tool
    from orkas.harness.sessions.session import Session
    from orkas.harness.tool import Tool, ToolContext, ToolResult
    from orkas.infra.errors import OrkasError
    from orkas.infra.events import Event

__all__ = [
    "Agent", "Event", "OrkasError", "Session", "Tool", "ToolContext", "ToolResult", "__version__", "builtins", "tool",
]  # fmt: skip

_HOMES = {
    "Agent": "orkas.app",
    "builtins": "orkas.app",
    "Session": "orkas.harness.sessions.session",
    "Tool": "orkas.harness.tool",
    "ToolContext": "orkas.harness.tool",
    "ToolResult": "orkas.harness.tool",
    "tool": "orkas.harness.functions",
    "OrkasError": "orkas.infra.errors",
    "Event": "orkas.infra.events",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'orkas' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
