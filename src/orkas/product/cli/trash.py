"""``orkas trash``: what undo and the file tools took away, and the way back."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from orkas.infra.amounts import counted
from orkas.infra.paths import shown
from orkas.product.cli import out, parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(prog="orkas trash", description="Files of yours that undo and the file tools took away.")
    add = parsing.choose(own)
    add("list", _list, "list what lies there, the newest first, with the id that restore takes",
        example="orkas trash list --json")  # fmt: skip
    restore = add("restore", _restore, "put a file back where it was, or elsewhere; never over another file",
                  example="orkas trash restore 20261130-101500-1a2b3c4d")  # fmt: skip
    restore.add_argument("id", metavar="ID")
    restore.add_argument("--to", metavar="PATH", type=Path, help="a new name for it, instead of the one it had")
    return own


def _list(options: argparse.Namespace) -> int:
    from orkas.harness import trash

    found = trash.entries()
    if options.json:
        out.data([
            {"id": e.id, "root": e.root, "path": e.path, "taken": e.taken, "bytes": e.bytes} for e in found
        ])  # fmt: skip
        return 0
    out.table([
        (e.id, time.strftime("%Y-%m-%d %H:%M", time.localtime(e.taken)), counted(e.bytes, "byte"),
         shown(str(Path(e.root) / e.path)))
        for e in found
    ])  # fmt: skip
    return 0


def _restore(options: argparse.Namespace) -> int:
    from orkas.harness import trash

    place = trash.put_back(options.id, to=options.to)
    if options.json:
        out.data({"restored": str(place)})
    else:
        out.line(f"restored {shown(str(place))}")
    return 0
