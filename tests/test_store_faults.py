"""The disk fills, a call fails, the process is killed: no acknowledged message is ever lost (power cuts: tests/crash)."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orkas.harness.pairing import is_paired
from orkas.harness.sessions.session import Session
from orkas.infra import files
from orkas.infra.errors import SessionLocked, StorageError
from orkas.infra.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    encode,
    tool_result,
    user_message,
)

SOURCE = str(Path(__file__).parents[1] / "src")
posix = pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals and limits")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path))
    return tmp_path


def ask(id: str) -> AssistantMessage:
    return AssistantMessage([Text(text=f"ask {id}"), ToolCall(id=id, name="t", arguments={})])


def texts(messages: list[Message]) -> list[str]:
    """All words and real results, long ones by their beginning."""
    return [
        b.text[:20] for m in messages if not getattr(m, "synthetic", False) for b in m.content if isinstance(b, Text)
    ]  # fmt: skip


def strays(home: Path) -> list[str]:
    return [p.name for p in (home / "sessions").rglob("*") if ".tmp" in p.name or p.name.endswith(".lock")]


# --- faults -------------------------------------------------------------------------------------------------------


class Faulty(files.Ops):
    """The ``nth`` call and the ``more`` after it fail; ``partly``: a write first takes that many bytes."""

    def __init__(self, nth: int, code: int, *, more: int = 0, partly: int | None = None) -> None:
        self.failing = range(nth, nth + more + 1)
        self.code = code
        self.partly = partly
        self.calls = 0
        self.fired = 0

    def _step(self) -> bool:
        self.calls += 1
        if self.calls not in self.failing:
            return False
        self.fired += 1
        return True

    def _fail(self) -> None:
        if self._step():
            raise OSError(self.code, os.strerror(self.code))

    def write(self, fd: int, data: bytes) -> int:
        if self._step():
            if self.partly is None:
                raise OSError(self.code, os.strerror(self.code))
            done = super().write(fd, data[: self.partly])
            if self.code == 0:
                return done  # a full disk may take a part and say nothing
            raise OSError(self.code, os.strerror(self.code))
        return super().write(fd, data)

    def open(self, path: Path, flags: int) -> int:
        self._fail()
        return super().open(path, flags)

    def truncate(self, fd: int, size: int) -> None:
        self._fail()
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._fail()

    def sync_folder(self, folder: Path) -> None:
        self._fail()

    def rename(self, source: Path, target: Path) -> None:
        if len(self.failing) == 1:  # a disk that stays full refuses no renames
            self._fail()
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._fail()
        super().link(source, target)


FAULTS = {
    "full": {"code": errno.ENOSPC},
    "full after ten bytes": {"code": errno.ENOSPC, "partly": 10},
    "short write without error": {"code": 0, "partly": 10},
    "input/output error": {"code": errno.EIO},
    "full for a while": {"code": errno.ENOSPC, "more": 5, "partly": 3},
}


def talk(session: Session, home: Path) -> Iterator[StorageError]:
    """A session with everything that writes; yields each failure as it is told, and goes on."""
    path = home / "sessions/s.jsonl"
    steps: list[list[Message]] = [
        [user_message("one")], [ask("a"), tool_result("a", "r1")], [user_message("two")],
        [ask("b")], [tool_result("b", "long " + "x" * 60_000)], [user_message("three")],
    ]  # fmt: skip
    for step in steps:
        before = len(session.messages)
        try:
            session.append(*step)
            assert session.unsaved == 0
        except StorageError as error:
            assert session.unsaved > 0, "a failed save must keep the messages"
            yield error
        assert len(session.messages) == before + len(step), "memory has them either way"
    memory, disk = list(session.messages), path.read_bytes() if path.exists() else None
    try:
        session.rewrite([user_message("summary"), *session.messages[-1:]])
    except StorageError as error:
        yield error
        assert session.messages == memory
        assert (path.read_bytes() if path.exists() else None) == disk, "a failed rewrite changed the file"
        assert not [name for name in strays(home) if ".tmp" in name]
    try:
        session.append(user_message("four"))
    except StorageError as error:
        yield error


@pytest.mark.parametrize("kind", FAULTS)
def test_whatever_call_fails_it_is_told_and_nothing_is_lost(kind: str, home: Path):
    for nth in itertools.count(1):
        for stale in (home / "sessions").glob("*.jsonl*"):
            stale.unlink()
        ops = Faulty(nth, **FAULTS[kind])
        session = Session.open("s", ops=ops)
        told = list(talk(session, home))
        ops.failing = range(0)
        session.close()
        again = Session.read("s")
        assert again.messages == session.messages, f"call {nth}"
        assert not again.loaded.damaged, f"call {nth} left a welded or torn line"
        assert not strays(home)
        if not ops.fired:
            break
        assert all(str(error) and error.hint for error in told)
    assert nth > 20
    assert not told


@pytest.mark.parametrize("kind", FAULTS)
def test_a_torn_tail_survives_every_fault_of_its_recovery(kind: str, home: Path):
    path = home / "sessions/s.jsonl"
    path.parent.mkdir(parents=True)
    for nth in itertools.count(1):
        path.write_bytes(encode(user_message("one")) + b"\n" + encode(ask("a")) + b'\n{"role":"tool","tool_call')
        aside = path.with_name("s.jsonl.damaged")
        aside.unlink(missing_ok=True)
        ops = Faulty(nth, **FAULTS[kind])
        with Session.open("s", ops=ops) as session:
            try:
                session.append(user_message("two"))
            except StorageError:
                assert session.unsaved == 2  # the healed result and the message
            ops.failing = range(0)
        again = Session.read("s")
        assert again.messages == session.messages
        assert json.loads(aside.read_bytes().splitlines()[-1])["text"] == '{"role":"tool","tool_call'
        if not ops.fired:
            break
    assert nth > 4


def test_a_failed_save_is_told_in_a_sentence_with_a_way_out():
    ops = Faulty(0, errno.ENOSPC)
    with Session.open("s", ops=ops) as session:
        session.append(user_message("one"))
        ops.failing = range(ops.calls + 1, ops.calls + 2)
        with pytest.raises(StorageError, match="could not be written: No space left on device") as caught:
            session.append(user_message("two"))
        assert caught.value.hint.startswith("free some disk space; what is unsaved stays in memory")
        assert session.unsaved == 1
        session.append(user_message("three"))
        assert session.unsaved == 0
    assert texts(Session.read("s").messages) == ["one", "two", "three"]


def test_closing_with_unsaved_messages_fails_loudly_and_still_lets_go():
    ops = Faulty(1, errno.ENOSPC, more=1000)
    session = Session.open("s", ops=ops)
    with pytest.raises(StorageError):
        session.append(user_message("one"))
    with pytest.raises(StorageError):
        session.close()
    assert session.unsaved == 1
    Session.open("s").close()


async def test_a_failed_commit_is_told_and_made_good_by_the_next():
    ops = Faulty(1, errno.EIO)
    with Session.open("s", ops=ops) as session:
        with pytest.raises(StorageError):
            await session.commit(user_message("one"))
        await session.commit(user_message("two"))
    assert texts(Session.read("s").messages) == ["one", "two"]


@pytest.mark.parametrize("nth", [2, 3, 4], ids=["write", "flush", "flush of the folder"])
def test_a_failed_first_message_leaves_no_empty_file(nth: int, home: Path):
    session = Session.open("s", ops=Faulty(nth, errno.ENOSPC))
    with pytest.raises(StorageError):
        session.append(user_message("one"))
    assert [p.name for p in (home / "sessions").iterdir()] == ["s.lock"]
    session.close()
    assert texts(Session.read("s").messages) == ["one"]


def test_after_a_failed_flush_what_was_acknowledged_is_read_back(home: Path):
    path = home / "sessions/s.jsonl"

    class Forgetful(files.Ops):
        """A disk that fails a flush and, having dropped its cache, holds zeros where it said it had the data."""

        bad = False

        def sync(self, fd: int) -> None:
            if self.bad:
                with path.open("r+b") as file:
                    file.write(bytes(100))
                raise OSError(errno.EIO, "Input/output error")

    ops = Forgetful()
    session = Session.open("s", ops=ops)
    session.append(user_message("one"))
    ops.bad = True
    for _ in range(2):
        with pytest.raises(StorageError):
            session.append(user_message("two"))
        ops.bad = False
    with pytest.raises(StorageError, match="changed by another program"):
        session.close()


def test_only_one_holds_a_lock_however_they_race(home: Path):
    holding: list[int] = []
    most: list[int] = []

    def race() -> None:
        lock = files.Lock(home / "x.lock")
        for _ in range(300):
            try:
                with lock:
                    holding.append(1)
                    most.append(len(holding))
                    time.sleep(0)
                    holding.pop()
            except SessionLocked:
                pass

    racers = [threading.Thread(target=race) for _ in range(6)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert max(most) == 1


@pytest.mark.parametrize("meddle", ["add", "cut", "replace", "remove"])
def test_a_file_changed_underneath_is_never_overwritten(meddle: str, home: Path):
    path = home / "sessions/s.jsonl"
    session = Session.open("s")
    session.append(user_message("one"), user_message("two"))
    foreign = encode(user_message("foreign")) + b"\n"
    match meddle:
        case "add":
            with path.open("ab") as file:
                file.write(foreign)
        case "cut":
            os.truncate(path, 40)
        case "replace":
            path.with_name("x").write_bytes(foreign)
            path.with_name("x").replace(path)
        case "remove":
            path.unlink()
    left = path.read_bytes() if path.exists() else None
    for attempt in (lambda: session.append(user_message("three")), session.close):
        with pytest.raises(StorageError, match="changed by another program"):
            attempt()
    assert (path.read_bytes() if path.exists() else None) == left


@posix
@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else False, reason="root may write everywhere")
def test_a_read_only_folder_is_told(home: Path):
    with Session.open("s") as session:
        session.append(user_message("one"))
        (home / "sessions").chmod(0o500)
        try:
            with pytest.raises(StorageError, match="writable"):
                session.rewrite([user_message("two")])
        finally:
            (home / "sessions").chmod(0o700)


LIMITED = """
import resource, signal
from orkas.harness.sessions.session import Session
from orkas.infra.errors import StorageError
from orkas.infra.messages import user_message
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
session = Session.open("s")
failed = 0
for n in range(12):
    try:
        session.append(user_message(f"{n} " + "x" * 400))
    except StorageError:
        failed += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
session.append(user_message("end"))
session.close()
print(failed)
"""


@posix
def test_a_real_limit_that_gives_short_writes_loses_nothing(home: Path):
    env = {**os.environ, "PYTHONPATH": SOURCE, "ORKAS_HOME": str(home)}
    out = subprocess.run([sys.executable, "-c", LIMITED], env=env, capture_output=True, check=True, text=True)
    assert int(out.stdout) > 3
    again = Session.read("s")
    assert [text.split()[0] for text in texts(again.messages)] == [*map(str, range(12)), "end"]
    assert not again.loaded.damaged


# --- replace ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAULTS)
def test_replace_gives_the_old_content_or_the_new(kind: str, home: Path):
    path = home / "deep/er/file"
    files.make_folder(path.parent)
    for nth in itertools.count(1):
        path.write_bytes(b"old")
        ops = Faulty(nth, **FAULTS[kind])
        try:
            files.replace(path, b"new" * 100, ops=ops)
            assert path.read_bytes() == b"new" * 100
        except StorageError:
            assert path.read_bytes() == b"old"
        assert [p.name for p in path.parent.iterdir()] == ["file"]
        if not ops.fired:
            break
    assert nth >= 6


@pytest.mark.parametrize("kind", FAULTS)
def test_replace_makes_a_new_file_or_none(kind: str, home: Path):
    path = home / "deep/er/file"
    for nth in itertools.count(1):
        path.unlink(missing_ok=True)
        ops = Faulty(nth, **FAULTS[kind])
        try:
            files.replace(path, b"new" * 100, ops=ops)
            assert path.read_bytes() == b"new" * 100
        except StorageError:
            assert not list(path.parent.glob("*file*"))
        if not ops.fired:
            break
    assert nth >= 5


def test_without_second_names_a_refused_flush_leaves_the_new_content(home: Path):
    """The old one could not be kept: then the new one must not be thrown away."""

    class Simple(files.Ops):
        def link(self, source: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        def sync_folder(self, folder: Path) -> None:
            raise OSError(errno.EIO, "Input/output error")

    path = home / "file"
    path.write_bytes(b"old")
    with pytest.raises(StorageError):
        files.replace(path, b"new", ops=Simple())
    assert path.read_bytes() == b"new"
    assert [p.name for p in home.iterdir() if "tmp" in p.name] == []


def test_replace_sweeps_what_a_killed_one_left_behind(home: Path):
    names = [f".{name}.tmp" for name in ("file.1234abcd", "file.0000abcd", "file.x.1234abcd", "other.1234abcd")]
    for name in names:
        (home / name).write_bytes(b"half")
        if name != names[1]:
            os.utime(home / name, (1e9, 1e9))
    files.replace(home / "file", b"new")
    left = sorted(p.name for p in home.iterdir())
    assert left == [*names[1:], "file"], "a stale one goes; a new or a foreign one stays"


def test_append_never_continues_a_torn_line(home: Path):
    path = home / "deep/log"
    files.append(path, b"one\n")
    files.append(path, b"two")
    files.append(path, b"three\n")
    assert path.read_bytes() == b"one\ntwo\nthree\n"


# --- real processes -----------------------------------------------------------------------------------------------

APPENDER = """
import sys
from orkas.harness.sessions.session import Session
from orkas.infra.messages import AssistantMessage, Text, ToolCall, tool_result, user_message
session = Session.open("killed")
n = int(sys.argv[1])
while True:
    session.append(user_message(f"u{n} " + "x" * (n * 37 % 3000)))
    print(f"u{n}", flush=True)
    session.append(AssistantMessage([ToolCall(id=f"c{n}", name="t", arguments={})]))
    session.append(tool_result(f"c{n}", f"r{n}"))
    print(f"r{n}", flush=True)
    if n % 7 == 6:
        session.rewrite([user_message("summary"), *session.messages[-30:]])
    n += 1
"""

HOLDER = """
import sys
from orkas.harness.sessions.session import Session
from orkas.infra.messages import user_message
session = Session.open("held")
session.append(user_message("mine"))
print("ready", flush=True)
sys.stdin.read()
"""


def child(script: str, home: Path, *arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": SOURCE, "ORKAS_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


@posix
def test_kill_at_random_moments_loses_nothing_acknowledged(home: Path):
    dice = random.Random(20261130)
    printed: list[str] = []
    for kill in range(int(os.environ.get("ORKAS_KILLS", "40"))):
        with child(APPENDER, home, str(kill * 10_000)) as process:
            assert process.stdout is not None
            told = [process.stdout.readline().strip()]
            time.sleep(dice.random() * 0.02)  # the random moment: any moment is a right one
            process.kill()
            told += process.stdout.read().split("\n")[:-1]
        printed += told
        session = Session.read("killed")
        assert is_paired(session.messages)
        raw = b"".join(p.read_bytes() for p in (home / "sessions").glob("killed.jsonl*"))
        assert not [word for word in told if f'"{word}'.encode() not in raw], f"kill {kill}"
        assert len(session.loaded.damaged) <= 1, "only the newest record can be torn"
    raw = b"".join(p.read_bytes() for p in (home / "sessions").glob("killed.jsonl*"))
    assert not [word for word in printed if f'"{word}'.encode() not in raw]


@posix
def test_a_second_process_is_refused_by_name_until_the_first_is_gone(home: Path):
    with child(HOLDER, home) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(SessionLocked, match=f"pid {process.pid} on ") as caught:
            Session.open("held")
        assert str(process.pid) in caught.value.owner
        owner = json.loads((home / "sessions/held.lock").read_bytes())
        assert set(owner) == {"pid", "host", "start", "command"}
        assert texts(Session.read("held").messages) == ["mine"], "looking is always allowed"
        process.kill()
    assert (home / "sessions/held.lock").exists(), "a killed owner leaves its file, which is no obstacle"
    with Session.open("held") as session:
        session.append(user_message("and mine"))
    assert texts(Session.read("held").messages) == ["mine", "and mine"]
    assert not (home / "sessions/held.lock").exists()
