"""The doctor looks over all sessions, repairs the broken ones, and leaves the others alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli_support import Ran, orkas
from orkas.harness.pairing import is_paired
from orkas.harness.sessions import checkup
from orkas.harness.sessions.session import Session
from orkas.infra import files
from orkas.infra.messages import AssistantMessage, Text, ToolCall, text_of, tool_result, user_message

HEADER = b'{"type":"session","version":1,"id":"x","created":"2026-11-30T10:00:00.000Z"}\n'
USER = b'{"role":"user","content":[{"type":"text","text":"go on"}]}\n'
CALL = b'{"role":"assistant","content":[{"type":"tool_call","id":"a","name":"t","arguments":{}}]}\n'
RESULT = b'{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"found"}]}\n'
BROKEN = {
    "lines": (HEADER + USER + b"{bad\n\0\0\n" + CALL + RESULT, "2 damaged lines (3, 4)", "2 damaged lines set aside"),
    "torn": (HEADER + USER + CALL[:40], "1 damaged line (3)", "1 damaged line set aside"),
    "open": (HEADER + CALL + USER, "1 call without result", "1 result made up"),
    "orphan": (HEADER + USER + RESULT + RESULT, "2 results without call", "2 results without call dropped"),
    "order": (HEADER + CALL + USER + RESULT, "1 message out of place", "1 message moved"),
    "same": (HEADER + CALL + RESULT + CALL + RESULT, "1 call under an id already taken", "1 call given another id"),
}  # fmt: skip


@pytest.fixture
def folder() -> Path:
    place = Path(os.environ["ORKAS_HOME"], "sessions")
    place.mkdir(parents=True)
    return place


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir() if p.is_file()}


def healthy(name: str) -> None:
    with Session.open(name) as session:
        session.append(
            user_message("x"),
            AssistantMessage([Text(text="I look."), ToolCall(id="a", name="t", arguments={})], "v/m"),
            tool_result("a", "found"),
        )


def of(name: str, ran: Ran) -> list[dict[str, str]]:
    return [f for f in ran.json if f["area"] == "sessions" and f["text"].split(" ")[0] == name]


def test_each_kind_of_damage_is_told_repaired_with_a_copy_and_then_gone(folder: Path):
    for name, (data, _, _) in BROKEN.items():
        (folder / f"{name}.jsonl").write_bytes(data)
    healthy("well")
    before = snapshot(folder)
    words = {name: [text_of(m) for m in Session.read(name).messages] for name in BROKEN}
    told = orkas("doctor", "--json")
    assert told.status == 0 and snapshot(folder) == before
    for name, (_, wrong, _) in BROKEN.items():
        (finding,) = of(name, told)
        assert finding["level"] == "warning" and wrong in finding["text"] and "--repair" in finding["text"]
    assert of("well", told) == []

    mended = orkas("doctor", "--repair", "--json")
    for name, (data, _, done) in BROKEN.items():
        (finding,) = of(name, mended)
        assert finding["level"] == "ok" and done in finding["text"]
        assert (folder / f"{name}.jsonl.original").read_bytes() == data
        assert finding["text"].endswith(f"kept in {folder / f'{name}.jsonl.original'}.")
        session = Session.read(name)
        assert is_paired(session.messages) and [text_of(m) for m in session.messages] == words[name]
    assert snapshot(folder)["well.jsonl"] == before["well.jsonl"]

    after = snapshot(folder)
    again = orkas("doctor", "--repair", "--json")
    assert snapshot(folder) == after and not any(of(name, again) for name in BROKEN)


def test_open_newer_and_unreadable_sessions_are_said_and_not_touched(folder: Path):
    (folder / "newer.jsonl").write_bytes(HEADER.replace(b'"version":1', b'"version":2') + CALL + USER)
    (folder / "dir.jsonl").mkdir()
    healthy("busy")
    with (folder / "busy.jsonl").open("ab") as file:
        file.write(CALL[:30])
    with Session.open("busy"):
        before = snapshot(folder)
        ran = orkas("doctor", "--repair", "--json")
        assert ran.status == 1 and snapshot(folder) == before
    assert f"pid {os.getpid()}" in of("busy", ran)[0]["text"]
    assert "newer release" in of("newer", ran)[0]["text"]
    levels = {f["text"]: f["level"] for f in ran.json if "dir.jsonl" in f["text"]}
    assert "problem" in levels.values()
    assert "was repaired" in of("busy", orkas("doctor", "--repair", "--json"))[0]["text"]


def test_a_session_that_is_opened_between_look_and_repair_is_left_alone(folder: Path):
    (folder / "s.jsonl").write_bytes(BROKEN["lines"][0])
    (found,) = checkup.look_over()
    with Session.open("s"):
        assert checkup.mend(found) is None
    assert checkup.mend(found) is not None
    assert checkup.mend(found) is None  # nothing is left to do


def test_what_cannot_be_repaired_is_a_problem_with_its_reason(folder: Path):
    (folder / "s.jsonl").write_bytes(BROKEN["lines"][0])
    program = (
        "import resource, signal\n"
        "from orkas.harness.sessions import checkup\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (120, resource.RLIM_INFINITY))\n"
        "done = checkup.mend(next(checkup.look_over()))\n"
        "print(done.problem, done.text)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.startswith("True ") and "could not be written" in ran.stdout, ran.stderr
    assert (folder / "s.jsonl").read_bytes() == BROKEN["lines"][0]


def test_what_was_well_and_has_not_changed_is_not_read_again_unless_asked(folder: Path):
    healthy("s")
    healthy("t")
    path, other = folder / "s.jsonl", folder / "t.jsonl"
    long_ago = time.time() - 3600
    for one in (path, other):
        os.utime(one, (long_ago, long_ago))
    assert list(checkup.look_over()) == []
    good = path.read_bytes()
    path.write_bytes(b"x" * len(good))  # behind the back of the clock
    os.utime(path, (long_ago, long_ago))
    assert list(checkup.look_over()) == []  # nothing tells that it changed
    assert [f.session for f in checkup.look_over(thorough=True)] == ["s"]
    assert [f.session for f in checkup.look_over()] == ["s"]  # and now it is known
    other.write_bytes(other.read_bytes() + b"torn")
    assert [f.session for f in checkup.look_over()] == ["s", "t"]
    with Session.open("t"):
        assert [f.state for f in checkup.look_over()] == ["broken", "open"]


@pytest.mark.parametrize("memory", [b"", b"{", b"[]", b'{"release":"0","well":{}}', b"\xff", None])
def test_a_lost_or_foreign_memory_means_reading_again(folder: Path, memory: bytes | None):
    (folder / "s.jsonl").write_bytes(BROKEN["lines"][0])
    cache = folder.parent / "cache"
    if memory is None:
        cache.write_text("in the way")
    else:
        cache.mkdir()
        (cache / "sessions.json").write_bytes(memory)
    assert [f.session for f in checkup.look_over()] == ["s"]


def test_what_lies_beside_and_belongs_to_none_is_named_and_stays(folder: Path):
    healthy("s")
    mine = ["s.jsonl", "s.jsonl.archive", "s.jsonl.inbox", "s.jsonl.damaged", "s.jsonl.original-2", "s.lock"]
    odd = ["gone.lock", "gone.jsonl.archive", "gone.jsonl.original", "notes.txt", ".s.jsonl.0123abcd.tmp"]
    for name in [*mine[1:], *odd, ".t.jsonl.01234567.tmp"]:
        (folder / name).write_bytes(b"")
    for name in ("s.files", "gone.files"):
        (folder / name).mkdir()
    long_ago = time.time() - 3600
    os.utime(folder / ".s.jsonl.0123abcd.tmp", (long_ago, long_ago))
    assert checkup.strays() == sorted([*odd, "gone.files"])
    text = orkas("doctor", "--repair").out
    assert "gone.files" in text and "1 more" in text
    assert checkup.strays() == sorted([*odd, "gone.files"])


def test_who_holds_a_lock_is_told_without_touching_it(tmp_path: Path):
    path = tmp_path / "s.lock"
    assert files.holder(path) is None and not path.exists()
    with files.Lock(path, "s"):
        assert f"pid {os.getpid()}" in (files.holder(path) or "")
    path.write_bytes(b"{}")
    assert files.holder(path) is None and path.exists()
    with files.Lock(path, "s"):
        pass
