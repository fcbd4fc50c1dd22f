"""What stands for older messages when no model writes a summary: made from the messages alone, the same every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from orkas.harness.pairing import is_tool_image, speaks
from orkas.infra.messages import AssistantMessage, Message, ToolCall, ToolMessage, calls_of, encode, text_of

__all__ = ["clip", "fold", "one_line", "transcript"]

_SAID, _ANSWERED, _ARGUMENT, _RESULT = 1_200, 400, 120, 160
"""Characters of a message of the user, of the model, of a call's arguments and of a result that a line shows."""


class _Line(msgspec.Struct, eq=False):
    text: str
    user: bool = False
    weight: int = 0
    kept: bool = False


def fold(earlier: str, messages: Sequence[Message], *, tokens: int, size: Callable[[str], int]) -> str:
    """Notes on ``messages``, with what was noted before them, in at most about ``tokens`` tokens.

    A third at most is for what was noted earlier, a third for the user's words, the rest for a line for each round of
    the model; the newest of each come first. What is left out is counted.
    """
    prose = clip(earlier, tokens // 3, size) if earlier else ""
    lines = _lines(messages)
    for line in lines:
        line.weight = size(line.text) + 1
    room = max(0, tokens - size(prose) - _HEAD)
    spent = _choose([one for one in lines if one.user], room // 2)
    _choose([one for one in lines if not one.user], room - spent)
    left_out = sum(not line.kept for line in lines)
    parts = ["No model wrote this: a summary could not be had, so these are the older messages line by line."]
    if left_out:
        parts.append(f"{left_out} of {len(lines)} lines are left out; all messages are in the archive of this session.")
    if prose:
        parts.append(f"Noted earlier:\n{prose}")
    parts += ["What happened since:" if prose else "What happened:", *(line.text for line in lines if line.kept)]
    return "\n".join(parts)


_HEAD = 60
"""Tokens of the sentences around."""


def _choose(lines: list[_Line], room: int) -> int:
    """Mark the newest lines that have room; returns what they weigh."""
    spent = 0
    for line in reversed(lines):
        if spent + line.weight > room:
            break
        line.kept = True
        spent += line.weight
    return spent


def _lines(messages: Sequence[Message]) -> list[_Line]:
    results = {m.tool_call_id: m for m in messages if type(m) is ToolMessage}
    lines = []
    for message in messages:
        if speaks(message):
            lines.append(_Line(f"- User: {one_line(text_of(message), _SAID)}", user=True))
        elif type(message) is AssistantMessage:
            said = one_line(text_of(message), _ANSWERED)
            called = "; ".join(_called(call, results.get(call.id)) for call in calls_of(message))
            lines.append(_Line(f"- Agent: {' | '.join(filter(None, (said, called)))}"))
    return lines


def _called(call: ToolCall, result: ToolMessage | None) -> str:
    given = ", ".join(f"{name}={one_line(_text(value), _ARGUMENT)}" for name, value in (call.arguments or {}).items())
    if result is None:
        return f"{call.name}({given})"
    return f"{call.name}({given}) {'failed' if result.is_error else 'gave'}: {one_line(text_of(result), _RESULT)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def one_line(text: str, most: int) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[:most]} … ({len(text):,} characters)"


def clip(text: str, tokens: int, size: Callable[[str], int], *, note: str = "left out here") -> str:
    """Head and tail of a text that fit into about ``tokens``, and between them what is missing."""
    weight = size(text)
    if weight <= tokens:
        return text
    chars = int(len(text) * max(0, tokens - _HEAD // 2) / weight * 0.95)
    head, tail = chars * 2 // 3, chars // 3
    mark = f"[… {len(text) - head - tail:,} of {len(text):,} characters {note} …]"
    return f"{text[:head]}\n{mark}\n{text[len(text) - tail :]}" if chars > 0 else mark


def transcript(messages: Sequence[Message], *, most: int) -> list[str]:
    """The messages as text, one entry each; of long ones at most about ``most`` characters."""
    return [entry for message in messages if (entry := _entry(message, most))]


def _entry(message: Message, most: int) -> str:
    if type(message) is ToolMessage:
        return f"[result{', failed' if message.is_error else ''}] {_ends(text_of(message), most)}"
    if type(message) is AssistantMessage:
        calls = "".join(f"\n[call] {c.name} {_ends(_text(c.arguments), most)}" for c in calls_of(message))
        return f"[agent] {_ends(text_of(message), most)}{calls}"
    if is_tool_image(message):
        return "[picture]"
    return f"[user] {_ends(text_of(message), most)}" if speaks(message) else ""


def _ends(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]} [… {len(text) - most:,} characters left out …] {text[len(text) - tail :]}"
