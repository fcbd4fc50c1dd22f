"""``orkas models``: vendors, known models, and the model that runs on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from orkas.infra.errors import UsageError
from orkas.product.cli import out, parsing, vendors

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
    rows = [
        {
            "vendor": row.name, "dialect": row.dialect, "base_url": vendors.base_url_of(row) or None,
            "local": row.local, "key": vendors.key_of(row), "variables": list(row.keys),
        }
        for row in vendors.rows()
    ]  # fmt: skip
    if options.json:
        out.data(rows)
    else:
        out.table(
            [
                (r["vendor"], _ready(r), r["base_url"] or f"set {r['vendor'].upper().replace('-', '_')}_BASE_URL")
                for r in rows
            ]
        )
    return 0


def _ready(row: dict[str, Any]) -> str:
    return "local" if row["local"] else "key found" if row["key"] else "no key"


def _models(options: argparse.Namespace) -> int:
    if options.vendor not in {row.name for row in vendors.rows()}:
        raise UsageError(f"there is no vendor {options.vendor!r}", hint="`orkas models` lists them")
    from orkas.providers import catalog

    known = catalog.models(options.vendor)
    if options.json:
        out.data(
            [
                {
                    "model": f"{options.vendor}/{name}",
                    "context_window": i.context_window,
                    "max_output": i.max_output,
                    "images": i.images,
                }
                for name, i in known
            ]
        )
    elif not known:
        out.note(f"no models of {options.vendor} are listed here; any name it knows can be used: {options.vendor}/NAME")
    else:
        out.table(
            [
                (f"{options.vendor}/{name}", f"{i.context_window or '?'} tokens", "images" if i.images else "")
                for name, i in known
            ]
        )
    return 0


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
