"""Built-in tools, one file a family."""

from __future__ import annotations

from orkas.harness.tool import Tool

__all__ = ["builtins"]


def builtins() -> list[Tool]:
    """The built-in tools, new ones for each agent: the file tools share what the model has seen of the files."""
    from orkas.tools.edit import EditFile
    from orkas.tools.files import Seen
    from orkas.tools.listing import ListFiles
    from orkas.tools.patch import ApplyPatch
    from orkas.tools.read import ReadFile
    from orkas.tools.search import SearchFiles
    from orkas.tools.shell import Shell
    from orkas.tools.shell_job import ShellJob
    from orkas.tools.stored import ReadResult
    from orkas.tools.web_fetch import WebFetch
    from orkas.tools.web_search import WebSearch
    from orkas.tools.write import WriteFile

    seen = Seen()
    return [
        ReadFile(seen), WriteFile(seen), EditFile(seen), ApplyPatch(seen), ListFiles(), SearchFiles(), Shell(),
        ShellJob(), ReadResult(), WebFetch(), WebSearch(),
    ]  # fmt: skip
