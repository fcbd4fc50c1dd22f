"""Requests in the form of Converse. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
    loads,
    text_of,
)  # fmt: skip
from orkas.providers.base import CompletionParams, Request, ToolDef
from orkas.providers.catalog import Converse, anthropic_thinking, converse, model_info
from orkas.providers.clouds.aws import Signer
from orkas.providers.writing.history import History, Piece, ToolBytes, Writer
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    Ids,
    assistant_blocks,
    image_base64,
    image_note,
    in_foreign_loop,
    key_headers,
    wire_name,
)

__all__ = ["API", "ConverseRequests"]

API = "bedrock_converse"
_MARK = b'{"cachePoint":{"type":"default"}}'
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens of thinking per level, for models that take a budget (at least 1,024, less than the output limit)."""
_OUTPUT = 16_384
"""Output asked for when a budget of thinking must fit into it and the caller names none."""
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}


class ConverseRequests:
    """Builds requests for one vendor."""

    def __init__(self, vendor: str, signer: Signer | None = None, key_header: str = "") -> None:
        self._vendor = vendor
        self._key_header = key_header
        self._signer = signer
        self._history = History()
        self._tools = ToolBytes(_tool)

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        traits, target = converse(params.model), f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        messages = self._history.join(params, lambda: ConverseWriter(target, traits, params.media), images=images)
        head = encode(self._options(params, traits, target))[:-1]
        tools = self._tools.get(params.tools) or self._called()
        marked = b"," + _MARK if traits.cache == "all" else b""
        body = b"".join((
            head, b"," if len(head) > 1 else b"", b'"toolConfig":{"tools":' if tools else b"", tools[:-1],
            marked + b"]}," if tools else b"", b'"messages":[', *messages, b"]}",
        ))  # fmt: skip
        url = _url(base_url, f"/{quote(params.model, safe=':._-~')}/converse-stream")
        headers = {"content-type": "application/json", "accept": "application/vnd.amazon.eventstream"}
        return Request(url, self._authorised("POST", url, body, headers, api_key), body)

    def probe(self, *, base_url: str, api_key: str | None) -> Request:
        """The list of models, which another host of the same region has."""
        parts = urlsplit(_url(base_url.removesuffix("/model"), "/foundation-models"))
        url = urlunsplit(parts._replace(netloc=parts.netloc.replace("bedrock-runtime", "bedrock", 1)))
        return Request(url, self._authorised("GET", url, b"", {}, api_key), b"")

    def _authorised(
        self, method: str, url: str, body: bytes, headers: dict[str, str], api_key: str | None
    ) -> dict[str, str]:
        if self._signer is not None:
            return self._signer.headers(method, url, body, headers)
        return {**headers, **key_headers(api_key, self._key_header)}

    def _called(self) -> bytes:
        """The tools that the history speaks of: it may not hold calls where none are offered."""
        writer = self._history.current
        names = writer.names if isinstance(writer, ConverseWriter) else {}
        return encode([_tool(ToolDef(name, "", {})) for name in names]) if names else b""

    def _options(self, params: CompletionParams, traits: Converse, target: str) -> dict[str, Any]:
        limit = params.max_output
        extra = _thinking(params, traits, self._output(params), target)
        if "thinking" in extra and limit is None:
            limit = self._output(params)
        if extra.get("reasoningConfig", {}).get("maxReasoningEffort") == "high":
            limit = None  # Nova refuses a limit beside its highest effort
        options: dict[str, Any] = {"inferenceConfig": {"maxTokens": limit}} if limit is not None else {}
        if extra:
            options["additionalModelRequestFields"] = extra
        if params.system.strip():
            mark = [{"cachePoint": {"type": "default"}}] if traits.cache else []
            options["system"] = [{"text": params.system}, *mark]
        return options

    def _output(self, params: CompletionParams) -> int:
        return params.max_output or min(model_info(self._vendor, params.model).max_output or 8_192, _OUTPUT)


def _url(base_url: str, path: str) -> str:
    base, mark, query = base_url.partition("?")
    return base.rstrip("/") + path + mark + query


def _tool(tool: ToolDef) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description.strip() else {}
    return {
        "toolSpec": {
            "name": wire_name(tool.name), **described, "inputSchema": {"json": clean(tool.parameters)},
        }
    }  # fmt: skip


def _thinking(params: CompletionParams, traits: Converse, limit: int, target: str) -> dict[str, Any]:
    """How the model is told to think: each maker has a field of its own."""
    level = params.thinking
    if level is None or not traits.thinking:
        return {}
    if traits.thinking == "effort":
        return {"reasoning_effort": "low" if level == "off" else level}
    if traits.thinking == "nova":
        if level == "off":
            return {"reasoningConfig": {"type": "disabled"}}
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}
    if level == "off":
        return {"thinking": {"type": "disabled"}}
    if anthropic_thinking(params.model) == "adaptive":
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
    budget = min(_BUDGETS[level], limit - 1_024)
    if budget < 1_024 or in_foreign_loop(params.messages, model=target, api=API, signed=_goes_back):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


# ------------------------------------------------------------------ messages

_OPEN = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}
_CONTINUE = b'{"text":"Continue."}'
_OK = b'{"text":"OK."}'


class _Waiting:
    """The results of one round, until it is known that no picture of theirs follows."""

    __slots__ = ("at", "lasting", "results")

    def __init__(self) -> None:
        self.at: dict[str, int] = {}
        self.results: list[dict[str, Any] | bytes] = []
        self.lasting: dict[int, ToolMessage] = {}
        """Results by their place that say the same in every request."""

    def encoded(self) -> list[bytes]:
        return [result if isinstance(result, bytes) else encode(result) for result in self.results]


class ConverseWriter(Writer):
    """Writes one history for one target. Neighbours of the same role become one message: all results of a round and
    what the user says after them stand together, the results first."""

    def __init__(self, target: str, traits: Converse, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self.names: dict[str, None] = {}
        """The tools that were called so far."""
        self._target = target
        self._traits = traits
        self._media = media
        self._ids = Ids("bedrock")
        self._role = ""
        self._waiting = _Waiting()
        self._answered = False  # the open message of the user begins with results

    def add(self, message: Message) -> None:
        if type(message) is ToolMessage:
            self._result(message)
        elif type(message) is UserMessage:
            if message.origin == "tool_image" and self._attach(message):
                return
            self._flush()
            if self._answered and not self._traits.mixed:
                self._put("assistant", _OK)
            self._put("user", self.kept(message) or self.keep(message, self._user(message)))
        elif type(message) is AssistantMessage and (data := self._assistant(message)):
            self._flush()
            self._put("assistant", data)

    def finish(self) -> list[Piece]:
        results = b",".join(self._waiting.encoded())
        if self.empty and not results:
            return []
        last: list[Piece] = []
        if results:
            last = [b"," if self._role == "user" else self._turn("user"), results]
        elif self._role == "assistant":  # newer models refuse to go on from their own words
            last = [self._turn("user"), _CONTINUE]
        mark = b"," + _MARK if self._traits.cache else b""
        return [*self.written(), *last, mark, b"]}"]

    def _turn(self, role: str) -> bytes:
        return (b"" if self.empty else b"]},") + _OPEN[role]

    def _put(self, role: str, blocks: bytes) -> None:
        if role == self._role == "assistant" and not self._traits.mixed:
            self.write(self._turn("user"), _CONTINUE)
        elif role == self._role:
            self.write(b",", blocks)
            return
        if self.empty and role == "assistant":  # a conversation begins with the user
            self.write(_OPEN["user"], _CONTINUE)
        self.write(self._turn(role), blocks)
        self._role = role
        self._answered = False

    # -------------------------------------------------------------- results

    def _flush(self) -> None:
        """Write the results of the round."""
        waiting, self._waiting = self._waiting, _Waiting()
        if waiting.results:
            encoded = waiting.encoded()
            for at, message in waiting.lasting.items():
                self.keep(message, encoded[at])
            self._put("user", b",".join(encoded))
            self._answered = True

    def _result(self, message: ToolMessage) -> None:
        wire, waiting = self._ids.result(message.tool_call_id), self._waiting
        waiting.at[message.tool_call_id] = len(waiting.results)
        if wire == self._ids.plain(message.tool_call_id):
            if found := self.kept(message):
                waiting.results.append(found)
                return
            waiting.lasting[len(waiting.results)] = message
        text, content = text_of(message), []
        if text.strip():
            content.append({"text": text})
        content += [self._picture(b) for b in message.content if type(b) is Image]
        result: dict[str, Any] = {"toolUseId": wire, "content": content or [{"text": NO_OUTPUT}]}
        if message.is_error:
            result["status"] = "error"
        waiting.results.append({"toolResult": result})

    def _picture(self, image: Image) -> dict[str, Any]:
        """A picture in the content of a result."""
        if self._traits.media_results:
            return self._image(image)
        return {"text": image_note(image, "a result holds text only")}

    def _attach(self, message: UserMessage) -> bool:
        """Give a tool's pictures to its result. False: there is none here, or it takes none, or words stand there."""
        at = self._waiting.at.get(message.tool_call_id or "")
        images = [b for b in message.content if type(b) is Image]
        if at is None or not self._traits.media_results or len(images) < len(message.content):
            return False
        result = self._waiting.results[at]
        held: dict[str, Any] = loads(result) if isinstance(result, bytes) else result
        held["toolResult"]["content"] += map(self._image, images)
        self._waiting.results[at] = held
        self._waiting.lasting.pop(at, None)
        return True

    # -------------------------------------------------------------- what is said

    def _user(self, message: UserMessage) -> bytes:
        blocks: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Text and block.text.strip():
                blocks.append({"text": block.text})
            elif type(block) is Image:
                blocks.append(self._image(block))
        return _bare(blocks or [{"text": EMPTY}])

    def _image(self, image: Image) -> dict[str, Any]:
        data, why = image_base64(image, self._media, allowed=self.images)
        if why:
            return {"text": image_note(image, why)}
        return {"image": {"format": _FORMATS[image.media_type], "source": {"bytes": data}}}

    def _assistant(self, message: AssistantMessage) -> bytes:
        calls = [b for b in message.content if type(b) is ToolCall]
        self.names.update((call.name, None) for call in calls)
        wires = {id(c): self._ids.call(c.id) for c in calls}
        plain = all(wires[id(c)] == self._ids.plain(c.id) for c in calls)
        if plain and (found := self.kept(message)) is not None:
            return found
        made = (_wire_block(b, wires) for b in assistant_blocks(message, model=self._target, api=API))
        blocks = [b for b in made if b is not None]
        if calls and not self._traits.mixed:
            blocks = [b for b in blocks if "toolUse" in b]
        while blocks and "reasoningContent" in blocks[-1]:
            blocks.pop()  # may not stand last; without anything after it, it has no use either
        return self.keep(message, _bare(blocks)) if plain else _bare(blocks)


def _bare(blocks: list[dict[str, Any]]) -> bytes:
    """The blocks without the brackets around them."""
    return encode(blocks)[1:-1]


def _wire_block(block: Block, wires: dict[int, str]) -> dict[str, Any] | None:
    """What goes back. Tools that Amazon ran are not offered here, so their calls are left out."""
    if isinstance(block, Text):
        return {"text": block.text}
    if isinstance(block, ToolCall):
        use = {"toolUseId": wires[id(block)], "name": wire_name(block.name), "input": block.arguments or {}}
        return {"toolUse": use}
    if isinstance(block, Thinking):
        return _thought(block)
    return None


def _goes_back(block: Thinking) -> bool:
    return _thought(block) is not None


def _thought(block: Thinking) -> dict[str, Any] | None:
    """Thinking goes back with its signature; without one no model takes it."""
    if block.redacted is not None:
        return {"reasoningContent": {"redactedContent": block.redacted}}
    if not block.signature:
        return None
    return {"reasoningContent": {"reasoningText": {"text": block.text, "signature": block.signature}}}
