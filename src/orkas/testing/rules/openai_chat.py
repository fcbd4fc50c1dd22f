"""What the Chat Completions API refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orkas.testing.rules.base import Rejection, has_lone_surrogate, no_json, objects, words
from orkas.testing.rules.openai_words import (
    MAX_CACHE_KEY,
    MAX_TOOLS,
    empty_array,
    form_faults,
    image_faults,
    missing,
    name_faults,
    too_long,
    tool_faults,
    unknown,
    wrong_type,
)  # fmt: skip

__all__ = ["check_openai_chat"]

_TOP = words(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages"
    " metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed"
    " service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity"
    " web_search_options"
)
_DIALECTS = words(
    "thinking enable_thinking chat_template_kwargs reasoning include_reasoning reasoning_format provider"
    " reasoning_split usage top_k min_p repetition_penalty cache_control"
)
"""Fields that vendors with this dialect add to it."""
_REASONING = words("reasoning_content reasoning reasoning_details")
_FIELDS = {
    "system": words("role content name"),
    "developer": words("role content name"),
    "user": words("role content name"),
    "assistant": words("role content name refusal audio tool_calls function_call prefix") | _REASONING,
    "tool": words("role content tool_call_id name"),
    "function": words("role content name"),
}
_ROLES = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"
_PARTS = {
    "text": words("type text cache_control"),
    "image_url": words("type image_url"),
    "input_audio": words("type input_audio"),
    "file": words("type file"),
    "refusal": words("type refusal"),
}
_PART_NAMES = "'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'"
MAX_ID = 40
"""Characters of a call's id."""


def check_openai_chat(body: Any) -> Rejection | None:
    """The refusal of this request body, or None.

    What only other vendors of the dialect know (reasoning given back, switches for thinking) is let through.
    """
    return next(_faults(body), None)


def _faults(body: Any) -> Iterator[Rejection]:
    if not isinstance(body, dict):
        yield wrong_type("body", "an object", body)
        return
    if has_lone_surrogate(body):
        yield no_json("openai", "")
    yield from _top(body)
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield Rejection("Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter")
        return
    if not messages:
        yield empty_array("messages")
    for i, message in enumerate(messages):
        yield from _message(message, i)
    yield from _pairing(messages)
    yield from _tools(body)
    yield from _format(body.get("response_format"), messages)


def _top(body: dict[str, Any]) -> Iterator[Rejection]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Rejection("you must provide a model parameter")
    for name in sorted(body.keys() - _TOP - _DIALECTS):
        yield Rejection(f"Unrecognized request argument supplied: {name}")
    if "stream_options" in body and not body.get("stream"):
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Rejection(text, param="stream_options")
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(body.get(name), int) and body[name] < 1:
            yield Rejection(
                f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {body[name]} instead.",
                param=name,
                code="integer_below_min_value",
            )
    key = body.get("prompt_cache_key")
    if isinstance(key, str) and len(key) > MAX_CACHE_KEY:
        yield too_long("prompt_cache_key", MAX_CACHE_KEY, key)


def _message(message: Any, i: int) -> Iterator[Rejection]:
    at = f"messages[{i}]"
    if not isinstance(message, dict):
        yield wrong_type(at, "an object", message)
        return
    role = str(message.get("role"))
    if role not in _FIELDS:
        text = f"Invalid value: '{role}'. Supported values are: {_ROLES}."
        yield Rejection(text, param=f"{at}.role", code="invalid_value")
        return
    for name in sorted(message.keys() - _FIELDS[role]):
        yield unknown(f"{at}.{name}")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield missing(f"{at}.tool_call_id")
    if message.get("content") is None:
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal") or message.get("audio")):
            text = "Invalid value for 'content': expected a string, got null."
            yield Rejection(text, param=f"messages.[{i}].content")
    else:
        yield from _content(message["content"], role, i)
    if "tool_calls" in message:
        yield from _calls(message["tool_calls"], at)


def _content(content: Any, role: str, i: int) -> Iterator[Rejection]:
    at = f"messages[{i}].content"
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield wrong_type(at, "one of a string or array of objects", content)
        return
    if not content:
        yield empty_array(at)
    for k, part in enumerate(content):
        kind = str(part.get("type")) if isinstance(part, dict) else None
        if kind == "thinking" and role == "assistant":
            continue  # Mistral gives reasoning as parts, and wants them back
        if kind not in _PARTS:
            text = f"Invalid value: '{kind}'. Supported values are: {_PART_NAMES}."
            yield Rejection(text, param=f"{at}[{k}].type", code="invalid_value")
            continue
        if kind == "image_url" and role != "user":
            text = (
                f"Invalid 'messages[{i}]'. Image URLs are only allowed for messages with role 'user', but this message "
                f"with role '{role}' contains an image URL."
            )
            yield Rejection(text, param=f"messages[{i}]", code="invalid_value")
        for name in sorted(part.keys() - _PARTS[kind]):
            yield unknown(f"{at}[{k}].{name}")
        yield from _part(part, kind, f"{at}[{k}]")


def _part(part: dict[str, Any], kind: str, at: str) -> Iterator[Rejection]:
    if kind not in part:
        yield missing(f"{at}.{kind}")
    elif kind in ("text", "refusal") and not isinstance(part[kind], str):
        yield wrong_type(f"{at}.{kind}", "a string", part[kind])
    elif kind == "image_url":
        url = part[kind].get("url") if isinstance(part[kind], dict) else None
        if not isinstance(url, str):
            yield missing(f"{at}.image_url.url")
        else:
            yield from image_faults(url)


def _calls(calls: Any, at: str) -> Iterator[Rejection]:
    at = f"{at}.tool_calls"
    if not isinstance(calls, list):
        yield wrong_type(at, "an array of objects", calls)
        return
    if not calls:
        yield empty_array(at)
    for k, call in enumerate(calls):
        if not isinstance(call, dict):
            yield wrong_type(f"{at}[{k}]", "an object", call)
            continue
        for name in sorted(call.keys() - {"id", "type", "function", "index", "extra_content"}):
            yield unknown(f"{at}[{k}].{name}")
        yield from _call_id(call.get("id"), f"{at}[{k}].id")
        if call.get("type") != "function":
            text = f"Invalid value: '{call.get('type')}'. Supported values are: 'function' and 'custom'."
            yield Rejection(text, param=f"{at}[{k}].type", code="invalid_value")
        yield from _call_function(call.get("function"), f"{at}[{k}].function")


def _call_id(value: Any, at: str) -> Iterator[Rejection]:
    if not isinstance(value, str):
        yield missing(at) if value is None else wrong_type(at, "a string", value)
    elif not value:
        text = f"Invalid '{at}': empty string. Expected a string with minimum length 1, but got an empty string"
        text += " instead."
        yield Rejection(text, param=at, code="empty_string")
    elif len(value) > MAX_ID:
        yield too_long(at, MAX_ID, value)


def _call_function(function: Any, at: str) -> Iterator[Rejection]:
    if not isinstance(function, dict):
        yield missing(at)
        return
    yield from name_faults(function.get("name"), f"{at}.name")
    if "arguments" not in function:
        yield missing(f"{at}.arguments")
    elif not isinstance(function["arguments"], str):
        yield wrong_type(f"{at}.arguments", "a string", function["arguments"])


def _pairing(messages: list[Any]) -> Iterator[Rejection]:
    """Each group of calls is followed at once by one tool message for each of them."""
    open_ids: list[str] = []
    answered: dict[str, int] = {}
    in_group = False
    for i, message in enumerate(objects(messages)):
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            if not in_group:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'."
                )
                yield Rejection(text, param=f"messages.[{i}].role")
            elif call_id in answered:
                yield _duplicate(call_id, answered[call_id], i)
            elif call_id not in open_ids:
                text = f"'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
                yield Rejection(f"Invalid parameter: {text}", param=f"messages.[{i}].tool_call_id")
            else:
                open_ids.remove(call_id)
            answered[call_id] = i
            continue
        if open_ids:
            yield _unanswered(open_ids, i)
        open_ids = [str(call.get("id")) for call in objects(message.get("tool_calls"))]
        in_group = bool(open_ids)
        for k, call_id in enumerate(open_ids):
            if call_id in open_ids[:k]:
                yield _duplicate(call_id, i, i)
    if open_ids:
        yield _unanswered(open_ids, len(messages))


def _duplicate(call_id: str, first: int, second: int) -> Rejection:
    return Rejection(
        f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in messages[{first}] and "
        f"messages[{second}].",
        param=f"messages.[{second}].tool_call_id",
    )


def _unanswered(ids: list[str], i: int) -> Rejection:
    return Rejection(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(ids)}",
        param=f"messages.[{i}].role",
    )


def _tools(body: dict[str, Any]) -> Iterator[Rejection]:
    tools = body.get("tools")
    if tools is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                yield Rejection(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.", param=name
                )
        return
    if not isinstance(tools, list):
        yield wrong_type("tools", "an array of objects", tools)
        return
    if not tools:
        yield empty_array("tools")
    if len(tools) > MAX_TOOLS:
        text = (
            f"Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, but got an array "
            f"with length {len(tools)} instead."
        )
        yield Rejection(text, param="tools", code="array_above_max_length")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        text = f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."
        yield Rejection(text, param="tool_choice", code="invalid_value")
    seen: set[str] = set()
    for i, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            yield missing(f"tools[{i}].function")
            continue
        yield from tool_faults(function, f"tools[{i}].function")
        if function.get("name") in seen:
            yield Rejection("Tool names must be unique.", param=f"tools[{i}].function.name")
        seen.add(str(function.get("name")))


def _format(form: Any, messages: list[Any]) -> Iterator[Rejection]:
    if form is None:
        return
    kind = form.get("type") if isinstance(form, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        text = f"Invalid value: '{kind}'. Supported values are: 'json_object', 'json_schema', and 'text'."
        yield Rejection(text, param="response_format.type", code="invalid_value")
    elif kind == "json_object" and "json" not in repr(messages).lower():
        text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        yield Rejection(text, param="messages")
    elif kind == "json_schema":
        yield from form_faults(form.get("json_schema"), "response_format.json_schema", "response_format")
