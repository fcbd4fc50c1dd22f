"""History → what this model may see.

Pure functions of (history, target). The stored history is never changed: after a switch to another model and back
the first one finds its own signatures again.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

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
    encode,
    well_formed,
)  # fmt: skip

__all__ = [
    "EMPTY", "NO_OUTPUT", "Ids", "assistant_blocks", "cache_key", "endpoint", "image_base64", "image_note",
    "in_foreign_loop", "is_own", "key_headers", "wire_arguments", "wire_name",
]  # fmt: skip

EMPTY = "(empty)"
"""Stands for a message of the user without content: no vendor takes an empty text."""
NO_OUTPUT = "(no output)"
"""Stands for an empty tool result."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORMS: dict[str, tuple[re.Pattern[str], int]] = {
    "chat": (re.compile(r"[!-~]{1,40}"), 24),
    "anthropic": (re.compile(r"[A-Za-z0-9_-]{1,64}"), 24),
    "bedrock": (re.compile(r"[A-Za-z0-9_.:-]{1,64}"), 24),
    "responses": (re.compile(r"[!-~]{1,64}"), 24),
    "nine": (re.compile(r"[A-Za-z0-9]{9}"), 9),
}


class Ids:
    """Call ids in the target's format: kept where valid, else a hash, the same for a call and its result.

    An id that an earlier turn used already gets another one, so no request holds an id twice.
    """

    __slots__ = ("_calls", "_form", "_open", "_used")

    def __init__(self, form: str) -> None:
        self._form = _FORMS[form]
        self._used: set[str] = set()
        self._calls: dict[str, int] = {}
        self._open: dict[str, deque[str]] = {}

    def call(self, id: str) -> str:
        """The id of a call on the wire. Calls are asked for in the order of the history, each once."""
        turn = self._calls.get(id, 0)
        wire = self._shape(id, turn)
        while wire in self._used:
            turn += 1
            wire = self._shape(id, turn)
        self._calls[id] = turn + 1
        self._used.add(wire)
        self._open.setdefault(id, deque()).append(wire)
        return wire

    def result(self, id: str) -> str:
        """The id of a result on the wire: that of the earliest call with this id which has none yet."""
        waiting = self._open.get(id)
        return waiting.popleft() if waiting else self._shape(id, 0)

    def plain(self, id: str) -> str:
        """The id as it is when nothing else claims it."""
        return self._shape(id, 0)

    def _shape(self, id: str, turn: int) -> str:
        pattern, length = self._form
        if turn == 0 and pattern.fullmatch(id):
            return id
        number = int.from_bytes(hashlib.sha256(f"{turn}:{id}".encode("utf-8", "surrogatepass")).digest())
        out = ""
        while len(out) < length:
            number, digit = divmod(number, 62)
            out += _ALPHABET[digit]
        return out


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def wire_name(name: str) -> str:
    """The name of a tool as every vendor takes it: as it is where valid, else readable in part, with a hash.

    Models call tools that do not exist, by names no vendor takes back; one such name in a history would have every
    later request refused. Different names stay different, and the same name is always the same on the wire.
    """
    if _NAME.fullmatch(name):
        return name
    if not name:
        return "unknown"
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:50].strip("_-") or "tool"
    if not stem[0].isalpha():
        stem = f"tool_{stem}"
    return f"{stem}_{mark}"


def is_own(message: AssistantMessage, *, model: str, api: str) -> bool:
    """``model`` (``vendor/model``) on ``api`` wrote this message, and to its end: it may have back all it gave."""
    return message.model == model and message.api == api and message.stop_reason not in ("error", "aborted")


def assistant_blocks(message: AssistantMessage, *, model: str, api: str) -> list[Block]:
    """The blocks of an assistant message that ``model`` (``vendor/model``) on ``api`` may see, calls last.

    Written by the same model: all of them. By another: its text and its calls; thinking, signatures and blocks only
    its own vendor understands are left out. Empty texts are left out always.
    """
    same = is_own(message, model=model, api=api)
    front: list[Block] = []
    calls: list[Block] = []
    for block in message.content:
        if type(block) is ToolCall:
            calls.append(block)
        elif type(block) is Text:
            if block.text.strip():
                front.append(block)
        elif type(block) is Image:
            front.append(Text(text=image_note(block, "you made it, and it is not shown again")))
        elif type(block) in (Thinking, Opaque) and same:
            front.append(block)
    return front + calls


def in_foreign_loop(messages: Sequence[Message], *, model: str, api: str, signed: Callable[[Thinking], bool]) -> bool:
    """The last calls are answered and no words came after, and they were made without thinking of this model that may
    go back (``signed``): vendors that want thinking before such calls must be asked without any.

    What the user says behind the results changes nothing: on the wire it stands with them.
    """
    answered = False
    for message in reversed(messages):
        if type(message) is ToolMessage:
            answered = True
        elif type(message) is AssistantMessage:
            blocks = assistant_blocks(message, model=model, api=api)
            first = next((b for b in blocks if type(b) is not Thinking or signed(b)), None)
            if first is not None:
                return answered and type(first) is not Thinking
    return False


def image_note(image: Image, why: str) -> str:
    """What stands in the place of an image that cannot be sent."""
    kind = well_formed(image.media_type)
    return f"[an image ({kind}) stood here: {why}]"


def image_base64(image: Image, media: Callable[[str], bytes] | None, *, allowed: bool) -> tuple[str, str]:
    """Base64 of an image, or why it cannot be sent (one of the two is empty)."""
    if not allowed:
        return "", "this model cannot see images"
    if image.media_type not in _IMAGES:
        return "", "the format is not accepted"
    if image.data is not None:
        return _checked(image.data)
    if image.file is None or media is None:
        return "", "its file is not at hand"
    try:
        encoded = base64.b64encode(media(image.file)).decode()
    except Exception as error:  # noqa: BLE001 - whoever keeps the files: a lost picture must not cost the conversation
        return "", f"its file cannot be read ({type(error).__name__})"
    return (encoded, "") if encoded else ("", "it is empty")


_DATA_URL = re.compile(r"\s*data:[^,]{0,200};base64,", re.IGNORECASE)


def _checked(data: str) -> tuple[str, str]:
    """Base64 that a vendor will take, out of a data URL and of lines where it stands in such; or why there is none."""
    if not data.isascii():
        return "", "its data is no base64"
    if found := _DATA_URL.match(data):
        data = data[found.end() :]
    if any(c in data for c in " \r\n\t"):
        data = "".join(data.split())
    try:
        pixels = base64.b64decode(data, validate=True)
    except ValueError:
        return "", "its data is no base64"
    return (data, "") if pixels else ("", "it is empty")


def wire_arguments(call: ToolCall) -> str:
    """The model's own spelling where it is one JSON object: servers parse it, and a broken one fails the request."""
    if call.arguments is None:
        return "{}"
    if call.arguments_raw:
        try:
            if isinstance(msgspec.json.decode(call.arguments_raw), dict):
                return call.arguments_raw
        except (msgspec.DecodeError, UnicodeEncodeError):
            pass
    return encode(call.arguments).decode()


def cache_key(session_id: str) -> str:
    """The session's id, or a hash where it is longer than 64 characters (a cut would make different ids equal)."""
    if len(session_id) <= 64 and session_id.isascii() and session_id.isprintable():
        return session_id
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def key_headers(api_key: str | None, header: str = "") -> dict[str, str]:
    """The key in a header of its own, or as a bearer token where the row names none or that one."""
    if not api_key:
        return {}
    return {"authorization": f"Bearer {api_key}"} if header in ("", "authorization") else {header: api_key}


_ENDPOINT = re.compile(
    r"(?:/(?:chat/completions|messages|responses|(?:publishers/[^/]+/)?models/[^/]+:[a-zA-Z]+)|(?<=/api)/chat|(?<=/v2)/chat)$"
)


def endpoint(base_url: str, path: str) -> str:
    """The address of ``path`` below a base URL, which may name an endpoint already and may carry a query."""
    base, mark, query = base_url.partition("?")
    return _ENDPOINT.sub("", base.rstrip("/")) + path + mark + query
