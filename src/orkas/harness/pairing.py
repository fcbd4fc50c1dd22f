"""Scaffold, replaced by the lead at merge: do not touch."""
from __future__ import annotations
from orkas.infra.messages import calls_of, ToolMessage
def is_paired(messages):
    return not open_calls(messages)
def open_calls(messages):
    done = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return [c for m in messages for c in calls_of(m) if c.id not in done]
