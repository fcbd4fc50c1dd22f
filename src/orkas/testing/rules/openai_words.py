"""How OpenAI words what is wrong with any request, and what it refuses about tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orkas.testing.rules.base import Rejection, blank
from orkas.testing.rules.schema import schema_fault, strict_fault

__all__ = [
    "MAX_CACHE_KEY",
    "MAX_NAME",
    "MAX_TOOLS",
    "empty_array",
    "form_faults",
    "image_faults",
    "missing",
    "name_faults",
    "too_long",
    "tool_faults",
    "unknown",
    "wrong_type",
]  # fmt: skip

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
MAX_NAME, MAX_TOOLS, MAX_CACHE_KEY = 64, 128, 64
"""Lengths as the vendor's refusals state them."""
_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,.")


def image_faults(url: str) -> Iterator[Rejection]:
    """A picture in the request itself must be of a kind that the models can see."""
    if url.startswith("data:") and not _IMAGE.match(url):
        yield Rejection(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
        )


def tool_faults(function: dict[str, Any], at: str) -> Iterator[Rejection]:
    """The faults of one function: its name and its schema."""
    for name in sorted(function.keys() - {"name", "description", "parameters", "strict"}):
        yield unknown(f"{at}.{name}")
    yield from name_faults(function.get("name"), f"{at}.name")
    if function.get("parameters") is None:
        return
    fault = schema_fault(function["parameters"]) or (_strict_fault(function) if function.get("strict") else None)
    if fault is not None:
        path, fault_text = fault
        where = "" if fault_text.startswith("schema must") else f"In context=({', '.join(map(repr, path))}), "
        yield Rejection(
            f"Invalid schema for function '{function.get('name')}': {where}{fault_text}",
            param=f"{at}.parameters",
            code="invalid_function_parameters",
        )


def _strict_fault(function: dict[str, Any]) -> tuple[tuple[str, ...], str] | None:
    schema = function["parameters"]
    if schema.get("additionalProperties") is not False:
        return (), "'additionalProperties' is required to be supplied and to be false."
    for name in schema["properties"]:
        if name not in schema.get("required", []):
            text = "'required' is required to be supplied and to be an array including every key in properties."
            return (), f"{text} Missing '{name}'."
    return None


def form_faults(form: Any, at: str, name: str) -> Iterator[Rejection]:
    """The faults of the form of an answer, which the field ``name`` holds at ``at``."""
    if not isinstance(form, dict):
        yield missing(at)
        return
    for field in sorted(form.keys() - {"name", "description", "schema", "strict"}):
        yield unknown(f"{at}.{field}")
    yield from name_faults(form.get("name"), f"{at}.name")
    fault = schema_fault(form.get("schema")) or (strict_fault(form["schema"]) if form.get("strict") else None)
    if fault is not None:
        path, fault_text = fault
        where = "" if fault_text.startswith("schema must") else f"In context=({', '.join(map(repr, path))}), "
        text = f"Invalid schema for {name} '{form.get('name')}': {where}{fault_text}"
        yield Rejection(text, param=name)


def name_faults(name: Any, at: str) -> Iterator[Rejection]:
    if not isinstance(name, str) or blank(name):
        yield missing(at)
    elif not _NAME.fullmatch(name):
        text = (
            f"Invalid '{at}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'."
        )
        yield Rejection(text, param=at, code="invalid_value")
    elif len(name) > MAX_NAME:
        yield too_long(at, MAX_NAME, name)


def unknown(at: str) -> Rejection:
    return Rejection(f"Unknown parameter: '{at}'.", param=at, code="unknown_parameter")


def missing(at: str) -> Rejection:
    return Rejection(f"Missing required parameter: '{at}'.", param=at, code="missing_required_parameter")


def empty_array(at: str) -> Rejection:
    text = f"Invalid '{at}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return Rejection(text, param=at, code="empty_array")


def too_long(at: str, limit: int, value: str) -> Rejection:
    text = (
        f"Invalid '{at}': string too long. Expected a string with maximum length {limit}, but got a string with length "
        f"{len(value)} instead."
    )
    return Rejection(text, param=at, code="string_above_max_length")


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    type(None): "null",
}


def wrong_type(at: str, wanted: str, value: Any) -> Rejection:
    got = _KINDS.get(type(value), "something else")
    text = f"Invalid type for '{at}': expected {wanted}, but got {got} instead."
    return Rejection(text, param=at, code="invalid_type")
