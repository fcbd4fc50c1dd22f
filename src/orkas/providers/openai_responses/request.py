"""Requests in the form of Responses. Old messages keep their bytes, so consecutive requests share a prefix.

Nothing is stored at the vendor: every request holds the whole conversation, the model's own reasoning sealed in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from orkas.infra.messages import (
    AssistantMessage,
    Block,
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
from orkas.providers.base import CompletionParams, Request, ToolDef
from orkas.providers.catalog import is_plain_openai, model_info, openai_effort
from orkas.providers.vendors import Quirks
from orkas.providers.writing.history import History, Piece, ToolBytes, Writer
from orkas.providers.writing.output import Shape, responses_format
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    Ids,
    assistant_blocks,
    cache_key,
    endpoint,
    image_base64,
    image_note,
    is_own,
    key_headers,
    wire_arguments,
    wire_name,
)

__all__ = ["API", "ResponsesRequests"]

API = "openai_responses"
_LEAST_OUTPUT = 16
"""The smallest ``max_output_tokens`` that the API takes."""
_LONGEST_ID = 64
"""Characters of an item's id that the API takes; gateways give out far longer ones."""


class ResponsesRequests:
    """Builds requests for one vendor."""

    def __init__(self, vendor: str, quirks: Quirks, key_header: str = "") -> None:
        self._vendor = vendor
        self._quirks = quirks
        self._key_header = key_header
        self._history = History()
        self._tools = ToolBytes(_tool)
        self._output = Shape(responses_format)

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        target = f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        items = self._history.join(params, lambda: ItemsWriter(target, self._quirks, params.media), images=images)
        head = encode(self._options(params))[:-1]
        tools = self._tools.get(params.tools)
        system = self._developer(params)
        body = b"".join((
            head, b',"tools":' if tools else b"", tools, b',"input":[', system,
            b"," if system and items else b"", *items, b"]}",
        ))  # fmt: skip
        headers = {
            "content-type": "application/json", "accept": "text/event-stream",
            **key_headers(api_key, self._key_header), **self._cache_header(params),
        }  # fmt: skip
        return Request(endpoint(base_url, "/responses"), headers, body)

    def _options(self, params: CompletionParams) -> dict[str, Any]:
        quirks, model = self._quirks, params.model
        options: dict[str, Any] = {"model": model, "stream": True, "store": False}
        if not is_plain_openai(model):  # those have no reasoning to give, and refuse the wish
            options["include"] = ["reasoning.encrypted_content"]
        if params.system and not quirks.developer:
            options["instructions"] = params.system
        if params.max_output is not None:
            options["max_output_tokens"] = max(params.max_output, _LEAST_OUTPUT)
        if params.tools:
            options["tool_choice"] = params.tool_choice
            if not model.startswith("o"):  # the o-series refuses the word, even for what it does anyway
                options["parallel_tool_calls"] = True
        if quirks.output and (form := self._output.get(params.output)):
            options["text"] = form
        if quirks.cache_key and params.session_id:
            options[quirks.cache_key] = cache_key(params.session_id)
        if quirks.thinking and params.thinking and (effort := openai_effort(model, params.thinking)):
            options["reasoning"] = {"effort": effort, **({} if params.thinking == "off" else {"summary": "auto"})}
        return options

    def _developer(self, params: CompletionParams) -> bytes:
        """The system prompt as an item, for servers that know no ``instructions``."""
        if not params.system or not self._quirks.developer:
            return b""
        return encode({"role": "developer", "content": params.system})

    def _cache_header(self, params: CompletionParams) -> dict[str, str]:
        header = self._quirks.cache_header
        return {header: cache_key(params.session_id)} if header and params.session_id else {}


def _tool(tool: ToolDef) -> dict[str, Any]:
    return {
        "type": "function", "name": wire_name(tool.name), "description": tool.description,
        "parameters": clean(tool.parameters), "strict": False,
    }  # fmt: skip


# ------------------------------------------------------------------ messages


class ItemsWriter(Writer):
    """Writes one history for one target. A message becomes one item or several."""

    def __init__(self, target: str, quirks: Quirks, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self._target = target
        self._media = media
        self._ids = Ids(quirks.ids)
        self._free: set[str] = set()  # calls given as free text, by their id on the wire
        self._items: set[str] = set()  # ids of items: no request may hold one twice

    def add(self, message: Message) -> None:
        if type(message) is ToolMessage:
            data = self._result(message)
        elif type(message) is UserMessage:
            data = self.kept(message) or self.keep(message, encode(self._user(message)))
        elif type(message) is AssistantMessage:
            data = self._assistant(message)
        else:
            return
        if data:
            self.write(data) if self.empty else self.write(b",", data)

    def finish(self) -> list[Piece]:
        return self.written()

    def _result(self, message: ToolMessage) -> bytes:
        wire = self._ids.result(message.tool_call_id)
        free = wire in self._free
        plain = wire == self._ids.plain(message.tool_call_id) and not free
        if plain and (found := self.kept(message)):
            return found
        kind = "custom_tool_call_output" if free else "function_call_output"
        data = encode({"type": kind, "call_id": wire, "output": self._content(message, NO_OUTPUT)})
        return self.keep(message, data) if plain else data

    def _user(self, message: UserMessage) -> dict[str, Any]:
        return {"role": "user", "content": self._content(message, EMPTY)}

    def _content(self, message: UserMessage | ToolMessage, nothing: str) -> str | list[dict[str, Any]]:
        """A text as it is; with pictures, a list of parts."""
        parts: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Text and block.text.strip():
                parts.append({"type": "input_text", "text": block.text})
            elif type(block) is Image:
                parts.append(self._image(block))
        if any(p["type"] == "input_image" for p in parts):
            return parts
        joint = "" if type(message) is ToolMessage else "\n\n"
        return joint.join(p["text"] for p in parts) or nothing

    def _image(self, image: Image) -> dict[str, Any]:
        data, why = image_base64(image, self._media, allowed=self.images)
        if why:
            return {"type": "input_text", "text": image_note(image, why)}
        return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.media_type};base64,{data}"}

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [b for b in message.content if type(b) is ToolCall]
        wires = {id(c): self._ids.call(c.id) for c in calls}
        own = is_own(message, model=self._target, api=API)
        again = own and not self._is_new(message)  # goes like a foreign one
        own = own and not again
        if own:
            self._free.update(wires[id(c)] for c in calls if _is_free(c))
        plain = not again and all(wires[id(c)] == self._ids.plain(c.id) for c in calls)
        if plain and (found := self.kept(message)) is not None:
            return found
        items = _own_items(message, wires) if own else _foreign_items(message, wires, self._target)
        data = encode(items)[1:-1]
        return self.keep(message, data) if plain else data


    def _is_new(self, message: AssistantMessage) -> bool:
        """None of its items stands in the history already."""
        ids = [i for group in _groups(message.content) if (i := _item_id(group[0]))]
        new = len(set(ids)) == len(ids) and self._items.isdisjoint(ids)
        self._items.update(ids)
        return new


def _item_id(block: Block) -> str:
    kept = block.vendor or {}
    id = kept.get("item" if type(block) is Thinking else "id")
    return id if isinstance(id, str) else ""


def _is_free(call: ToolCall) -> bool:
    return (call.vendor or {}).get("type") == "custom_tool_call"


def _foreign_items(message: AssistantMessage, wires: dict[int, str], target: str) -> list[dict[str, Any]]:
    """Words and calls of another model, or of an answer that broke off: no ids of items, no reasoning."""
    blocks = assistant_blocks(message, model=target, api=API)
    texts = (_said(b.text, {}) for b in blocks if type(b) is Text)
    return [*texts, *(_call(b, wires, {}) for b in blocks if type(b) is ToolCall)]


def _own_items(message: AssistantMessage, wires: dict[int, str]) -> list[dict[str, Any]]:
    """The items that the model gave, in its order.

    A reasoning item goes only directly before what followed it; what followed one that cannot go back loses its id,
    because the vendor knows by the id what it was bound to.
    """
    items: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    bound = True
    for group in _groups(_in_order(message.content)):
        if isinstance(group[0], Thinking):
            item = _reasoning([b for b in group if isinstance(b, Thinking)])
            bound = item is not None
            waiting = [*waiting, item] if item is not None else []
            continue
        if (item := _item(group, wires, message.content, with_id=bound)) is not None:
            items += [*waiting, item]
        else:
            bound = bound and not waiting
        waiting = []
    if not items and (refusal := (message.vendor or {}).get("refusal")):
        items.append(_said(str(refusal), {}))
    return items


def _in_order(content: Sequence[Block]) -> list[Block]:
    """As the model gave them. Where no sealed reasoning binds them, calls go last: some servers look for the results
    of a call directly behind it and find the text between."""
    if any(type(b) is Thinking and b.encrypted for b in content):
        return list(content)
    return sorted(content, key=lambda b: type(b) is ToolCall)


def _groups(blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks item by item: texts of one message stand together, and so do texts of one reasoning item."""
    groups: list[list[Block]] = []
    for block in blocks:
        last = groups[-1][0] if groups else None
        if last is not None and _continues(last, block):
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _continues(first: Block, block: Block) -> bool:
    mine, its = first.vendor or {}, block.vendor or {}
    if type(block) is Thinking:
        return type(first) is Thinking and "item" not in its
    return type(block) is Text and type(first) is Text and bool(its.get("id")) and its.get("id") == mine.get("id")


def _reasoning(blocks: list[Thinking]) -> dict[str, Any] | None:
    """A reasoning item as it came; None where the vendor could not read it back: neither sealed nor spelled out."""
    first = blocks[0]
    kept = first.vendor or {}
    if "item" not in kept:
        return None
    spelled = [(b.vendor or {}).get("part") == "reasoning_text" for b in blocks]
    summary = [_part("summary_text", b) for b, out in zip(blocks, spelled, strict=True) if b.text and not out]
    content = [_part("reasoning_text", b) for b, out in zip(blocks, spelled, strict=True) if b.text and out]
    if not first.encrypted and not content:
        return None
    item: dict[str, Any] = {"type": "reasoning", **_id(kept.get("item")), "summary": summary}
    if content:
        item["content"] = content
    if first.encrypted:
        item["encrypted_content"] = first.encrypted
    return item


def _part(kind: str, block: Thinking) -> dict[str, Any]:
    return {"type": kind, "text": block.text}


def _item(
    group: list[Block], wires: dict[int, str], content: Sequence[Block], *, with_id: bool
) -> dict[str, Any] | None:
    block = group[0]
    rest = dict(block.vendor or {})
    if not with_id:
        rest.pop("id", None)
    if type(block) is ToolCall:
        return _call(block, wires, rest)
    if type(block) is Opaque:
        return _opaque(rest, content) if with_id else None  # it is nothing without its id
    texts = [b for b in group if isinstance(b, Text) and b.text.strip()]
    return _message(texts, rest) if texts else None


def _opaque(raw: dict[str, Any], content: Sequence[Block]) -> dict[str, Any] | None:
    """An item of the vendor's own. One that waits for an output which is not here would have the request refused."""
    if not isinstance(raw.get("type"), str):
        return None
    outputs = [b.vendor.get("call_id") for b in content if type(b) is Opaque and b.vendor and _is_output(b.kind)]
    waits = raw.get("call_id") is not None and not _is_output(raw["type"])
    return None if waits and raw["call_id"] not in outputs else raw


def _is_output(kind: str) -> bool:
    return kind.endswith("_output")


def _message(texts: list[Text], rest: dict[str, Any]) -> dict[str, Any]:
    """A message as the model gave it, or its words alone where it has no id to be known by."""
    phase = {"phase": rest["phase"]} if isinstance(rest.get("phase"), str) else {}
    if not (own := _id(rest.get("id"))):
        return _said("".join(t.text for t in texts), phase)
    return {
        "type": "message", **own, "role": "assistant", "status": "completed", **phase,
        "content": [_output_text(t) for t in texts],
    }  # fmt: skip


def _output_text(text: Text) -> dict[str, Any]:
    cited = (text.vendor or {}).get("annotations") or []
    return {"type": "output_text", "text": text.text, "annotations": cited, "logprobs": []}


def _said(text: str, phase: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", **phase, "content": text}


def _call(call: ToolCall, wires: dict[int, str], rest: dict[str, Any]) -> dict[str, Any]:
    own, wire, name = _id(rest.pop("id", None)), wires[id(call)], wire_name(call.name)
    if rest.pop("type", None) == "custom_tool_call":
        given = call.arguments_raw or ""
        return {"type": "custom_tool_call", **own, "call_id": wire, "name": name, "input": given, **rest}
    given = wire_arguments(call)
    return {"type": "function_call", **own, "call_id": wire, "name": name, "arguments": given, **rest}


def _id(value: Any) -> dict[str, str]:
    return {"id": value} if isinstance(value, str) and 0 < len(value) <= _LONGEST_ID else {}
