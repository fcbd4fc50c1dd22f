"""JSON Schema → the subset of OpenAPI that older Gemini models take: any field they do not know fails the request.

What the subset cannot say is widened, never narrowed: arguments are checked against the tool's own schema anyway.
"""

from __future__ import annotations

from typing import Any

from orkas.infra.messages import encode

__all__ = ["openapi"]

_PLAIN = ("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern")
_FORMATS = {"STRING": ("enum", "date-time"), "NUMBER": ("float", "double"), "INTEGER": ("int32", "int64")}
_DEEPEST, _MOST = 12, 1_000
"""Levels of nesting and schemas within one another, references followed, that are written out. A schema that refers
to itself has no end; what is below is said by its type alone."""


def openapi(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A tool's parameters; None for a tool without any, which must be left out."""
    written = _Cleaner(schema).clean(schema, 0)
    return written if written.get("type") == "OBJECT" and written.get("properties") else None


class _Cleaner:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST

    def clean(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict):
            return {}
        schema = self._whole(schema, depth)
        if depth > _DEEPEST or self._left < 0:
            kinds = [k for k in _kinds(schema) if k not in ("null", "array")]
            return {"type": kinds[0].upper() if len(kinds) == 1 else "STRING"}
        out: dict[str, Any] = {}
        if isinstance(text := schema.get("description") or schema.get("title"), str):
            out["description"] = text
        kinds, choices = _kinds(schema), _list(schema.get("anyOf"))
        if "null" in kinds or schema.get("nullable") is True or {"type": "null"} in choices:
            out["nullable"] = True
        kinds = [k for k in kinds if k != "null"]
        choices = [c for c in choices if c != {"type": "null"}]
        if choices:
            return self._choose(out, choices, depth)
        if len(kinds) > 1:
            return self._choose(out, [{**schema, "type": k, "description": None} for k in kinds], depth)
        self._one(out, schema, kinds[0] if kinds else "string", depth)
        return out

    def _whole(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """References followed, all of ``allOf`` put together, ``oneOf`` and ``const`` said in other words."""
        self._left -= 1
        for _ in range(_DEEPEST):
            target = self._resolve(schema.get("$ref"))
            if target is None:
                break
            schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
        for part in _list(schema.get("allOf")):
            if isinstance(part, dict) and depth < _DEEPEST and self._left > 0:
                schema = _merged(self._whole(part, depth + 1), schema)
        if "oneOf" in schema and "anyOf" not in schema:
            schema = {**schema, "anyOf": schema["oneOf"]}
        if "const" in schema:
            schema = {**schema, "enum": [schema["const"]]}
        return schema

    def _resolve(self, ref: Any) -> dict[str, Any] | None:
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        place: Any = self._root
        for step in filter(None, ref[1:].split("/")):
            place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
        return place if isinstance(place, dict) else None

    def _choose(self, out: dict[str, Any], choices: list[Any], depth: int) -> dict[str, Any]:
        """One of several. Nothing may stand beside the choices, so what holds for all of them is said in each."""
        made: list[dict[str, Any]] = []
        for choice in filter(None, (self.clean(c, depth + 1) for c in choices)):
            made += [{**out, **one} for one in choice.get("anyOf", [choice])]
        if len(made) < 2:
            return made[0] if made else {**out, "type": "STRING"}
        return {"anyOf": made}

    def _one(self, out: dict[str, Any], schema: dict[str, Any], kind: str, depth: int) -> None:
        out["type"] = kind.upper()
        out.update({k: schema[k] for k in _PLAIN if isinstance(schema.get(k), str if k == "pattern" else int | float)})
        for bound, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(schema.get(bound), int | float) and not isinstance(schema[bound], bool):
                out.setdefault(plain, schema[bound])
        if schema.get("format") in _FORMATS.get(out["type"], ()):
            out["format"] = schema["format"]
        if isinstance(schema.get("enum"), list):
            _enum(out, schema["enum"])
        if kind == "array":
            out["items"] = self.clean(schema.get("items"), depth + 1) or {"type": "STRING"}
        elif kind == "object":
            self._object(out, schema, depth)

    def _object(self, out: dict[str, Any], schema: dict[str, Any], depth: int) -> None:
        given = schema.get("properties")
        properties = {
            str(name): self.clean(inner, depth + 1) or {"type": "STRING"}
            for name, inner in (given.items() if isinstance(given, dict) else ())
        }
        if properties:
            out["properties"] = properties
        if needed := [n for n in _list(schema.get("required")) if isinstance(n, str) and n in properties]:
            out["required"] = needed


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Two schemas that both hold: properties and required names of both."""
    out = {**base, **over}
    if isinstance(base.get("properties"), dict) and isinstance(over.get("properties"), dict):
        out["properties"] = {**base["properties"], **over["properties"]}
    if both := [*_list(base.get("required")), *_list(over.get("required"))]:
        out["required"] = list(dict.fromkeys(n for n in both if isinstance(n, str)))
    return out


def _kinds(schema: dict[str, Any]) -> list[str]:
    given = schema.get("type")
    named = [k for k in (given if isinstance(given, list) else [given]) if k in _TYPES]
    if named:
        return list(dict.fromkeys(named))
    if isinstance(schema.get("properties"), dict):
        return ["object"]
    return ["array"] if "items" in schema else []


_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


def _enum(out: dict[str, Any], values: list[Any]) -> None:
    """Only texts can be listed; other values are told in words."""
    if None in values:
        out["nullable"] = True
    values = [v for v in values if v is not None]
    if out["type"] == "STRING" and values and all(isinstance(v, str) and v for v in values):
        out["enum"] = list(dict.fromkeys(values))
    elif values:
        told = "One of: " + ", ".join(encode(v).decode() for v in values[:50]) + "."
        out["description"] = f"{out['description']} {told}" if out.get("description") else told


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
