"""What Ollama's own chat refuses. It takes nearly any conversation, but its types are strict, and so is its context."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from orkas.testing.rules.base import Rejection, objects, words

__all__ = ["check_ollama"]

_ROLES = ("system", "user", "assistant", "tool")
_UNTHINKING = ("gemma3", "llama3", "mistral")
_DEFAULT_CONTEXT = 4_096
_OPTIONS = words("num_ctx num_predict temperature top_k top_p seed stop num_keep repeat_penalty")


def check_ollama(body: dict[str, Any]) -> Rejection | None:
    """The refusal of one request body, or None.

    The real server cuts a prompt that its context does not hold and says nothing, unless ``truncate`` is false. Here
    such a request is refused either way: a test must not pass on half its prompt.
    """
    return next(_all(body), None)


def _all(body: dict[str, Any]) -> Iterator[Rejection]:
    if not isinstance(model := body.get("model"), str) or not model:
        yield Rejection("model is required")
    if not isinstance(body.get("messages", []), list):
        yield _type(body["messages"], "messages", "[]api.Message")
    for message in objects(body.get("messages")):
        yield from _message(message)
    for tool in objects(body.get("tools")):
        yield from _tool(tool)
    think = body.get("think")
    if not isinstance(think, bool | None) and think not in ("high", "medium", "low"):
        yield Rejection(f'invalid think value: "{think}" (must be "high", "medium", "low", true, or false)')
    if think and str(model).startswith(_UNTHINKING):
        yield Rejection(f'"{model}" does not support thinking')
    if isinstance(think, str) and "gpt-oss" not in str(model):
        yield Rejection(f'think value "{think}" is not supported for this model')
    form = body.get("format")
    if form not in (None, "", "json") and not isinstance(form, dict):
        yield Rejection(f"invalid format: {json.dumps(form)}; expected \"json\" or a valid JSON Schema object")
    yield from _options(body)


def _message(message: dict[str, Any]) -> Iterator[Rejection]:
    if message.get("role") not in _ROLES:
        yield Rejection(f"invalid role: {message.get('role')}, role must be one of [system, user, assistant, tool]")
    for name in ("content", "thinking", "tool_name", "tool_call_id"):
        if not isinstance(message.get(name, ""), str):
            yield _type(message[name], f"messages.{name}", "string")
    for image in message.get("images") or ():
        yield from _image(image)
    for call in objects(message.get("tool_calls")):
        function = call.get("function")
        if not isinstance(function, dict):
            yield _type(function, "messages.tool_calls.function", "api.ToolCallFunction")
        elif not isinstance(arguments := function.get("arguments"), dict):
            where = "messages.tool_calls.function.arguments"
            yield _type(arguments, where, "map[string]interface {}", "ToolCallFunction")


def _image(image: Any) -> Iterator[Rejection]:
    try:
        data = base64.b64decode(image, validate=True)
    except (ValueError, TypeError):
        yield Rejection("illegal base64 data at input byte 0")
        return
    if not data or data.startswith(b"GIF8"):
        yield Rejection("Failed to load image or audio file", 500)


def _tool(tool: dict[str, Any]) -> Iterator[Rejection]:
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        yield _type(function, "tools.function", "api.ToolFunction")
    elif not isinstance(parameters := function.get("parameters", {}), dict) or not isinstance(
        parameters.get("properties", {}), dict
    ):
        yield _type(parameters, "tools.function.parameters", "api.ToolFunctionParameters")


def _options(body: dict[str, Any]) -> Iterator[Rejection]:
    options = body.get("options") or {}
    for name in options:
        if name not in _OPTIONS:
            yield Rejection(f"invalid option provided: {name}")
    size = options.get("num_ctx", _DEFAULT_CONTEXT)
    if not isinstance(size, int):
        yield Rejection('option "num_ctx" must be of type integer')
    elif _tokens(body) > size:
        yield Rejection("the input length exceeds the context length")


def _tokens(body: dict[str, Any]) -> int:
    """A low estimate: four characters of text a token; marks of the template and pictures weigh nothing."""
    rows = [*objects(body.get("messages")), *objects(body.get("tools"))]
    return sum(len(str({k: v for k, v in row.items() if k != "images"})) for row in rows) // 4


def _type(value: Any, where: str, wanted: str, owner: str = "ChatRequest") -> Rejection:
    """Go's own words for a value of another type."""
    kinds = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    found = kinds.get(type(value), "null")
    return Rejection(f"json: cannot unmarshal {found} into Go struct field {owner}.{where} of type {wanted}")
