"""What Cohere's chat refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orkas.testing.rules.base import Rejection, has_lone_surrogate, objects, words

__all__ = ["check_cohere"]

_TOP = words(
    "model messages tools documents citation_options response_format safety_mode max_tokens stop_sequences temperature"
    " seed frequency_penalty presence_penalty k p logprobs tool_choice thinking stream strict_tools priority"
)
_ROLES = ("system", "user", "assistant", "tool")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_THINKING = ("command-a-reasoning", "command-a-plus")


def check_cohere(body: dict[str, Any]) -> Rejection | None:
    """The refusal of one request body, or None."""
    return next(_all(body), None)


def _all(body: dict[str, Any]) -> Iterator[Rejection]:
    if has_lone_surrogate(body):
        yield Rejection("invalid json syntax: invalid surrogate pair")
    for name in body:
        if name not in _TOP:
            yield Rejection(f"invalid request: unknown field: parameter '{name}' is not a valid field", 422)
    if not body.get("model"):
        yield Rejection("invalid request: model is required")
    messages = objects(body.get("messages"))
    if not messages:
        yield Rejection("invalid request: messages must be a non-empty list")
    for i, message in enumerate(messages):
        yield from _message(message, i)
    if messages and messages[-1].get("role") not in ("user", "tool"):
        yield Rejection("invalid request: the last message must have the role 'user' or 'tool'")
    yield from _pairs(messages)
    yield from _tools(body)
    yield from _thinking(body)


def _message(message: dict[str, Any], i: int) -> Iterator[Rejection]:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        yield Rejection(f"invalid request: message at index {i} has an invalid role '{role}'", 422)
    empty = not content if not isinstance(content, str) else not content.strip()
    if empty and not (role == "assistant" and (message.get("tool_calls") or message.get("tool_plan"))):
        yield Rejection(f"invalid request: message at index {i} must have non-empty content")
    for part in objects(content):
        yield from _part(part, i)
    for call in objects(message.get("tool_calls")):
        function = call.get("function") or {}
        if not isinstance(function.get("arguments"), str) or not isinstance(call.get("id"), str):
            text = f"invalid request: tool call at message index {i} needs an id and arguments as a string"
            yield Rejection(text, 422)


def _part(part: dict[str, Any], i: int) -> Iterator[Rejection]:
    kind = part.get("type")
    if kind not in ("text", "image_url", "document", "thinking"):
        yield Rejection(f"invalid request: content of message at index {i} has an invalid type '{kind}'", 422)
    elif kind in ("text", "thinking") and not isinstance(part.get(kind), str):
        yield Rejection(f"invalid request: content of message at index {i} has no {kind}", 422)
    elif kind == "image_url" and not str((part.get("image_url") or {}).get("url", "")).startswith(("data:", "http")):
        yield Rejection(f"invalid request: image of message at index {i} must be a URL or a base64 data URI")


def _pairs(messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    """Every call is answered once, before anybody else speaks."""
    waiting: list[str] = []
    for i, message in enumerate(messages):
        if message.get("role") == "tool":
            id = message.get("tool_call_id")
            if id not in waiting:
                yield Rejection(
                    f"invalid request: tool call id {id} of the tool message at index {i} not found in previous tool "
                    "calls"
                )
            else:
                waiting.remove(id)
        elif waiting:
            yield Rejection(f"invalid request: missing tool results for tool call ids: {', '.join(waiting)}")
        else:
            waiting = [str(call.get("id")) for call in objects(message.get("tool_calls"))]
            if len(set(waiting)) < len(waiting):
                yield Rejection("invalid request: tool call ids must be unique")
    if waiting:
        yield Rejection(f"invalid request: missing tool results for tool call ids: {', '.join(waiting)}")


def _tools(body: dict[str, Any]) -> Iterator[Rejection]:
    names: set[str] = set()
    for tool in objects(body.get("tools")):
        function = tool.get("function") or {}
        name = function.get("name", "")
        if tool.get("type") != "function" or not isinstance(name, str) or not _NAME.fullmatch(name):
            yield Rejection(f"invalid request: tool name '{name}' can only contain letters, digits, '_' and '-'")
        if name in names:
            yield Rejection(f"invalid request: duplicate tool name '{name}'")
        names.add(name)
        parameters = function.get("parameters")
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            yield Rejection(f"invalid request: parameters of tool '{name}' must be a JSON schema of type object")
    if (choice := body.get("tool_choice")) is not None:
        if not body.get("tools"):
            yield Rejection("invalid request: tool_choice can only be specified when tools are provided")
        if choice not in ("REQUIRED", "NONE"):
            yield Rejection("invalid request: tool_choice must be either 'REQUIRED' or 'NONE'", 422)


def _thinking(body: dict[str, Any]) -> Iterator[Rejection]:
    thinking = body.get("thinking")
    if thinking is None:
        return
    if not str(body.get("model")).startswith(_THINKING):
        yield Rejection(f"invalid request: thinking is not supported by model '{body.get('model')}'")
    budget = thinking.get("token_budget")
    if budget is not None and (not isinstance(budget, int) or budget < 1):
        yield Rejection("invalid request: thinking.token_budget must be a positive integer")
