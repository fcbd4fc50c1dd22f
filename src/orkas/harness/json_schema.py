"""Whether a value has the form that a JSON Schema says: draft 2020-12, and what older drafts say in the same words.

References lead into the schema itself. A keyword that says what may be and is not known here would be a promise not
kept, so ``check`` refuses the few there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

from orkas.infra.amounts import counted

__all__ = ["check", "faults"]

_REFUSED = ("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef")
_ONE = (
    "items", "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then", "else",
)  # fmt: skip
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
}


# ------------------------------------------------------------------ the schema


def check(schema: Any) -> str:
    """What is wrong with a schema, as one sentence that says where; empty: it can be used."""
    return next(_check(schema, schema, "#"), "")


def _check(schema: Any, root: Any, at: str) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{at} is no schema: it must be an object"
        return
    for key, value in schema.items():
        place = f"{at}/{key}"
        if key in _REFUSED:
            yield f"{at} uses {key!r}, which is not supported"
        elif key in _ONE and not (key == "items" and isinstance(value, list)):
            yield from _check(value, root, place)
        elif key in _MANY or key == "items":
            if not isinstance(value, list) or not value:
                yield f"{place} must be a list of schemas"
            else:
                for i, inner in enumerate(value):
                    yield from _check(inner, root, f"{place}/{i}")
        elif key in _MAPS:
            if not isinstance(value, dict):
                yield f"{place} must be an object"
            else:
                for name, inner in value.items():
                    yield from _check(inner, root, f"{place}/{name}")
        elif wrong := _value_fault(key, value, root):
            yield f"{place} {wrong}"
    patterns = schema.get("patternProperties", ())
    yield from (f"{at}/patternProperties/{p} is no regular expression" for p in patterns if not _regex(p))


def _value_fault(key: str, value: Any, root: Any) -> str:
    match key:
        case "type":
            named = value if isinstance(value, list) else [value]
            bad = [kind for kind in named if not isinstance(kind, str) or kind not in _TYPES]
            return f"names an unknown type: {bad[0]!r}" if bad else ""
        case "enum":
            return "" if isinstance(value, list) and value else "must be a list of values"
        case "required":
            return "" if _names(value) else "must be a list of names"
        case "dependentRequired":
            good = isinstance(value, dict) and all(map(_names, value.values()))
            return "" if good else "must be an object of lists of names"
        case "pattern":
            return "" if _regex(value) else "is no regular expression"
        case "$ref":
            return "" if _resolve(value, root) is not None else "leads nowhere: it must point into the schema itself"
        case _ if key in _COUNTS:
            return "" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "must be a count"
        case _ if key in _NUMBERS:
            good = _TYPES["number"](value) and math.isfinite(value) and (key != "multipleOf" or value > 0)
            return "" if good else "must be a number"
    return ""


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _regex(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    return True


def _resolve(ref: Any, root: Any) -> Any:
    """The schema that a reference names; None: there is none."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    place = root
    for step in ref[2:].split("/") if ref != "#" else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(name)
        elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place if isinstance(place, dict | bool) else None


# ------------------------------------------------------------------ a value


def faults(value: Any, schema: Any) -> Iterator[str]:
    """What keeps ``value`` from having the form of a schema that ``check`` found good: sentences that name the place.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _Look(schema).faults(value, schema, "$")


class _Look:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._open: set[tuple[int, int]] = set()

    def faults(self, value: Any, schema: Any, at: str) -> Generator[str, None, None]:
        if schema is True or schema == {}:
            return
        if schema is False:
            yield f"{at} may not be there"
            return
        key = (id(value), id(schema))
        if key in self._open:  # a reference that leads back to itself says nothing more
            return
        self._open.add(key)
        try:
            if "$ref" in schema:
                yield from self.faults(value, _resolve(schema["$ref"], self._root), at)
            yield from _plain(value, schema, at)
            if isinstance(value, dict):
                yield from self._object(value, schema, at)
            elif isinstance(value, list):
                yield from self._array(value, schema, at)
            yield from self._combined(value, schema, at)
        finally:
            self._open.discard(key)

    def holds(self, value: Any, schema: Any) -> bool:
        with closing(self.faults(value, schema, "")) as told:
            return next(told, None) is None

    def _object(self, value: dict[str, Any], schema: dict[str, Any], at: str) -> Iterator[str]:
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{at} lacks {name!r}"
        for name, needed in schema.get("dependentRequired", {}).items():
            if name in value:
                yield from (f"{at} has {name!r} and lacks {other!r}" for other in needed if other not in value)
        for name, inner in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield from self.faults(value, inner, at)
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            yield f"{at} has {counted(len(value), 'property', 'properties')}, too few or too many"
        for name, inner in value.items():
            yield from self._property(name, inner, schema, at)

    def _property(self, name: str, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        place = f"{at}.{name}"
        named = schema.get("properties", {})
        matched = [s for p, s in schema.get("patternProperties", {}).items() if re.search(p, name)]
        if name in named:
            matched.append(named[name])
        if not matched and "additionalProperties" in schema:
            if schema["additionalProperties"] is False:
                yield f"{at} has {name!r}, which is not expected"
            else:
                matched.append(schema["additionalProperties"])
        for inner in matched:
            yield from self.faults(value, inner, place)
        if "propertyNames" in schema:
            yield from self.faults(name, schema["propertyNames"], f"the name {name!r} in {at}")

    def _array(self, value: list[Any], schema: dict[str, Any], at: str) -> Iterator[str]:
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(rest, list):
            first, rest = rest, schema.get("additionalItems", True)
        for i, item in enumerate(value):
            yield from self.faults(item, first[i] if i < len(first) else rest, f"{at}[{i}]")
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at} has {counted(len(value), 'item')}, too few or too many"
        if schema.get("uniqueItems") is True and len({_key(v) for v in value}) < len(value):
            yield f"{at} holds the same item twice"
        if "contains" in schema:
            found = sum(self.holds(item, schema["contains"]) for item in value)
            if not schema.get("minContains", 1) <= found <= schema.get("maxContains", found):
                yield f"{at} holds {found} items of the kind it must contain"

    def _combined(self, value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        for inner in schema.get("allOf", ()):
            yield from self.faults(value, inner, at)
        if "anyOf" in schema and not any(self.holds(value, s) for s in schema["anyOf"]):
            yield from self._none_of(value, schema["anyOf"], at)
        if "oneOf" in schema:
            count = sum(self.holds(value, s) for s in schema["oneOf"])
            if count == 0:
                yield from self._none_of(value, schema["oneOf"], at)
            elif count > 1:
                yield f"{at} has {count} of the forms that exclude one another"
        if "not" in schema and self.holds(value, schema["not"]):
            yield f"{at} has a form that is excluded"
        if "if" in schema:
            branch = "then" if self.holds(value, schema["if"]) else "else"
            yield from self.faults(value, schema.get(branch, True), at)

    def _none_of(self, value: Any, choices: list[Any], at: str) -> Iterator[str]:
        """Told by the choice that comes nearest: fewest faults of the value itself, then of its parts."""
        wrong = [list(self.faults(value, s, at)) for s in choices]
        nearest = min(wrong, key=lambda told: (sum(text.startswith(f"{at} ") for text in told), len(told)))
        yield f"{at} has none of the possible forms ({nearest[0]})"


def _plain(value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
    """What needs no look inside."""
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_TYPES[kind](value) for kind in kinds):
            yield f"{at} must be {_article(kinds)}, not {_shown(value)}"
            return
    if "enum" in schema and _key(value) not in map(_key, schema["enum"]):
        yield f"{at} must be one of {', '.join(_shown(v) for v in schema['enum'][:20])}, not {_shown(value)}"
    if "const" in schema and _key(value) != _key(schema["const"]):
        yield f"{at} must be {_shown(schema['const'])}, not {_shown(value)}"
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{at} has {counted(len(value), 'character')}, too few or too many"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{at} does not match the pattern {schema['pattern']!r}"
    elif _TYPES["number"](value):
        yield from _number(value, schema, at)


def _number(value: float, schema: dict[str, Any], at: str) -> Iterator[str]:
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{at} must be at least {schema['minimum']}, not {value}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{at} must be at most {schema['maximum']}, not {value}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{at} must be more than {schema['exclusiveMinimum']}, not {value}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"{at} must be less than {schema['exclusiveMaximum']}, not {value}"
    if "multipleOf" in schema and not _is_multiple(value, schema["multipleOf"]):
        yield f"{at} must be a multiple of {schema['multipleOf']}, not {value}"


def _is_multiple(value: float, of: float) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    from decimal import Decimal, InvalidOperation  # as written: 0.3 is a multiple of 0.1

    try:
        return Decimal(str(value)) % Decimal(str(of)) == 0
    except InvalidOperation:  # further apart than any number of digits
        return True


def _key(value: Any) -> Any:
    """Equal for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return ("object", frozenset((k, _key(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(_key, value)))
    return (isinstance(value, bool), value)


def _article(kinds: list[str]) -> str:
    return " or ".join("null" if k == "null" else f"an {k}" if k[0] in "aio" else f"a {k}" for k in kinds)


def _shown(value: Any) -> str:
    import json

    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
