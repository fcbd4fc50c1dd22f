"""Our own files: read only if they are files, whatever else stands under their names."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from orkas import Session
from orkas.harness import statistics
from orkas.harness.context.calibration import Calibration
from orkas.harness.sessions import checkup, shelf
from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.messages import AssistantMessage, Text, user_message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize(
    "name",
    ["sessions/q.jsonl.inbox", "sessions/q.jsonl.archive", "sessions/q.lock", "calibration.json", "cache/sessions.json",
     f"stats/{time.strftime('%Y-%m', time.gmtime())}.jsonl", "sessions/q.jsonl.damaged", "sessions/other.jsonl"],
)  # fmt: skip
def test_a_pipe_under_the_name_of_a_file_is_waited_for_by_nobody(name: str):
    with Session.open("q") as session:
        session.append(user_message("hi"), AssistantMessage([Text(text="there")], id="a"))
    pipe = Path(os.environ["ORKAS_HOME"]) / name
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    assert Session.read("q").messages[0].id
    assert [info.id for info in shelf.list_sessions()] == ["q"]
    assert len(list(shelf.search("hi"))) == 1
    assert list(checkup.look_over()) == [] or name in ("sessions/other.jsonl", "sessions/q.jsonl.inbox")
    assert statistics.read().lines == []
    Calibration().of("a/b").measured(2.0)
    recorder = statistics.Recorder(session)
    recorder.heard(AssistantMessage([], model="a/b"))
    recorder.close()
    assert bool(recorder.trouble()) == name.startswith("stats/")
    with suppress(StorageError):
        shelf.rewind("q", 1)
    assert len(Session.read("q").messages) == (2 if name in ("sessions/q.jsonl.archive", "sessions/q.lock") else 1)


def test_only_a_regular_file_is_read_and_only_up_to_its_limit(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"12345")
    assert files.read(tmp_path / "a", most=5) == b"12345"
    with pytest.raises(OSError, match="too large"):
        files.read(tmp_path / "a", most=4)
    with pytest.raises(OSError, match="not a regular file"):
        files.read(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "b")
    with pytest.raises(StorageError, match=r"move .* away"):
        files.append(tmp_path, b"x")

