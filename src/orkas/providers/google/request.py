"""Requests in the form of generateContent. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

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
    text_of,
)  # fmt: skip
from orkas.providers.base import CompletionParams, Request, ToolDef
from orkas.providers.catalog import Gemini, gemini, model_info
from orkas.providers.clouds.vertex import is_api_key
from orkas.providers.google.schema import openapi
from orkas.providers.vendors import Quirks
from orkas.providers.writing.history import History, Piece, ToolBytes
from orkas.providers.writing.order import TurnAbout
from orkas.providers.writing.schemas import clean
from orkas.providers.writing.transform import (
    EMPTY,
    NO_OUTPUT,
    assistant_blocks,
    endpoint,
    image_base64,
    image_note,
    is_own,
    wire_name,
)

__all__ = ["API", "SIGNED", "GoogleRequests"]

API = "google_generate_content"
SIGNED = "signed"
"""Where a text keeps its thought signatures: a list of (first character, the one after the last, signature)."""
_DUMMY = "skip_thought_signature_validator"
"""Stands for the signature of a call that another model made. Documented on Google's page on thought signatures."""
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens of thinking per level, for models that take a budget (at most 24,576 on all of them)."""
_SMALLEST = 512
"""A budget between nothing and this is refused by Gemini 2.5 Flash-Lite."""
_ANSWER = 1_024
"""Tokens left for the answer when the limit of a reply is less than the budget: thinking counts against that limit."""


class GoogleRequests:
    """Builds requests for one vendor."""

    def __init__(self, vendor: str, quirks: Quirks, key_header: str = "") -> None:
        self._vendor = vendor
        self._path = quirks.model_path or "/models/{model}"
        self._key_header = key_header
        self._history = History()
        self._json_tools = ToolBytes(_tool)
        self._openapi_tools = ToolBytes(_openapi_tool)

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        traits, target = gemini(params.model), f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        contents = self._history.join(params, lambda: ContentsWriter(target, traits, params.media), images=images)
        head = encode(_options(params, traits))[:-1]
        tools = (self._json_tools if traits.json_schema else self._openapi_tools).get(params.tools)
        body = b"".join((
            head, b"," if len(head) > 1 else b"", b'"tools":[{"functionDeclarations":' if tools else b"", tools,
            b"}]," if tools else b"", b'"contents":[', *contents, b"]}",
        ))  # fmt: skip
        headers = {
            "content-type": "application/json", "accept": "text/event-stream", **key_headers(api_key, self._key_header),
        }  # fmt: skip
        return Request(self._url(base_url, params.model), headers, body)

    def _url(self, base_url: str, model: str) -> str:
        path = self._path.format(model=quote(model.removeprefix("models/"), safe="/@:.-_~"))
        url = endpoint(base_url, f"{path}:streamGenerateContent")
        return f"{url}{'&' if '?' in url else '?'}alt=sse"


def key_headers(api_key: str | None, header: str = "") -> dict[str, str]:
    """API keys and access tokens go in headers of their own, whichever of the two the row has in mind."""
    if not api_key:
        return {}
    if api_key.startswith("ya29.") or (header == "authorization" and not is_api_key(api_key)):
        return {"authorization": f"Bearer {api_key}"}
    return {header if header and header != "authorization" else "x-goog-api-key": api_key}


def _options(params: CompletionParams, traits: Gemini) -> dict[str, Any]:
    options: dict[str, Any] = {}
    generation: dict[str, Any] = {}
    if params.max_output is not None:
        generation["maxOutputTokens"] = params.max_output
    if thinking := _thinking(params, traits):
        generation["thinkingConfig"] = thinking
    if params.output is not None and traits.json_schema and (traits.typed_with_tools or not params.tools):
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = params.output.schema
    if generation:
        options["generationConfig"] = generation
    if params.system.strip():
        options["systemInstruction"] = {"parts": [{"text": params.system}]}
    if params.tools:
        mode = "NONE" if params.tool_choice == "none" else "AUTO"
        options["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    return options


def _thinking(params: CompletionParams, traits: Gemini) -> dict[str, Any]:
    level = params.thinking
    if level is None or not traits.thinking:
        return {}
    on = level != "off"
    if traits.thinking == "level":
        told = traits.least if not on else "high" if level == "medium" and not traits.medium else level
        return {"thinkingLevel": str(told).upper(), "includeThoughts": on}
    least = int(traits.least or 0)
    budget = _BUDGETS[level] if on else least
    if on and params.max_output is not None:
        budget = min(budget, params.max_output - _ANSWER)
        budget = budget if budget >= _SMALLEST else least
    return {"thinkingBudget": budget, "includeThoughts": on and budget > 0}


def _tool(tool: ToolDef) -> dict[str, Any]:
    parameters = clean(tool.parameters)
    return {"name": wire_name(tool.name), "description": tool.description, "parametersJsonSchema": parameters}


def _openapi_tool(tool: ToolDef) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": wire_name(tool.name), "description": tool.description}
    if parameters := openapi(tool.parameters):
        declared["parameters"] = parameters
    return declared


# ------------------------------------------------------------------ messages

_OPEN = {"user": b'{"role":"user","parts":[', "model": b'{"role":"model","parts":['}
_CONTINUE = b'{"text":"Continue."}'
_IMAGES = ("image/png", "image/jpeg", "image/webp")


class _Waiting:
    """The results of one round, until it is known that no picture of theirs follows."""

    __slots__ = ("ids", "parts", "pictures")

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.parts: list[dict[str, Any]] = []
        self.pictures: list[dict[str, Any]] = []


class ContentsWriter(TurnAbout):
    """Writes one history for one target. Neighbours of the same role become one content, but the results of a round
    stand alone: Google counts them against its calls."""

    opening = _OPEN
    go_on = _CONTINUE

    def __init__(self, target: str, traits: Gemini, media: Callable[[str], bytes] | None) -> None:
        super().__init__()
        self._target = target
        self._traits = traits
        self._media = media
        self._calls: dict[str, deque[tuple[str, str]]] = {}
        self._results = _Waiting()

    def add(self, message: Message) -> None:
        if type(message) is ToolMessage:
            self._result(message)
        elif type(message) is UserMessage:
            if message.origin == "tool_image" and self._results.parts and self._attach(message):
                return
            self._flush()
            self._put("user", self.kept(message) or self.keep(message, self._user(message)))
        elif type(message) is AssistantMessage and (data := self._assistant(message)):
            self._flush()
            self._put("model", data)

    def finish(self) -> list[Piece]:
        if self.empty and not self._results.parts:
            return []
        ending: list[Piece] = [] if self.empty else [b"]}"]
        if self._results.parts:
            return [*self.written(), *ending, b"," if ending else b"", *_whole(self._results)]
        if self._role == "model":
            return [*self.written(), *ending, b",", _OPEN["user"], _CONTINUE, b"]}"]
        return [*self.written(), *ending]

    # -------------------------------------------------------------- results

    def _flush(self) -> None:
        """Write the results of the round. What follows begins a content of its own."""
        results, self._results = self._results, _Waiting()
        if not results.parts:
            return
        if not self.empty:
            self.write(b"]},")
        *pieces, _ = _whole(results)
        self.write(*pieces)
        self._role = ""

    def _result(self, message: ToolMessage) -> None:
        name, id = self._answered(message.tool_call_id)
        text = text_of(message)
        response: dict[str, Any] = {"name": name, "response": _response(text, is_error=message.is_error)}
        if id:
            response["id"] = id
        results = self._results
        results.ids[message.tool_call_id] = len(results.parts)
        results.parts.append(response)
        for block in message.content:
            if type(block) is Image:
                self._picture(block, response)

    def _answered(self, id: str) -> tuple[str, str]:
        """Name and wire id of the earliest call with this id that has no result yet."""
        waiting = self._calls.get(id)
        return waiting.popleft() if waiting else ("unknown", "")

    def _attach(self, message: UserMessage) -> bool:
        """Give a tool's pictures to its result. False: there is none here, or words stand beside them."""
        at = self._results.ids.get(message.tool_call_id or "")
        if at is None or not all(type(b) is Image for b in message.content):
            return False
        for block in message.content:
            if type(block) is Image:
                self._picture(block, self._results.parts[at])
        return True

    def _picture(self, image: Image, response: dict[str, Any]) -> None:
        part = self._image(image)
        if self._traits.media_results and "inlineData" in part:
            response.setdefault("parts", []).append(part)
        else:
            self._results.pictures.append(part)

    # -------------------------------------------------------------- what is said

    def _user(self, message: UserMessage) -> bytes:
        parts: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Text and block.text.strip():
                parts.append({"text": block.text})
            elif type(block) is Image:
                parts.append(self._image(block))
        return _bare(parts or [{"text": EMPTY}])

    def _image(self, image: Image) -> dict[str, Any]:
        data, why = image_base64(image, self._media, allowed=self.images)
        if not why and image.media_type not in _IMAGES:
            why = "the format is not accepted"
        if why:
            return {"text": image_note(image, why)}
        return {"inlineData": {"mimeType": image.media_type, "data": data}}

    def _assistant(self, message: AssistantMessage) -> bytes:
        same = message.model == self._target and message.api == API
        for call in message.content:
            if type(call) is ToolCall:
                self._calls.setdefault(call.id, deque()).append((wire_name(call.name), _id_of(call) if same else ""))
        if (found := self.kept(message)) is not None:
            return found
        own = is_own(message, model=self._target, api=API)
        blocks = message.content if own else assistant_blocks(message, model=self._target, api=API)
        parts = [part for block in blocks for part in self._parts(block, own=own, same=same)]
        if not any(_says(part) for part in parts):
            parts = []
        if self._traits.signatures:
            _sign_first(parts)
        return self.keep(message, _bare(parts))

    def _parts(self, block: Block, *, own: bool, same: bool) -> Iterator[dict[str, Any]]:
        if isinstance(block, Text):
            yield from _texts(block, own=own)
        elif isinstance(block, ToolCall):
            call = {"name": wire_name(block.name), "args": block.arguments or {}}
            if same and (id := _id_of(block)):
                call["id"] = id
            yield {"functionCall": call, **_signature(block.signature if own else None)}
        elif isinstance(block, Thinking):
            if own and block.signature:
                yield {"text": block.text, "thought": True, "thoughtSignature": block.signature}
        elif isinstance(block, Image):
            yield {**self._image(block), **_signature((block.vendor or {}).get("thoughtSignature"))}
        elif isinstance(block, Opaque) and own and block.vendor:
            yield block.vendor


def _whole(results: _Waiting) -> list[Piece]:
    """The contents of a round's results: the answers, then pictures that may not stand in them."""
    answers = b",".join(encode({"functionResponse": part}) for part in results.parts)
    pieces: list[Piece] = [_OPEN["user"], answers]
    if results.pictures:
        pieces += [b"]},", _OPEN["user"], _bare(results.pictures)]
    return [*pieces, b"]}"]


def _response(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"error" if is_error else "output": text if text.strip() else NO_OUTPUT}


def _bare(parts: list[dict[str, Any]]) -> bytes:
    """The parts without the brackets around them."""
    return encode(parts)[1:-1]


def _id_of(call: ToolCall) -> str:
    """The id that Google gave to a call; most have none, and none is made up for them."""
    id = (call.vendor or {}).get("id")
    return id if isinstance(id, str) else ""


def _signature(signature: Any) -> dict[str, Any]:
    return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _texts(block: Text, *, own: bool) -> Iterator[dict[str, Any]]:
    """A text in the parts it came in as far as signatures stand on them."""
    at = 0
    for start, end, signature in _spans(block) if own else ():
        if (before := block.text[at:start]).strip():
            yield {"text": before}
        yield {"text": block.text[start:end], **_signature(signature)}
        at = end
    if (rest := block.text[at:]).strip():
        yield {"text": rest}


def _spans(block: Text) -> Iterator[tuple[int, int, str]]:
    """The signed stretches of a text in order; whatever is no such stretch is passed over."""
    at, given = 0, (block.vendor or {}).get(SIGNED)
    for span in given if isinstance(given, list) else ():
        match span:
            case [int(start), int(end), str(signature)] if at <= start <= end <= len(block.text):
                yield start, end, signature
                at = end


def _says(part: dict[str, Any]) -> bool:
    """Something that may stand alone: no thought, and no text without a visible character."""
    return not part.get("thought") and ("text" not in part or bool(str(part["text"]).strip()))


def _sign_first(parts: list[dict[str, Any]]) -> None:
    """The first call of a step needs a signature; one that another model made gets the documented stand-in."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", _DUMMY)
