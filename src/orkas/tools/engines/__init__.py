"""Search engines, one file each. ``web_search`` knows them by their names alone."""

from __future__ import annotations

from orkas.tools.engines.base import NAMES, Engine, EngineFailed, Found, Hit, TurnEngine, ready

__all__ = ["NAMES", "Engine", "EngineFailed", "Found", "Hit", "TurnEngine", "ready"]
