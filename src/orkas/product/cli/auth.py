"""``orkas auth status``: which keys are found and where. Read-only; a value is never shown."""

from __future__ import annotations

import argparse
from typing import Any

from orkas.infra.errors import UsageError
from orkas.product.cli import out, parsing, vendors

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(prog="orkas auth", description="Credentials. Keys come from the environment.")
    add = parsing.choose(own)
    status = add(
        "status",
        _status,
        "say which keys are found and where; values are never shown",
        example="orkas auth status anthropic",
    )
    status.add_argument("vendor", metavar="VENDOR", nargs="?")
    return own


def _status(options: argparse.Namespace) -> int:
    found = [_facts(row) for row in vendors.rows() if options.vendor in (None, row.name)]
    if options.vendor is not None and not found:
        raise UsageError(f"there is no vendor {options.vendor!r}", hint="`orkas models` lists them")
    if options.json:
        out.data(found)
    else:
        out.table([(f["vendor"], f["state"], f["from"] or f"set {' or '.join(f['variables'])}") for f in found])
    return 0


def _facts(row: Any) -> dict[str, Any]:
    variable = vendors.key_of(row)
    state = "key found" if variable else "needs no key" if row.local else "no key"
    return {
        "vendor": row.name,
        "found": variable is not None,
        "state": state,
        "from": f"environment {variable}" if variable else "this machine" if row.local else None,
        "variables": list(row.keys),
    }
