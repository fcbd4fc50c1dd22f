"""A tool's schema as every vendor takes it.

One odd schema has a vendor refuse every request that offers the tool. So what no vendor understands is left out of what
the model is told; arguments are still checked against the schema that the tool itself declares.
"""

from __future__ import annotations

from typing import Any

__all__ = ["clean"]

_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NOT_ON_TOP = ("anyOf", "oneOf", "allOf", "enum", "not")
_DEEPEST = 50
"""Levels of nesting that are told; nobody writes more by hand, and vendors take far fewer."""


def clean(parameters: dict[str, Any]) -> dict[str, Any]:
    """An object with its properties named, even if there are none, and nothing in it that a vendor stumbles over.

    Alternatives at the top, which vendors refuse, become the properties of all of them.
    """
    root = parameters if isinstance(parameters, dict) else {}
    top = _clean(root, root, 0)
    properties = {} if not isinstance(top.get("properties"), dict) else top["properties"]
    required = top.get("required", [])
    for key in ("allOf", "anyOf", "oneOf"):
        for branch in (_target(b, root) for b in top.get(key, ())):
            properties = {**branch.get("properties", {}), **properties}
            required = [*required, *branch.get("required", ())] if key == "allOf" else required
    rest = {k: v for k, v in top.items() if k not in _NOT_ON_TOP}
    merged = {**rest, "type": "object", "properties": properties}
    return {**merged, "required": list(dict.fromkeys(required))} if required else merged


def _target(branch: Any, root: dict[str, Any]) -> dict[str, Any]:
    """An alternative itself, where it only points to a definition."""
    if isinstance(branch, dict) and isinstance(ref := branch.get("$ref"), str):
        branch = _clean(_resolve(ref, root), root, 1)
    return branch if isinstance(branch, dict) else {}


def _clean(schema: Any, root: dict[str, Any], depth: int) -> Any:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    out = {key: value for key, item in schema.items() if (value := _keyword(str(key), item, root, depth)) is not None}
    kinds = out.get("type", ())
    if "array" in ((kinds,) if isinstance(kinds, str) else kinds) and "items" not in out and "prefixItems" not in out:
        out["items"] = {}
    return out


def _keyword(key: str, value: Any, root: dict[str, Any], depth: int) -> Any:
    """What is told of one keyword; None: nothing."""
    if key in _MAPS:
        return {str(k): _clean(v, root, depth + 1) for k, v in value.items()} if isinstance(value, dict) else None
    if key == "items" and isinstance(value, list):  # the old form of a tuple
        return {"anyOf": [_clean(v, root, depth + 1) for v in value]} if value else {}
    if key in _ONE:
        return _clean(value, root, depth + 1) if isinstance(value, dict | bool) else None
    if key in _MANY:
        usable = isinstance(value, list) and value
        return [_clean(v, root, depth + 1) for v in value] if usable else None
    if key == "type":
        return _type(value)
    if key == "required":
        return [name for name in value if isinstance(name, str)] if isinstance(value, list) else None
    if key == "enum":
        return value if isinstance(value, list) and value else None
    if key == "$ref":
        return value if isinstance(value, str) and _resolve(value, root) is not None else None
    return value


def _type(value: Any) -> Any:
    if isinstance(value, str):
        return value if value in _TYPES else None
    known = [kind for kind in value if isinstance(kind, str) and kind in _TYPES] if isinstance(value, list) else []
    return known or None


def _resolve(ref: str, root: dict[str, Any]) -> Any:
    """The place in the schema itself that a reference points to, or None."""
    if not ref.startswith("#"):
        return None
    place: Any = root
    for step in filter(None, ref.lstrip("#").split("/")):
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
    return place
