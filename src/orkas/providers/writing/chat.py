"""Messages, calls and results in the form that Chat Completions and Cohere's chat have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orkas.infra.messages import AssistantMessage, Image, Text, ToolCall, ToolMessage, UserMessage, encode, text_of
from orkas.providers.base import ToolDef
from orkas.providers.writing.order import InOrder
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    Ids,
    image_base64,
    image_note,
    wire_arguments,
    wire_name,
)

__all__ = ["ChatForm", "call_entry", "tool_entry"]


def tool_entry(tool: ToolDef) -> dict[str, Any]:
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": clean(tool.parameters)}
    return {"type": "function", "function": function}


def call_entry(call: ToolCall, wire: str) -> dict[str, Any]:
    """``wire``: the id under which the vendor knows the call."""
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call)}
    return {"id": wire, "type": "function", "function": function}


class ChatForm(InOrder):
    """Writes one history for one target, with call ids of this form. A dialect adds ``record`` and the order."""

    def __init__(self, target: str, ids: str, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self._target = target
        self._media = media
        self._ids = Ids(ids)

    def record(self, message: AssistantMessage, calls: list[ToolCall], wires: list[str]) -> dict[str, Any] | None:
        """What the model said, with its calls under these ids; None: nothing that may be sent."""
        raise NotImplementedError

    def assistant(self, message: AssistantMessage) -> bytes:
        """Nothing, where there is nothing that may be sent."""
        calls = [b for b in message.content if type(b) is ToolCall]
        wires = [self._ids.call(c.id) for c in calls]
        plain = all(w == self._ids.plain(c.id) for w, c in zip(wires, calls, strict=True))
        if plain and (found := self.kept(message)) is not None:
            return found
        record = self.record(message, calls, wires)
        data = encode(record) if record else b""
        return self.keep(message, data) if plain else data

    def result(self, message: ToolMessage) -> bytes:
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

    def user(self, message: UserMessage) -> bytes:
        return self.kept(message) or self.keep(message, encode(self._user(message)))

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
