"""Built-in tools, one file a family."""

from __future__ import annotations

import os

from orkas.harness.tool import Tool
from orkas.infra.home import home

__all__ = ["builtins"]


def builtins() -> list[Tool]:
    """The built-in tools, new ones for each agent: the file tools share what the model has seen of the files.

    ``generate_image`` is among them where the user has named a model that draws and there is a key for it.
    """
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
    tools: list[Tool] = [
        ReadFile(seen), WriteFile(seen), EditFile(seen), ApplyPatch(seen), ListFiles(), SearchFiles(), Shell(),
        ShellJob(), ReadResult(), WebFetch(), WebSearch(),
    ]  # fmt: skip
    return [*tools, *_drawing()]


def _drawing() -> list[Tool]:
    """Nothing is loaded to find out where the user has set nothing at all."""
    if not os.environ.get("ORKAS_IMAGE_MODEL") and not (home() / "config.toml").exists():
        return []
    from orkas.tools.generate_image import configured

    return [tool] if (tool := configured()) is not None else []
