"""What the Responses API refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

__all__ = ["check_openai_responses"]

_TOP = words(
    "background context_management conversation include input instructions max_output_tokens max_tool_calls metadata"
    " model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options"
    " prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text"
    " tool_choice tools top_logprobs top_p truncation user"
)
_INCLUDE = words(
    "web_search_call.action.sources web_search_call.results code_interpreter_call.outputs file_search_call.results"
    " computer_call_output.output.image_url message.input_image.image_url message.output_text.logprobs"
    " reasoning.encrypted_content"
)
_EFFORTS = words("none minimal low medium high xhigh max")
_FIELDS = {
    "message": words("type id role content status phase"),
    "reasoning": words("type id summary content encrypted_content status"),
    "function_call": words("type id call_id name arguments status namespace caller"),
    "function_call_output": words("type id call_id output status name namespace caller"),
    "custom_tool_call": words("type id call_id name input status namespace caller"),
    "custom_tool_call_output": words("type id call_id output status caller"),
}
_NEEDED = {
    "message": ("role", "content"),
    "reasoning": ("summary",),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
}
_SERVERS_OWN = words(
    "item_reference web_search_call file_search_call computer_call computer_call_output image_generation_call"
    " code_interpreter_call local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call"
    " apply_patch_call_output mcp_list_tools mcp_approval_request mcp_approval_response mcp_call tool_search_call"
    " tool_search_output compaction compaction_trigger additional_tools program program_output"
)
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_CALLS = ("function_call", "custom_tool_call")
_GIVEN = ("input_text", "input_image", "input_file")
MAX_ID, LEAST_OUTPUT = 64, 16
"""Characters of an id, and the smallest limit of output, as the vendor's refusals state them."""


def check_openai_responses(
    body: Any, *, seals: Mapping[str, str] | None = None, bonds: Mapping[str, str] | None = None
) -> Rejection | None:
    """The refusal of this request body, or None.

    ``seals``: the sealed reasoning that was given out; ``bonds``: the reasoning item (its id) that each other item (its
    id) came behind. None: not looked at.
    """
    return next(_faults(body, seals, bonds), None)


def _faults(body: Any, seals: Mapping[str, str] | None, bonds: Mapping[str, str] | None) -> Iterator[Rejection]:
    if not isinstance(body, dict):
        yield wrong_type("body", "an object", body)
        return
    if has_lone_surrogate(body):
        yield no_json("responses", "")
    yield from _top(body)
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if items is None:
        yield missing("input")
    elif not isinstance(items, list):
        yield wrong_type("input", "one of a string or array of input items", items)
    else:
        if not items and not body.get("previous_response_id"):
            yield empty_array("input")
        for i, item in enumerate(items):
            yield from _item(item, f"input[{i}]")
        yield from _together(objects(items), body, seals, bonds)
    yield from _tools(body)
    yield from _form(body.get("text"), body)


def _form(text: Any, body: dict[str, Any]) -> Iterator[Rejection]:
    if text is None:
        return
    if not isinstance(text, dict):
        yield wrong_type("text", "an object", text)
        return
    for name in sorted(text.keys() - {"format", "verbosity"}):
        yield unknown(f"text.{name}")
    form = text.get("format")
    if form is None:
        return
    kind = form.get("type") if isinstance(form, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        said = f"Invalid value: '{kind}'. Supported values are: 'json_object', 'json_schema', and 'text'."
        yield Rejection(said, param="text.format.type", code="invalid_value")
    elif kind == "json_object" and "json" not in repr(body.get("input")).lower():
        said = (
            "Response input messages must contain the word 'json' in some form to use 'text.format' of type "
            "'json_object'."
        )
        yield Rejection(said, param="input")
    elif kind == "json_schema" and isinstance(form, dict):
        yield from form_faults({k: v for k, v in form.items() if k != "type"}, "text.format", "text.format")


def _top(body: dict[str, Any]) -> Iterator[Rejection]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield missing("model")
    for name in sorted(body.keys() - _TOP):
        yield unknown(name)
    limit = body.get("max_output_tokens")
    if isinstance(limit, int) and limit < LEAST_OUTPUT:
        yield Rejection(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= "
            f"{LEAST_OUTPUT}, but got {limit} instead.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )
    key = body.get("prompt_cache_key")
    if isinstance(key, str) and len(key) > MAX_CACHE_KEY:
        yield too_long("prompt_cache_key", MAX_CACHE_KEY, key)
    include = body.get("include")
    for i, name in enumerate(include if isinstance(include, list) else ()):
        if str(name) not in _INCLUDE:
            yield _no_value(str(name), _INCLUDE, f"include[{i}]")
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    if effort is not None and str(effort) not in _EFFORTS:
        yield _no_value(str(effort), _EFFORTS, "reasoning.effort")


def _item(item: Any, at: str) -> Iterator[Rejection]:
    if not isinstance(item, dict):
        yield wrong_type(at, "an object", item)
        return
    kind = item.get("type") or ("message" if "role" in item else None)
    if kind in _SERVERS_OWN if isinstance(kind, str) else False:
        return
    if not isinstance(kind, str) or kind not in _FIELDS:
        yield _no_value(str(kind), [*_FIELDS, *_SERVERS_OWN], at)
        return
    for name in sorted(map(str, item.keys() - _FIELDS[kind])):
        yield unknown(f"{at}.{name}")
    for name in _NEEDED[kind]:
        if item.get(name) is None:
            yield missing(f"{at}.{name}")
    yield from _ids(item, kind, at)
    if kind == "message":
        yield from _message(item, at)
    elif kind in _CALLS:
        yield from name_faults(item.get("name"), f"{at}.name")
        if not isinstance(given := item.get("arguments", item.get("input")), str):
            yield wrong_type(f"{at}.arguments", "a string", given)
    elif kind == "reasoning":
        if not isinstance(item.get("summary"), list):
            yield wrong_type(f"{at}.summary", "an array of objects", item.get("summary"))
    else:
        yield from _output(item.get("output"), f"{at}.output")


def _ids(item: dict[str, Any], kind: str, at: str) -> Iterator[Rejection]:
    for name in ("id", "call_id"):
        value = item.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            yield wrong_type(f"{at}.{name}", "a string", value)
        elif not value:
            text = f"Invalid '{at}.{name}': empty string. Expected a string with minimum length 1, but got an empty"
            yield Rejection(f"{text} string instead.", param=f"{at}.{name}", code="empty_string")
        elif len(value) > MAX_ID:
            yield too_long(f"{at}.{name}", MAX_ID, value)
        elif name == "id" and kind in _PREFIXES and not value.startswith((_PREFIXES[kind], "ct_")):
            text = f"Invalid '{at}.id': '{value}'. Expected an ID that begins with '{_PREFIXES[kind]}'."
            yield Rejection(text, param=f"{at}.id", code="invalid_value")


def _message(item: dict[str, Any], at: str) -> Iterator[Rejection]:
    role, content = str(item.get("role")), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield _no_value(role, ["assistant", "system", "developer", "user"], f"{at}.role")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield wrong_type(f"{at}.content", "one of a string or array of content parts", content)
        return
    allowed = ("output_text", "refusal") if role == "assistant" else _GIVEN
    yield from _parts(content, allowed, f"{at}.content")


def _output(output: Any, at: str) -> Iterator[Rejection]:
    if isinstance(output, list):
        yield from _parts(output, _GIVEN, at)
    elif not isinstance(output, str):
        yield wrong_type(at, "one of an array of objects or string", output)


def _parts(parts: list[Any], allowed: tuple[str, ...], at: str) -> Iterator[Rejection]:
    for k, part in enumerate(parts):
        kind = str(part.get("type")) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            yield wrong_type(f"{at}[{k}]", "an object", part)
        elif kind not in allowed:
            yield _no_value(str(kind), allowed, f"{at}[{k}]")
        elif kind in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            yield missing(f"{at}[{k}].text")
        elif kind == "input_image" and isinstance(url := part.get("image_url"), str):
            if not url.startswith(("data:", "http://", "https://", "<elided")):
                yield Rejection(
                    f"Invalid '{at}[{k}].image_url'. Expected a valid URL, but got a value with an invalid format.",
                    param=f"{at}[{k}].image_url",
                    code="invalid_value",
                )
            yield from image_faults(url)
        elif kind == "input_image" and not part.get("file_id"):
            yield missing(f"{at}[{k}].image_url")


# ------------------------------------------------------------------ items among one another


def _together(
    items: list[dict[str, Any]],
    body: dict[str, Any],
    seals: Mapping[str, str] | None,
    bonds: Mapping[str, str] | None,
) -> Iterator[Rejection]:
    kept = body.get("previous_response_id") is not None or body.get("conversation") is not None
    if not kept:
        yield from _pairing(items)
    yield from _duplicates(items)
    for i, item in enumerate(items):
        if item.get("type") == "reasoning":
            yield from _sealed(item, seals, stored=body.get("store") is not False)
            if not _follows(items[i + 1] if i + 1 < len(items) else None):
                yield Rejection(
                    f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
                    param="input",
                )
        elif bonds and (needed := bonds.get(str(item.get("id")))) and not any(o.get("id") == needed for o in items[:i]):
            yield Rejection(
                f"Item '{item.get('id')}' of type '{item.get('type')}' was provided without its required 'reasoning' "
                f"item: '{needed}'.",
                param="input",
            )


def _follows(item: dict[str, Any] | None) -> bool:
    """It can be what a reasoning item was about: more from the model itself."""
    if item is None:
        return False
    kind = str(item.get("type") or "message")
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _sealed(item: dict[str, Any], seals: Mapping[str, str] | None, *, stored: bool) -> Iterator[Rejection]:
    seal, id = item.get("encrypted_content"), item.get("id")
    if not seal and not item.get("content") and not stored:
        yield Rejection(
            f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with "
            "`store` set to true, or remove this item from your input.",
            404,
            "invalid_request_error",
            "input",
        )
    elif seal and seals is not None and str(seal) not in seals:
        text = f"The encrypted content {str(seal)[:4]}...{str(seal)[-4:]} could not be verified."
        yield Rejection(text, code="invalid_encrypted_content")


def _duplicates(items: list[dict[str, Any]]) -> Iterator[Rejection]:
    seen: set[str] = set()
    for item in items:
        if isinstance(id := item.get("id"), str):
            if id in seen:
                text = f"Duplicate item found with id {id}. Remove duplicate items from your input and try again."
                yield Rejection(text, param="input")
            seen.add(id)


def _pairing(items: list[dict[str, Any]]) -> Iterator[Rejection]:
    """Each call has one output behind it, and each output a call before it."""
    waiting: dict[str, str] = {}
    for item in items:
        kind, id = item.get("type"), str(item.get("call_id"))
        if kind in _CALLS:
            if id in waiting:
                yield _no_output(id, waiting[id])
            waiting[id] = str(kind)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            wanted = str(kind).removesuffix("_output")
            if waiting.pop(id, None) != wanted:
                word = _WORDS[wanted]
                yield Rejection(f"No tool call found for {word} output with call_id {id}.", param="input")
    for id, kind in waiting.items():
        yield _no_output(id, kind)


_WORDS = {"function_call": "function call", "custom_tool_call": "custom tool call"}


def _no_output(id: str, kind: str) -> Rejection:
    return Rejection(f"No tool output found for {_WORDS[kind]} {id}.", param="input")


# ------------------------------------------------------------------ tools


def _tools(body: dict[str, Any]) -> Iterator[Rejection]:
    tools, choice = body.get("tools"), body.get("tool_choice", "auto")
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        yield _no_value(choice, ["none", "auto", "required"], "tool_choice")
    if not tools and choice == "required":
        yield Rejection("Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice")
    most = body.get("max_tool_calls")
    if most is not None and (not isinstance(most, int) or most < 1):
        yield wrong_type("max_tool_calls", "an integer of at least 1", most)
    if tools is None:
        return
    if not isinstance(tools, list):
        yield wrong_type("tools", "an array of objects", tools)
        return
    if len(tools) > MAX_TOOLS:
        text = (
            f"Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, but got an array "
            f"with length {len(tools)} instead."
        )
        yield Rejection(text, param="tools", code="array_above_max_length")
    seen: set[str] = set()
    for i, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield wrong_type(f"tools[{i}]", "an object", tool)
        elif tool.get("type") == "function":
            known = words("type defer_loading allowed_callers output_schema")
            yield from tool_faults({k: v for k, v in tool.items() if k not in known}, f"tools[{i}]")
            if str(tool.get("name")) in seen:
                yield Rejection("Tool names must be unique.", param=f"tools[{i}].name")
            seen.add(str(tool.get("name")))
        elif not isinstance(tool.get("type"), str):
            yield missing(f"tools[{i}].type")
        elif tool["type"] in ("web_search", "web_search_2025_08_26"):
            for name in sorted(tool.keys() - _SEARCH):
                yield unknown(f"tools[{i}].{name}")


_SEARCH = words("type external_web_access filters search_context_size user_location return_token_budget")


def _no_value(value: str, supported: Any, at: str) -> Rejection:
    names = [f"'{name}'" for name in (sorted(supported) if isinstance(supported, frozenset) else supported)]
    listed = f"{', '.join(names[:-1])}, and {names[-1]}" if len(names) > 2 else " and ".join(names)
    return Rejection(
        f"Invalid value: '{value}'. Supported values are: {listed}.", param=at, code="invalid_value"
    )
