"""The documents tell the truth: Python blocks run, links lead somewhere."""

from __future__ import annotations

import argparse
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from orkas import Agent
from orkas.infra import errors
from orkas.infra.events import Event
from orkas.product.cli import config, run, session

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


def chat_commands() -> list[str]:
    from orkas.product.chat.commands import COMMANDS

    return [command.usage for command in COMMANDS]
