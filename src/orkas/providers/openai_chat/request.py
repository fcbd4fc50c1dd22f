"""Requests in the form of Chat Completions. Old messages keep their bytes, so consecutive requests share a prefix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from orkas.infra.messages import (
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
)  # fmt: skip
from orkas.providers.base import CompletionParams, Request, ThinkingLevel
from orkas.providers.catalog import is_plain_openai, model_info, reasons_openai
from orkas.providers.vendors import Quirks
from orkas.providers.writing.chat import ChatForm, call_entry, tool_entry
from orkas.providers.writing.history import History, Piece, ToolBytes
from orkas.providers.writing.output import Shape, chat_format
from orkas.providers.writing.transform import (
    assistant_blocks,
    cache_key,
    endpoint,
    key_headers,
)

__all__ = ["API", "ChatRequests"]

API = "openai_chat"


class ChatRequests:
    """Builds requests for one vendor."""

    def __init__(self, vendor: str, quirks: Quirks, key_header: str = "") -> None:
        self._vendor = vendor
        self._quirks = quirks
        self._key_header = key_header
        self._history = History()
        self._tools = ToolBytes(tool_entry)
        self._output = Shape(chat_format)

    def build(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        target = f"{self._vendor}/{params.model}"
        images = model_info(self._vendor, params.model).images
        messages = self._history.join(params, lambda: ChatWriter(target, self._quirks, params.media), images=images)
        head = encode(self._options(params))[:-1]
        system = self._system(params)
        tools = self._tools.get(params.tools)
        body = b"".join((
            head, b',"tools":' if tools else b"", tools, b',"messages":[', system,
            b"," if system and messages else b"", *messages, b"]}",
        ))  # fmt: skip
        return Request(endpoint(base_url, "/chat/completions"), self._headers(params, api_key), body)

    def _options(self, params: CompletionParams) -> dict[str, Any]:
        quirks = self._quirks
        options: dict[str, Any] = {"model": params.model, "stream": True}
        if quirks.stream_options:
            options["stream_options"] = {"include_usage": True}
        if params.max_output is not None:
            options[quirks.max_tokens] = params.max_output
        marked = bool(quirks.cache_models) and params.model.startswith(quirks.cache_models)
        if marked:
            options["cache_control"] = {"type": "ephemeral"}
        if params.tools and params.tool_choice == "none" and not marked:  # there, another choice would lose the cache
            options["tool_choice"] = "none"
        if params.output is not None and (form := self._form(params)):
            options["response_format"] = form
        if quirks.cache_key and params.session_id:
            options[quirks.cache_key] = cache_key(params.session_id)
        options.update(_thinking(quirks, params.model, params.thinking))
        return options

    def _form(self, params: CompletionParams) -> dict[str, Any] | None:
        quirks = self._quirks
        if not quirks.output or (quirks.output_alone and params.tools and params.tool_choice != "none"):
            return None
        return {"type": "json_object"} if quirks.output == "json_object" else self._output.get(params.output)

    def _system(self, params: CompletionParams) -> bytes:
        if not params.system:
            return b""
        role = _system_role(params.model) if self._quirks.developer else "system"
        return encode({"role": role, "content": params.system})

    def _headers(self, params: CompletionParams, api_key: str | None) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        headers.update(key_headers(api_key, self._key_header))
        if self._quirks.cache_header and params.session_id:
            headers[self._quirks.cache_header] = cache_key(params.session_id)
        return headers


def _system_role(model: str) -> str:
    if model.startswith(("o1-mini", "o1-preview")):
        return "user"
    return "developer" if reasons_openai(model) else "system"


_LEVELS: tuple[ThinkingLevel, ...] = ("off", "low", "medium", "high")


def _thinking(quirks: Quirks, model: str, level: ThinkingLevel | None) -> dict[str, Any]:
    style = quirks.thinking
    if level is None or not style:
        return {}
    on = level != "off"
    if quirks.efforts:
        told = max((p for p in quirks.efforts if model.lower().startswith(p)), key=len, default=None)
        effort = quirks.efforts[told][_LEVELS.index(level)] if told is not None else ""
        return {"reasoning_effort": effort} if effort else {}
    if style == "chat_template_kwargs":
        return {"chat_template_kwargs": {"enable_thinking": on}}
    if style == "reasoning":
        return {"reasoning": {"effort": level} if on else {"enabled": False}}
    if style == "enable_thinking":
        return {"enable_thinking": on}
    if style == "thinking_type":
        return {"thinking": {"type": "enabled" if on else "disabled"}}
    if on:
        return {"reasoning_effort": level} if not is_plain_openai(model) else {}
    if model.startswith("gpt-") and reasons_openai(model):  # gpt-5 itself cannot do without
        return {"reasoning_effort": "minimal" if re.match(r"gpt-5(?!\.)", model) else "none"}
    return {} if is_plain_openai(model) or reasons_openai(model) else {"reasoning_effort": "none"}


# ------------------------------------------------------------------ messages


_MANY = 32
"""New messages at once from which on it pays to encode them together."""
_RUN = 100
"""Messages that are encoded together at most: of more, the memory for their bytes would be taken several times."""


class _Said(msgspec.Struct, gc=False):
    """The form nearly all messages have: one speaker, one text."""

    role: str
    content: str


_ROLES: dict[type, str] = {UserMessage: "user", AssistantMessage: "assistant"}


def _one_text(message: Message) -> str:
    """The text of a message that is nothing else; empty for any other."""
    content = message.content
    if len(content) != 1 or message.vendor is not None or type(block := content[0]) is not Text or block.text.isspace():
        return ""
    return block.text


class ChatWriter(ChatForm):
    """Writes one history for one target, message after message."""

    def __init__(self, target: str, quirks: Quirks, media: Callable[[str], bytes] | None) -> None:
        super().__init__(target, quirks.ids, media)
        self._quirks = quirks
        self._after_tool = False

    def add(self, message: Message) -> None:
        kind = type(message)
        if kind is ToolMessage:
            self._put(self.result(message))  # type: ignore[arg-type]  # narrowing by isinstance costs
            self._after_tool = True
            return
        if kind is UserMessage and self._after_tool and self._quirks.assistant_after_tool:
            self._put(b'{"role":"assistant","content":"OK."}')
        if text := _one_text(message):
            self._put(self.kept(message) or self.keep(message, encode(_Said(_ROLES[kind], text))))
        elif kind is UserMessage:
            self._put(self.user(message))  # type: ignore[arg-type]
        elif type(message) is AssistantMessage and (data := self.assistant(message)):
            self._put(data)
        else:
            return
        self._after_tool = False

    def extend(self, messages: Sequence[Message]) -> None:
        """A stored conversation that is opened: runs of plain messages are encoded together, in one go."""
        if len(messages) < _MANY or not self.keeps_nothing:
            return super().extend(messages)
        run: list[_Said] = []
        for message in messages:
            role = _ROLES.get(type(message))
            if role and not self._after_tool and (text := _one_text(message)):
                run.append(_Said(role, text))
                if len(run) == _RUN:
                    self._put_run(run)
            else:
                self._put_run(run)
                self.add(message)
        self._put_run(run)

    def _put_run(self, run: list[_Said]) -> None:
        if run:
            self._put(memoryview(encode(run))[1:-1])
            run.clear()

    def finish(self) -> list[Piece]:
        return self.written()

    def _put(self, data: Piece) -> None:
        self.write(data) if self.empty else self.write(b",", data)

    def record(self, message: AssistantMessage, calls: list[ToolCall], wires: list[str]) -> dict[str, Any] | None:
        blocks = assistant_blocks(message, model=self._target, api=API)
        same = message.model == self._target and message.api == API
        text = "".join(b.text for b in blocks if type(b) is Text)
        thinking = [b for b in blocks if type(b) is Thinking]
        if not text and not calls:
            return None
        record: dict[str, Any] = {"role": "assistant", "content": text or (None if self._quirks.content_null else "")}
        self._give_back(record, thinking, bool(calls))
        if same and message.vendor and (extra := message.vendor.get("extra_content")):
            record["extra_content"] = extra
        if calls:
            record["tool_calls"] = [_wire_call(c, w, same=same) for c, w in zip(calls, wires, strict=True)]
        return record

    def _give_back(self, record: dict[str, Any], thinking: list[Thinking], calls: bool) -> None:
        """The model's own reasoning in the field that its vendor wants it back in."""
        field = self._quirks.thinking_back
        text = "".join(t.text for t in thinking)
        if field == "reasoning_details":
            if details := [d for t in thinking if (d := _detail(t))]:
                record["reasoning_details"] = details
        elif field == "parts":
            if text:
                said = [{"type": "text", "text": record["content"]}] if record["content"] else []
                record["content"] = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}, *said]
        elif field and (text or (calls and self._quirks.thinking_required)):
            record[field] = text


def _detail(block: Thinking) -> dict[str, Any] | None:
    """A reasoning item as it came: its words, signature and blob put back to the rest."""
    kept = (block.vendor or {}).get("reasoning_detail")
    if not isinstance(kept, dict):
        return None
    detail = dict(kept)
    if block.text:
        detail["summary" if detail.get("type") == "reasoning.summary" else "text"] = block.text
    if block.signature:
        detail["signature"] = block.signature
    if block.encrypted:
        detail["data"] = block.encrypted
    return detail


def _wire_call(call: ToolCall, wire: str, *, same: bool) -> dict[str, Any]:
    data = call_entry(call, wire)
    if same and call.vendor and (extra := call.vendor.get("extra_content")):
        data["extra_content"] = extra
    return data
