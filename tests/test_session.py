"""Sessions: what is appended is there again, whatever happened to the file in between."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas.harness.pairing import is_paired
from orkas.harness.sessions.session import Session, valid_id
from orkas.harness.sessions.shelf import check, delete, export, fork, repair
from orkas.harness.sessions.store import LINE_CAP, SPILL_CAP
from orkas.infra.errors import (
    SessionLocked,
    SessionMissing,
    SessionUnreadable,
    StorageError,
    UsageError,
)
from orkas.infra.files import Ops
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    calls_of,
    encode,
    tool_result,
    user_message,
)


class NoSync(Ops):
    """For tests that look at bytes only, many times over."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).parents[2] / "shared"))
FOLDER = SHARED / "cases/01-session"
CASES = sorted(p for p in FOLDER.glob("*.expect.json") if not p.name.startswith("s30"))
NAMES = [json.loads(line) for line in (FOLDER / "session_ids.jsonl").read_bytes().splitlines()] if CASES else []
needs_cases = pytest.mark.skipif(not CASES, reason="the collected cases are not here (ORKAS_SHARED)")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def place(home: Path, name: str, data: bytes) -> Path:
    path = home / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def texts(messages: list[Message]) -> list[str]:
    return [b.text for m in messages for b in m.content if isinstance(b, Text) and b.text]


def call(id: str, **arguments: object) -> ToolCall:
    return ToolCall(id=id, name="shell", arguments=dict(arguments))


def asks(*ids: str) -> AssistantMessage:
    return AssistantMessage([call(id) for id in ids], "v/m", "x", "tool_use")


# --- the collected cases ------------------------------------------------------------------------------------------


@needs_cases
def test_the_cases_are_found():
    assert len(CASES) >= 15
    assert len(NAMES) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name.split(".")[0])
def test_case(case: Path, home: Path):
    expect = json.loads(case.read_text(encoding="utf-8"))
    data = (FOLDER / expect["input"]).read_bytes()
    path = place(home, "case", data)
    seen = check(path)
    got = [b["text"] for m in seen["messages"] for b in m["content"] if b["type"] == "text" and not m.get("synthetic")]
    assert [t for t in got if t not in expect["may_texts"]] == expect["must_texts"]
    if expect.get("exact_texts"):
        assert got == expect["must_texts"]
    assert not set(got) & set(expect["never_texts"])
    low = expect.get("damaged_lines_min", 0 if "damaged_lines_max" in expect else expect["damaged_lines"])
    high = expect.get("damaged_lines_max", expect["damaged_lines"])
    assert low <= len(seen["damaged_lines"]) <= high
    assert bool(seen["warnings"]) == expect["warn"]
    assert path.read_bytes() == data, "checking wrote to the file"
    assert_appends(path, expect)
    assert_rewrites(case, home, data, expect)


def assert_appends(path: Path, expect: dict) -> None:
    with Session.open("case") as session:
        assert is_paired(session.messages)
        session.append(user_message("APPENDED"))
    with Session.open("case") as session:
        got = texts([m for m in session.messages if not getattr(m, "synthetic", False)])
        assert [t for t in got if t not in expect["may_texts"]] == [*expect["must_texts"], "APPENDED"]
        assert session.loaded.version > 1 or not session.warnings or session.loaded.damaged
    assert path.read_bytes().endswith(b"\n")


def assert_rewrites(case: Path, home: Path, data: bytes, expect: dict) -> None:
    path = place(home, "again", data)
    with Session.open("again") as session:
        session.rewrite(list(session.messages))
        after = list(session.messages)
    original = path.with_name("again.jsonl.original")
    assert original.exists() == expect["keep_original_before_rewrite"]
    if expect["keep_original_before_rewrite"]:
        assert original.read_bytes() == data
    with Session.open("again") as session:
        assert [encode(m) for m in session.messages] == [encode(m) for m in after]
    for word in expect.get("unknown_must_survive_rewrite", []):
        assert word in path.read_text(encoding="utf-8")


@needs_cases
def test_every_prefix_of_a_good_file_loads_and_takes_appends(home: Path):
    expect = json.loads((FOLDER / "s28_last_byte_missing_each_prefix.expect.json").read_text(encoding="utf-8"))
    data = (FOLDER / expect["input"]).read_bytes()
    records = data.rstrip(b"\n").split(b"\n")
    for n in range(len(data) + 1):
        whole = sum(sum(len(r) + 1 for r in records[: i + 1]) - 1 <= n for i in range(len(records)))
        place(home, "p", data[:n])
        with Session.open("p", ops=NoSync()) as session:
            assert texts(session.messages) == expect["must_texts"][:whole]
            session.append(user_message("more"))
        with Session.open("p") as session:
            assert texts(session.messages) == [*expect["must_texts"][:whole], "more"]
            assert not session.loaded.damaged


HUGE = """
import json, os, resource, sys, time
from orkas.harness.sessions.session import Session
from orkas.infra.messages import user_message
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
with Session.open("huge") as session:
    session.append(user_message("APPENDED"))
    longest = max(len(b.text) for m in session.messages for b in m.content if hasattr(b, "text"))
seconds = time.perf_counter() - start
print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, longest]))
"""


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
@pytest.mark.skipif(sys.platform == "win32", reason="measures memory with resource")
def test_a_line_of_ten_megabytes_loads_in_bounded_time_and_memory(home: Path, torn: bool):
    records: list[Message] = [
        user_message("go"), asks("big"), tool_result("big", "+riga\n" * (10 * 1024 * 1024 // 6)), user_message("read"),
    ]  # fmt: skip
    place(home, "huge", b"\n".join(encode(m) for m in records) + (b'\n{"role":"us' if torn else b"\n"))
    out = subprocess.run([sys.executable, "-c", HUGE], capture_output=True, check=True, env=child_env(home))
    seconds, megabytes, longest = json.loads(out.stdout)
    assert seconds < 3
    assert megabytes < 200
    assert longest <= SPILL_CAP
    assert texts(Session.read("huge").messages)[-1] == "APPENDED"


def child_env(home: Path) -> dict[str, str]:
    source = str(Path(__file__).parents[1] / "src")
    return {**os.environ, "ORKAS_HOME": str(home), "PYTHONPATH": source}


@pytest.mark.parametrize("row", NAMES, ids=lambda r: r["id"])
def test_session_names(row: dict, home: Path):
    name = row["session_id"]
    if row["verdict"] == "accept":
        with Session.open(name) as session:
            session.append(user_message("hi"))
        assert texts(Session.read(name).messages) == ["hi"]
        return
    for attempt in (valid_id, Session.open):
        with pytest.raises(UsageError):
            attempt(name)
    assert not list(home.parent.rglob("*.jsonl"))


@pytest.mark.parametrize("name", ["con", "COM1.x", "a\u0301", "x" * 121, "a b", "a*", "ｃｏｎ", "a\x7f", "nul.jsonl"])
def test_more_names_that_no_session_can_have(name: str):
    with pytest.raises(UsageError, match=r"cannot be the name|Windows keeps for a device"):
        Session.open(name)


def test_a_name_that_differs_only_in_case_is_refused():
    with Session.open("Trip") as session:
        session.append(user_message("hi"))
    for attempt in (Session.open, Session.read):
        with pytest.raises(UsageError, match="already a session 'Trip'"):
            attempt("tRIP")


# --- appending ----------------------------------------------------------------------------------------------------


def test_what_is_appended_is_there_again_exactly():
    history: list[Message] = [
        user_message("ciao \u2028\u2029\x0b\x00 \U0001f600"),
        AssistantMessage(
            [Thinking(text="hm", signature="sig", vendor={"a": [1, None]}), Text(text="x"), call("c", k="\n")],
            "v/m", "x", "tool_use", id="m2", ts=12.5, vendor={"raw": {"é": 1}},
        ),
        ToolMessage("c", [Text(text="r", file="shell-1.txt", bytes=9)], is_error=True),
        UserMessage([Image(media_type="image/png", data="AA==")], origin="tool_image", tool_call_id="c"),
    ]  # fmt: skip
    with Session.open("s") as session:
        assert session.append(*history) == history
        assert all(x is y for x, y in zip(session.messages, history, strict=True))
    assert Session.read("s").messages == history
    assert session.records() == Session.read("s").records()


def test_the_file_is_what_the_format_says(home: Path):
    with Session.open("s") as session:
        session.append(user_message("hi"))
    head, record, end = (home / "sessions/s.jsonl").read_bytes().split(b"\n")
    header = json.loads(head)
    assert list(header) == ["type", "version", "id", "created"]
    assert (header["type"], header["version"], header["id"]) == ("session", 1, "s")
    assert json.loads(record)["content"] == [{"type": "text", "text": "hi"}]
    assert end == b""
    if os.name != "nt":
        assert (home / "sessions/s.jsonl").stat().st_mode & 0o777 == 0o600
        assert (home / "sessions").stat().st_mode & 0o777 == 0o700


def test_opening_alone_leaves_nothing_behind(home: Path):
    Session.open("s").close()
    with Session.open("t") as session:
        assert session.append() == []
    assert list((home / "sessions").iterdir()) == []


def test_a_kilobyte_costs_little_more_than_a_kilobyte(home: Path):
    with Session.open("s") as session:
        for i in range(50):
            session.append(user_message("x" * 1000))
            answer = [Text(text="y" * 1000)]
            session.append(AssistantMessage(answer, "anthropic/model", "anthropic", "stop", id=f"m{i}"))
    assert (home / "sessions/s.jsonl").stat().st_size <= 1.3 * 100 * 1000


def test_a_result_must_answer_an_open_call():
    session = Session()
    session.append(user_message("go"), asks("a", "b"))
    for wrong in ("c", ""):
        with pytest.raises(ValueError, match="no open call"):
            session.append(tool_result(wrong, "?"))
    session.append(tool_result("a", "1"))
    with pytest.raises(ValueError, match="no open call"):
        session.append(tool_result("a", "twice"))
    with pytest.raises(ValueError, match="no open call"):
        session.append(tool_result("b", "2"), user_message("next"), tool_result("b", "late"))
    kinds = [type(m) for m in session.messages]
    assert kinds == [UserMessage, AssistantMessage, ToolMessage], "half an append was kept"


def test_a_refused_append_takes_no_ids():
    session = Session()
    with pytest.raises(ValueError, match="no open call"):
        session.append(asks("a"), tool_result("zz", "?"))
    session.append(asks("a"), tool_result("a", "1"))
    assert session.messages[1].tool_call_id == "a"


CLOSERS = {"user": user_message("stop"), "assistant": AssistantMessage([Text(text="well")])}


@pytest.mark.parametrize("closer", CLOSERS.values(), ids=CLOSERS)
def test_speaking_closes_open_calls(closer: Message):
    with Session.open("s") as session:
        session.append(asks("a", "b"), tool_result("b", "2"))
        session.append(closer)
        assert is_paired(session.messages)
        assert [m.synthetic for m in session.messages if isinstance(m, ToolMessage)] == [True, False]
    assert Session.read("s").messages == session.messages


def test_results_may_be_saved_as_they_come_and_stand_in_declared_order():
    with Session.open("s") as session:
        session.append(asks("a", "b", "c"))
        image = UserMessage([Image(media_type="image/png", data="AA==")], origin="tool_image", tool_call_id="c")
        session.append(tool_result("c", "3"), image)
        session.append(tool_result("a", "1"))
        session.append(tool_result("b", "2"))
        assert is_paired(session.messages)
        assert texts(session.messages) == ["1", "2", "3"]
    assert Session.read("s").messages == session.messages


def test_repeated_and_empty_call_ids_get_their_own_and_results_may_name_either():
    with Session.open("s") as session:
        session.append(asks("fn:0"), tool_result("fn:0", "one"))
        session.append(asks("fn:0", "", ""), tool_result("fn:0", "two"), tool_result("", "three"))
        session.append(tool_result(session.messages[2].content[2].id, "four"))
        assert is_paired(session.messages)
        assert texts(session.messages) == ["one", "two", "three", "four"]
    again = Session.read("s")
    assert again.messages == session.messages
    assert again.loaded.renamed == 0, "the ids were not made stable at the time of receipt"


def test_an_id_used_in_every_round_is_told_apart_in_every_round():
    session = Session()
    for n in range(1, 1_000):
        session.append(asks("tool:0"))
        session.append(tool_result("tool:0", "r"))
        assert calls_of(session.messages[-2])[0].id == ("tool:0" if n == 1 else f"tool:0_{n}")


def test_a_refused_append_gives_its_numbers_back():
    session = Session()
    session.append(asks("a"), asks("a"))
    with pytest.raises(ValueError, match="no open call"):
        session.append(asks("a"), tool_result("zz", "?"))
    session.append(asks("a"))
    assert [c.id for m in session.messages for c in calls_of(m)] == ["a", "a_2", "a_3"]


def test_the_same_message_twice_is_two_messages():
    message = user_message("again")
    with Session.open("s") as session:
        session.append(message)
        session.append(message)
    assert texts(Session.read("s").messages) == ["again", "again"]


def test_lone_surrogates_never_block_a_save():
    with Session.open("s") as session:
        session.append(user_message("half \ud83d emoji \ud83d\ude00"))
    assert texts(Session.read("s").messages) == ["half \ufffd emoji \U0001f600"]


HALVES = st.text(st.sampled_from("a\ud83d\ude00\U0001f600é"), max_size=6)


@given(said=HALVES, name=HALVES, id=HALVES, value=HALVES, kept=st.booleans())
def test_memory_and_file_tell_the_same_of_halves_of_characters(
    said: str, name: str, id: str, value: str, kept: bool, tmp_path_factory: pytest.TempPathFactory
):
    os.environ["ORKAS_HOME"] = str(tmp_path_factory.mktemp("halves"))
    asked = ToolCall(id=id, name=name, arguments={value: [value]}, vendor={"x": value})
    with Session.open("s", ops=NoSync()) if kept else Session() as session:
        given = session.append(
            UserMessage([Text(text=said)], id=id),
            AssistantMessage([Thinking(text=said), asked], value, stop_reason="tool_use"),
            tool_result(id, value),
        )
        session.append(user_message(said * 3))
        stored = session.records()
    assert [m in session.messages for m in given] == [True] * 3
    assert json.loads(json.dumps(stored, ensure_ascii=False).encode()) == stored
    if kept:
        assert Session.read("s").records() == stored


def test_a_well_formed_message_is_stored_as_the_very_object():
    message = user_message("plain \U0001f600")
    assert Session().append(message)[0] is message


def test_pictures_find_their_place_even_when_the_user_spoke_first():
    def picture(id: str) -> UserMessage:
        return UserMessage([Image(media_type="image/png", data="AA==")], origin="tool_image", tool_call_id=id)

    with Session.open("s") as session:
        session.append(asks("a", "b"), picture("b"), tool_result("b", "2"), tool_result("a", "1"))
        session.append(user_message("meanwhile"), picture("a"), picture("unknown"))
        assert is_paired(session.messages)
        assert [getattr(m, "tool_call_id", None) for m in session.messages] == [
            None, "a", "b", "a", "b", None, "unknown",
        ]  # fmt: skip
    assert Session.read("s").messages == session.messages


# --- loading ------------------------------------------------------------------------------------------------------


def test_a_correct_file_is_not_touched_by_loading(home: Path):
    with Session.open("s") as session:
        session.append(user_message("go"), asks("a"), tool_result("a", "1"))
    path = home / "sessions/s.jsonl"
    before = path.read_bytes(), path.stat().st_mtime_ns
    with Session.open("s") as session:
        assert session.loaded.synthesized == 0
        assert session.warnings == []
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_calls_left_open_by_a_crash_are_closed_in_the_file_with_the_next_message(home: Path):
    records: list[Message] = [user_message("go"), asks("a", "b"), tool_result("b", "2")]
    path = place(home, "s", b"".join(encode(m) + b"\n" for m in records))
    before = path.read_bytes()
    with Session.open("s") as session:
        assert session.unsaved == 0
        assert path.read_bytes() == before, "loading alone must not write"
        session.append(user_message("go on"))
    added = path.read_bytes().removeprefix(before).decode().splitlines()
    assert [json.loads(line)["role"] for line in added] == ["tool", "user"]
    again = Session.read("s")
    assert again.loaded.synthesized == 0
    assert again.messages == session.messages


def test_a_torn_tail_is_set_aside_with_its_line_number(home: Path):
    path = place(home, "s", encode(user_message("one")) + b'\n{"role":"user","con\xe9\xa5')
    with Session.open("s") as session:
        assert "line 2" in session.warnings[0]
        assert session.loaded.damaged == [2]
        session.append(user_message("two"))
    note = json.loads(path.with_name("s.jsonl.damaged").read_bytes())
    assert note["line"] == 2
    assert base64.b64decode(note["base64"]) == b'{"role":"user","con\xe9\xa5'
    assert texts(Session.read("s").messages) == ["one", "two"]


def test_a_missing_last_newline_is_written_before_the_next_record(home: Path):
    path = place(home, "s", encode(user_message("one")))
    with Session.open("s") as session:
        session.append(user_message("two"))
    lines = path.read_bytes().split(b"\n")
    assert [json.loads(line)["content"][0]["text"] for line in lines[:-1]] == ["one", "two"]
    assert lines[-1] == b""


def test_a_file_that_is_one_torn_header_becomes_a_session_again(home: Path):
    path = place(home, "s", b'{"type":"session","version":1,"id":')
    with Session.open("s") as session:
        session.append(user_message("one"))
    assert json.loads(path.read_bytes().split(b"\n")[0])["id"] == "s"
    assert texts(Session.read("s").messages) == ["one"]


def test_what_went_wrong_with_a_line_stays_with_the_line(home: Path):
    good = [encode(user_message(str(n))) for n in range(6)]
    lines = [
        good[0], b"\0" * 600, good[1][:20] + good[2], b"\0\0" + good[3], b"[" * 100_000,
        b'{"role":"user","content":' + b"[" * 9_999, b"\xff\xfe", b"null", b'{"role":"clown","content":[]}',
        b'{"type":7}', good[4][:-1], good[5],
    ]  # fmt: skip
    place(home, "s", b"\n".join(lines) + b"\n")
    session = Session.read("s")
    assert texts(session.messages) == ["0", "2", "3", "5"]
    assert session.loaded.damaged == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_torn_record_behind_a_whole_one_on_the_last_line(home: Path):
    whole = encode(user_message("whole"))
    torn = encode(user_message("torn \u9999"))
    for n in range(1, len(torn)):
        path = place(home, "s", encode(user_message("first")) + b"\n" + whole + torn[:n])
        with Session.open("s", ops=NoSync()) as session:
            assert texts(session.messages) == ["first", "whole"]
            assert session.loaded.damaged == [2]
            session.append(user_message("next"))
        again = Session.read("s")
        assert texts(again.messages) == ["first", "whole", "next"]
        assert again.loaded.damaged == []
        note = json.loads(path.with_name("s.jsonl.damaged").read_bytes().splitlines()[-1])
        assert base64.b64decode(note["base64"]) == torn[:n] if "base64" in note else note["text"].encode() == torn[:n]


def test_whole_records_before_and_after_a_fragment_on_one_line(home: Path):
    one, two, three = (encode(user_message(word)) for word in ("one", "two", "three"))
    place(home, "s", one + two[:30] + three + b"\n" + one[:-1] + b"\xff}" + three + b"junk\n")
    session = Session.read("s")
    assert texts(session.messages) == ["one", "three"]
    assert session.loaded.damaged == [1, 2]


def test_a_record_broken_at_many_line_breaks_is_recovered(home: Path):
    record = encode(user_message("a\nb\n{\"x\":1}\n\nc")).replace(rb"\n", b"\n")
    before, after = (encode(user_message(word)) for word in ("before", "after"))
    place(home, "s", b"\n".join([before, record, after, b""]))
    session = Session.read("s")
    assert texts(session.messages) == ["before", 'a\nb\n{"x":1}\n\nc', "after"]
    assert session.loaded.damaged == [2, 3, 4, 5, 6]


@pytest.mark.timeout(60)  # a second; joining each bad line with all that follow would take hours
def test_a_long_stretch_of_bad_lines_is_read_past(home: Path):
    bad = b'{"role":"user","content":[{"type":"text","text":"x\n'
    place(home, "s", bad * 100_000 + encode(user_message("end")) + b"\n")
    assert texts(Session.read("s").messages) == ["end"]


def test_calls_without_an_id_are_read(home: Path):
    place(home, "s", (
        b'{"role":"assistant","content":[{"type":"tool_call","id":null,"name":"t","arguments":{}}],"usage":null}\n'
        b'{"role":"tool","content":"note.txt","is_error":null}\n'
        b'{"role":"assistant","content":null}\n'
    ))  # fmt: skip
    session = Session.read("s")
    assert is_paired(session.messages)
    assert texts(session.messages) == ["note.txt"]
    assert session.loaded.damaged == []


# --- one bad value never costs the rest ---------------------------------------------------------------------------

HEADER = b'{"type":"session","version":1,"id":"s"}\n'
WORDS = [{"type": "text", "text": "WORDS"}]
CALLS = {"role": "assistant", "content": [{"type": "tool_call", "id": "a", "name": "shell", "arguments": {}}]}


def lines_of(*records: object) -> bytes:
    return HEADER + b"".join(json.dumps(r).encode() + b"\n" for r in records)


def read_back(home: Path, *records: object) -> Session:
    place(home, "s", lines_of(*records))
    session = Session.read("s")
    assert session.loaded.damaged == []
    assert session.warnings == []
    return session


@pytest.mark.parametrize(
    ("record", "name", "value"),
    [
        ({"role": "user", "id": 1.5}, "id", "1.5"),
        ({"role": "user", "id": 7}, "id", "7"),
        ({"role": "user", "id": [7]}, "id", ""),
        ({"role": "user", "ts": True}, "ts", ""),
        ({"role": "user", "ts": 12}, "ts", 12.0),
        ({"role": "user", "vendor": "x"}, "vendor", None),
        ({"role": "assistant", "usage": "?"}, "usage", None),
        ({"role": "assistant", "usage": {"input": 1.5, "output": True, "cost_usd": 1}}, "usage", Usage(1, cost_usd=1.0)),
        ({"role": "assistant", "stop_reason": 5}, "stop_reason", ""),
        ({"role": "assistant", "model": {}}, "model", ""),
    ],
    ids=str,
)
def test_a_field_of_another_type_is_read_as_left_out(record: dict, name: str, value: object, home: Path):
    (message,) = read_back(home, {**record, "content": WORDS}).messages
    assert texts([message]) == ["WORDS"]
    assert getattr(message, name) == value


@pytest.mark.parametrize(("given", "meant"), [(1, True), (0, False), ("yes", True), ([], False), (None, False)])
def test_marks_of_a_result_go_by_truth(given: object, meant: bool, home: Path):
    result = {"role": "tool", "tool_call_id": "a", "content": WORDS, "is_error": given, "synthetic": given}
    message = read_back(home, CALLS, result).messages[1]
    assert texts([message]) == ["WORDS"]
    assert (message.is_error, message.synthetic) == (meant, meant)


@pytest.mark.parametrize(
    ("given", "arguments", "raw"),
    [
        ('{"x":[1]}', {"x": [1]}, '{"x":[1]}'),
        ('{"x":', None, '{"x":'),
        ("[1]", None, "[1]"),
        ([1], None, "[1]"),
        (None, None, None),
    ],
)
def test_arguments_written_otherwise_are_kept(given: object, arguments: object, raw: object, home: Path):
    odd = {"type": "tool_call", "id": 5, "name": None, "arguments": given}
    said = {"role": "assistant", "content": [*WORDS, odd]}
    first, second = read_back(home, said, {"role": "tool", "tool_call_id": 5, "content": "done"}).messages
    assert texts([first, second]) == ["WORDS", "done"]
    assert calls_of(first) == [ToolCall(id="5", name="", arguments=arguments, arguments_raw=raw)]


def test_a_bad_block_leaves_the_others_and_itself(home: Path):
    bad = [{"type": "text", "text": None}, {"type": ["text"], "text": "x"}, {"type": "image", "media_type": 1}, 7]
    session = read_back(home, {"role": "user", "content": [bad[0], "as a string", *bad[1:], *WORDS]})
    assert texts(session.messages) == ["as a string", "WORDS"]
    kept = [b.vendor for b in session.messages[0].content if isinstance(b, Opaque)]
    assert kept == [{"value": block} for block in bad]


def nested(depth: int, kind: str) -> str:
    return "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("depth", [150, 400, 900, 5_000, 20_000])
@pytest.mark.parametrize("where", ["header", "other", "vendor", "arguments", "bad field", "bad role"])
def test_no_depth_of_nesting_stops_a_file_from_opening(where: str, depth: int, kind: str, home: Path):
    deep = nested(depth, kind)
    line = {
        "header": "",
        "other": '{"type":"note","x":%s}',
        "vendor": '{"role":"assistant","content":[{"type":"text","text":"deep"}],"vendor":{"x":%s}}',
        "arguments": '{"role":"assistant","content":[{"type":"text","text":"deep"},'
        '{"type":"tool_call","id":"a","name":"t","arguments":{"x":%s}}]}',
        "bad field": '{"role":"user","ts":%s,"content":[{"type":"text","text":"deep"}]}',
        "bad role": '{"role":%s,"content":[]}',
    }[where]
    head = '{"type":"session","version":1,"id":"s","x":%s}' % (deep if where == "header" else "1")
    said = '{"role":"user","content":[{"type":"text","text":"WORDS"}]}'
    rest = [line.replace("%s", deep)] if line else []
    path = place(home, "s", "\n".join([head, said, *rest, said, ""]).encode())
    session = Session.read("s")
    said_so = [t for t in texts(session.messages) if t in ("WORDS", "deep")]
    assert said_so == (["WORDS", "deep", "WORDS"] if "deep" in line else ["WORDS", "WORDS"])
    assert session.loaded.damaged == ([3] if where == "bad role" else [])
    with Session.open("s") as opened:
        opened.rewrite([user_message("first"), *opened.messages[1:]])
        opened.append(user_message("last"))
    for form in ("md", "html", "jsonl"):
        assert "WORDS" in export("s", form)
    again = path.read_text().split("\n")
    assert [x for x in rest if where != "bad role" and x not in again] == []
    assert again[0] == head


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**400, "text", "user", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FULL: list[dict] = [
    {
        "role": "user", "id": "record-1", "ts": "2026-11-30T10:00:01.120Z", "origin": "x", "tool_call_id": "q", "vendor": {},
        "content": [
            {"type": "text", "text": "one", "file": "f", "bytes": 5, "vendor": {"a": 1}},
            {"type": "image", "media_type": "image/png", "data": "AA==", "file": "f", "vendor": {}},
        ],
    },
    {
        "role": "assistant", "id": "record-2", "ts": 5, "model": "v/m", "api": "x", "stop_reason": "stop", "vendor": {},
        "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "reasoning": 5, "cost_usd": 0.5},
        "content": [
            {"type": "thinking", "text": "hm", "signature": "s", "redacted": "r", "encrypted": "e", "vendor": {}},
            {"type": "text", "text": "two"},
            {"type": "tool_call", "id": "c", "name": "t", "arguments": {}, "arguments_raw": "{}", "signature": "s"},
            {"type": "opaque", "kind": "k", "vendor": {"x": 1}},
        ],
    },
    {
        "role": "tool", "id": "record-3", "ts": "", "tool_call_id": "c", "is_error": True, "synthetic": False, "vendor": {},
        "content": [{"type": "text", "text": "three"}],
    },
]  # fmt: skip


def spots(value: object, path: tuple = ()) -> list[tuple]:
    """Where every field of plain data lies."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [spot for key, inner in items for spot in [(*path, key), *spots(inner, (*path, key))]]


SPOTS = [spot for spot in spots(FULL) if len(spot) > 1]


@settings(max_examples=250)
@given(spot=st.sampled_from(SPOTS), value=JSON)
def test_any_value_in_any_field_keeps_the_words_of_all_others(spot: tuple, value: object, tmp_path_factory):
    records = json.loads(json.dumps(FULL))
    inside = records
    for key in spot[:-1]:
        inside = inside[key]
    inside[spot[-1]] = value
    path = tmp_path_factory.mktemp("any") / "s.jsonl"
    path.write_bytes(lines_of({"role": "user", "content": "before"}, *records, {"role": "user", "content": "behind"}))
    session = Session.read(path)
    kept = set(texts(session.messages))
    for n, record in enumerate(FULL):
        broken = spot[0] == n and (spot[1:] in [("role",), ("content",)])
        for m, block in enumerate(record["content"]):
            hit = spot[:3] == (n, "content", m) and (len(spot) == 3 or spot[3] in ("type", "text"))
            lost = broken or hit
            orphan = n == 2 and "c" not in [c.id for m in session.messages for c in calls_of(m)]
            orphan = orphan or spot == (2, "tool_call_id")
            assert lost or orphan or block["type"] != "text" or block["text"] in kept
    assert {"before", "behind"} <= kept
    assert session.loaded.damaged in ([], [spot[0] + 3] if spot[1:] == ("role",) else [])
    assert is_paired(session.messages)
    for form in ("md", "html", "jsonl"):
        export(path, form)


KEYS = st.sampled_from(["role", "type", "content", "id", "version", "tool_call_id", "text", "usage"])
ODD = st.dictionaries(KEYS, JSON | st.sampled_from(["session", "tool", "assistant"]), max_size=5)


@given(lines=st.lists(ODD | JSON, max_size=4), cut=st.integers(0, 40), noise=st.binary(max_size=3))
def test_no_line_of_json_stops_a_file_from_opening(
    lines: list, cut: int, noise: bytes, tmp_path_factory: pytest.TempPathFactory
):
    data = lines_of({"role": "user", "content": WORDS}, *lines)
    path = tmp_path_factory.mktemp("odd") / "s.jsonl"
    path.write_bytes(data[: max(len(data) - cut, len(lines_of({"role": "user", "content": WORDS})))] + noise)
    session = Session.read(path)
    assert "WORDS" in texts(session.messages)
    assert is_paired(session.messages)
    repair(path)
    again = Session.read(path)
    assert again.records() == session.records()
    assert (again.loaded.damaged, again.loaded.renamed, again.loaded.dropped) == ([], 0, 0)


def test_unknown_records_and_fields_survive_a_rewrite(home: Path):
    lines = [
        b'{"type":"session","version":1,"id":"s","created":"x","colour":"blue"}',
        b'{"type":"note","text":"first"}',
        b'{"role":"user","content":[{"type":"text","text":"one"}],"mood":"calm"}',
        b'{"type":"note","text":"second"}',
        b'{"role":"user","content":[{"type":"hologram","x":[1]},{"type":"text","text":"two"}]}',
        b'{"type":"note","text":"third"}',
    ]
    path = place(home, "s", b"\n".join(lines) + b"\n")
    with Session.open("s") as session:
        session.rewrite([user_message("summary"), *session.messages[1:]])
        session.append(user_message("three"))
    after = path.read_bytes().split(b"\n")
    assert after[0] == lines[0]
    assert [line for line in after if line in lines] == [lines[i] for i in (0, 1, 3, 4, 5)]
    assert lines[2] in path.with_name("s.jsonl.archive").read_bytes().split(b"\n")
    assert texts(Session.read("s").messages) == ["summary", "two", "three"]


def test_a_newer_file_is_added_to_and_never_rewritten(home: Path):
    first = b'{"type":"session","version":2,"id":"s","created":"x"}\n' + encode(user_message("one")) + b"\n"
    path = place(home, "s", first)
    with Session.open("s") as session:
        assert len(session.warnings) == 1
        session.append(user_message("two"))
        session.rewrite([user_message("summary")])
        session.append(user_message("three"))
        assert texts(session.messages) == ["summary", "three"]
        assert "newer release" in session.warnings[-1]
    assert path.read_bytes().startswith(first)
    assert texts(Session.read("s").messages) == ["one", "two", "three"]


def test_missing_unreadable_and_empty_are_three_different_things(home: Path):
    for attempt in (lambda: Session.open("gone", create=False), lambda: Session.read("gone")):
        with pytest.raises(SessionMissing, match="no session 'gone'"):
            attempt()
    (home / "sessions/folder.jsonl").mkdir(parents=True)
    for attempt in (lambda: Session.open("folder"), lambda: Session.read("folder")):
        with pytest.raises(SessionUnreadable, match="not a file"):
            attempt()
    assert (home / "sessions/folder.jsonl").is_dir()
    place(home, "empty", b"")
    with Session.open("empty", create=False) as session:
        assert session.messages == []
    with Session.open("folder2"):
        pass


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_the_file_does_not_hang(home: Path):
    place(home, "x", b"")
    os.mkfifo(home / "sessions/pipe.jsonl")
    with pytest.raises(SessionUnreadable):
        Session.open("pipe")


def test_reading_goes_by_name_first_and_by_path_else(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("s", "plain", "my notes.txt"):
        (tmp_path / name).write_bytes(encode(user_message(f"the file {name}")) + b"\n")
    place(home, "s", encode(user_message("the session")) + b"\n")
    assert texts(Session.read("s").messages) == ["the session"]
    assert texts(Session.read("plain").messages) == ["the file plain"]
    assert texts(Session.read("my notes.txt").messages) == ["the file my notes.txt"]
    with pytest.raises(SessionMissing):
        delete("plain")
    assert (tmp_path / "plain").exists()


def test_reading_writes_nothing_and_takes_no_lock(home: Path):
    path = place(home, "s", encode(user_message("one")) + b"\n{")
    with Session.open("s"):
        looking = Session.read(path)
        with pytest.raises(UsageError, match="reading only"):
            looking.append(user_message("two"))
        looking.close()
    assert path.read_bytes().endswith(b"{")
    assert [p.name for p in path.parent.iterdir()] == ["s.jsonl"]


# --- one writer ---------------------------------------------------------------------------------------------------


def test_a_session_opens_once_at_a_time_in_one_process_too():
    with Session.open("s"):
        with pytest.raises(SessionLocked, match=f"pid {os.getpid()}"):
            Session.open("s")
        with Session.open("t"):
            pass
    Session.open("s").close()


def test_a_forgotten_session_lets_go():
    session = Session.open("s")
    session.append(user_message("hi"))
    del session
    with Session.open("s") as again:
        assert texts(again.messages) == ["hi"]


def test_a_closed_session_takes_nothing_more():
    session = Session.open("s")
    session.close()
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.append(user_message("hi"))


# --- asynchronous -------------------------------------------------------------------------------------------------


async def test_commit_is_durable_when_it_returns(home: Path):
    with Session.open("s") as session:
        await session.commit(user_message("go"), asks("a"))
        assert len(Session.read("s").messages) == 3  # the open call reads as interrupted
        await session.commit(tool_result("a", "1"))
        assert texts(Session.read("s").messages) == ["go", "1"]


async def test_a_cancelled_commit_leaves_memory_and_file_the_same():
    with Session.open("s") as session:
        for n in range(30):
            task = asyncio.create_task(session.commit(user_message(str(n))))
            for _ in range(n % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if n % 5 == 0:
                session.append(user_message(f"after {n}"))
        said = texts(session.messages)
    assert texts(Session.read("s").messages) == said
    assert len(said) > 6


async def test_commits_do_not_wait_for_threads_that_tools_hold():
    import threading

    release = threading.Event()
    held = [asyncio.create_task(asyncio.to_thread(release.wait, 30)) for _ in range(64)]
    try:
        with Session.open("s") as session:
            await asyncio.wait_for(session.commit(user_message("hi")), 10)
    finally:
        release.set()
        await asyncio.gather(*held)


# --- rewriting ----------------------------------------------------------------------------------------------------


async def test_a_rewrite_replaces_history_and_keeps_what_it_left_out(home: Path):
    with Session.open("s") as session:
        session.append(*(user_message(str(n)) for n in range(10)))
        live = session.messages
        session.rewrite([user_message("summary"), *session.messages[8:]])
        assert session.messages is live
        await session.commit(user_message("10"))
    assert texts(Session.read("s").messages) == ["summary", "8", "9", "10"]
    archive = (home / "sessions/s.jsonl.archive").read_bytes().splitlines()
    assert json.loads(archive[0])["records"] == 8
    assert [json.loads(line)["content"][0]["text"] for line in archive[1:]] == [str(n) for n in range(8)]


def test_an_unpaired_history_cannot_replace_another():
    with Session.open("s") as session:
        session.append(user_message("one"))
        with pytest.raises(ValueError, match="paired"):
            session.rewrite([asks("a")])
        assert texts(session.messages) == ["one"]


def test_a_rewrite_in_memory_needs_no_file():
    session = Session()
    session.append(user_message("one"))
    session.rewrite([user_message("two")])
    session.append(asks("a"), tool_result("a", "1"))
    assert texts(session.messages) == ["two", "1"]
    assert session.path is None
    assert session.files is None


# --- large things -------------------------------------------------------------------------------------------------


def test_a_long_result_is_kept_whole_in_a_file_and_previewed(home: Path):
    whole = "first line\n" + "é" * 200_000 + "\nlast line"
    with Session.open("s") as session:
        session.append(asks("a"), tool_result("a", whole))
        block = session.messages[1].content[0]
        assert block.text.startswith("first line\n")
        assert block.text.endswith("\nlast line")
        assert block.bytes == len(whole.encode())
        assert block.file in block.text
        assert session.media(block.file).decode() == whole
        assert session.spill(whole, name="shell").file == block.file, "the same content has the same name"
    again = Session.read("s")
    assert again.messages == session.messages
    assert again.media(block.file).decode() == whole
    assert max(map(len, (home / "sessions/s.jsonl").read_bytes().split(b"\n"))) < 60_000
    if os.name != "nt":
        assert (home / "sessions/s.files" / block.file).stat().st_mode & 0o777 == 0o600


def test_many_middling_blocks_are_one_long_result():
    image = Image(media_type="image/png", data="AA==")
    with Session.open("s") as session:
        session.append(asks("a"), ToolMessage("a", [*(Text(text=str(n) * 900) for n in range(1000)), image]))
        block, picture = session.messages[1].content
        assert picture is image
        assert session.media(block.file).decode() == "\n".join(str(n) * 900 for n in range(1000))


def test_a_spill_that_cannot_be_saved_says_so():
    class Full(NoSync):
        def open(self, path: Path, flags: int) -> int:
            raise OSError(28, "No space left on device")

    with Session.open("s", ops=Full()) as session:
        assert session.spill("short", name="x") == Text(text="short")
        block = session.spill("x" * 100_000, name="x")
        assert block.file is None
        assert "could not be saved" in block.text
        assert "No space left" in block.text


def test_in_memory_a_long_result_is_clipped_and_says_so():
    session = Session()
    session.append(asks("a"), tool_result("a", "x" * 200_000))
    block = session.messages[1].content[0]
    assert len(block.text) < 13_000
    assert "188,000 of 200,000 characters left out" in block.text
    assert block.file is None


def test_no_line_exceeds_the_cap_whatever_is_appended(home: Path):
    with Session.open("s") as session:
        session.append(user_message("u" * 6_000_000))
        with pytest.raises(StorageError, match=r"6\.0 MB"):
            session.append(AssistantMessage([call("a", content="x" * 6_000_000)]))
        session.append(user_message("next"))
        assert len(session.messages) == 2
        assert len(session.media(session.messages[0].content[0].file)) == 6_000_000
    lines = (home / "sessions/s.jsonl").read_bytes().split(b"\n")
    assert max(map(len, lines)) <= LINE_CAP


def test_large_pictures_move_out_of_the_line(home: Path):
    data = os.urandom(100_000)
    inline = Image(media_type="image/png", data=base64.b64encode(data).decode())
    small = Image(media_type="image/png", data="AA==")
    with Session.open("s") as session:
        session.append(UserMessage([inline, small, Text(text="what is this?")]))
        stored = session.messages[0].content[0]
        assert stored.data is None
        assert session.media(stored.file) == data
        assert session.messages[0].content[1] is small
        assert session.store_image(inline) == stored
    assert Session.read("s").media(stored.file) == data
    assert (home / "sessions/s.jsonl").stat().st_size < 1_000


@pytest.mark.parametrize("file", ["../s.jsonl", "/etc/passwd", "..", "", "a/b", "C:x", "nothing.png", "link.txt", "\0"])
def test_media_stays_inside_its_folder(file: str, home: Path):
    with Session.open("s") as session:
        session.append(user_message("hi"))
        (home / "sessions/s.files").mkdir()
        if os.name != "nt":
            (home / "sessions/s.files/link.txt").symlink_to(home / "sessions/s.jsonl")
        with pytest.raises(StorageError, match="no file"):
            session.media(file)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
@pytest.mark.parametrize("file", ["/etc/hosts", "../s.jsonl", "a\0b", "x" * 5000, "\ud83d", "loop", "pipe", "folder", ".", ""])
def test_a_file_that_is_not_among_the_files_harms_nothing(file: str):
    with Session.open("s") as session:
        blocks = [Text(text="WORDS", file=file, bytes=3), Image(media_type="image/png", file=file)]
        session.append(asks("a"), ToolMessage("a", blocks), user_message("go on"))
        session.files.mkdir()
        (session.files / "loop").symlink_to("loop")
        os.mkfifo(session.files / "pipe")
        (session.files / "folder").mkdir()
        with pytest.raises(StorageError, match="no file"):
            session.media(file)
        kept = session.records()
    assert Session.read("s").records() == kept
    for form in ("md", "html", "jsonl"):
        assert "WORDS" in export("s", form)
    assert texts(Session.read(fork("s")).messages) == ["WORDS", "go on"]


# --- random sessions ----------------------------------------------------------------------------------------------



def open_calls(messages: list[Message]) -> list[str]:
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return [c.id for m in messages for c in calls_of(m) if c.id not in answered]


STEPS = st.lists(
    st.one_of(
        st.text(max_size=8).map(lambda text: ("user", text)),
        st.lists(st.sampled_from(["", "a", "b"]), max_size=3).map(lambda ids: ("ask", ids)),
        st.integers(0, 3).map(lambda n: ("answer", n)),
        st.just(("reopen", 0)),
        st.binary(max_size=12).map(lambda data: ("damage", data)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_any_sequence_of_turns_and_crashes_keeps_the_words(steps: list, tmp_path_factory: pytest.TempPathFactory):
    home = tmp_path_factory.mktemp("random")
    os.environ["ORKAS_HOME"] = str(home)  # the autouse fixture puts the old value back
    session = Session.open("s", ops=NoSync())
    said: list[str] = []
    for what, value in steps:
        match what:
            case "user":
                session.append(user_message(value))
                said += [value.encode("utf-8", "replace").decode()] if value else []
            case "ask":
                session.append(asks(*value))
            case "answer":
                if waiting := open_calls(session.messages):
                    session.append(tool_result(waiting[value % len(waiting)], "r"))
            case _:
                session.close()
                if what == "damage" and session.path.exists() and b"}" not in value and b"\n" not in value:
                    with session.path.open("ab") as file:
                        file.write(value)
                session = Session.open("s", ops=NoSync())
                assert is_paired(session.messages)
        users = [m for m in session.messages if isinstance(m, UserMessage)]
        assert texts(users) == said
    session.close()
    again = Session.read("s").messages if session.path.exists() else []
    assert texts([m for m in again if isinstance(m, UserMessage)]) == said
    assert is_paired(again)
