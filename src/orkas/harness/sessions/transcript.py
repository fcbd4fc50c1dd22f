"""A conversation as a text for people, in Markdown; and how its parts are called in any form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from orkas.infra.amounts import counted
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    calls_of,
    encode,
)
from orkas.infra.terminal import inert

__all__ = ["arguments_of", "heading", "label_of", "span", "to_markdown", "tool_names"]


def to_markdown(title: str, messages: Sequence[Message]) -> str:
    """The conversation as Markdown. Calls and results stand in fences that nothing inside can close."""
    tools = tool_names(messages)
    parts = [f"# Session {label_of(title)}", span(messages)]
    for number, message in enumerate(messages, 1):
        parts.append(f"## {number}. {heading(message, tools)}")
        parts += [_markdown(b, isinstance(message, ToolMessage)) for b in message.content]
    return "\n\n".join(p for p in parts if p) + "\n"


def span(messages: Sequence[Message]) -> str:
    """How long the conversation is, when it took place, and who answered."""
    if not messages:
        return "no messages"
    days = [str(m.ts)[:10] for m in (messages[0], messages[-1]) if isinstance(m.ts, str) and m.ts]
    models = dict.fromkeys(label_of(m.model) for m in messages if isinstance(m, AssistantMessage) and m.model)
    count = counted(len(messages), "message")
    return " · ".join(filter(None, [count, label_of(" to ".join(dict.fromkeys(days))), ", ".join(models)]))


def tool_names(messages: Sequence[Message]) -> dict[str, str]:
    """The name of the tool for each id of a call."""
    return {call.id: call.name for m in messages for call in calls_of(m)}


def heading(message: Message, tools: Mapping[str, str]) -> str:
    """Who speaks, on one line. ``tools``: see ``tool_names``."""
    if isinstance(message, ToolMessage):
        state = "interrupted" if message.synthetic else "error" if message.is_error else "result"
        return f"Tool {state} ({label_of(tools.get(message.tool_call_id) or message.tool_call_id)})"
    if isinstance(message, AssistantMessage):
        return "Assistant" + (f" ({label_of(message.model)})" if message.model else "")
    if message.origin == "tool_image":
        name = tools.get(message.tool_call_id or "") or message.tool_call_id
        return f"Picture of a tool ({label_of(name)})"
    return "Background: a summary of earlier messages" if message.origin == "summary" else "User"


def label_of(text: str | None) -> str:
    """A name from the conversation on one line, inert."""
    return " ".join(inert(text or "").split())


def _markdown(block: Block, fenced: bool) -> str:
    match block:
        case Text():
            whole = f"\n\n*A preview; the whole is kept as `{label_of(block.file)}`.*" if block.file else ""
            return (_fence(block.text) if fenced else inert(block.text)) + whole
        case Thinking():
            return "\n".join("> " + line for line in inert(block.text).split("\n")) if block.text else ""
        case ToolCall():
            return f"Call of `{label_of(block.name).replace('`', '')}`:\n\n{_fence(arguments_of(block))}"
        case Image():
            return f"[picture, {label_of(block.media_type)}]"
        case _:
            return f"[{label_of(block.kind)}]"


def _fence(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{inert(text)}\n{fence}"


def arguments_of(call: ToolCall) -> str:
    """The arguments of a call, as JSON over several lines, or as they came."""
    if call.arguments is None:
        return call.arguments_raw or ""
    try:
        return json.dumps(call.arguments, ensure_ascii=False, indent=1)
    except RecursionError:  # too deeply nested for lines of their own
        return encode(call.arguments).decode()
