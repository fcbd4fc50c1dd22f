"""Whether a tool's parameters are a JSON Schema that vendors take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["schema_fault"]

_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "additionalProperties", "not", "contains")
_ALTERNATIVES = {"oneOf", "anyOf", "allOf", "enum", "not"}
_MAPS = ("properties", "$defs", "definitions", "patternProperties")


def schema_fault(schema: Any) -> tuple[tuple[str, ...], str] | None:
    """The first fault as (path inside the schema, what is wrong), or None. The top must be an object's schema."""
    if not isinstance(schema, dict):
        return (), f"{schema!r} is not of type 'object', 'boolean'."
    if schema.get("type") != "object":
        return (), f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    if _ALTERNATIVES & schema.keys():
        text = "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
        return (), text
    return next(_faults(schema, (), schema), None)


def _faults(schema: Any, path: tuple[str, ...], root: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield path, f"{schema!r} is not of type 'object', 'boolean'."
        return
    yield from _own_faults(schema, path, root)
    for key in _MAPS:
        for name, inner in (schema.get(key) or {}).items():
            yield from _faults(inner, (*path, key, name), root)
    for key in _ONE:
        if key in schema:
            yield from _faults(schema[key], (*path, key), root)
    for key in _MANY:
        for i, inner in enumerate(schema.get(key) or []):
            yield from _faults(inner, (*path, key, str(i)), root)


def _own_faults(
    schema: dict[str, Any], path: tuple[str, ...], root: dict[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for key in _MAPS:
        if not isinstance(schema.get(key, {}), dict):
            yield path, f"{schema[key]!r} is not of type 'object'."
            return
    for key in _MANY:
        if key in schema and not (isinstance(schema[key], list) and schema[key]):
            yield path, f"{schema[key]!r} is not a non-empty array."
            return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if str(kind) not in _TYPES:
            yield path, f"{kind!r} is not valid under any of the given schemas."
    if schema.get("type") == "object" and not path and "properties" not in schema:
        yield path, "object schema missing properties."
    if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
        yield path, "array schema missing items."
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield path, f"{required!r} is not of type 'array'."
    if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
        yield path, f"{schema['enum']!r} is not a non-empty array."
    if "$ref" in schema and not _resolves(schema["$ref"], root):
        yield path, f"reference can only point to definitions of the schema itself, got {schema['$ref']!r}."


_STRICT = frozenset([
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
    "definitions", "description", "title", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems",
])  # fmt: skip


def strict_fault(schema: Any, path: tuple[str, ...] = ()) -> tuple[tuple[str, ...], str] | None:
    """The first thing that a strict decoder of OpenAI's does not take, or None."""
    if not isinstance(schema, dict):
        return path, "schema must be an object."
    for name in sorted(schema.keys() - _STRICT):
        return path, f"'{name}' is not permitted."
    if "$ref" in schema and (beside := sorted(schema.keys() - {"$ref", "$defs", "definitions"})):
        return path, f"$ref cannot have keywords {set(beside)}."
    if not schema.keys() & {"type", "anyOf", "$ref"}:
        return path, "schema must have a 'type' key."
    if schema.get("type") == "array" and "items" not in schema:
        return path, "array schema missing items."
    if schema.get("type") == "object" and (fault := _open_fault(schema)):
        return path, fault
    maps = [(key, schema.get(key) or {}) for key in ("properties", "$defs", "definitions")]
    inner = [((*path, key, name), one) for key, named in maps for name, one in named.items()]
    inner += [((*path, "anyOf", str(i)), one) for i, one in enumerate(schema.get("anyOf") or [])]
    inner += [((*path, "items"), schema["items"])] if "items" in schema else []
    return next(filter(None, (strict_fault(one, at) for at, one in inner)), None)


def _open_fault(schema: dict[str, Any]) -> str:
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    for name in schema.get("properties") or {}:
        if name not in schema.get("required", []):
            return (
                "'required' is required to be supplied and to be an array including every key in properties. "
                f"Missing '{name}'."
            )
    return ""


def _resolves(ref: Any, root: dict[str, Any]) -> bool:
    if not isinstance(ref, str) or not ref.startswith("#"):
        return False
    place: Any = root
    for step in ref.lstrip("#").strip("/").split("/"):
        if not step:
            continue
        if not isinstance(place, dict) or step not in place:
            return False
        place = place[step]
    return True
