"""Every published bypass is tested by name, or it stands here why there is nothing that it could go around; and what is
of the same kinds in other spellings meets the same answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

from orkas import ToolContext
from orkas.harness.policy import Policy, check_command
from orkas.harness.policy.rules import Rules

NOTHING_TO_BYPASS = {
    "mcp": "no server of tools is spoken to: tools are built in, of the program, or of a file that the user names",
    "memory": "nothing is remembered from one conversation to the next",
    "web-ui": "nothing listens: there is no page and no port",
}
"""Layers that this project does not have. A row of theirs whose kind exists here all the same has its test."""


def test_every_row_has_a_test(shared: Path) -> None:
    rows = [json.loads(line) for line in (shared / "bypasses/bypasses.jsonl").read_text().splitlines()]
    sources = "".join(p.read_text() for p in Path(__file__).parent.glob("test_*.py"))
    tested = set(re.findall(r"def test_(\w+)", sources))
    assert len(rows) > 20
    without = {r["id"] for r in rows if r["layer"] not in NOTHING_TO_BYPASS and r["id"].replace("-", "_") not in tested}
    assert not without


SPELLINGS = [json.loads(line) for line in Path(__file__).with_name("spellings.jsonl").read_text().splitlines()]
"""``deny``, ``ask``, ``allow``: what the block list says. ``reads``: runs unasked; ``changes``: never does."""


def test_other_spellings_of_the_same_kinds(tmp_path: Path) -> None:
    """Siblings of the rows, and as many ordinary commands beside them."""
    policy = Policy("ask", headless=False, rules=Rules())
    walls, none = ToolContext(tmp_path), ToolContext(tmp_path, sandbox="off")
    wrong = []
    for row in SPELLINGS:
        command, wanted = row["command"], row["verdict"]
        said = policy.decide("shell", {"command": command}, walls if wanted == "reads" else none).verdict
        if wanted in ("reads", "changes"):
            right = (said == "allow") is (wanted == "reads")
        else:
            right = check_command(command).verdict == wanted and (wanted == "allow" or said == wanted)
        if not right:
            wrong.append((wanted, command))
    assert not wrong and len(SPELLINGS) > 500
