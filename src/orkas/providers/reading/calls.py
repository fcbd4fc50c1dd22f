"""Tool calls as they come out of a stream: fragments into whole calls, argument text into objects."""

from __future__ import annotations

import json
import math
import uuid
from typing import Any, NoReturn

import msgspec

from orkas.infra.messages import StopReason, ToolCall, encode, scrub, well_formed

__all__ = [
    "Calls", "given", "new_call_id", "parse_arguments", "settle", "spelled", "take_back",
    "tell_apart",
]  # fmt: skip

_decode = msgspec.json.Decoder().decode
_DEEPEST = 64
"""Levels of objects and lists in arguments. No tool means more, and what is deeper cannot be handled everywhere."""


def new_call_id() -> str:
    """An id for a call that came without one: valid for every vendor that takes more than nine characters."""
    return "call_" + uuid.uuid4().hex[:24]


def parse_arguments(raw: str) -> dict[str, Any] | None:
    """The arguments a model wrote, or None when they are not exactly one JSON object.

    Nothing, blanks, ``null`` and ``""`` mean no arguments. An object that was encoded twice is unwrapped. Lone
    surrogates become U+FFFD. What is broken is never guessed at: a tool must not run with half its arguments.
    """
    for _ in range(3):
        if not raw.strip():
            return {}
        try:
            value = _loads(raw)
        except (ValueError, RecursionError):
            return None
        if value is None:
            return {}
        if isinstance(value, dict):
            return value if raw.count("{") + raw.count("[") <= _DEEPEST or _is_sound(value) else None
        if not isinstance(value, str):
            return None
        raw = value
    return None


def given(arguments: dict[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """Arguments that came as an object: themselves, without lone surrogates; or None and how they were written, where
    they hold what JSON cannot (NaN, a number beyond all numbers): stored and sent back, they would be others."""
    return (scrub(arguments), None) if _is_sound(arguments) else (None, spelled(arguments))


def spelled(value: Any) -> str:
    """Arguments of any form as the text that ``parse_arguments`` judges like the value itself, NaN and depth too."""
    try:
        return well_formed(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "[" * (_DEEPEST + 1) + " (nested too deeply to be kept)"


def _is_sound(value: Any) -> bool:
    """All its numbers are some, and it is not nested too deeply."""
    level = [value]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
            elif isinstance(item, float) and not math.isfinite(item):
                return False
        if not inner:
            return True
        level = inner
    return not any(isinstance(item, dict | list) for item in level)


def _loads(raw: str) -> Any:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError):
        # raw line breaks inside strings and lone surrogate escapes are common and unambiguous; NaN is no JSON
        return scrub(json.loads(raw, strict=False, parse_constant=_no_constant, parse_float=_finite))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    """``1e999`` is JSON, and no number that anything here can hold."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large")
    return number


class _Call:
    """One call under construction. Fragments are kept in a list: joining them each time would cost the square."""

    __slots__ = ("damaged", "extra", "fragments", "id", "index", "name", "value")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.fragments: list[str] = []
        self.value: dict[str, Any] | None = None
        self.extra: dict[str, Any] | None = None
        self.damaged = False

    @property
    def whole(self) -> bool:
        """Its arguments are already one complete object: what follows belongs to another call."""
        if self.value is not None:
            return True
        if not self.fragments or not self.fragments[-1].rstrip().endswith("}"):
            return False
        return parse_arguments("".join(self.fragments)) is not None

    def rename(self, name: str) -> None:
        """Take a name that came whole, again, growing, or in pieces."""
        if name == self.name or not name:
            return
        self.name = name if name.startswith(self.name) else self.name + name

    def build(self) -> ToolCall:
        raw: str | None
        if self.value is not None:
            arguments, raw = given(self.value)
        else:
            raw = well_formed("".join(self.fragments))
            arguments = parse_arguments(raw)
        call = ToolCall(
            id=well_formed(self.id) or new_call_id(),
            name=well_formed(self.name).strip(),
            arguments=arguments,
            arguments_raw=raw,
            vendor=scrub(self.extra),
        )
        if self.damaged:
            take_back(call)
        return call


class Calls:
    """The calls of one reply, from fragments whose index may be right, missing or always 0, whose id may be missing.

    A call is told from its neighbour by its id; without one by its index; without either by a new name after
    complete arguments.
    """

    __slots__ = ("_at", "_calls")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(
        self,
        index: int | None,
        id: str | None,
        name: str | None,
        arguments: str | dict[str, Any] | None,
        extra: dict[str, Any] | None = None,
        *,
        damaged: bool = False,
    ) -> None:
        """Take one fragment. ``damaged``: bytes of it were lost on the way, so its call must not run."""
        call = self._find(index, id or "", name or "", arguments)
        if id:
            call.id = id
        if name:
            call.rename(name)
        if isinstance(arguments, dict):
            call.value = arguments
        elif arguments:
            call.fragments.append(arguments)
        if extra is not None:
            call.extra = {**(call.extra or {}), **extra}
        call.damaged = call.damaged or damaged

    def _find(self, index: int | None, id: str, name: str, arguments: object) -> _Call:
        call = self._at.get(index) if index is not None else self._by_id(id) if id else self._last()
        if call is None:
            return self._new(index)
        if id and call.id and id != call.id:
            return self._by_id(id) or self._new(index)
        if name and not id and (arguments or name != call.name) and call.whole:
            return self._new(index)
        return call

    def _last(self) -> _Call | None:
        return self._calls[-1] if self._calls else None

    def _by_id(self, id: str) -> _Call | None:
        return next((c for c in reversed(self._calls) if c.id == id), None)

    def _new(self, index: int | None) -> _Call:
        call = _Call(index if index is not None else len(self._calls))
        self._calls.append(call)
        self._at[call.index] = call
        return call

    def build(self) -> list[ToolCall]:
        """All calls in declared order, each with an id of its own."""
        calls = [c.build() for c in sorted(self._calls, key=lambda c: c.index)]
        tell_apart(calls)
        return calls


def tell_apart(calls: list[ToolCall]) -> None:
    """Give each call an id of its own where the vendor did not."""
    seen: set[str] = set()
    for call in calls:
        if not call.id or call.id in seen:
            call.id = new_call_id()
        seen.add(call.id)


def settle(calls: list[ToolCall], stop_reason: str) -> None:
    """Take back what must never run: every call of a reply that broke off or was stopped for what it says, the last
    one of a reply cut at its limit or at the end of the window."""
    if stop_reason in ("error", "aborted", "content_filter", "refusal"):
        doomed = calls
    else:
        doomed = calls[-1:] if stop_reason in ("length", "overflow") else []
    for call in doomed:
        take_back(call)


def settled(calls: list[ToolCall], reason: StopReason) -> StopReason:
    """Why a reply with these calls ended, and what must never run of it taken back. One that ended in an error is asked
    for again as a whole: its calls stay as they came, and none runs."""
    if reason == "stop" and calls:
        reason = "tool_use"
    if reason != "error":
        settle(calls, reason)
    return reason


def take_back(call: ToolCall) -> None:
    """Make a call one that never runs. ``arguments_raw`` keeps what was written."""
    if call.arguments is not None:
        if call.arguments_raw is None:
            call.arguments_raw = encode(call.arguments).decode()
        call.arguments = None
