"""A running tool loop is killed with SIGKILL at random moments: nothing that was told is lost, and it goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from orkas import Session
from orkas.harness import pairing
from orkas.infra.messages import AssistantMessage, ToolMessage, text_of
from orkas.testing import FakeVendor, VendorRequest, call

KILLS = int(os.environ.get("ORKAS_KILLS", "25"))
"""How often a run is killed; 200 by hand."""

SOON = 0.25
"""Seconds of a run within which it is killed; a whole run takes a little longer."""


def reply(request: VendorRequest) -> list[object]:
    """A model that always has more to do: some words, then calls, of which two only read."""
    n = len(request.body["messages"])
    calls = [call("list_files", path="."), call("read_file", path="data.txt"), call("shell", command="true")]
    return [f"step {n}: ", "looking", *(calls if n % 3 else calls[::-1])]


def acknowledged(lines: list[bytes]) -> list[tuple[str, str]]:
    """Ids and texts of the results that the run told of."""
    events = [json.loads(line) for line in lines if line.endswith(b"}\n")]
    return [(e["id"], e["result"]) for e in events if e["type"] == "tool_end"]


def test_a_run_killed_at_any_moment_loses_nothing_it_told_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("some data\n" * 50)
    rng = random.Random(2)
    command = [sys.executable, "-m", "orkas", "run", "--json", "--model", "custom/m", "--session", "job", "--cwd", str(tmp_path)]
    told: list[tuple[str, str]] = []
    prompts: list[str] = []
    with FakeVendor([reply] * 100_000) as vendor:
        env = {**os.environ, "CUSTOM_BASE_URL": vendor.base_url, "CUSTOM_API_KEY": "k"}
        for n in range(KILLS):
            run = subprocess.Popen([*command, f"go {n}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
            assert run.stdout is not None
            assert run.stderr is not None
            first = run.stdout.readline()  # it is under way: the prompt is on disk
            prompts.append(f"go {n}")
            time.sleep(rng.random() * SOON)
            run.send_signal(signal.SIGKILL)
            rest, said = run.communicate()
            assert first.startswith(b'{"type":'), said
            told += acknowledged([first, *rest.splitlines(keepends=True)])
            check(told, prompts)
        assert not [r for r in vendor.requests if r.status >= 400], "a request was refused: the history was not valid"
    assert len(told) > KILLS, "the runs were killed before they did anything"


def check(told: list[tuple[str, str]], prompts: list[str]) -> None:
    session = Session.read("job")
    assert pairing.is_paired(session.messages)
    results = {m.tool_call_id: text_of(m) for m in session.messages if isinstance(m, ToolMessage)}
    for call_id, text in told:
        assert results[call_id] == text
    said = [text_of(m) for m in session.messages if not isinstance(m, AssistantMessage | ToolMessage)]
    assert said == prompts
