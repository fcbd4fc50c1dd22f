"""What Converse refuses, in Amazon's words."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from orkas.testing.rules.base import Rejection, blank, has_lone_surrogate, objects, words

__all__ = ["check_bedrock"]

_TOP = words(
    "messages system inferenceConfig toolConfig additionalModelRequestFields additionalModelResponseFieldPaths"
    " guardrailConfig performanceConfig promptVariables requestMetadata model"
)
_BLOCKS = words(
    "text image document video toolUse toolResult guardContent cachePoint reasoningContent citationsContent"
)
_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CACHED = re.compile(r"nova-|claude-(?:3-5-haiku|3-5-sonnet-20241022|3-7|(?:opus|sonnet|haiku)-)")
_MARKS = 4
_ERRORS = "The model returned the following errors"


def check_bedrock(body: dict[str, Any], *, model: str, signatures: Mapping[str, str] | None = None) -> Rejection | None:
    """The refusal of one request body to this model, or None. ``signatures``: thinking that was given out, by its
    signature (redacted: by its data); None: any is good."""
    return next(_all(body, model, signatures), None)


def _all(body: dict[str, Any], model: str, signatures: Mapping[str, str] | None) -> Iterator[Rejection]:
    if has_lone_surrogate(body):
        yield Rejection("Unable to parse request body")
    for name in body:
        if name not in _TOP:
            yield Rejection(
                f"Malformed input request: #: extraneous key [{name}] is not permitted, please reformat your input and "
                "try again."
            )
    messages = objects(body.get("messages"))
    if not messages:
        yield _invalid("null", "messages", "Member must not be null")
    for i, message in enumerate(messages):
        yield from _message(message, i)
    yield from _system(body)
    yield from _pairs(messages)
    yield from _order(messages)
    if any(maker in model for maker in ("mistral.", "meta.", "ai21.")):
        yield from _unmixed(messages)
    yield from _tools(body, messages)
    yield from _marks(body, messages, model)
    yield from _thinking(body, messages, model, signatures)


def _message(message: dict[str, Any], i: int) -> Iterator[Rejection]:
    if message.get("role") not in ("user", "assistant"):
        rule = "Member must satisfy enum value set: [user, assistant]"
        yield _invalid(str(message.get("role")), f"messages.{i + 1}.member.role", rule)
    blocks = objects(message.get("content"))
    if not blocks:
        yield Rejection(
            f"The content field in the Message object at messages.{i} is empty. Add a ContentBlock object to the "
            "content field and try again."
        )
    for k, block in enumerate(blocks):
        yield from _block(block, f"messages.{i}.content.{k}", f"messages.{i + 1}.member.content.{k + 1}.member")


def _block(block: dict[str, Any], at: str, member: str) -> Iterator[Rejection]:
    if len(block) != 1 or not block.keys() <= _BLOCKS:
        yield Rejection(f"Unknown or several members at {at} for union structure ContentBlock: {', '.join(block)}")
    if "text" in block and (blank(block["text"]) or not isinstance(block["text"], str)):
        yield _blank(at)
    if "image" in block:
        yield from _image(block["image"])
    if "toolUse" in block:
        use = block["toolUse"]
        yield from _id(use.get("toolUseId"), f"{member}.toolUse.toolUseId")
        if not _NAME.fullmatch(str(use.get("name", ""))):
            yield _pattern(use.get("name"), f"{member}.toolUse.name", "[a-zA-Z0-9_-]+")
        if not isinstance(use.get("input"), dict):
            yield Rejection(
                f"The format of the value at {at}.toolUse.input is invalid. Provide a json object for the field and "
                "try again."
            )
    if "toolResult" in block:
        yield from _result(block["toolResult"], at, member)


def _result(result: dict[str, Any], at: str, member: str) -> Iterator[Rejection]:
    yield from _id(result.get("toolUseId"), f"{member}.toolResult.toolUseId")
    content = objects(result.get("content"))
    if not content and result.get("status") == "error":
        yield Rejection(f"The content field at {at}.toolResult cannot be empty when status value is error.")
    for k, part in enumerate(content):
        if "text" in part and blank(part["text"]):
            yield _blank(f"{at}.toolResult.content.{k}")
        if "image" in part:
            yield from _image(part["image"])


def _image(image: Any) -> Iterator[Rejection]:
    try:
        data = base64.b64decode(image["source"]["bytes"], validate=True)
    except (KeyError, TypeError, ValueError):
        yield Rejection("Invalid base64 string for image bytes")
        return
    if not data or image.get("format") not in ("png", "jpeg", "gif", "webp"):
        yield Rejection(f"{_ERRORS}: Could not process image")


def _blank(at: str) -> Rejection:
    return Rejection(
        f"The text field in the ContentBlock object at {at} is blank. Add text to the text field, and try again."
    )


def _id(id: Any, member: str) -> Iterator[Rejection]:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        yield _pattern(id, member, "[a-zA-Z0-9_.:-]+")


def _pattern(value: Any, member: str, pattern: str) -> Rejection:
    if isinstance(value, str) and len(value) > 64:
        return _invalid(value, member, "Member must have length less than or equal to 64")
    return _invalid(str(value), member, f"Member must satisfy regular expression pattern: {pattern}")


def _invalid(value: str, member: str, rule: str) -> Rejection:
    shown = value if value == "null" else f"'{value}'"
    return Rejection(f"1 validation error detected: Value {shown} at '{member}' failed to satisfy constraint: {rule}")


def _system(body: dict[str, Any]) -> Iterator[Rejection]:
    for k, block in enumerate(objects(body.get("system"))):
        if "text" in block and blank(block["text"]):
            yield Rejection(
                f"The text field in the SystemContentBlock object at system.{k} is blank. Add text to the text field, "
                "and try again."
            )
    limit = (body.get("inferenceConfig") or {}).get("maxTokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        rule = "Member must have value greater than or equal to 1"
        yield _invalid(str(limit), "inferenceConfig.maxTokens", rule)


def _order(messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    if messages and messages[0].get("role") != "user":
        yield Rejection(
            "A conversation must start with a user message. Try again with a conversation that starts with a user "
            "message."
        )
    for before, after in pairwise(messages):
        if before.get("role") == after.get("role"):
            yield Rejection(
                "A conversation must alternate between user and assistant roles. Make sure the conversation "
                "alternates between user and assistant roles and try again."
            )
    if messages and messages[-1].get("role") == "assistant":
        yield Rejection(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _of(message: dict[str, Any] | None, kind: str) -> list[dict[str, Any]]:
    return [b[kind] for b in objects((message or {}).get("content")) if kind in b]


def _pairs(messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    """Every call is answered in the very next message, once, before any words."""
    for i, message in enumerate(messages):
        before = messages[i - 1] if i else None
        called = [use["toolUseId"] for use in _of(before, "toolUse")]
        answered = [result["toolUseId"] for result in _of(message, "toolResult")]
        if len(set(called)) < len(called):
            yield Rejection(f"The toolUse blocks at messages.{i - 1}.content contain duplicate Ids: {called[0]}")
        if missing := [id for id in called if id not in answered]:
            yield _expected(i, missing)
        if len(answered) > len(called) or set(answered) - set(called):
            yield Rejection(
                f"The number of toolResult blocks at messages.{i}.content exceeds the number of toolUse blocks of "
                "previous turn."
            )
        kinds = ["toolResult" in block for block in objects(message.get("content"))]
        if True in kinds and not kinds[0]:
            yield Rejection(
                f"{_ERRORS}: messages.{i}: `tool_use` ids were found without "
                f"`tool_result` blocks immediately after: {answered[0]}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
    if messages and (left := _of(messages[-1], "toolUse")):
        yield _expected(len(messages), [use["toolUseId"] for use in left])


def _unmixed(messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    for i, message in enumerate(messages):
        tools = ["toolUse" in b or "toolResult" in b for b in objects(message.get("content")) if "cachePoint" not in b]
        if any(tools) and not all(tools):
            yield Rejection(
                f"messages.{i}.content: Conversation blocks and tool use blocks cannot be provided in the same turn."
            )


def _expected(i: int, ids: list[str]) -> Rejection:
    return Rejection(f"Expected toolResult blocks at messages.{i}.content for the following Ids: {', '.join(ids)}")


def _tools(body: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[Rejection]:
    tools = objects((body.get("toolConfig") or {}).get("tools"))
    specs = [tool["toolSpec"] for tool in tools if "toolSpec" in tool]
    if not specs and any(_of(m, "toolUse") or _of(m, "toolResult") for m in messages):
        yield Rejection("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
    names = [spec.get("name") for spec in specs]
    for k, spec in enumerate(specs):
        member = f"toolConfig.tools.{k + 1}.member.toolSpec"
        if not _NAME.fullmatch(str(spec.get("name", ""))):
            yield _pattern(spec.get("name"), f"{member}.name", "[a-zA-Z0-9_-]+")
        if spec.get("description") == "":
            yield _invalid("", f"{member}.description", "Member must have length greater than or equal to 1")
        if names.count(spec.get("name")) > 1:
            yield Rejection(f"The tool name {spec['name']} is already defined at toolConfig.tools.{k}.toolSpec.")
        schema = (spec.get("inputSchema") or {}).get("json")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            where = f"toolConfig.tools.{k}.toolSpec.inputSchema.json.type"
            yield Rejection(f"The value at {where} must be one of the following: object.")


def _marks(body: dict[str, Any], messages: list[dict[str, Any]], model: str) -> Iterator[Rejection]:
    tools = objects((body.get("toolConfig") or {}).get("tools"))
    rows = [tools, objects(body.get("system")), *(objects(m.get("content")) for m in messages)]
    marks = sum("cachePoint" in block for row in rows for block in row)
    known = _CACHED.search(model) is not None
    if (marks and not known) or ("nova" in model and any("cachePoint" in tool for tool in tools)):
        yield Rejection(
            "You invoked an unsupported model or your request did not allow prompt caching. See the documentation for "
            "more information.",
            403,
        )
    if marks > _MARKS:
        yield Rejection(f"{_ERRORS}: A maximum of {_MARKS} blocks with cache_control may be provided. Found {marks}.")
    for row in rows:
        if row and "cachePoint" in row[0]:
            yield Rejection(f"{_ERRORS}: cachePoint cannot be the first content block.")


def _thinking(
    body: dict[str, Any], messages: list[dict[str, Any]], model: str, signatures: Mapping[str, str] | None
) -> Iterator[Rejection]:
    extra = body.get("additionalModelRequestFields") or {}
    thinking = extra.get("thinking") or {}
    if extra and not any(name in model for name in ("claude", "nova-2", "gpt-oss")):
        yield Rejection(f"{_ERRORS}: extraneous key [{next(iter(extra))}] is not permitted")
    budget, limit = thinking.get("budget_tokens"), (body.get("inferenceConfig") or {}).get("maxTokens", 4_096)
    if budget is not None and not 1_024 <= budget < limit:
        yield Rejection(f"{_ERRORS}: `max_tokens` must be greater than `thinking.budget_tokens`.")
    for i, message in enumerate(messages):
        blocks = objects(message.get("content"))
        for k, block in enumerate(blocks):
            if "reasoningContent" in block:
                yield from _signed(block["reasoningContent"], f"messages.{i}.content.{k}", signatures)
        if blocks and "reasoningContent" in blocks[-1]:
            yield Rejection(f"{_ERRORS}: messages.{i}: The final block in an assistant message cannot be `thinking`.")
    if thinking.get("type") == "enabled" and (first := _open_loop(messages)) and "reasoningContent" not in first:
        kind = "tool_use" if "toolUse" in first else "text"
        yield Rejection(
            f"{_ERRORS}: Expected `thinking` or `redacted_thinking`, but found `{kind}`. "
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
        )


def _signed(reasoning: dict[str, Any], at: str, signatures: Mapping[str, str] | None) -> Iterator[Rejection]:
    if (data := reasoning.get("redactedContent")) is not None:
        if signatures is not None and data not in signatures:
            yield Rejection(f"{_ERRORS}: {at}: Invalid `data` in `redacted_thinking` block")
        return
    said = reasoning.get("reasoningText") or {}
    signature = said.get("signature")
    if signature is None:
        yield Rejection(f"{_ERRORS}: {at}.thinking.signature: Field required")
    elif signatures is not None and signatures.get(signature) != said.get("text"):
        yield Rejection(f"{_ERRORS}: {at}: Invalid `signature` in `thinking` block")


def _open_loop(messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first block of the last step of the model, if the user's last message answers its calls and nothing else."""
    if len(messages) < 2 or not _of(messages[-1], "toolResult") or _of(messages[-1], "text"):
        return None
    blocks = objects(messages[-2].get("content"))
    return blocks[0] if blocks else None
