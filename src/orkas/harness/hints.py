"""Type hints of a tool's parameters: the JSON Schema that the model sees, and values of these types from its JSON.

Beyond what msgspec knows: paths, and pydantic models, known by what they can do, so that pydantic is not needed here.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any, TypeVar

import msgspec

from orkas.harness.tool import shaped
from orkas.infra.errors import ToolFailed
from orkas.infra.messages import scrub

__all__ = ["check", "schema"]

T = TypeVar("T")


def check(arguments: dict[str, Any], shape: type[T]) -> T:
    """The model's arguments as a typed value; numbers and booleans written as strings are accepted.

    Raises:
        ToolFailed: with one sentence that names the argument and what is wrong with it.
    """
    try:
        return msgspec.convert(scrub(arguments), shape, strict=False, str_keys=True, dec_hook=_value)
    except msgspec.ValidationError as error:
        raise ToolFailed(f"bad arguments: {error}") from None


def schema(shape: Any) -> dict[str, Any]:
    """JSON Schema of a struct of arguments.

    Raises:
        TypeError: one of its types has none.
    """
    return _hoisted(shaped(shape, _schema))


def _is_model(kind: Any) -> bool:
    return callable(getattr(kind, "model_json_schema", None)) and callable(getattr(kind, "model_validate", None))


def _schema(kind: Any) -> dict[str, Any]:
    if _is_model(kind):
        return dict(kind.model_json_schema())
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{getattr(kind, '__name__', kind)} is no type that JSON can carry")


def _value(kind: Any, given: Any) -> Any:
    if _is_model(kind):
        try:
            return kind.model_validate(given)
        except ValueError as error:
            raise ValueError(_words(error)) from None
    if isinstance(kind, type) and issubclass(kind, PurePath):
        if not isinstance(given, str):
            raise ValueError("Expected `str`")  # noqa: TRY004 - msgspec tells where, for this one
        return (kind if kind is not PurePath else Path)(given)
    raise NotImplementedError


def _words(error: Any) -> str:
    listed = error.errors() if hasattr(error, "errors") else []
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in listed[:3]) or str(error)


def _hoisted(schema: dict[str, Any]) -> dict[str, Any]:
    """Definitions that stand within, as those of a pydantic model do, belong to the top: references begin there."""
    found: dict[str, Any] = {}

    def walk(node: Any, *, top: bool = False) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if not top and isinstance(node.get("$defs"), dict) and ("properties" in node or "$ref" in node):
            node = dict(node)
            found.update({name: walk(one) for name, one in node.pop("$defs").items()})
        return {key: walk(value) for key, value in node.items()}

    made: dict[str, Any] = walk(schema, top=True)
    if found:
        made["$defs"] = {**made.get("$defs", {}), **found}
    return made
