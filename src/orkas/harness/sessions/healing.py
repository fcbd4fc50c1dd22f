"""What was read of a session file → a paired history that says the truth about every call whose result is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orkas.harness.outcome import INTERRUPTED, cut_short, without_marks
from orkas.harness.pairing import Repaired, open_calls, repair
from orkas.harness.sessions.attachments import find_spilled
from orkas.harness.sessions.recovery import Recovered
from orkas.harness.sessions.store import files_of
from orkas.infra import files
from orkas.infra.messages import AssistantMessage, Message, Text, ToolMessage, decode_message, seconds, text_of
from orkas.infra.patterns import lazy

__all__ = ["heal", "salvage"]

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_ANSWERS = lazy(rf'"tool_call_id"\s*:\s*({_STRING})')
_TOKEN = lazy(rf'{_STRING}|"|[\[\]{{}},]', re.DOTALL)
_SOUND = lazy(r'"(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*', re.DOTALL)


def heal(found: Recovered, path: Path) -> Repaired:
    """The history as it is used: paired, without idle marks. Pure but for reading what lies beside ``path``, the
    session file: the whole of a result may lie there whose record was cut at the end of the file.
    """
    messages = without_marks(found.messages)
    cut = _cut_result(found.torn, messages, path) if found.torn else None
    repaired = repair([*messages, cut] if cut else messages, found.lossy)
    repaired.synthesized += cut is not None
    return repaired


def _cut_result(torn: bytes, messages: Sequence[Message], path: Path) -> ToolMessage | None:
    """The result that was being written when the file ended, as far as it goes. None: the fragment is none."""
    if (found := salvage(torn)) is None:
        return None
    call_id, text = found
    call = next((c for c in open_calls(messages) if c.id == call_id), None)
    if call is None:
        return None
    since = next((seconds(m.ts) for m in reversed(messages) if type(m) is AssistantMessage), 0.0)
    whole = find_spilled(files_of(path), call.name, text, since=since, named=_names(messages, path))
    return cut_short(call, whole or Text(text=text))


def _names(messages: Sequence[Message], path: Path) -> Callable[[str], bool]:
    """Whether a record names this file: one of the history, or one that was taken out of it."""
    here = {b.file for m in messages for b in m.content if type(b) is Text and b.file}
    try:
        before = files.read(path.with_name(path.name + ".archive"))
    except FileNotFoundError:
        before = b""
    except OSError:  # then any of them may be
        return lambda name: True
    return lambda name: name in here or name.encode() in before


def salvage(torn: bytes) -> tuple[str, str] | None:
    """The call id and the text of a tool's result whose record was cut short; None when it is no such record.

    A result of our own making is no proof that the call was done. Its record says early that it is one.
    """
    text = torn.partition(b"\0")[0].decode(errors="ignore")
    answers = _ANSWERS.search(text)
    record = None if answers is None else _completed(text)
    if answers is None or not isinstance(record, dict) or record.get("role") != "tool":
        return None
    with suppress(ValueError):
        message = decode_message(record)
        if isinstance(message, ToolMessage) and not message.synthetic and not _like_ours(text_of(message)):
            return str(json.loads(answers[1])), text_of(message)
    return None


def _like_ours(text: str) -> bool:
    """Whether this may be the beginning of words of ours: earlier releases said late whose words they are."""
    return bool(text) and INTERRUPTED.startswith(text[:11].lower())


def _completed(text: str) -> Any:
    """The value of a JSON text whose end is missing; None when nothing can be made of it."""
    for candidate in _endings(text):
        with suppress(ValueError, RecursionError):
            return json.loads(candidate, strict=False)
    return None


def _endings(text: str) -> Iterator[str]:
    """The text closed where it ends, then closed behind the last value that is whole. Takes linear time."""
    closers: list[str] = []  # what closes the text here, the outermost first
    whole = 0
    undone: list[str] = []  # what was closed behind ``whole``, the innermost first
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == '"':  # a string without its end
            sound = _SOUND.match(text, token.start())
            text = (text[: sound.end()] if sound else text) + '"'
            break
        if mark in "[{":
            closers.append("]" if mark == "[" else "}")
            whole, undone = token.end(), []
        elif mark == ",":
            whole, undone = token.start(), []
        elif mark in "]}" and closers:
            undone.append(closers.pop())
    yield text + "".join(reversed(closers))
    yield text[:whole] + "".join(undone) + "".join(reversed(closers))
