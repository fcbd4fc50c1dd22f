"""The bench itself works: it measures, it judges, and a client that cheats gets no figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"

pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="the bench measures processes with wait4")


def bench(*arguments: str, folder: Path = BENCH) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_a_client_is_measured(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = bench("start", "writes", "-r", "1", "--clients", "raw_aiohttp", "--json", str(figures))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "process start to the first token" in done.stdout
    (start,), (writes,) = (json.loads(figures.read_text())[name]["raw_aiohttp"] for name in ("start", "writes"))
    assert 10 < start["cpu"] < 10_000 and 5 < start["memory"] < 500
    assert 0.9 < writes["bytes"] < 1.1


def test_an_unknown_scenario_is_wrong_usage() -> None:
    done = bench("nothing")
    assert done.returncode == 2 and "no such scenario: nothing" in done.stderr


def test_a_client_that_leaves_something_out_has_failed(tmp_path: Path) -> None:
    for source in BENCH.rglob("*.py"):
        target = tmp_path / source.relative_to(BENCH)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    (tmp_path / "clients" / "lazy.py").write_text(
        "class Client:\n"
        "    def __init__(self, base_url, tool, store): ...\n"
        "    async def turn(self, prompt, session, on_text): on_text('all done')\n"
        "    async def close(self): ...\n"
    )
    done = bench("deltas", "-r", "1", "--clients", "lazy", folder=tmp_path)
    assert done.returncode == 1
    assert "failed: 8 characters came" in done.stdout and "FAILED" in done.stdout


def test_what_the_bench_lacks_is_one_sentence() -> None:
    command = [sys.executable, "-S", str(BENCH / "run.py"), "start", "--clients", "raw_httpx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 1 and "lacks httpx; see" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "word", "status", "says"),
    [("test.py", "--help", 0, "run every check"), ("try.py", "with-lokal-model", 1, "did you mean with-local-model?"),
     ("try.py", "local", 1, "did you mean with-local-model?")],
)  # fmt: skip
def test_scripts_answer_before_they_set_anything_up(script: str, word: str, status: int, says: str) -> None:
    command = [sys.executable, str(BENCH.parent / "scripts" / script), word]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and says in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("\n") == 1


def test_each_dialect_is_measured_next_to_a_client_written_by_hand() -> None:
    program = [sys.executable, str(BENCH / "dialects.py"), "bedrock", "ollama", "-r", "1", "-n", "200"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["bedrock", "ollama"], done.stderr
