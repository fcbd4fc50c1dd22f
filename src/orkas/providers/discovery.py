"""Scaffold, replaced by the lead at merge: do not touch."""
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Step:
    name: str
    found: bool
    model: str | None
    text: str
def discover(environ=None, *, probe=True, home=None):
    return [Step("key", False, None, "no key in the environment"), Step("demo", True, "demo/offline", "the offline demo, which is no language model")]
def choose(environ=None, **kw):
    return discover()[-1]
