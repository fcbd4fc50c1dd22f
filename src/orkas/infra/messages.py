"""What a conversation is made of: blocks, messages, and where each came from.

One message is one record of the session file and one line of it (see ``docs/session-format.md``).
Messages are never changed after they were made: layers above keep encoded forms by identity. Their content is plain
data, which has no cycles, so they are left out of garbage collection (``gc=False``): long histories cost it nothing.
"""

from __future__ import annotations

import os
import time
from binascii import b2a_base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec.structs import astuple

__all__ = [
    "AssistantMessage", "Block", "Image", "Message", "Opaque", "StopReason", "Text", "Thinking", "ToolCall",
    "ToolMessage", "Usage", "UserMessage", "calls_of", "decode_message", "encode", "loads", "new_id", "new_name", "now",
    "seconds", "settled", "text_of", "to_record", "tool_result", "user_message", "well_formed",
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
    found: bool = False
    """It stood in a session file: it is written back as it stood there, which is ``vendor``, or its ``value`` where
    ``vendor`` tells no ``type``."""

    def as_found(self) -> Any:
        """The block as it stood in a session file."""
        known = self.vendor or {}
        return known if isinstance(known.get("type"), str) else known.get("value")


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
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*[a if b is None else b if a is None else a + b for a, b in pairs])


class UserMessage(msgspec.Struct, tag_field="role", tag="user", omit_defaults=True, gc=False):
    content: list[Block]
    id: str = ""
    ts: str | float = ""
    origin: str | None = None
    """``tool_image``: an image that a tool returned; then ``tool_call_id`` names the call. ``summary``: stands for
    older messages that a compaction moved to the archive."""
    tool_call_id: str | None = None
    vendor: dict[str, Any] | None = None
    foreign: bool = False
    """A summary of what strangers wrote, among others, or a picture that a tool brought from there."""


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
    starts: str | None = None
    """Id of the call that begins as soon as this record is durable. Until its result stands, its outcome is unknown."""
    reads: int = 0
    """So many calls, from that one on, only read: they may run side by side, and repeating them does no harm."""


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", omit_defaults=True, gc=False):
    tool_call_id: str
    content: list[Block]
    is_error: bool = False
    synthetic: bool = False
    """Made by us because the real result is missing."""
    id: str = ""
    ts: str | float = ""
    vendor: dict[str, Any] | None = None
    starts: str | None = None
    """As in ``AssistantMessage``: the next call of the round."""
    origin: str | None = None
    """``web``: its text was written by strangers, and whoever acts on it later can know."""
    reads: int = 0
    """As in ``AssistantMessage``."""


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

def _masked(value: object) -> str:
    """What a ``Secret`` is in JSON."""
    from orkas.infra.secret import MASK, Secret

    if isinstance(value, Secret):
        return MASK
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encoder = msgspec.json.Encoder(enc_hook=_masked)
_decode_typed = msgspec.json.Decoder(Message).decode
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def new_id() -> str:
    """A short id for a record, unique in a session: 48 random bits as 8 letters, digits, ``-`` and ``_``."""
    return b2a_base64(os.urandom(6), newline=False).translate(_IN_URLS).decode()


_IN_URLS = bytes.maketrans(b"+/", b"-_")


def new_name() -> str:
    """A short name for a session or a file, unique on this machine: 48 random bits in hex."""
    return os.urandom(6).hex()


def now() -> str:
    """The time of day in UTC, ISO 8601 with milliseconds. For people: order is the order of the records."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def seconds(stamp: str | float) -> float:
    """The Unix time of a ``ts``; 0.0 where it tells none."""
    if isinstance(stamp, int | float):
        return float(stamp)
    from datetime import UTC, datetime

    try:
        parsed = datetime.fromisoformat(stamp)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def well_formed(text: str) -> str:
    """Join halves of surrogate pairs; whatever half is left alone becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return joined.translate(_SURROGATES)
    return text


_DEEPEST = 100
"""Levels of plain data that are kept. Real data has a dozen; a few hundred cannot be written or read again."""


def scrub(value: Any, deeper: int = _DEEPEST) -> Any:
    """``well_formed`` applied to every string inside plain data. What lies ``deeper`` is None."""
    if isinstance(value, str):
        return value if value.isascii() else well_formed(value)
    if isinstance(value, dict):
        return {scrub(k): scrub(v, deeper - 1) for k, v in value.items()} if deeper else None
    if isinstance(value, list):
        return [scrub(v, deeper - 1) for v in value] if deeper else None
    return value


def encode(value: object) -> bytes:
    """JSON of one message, block or plain value: one line, UTF-8. Never raises for lone surrogates."""
    value = _as_found(value)
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(scrub(msgspec.to_builtins(value)))


def _as_found(value: Any) -> Any:
    """What is to be written of a value: a message with blocks that stood so in a file is plain data with these."""
    if type(value) in _MESSAGES:
        for block in value.content:
            if type(block) is Opaque and block.found:
                return to_record(value, all_fields=False)
    return value


def settled(message: Message) -> tuple[Message, bytes]:
    """The message as its JSON tells it, and that: the same object unless it held halves of surrogate pairs."""
    try:
        return message, _encoder.encode(_as_found(message))
    except UnicodeEncodeError:
        message = msgspec.convert(scrub(msgspec.to_builtins(message)), type(message))
        return message, _encoder.encode(_as_found(message))


def to_record(message: Message, *, all_fields: bool = True) -> dict[str, Any]:
    """The message as plain data in the form of the session file, ``is_error`` and ``synthetic`` always present if
    ``all_fields``. Blocks we do not know are there as they stood."""
    record = cast("dict[str, Any]", msgspec.to_builtins(message))
    for place, block in enumerate(message.content):
        if type(block) is Opaque and block.found:
            record["content"][place] = block.as_found()
    if all_fields and isinstance(message, ToolMessage):
        record.setdefault("is_error", False)
        record.setdefault("synthetic", False)
    return record


def decode_message(line: bytes | dict[str, Any]) -> Message | None:
    """Read one message record. None when it is a record of another type.

    Unknown fields are ignored, unknown blocks become ``Opaque``, a plain string as content is read as one text. One bad
    value never costs the rest: a field of another type than its own is read as if it were left out, a block without
    what makes it one becomes ``Opaque``, and what is nested deeper than memory can follow is cut there.

    Raises:
        ValueError: the JSON is broken, or there is no telling who speaks.
    """
    try:
        if isinstance(line, bytes):
            return _decode(line)
        return _tolerant(line)
    except RecursionError:
        if isinstance(line, bytes):
            return _decode(_shallow(line))
        raise ValueError("a record is nested too deeply") from None


def loads(line: bytes) -> Any:
    """Plain data of one JSON text, as far as memory can follow it: what is nested deeper is read as null.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return _parse(line.decode())
    except RecursionError:
        return _parse(_shallow(line).decode())


def _decode(line: bytes) -> Message | None:
    try:
        return _decode_typed(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _tolerant(_parse(line.decode()))


def _parse(text: str, *, strict: bool = True) -> Any:
    import json

    return json.loads(text, strict=strict, parse_int=whole)


def whole(digits: str) -> int | float:
    """A whole number of JSON; one of more digits than Python converts is infinite."""
    return int(digits) if len(digits) < 4000 else float(digits)


def _shallow(line: bytes) -> bytes:
    """The JSON text with null in the place of everything nested deeper than ``_DEEPEST``."""
    import re

    pieces: list[bytes] = []
    depth = kept = 0
    for token in re.finditer(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{}\]]', line, re.DOTALL):
        if token[0] in b"{[":
            depth += 1
            if depth == _DEEPEST + 1:
                pieces += line[kept : token.start()], b"null"
        elif token[0] in b"}]":
            if depth == _DEEPEST + 1:
                kept = token.end()
            depth -= 1
    return b"".join(pieces) + (line[kept:] if depth <= _DEEPEST else b"")


def _tolerant(record: Any) -> Message | None:
    """The message with whatever can be read of it."""
    if not isinstance(record, dict):
        raise ValueError("a record must be a JSON object")  # noqa: TRY004 - damage, not a programming error
    role = record.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        if role is None and isinstance(record.get("type"), str):
            return None
        raise ValueError("a record needs a known role, or a type")
    fields = _fields(scrub(record), kind)
    fields.setdefault("content", [])
    if kind is ToolMessage:
        fields.setdefault("tool_call_id", "")
    return kind(**fields)


def _tolerant_block(block: Any) -> Block:
    """A block we can read as it is; anything else as ``Opaque``."""
    if isinstance(block, str):
        return Text(text=block)
    if not isinstance(block, dict):
        return Opaque(kind="unknown", vendor={"value": block}, found=True)
    name = block.get("type")
    kind = _KNOWN.get(name) if isinstance(name, str) else None
    if kind is None:
        if isinstance(name, str):
            return Opaque(kind=name, vendor=block, found=True)
        return Opaque(kind="unknown", vendor={"value": block}, found=True)
    fields = _fields(block, kind)
    if kind is ToolCall:
        fields = {"id": "", "name": "", **fields, **_arguments(block)}
    elif _NEEDED.get(kind, "type") not in {"type", *fields}:
        return Opaque(kind=str(name), vendor={"value": block}, found=True)  # wrapped: no vendor gets a broken one back
    return kind(**fields)


def _fields(given: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields that hold what they should. ``null`` means what leaving the field out means."""
    fields = {}
    for name in kind.__struct_fields__:
        reader: Callable[[Any], Any] = _READERS.get(name, _str)
        if (value := reader(given.get(name))) is not None:
            fields[name] = value
    return fields


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _truth(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _number(value: Any) -> int | float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return value if usable else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _id(value: Any) -> str | None:
    number = _number(value)
    return _str(value) if number is None else str(number)


def _stamp(value: Any) -> str | float | None:
    return value if isinstance(value, str) else _number(value)


def _usage(value: Any) -> Usage | None:
    return Usage(**_fields(value, Usage)) if isinstance(value, dict) else None


def _content(value: Any) -> list[Block] | None:
    if value is None:
        return None
    return [_tolerant_block(block) for block in (value if isinstance(value, list) else [value])]


def _arguments(block: dict[str, Any]) -> dict[str, Any]:
    """``arguments`` and ``arguments_raw`` of a call, whose arguments may be an object written as a string."""
    given, raw = block.get("arguments"), _str(block.get("arguments_raw"))
    if given is None or isinstance(given, dict):
        return {"arguments": given, "arguments_raw": raw}
    if not isinstance(given, str):
        return {"arguments": None, "arguments_raw": encode(given).decode() if raw is None else raw}
    try:
        parsed = _dict(scrub(_parse(given, strict=False)))
    except (ValueError, RecursionError):
        parsed = None
    return {"arguments": parsed, "arguments_raw": given if raw is None else raw}


_ROLES: dict[str, type[Message]] = {"user": UserMessage, "assistant": AssistantMessage, "tool": ToolMessage}
_MESSAGES = frozenset(_ROLES.values())
_KNOWN: dict[str, type[Block]] = {
    "text": Text, "image": Image, "thinking": Thinking, "tool_call": ToolCall, "opaque": Opaque,
}  # fmt: skip
_NEEDED: dict[type[Block], str] = {Text: "text", Image: "media_type", Opaque: "kind"}
_READERS: dict[str, Callable[[Any], Any]] = {
    "id": _id, "tool_call_id": _id, "ts": _stamp, "vendor": _dict, "content": _content, "arguments": _dict,
    "is_error": _truth, "synthetic": _truth, "foreign": _truth, "bytes": _count, "usage": _usage, "cost_usd": _number,
    "input": _count, "output": _count, "cache_read": _count, "cache_write": _count, "reasoning": _count,
}  # fmt: skip
"""How each field is read that is no string: None when it does not hold what it should."""


def text_of(message: Message) -> str:
    """The visible text of a message, blocks joined."""
    return "".join([b.text for b in message.content if type(b) is Text])


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
