"""Search engines, one file each. ``web_search`` knows them by their names alone."""

from __future__ import annotations

from orkas.tools.engines.base import NAMES, Engine, EngineFailed, Found, Hit, TurnEngine
from orkas.tools.engines.ready import ready

__all__ = ["NAMES", "Engine", "EngineFailed", "Found", "Hit", "TurnEngine", "ready"]
