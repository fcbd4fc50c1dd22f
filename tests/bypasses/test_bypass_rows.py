"""Every published bypass is tested by name, or it stands here why there is nothing that it could go around; and what is
of the same kinds in other spellings meets the same answer."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from orkas import ToolContext
from orkas.harness.policy import Policy, check_command
from orkas.harness.policy.rules import Rule, Rules
from orkas.infra.sandbox.protected import NAMES

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
"""``deny``, ``ask``, ``allow``: what the block list says. ``reads``: runs unasked; ``changes``: never does. ``always``:
asked also where edits are approved, inside the sandbox and without; ``edits``: then it runs in the sandbox. ``denied``, ``runs``: in mode
``all`` with the ``rule`` that denies. ``meant``, ``replaced``: what a ``rule`` allows, and what it does not."""


def test_other_spellings_of_the_same_kinds(tmp_path: Path) -> None:
    """Siblings of the rows, and as many ordinary commands beside them."""
    policy = Policy("ask", headless=False, rules=Rules())
    walls, none = ToolContext(tmp_path), ToolContext(tmp_path, sandbox="off")
    wrong = []
    for row in SPELLINGS:
        command, wanted = row["command"], row["verdict"]
        if wanted not in ("deny", "ask", "allow", "reads", "changes"):
            continue
        said = policy.decide("shell", {"command": command}, walls if wanted == "reads" else none).verdict
        if wanted in ("reads", "changes"):
            right = (said == "allow") is (wanted == "reads")
        else:
            right = check_command(command).verdict == wanted and (wanted == "allow" or said == wanted)
        if not right:
            wrong.append((wanted, command))
    assert not wrong and len(SPELLINGS) > 500


def test_what_is_always_asked_about(tmp_path: Path) -> None:
    """What git and other programs obey, deletions of much, and the network, in a folder that has all of it."""
    for folder in (".git/hooks", "hooks", "x", "big/sub", "template/.vscode"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "g").symlink_to(".git")
    for name in ("config", "x/config", ".git/config", "template/a", *(f"t{n}.log" for n in range(300))):
        (tmp_path / name).touch()
    for n in range(300):
        (tmp_path / "big/sub" / str(n)).touch()
    policy = Policy("edits", headless=False, rules=Rules())
    wrong = []
    for row in SPELLINGS:
        said = [policy.decide("shell", {"command": row["command"]}, ToolContext(tmp_path, sandbox=walls)).verdict for walls in ("find", "off")]
        if (row["verdict"] == "always" and said != ["ask", "ask"]) or (row["verdict"] == "edits" and said[0] != "allow"):
            wrong.append((row["verdict"], row["command"], said))
    assert not wrong and sum(row["verdict"] == "always" for row in SPELLINGS) > 70


@pytest.mark.parametrize("name", [*NAMES, "sub/.gitmodules", ".git/config", "a/.git/hooks/x", ".env", "Makefile", ".github/x"])
def test_commands_and_file_tools_give_the_same_answer(tmp_path: Path, name: str) -> None:
    policy, context = Policy("edits", headless=False, rules=Rules()), ToolContext(tmp_path)
    wanted = policy.decide("write_file", {"path": name, "content": "x"}, context).verdict
    for form in ("echo x > {}", "tee {}", "touch {}", "cp a {}", "mv a {}", "rm {}", "sed -i s/a/b/ {}", "mkdir -p {}", "ln -s a {}"):
        said = policy.decide("shell", {"command": form.format(name)}, context)
        assert said.verdict == wanted, (form, said.reasons)
        assert wanted == "allow" or said.grant is None, "it can be said once only"


def test_a_rule_that_denies_holds_where_all_else_is_approved(tmp_path: Path) -> None:
    """Also where it cannot be told what is started; scripts and everyday commands run all the same."""
    wrong, rows = [], [row for row in SPELLINGS if row["verdict"] in ("denied", "runs")]
    for row in rows:
        policy = Policy("all", rules=Rules([Rule.read("deny", f"shell: {row['rule']}")]))
        said = policy.decide("shell", {"command": row["command"]}, ToolContext(tmp_path))
        if (said.verdict == "deny") is (row["verdict"] == "runs"):
            wrong.append((row, said.reasons))
    assert not wrong and len(rows) > 200


def test_what_replaces_a_program_or_its_folder_is_not_what_a_rule_allows(tmp_path: Path) -> None:
    wrong, rows = [], [row for row in SPELLINGS if row["verdict"] in ("meant", "replaced")]
    for row in rows:
        policy = Policy("ask", headless=False, rules=Rules([Rule.read("allow", f"shell: {row['rule']}")]))
        said = policy.decide("shell", {"command": row["command"]}, ToolContext(tmp_path)).verdict
        if (said == "allow") is (row["verdict"] == "replaced"):
            wrong.append(row)
    assert not wrong and len(rows) > 100


def test_a_rule_that_may_be_met_says_so_and_lets_a_person_decide(tmp_path: Path) -> None:
    rules, call = Rules([Rule.read("deny", "shell: git push")]), {"command": "python3 -c 'print(1)'"}
    said = {mode: Policy(mode, headless=False, rules=rules).decide("shell", call, ToolContext(tmp_path)) for mode in ("ask", "edits", "all", "none")}  # type: ignore[arg-type]
    assert {mode: verdict.verdict for mode, verdict in said.items()} == {"ask": "ask", "edits": "ask", "all": "deny", "none": "deny"}
    for verdict in (*said.values(), Policy("ask", rules=rules).decide("shell", call, ToolContext(tmp_path))):
        assert any("what it starts cannot be told" in reason and "git push" in reason for reason in verdict.reasons)
    both = Rules([Rule.read("deny", "shell: git push"), Rule.read("deny", "shell: python3")])
    sure = Policy("ask", headless=False, rules=both).decide("shell", call, ToolContext(tmp_path))
    assert sure.verdict == "deny" and sure.reasons == ["the rule “shell: python3” denies it"]


@pytest.mark.parametrize("text", ["touch $'\\x00'", "rm $'a\\x00*'", "cp a $'b\\0/'", "rm " + "[a" * 5_000, "tee " + "* " * 2_000, "git", "cp", "cmake -E", "rm " + "*/" * 50])  # fmt: skip
def test_no_name_upsets_what_looks_at_the_disk(tmp_path: Path, text: str) -> None:
    policy = Policy("edits", headless=False, rules=Rules([Rule.read("deny", "shell: git push"), Rule.read("allow", "shell: make")]))
    began = time.process_time()
    assert policy.decide("shell", {"command": text}, ToolContext(tmp_path)).verdict in ("allow", "ask")
    assert time.process_time() - began < 2
