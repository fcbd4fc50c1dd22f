"""Requests in the form of Anthropic Messages. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
)  # fmt: skip
from orkas.providers.base import CompletionParams, OutputSchema, Request, ToolDef
from orkas.providers.catalog import anthropic_output, anthropic_thinking, model_info
from orkas.providers.vendors import Quirks
from orkas.providers.writing.history import History, Piece, ToolBytes
from orkas.providers.writing.order import TurnAbout
from orkas.providers.writing.output import ANTHROPIC, Shape, strict
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    Ids,
    assistant_blocks,
    endpoint,
    image_base64,
    image_note,
    in_foreign_loop,
    key_headers,
    wire_name,
)

__all__ = ["API", "AnthropicRequests"]

API = "anthropic_messages"
VERSION = "2023-06-01"
_VERTEX_VERSION = "vertex-2023-10-16"
"""Named in the body where the model is named in the path."""
_CACHE = {"type": "ephemeral"}
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens of thinking per level, for models that take a budget (at least 1,024, less than the output limit)."""
_DEFAULT_OUTPUT = 16_384
"""Output asked for when the caller names none: the API requires a figure, and a long one reserves rate limit."""


class AnthropicRequests:
    """Builds requests for one vendor."""

    def __init__(self, vendor: str, quirks: Quirks, key_header: str = "") -> None:
        self._vendor = vendor
        self._quirks = quirks
        self._key_header = key_header or "x-api-key"
        self._history = History()
        self._tools = ToolBytes(_tool)
        self._output = Shape(_format)

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        target = f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        messages = self._history.join(params, lambda: MessagesWriter(target, self._quirks, params.media), images=images)
        head = encode(self._options(params, target))[:-1]
        tools = self._tools.get(params.tools)
        if tools and self._quirks.cache_control:  # other conversations with the same tools find them
            tools = tools[:-2] + _MARK + b"]"
        body = b"".join((head, b',"tools":' if tools else b"", tools, b',"messages":[', *messages, b"]}"))
        headers = {
            "content-type": "application/json", "accept": "text/event-stream", "anthropic-version": VERSION,
            **key_headers(api_key, self._key_header),
        }  # fmt: skip
        return Request(self._url(base_url, params.model), headers, body)

    def _url(self, base_url: str, model: str) -> str:
        if path := self._quirks.model_path:
            return endpoint(base_url, f"{path.format(model=quote(model, safe='@:-._~'))}:streamRawPredict")
        return endpoint(base_url, "/messages")

    def _options(self, params: CompletionParams, target: str) -> dict[str, Any]:
        limit = params.max_output or min(model_info(self._vendor, params.model).max_output or 8_192, _DEFAULT_OUTPUT)
        options: dict[str, Any] = {"model": params.model, "max_tokens": limit, "stream": True}
        if self._quirks.model_path:
            options = {"anthropic_version": _VERTEX_VERSION, "max_tokens": limit, "stream": True}
        if self._quirks.cache_control:
            options["cache_control"] = _CACHE  # marks the last cacheable block, without touching the messages
        if params.system:
            block: dict[str, Any] = {"type": "text", "text": params.system}
            if self._quirks.cache_control:
                block["cache_control"] = _CACHE
            options["system"] = [block]
        if params.tools and params.tool_choice == "none" and not self._quirks.cache_control:
            options["tool_choice"] = {"type": "none"}  # with a cache, another choice would lose all its messages
        options.update(_thinking(params, limit, target))
        if self._quirks.output and anthropic_output(params.model) and (form := self._output.get(params.output)):
            options["output_config"] = {**options.get("output_config", {}), "format": form}
        return options


def _tool(tool: ToolDef) -> dict[str, Any]:
    return {"name": wire_name(tool.name), "description": tool.description, "input_schema": clean(tool.parameters)}


def _format(output: OutputSchema) -> dict[str, Any] | None:
    schema = strict(output.schema, ANTHROPIC)
    return None if schema is None else {"type": "json_schema", "schema": schema}


def _thinking(params: CompletionParams, limit: int, target: str) -> dict[str, Any]:
    level, style = params.thinking, anthropic_thinking(params.model)
    if level is None or not style:
        return {}
    if level == "off":
        return {"thinking": {"type": "disabled"}}
    if style == "adaptive":
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
    budget = min(_BUDGETS[level], limit - 1_024)
    if budget < 1_024 or in_foreign_loop(params.messages, model=target, api=API, signed=_signed):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _signed(thinking: Thinking) -> bool:
    """It may go back to the model that thought it."""
    return thinking.redacted is not None or bool(thinking.signature)


# ------------------------------------------------------------------ messages

_OPEN = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_REACH = 18
"""Blocks behind the end of the last request from which on that end is marked as well: a mark finds an earlier entry of
the cache only within 20 blocks. Source: Anthropic's page on prompt caching."""
_CONTINUE = b'{"type":"text","text":"Continue."}'


class MessagesWriter(TurnAbout):
    """Writes one history for one target. Neighbours of the same role become one message: all results of a round and
    what the user says after them stand together, the results first."""

    opening = _OPEN
    go_on = _CONTINUE

    def __init__(self, target: str, quirks: Quirks, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self._target = target
        self._media = media
        self._ids = Ids(quirks.ids)
        self._paused = False
        self._marks = quirks.cache_control
        self._blocks = 0
        self._asked = 0, ""  # blocks and role as they were when the last request was finished

    def add(self, message: Message) -> None:
        self._blocks += 1 if type(message) is ToolMessage else len(message.content)
        if type(message) is ToolMessage:
            self._put("user", self._result(message))
        elif type(message) is UserMessage:
            self._put("user", self.kept(message) or self.keep(message, self._user(message)))
        elif type(message) is AssistantMessage and (data := self._assistant(message)):
            self._put("assistant", data)
            self._paused = message.stop_reason == "pause"

    def finish(self) -> list[Piece]:
        if self.empty:
            return []
        blocks, role = self._asked
        self._asked = self._blocks, self._role
        if not (self._marks and role == "user" and self._blocks - blocks > _REACH):
            return [*self.written(), *self._closing()]
        behind = self.unwritten
        pieces = list(self.written())
        end = len(pieces) - behind - 1  # where the last request ended: a block of the user's
        pieces[end] = bytes(pieces[end])[:-1] + _MARK
        return [*pieces, *self._closing()]

    def _closing(self) -> list[Piece]:
        if self._role == "assistant" and not self._paused:  # newer models refuse to go on from their own words
            return [b"]},", _OPEN["user"], _CONTINUE, b"]}"]
        return [b"]}"]

    def _result(self, message: ToolMessage) -> bytes:
        wire = self._ids.result(message.tool_call_id)
        plain = wire == self._ids.plain(message.tool_call_id)
        if plain and (found := self.kept(message)):
            return found
        content = self._content(message) or [{"type": "text", "text": NO_OUTPUT}]
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire, "content": content}
        if message.is_error:
            block["is_error"] = True
        data = encode(block)
        return self.keep(message, data) if plain else data

    def _user(self, message: UserMessage) -> bytes:
        return _bare(self._content(message) or [{"type": "text", "text": EMPTY}])

    def _content(self, message: UserMessage | ToolMessage) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Text and block.text.strip():
                blocks.append({"type": "text", "text": block.text})
            elif type(block) is Image:
                blocks.append(self._image(block))
        return blocks

    def _image(self, image: Image) -> dict[str, Any]:
        data, why = image_base64(image, self._media, allowed=self.images)
        if why:
            return {"type": "text", "text": image_note(image, why)}
        return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [b for b in message.content if type(b) is ToolCall]
        wires = {id(c): self._ids.call(c.id) for c in calls}
        plain = all(wires[id(c)] == self._ids.plain(c.id) for c in calls)
        if plain and (found := self.kept(message)) is not None:
            return found
        same = message.model == self._target and message.api == API
        made = (_wire_block(b, wires, same=same) for b in assistant_blocks(message, model=self._target, api=API))
        blocks = [b for b in made if b is not None]
        while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            blocks.pop()  # may not stand last; without anything after it, it has no use either
        return self.keep(message, _bare(blocks)) if plain else _bare(blocks)


def _bare(blocks: list[dict[str, Any]]) -> bytes:
    """The blocks without the brackets around them."""
    return encode(blocks)[1:-1]


def _wire_block(block: object, wires: dict[int, str], *, same: bool) -> dict[str, Any] | None:
    rest = (getattr(block, "vendor", None) or {}) if same else {}
    if isinstance(block, Text):
        return {"type": "text", "text": block.text, **rest}
    if isinstance(block, ToolCall):
        name, given = wire_name(block.name), block.arguments or {}
        return {"type": "tool_use", "id": wires[id(block)], "name": name, "input": given, **rest}
    if isinstance(block, Opaque):
        return rest if isinstance(rest.get("type"), str) else None
    if isinstance(block, Thinking):
        if block.redacted is not None:
            return {"type": "redacted_thinking", "data": block.redacted, **rest}
        if block.signature:
            return {"type": "thinking", "thinking": block.text, "signature": block.signature, **rest}
    return None
