"""``orkas auth status``: which keys are found and where. Read-only; a value is never shown."""

from __future__ import annotations

import argparse
from typing import Any

from orkas.infra.errors import UsageError
from orkas.product.cli import out, parsing
from orkas.product.cli.vendors import Row, rows

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(prog="orkas auth", description="Credentials. Keys come from the environment.")
    add = parsing.choose(own)
    about = "say which keys are found and where; values are never shown"
    status = add("status", _status, about, example="orkas auth status anthropic")
    status.add_argument("vendor", metavar="VENDOR", nargs="?")
    return own


def _status(options: argparse.Namespace) -> int:
    found = [_facts(row) for row in rows() if options.vendor in (None, row.name)]
    if not found:
        raise UsageError(f"there is no vendor {options.vendor!r}", hint="`orkas models` lists them")
    if options.json:
        out.data(found)
    else:
        out.table([(f["vendor"], f["state"], f["from"] or f"set {' or '.join(f['variables'])}") for f in found])
    return 0


def _facts(row: Row) -> dict[str, Any]:
    return {
        "vendor": row.name,
        "found": row.key is not None,
        "state": "key found" if row.key else "needs no key" if row.local else "no key",
        "from": f"environment {row.key}" if row.key else row.base_url if row.local else None,
        "variables": row.variables,
    }
