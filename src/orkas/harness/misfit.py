"""What is wrong with the arguments of a call, in words a model can go by."""

from __future__ import annotations

import re
from typing import Any

from orkas.infra.errors import ToolFailed

__all__ = ["misfit"]

_NOT_AMONG = re.compile(r"Invalid enum value (.+) - at `\$\.?([^`]+)`", re.DOTALL)
_STEP = re.compile(r"\[(\.\.\.)\]|\[\d+\]|\.?([^.\[]+)")


def misfit(error: Exception, schema: dict[str, Any]) -> ToolFailed:
    """What is wrong with arguments, as one sentence; where few values are possible, with these."""
    found = _NOT_AMONG.fullmatch(str(error))
    values = _possible(schema, found[2]) if found else []
    if not found or not values:
        return ToolFailed(f"bad arguments: {error}")
    return ToolFailed(f"bad arguments: {found[2]} cannot be {found[1]}; it is one of {', '.join(map(repr, values))}")


def _possible(schema: dict[str, Any], place: str) -> list[Any]:
    """The values that a place in the arguments can have, where the schema lists them."""
    nodes = [schema]
    for other_keys, name in _STEP.findall(place):
        inner = [_below(node, name, "additionalProperties" if other_keys else "items") for node in nodes]
        nodes = [alternative for node in inner for alternative in _alternatives(node, schema)]
    if any("enum" not in node and node.get("type") != "null" for node in nodes):
        return []
    return [value for node in nodes for value in node.get("enum", ())]


def _below(node: dict[str, Any], name: str, otherwise: str) -> Any:
    return node.get("properties", {}).get(name) if name else node.get(otherwise)


def _alternatives(node: Any, schema: dict[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(node, dict):
        return []
    node = schema.get("$defs", {}).get(str(node.get("$ref", "")).rpartition("/")[2], node)
    return [one for inner in node["anyOf"] for one in _alternatives(inner, schema)] if "anyOf" in node else [node]
