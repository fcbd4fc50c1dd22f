"""Scaffold, replaced by the lead at merge: do not touch."""
from __future__ import annotations
from orkas.infra.errors import UsageError
def resolve(model, *, base_url=None, api_key=None, environ=None):
    if model == "demo/offline":
        from orkas.testing import ScriptedProvider, call
        p = ScriptedProvider([[ "I will look. ", call("list_files", path=".")], "There: **done**.\n\n- a\n- b\n"] * 50, model="offline"); p.id = "demo"
        return p, "offline"
    raise UsageError(f"unknown vendor in model {model!r}", hint="orkas models lists them")
