"""JSON Schemas of what others read and write: message records and events.

Generated from the types, so they cannot drift from the code; committed, so that a change of the wire is seen in review.
``python -m orkas.infra.schemas FOLDER`` writes them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from orkas.infra.events import Event
from orkas.infra.messages import Message

__all__ = ["generate", "write"]

_TYPES: dict[str, tuple[Any, str, str]] = {
    "message": (Message, "Orkas message record", "One message of a session: one line of a session file."),
    "event": (Event, "Orkas event", "One line of `orkas run --json`: what a run tells its caller."),
}


def generate() -> dict[str, dict[str, Any]]:
    """Name to JSON Schema (draft 2020-12). Deterministic: equal types give equal schemas."""
    return {name: _schema(*entry) for name, entry in _TYPES.items()}


def write(folder: Path) -> list[Path]:
    """Write each schema as ``<name>.schema.json`` into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, schema in generate().items():
        path = folder / f"{name}.schema.json"
        path.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def _schema(type_: Any, title: str, description: str) -> dict[str, Any]:
    (top,), definitions = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "schemas"))
