"""The documents tell the truth: Python blocks run, links lead somewhere."""

from __future__ import annotations

import argparse
import inspect
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from orkas import Agent
from orkas.infra import errors
from orkas.infra.events import Event
from orkas.product.cli import COMMANDS, config, run, session

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")]
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{n}")
    for document in DOCUMENTS
    for n, block in enumerate(re.findall(r"^```python\n(.*?)^```", document.read_text("utf-8"), re.M | re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-W", "error", "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def rows_of(text: str) -> dict[str, list[str]]:
    """The tables of a document: what stands in backquotes in the first two cells of each row."""
    rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("| `")]
    return {name: re.findall(r"`([^`]+)`", row[2]) for row in rows for name in re.findall(r"`([^`]+)`", row[1])}


def test_the_python_page_names_every_event_with_its_fields() -> None:
    rows = rows_of((ROOT / "docs/python.md").read_text("utf-8"))
    for event in get_args(Event):
        assert rows[event.type][: len(event.__struct_fields__) - 1] == list(event.__struct_fields__[1:])


def test_the_python_page_names_every_option_and_error() -> None:
    rows = rows_of((ROOT / "docs/python.md").read_text("utf-8"))
    assert set(inspect.signature(Agent.__init__).parameters) - {"self"} <= set(rows)
    assert {name for name in errors.__all__ if name not in ("ErrorClass", "OrkasError", "exit_status")} <= set(rows)


def test_the_readme_names_every_command_option_and_subcommand() -> None:
    text = (ROOT / "README.md").read_text("utf-8").replace("\\|", "|")
    for command in chat_commands():
        assert f"`{command}`" in text
    options = [o for action in run.parser()._actions for o in action.option_strings if action.help != argparse.SUPPRESS]
    for option in set(options) - {"-h", "--help", "--max-cost"}:
        assert option in text, option
    for family in (session, config):
        named = text[text.index(f"| `orkas {family.__name__.rpartition('.')[2]} ") :].partition("\n")[0]
        for name in next(a for a in family.parser()._actions if a.dest == "command").choices:
            assert f"{name}`" in named, name


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    more = text[text.index("## More") :]
    for page in sorted(ROOT.glob("docs/*.md")):
        assert f"](docs/{page.name})" in more, f"README, “More”, does not lead to {page.name}"


def test_the_page_on_commands_names_every_variable_that_one_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    from orkas.infra import process
    from orkas.infra.descendants import MARK

    page = (ROOT / "docs/shell.md").read_text("utf-8")
    page = page[page.index("## Variables") : page.index("## A terminal")]
    named = re.findall(r"`([A-Z_]+)(?:=([^`]*))?`", page)
    kept = {name for name, value in named if not value}
    for name in kept:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("NOT_ON_THE_PAGE", "x")
    seen = process.environment()
    assert {name: value for name, value in named if value} == {n: v for n, v in seen.items() if v != "x"}
    assert kept - {MARK, "XDG_CACHE_HOME", "PWD", "SHLVL", "_"} == {n for n, v in seen.items() if v == "x"} == process._KEPT
    assert process.launch("true", cwd=ROOT).env[MARK]


def commands() -> list[Any]:
    """Every line of the documents that calls the command, without its remark."""
    found = []
    for document in DOCUMENTS:
        for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", document.read_text("utf-8"), re.M | re.S):
            for line in block.splitlines() if kind in ("", "console") else []:
                if called := re.match(r"(?:.*\| )?(?:\.venv/bin/)?orkas( .*)?$", line):
                    words = re.split(r"(?:^|\s+)#", (called[1] or "").strip())[0]
                    found.append(pytest.param(words, id=f"{document.name}: {words}"))
    return found


@pytest.mark.parametrize("words", commands())
def test_each_command_of_the_documents_can_be_given(words: str) -> None:
    try:
        parsed(words)
    except errors.UsageError:
        parsed(re.split(r"\s{2,}", words)[0])  # what it does stands behind it


def parsed(words: str) -> None:
    name, *rest = shlex.split(words) or [""]
    if name not in COMMANDS:
        name, rest = "chat", shlex.split(words)
    assert callable(import_module(f"orkas.product.cli.{name}").parser().parse_args(rest).do)


def rooms() -> set[str]:
    """Every module and package of ours, by the words of its path."""
    return {
        str(path.relative_to(SOURCE).with_suffix("")).removesuffix("/__init__")
        for path in SOURCE.rglob("*.py") if not path.name.startswith("__main")
    } - {"__init__"}  # fmt: skip


SOURCE = ROOT / "src/orkas"
FLOOR = re.compile(r"^### (infra|providers|harness)$\n(.*?)(?=^##)", re.M | re.S)


def test_the_architecture_names_only_rooms_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    there = rooms()
    parts = {part for room in there for part in [room, *(room[n:] for n in range(len(room)) if room[n - 1] == "/")]}
    for floor, body in FLOOR.findall(text):
        for row in (line for line in body.splitlines() if line.startswith("| `")):
            for name in re.findall(r"`([a-z0-9_/]+?)/?`", row.split("|")[1]):
                assert name in parts or f"{floor}/{name}" in there, f"ARCHITECTURE, {floor}: there is no room {name}"


def test_the_architecture_names_every_room() -> None:
    """A room by its name, or by that of the package that holds it."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    words = {word for named in re.findall(r"`([a-z0-9_/. ,]+?)/?`", text) for word in re.split(r"[/. ,]+", named)}
    paths = [room.split("/") for room in sorted(rooms())]
    held = [path for path in paths if path[0] in ("infra", "providers", "harness", "tools") and len(path) > 1]
    unnamed = ["/".join(path) for path in held if not words & set(path[1:])]
    assert not unnamed, "ARCHITECTURE says nothing of these"


def chat_commands() -> list[str]:
    from orkas.product.chat.commands import COMMANDS

    return [command.usage for command in COMMANDS]
