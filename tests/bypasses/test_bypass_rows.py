"""Every published bypass of the layers that this project has is tested by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

LAYERS = ("policy", "ui", "config-trust", "path", "files")
ELSEWHERE = {
    "path-rewind-hardlink": "what is undone: the tests of undo",
    "archive-toctou": "nothing here unpacks an archive",
}


def test_every_row_has_a_test(shared: Path) -> None:
    rows = [json.loads(line) for line in (shared / "bypasses/bypasses.jsonl").read_text().splitlines()]
    sources = "".join(p.read_text() for p in Path(__file__).parent.glob("test_*.py"))
    tested = set(re.findall(r"def test_(\w+)", sources))
    wanted = {r["id"] for r in rows if r["layer"] in LAYERS}
    assert len(wanted) > 20
    assert {row for row in wanted if row.replace("-", "_") not in tested} == set(ELSEWHERE)
