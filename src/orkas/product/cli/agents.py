"""From options and settings to an agent and its session."""

from __future__ import annotations

import argparse
import difflib
import os
from typing import TYPE_CHECKING, Any

from orkas.infra import config, environment
from orkas.infra.errors import StorageError, UsageError
from orkas.infra.home import home
from orkas.product.cli import out
from orkas.product.cli.parsing import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from orkas.app import Agent
    from orkas.harness.sessions.session import Session
    from orkas.harness.tool import Tool

__all__ = ["agent_for", "session_for", "settings_for", "tools_for", "walls"]


def settings_for(options: argparse.Namespace) -> config.Settings:
    """The settings with these flags on top; their warnings are said. Addresses in the file count from here on.

    Raises:
        UsageError: the configuration cannot be used.
    """
    flags = {name: getattr(options, name, None) for name in config.KEYS}
    settings = config.load(flags=flags)
    for text in settings.warnings:
        out.warning(text)
    if config.file_path().exists():
        from orkas.harness.policy.rules import Rules

        Rules.load()  # a rule that cannot be used is told now, not with the first tool
    from orkas.providers.vendors.own import own

    for text in own().mistakes.values():
        out.warning(text)
    if text := _catalogue_trouble():
        out.warning(text)
    for variable, address in settings.endpoints.items():
        if variable not in environment.environ:
            os.environ[variable] = address  # read by the registry; no child process inherits it
    return settings


def _catalogue_trouble() -> str:
    """What is wrong with a refreshed catalogue. Where there is none, nothing is loaded to find out."""
    if not (home() / "models.json").exists():
        return ""
    from orkas.providers.catalog.file import trouble

    return trouble()


def walls(settings: config.Settings) -> bool:
    """Whether shell commands run in the sandbox; that they do not is said."""
    if settings["sandbox"] == "off":
        out.warning("the sandbox is off: shell commands run with all your rights (`orkas config set sandbox on`)")
    return bool(settings["sandbox"] == "on")


def agent_for(options: argparse.Namespace) -> Agent:
    """The agent of these options, its conversation still in memory.

    Raises:
        UsageError: an unknown vendor, tool or folder.
    """
    from orkas.app import Agent
    from orkas.harness.retry import MAX_RETRIES

    settings = settings_for(options)
    max_retries = getattr(options, "max_retries", None)
    return Agent(
        settings["model"] or None,
        tools=tools_for(options.tools),
        system=plain(options.system),
        cwd=options.cwd,
        base_url=options.base_url,
        approve=settings["approve"],
        sandbox=walls(settings),
        thinking=settings["thinking"] or None,
        fallback=getattr(options, "fallback", []),
        output=_schema(getattr(options, "schema", None)),
        max_rounds=settings["max_rounds"],
        max_retries=MAX_RETRIES if max_retries is None else max_retries,
        max_cost=getattr(options, "max_cost", None),
    )


def _schema(path: str | None) -> dict[str, Any] | None:
    """The JSON Schema in a file.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    if path is None:
        return None
    import json
    from pathlib import Path

    try:
        schema = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"the schema {path!r} cannot be read: {error.strerror}", hint="give a JSON file") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the schema {path!r} is no JSON: {error}", hint="give a JSON Schema") from None
    if not isinstance(schema, dict):
        raise UsageError(f"the schema {path!r} is no object", hint="give a JSON Schema that describes an object")
    return schema


def tools_for(names: str) -> list[Tool | Callable[..., Any] | str] | None:
    """The tools of ``--tools``: names of built-in ones, ``all`` of them, and Python files; None: all.

    Raises:
        UsageError: there is no such tool.
    """
    if names == "all":
        return None
    if names == "none":
        return []
    if not names.strip(" ,"):
        raise UsageError("--tools is empty", hint="say none for no tools, or leave it out for all")
    from orkas.app import builtins
    from orkas.app.toolbox import absent

    known = {tool.name: tool for tool in builtins()}
    wanted: dict[str, Tool | Callable[..., Any] | str] = {}
    for name in filter(None, map(str.strip, names.split(","))):
        if name == "all":
            wanted.update(known)
        elif name in known or name.endswith(".py"):
            wanted[name] = known.get(name, name)
        else:
            near = difflib.get_close_matches(name, known, 1)
            there = f"there are {', '.join(known)}; or all, or none, or the path of a Python file"
            raise UsageError(
                f"there is no tool {name!r}", hint=absent(name) or (f"did you mean {near[0]}?" if near else there)
            )
    return list(wanted.values())


def session_for(options: argparse.Namespace) -> Session:
    """The conversation of a turn: named, the last one, in memory, or a fresh one on disk.

    Raises:
        UsageError: options that exclude one another, or nothing to continue.
        StorageError: it cannot be opened.
    """
    from orkas.harness.sessions.session import Session

    ways = [("--session", options.session), ("--continue", options.continue_), ("--ephemeral", options.ephemeral)]
    given = [name for name, value in ways if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude one another", hint="give one of them")
    if options.ephemeral:
        return Session()
    if options.session is not None:
        return Session.open(options.session)
    if options.continue_:
        return Session.open(_last())
    from orkas.harness.sessions.names import fresh_name

    try:
        return Session.open(fresh_name())
    except (StorageError, OSError) as error:
        said = error.message if isinstance(error, StorageError) else f"{home()}: {error.strerror or error}"
        hint = "set ORKAS_HOME to another folder, or keep the conversation in memory alone with --ephemeral"
        raise StorageError(said, hint=hint) from None


def _last() -> str:
    from orkas.harness.sessions import shelf

    last = shelf.last()
    if last is None:
        raise UsageError("there is no conversation to continue", hint="`orkas run` begins one")
    return str(last)
