"""Requests in the form of Cohere's chat. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    encode,
)  # fmt: skip
from orkas.providers.base import CompletionParams, Request
from orkas.providers.catalog import cohere_thinks, model_info
from orkas.providers.writing.chat import ChatForm, call_entry, tool_entry
from orkas.providers.writing.history import History, ToolBytes
from orkas.providers.writing.transform import (
    assistant_blocks,
    endpoint,
    is_own,
    key_headers,
)

__all__ = ["API", "PLAN", "CohereRequests"]

API = "cohere_chat"
PLAN = "tool_plan"
"""What the model said it would do before it called tools: no part of its answer, and it goes back as it came."""
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens of thinking per level."""
_ANSWER = 1_024
"""Tokens left for the answer where the limit of a reply is less than the budget."""


class CohereRequests:
    """Builds requests for one vendor."""

    def __init__(self, vendor: str, key_header: str = "") -> None:
        self._vendor = vendor
        self._key_header = key_header
        self._history = History()
        self._tools = ToolBytes(tool_entry)

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        target = f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        messages = self._history.join(params, lambda: ChatWriter(target, params.media), images=images)
        tools = self._tools.get(params.tools)
        system = encode({"role": "system", "content": params.system}) if params.system.strip() else b""
        body = b"".join((
            encode(_options(params))[:-1], b',"tools":' if tools else b"", tools, b',"messages":[', system,
            b"," if system and messages else b"", *messages, b"]}",
        ))  # fmt: skip
        headers = {
            "content-type": "application/json", "accept": "text/event-stream", **key_headers(api_key, self._key_header),
        }  # fmt: skip
        return Request(endpoint(base_url, "/chat"), headers, body)

    def probe(self, *, base_url: str, api_key: str | None) -> Request:
        """The list of models, which only the first version of the interface has."""
        base, mark, query = base_url.partition("?")
        url = base.rstrip("/").removesuffix("/chat").removesuffix("/v2") + "/v1/models" + mark + query
        return Request(url, key_headers(api_key, self._key_header), b"")


def _options(params: CompletionParams) -> dict[str, Any]:
    options: dict[str, Any] = {"model": params.model, "stream": True}
    if params.max_output is not None:
        options["max_tokens"] = params.max_output
    if params.tools and params.tool_choice == "none":
        options["tool_choice"] = "NONE"
    if params.thinking is not None and cohere_thinks(params.model):
        options["thinking"] = _thinking(params.thinking, params.max_output)
    return options


def _thinking(level: str, limit: int | None) -> dict[str, Any]:
    budget = _BUDGETS.get(level, 0)
    if limit is not None:
        budget = min(budget, limit - _ANSWER)
    return {"type": "enabled", "token_budget": budget} if budget > 0 else {"type": "disabled"}


# ------------------------------------------------------------------ messages

class ChatWriter(ChatForm):
    """Writes one history for one target, message after message."""

    def __init__(self, target: str, media: Callable[[str], bytes] | None) -> None:
        super().__init__(target, "chat", media)

    def record(self, message: AssistantMessage, calls: list[ToolCall], wires: list[str]) -> dict[str, Any]:
        same = is_own(message, model=self._target, api=API)
        content = [_part(b) for b in assistant_blocks(message, model=self._target, api=API) if type(b) is not ToolCall]
        said = [part for part in content if part]
        plan = (message.vendor or {}).get(PLAN) if same else None
        if calls and not same:  # beside calls, words of another model are what it planned
            plan, said = "".join(part["text"] for part in said), []
        if not calls and not any(part["type"] == "text" for part in said):
            return {}
        record: dict[str, Any] = {"role": "assistant"}
        if said:
            record["content"] = said
        if isinstance(plan, str) and plan.strip():
            record[PLAN] = plan
        if calls:
            record["tool_calls"] = [call_entry(call, wire) for call, wire in zip(calls, wires, strict=True)]
        return record


def _part(block: object) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "thinking", "thinking": block.text} if isinstance(block, Thinking) and block.text else {}
