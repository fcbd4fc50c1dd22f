"""What a small local model needs in place of the full prompt: few words, few tools, one step at a time.

Reading a prompt costs it about a second per 75 tokens, and it follows short instructions better than complete ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orkas.providers.base import ToolDef

__all__ = ["MAX_TOOLS", "REPEATED", "SYSTEM", "TEMPERATURE", "select_tools"]

MAX_TOOLS = 6
TEMPERATURE = 0.2
SYSTEM = (
    "You are a helpful assistant that works in the user's current folder. "
    "Use tools to look at or change files; never guess. One tool at a time. "
    "When done, reply in one short sentence."
)
"""The whole system prompt. Without its second sentence such a model describes tools instead of calling them."""
REPEATED = "You already have this result. Answer the user now."
"""The result of a call that was made before, word for word, in the same turn; the next request then offers no tools."""

_SHORT: dict[str, tuple[str, dict[str, str]]] = {
    "list_files": ("List the files in a folder with their sizes in bytes, largest first", {"path": "folder"}),
    "read_file": ("Read a text file and return its content", {"path": "file path"}),
    "write_file": ("Create or overwrite a text file", {"path": "file path", "content": "the full text to write"}),
    "edit_file": (
        "Replace a piece of text in a file by another",
        {"path": "file path", "old_text": "text to replace", "new_text": "text to put there"},
    ),
    "search_files": (
        "Search the text inside all files for a word; returns file:line: text",
        {"pattern": "word to search"},
    ),
    "shell": ("Run a shell command such as wc or date and return its output", {"command": "the command"}),
    "apply_patch": ("Change several files at once by a patch", {"patch": "*** Begin Patch … *** End Patch"}),
    "read_result": (
        "Read on in a long tool result",
        {"file": "file name in the preview", "start": "first line", "search": "word to search"},
    ),
    "web_fetch": ("Read a web page", {"url": "address with https://", "offset": "first character"}),
    "web_search": ("Search the web", {"query": "the words to search"}),
    "shell_job": ("Read or stop a background command", {"action": "list, read or stop", "job": "its name"}),
    "generate_image": ("Draw a picture and save it", {"prompt": "what it shows", "path": "file to save it as"}),
}
"""In the order in which they are dropped, the last first."""


def select_tools(tools: Sequence[ToolDef]) -> list[ToolDef]:
    """At most six of ``tools``, told in few words: tools we do not know first (somebody added them on purpose), then
    the plain ones for files and commands. Names and arguments stay those of the real tools."""
    added = [t for t in tools if t.name not in _SHORT]
    known = {t.name: t for t in tools if t.name in _SHORT}
    plain = [_shortened(known[name]) for name in _SHORT if name in known]
    return [*(_first_sentence(t) for t in added), *plain][:MAX_TOOLS]


def _shortened(tool: ToolDef) -> ToolDef:
    description, notes = _SHORT[tool.name]
    offered = tool.parameters.get("properties", {})
    properties: dict[str, Any] = {
        name: {"type": "string", "description": note} for name, note in notes.items() if name in offered
    }
    required = [name for name in tool.parameters.get("required", ()) if name in offered]
    properties |= {name: offered[name] for name in required if name not in properties}
    return ToolDef(tool.name, description, {"type": "object", "properties": properties, "required": required})


def _first_sentence(tool: ToolDef) -> ToolDef:
    first = tool.description.strip().split("\n")[0].split(". ")[0][:160]
    return ToolDef(tool.name, first, tool.parameters)
