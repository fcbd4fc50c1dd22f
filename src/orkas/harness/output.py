"""The form an answer must have: a type or a JSON Schema in, a checked value out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from orkas.infra.errors import OutputError, UsageError
from orkas.infra.messages import scrub
from orkas.providers.base import OutputSchema

__all__ = ["Output", "objects_in"]

_TOLD = 5
"""Faults that are named at once."""
_PROMPT = """\
Your final answer to the user is data for a program: exactly one JSON object that matches the JSON Schema below, \
with no words around it and no code fence. Tools may be called before it as usual. Only where a message explicitly \
asks for a summary or a status in plain text, answer that in plain text.
JSON Schema: """


class Output:
    """One form. ``wire``: what a provider is told of it; ``prompt``: what the model is.

    Raises:
        UsageError: ``shape`` is no type and no schema that describes an object.
    """

    def __init__(self, shape: Any) -> None:
        form = _form(shape)
        kinds = form.schema.get("type", "object")
        if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
            raise UsageError(
                f"output must describe an object, not {kinds!r}", hint="put it into an object with one property"
            )
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", form.name)[:64].strip("_") or "answer"
        self.wire = OutputSchema(name, form.schema)
        self.prompt = _PROMPT + json.dumps(form.schema, ensure_ascii=False, separators=(",", ":"))
        self._typed = form.typed

    def read(self, text: str) -> dict[str, Any]:
        """The object in an answer as it stands there, found also between words and in a code fence.

        Where there are several objects the last one that has the form counts.

        Raises:
            OutputError: there is none. Says what is wrong.
        """
        found = objects_in(text)
        if not found.values:
            raise _fault(found.fault)
        wrong = ""
        for value in reversed(found.values):
            try:
                self._typed(value)
            except ValueError as error:
                wrong = wrong or str(error)
            except RecursionError:
                wrong = wrong or "the JSON is nested too deeply"
            else:
                return value  # type: ignore[no-any-return]
        raise _fault(wrong)

    def typed(self, value: Any) -> Any:
        """Plain data that ``read`` gave, as a value of the type; for a schema the data itself."""
        return self._typed(value)


def _fault(wrong: str) -> OutputError:
    return OutputError(
        f"the answer does not have the form that was asked for: {wrong}", hint="its text is kept; ask again or for less"
    )


class _Form(NamedTuple):
    schema: dict[str, Any]
    name: str
    typed: Callable[[Any], Any]
    """Plain data → a value of the type. Raises ValueError that says what is wrong."""


def _form(shape: Any) -> _Form:
    if isinstance(shape, dict):
        return _of_schema(shape)
    if callable(getattr(shape, "model_json_schema", None)) and callable(getattr(shape, "model_validate", None)):
        return _of_pydantic(shape)
    return _of_type(shape)


def _of_schema(given: dict[str, Any]) -> _Form:
    try:
        schema = json.loads(json.dumps(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the schema is no JSON: {error}") from None
    from orkas.harness import json_schema  # a type needs none of it

    if wrong := json_schema.check(schema):
        raise UsageError(f"the schema cannot be used: {wrong}")

    def typed(value: Any) -> Any:
        if wrong := list(islice(json_schema.faults(value, schema), _TOLD)):
            raise ValueError("; ".join(wrong))
        return value

    return _Form(schema, str(schema.get("title", "")), typed)


def _of_type(shape: Any) -> _Form:
    """What msgspec knows: structs, dataclasses, typed dictionaries, attrs classes, mappings."""
    try:
        (top,), definitions = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    except (TypeError, NameError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise UsageError(f"output cannot be {shape!r}: {why}", hint="give a type of data or a JSON Schema") from None
    name = top.get("$ref", "").rpartition("/")[2]
    schema = dict(definitions[name] if name else top)
    if f'"#/$defs/{name}"' not in json.dumps(definitions):  # nothing leads back to the top
        definitions.pop(name, None)
    if definitions:
        schema["$defs"] = definitions

    def typed(value: Any) -> Any:
        return msgspec.convert(value, shape, str_keys=True)

    return _Form(json.loads(json.dumps(schema)), name or getattr(shape, "__name__", ""), typed)


def _of_pydantic(shape: Any) -> _Form:
    """A pydantic model, known by what it can do: pydantic itself is not needed here."""

    def typed(value: Any) -> Any:
        try:
            return shape.model_validate(value)
        except ValueError as error:
            raise ValueError(_pydantic_words(error)) from None

    return _Form(shape.model_json_schema(), shape.__name__, typed)


def _pydantic_words(error: Any) -> str:
    listed = error.errors() if hasattr(error, "errors") else []
    told = [f"$.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in listed[:_TOLD]]
    return "; ".join(told) or str(error)


# ------------------------------------------------------------------ finding it


class _Found(NamedTuple):
    values: list[dict[str, Any]]
    fault: str
    """Why there is none."""


_START = re.compile(r'\{\s*["}]')
"""How an object begins, other than braces in prose and in code."""
_BROKEN = 200
"""Beginnings without an end after which there is no looking further: each costs time that grows with the text."""


def objects_in(text: str) -> _Found:
    """The outermost JSON objects in a text, in order. What lies in one that does not parse is none of them."""
    values: list[dict[str, Any]] = []
    fault = "there is no JSON object in it"
    broken = 0
    start = _START.search(text)
    while start is not None and broken < _BROKEN:
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            fault = f"its JSON does not parse: {error.msg} at character {error.pos}"
            end, broken = max(error.pos, start.start() + 1), broken + 1
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or nested too deeply
            return _Found(values, f"its JSON cannot be read: {error}")
        else:
            values.append(scrub(value))
        start = _START.search(text, end)
    return _Found(values, fault)


def _not_json(name: str) -> None:
    """NaN and the infinities, which no JSON has: nothing, so that a number is missed in their place."""


_DECODER = json.JSONDecoder(parse_constant=_not_json)
