"""The wire form of Ollama's own chat: one JSON object a line. Typed for what it means to send, tolerant otherwise."""

from __future__ import annotations

from typing import Any

import msgspec

from orkas.infra.messages import StopReason, Usage
from orkas.providers.reading.calls import parse_arguments
from orkas.providers.reading.payloads import loads

__all__ = [
    "Call", "Chunk", "Function", "Lines", "Said", "decode", "decode_lines", "stop_reason", "tolerant", "usage_of",
]  # fmt: skip

_BOM = b"\xef\xbb\xbf"


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: dict[str, Any] | None = None
    odd: msgspec.UnsetType | bool = msgspec.UNSET
    """The arguments are no object: the call must not run."""


class Call(msgspec.Struct, gc=False):
    id: str | None = None
    function: Function | None = None


class Said(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


class Chunk(msgspec.Struct, gc=False):
    message: Said | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Chunk)
decode = _decoder.decode
decode_lines = _decoder.decode_lines


class Lines:
    """The whole lines of a body, whatever the cuts. A body's last line may lack its end."""

    __slots__ = ("_head", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> bytes:
        """All lines that these bytes completed, joined. No bytes: the body has ended, and the rest comes."""
        if self._head is not None:
            data = self._skip_bom(data)
        if not data:
            return b"" if self._head is not None else self._take()
        end = data.rfind(b"\n") + 1
        if not end:
            self._tail.append(data)  # no line ends here: not joined yet, or many small reads cost the square
            return b""
        if not self._tail:
            whole = data[:end]
        else:
            self._tail.append(data[:end])
            whole = self._take()
        if end < len(data):
            self._tail.append(data[end:])
        return whole

    def _take(self) -> bytes:
        whole = b"".join(self._tail)
        self._tail.clear()
        return whole

    def _skip_bom(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if data and len(head) < 3 and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)


def tolerant(payload: bytes) -> Chunk | None:
    """A chunk of whatever of it has the right form; None when it is no JSON object."""
    value = loads(payload)
    if not isinstance(value, dict):
        return None
    said, reason = value.get("message"), value.get("done_reason")
    return Chunk(
        message=_said(said) if isinstance(said, dict) else None,
        done=value.get("done") is True,
        done_reason=reason if isinstance(reason, str) else None,
        prompt_eval_count=_count(value.get("prompt_eval_count")),
        eval_count=_count(value.get("eval_count")),
        error=value.get("error"),
    )


def _said(value: dict[str, Any]) -> Said:
    calls = value.get("tool_calls")
    found = [_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return Said(_str(value.get("content")), _str(value.get("thinking")), found or None)


def _call(value: dict[str, Any]) -> Call:
    function = value.get("function")
    if not isinstance(function, dict):
        return Call()
    given = function.get("arguments")
    arguments = parse_arguments(given) if isinstance(given, str) else given
    usable = arguments is None or isinstance(arguments, dict)
    odd = not usable or (arguments is None and given is not None)
    return Call(_str(value.get("id")), Function(_str(function.get("name")), arguments if usable else None, odd))


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


_STOPS: dict[str, StopReason] = {"stop": "stop", "length": "length", "load": "stop", "unload": "stop", "error": "error"}


def stop_reason(reason: str | None) -> StopReason:
    """What a reason means, calls left aside. One we do not know ends an answer like any other."""
    return _STOPS.get(reason or "", "stop")


def usage_of(chunk: Chunk) -> Usage | None:
    """The figures of the last line. A prompt that the server had ready may be left out of them."""
    if chunk.prompt_eval_count is None and chunk.eval_count is None:
        return None
    return Usage(chunk.prompt_eval_count or 0, chunk.eval_count or 0, 0, 0)
