"""What the Messages API refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from orkas.testing.rules.base import Rejection, blank, has_lone_surrogate, no_json, objects, words
from orkas.testing.rules.schema import schema_fault
from orkas.testing.rules.thinking import thinking_faults

__all__ = ["check_anthropic"]

_TOP = words(
    "cache_control container context_management diagnostics inference_geo max_tokens mcp_servers messages metadata"
    " model output_config output_format service_tier speed stop_sequences stream system temperature thinking"
    " tool_choice tools top_k top_p user_profile_id workspace_id"
)
_BLOCKS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    kind: (words(must), words(may))
    for kind, must, may in (
        ("text", "text", "cache_control citations"),
        ("image", "source", "cache_control transformations"),
        ("document", "source", "cache_control citations context title"),
        ("search_result", "content source title", "cache_control citations"),
        ("thinking", "signature thinking", ""),
        ("redacted_thinking", "data", ""),
        ("tool_use", "id input name", "cache_control caller toolset_name"),
        ("tool_result", "tool_use_id", "cache_control content is_error toolset_name"),
    )
}
"""Kind of block: the fields it must have, the fields it may have."""
_SERVER_BLOCKS = re.compile(r"server_tool_use|mcp_tool_use|container_upload|compaction|fallback|.+_tool_result")
"""Blocks of tools that the vendor runs itself: they come from the vendor and go back as they came."""
_ONLY_USER = ("tool_result", "image", "document", "search_result")
_ONLY_ASSISTANT = ("tool_use", "thinking", "redacted_thinking")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_ID, MAX_MARKS = 64, 4

_NEXT = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
_PREVIOUS = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."


def check_anthropic(body: Any, *, signatures: Mapping[str, str] | None = None) -> Rejection | None:
    """The refusal of this request body, or None.

    ``signatures``: the thinking that was given out, by its signature (for redacted thinking: by its data). A thinking
    block that is not among them, or whose text differs, is refused. None: any signature is taken for good.
    """
    return next(_faults(body, signatures), None)


def _faults(body: Any, signatures: Mapping[str, str] | None) -> Iterator[Rejection]:
    if not isinstance(body, dict):
        yield Rejection("Input should be a valid dictionary")
        return
    if has_lone_surrogate(body):
        yield no_json("anthropic", "no low surrogate in string")
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield Rejection(f"{name}: Field required")
    for name in sorted(body.keys() - _TOP):
        yield Rejection(f"{name}: Extra inputs are not permitted")
    if not isinstance(body["max_tokens"], int):
        yield Rejection("max_tokens: Input should be a valid integer")
    elif body["max_tokens"] < 1:
        yield Rejection("max_tokens: Input should be greater than or equal to 1")
    yield from _system(body.get("system"))
    messages = body["messages"]
    if not isinstance(messages, list):
        yield Rejection("messages: Input should be a valid array")
        return
    if not messages:
        yield Rejection("messages: at least one message is required")
        return
    for i, message in enumerate(messages):
        yield from _message(message, i, last=i == len(messages) - 1)
    yield from _order(messages)
    yield from _pairing(messages)
    yield from thinking_faults(body, messages, signatures)
    yield from _marks(body)
    yield from _tools(body)
    yield from _output(body.get("output_config"))


_BOUNDS = words(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems"
    " minProperties maxProperties patternProperties oneOf not if then else"
)


def _output(config: Any) -> Iterator[Rejection]:
    if not isinstance(config, dict):
        return
    for name in sorted(config.keys() - {"effort", "format", "task_budget"}):
        yield Rejection(f"output_config.{name}: Extra inputs are not permitted")
    form = config.get("format")
    if form is None:
        return
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        yield Rejection("output_config.format.type: Input should be 'json_schema'")
    elif not isinstance(form.get("schema"), dict):
        yield Rejection("output_config.format.schema: Field required")
    else:
        yield from _closed(form["schema"])


def _closed(schema: Any) -> Iterator[Rejection]:
    at = "output_config.format.schema"
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind == "object" and schema.get("additionalProperties") is not False:
        yield Rejection(f"{at}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    if bounds := sorted(schema.keys() & _BOUNDS):
        yield Rejection(f"{at}: For '{kind}' type, properties {', '.join(bounds)} are not supported")
    for key in ("properties", "$defs", "definitions"):
        for inner in (schema.get(key) or {}).values():
            yield from _closed(inner)
    for inner in [*(schema.get("anyOf") or []), *(schema.get("allOf") or []), schema.get("items")]:
        yield from _closed(inner)


def _system(system: Any) -> Iterator[Rejection]:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield Rejection("system: Input should be a valid array")
        return
    for i, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield Rejection(f"system.{i}.type: Input should be 'text'")
        elif blank(block.get("text")):
            yield Rejection("system: text content blocks must be non-empty")
        else:
            yield from _fields(block, f"system.{i}", _BLOCKS["text"])


def _message(message: Any, i: int, *, last: bool) -> Iterator[Rejection]:
    if not isinstance(message, dict):
        yield Rejection(f"messages.{i}: Input should be a valid dictionary")
        return
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        yield Rejection(
            f'messages: Unexpected role "{role}". The Messages API accepts a top-level `system` parameter, not "system"'
            " as an input message role."
        )
    for name in message.keys() - {"role", "content"}:
        yield Rejection(f"messages.{i}.{name}: Extra inputs are not permitted")
    if "content" not in message:
        yield Rejection(f"messages.{i}.content: Field required")
    elif not isinstance(content, str | list):
        yield Rejection(f"messages.{i}.content: Input should be a valid array")
    elif not content and not (last and role == "assistant"):
        yield Rejection(
            f"messages.{i}: all messages must have non-empty content except for the optional final assistant message"
        )
    elif isinstance(content, str):
        yield from _text(content)
    else:
        for k, block in enumerate(content):
            yield from _block(block, str(role), f"messages.{i}.content.{k}")
        yield from _last_block(content, i)


def _text(text: Any) -> Iterator[Rejection]:
    if text == "":
        yield Rejection("messages: text content blocks must be non-empty")
    elif blank(text):
        yield Rejection("messages: text content blocks must contain non-whitespace text")


def _last_block(content: list[Any], i: int) -> Iterator[Rejection]:
    kind = content[-1].get("type") if content and isinstance(content[-1], dict) else ""
    if kind in ("thinking", "redacted_thinking"):
        yield Rejection(f"messages.{i}: The final block in an assistant message cannot be `{kind}`.")


def _block(block: Any, role: str, at: str) -> Iterator[Rejection]:
    kind = str(block.get("type")) if isinstance(block, dict) else "None"
    if kind not in _BLOCKS:
        if not _SERVER_BLOCKS.fullmatch(kind):
            tags = ", ".join(f"'{name}'" for name in _BLOCKS)
            yield Rejection(
                f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
            )
        return
    yield from _fields(block, f"{at}.{kind}", _BLOCKS[kind])
    if role == "user" and kind in _ONLY_ASSISTANT:
        yield Rejection(f"{at}: `{kind}` blocks can only be in `assistant` messages")
    if role == "assistant" and kind in _ONLY_USER:
        yield Rejection(f"{at}: `{kind}` blocks can only be in `user` messages")
    match kind:
        case "text":
            if blank(block["text"]) and block.get("cache_control"):
                yield Rejection(f"{at}.text: cache_control cannot be set for empty text blocks")
            if not isinstance(block["text"], str):
                yield Rejection(f"{at}.text.text: Input should be a valid string")
            yield from _text(block["text"])
        case "thinking" | "redacted_thinking":
            yield from _strings(block, f"{at}.{kind}")
        case "image":
            yield from _image(block["source"], f"{at}.image.source")
        case "tool_use":
            yield from _tool_use(block, f"{at}.tool_use")
        case "tool_result":
            yield from _tool_result(block, f"{at}.tool_result")


def _fields(block: dict[str, Any], at: str, allowed: tuple[frozenset[str], frozenset[str]]) -> Iterator[Rejection]:
    must, may = allowed
    for name in sorted(must - block.keys()):
        yield Rejection(f"{at}.{name}: Field required")
    for name in sorted(block.keys() - must - may - {"type"}):
        yield Rejection(f"{at}.{name}: Extra inputs are not permitted")


def _strings(block: dict[str, Any], at: str) -> Iterator[Rejection]:
    for name, value in block.items():
        if not isinstance(value, str):
            yield Rejection(f"{at}.{name}: Input should be a valid string")


def _image(source: Any, at: str) -> Iterator[Rejection]:
    kind = source.get("type") if isinstance(source, dict) else None
    if kind not in ("base64", "url", "file"):
        yield Rejection(
            f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'base64', 'url', "
            "'file'"
        )
    elif kind == "base64":
        if source.get("media_type") not in _IMAGES:
            yield Rejection(
                f"{at}.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
            )
        if not source.get("data"):
            yield Rejection(f"{at}.base64.data: Field required")


def _tool_use(block: dict[str, Any], at: str) -> Iterator[Rejection]:
    yield from _id(block["id"], f"{at}.id")
    if not isinstance(block["input"], dict):
        yield Rejection(f"{at}.input: Input should be a valid dictionary")
    if not isinstance(block["name"], str) or not block["name"]:
        yield Rejection(f"{at}.name: String should have at least 1 character")


def _tool_result(block: dict[str, Any], at: str) -> Iterator[Rejection]:
    yield from _id(block["tool_use_id"], f"{at}.tool_use_id")
    content = block.get("content")
    if content is not None and not isinstance(content, str | list):
        yield Rejection(f"{at}.content: Input should be a valid array")
    for k, inner in enumerate(content if isinstance(content, list) else []):
        kind = inner.get("type") if isinstance(inner, dict) else None
        if kind not in ("text", "image", "document", "search_result"):
            yield Rejection(
                f"{at}.content.{k}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
                "'text', 'image', 'document', 'search_result'"
            )
        else:
            yield from _block(inner, "user", f"{at}.content.{k}")
    if block.get("is_error") and not content:
        yield Rejection(f"{at}: content cannot be empty if `is_error` is true")


def _id(value: Any, at: str) -> Iterator[Rejection]:
    if not isinstance(value, str):
        yield Rejection(f"{at}: Input should be a valid string")
    elif not _ID.fullmatch(value):
        yield Rejection(f"{at}: String should match pattern '^[a-zA-Z0-9_-]+$'")
    elif len(value) > MAX_ID:
        yield Rejection(f"{at}: String should have at most {MAX_ID} characters")


def _order(messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    if messages[0]["role"] != "user":
        yield Rejection('messages: first message must use the "user" role')
    last = messages[-1]
    if last["role"] == "assistant" and not any(b.get("type") == "tool_use" for b in objects(last["content"])):
        yield Rejection(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _pairing(messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    """All results of a group stand at the head of the very next message, each exactly once."""
    seen: set[str] = set()
    open_ids: list[str] = []
    for i, message in enumerate(messages):
        blocks = objects(message["content"])
        head = _head_results(blocks)
        for k, block in enumerate(blocks):
            yield from _result_faults(block, open_ids, head[:k], f"messages.{i}.content.{k}")
        if missing := [call_id for call_id in open_ids if call_id not in head]:
            yield _without_result(i - 1, missing)
        uses = [(k, str(b["id"])) for k, b in enumerate(blocks) if b["type"] == "tool_use"]
        for k, call_id in uses:
            if call_id in seen:
                yield Rejection(f"messages.{i}.content.{k}: `tool_use` ids must be unique")
            seen.add(call_id)
        if early := [call_id for k, call_id in uses if any(b["type"] == "text" for b in blocks[k + 1 :])]:
            yield _without_result(i, early)
        open_ids = [call_id for _, call_id in uses]
    if open_ids:
        yield _without_result(len(messages) - 1, open_ids)


def _head_results(blocks: list[dict[str, Any]]) -> list[str]:
    """Ids of the results before the first block of another kind."""
    ids: list[str] = []
    for block in blocks:
        if block["type"] != "tool_result":
            break
        ids.append(str(block["tool_use_id"]))
    return ids


def _result_faults(block: dict[str, Any], open_ids: list[str], before: list[str], at: str) -> Iterator[Rejection]:
    if block["type"] != "tool_result":
        return
    call_id = str(block["tool_use_id"])
    if call_id not in open_ids:
        yield Rejection(f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. {_PREVIOUS}")
    if call_id in before:
        yield Rejection(
            f"{at}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call_id}"
        )


def _without_result(i: int, ids: list[str]) -> Rejection:
    text = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. {_NEXT}"
    return Rejection(f"messages.{i}: {text}")


def _marks(body: dict[str, Any]) -> Iterator[Rejection]:
    """The mark on the request itself takes one of the places."""
    count = sum(_count_marks(body.get(name)) for name in ("messages", "system", "tools"))
    count += body.get("cache_control") is not None
    if count > MAX_MARKS:
        yield Rejection(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {count}.")


def _count_marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_count_marks, value))
    if isinstance(value, dict):
        return (value.get("cache_control") is not None) + _count_marks(value.get("content"))
    return 0


def _tools(body: dict[str, Any]) -> Iterator[Rejection]:
    tools = body.get("tools")
    if tools is None:
        if body.get("tool_choice") is not None:
            yield Rejection("tool_choice: may only be specified while providing tools")
        return
    if not isinstance(tools, list):
        yield Rejection("tools: Input should be a valid array")
        return
    names = [str(tool.get("name")) for tool in objects(tools)]
    for i, tool in enumerate(objects(tools)):
        if tool.get("type", "custom") == "custom":
            yield from _tool(tool, f"tools.{i}.custom")
        elif tool["type"] == "web_search_20250305":
            yield from _web_search(tool, f"tools.{i}.web_search_20250305")
    if len(set(names)) < len(names):
        yield Rejection("tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if choice is not None and kind not in ("auto", "any", "tool", "none"):
        yield Rejection(
            f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'auto', "
            "'any', 'tool', 'none'"
        )
    if isinstance(choice, dict) and kind == "tool" and choice.get("name") not in names:
        yield Rejection(f"Tool '{choice.get('name')}' not found in provided tools")


_SEARCH_FIELDS = (
    words("name"),
    words("allowed_callers allowed_domains blocked_domains cache_control defer_loading max_uses strict user_location"),
)


def _web_search(tool: dict[str, Any], at: str) -> Iterator[Rejection]:
    """Anthropic's own search, in the version of its first general release."""
    yield from _fields(tool, at, _SEARCH_FIELDS)
    if tool["name"] != "web_search":
        yield Rejection(f"{at}.name: Input should be 'web_search'")
    uses = tool.get("max_uses")
    if uses is not None and (not isinstance(uses, int) or uses < 1):
        yield Rejection(f"{at}.max_uses: Input should be greater than 0")
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        yield Rejection(f"{at}: only one of `allowed_domains` or `blocked_domains` can be specified")


_TOOL_FIELDS = (
    words("name input_schema"),
    words(
        "type description cache_control strict allowed_callers defer_loading eager_input_streaming input_examples"
    ),
)


def _tool(tool: dict[str, Any], at: str) -> Iterator[Rejection]:
    yield from _fields(tool, at, _TOOL_FIELDS)
    if not isinstance(tool["name"], str) or not _NAME.fullmatch(tool["name"]):
        yield Rejection(f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    schema = tool["input_schema"]
    if not isinstance(schema, dict):
        yield Rejection(f"{at}.input_schema: Input should be a valid dictionary")
        return
    if schema.get("type") != "object":
        fault = "Input should be 'object'" if "type" in schema else "Field required"
        yield Rejection(f"{at}.input_schema.type: {fault}")
    if schema.keys() & {"anyOf", "oneOf", "allOf"}:
        yield Rejection(f"{at}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
    if schema_fault({"properties": {}, **schema}) is not None:
        yield Rejection(
            f"{at}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
            "(https://json-schema.org/draft/2020-12). Learn more about tool use at "
            "https://docs.claude.com/en/docs/tool-use."
        )
