"""Public parts for tests: a scripted provider and fake vendor servers. Nothing here is a mock of ours."""

from orkas.testing import conformance, replay, rules
from orkas.testing.fake_vendor import FakeVendor, VendorRequest
from orkas.testing.rendering import Say
from orkas.testing.replay import Cut, Late, Recording, Refuse, Whole
from orkas.testing.scripted import ScriptedProvider, call
from orkas.testing.searched import Searched

__all__ = [
    "Cut", "FakeVendor", "Late", "Recording", "Refuse", "Say", "ScriptedProvider", "Searched", "VendorRequest", "Whole",
    "call", "conformance", "replay", "rules",
]  # fmt: skip
