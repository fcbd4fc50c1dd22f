"""Which of a conversation was written by strangers. Whoever acts on the model's word can know what it has read.

A result says so itself (``ToolResult.origin``); the mark is in its record, in pictures that came with it, in a summary
that was made of it, and in the name of the file that holds the whole of it. Nothing takes it away but leaving the text
out of the conversation: by rewinding, not by compacting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orkas.infra.messages import Message, ToolMessage, UserMessage, calls_of

__all__ = ["WEB", "file_stem", "is_foreign", "is_foreign_file", "is_tainted", "sources"]

WEB = "web"
"""``ToolResult.origin`` of what comes from the web."""
_MARK = "web-"
_TOOLS = ("web_fetch-", "web_search-")


def is_foreign(message: Message) -> bool:
    """Whether strangers wrote some of this message."""
    if type(message) is ToolMessage:
        return message.origin is not None
    return type(message) is UserMessage and message.foreign


def is_tainted(messages: Iterable[Message]) -> bool:
    """Whether a model that sees these messages has read what strangers wrote. Looks at each of them: for rare
    questions, not for every round."""
    return any(is_foreign(m) for m in messages)


def sources(messages: Sequence[Message]) -> list[str]:
    """What brought it in, each once, in order: names of tools, ``picture`` and ``summary``."""
    names = {call.id: call.name for m in messages for call in calls_of(m)}
    found: dict[str, None] = {}
    for message in messages:
        if type(message) is UserMessage and message.foreign:
            found["summary" if message.origin == "summary" else "picture"] = None
        elif type(message) is ToolMessage and is_foreign(message):
            found[names.get(message.tool_call_id) or "a tool"] = None
    return list(found)


def file_stem(tool: str, *, foreign: bool) -> str:
    """What a file with the whole of a result is called after."""
    return f"{_MARK}{tool}" if foreign and not is_foreign_file(f"{tool}-") else tool


def is_foreign_file(name: str) -> bool:
    """Whether a stored result of that name is text of strangers."""
    return name.startswith((_MARK, *_TOOLS))
