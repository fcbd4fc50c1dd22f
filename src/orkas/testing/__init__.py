"""Public parts for tests: a scripted provider and fake vendor servers. Nothing here is a mock of ours."""

from orkas.testing.scripted import ScriptedProvider, call

__all__ = ["ScriptedProvider", "call"]
