"""``orkas models``: vendors, known models, and the model that runs on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from orkas.infra.errors import UsageError
from orkas.product.cli import out, parsing
from orkas.product.cli.vendors import Row, rows

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas models",
        usage="orkas models [--vendor V] [--json]\n       orkas models install local [--gguf PATH]",
        description="List vendors, or the known models of one; install a model that runs on this machine.",
        example="orkas models --vendor anthropic",
    )
    own.add_argument("action", metavar="install", nargs="?", choices=("install",))
    own.add_argument("what", metavar="local", nargs="?", choices=("local",))
    own.add_argument("--vendor", metavar="V", help="list the known models of this vendor")
    own.add_argument("--gguf", metavar="PATH", type=Path, help="install this model file instead of fetching one")
    return parsing.common(own, _do)


def _do(options: argparse.Namespace) -> int:
    if options.action is not None:
        return _install(options)
    if options.gguf is not None:
        raise UsageError("--gguf belongs to `orkas models install local`", hint="see `orkas models --help`")
    return _models(options) if options.vendor else _vendors(options)


def _vendors(options: argparse.Namespace) -> int:
    from orkas.providers.local import installed

    found = rows()
    local = ", ".join(model.model for model in installed())
    if options.json:
        ours = [{"vendor": "local", "models": local or None, "local": True}, {"vendor": "demo", "local": True}]
        out.data([*(_facts(row) for row in found), *ours])
    else:
        lines = [(row.name, _ready(row), row.base_url or f"set {row.url_variable}") for row in found]
        lines.append(("local", "installed" if local else "absent", local or "orkas models install local"))
        lines.append(("demo", "always", "demo/offline, which is no language model"))
        out.table(lines)
    return 0


def _facts(row: Row) -> dict[str, Any]:
    return {
        "vendor": row.name,
        "dialect": row.dialect,
        "base_url": row.base_url or None,
        "local": row.local,
        "key": row.key,
        "login": row.login,
        "variables": row.variables,
        "prefixes": row.prefixes,
    }


def _ready(row: Row) -> str:
    return "no key needed" if row.local else "key found" if row.key or row.login else "no key"


def _models(options: argparse.Namespace) -> int:
    """Models of one vendor that are known here without asking it; every other name of it can be used as well."""
    from orkas.providers.catalog import model_info

    row = next((row for row in rows() if row.name == options.vendor), None)
    if row is None:
        raise UsageError(f"there is no vendor {options.vendor!r}", hint="`orkas models` lists them")
    known = [(name, model_info(row.name, name.partition("/")[2])) for name in _known(row.name)]
    if options.json:
        sizes = ("context_window", "max_output", "images")
        out.data([{"model": name, **{size: getattr(info, size) for size in sizes}} for name, info in known])
        return 0
    out.table([(name, f"{i.context_window or 'unknown'} tokens", "images" if i.images else "") for name, i in known])
    out.note(f"any model of {row.name} can be used: {row.name}/NAME")
    return 0


def _known(vendor: str) -> list[str]:
    from orkas.providers.discovery import DEFAULT_MODELS, discover

    named = [*DEFAULT_MODELS.values(), *(step.model for step in discover(os.environ) if step.model)]
    return [name for name in dict.fromkeys(named) if name.partition("/")[0] == vendor]


def _install(options: argparse.Namespace) -> int:
    if options.what is None:
        raise UsageError("say what to install", hint="orkas models install local")
    from orkas.product import local_model

    def progress(text: str) -> None:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()

    local_model.install(gguf=options.gguf, progress=progress)
    lines = list(local_model.status())
    out.data(lines) if options.json else out.lines(lines)
    return 0
