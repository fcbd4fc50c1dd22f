"""What a conversation is made of: blocks, messages, and where each came from.

One message is one record of the session file and one line of it (see ``docs/session-format.md``).
Messages are never changed after they were made: layers above keep encoded forms by identity. Their content is plain
data, which has no cycles, so they are left out of garbage collection (``gc=False``): long histories cost it nothing.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

import msgspec

__all__ = [
    "AssistantMessage", "Block", "Image", "Message", "Opaque", "StopReason", "Text", "Thinking", "ToolCall",
    "ToolMessage", "Usage", "UserMessage", "calls_of", "decode_message", "encode", "new_id", "now", "text_of",
    "to_record", "tool_result", "user_message", "well_formed",
]  # fmt: skip

StopReason: TypeAlias = Literal[
    "stop", "tool_use", "length", "refusal", "content_filter", "pause", "overflow", "error", "aborted",
    "max_rounds", "max_cost", "loop",
]  # fmt: skip


class _Block(msgspec.Struct, tag_field="type", omit_defaults=True, kw_only=True, gc=False):
    vendor: dict[str, Any] | None = None
    """What the vendor that wrote the block needs back, as it came. Opaque to everybody else."""


class Text(_Block, tag="text", omit_defaults=True, gc=False):
    text: str
    file: str | None = None
    """Where the whole of a spilled result lies, relative to the session's folder of files."""
    bytes: int | None = None
    """Size of the whole result in bytes, when ``text`` is only a preview."""


class Image(_Block, tag="image", omit_defaults=True, gc=False):
    media_type: str
    data: str | None = None
    """Base64, or None when the bytes lie in ``file``."""
    file: str | None = None


class Thinking(_Block, tag="thinking", omit_defaults=True, gc=False):
    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    encrypted: str | None = None


class ToolCall(_Block, tag="tool_call", omit_defaults=True, gc=False):
    id: str
    name: str
    arguments: dict[str, Any] | None
    """None: the arguments did not parse or were cut. Such a call is never executed."""
    arguments_raw: str | None = None
    signature: str | None = None


class Opaque(_Block, tag="opaque", omit_defaults=True, gc=False):
    """A block of a kind we do not know: kept, shown as nothing, given back only to the vendor that wrote it."""

    kind: str


Block: TypeAlias = Text | Image | Thinking | ToolCall | Opaque


class Usage(msgspec.Struct, omit_defaults=True, gc=False):
    """Tokens of one or more model calls. None: the vendor gave no figure."""

    input: int | None = None
    """Prompt tokens neither read from nor written to a cache."""
    output: int | None = None
    """All generated tokens, reasoning included."""
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None

    def plus(self, other: Usage) -> Usage:
        """The sum of two; None only where both are None."""
        pairs = ((getattr(self, f), getattr(other, f)) for f in self.__struct_fields__)
        return Usage(*(a if b is None else b if a is None else a + b for a, b in pairs))


class UserMessage(msgspec.Struct, tag_field="role", tag="user", omit_defaults=True, gc=False):
    content: list[Block]
    id: str = ""
    ts: str | float = ""
    origin: str | None = None
    """``tool_image``: an image that a tool returned; then ``tool_call_id`` names the call."""
    tool_call_id: str | None = None
    vendor: dict[str, Any] | None = None


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant", omit_defaults=True, gc=False):
    content: list[Block]
    model: str = ""
    """``vendor/model`` that wrote it."""
    api: str = ""
    """The wire dialect it came through."""
    stop_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    ts: str | float = ""
    vendor: dict[str, Any] | None = None


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", omit_defaults=True, gc=False):
    tool_call_id: str
    content: list[Block]
    is_error: bool = False
    synthetic: bool = False
    """Made by us because the real result is missing."""
    id: str = ""
    ts: str | float = ""
    vendor: dict[str, Any] | None = None


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

_encoder = msgspec.json.Encoder()
_decode_typed = msgspec.json.Decoder(Message).decode
_KNOWN = {"text": Text, "image": Image, "thinking": Thinking, "tool_call": ToolCall, "opaque": Opaque}
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def new_id() -> str:
    """A short id, unique in a session: 48 random bits in hex."""
    return os.urandom(6).hex()


def now() -> str:
    """The time of day in UTC, ISO 8601 with milliseconds. For people: order is the order of the records."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def well_formed(text: str) -> str:
    """Join halves of surrogate pairs; whatever half is left alone becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return joined.translate(_SURROGATES)
    return text


def scrub(value: Any) -> Any:
    """``well_formed`` applied to every string inside plain data."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {scrub(k): scrub(v) for k, v in value.items()}
    if isinstance(value, list):
        return [scrub(v) for v in value]
    return value


def encode(value: object) -> bytes:
    """JSON of one message, block or plain value: one line, UTF-8. Never raises for lone surrogates."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(scrub(msgspec.to_builtins(value)))


def to_record(message: Message) -> dict[str, Any]:
    """The message as plain data in the form of the session file, ``is_error`` and ``synthetic`` always present."""
    record = cast("dict[str, Any]", msgspec.to_builtins(message))
    if isinstance(message, ToolMessage):
        record.setdefault("is_error", False)
        record.setdefault("synthetic", False)
    return record


def decode_message(line: bytes | dict[str, Any]) -> Message | None:
    """Read one message record. None when it is a record of another type.

    Unknown blocks become ``Opaque``, unknown fields are ignored, a plain string as content is read as one text, a call
    or result without an id has the empty one.

    Raises:
        ValueError: the JSON is broken or the record is no message although it has a role.
    """
    if isinstance(line, bytes):
        try:
            return _decode_typed(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        line = _loads(line)
    if not isinstance(line, dict):
        raise ValueError("a record must be a JSON object")  # noqa: TRY004 - damage, not a programming error
    if "role" not in line:
        if not isinstance(line.get("type"), str):
            raise ValueError("a record needs a role or a type")
        return None
    record = _filled(scrub(line))
    content = record.get("content", [])
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ValueError("a message needs its content as a list of blocks")  # noqa: TRY004
    record["content"] = [_tolerant_block(b) for b in content]
    if record["role"] == "tool":
        record.setdefault("tool_call_id", "")
    try:
        return cast("Message", msgspec.convert(record, Message))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _loads(line: bytes) -> Any:
    import json

    return json.loads(line.decode("utf-8"))


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that hold something, ids as text: ``null`` means what leaving the field out means."""
    filled = {name: value for name, value in fields.items() if value is not None}
    for name in ("id", "tool_call_id"):
        if isinstance(filled.get(name), int):
            filled[name] = str(filled[name])
    return filled


def _tolerant_block(block: Any) -> Any:
    """A block we can read as it is; anything else wrapped as ``opaque``."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in _KNOWN:
        block = _filled(block)
        if kind == "tool_call":
            block = {"id": "", "arguments": None, **block}
        try:
            msgspec.convert(block, _KNOWN[kind])
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        return block
    return {"type": "opaque", "kind": str(kind), "vendor": block if isinstance(block, dict) else {"value": block}}


def text_of(message: Message) -> str:
    """The visible text of a message, blocks joined."""
    return "".join(b.text for b in message.content if isinstance(b, Text))


def calls_of(message: Message) -> list[ToolCall]:
    """The tool calls of a message in declared order; empty for all but assistant messages."""
    if type(message) is not AssistantMessage:
        return []
    return [b for b in message.content if type(b) is ToolCall]


def user_message(text: str, images: list[Image] | None = None) -> UserMessage:
    """A new message of the user: the images first, then the text, as the vendors recommend."""
    content: list[Block] = [*(images or [])]
    if text or not content:
        content.append(Text(text=text))
    return UserMessage(content, id=new_id(), ts=now())


def tool_result(call_id: str, text: str, *, is_error: bool = False, synthetic: bool = False) -> ToolMessage:
    """A new result of one tool call, as text."""
    return ToolMessage(call_id, [Text(text=text)], is_error, synthetic, id=new_id(), ts=now())
