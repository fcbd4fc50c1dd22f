"""Requests in the form of Ollama's own chat. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
    text_of,
)  # fmt: skip
from orkas.providers.base import CompletionParams, OutputSchema, Request, ToolDef
from orkas.providers.catalog import model_info
from orkas.providers.writing.history import History, ToolBytes
from orkas.providers.writing.order import InOrder
from orkas.providers.writing.output import Shape
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    assistant_blocks,
    endpoint,
    image_base64,
    image_note,
    is_own,
    key_headers,
    wire_name,
)

__all__ = ["API", "OllamaRequests"]

API = "ollama_chat"
_CONTEXT = 16_384
"""Tokens of context that are asked for at least. The server's own default (4,096 on most machines) does not hold the
system prompt and the tools of an agent, and it cuts a prompt that is too long without a word."""
_ANSWER = 4_096
"""Tokens kept for an answer whose length nobody limited."""
_BYTES_PER_TOKEN = 3
"""Of the request as JSON. Text of most tongues has three to four, so this errs to the safe side."""
_IMAGE = 2_048
"""Tokens of one picture, more than the models of today make of one."""
_IMAGES = ("image/png", "image/jpeg", "image/webp")


class OllamaRequests:
    """Builds requests for one server."""

    def __init__(self, vendor: str, key_header: str = "") -> None:
        self._vendor = vendor
        self._key_header = key_header
        self._history = History()
        self._tools = ToolBytes(_tool)
        self._output = Shape(_format)
        self._context: dict[str, int] = {}

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        target = f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        messages = self._history.join(params, lambda: ChatWriter(target, params.media), images=images)
        shown = self._history.current
        pictures = shown.pictures if isinstance(shown, ChatWriter) else _Pictures()
        tools = self._tools.get(params.tools if params.tool_choice == "auto" else ())
        system = encode({"role": "system", "content": params.system}) if params.system.strip() else b""
        words = sum(map(len, messages)) + len(system) + len(tools) - pictures.bytes
        head = encode(self._options(params, words // _BYTES_PER_TOKEN + pictures.count * _IMAGE))[:-1]
        body = b"".join((
            head, b',"tools":' if tools else b"", tools, b',"messages":[', system,
            b"," if system and messages else b"", *messages, b"]}",
        ))  # fmt: skip
        headers = {
            "content-type": "application/json", "accept": "application/x-ndjson",
            **key_headers(api_key, self._key_header),
        }  # fmt: skip
        return Request(endpoint(base_url, "/chat"), headers, body)

    def _options(self, params: CompletionParams, prompt: int) -> dict[str, Any]:
        options: dict[str, Any] = {"num_ctx": self._num_ctx(params, prompt)}
        if params.max_output is not None:
            options["num_predict"] = params.max_output
        body: dict[str, Any] = {"model": params.model, "stream": True, "truncate": False, "shift": False}
        if params.thinking is not None:
            body["think"] = _think(params.model, params.thinking)
        if params.output is not None and not (params.tools and params.tool_choice == "auto"):
            body["format"] = self._output.get(params.output)  # beside tools it would forbid the calls
        return {**body, "options": options}

    def _num_ctx(self, params: CompletionParams, prompt: int) -> int:
        """The context to ask for: the window that the user set, else ``_CONTEXT``; doubled until the request and its
        answer fit. It never shrinks again, because the server loads the model anew for every other size."""
        need = prompt + (params.max_output or _ANSWER)
        size = max(params.window or _CONTEXT, 0 if params.window else self._context.get(params.model, 0))
        while size < need:
            size *= 2
        self._context[params.model] = size
        return size


def _think(model: str, level: str) -> bool | str:
    """Most models can only be told whether to think; gpt-oss how much, and it cannot be told not to."""
    if "gpt-oss" in model.lower():
        return "low" if level == "off" else level
    return level != "off"


def _format(output: OutputSchema) -> dict[str, Any]:
    return clean(output.schema)


def _tool(tool: ToolDef) -> dict[str, Any]:
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": clean(tool.parameters)}
    return {"type": "function", "function": function}


# ------------------------------------------------------------------ messages

class _Pictures:
    """How many pictures were written, and the bytes they take: they are no text, and weigh something else."""

    __slots__ = ("bytes", "count")

    def __init__(self) -> None:
        self.bytes = 0
        self.count = 0


class ChatWriter(InOrder):
    """Writes one history for one target, message after message."""

    def __init__(self, target: str, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self.pictures = _Pictures()
        self._target = target
        self._media = media
        self._calls: dict[str, deque[tuple[str, str]]] = {}

    def result(self, message: ToolMessage) -> bytes:
        name, id = self._answered(message.tool_call_id)
        named = {"tool_name": name, "tool_call_id": id} if id else {"tool_name": name}
        ending = b"," + encode(named)[1:]
        if (found := self.kept(message)) and found.endswith(ending):  # of the same call, not of one with its id
            return found
        text = text_of(message)
        for block in message.content:
            if type(block) is Image:
                text += image_note(block, "a result holds text only")
        record = encode({"role": "tool", "content": text if text.strip() else NO_OUTPUT})
        return self.keep(message, record[:-1] + ending)

    def _answered(self, id: str) -> tuple[str, str]:
        """Name and wire id of the earliest call with this id that has no result yet."""
        waiting = self._calls.get(id)
        return waiting.popleft() if waiting else ("unknown", "")

    def user(self, message: UserMessage) -> bytes:
        if not any(type(b) is Image for b in message.content):
            return self.kept(message) or self.keep(message, encode({"role": "user", "content": _said(message)}))
        data = self.kept(message) or self.keep(message, encode(self._seen(message)))
        self.pictures.count += sum(type(b) is Image for b in message.content)
        self.pictures.bytes += max(0, len(data) - sum(map(len, _texts(message))))
        return data

    def _seen(self, message: UserMessage) -> dict[str, Any]:
        notes: list[str] = []
        images = [data for block in message.content if type(block) is Image and (data := self._image(block, notes))]
        text = "\n\n".join([*notes, *_texts(message)])
        record: dict[str, Any] = {"role": "user", "content": text or ("" if images else EMPTY)}
        return {**record, "images": images} if images else record

    def _image(self, image: Image, notes: list[str]) -> str:
        data, why = image_base64(image, self._media, allowed=self.images)
        if not why and image.media_type not in _IMAGES:
            why = "the format is not accepted"
        if why:
            notes.append(image_note(image, why))
            return ""
        return data

    def assistant(self, message: AssistantMessage) -> bytes:
        same = is_own(message, model=self._target, api=API)
        for call in message.content:
            if type(call) is ToolCall:
                self._calls.setdefault(call.id, deque()).append((wire_name(call.name), _id_of(call) if same else ""))
        if (found := self.kept(message)) is not None:
            return found
        blocks = assistant_blocks(message, model=self._target, api=API)
        calls = [_call(b, same=same) for b in blocks if type(b) is ToolCall]
        text = "".join(b.text for b in blocks if type(b) is Text)
        if not text and not calls:
            return self.keep(message, b"")
        record: dict[str, Any] = {"role": "assistant", "content": text}
        if thinking := "".join(b.text for b in blocks if type(b) is Thinking):
            record["thinking"] = thinking
        if calls:
            record["tool_calls"] = calls
        return self.keep(message, encode(record))


def _texts(message: UserMessage) -> list[str]:
    return [b.text for b in message.content if type(b) is Text and b.text.strip()]


def _said(message: UserMessage) -> str:
    return "\n\n".join(_texts(message)) or EMPTY


def _call(call: ToolCall, *, same: bool) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": call.arguments or {}}
    return {"id": id, "function": function} if same and (id := _id_of(call)) else {"function": function}


def _id_of(call: ToolCall) -> str:
    """The id that Ollama gave to a call; most have none, and none is made up for them."""
    id = (call.vendor or {}).get("id")
    return id if isinstance(id, str) else ""
