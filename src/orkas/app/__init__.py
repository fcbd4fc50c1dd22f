"""``Agent``: the only place that wires provider, session, tools and policy together."""

from orkas.app.agent import Agent
from orkas.app.toolbox import builtins

__all__ = ["Agent", "builtins"]
