"""Real processes and the real system: killed at any call, refused at any call, on full disks, and two at once."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from crash_check import check_home
from crash_script import State

from orkas.harness.pairing import is_paired
from orkas.harness.sessions.session import Session
from orkas.infra.errors import SessionMissing
from orkas.infra.messages import text_of

FULL = os.environ.get("ORKAS_CRASH") == "full"
HERE = Path(__file__).parent
VICTIM = str(HERE / "crash_victim.py")
CALLS = ["write", "fdatasync", "fsync", "ftruncate", "/^rename", "/^link", "/^unlink"]
EVERY = 1 if FULL else 3
"""Which of the n-th calls are tried: all, or every third."""
STEPS = 16 if FULL else 5
SEED = "1"


@functools.cache
def can_trace() -> bool:
    """Whether strace is there, knows how to inject, and may trace."""
    if shutil.which("strace") is None:
        return False
    probe = ["strace", "-f", "-qq", "-e", "inject=fsync:error=EIO:when=1", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@functools.cache
def can_mount() -> bool:
    """Whether a disk of a small size can be made here."""
    probe = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=4k tmpfs /mnt"]
    return shutil.which("unshare") is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0


needs_strace = pytest.mark.skipif(not can_trace(), reason="needs strace, and the right to trace")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path))  # the checks move it about; this puts it back
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # no writes but ours


def victim(home: Path, call: str, what: str) -> tuple[int, list[State], bool]:
    """Exit status, the states told, and whether the system did what it was told to do at that call."""
    log = home.with_name("strace.log")
    trace = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", f"inject={call}:{what}"]
    run = subprocess.run([*trace, sys.executable, VICTIM, str(home), SEED, str(STEPS)], capture_output=True, check=False)
    lines = run.stdout.split(b"\n")[:-1]  # the last one may be cut
    states = [msgspec.json.decode(line, type=State) for line in lines if line.startswith(b"{") and line.endswith(b"}")]
    traced = log.read_text()
    fired = "INJECTED" in traced or "killed by SIGKILL" in traced
    assert fired or run.returncode == 0, run.stderr.decode()
    return run.returncode, states, fired


@needs_strace
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_every_call(call: str, tmp_path: Path):
    points = 0
    for nth in itertools.count(1, EVERY):
        home = tmp_path / str(nth)
        status, states, fired = victim(home, call, f"signal=SIGKILL:when={nth}")
        if not fired:
            assert status == 0
            break
        assert status != 0
        points += 1
        if states:  # else it was killed before anything was promised
            assert not check_home(states[-1], home), f"{call} number {nth}"
        shutil.rmtree(home)
    assert points
    print(f"{points} kills at {call}")


@needs_strace
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", CALLS)
def test_refused_at_every_call(call: str, error: str, tmp_path: Path):
    """It is told, nothing promised is lost, and the conversation goes on."""
    if not FULL and (error == "ENOSPC" or call == "write"):
        pytest.skip("the long profile tries this too (ORKAS_CRASH=full)")
    for nth in itertools.count(1, EVERY):
        home = tmp_path / str(nth)
        status, states, fired = victim(home, call, f"error={error}:when={nth}")
        assert status == 0, f"{call} number {nth} was not told but fell"
        if not fired:
            break
        assert not check_home(states[-1], home), f"{call} number {nth}"
        shutil.rmtree(home)
    assert nth > 1


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount (unshare -rm)")
@pytest.mark.timeout(600)
def test_full_disks_of_every_size(tmp_path: Path):
    sizes = ["4", "64", "4"]
    command = ["unshare", "-rm", sys.executable, str(HERE / "crash_full_disk.py"), str(tmp_path), *sizes]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 16
    assert "refused 0 times" not in lines[0], "the smallest disk was never full"
    assert lines[-1].endswith("refused 0 times"), "the largest disk held it all"


WRITER = """
import sys
from orkas.harness.sessions.session import Session
from orkas.infra.errors import SessionLocked
from orkas.infra.messages import AssistantMessage, ToolCall, tool_result, user_message
name, rounds = sys.argv[1], int(sys.argv[2])
n = 0
while n < rounds:
    try:
        session = Session.open("shared")
    except SessionLocked:
        continue
    with session:
        session.append(user_message(f"{name} {n}"))
        session.append(AssistantMessage([ToolCall(id="c", name="t", arguments={})]), tool_result("c", "r"))
        if n % 5 == 4:
            session.rewrite(session.messages)
    print(n, flush=True)
    n += 1
"""


def test_two_processes_on_one_session_lose_nothing_while_a_third_looks_on():
    rounds = 60 if FULL else 15
    command = [sys.executable, "-c", WRITER]
    writers = {n: subprocess.Popen([*command, n, str(rounds)], stdout=subprocess.PIPE) for n in ("one", "two")}
    looks = 0
    while any(w.poll() is None for w in writers.values()):
        try:
            session = Session.read("shared")
        except SessionMissing:
            assert not looks, "it was there before"
            continue
        looks += 1
        assert is_paired(session.messages)
        assert len(session.loaded.damaged) <= 1, "only what is being written can be cut"
    assert [len(w.communicate()[0].split()) for w in writers.values()] == [rounds, rounds]
    session = Session.read("shared")
    said = [text_of(m) for m in session.messages if text_of(m).startswith(("one", "two"))]
    for name in writers:
        assert [s for s in said if s.startswith(name)] == [f"{name} {n}" for n in range(rounds)]
    assert not session.loaded.damaged
    assert looks
    assert json.loads(session.path.read_bytes().split(b"\n")[0])["type"] == "session"
