"""The form of an answer as vendors take it: what their strict decoders hold a model to, and what they cannot be told.

A narrower or a wider schema than the caller's is good enough here: the caller checks every answer against its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.patterns import lazy
from orkas.providers.base import CompletionParams, OutputSchema
from orkas.providers.writing.schemas import clean

__all__ = [
    "ANTHROPIC", "OPENAI", "Shape", "Strictness", "Unconstrained", "chat_format", "json_schema_format",
    "responses_format", "strict",
]  # fmt: skip


class Strictness(NamedTuple):
    """What a vendor's strict decoder takes."""

    bounds: frozenset[str] = frozenset()
    """Keywords that bound a value and are understood; all others are left out."""
    all_required: bool = False
    """A property that may be missing cannot be told."""
    recursion: bool = True


_NUMBERS = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
OPENAI = Strictness(frozenset([*_NUMBERS, "pattern", "minItems", "maxItems"]), all_required=True)
ANTHROPIC = Strictness(recursion=False)

_FORMATS = frozenset(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])
"""Formats of texts that both know."""
_SAID = frozenset(["type", "enum", "const", "description", "title"])
_SIZES = ("minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "minProperties", "maxProperties")
_LEFT_OUT = frozenset([
    *_NUMBERS, *_SIZES, "pattern", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
    "discriminator", "contentEncoding", "contentMediaType", "$schema", "$id", "$comment",
])  # fmt: skip
"""Said in other words elsewhere, or bounds that our own check holds."""
_DEFS = ("$defs", "definitions")


class _Untellable(Exception):
    pass


def strict(given: dict[str, Any], how: Strictness) -> dict[str, Any] | None:
    """The schema for a strict decoder: objects closed, other bounds left out. None: it cannot be told."""
    try:
        made = _told(given, how)
        for name in _DEFS:
            if isinstance(given.get(name), dict):
                made[name] = {k: _told(v, how) for k, v in given[name].items()}
    except (_Untellable, RecursionError):
        return None
    if made.get("type") != "object" or (not how.recursion and _recursive(given)):
        return None
    return made


def _told(given: Any, how: Strictness) -> dict[str, Any]:
    if not isinstance(given, dict) or ("anyOf" in given and "oneOf" in given):
        raise _Untellable
    if "$ref" in given:  # nothing may stand beside it
        return {"$ref": _local(given["$ref"])}
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key in _SAID or key in how.bounds:
            out[key] = value
        elif key in ("anyOf", "oneOf"):
            out["anyOf"] = [_told(s, how) for s in value]
        elif key == "items":
            out[key] = _told(value, how)
        elif key == "format":
            if value in _FORMATS:
                out[key] = value
        elif key not in _LEFT_OUT and key not in ("properties", "required", "additionalProperties", *_DEFS):
            raise _Untellable
    if "anyOf" not in out and "type" not in out:
        out["type"] = _type_of(given)
    kinds = out.get("type", [])
    if "array" in kinds and "items" not in out:
        raise _Untellable
    if "object" in kinds or "properties" in given:
        _close(out, given, how)
    return out


def _local(ref: Any) -> str:
    if not isinstance(ref, str) or not ref.startswith("#"):
        raise _Untellable
    return ref


_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _type_of(given: dict[str, Any]) -> str:
    """The one type that a schema means without naming it."""
    if "properties" in given:
        return "object"
    kinds = {_NAMES.get(type(v), "") for v in given.get("enum", [given["const"]] if "const" in given else [])}
    if len(kinds) != 1 or "" in kinds:
        raise _Untellable
    return kinds.pop()


def _close(out: dict[str, Any], given: dict[str, Any], how: Strictness) -> None:
    """No property but the named ones. Only the caller's own word that there may be others is in the way of that."""
    properties, required = given.get("properties"), given.get("required", [])
    if not isinstance(properties, dict) or given.get("additionalProperties", False) is not False:
        raise _Untellable
    if how.all_required and set(required) != set(properties):
        raise _Untellable
    out["properties"] = {str(k): _told(v, how) for k, v in properties.items()}
    out["required"] = required
    out["additionalProperties"] = False


def _recursive(given: dict[str, Any]) -> bool:
    """Whether a definition leads back to itself."""
    defs = {f"#/{kind}/{name}": d for kind in _DEFS for name, d in (given.get(kind) or {}).items()}
    leads = {ref: set(_refs(d)) for ref, d in defs.items()}
    if any(ref not in defs for refs in [*leads.values(), _refs(given)] for ref in refs):
        return True  # to the top, or into the middle of something
    while leads:
        ends = [ref for ref, to in leads.items() if not to & leads.keys()]
        if not ends:
            return True
        for ref in ends:
            del leads[ref]
    return False


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _refs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _refs(inner)


def json_schema_format(output: OutputSchema) -> dict[str, Any]:
    """Name, schema and strictness as OpenAI's APIs take them: strict where the schema is one for it."""
    told = strict(output.schema, OPENAI)
    return {"name": output.name, "schema": clean(output.schema) if told is None else told, "strict": told is not None}


def chat_format(output: OutputSchema) -> dict[str, Any]:
    """``response_format`` of Chat Completions."""
    return {"type": "json_schema", "json_schema": json_schema_format(output)}


def responses_format(output: OutputSchema) -> dict[str, Any]:
    """``text`` of the Responses API."""
    return {"format": {"type": "json_schema", **json_schema_format(output)}}


class Shape:
    """The form of an answer on one wire, made again only when it changes. None: it cannot be told there."""

    def __init__(self, make: Callable[[OutputSchema], dict[str, Any] | None]) -> None:
        self._make = make
        self._of: OutputSchema | None = None
        self._made: dict[str, Any] | None = None

    def get(self, output: OutputSchema | None) -> dict[str, Any] | None:
        if output is not self._of:
            self._of, self._made = output, None if output is None else self._make(output)
        return self._made


_BLAMED = lazy(
    r"response_?format|output_?(config|format)|response_?(json_?)?schema|response[_ ]?mime|structured output|"
    r"\btext\.format|schema in format"
)


class Unconstrained:
    """Models of one provider that refuse to be held to a form: they are asked without it from then on."""

    def __init__(self) -> None:
        self._models: set[str] = set()

    def learn(self, refusal: ProviderError, params: CompletionParams) -> bool:
        """Whether ``refusal`` blames the form that this request asked for; the next one, by ``applied``, does not."""
        if params.output is None or refusal.class_ != "invalid_request" or not _BLAMED.search(refusal.message.lower()):
            return False
        self._models.add(params.model)
        return True

    def applied(self, params: CompletionParams) -> CompletionParams:
        """The request without what was refused; the very same as long as nothing was."""
        if params.output is None or params.model not in self._models:
            return params
        return replace(params, output=None)
