"""What the demo answers when it is asked for a summary: a plain list of what was asked, and of the tools that ran.

It understands nothing, so it leaves nothing out that it has room for and adds nothing of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orkas.infra.messages import AssistantMessage, Message, ToolMessage, UserMessage, calls_of, encode, text_of
from orkas.providers.base import CompletionParams

__all__ = ["summary_of"]

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_WORDS = re.compile(r"at most (\d+) words")
_ENTRY = re.compile(r"^\[(user|agent|call)\] (.*)$", re.MULTILINE)
_SHOWN = 160
"""Characters of a request or of arguments that an entry shows."""
_PATHS = ("path", "file")


def summary_of(params: CompletionParams) -> str:
    """The summary that the last message asks for, under the headings it names; empty: it asks for none."""
    last = params.messages[-1] if params.messages else None
    asked = text_of(last) if isinstance(last, UserMessage) else ""
    as_text = asked.startswith("<")
    form = params.system if as_text else asked
    headings = _HEADING.findall(form)
    if not headings or "answer with the summary alone" not in form.lower():
        return ""
    words = _WORDS.search(asked)
    found = _from_transcript(asked) if as_text else _from_messages(params.messages[:-1])
    return _written(headings, found, int(words[1]) if words else 400)


class _Found:
    def __init__(self) -> None:
        self.goal = ""
        self.done: list[str] = []
        self.files: list[str] = []
        self.errors: list[str] = []


def _from_messages(messages: Sequence[Message]) -> _Found:
    found = _Found()
    failed = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage) and m.is_error}
    for message in messages:
        if isinstance(message, UserMessage):
            if message.origin == "summary":
                found.done += _entries(text_of(message))
            elif message.origin is None:
                found.goal = _short(text_of(message))
                found.done.append(f"- asked: {found.goal}")
        elif isinstance(message, AssistantMessage):
            for call in calls_of(message):
                given = call.arguments or {}
                found.done.append(f"- ran {call.name} {_short(encode(given).decode())}")
                found.files += [str(given[name]) for name in _PATHS if given.get(name)]
                if call.id in failed:
                    found.errors.append(f"- {call.name}: {_short(text_of(failed[call.id]))}")
    return found


def _entries(text: str) -> list[str]:
    """What an earlier summary of ours lists."""
    return [line for line in text.splitlines() if line.startswith(("- asked: ", "- ran "))]


def _from_transcript(text: str) -> _Found:
    """The same from a part of a conversation that is given as text."""
    found = _Found()
    found.done += _entries(text)
    for kind, rest in _ENTRY.findall(text):
        if kind == "user":
            found.goal = _short(rest)
            found.done.append(f"- asked: {found.goal}")
        elif kind == "call":
            found.done.append(f"- ran {_short(rest)}")
    return found


def _written(headings: Sequence[str], found: _Found, words: int) -> str:
    """The newest entries that fit into so many words, each under its heading."""
    files = "\n".join(f"- {_short(name)}" for name in list(dict.fromkeys(found.files))[-10:])
    parts = {"Goal": found.goal, "Files": files, "Errors met": "\n".join(found.errors[-5:])}
    room = words - 3 * len(headings) - sum(len(part.split()) for part in parts.values())
    kept: list[str] = []
    for line in reversed(found.done):
        room -= len(line.split())
        if room < 0:
            kept.append(f"- ({len(found.done) - len(kept)} earlier entries are left out)")
            break
        kept.append(line)
    parts["Done"] = "\n".join(reversed(kept))
    return "\n".join(f"## {heading}\n{parts.get(heading) or 'none'}" for heading in headings)


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
