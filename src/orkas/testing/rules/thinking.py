"""What the Messages API refuses about thinking: its options, its signatures and its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orkas.testing.rules.base import Rejection, objects

__all__ = ["thinking_faults"]

_EXPECT_THINKING = (
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost "
    "set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To "
    "avoid this requirement, disable `thinking`. Please consult our documentation at "
    "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
)


def thinking_faults(
    body: dict[str, Any], messages: list[dict[str, Any]], signatures: Mapping[str, str] | None
) -> Iterator[Rejection]:
    """The faults of a body whose messages are otherwise in order."""
    yield from _thinking_options(body)
    latest = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    for i, message in enumerate(messages):
        for k, block in enumerate(objects(message["content"])):
            if signatures is not None and block["type"] in ("thinking", "redacted_thinking"):
                yield from _signature(block, signatures, f"messages.{i}.content.{k}", latest=i == latest)
    options = body.get("thinking")
    if not isinstance(options, dict) or options.get("type") != "enabled" or latest < 0:
        return
    blocks = objects(messages[latest]["content"])
    if any(b["type"] == "tool_use" for b in blocks) and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
        yield Rejection(
            f"messages.{latest}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{blocks[0]['type']}`. {_EXPECT_THINKING}"
        )


def _signature(block: dict[str, Any], signatures: Mapping[str, str], at: str, *, latest: bool) -> Iterator[Rejection]:
    kind = block["type"]
    if kind == "redacted_thinking":
        if block["data"] not in signatures:
            yield Rejection(f"{at}: Invalid `data` in `redacted_thinking` block")
    elif block["signature"] not in signatures:
        yield Rejection(f"{at}: Invalid `signature` in `thinking` block")
    elif signatures[block["signature"]] != block["thinking"]:
        if latest:
            yield Rejection(
                f"{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
                "These blocks must remain as they were in the original response."
            )
        yield Rejection(f"{at}: Invalid `signature` in `thinking` block")


def _thinking_options(body: dict[str, Any]) -> Iterator[Rejection]:
    options = body.get("thinking")
    if options is None:
        return
    kind = options.get("type") if isinstance(options, dict) else None
    if kind not in ("enabled", "disabled", "adaptive"):
        yield Rejection(
            f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'adaptive', "
            "'disabled', 'enabled'"
        )
    if kind != "enabled":
        return
    budget = options.get("budget_tokens")
    if not isinstance(budget, int):
        yield Rejection("thinking.enabled.budget_tokens: Field required")
    elif budget < 1024:
        yield Rejection("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    elif budget >= body["max_tokens"]:
        yield Rejection("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if body.get("temperature", 1) != 1:
        yield Rejection("`temperature` may only be set to 1 when thinking is enabled.")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        yield Rejection("Thinking may not be enabled when tool_choice forces tool use.")
