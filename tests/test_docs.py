"""The documents tell the truth: Python blocks run, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
