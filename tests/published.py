"""The types that Google publishes for its API, asked whether a request is one of theirs."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any


@cache
def published() -> dict[str, Any]:
    """The types that Google publishes, by field of a request; empty where they are not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from google.genai import types
            from pydantic import TypeAdapter
    except ImportError:
        return {}
    fields = {
        "contents": list[types.Content], "systemInstruction": types.Content, "tools": list[types.Tool],
        "toolConfig": types.ToolConfig, "generationConfig": types.GenerationConfig,
    }  # fmt: skip
    return {name: TypeAdapter(kind) for name, kind in fields.items()}


def validated(body: dict[str, Any]) -> dict[str, Any]:
    for name, value in body.items() if published() else ():
        published()[name].validate_json(json.dumps(value))
    return body
