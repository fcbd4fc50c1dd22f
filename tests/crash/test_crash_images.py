"""The plug is pulled at every moment of many random conversations: whatever the disk kept, nothing promised is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash_broken import MISTAKES
from crash_check import sweep
from crash_script import STARTS, Script

FULL = os.environ.get("ORKAS_CRASH") == "full"
SCRIPTS = 240 if FULL else 24


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path))  # the kit moves it about; this puts it back


@pytest.mark.parametrize("start", STARTS)
def test_every_power_cut_keeps_what_was_promised(start: str, tmp_path: Path):
    """One conversation with every kind of step."""
    script = Script(tmp_path / "run", 7, start=start)
    for step in (script.speak, script.round, script.waited, script.compact, script.hiccup, script.rewind, script.fork):
        step()
    script.fetch()
    script.reopen()
    script.session.close()
    found = sweep(script, tmp_path / "image")
    assert not found.wrong
    assert found.images > 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(8))
def test_power_cuts_in_random_conversations(part: int, tmp_path: Path):
    images = 0
    for seed in range(part, SCRIPTS, 8):
        script = Script(tmp_path / f"{seed}/run", seed)
        script.run(7 if FULL else 4)
        found = sweep(script, tmp_path / f"{seed}/image")
        assert not found.wrong, f"script {seed}"
        images += found.images
    assert images > SCRIPTS / 8 * 50
    print(f"{SCRIPTS // 8} scripts, {images} images")


@pytest.mark.parametrize("name", ["sound", *MISTAKES])
def test_a_store_with_a_mistake_is_found_out(name: str, tmp_path: Path):
    """A kit that lets a broken store pass proves nothing."""
    scripts = "4" if name == "sound" else "60"
    command = [sys.executable, str(Path(__file__).with_name("crash_broken.py")), name, scripts, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert bool(run.stdout.strip()) == (name != "sound"), run.stdout
