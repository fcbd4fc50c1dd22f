"""Requests in the form of Cohere's chat. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
    text_of,
)  # fmt: skip
from orkas.providers.base import CompletionParams, Request, ToolDef
from orkas.providers.catalog import cohere_thinks, model_info
from orkas.providers.writing.history import History, Piece, ToolBytes, Writer
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    Ids,
    assistant_blocks,
    endpoint,
    image_base64,
    image_note,
    is_own,
    key_headers,
    wire_arguments,
    wire_name,
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
        self._tools = ToolBytes(_tool)

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


def _tool(tool: ToolDef) -> dict[str, Any]:
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": clean(tool.parameters)}
    return {"type": "function", "function": function}


# ------------------------------------------------------------------ messages

_CONTINUE = b'{"role":"user","content":"Continue."}'


class ChatWriter(Writer):
    """Writes one history for one target, message after message."""

    def __init__(self, target: str, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self._target = target
        self._media = media
        self._ids = Ids("chat")
        self._last: type | None = None

    def add(self, message: Message) -> None:
        if type(message) is ToolMessage:
            data = self._result(message)
        elif type(message) is UserMessage:
            data = self.kept(message) or self.keep(message, encode(self._user(message)))
        elif type(message) is not AssistantMessage or not (data := self._assistant(message)):
            return
        self.write(data) if self.empty else self.write(b",", data)
        self._last = type(message)

    def finish(self) -> list[Piece]:
        if self._last is AssistantMessage:  # the last word is the user's or a tool's
            return [*self.written(), b",", _CONTINUE]
        return self.written()

    def _result(self, message: ToolMessage) -> bytes:
        wire = self._ids.result(message.tool_call_id)
        plain = wire == self._ids.plain(message.tool_call_id)
        if plain and (found := self.kept(message)):
            return found
        text = text_of(message)
        for block in message.content:
            if type(block) is Image:
                text += image_note(block, "a result holds text only")
        data = encode({"role": "tool", "tool_call_id": wire, "content": text if text.strip() else NO_OUTPUT})
        return self.keep(message, data) if plain else data

    def _user(self, message: UserMessage) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Text and block.text.strip():
                parts.append({"type": "text", "text": block.text})
            elif type(block) is Image:
                parts.append(self._image(block))
        if all(p["type"] == "text" for p in parts):
            return {"role": "user", "content": "\n\n".join(p["text"] for p in parts) or EMPTY}
        return {"role": "user", "content": parts}

    def _image(self, image: Image) -> dict[str, Any]:
        data, why = image_base64(image, self._media, allowed=self.images)
        if why:
            return {"type": "text", "text": image_note(image, why)}
        return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [b for b in message.content if type(b) is ToolCall]
        wires = [self._ids.call(c.id) for c in calls]
        plain = all(w == self._ids.plain(c.id) for w, c in zip(wires, calls, strict=True))
        if plain and (found := self.kept(message)) is not None:
            return found
        record = self._record(message, calls, wires)
        data = encode(record) if record else b""
        return self.keep(message, data) if plain else data

    def _record(self, message: AssistantMessage, calls: list[ToolCall], wires: list[str]) -> dict[str, Any]:
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
            record["tool_calls"] = [_call(call, wire) for call, wire in zip(calls, wires, strict=True)]
        return record


def _part(block: object) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "thinking", "thinking": block.text} if isinstance(block, Thinking) and block.text else {}


def _call(call: ToolCall, wire: str) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call)}
    return {"id": wire, "type": "function", "function": function}
