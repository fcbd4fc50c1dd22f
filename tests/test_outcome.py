"""After a crash the history says of each call exactly what is true: done, outcome unknown, or never started."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orkas import Agent, Session
from orkas.harness.outcome import HARMLESS, INTERRUPTED, NOT_STARTED, UNKNOWN, mark, without_marks
from orkas.harness.pairing import is_paired, repair
from orkas.harness.sessions import recovery, shelf
from orkas.harness.sessions.healing import salvage
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
    text_of,
    tool_result,
    user_message,
)
from orkas.testing import ScriptedProvider


def says(*ids: str, starts: str | None) -> AssistantMessage:
    return AssistantMessage([ToolCall(id=i, name="t", arguments={}) for i in ids], starts=starts)


def result(id: str, starts: str | None = None, text: str = "r") -> ToolMessage:
    return replace(tool_result(id, text), starts=starts)


def told(history: list[Message]) -> list[str]:
    return [text_of(m) for m in history if isinstance(m, ToolMessage)]


def stored(*messages: Message, torn: bytes = b"") -> Path:
    """The session ``s`` as a file with these records, and what was left of one more."""
    path = Path(os.environ["ORKAS_HOME"]) / "sessions/s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encode(m) + b"\n" for m in messages) + torn)
    return path


# --- what the marks prove -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([says("a", "b", "c", starts="a")], [UNKNOWN, NOT_STARTED, NOT_STARTED]),
        ([says("a", "b", "c", starts="a"), result("a", "b")], ["r", UNKNOWN, NOT_STARTED]),
        ([says("a", "b", "c", starts="a"), result("a", "b"), result("b", "c")], ["r", "r", UNKNOWN]),
        ([says("a", "b", starts="a"), result("a")], ["r", NOT_STARTED]),
        ([says("a", "b", starts="")], [NOT_STARTED, NOT_STARTED]),
        ([says("a", "b", starts="a"), result("a", "")], ["r", NOT_STARTED]),
        ([says("a", "b", starts=None), result("a")], ["r", INTERRUPTED]),
        ([says("a", "b", starts="elsewhere")], [INTERRUPTED, INTERRUPTED]),
        ([says("a", "b", starts="a"), result("b")], [UNKNOWN, "r"]),
        ([says("a", "a", starts="a"), result("a", "a")], ["r", UNKNOWN]),
        ([says("a", "a", "a", starts="a")], [UNKNOWN, NOT_STARTED, NOT_STARTED]),
        ([says("", "b", starts="")], [UNKNOWN, NOT_STARTED]),
    ],
)  # fmt: skip
def test_a_call_without_result_is_told_by_the_marks_of_its_round(history: list[Message], expected: list[str]):
    done = repair([user_message("go"), *history])
    assert told(done.messages) == expected
    assert repair(done.messages).messages == done.messages


def reading(message: Message, reads: int) -> Message:
    return replace(message, reads=reads)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([reading(says("a", "b", "c", starts="a"), 2)], [HARMLESS, HARMLESS, NOT_STARTED]),
        ([reading(says("a", "b", "c", starts="a"), 2), result("a")], ["r", HARMLESS, NOT_STARTED]),
        ([reading(says("a", "b", "c", starts="a"), 2), result("b")], [HARMLESS, "r", NOT_STARTED]),
        ([reading(says("a", "b", "c", starts="a"), 2), result("a"), result("b", "c")], ["r", "r", UNKNOWN]),
        ([says("a", "b", "c", starts="a"), reading(result("a", "b"), 2)], ["r", HARMLESS, HARMLESS]),
        ([reading(says("a", starts="a"), 9)], [HARMLESS]),
        ([reading(says("a", "b", starts="a"), -3)], [UNKNOWN, NOT_STARTED]),
        ([reading(says("a", "b", starts=None), 2)], [INTERRUPTED, INTERRUPTED]),
        ([reading(says("", "b", starts=""), 2)], [HARMLESS, HARMLESS]),
    ],
)  # fmt: skip
def test_calls_that_only_read_did_no_harm(history: list[Message], expected: list[str]):
    done = repair([user_message("go"), *history])
    assert told(done.messages) == expected
    assert repair(done.messages).messages == done.messages
    session = Session()
    session.append(*history, user_message("so?"))
    assert told(session.messages) == expected


def test_an_old_round_and_a_new_one_are_told_apart():
    old, new = says("a", starts=None), says("b", "c", starts="b")
    assert told(repair([old, user_message("x"), new]).messages) == [INTERRUPTED, UNKNOWN, NOT_STARTED]


def test_marks_follow_a_call_that_gets_another_id():
    history = [says("k", starts="k"), result("k"), says("k", "", starts="k"), result("k", "", text="s")]
    after = repair(history).messages
    calls = [b.id for b in after[2].content]
    assert calls == ["k_2", "call_3"]
    assert [m.starts for m in after[2:]] == ["k_2", "call_3", None]
    assert told(after) == ["r", "s", UNKNOWN]


def test_a_session_that_renames_a_call_renames_its_marks():
    session = Session()
    session.append(says("k", starts="k"), result("k"))
    reply, *_ = session.append(says("k", "k", "k", starts="k"))
    assert reply.starts == "k_2"
    assert [m.starts for m in session.append(result("k", "k"))] == ["k_3"], "the next of that name"
    assert [m.starts for m in session.append(result("k_3", "k_4"))] == ["k_4"], "a name of ours"
    session.append(user_message("so?"))
    assert told(session.messages) == ["r", "r", "r", UNKNOWN]


def test_open_calls_closed_by_a_new_message_are_told_apart_as_well():
    session = Session()
    session.append(says("a", "b", "c", starts="a"), result("a", "b"), user_message("so?"))
    session.append(says("d", starts=None), user_message("and?"))
    assert told(session.messages) == ["r", UNKNOWN, NOT_STARTED, INTERRUPTED]


async def test_a_call_that_had_to_wait_is_marked_when_it_begins():
    with Session.open("s") as session:
        await session.commit(user_message("go"))
        reply, *_ = await session.commit(says("a", "b", starts=""))
        assert told(Session.read("s").messages) == [NOT_STARTED, NOT_STARTED], "nobody has answered yet"
        await session.start(reply.content[0])
        assert told(Session.read("s").messages) == [UNKNOWN, NOT_STARTED]
        assert len(session.messages) == 2, "a mark is no part of the conversation"
        await session.commit(result("a", ""))
        again = Session.read("s")
        assert told(again.messages) == ["r", NOT_STARTED]
        assert not again.loaded.dropped
        await session.start(reply.content[1])
        session.append(user_message("so?"))
        assert told(session.messages) == ["r", UNKNOWN]
    again = Session.read("s")
    assert again.messages == session.messages
    assert (again.loaded.dropped, again.loaded.synthesized) == (0, 0)
    assert not shelf.repair("s").rewritten, "marks are no damage"
    with Session.open("s") as session:
        session.rewrite(session.messages)
    assert Session.read("s").messages == session.messages


async def test_a_mark_in_memory_tells_as_much():
    session = Session()
    [reply] = session.append(says("a", "b", starts=""))
    await session.start(reply.content[0])
    session.append(user_message("x"))
    assert told(session.messages) == [UNKNOWN, NOT_STARTED]


def test_only_marks_with_another_result_are_left_out():
    call = ToolCall(id="a", name="t", arguments={})
    first, second = mark(call), result("a")
    round = says("a", starts="")
    assert without_marks([round, first]) == [round, first]
    assert without_marks([round, first, second]) == [round, second]
    assert without_marks([round, first, says("b", starts=""), second]) == [round, first, says("b", starts=""), second]
    plain = [round, second]
    assert without_marks(plain) is plain


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_round_that_lost_a_line_claims_no_more_than_it_knows():
    records = [encode(m) for m in (user_message("go"), says("a", "b", "c", starts="a"), result("a", "b"))]
    path = stored()
    path.write_bytes(b"\n".join([*records, b'{"role":"tool","tool_ca#', encode(user_message("on")), b""]))
    assert told(Session.read("s").messages) == ["r", UNKNOWN, INTERRUPTED], "the lost line may have been of b"
    path.write_bytes(b"\n".join([*records[:2], b"{bad", records[2], encode(user_message("on")), b""]))
    assert told(Session.read("s").messages) == ["r", UNKNOWN, INTERRUPTED], "next to the call itself"
    path.write_bytes(b"\n".join([records[0], b"{bad", *records[1:], encode(user_message("on")), b"{bad", b""]))
    assert told(Session.read("s").messages) == ["r", UNKNOWN, NOT_STARTED], "what was lost was not of this round"


def test_what_was_lost_behind_a_picture_is_of_its_round():
    picture = UserMessage([Image(media_type="image/png", data="AA==")], origin="tool_image", tool_call_id="a")
    history = [says("a", "b", "c", starts="a"), result("a", "b"), picture, user_message("on")]
    assert told(repair(history, [picture]).messages) == ["r", UNKNOWN, INTERRUPTED]
    assert told(repair(history, history[-1:]).messages) == ["r", UNKNOWN, NOT_STARTED]
    assert told(repair([picture, *history[:2]], [picture]).messages) == ["r", UNKNOWN, NOT_STARTED]


RECORD = encode(result("b", "c", text='two “words”\n\\ and 𝄞 "more" ' + "x" * 50))


@pytest.mark.parametrize("zeros", [b"", bytes(40)])
def test_a_result_cut_at_any_byte_is_told_as_far_as_it_goes(zeros: bytes):
    whole = text_of(recovery.recover(RECORD).messages[0])
    history = [user_message("go"), says("a", "b", "c", starts="a"), result("a", "b")]
    known = RECORD.index(b'"b"') + 3
    last = 0
    for cut in range(1, len(RECORD)):
        stored(*history, torn=RECORD[:cut] + zeros)
        first, text, third = told(Session.read("s").messages)
        assert (first, third) == ("r", NOT_STARTED)
        if cut < known:
            assert text == UNKNOWN
            continue
        assert "this call was done" in text
        saved = text.partition("What was saved of it:\n")[2]
        assert whole.startswith(saved)
        assert len(saved) >= last, "never less of a longer fragment"
        last = len(saved)
    assert last == len(whole)


def test_what_was_told_of_a_cut_result_stays_when_the_conversation_goes_on():
    stored(user_message("go"), says("a", "b", starts="a"), torn=encode(result("a", "b", text="half of it"))[:80])
    with Session.open("s") as session:
        before = told(session.messages)
        assert "half" in before[0]
        session.append(user_message("on"))
    again = Session.read("s")
    assert told(again.messages) == before
    assert not again.loaded.damaged
    assert recovery._quick(again.path.read_bytes()), "such a file is read in one go"


def test_a_fragment_of_another_call_or_of_another_kind_is_no_result():
    for torn in (
        encode(result("zz"))[:60],
        encode(result("a", text="real"))[:60],
        encode(says("b", starts="b"))[:60],
        b'{"role":"user","tool_call_id":"b","content":"x',
        b'{"role":"tool","content":"x',
        b'["role","tool","tool_call_id":"b",',
        b"}]",
        bytes(30),
    ):
        stored(user_message("go"), says("a", "b", starts="a"), result("a", "b"), torn=torn)
        assert told(Session.read("s").messages) == ["r", UNKNOWN], torn


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_foreign_spelling_of_a_record_is_understood(separators: tuple[str, str]):
    record = {"tool_call_id": "ä", "content": [{"type": "text", "text": "línea\nzwei"}], "role": "tool", "id": "x"}
    raw = json.dumps(record, separators=separators).encode()
    assert salvage(raw[:-2]) == ("ä", "línea\nzwei")


@given(st.binary(max_size=60), st.integers(0, 200))
def test_salvaging_never_fails(noise: bytes, at: int):
    found = salvage(RECORD[:at] + noise)
    assert found is None or found[0] == "b"


@pytest.mark.parametrize("cut", [9_000, 700])
def test_a_spilled_result_whose_record_was_cut_is_kept_whole(cut: int):
    text = "".join(f"line {n}\n" for n in range(20_000))
    with Session.open("s") as session:
        session.append(user_message("go"), says("a", "b", starts="a"), result("a", "b", text=text))
        file = session.messages[-1].content[0].file
    path = session.path
    data = path.read_bytes()
    start = data.rindex(b'{"role":"tool"')
    path.write_bytes(data[: start + cut])
    again = Session.read("s")
    block = again.messages[-2].content[0]
    assert "this call was done" in block.text and "line 19999" in block.text
    assert (block.file, block.bytes, again.media(block.file)) == (file, len(text), text.encode())
    other = session.files / f"t-{'0' * 32}.txt"
    other.write_bytes(text.encode())
    assert Session.read("s").messages == again.messages, "a file that is not what its name says is not taken"
    (session.files / file).unlink()
    assert "line 19999" not in told(Session.read("s").messages)[0]


@pytest.mark.parametrize("cut", [300, 60])
def test_too_little_of_a_result_proves_no_file(cut: int):
    with Session.open("s") as session:
        session.append(user_message("go"), says("a", "b", starts="a"), result("a", "b", text="line\n" * 20_000))
    data = session.path.read_bytes()
    session.path.write_bytes(data[: data.rindex(b'{"role":"tool"') + cut])
    assert Session.read("s").messages[-2].content[0].file is None


def test_a_file_of_an_earlier_call_is_not_the_result_of_this_one():
    text = "the same beginning\n" * 20_000
    torn = encode(result("b", "b", text=text[:9_000]))[:-3_000]
    with Session.open("s") as session:
        session.append(user_message("go"), says("a", starts="a"), result("a", text=text))
    shelf.rewind("s", 1)
    with Session.open("s") as session:
        session.append(says("b", starts="b"))
    session.path.write_bytes(session.path.read_bytes() + torn)
    assert Session.read("s").messages[-1].content[0].file is None, "the archive names it"

    session.path.with_name("s.jsonl.archive").unlink()
    called = replace(says("b", starts="b"), ts="2020-01-01T00:00:00Z")
    session.path.write_bytes(encode(user_message("go")) + b"\n" + encode(called) + b"\n" + torn)
    assert Session.read("s").messages[-1].content[0].file, "saved after the call, named by nothing: the result"
    for file in session.files.iterdir():
        os.utime(file, (1_500_000_000, 1_500_000_000))
    assert Session.read("s").messages[-1].content[0].file is None, "it was saved before the call was made"


def test_a_foreign_file_among_those_of_the_session_hides_none():
    with Session.open("s") as session:
        session.append(user_message("go"), says("a", "b", starts="a"), result("a", "b", text="line\n" * 20_000))
    data = session.path.read_bytes()
    session.path.write_bytes(data[: data.rindex(b'{"role":"tool"') + 900])
    (session.files / "t-000.txt").write_bytes(b"\xff\xfe")
    (session.files / "t-001.txt").mkdir()
    assert Session.read("s").messages[-2].content[0].file


@pytest.mark.parametrize("item", ["7,", "[", '{"a":', '"",', "[],"])
def test_salvaging_takes_linear_time(item: str):
    """A second of CPU is a hundred times what it needs; with every item copied for each other one it takes minutes."""
    began = time.process_time()
    for head in ('{"role":"tool","tool_call_id":"b","content":[', '{"role":"assistant","content":['):
        assert salvage((head + item * 400_000).encode()) in (None, ("b", ""))
    assert time.process_time() - began < 20


def test_an_unnamed_file_that_does_not_fit_is_not_taken():
    with Session.open("s") as session:
        session.append(user_message("go"), says("a", "b", starts="a"))
        session.spill("other " * 20_000, name="t")
    stored(*session.messages, torn=encode(result("a", "b", text="mine"))[:-60])
    assert Session.read("s").messages[-2].content[0].file is None


# --- a real process -----------------------------------------------------------------------------------------------

ZYGOTE = """
import asyncio, json, os, signal, sys
from pathlib import Path
from orkas import Agent, Session, tool
from orkas.infra import files
from orkas.testing import ScriptedProvider, call

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Deadly(files.Ops):
    "Kills the process at the n-th call; a write first gets a share of its bytes through."
    def __init__(self, nth, share):
        self.left, self.share = nth, share
    def step(self):
        self.left -= 1
        if self.left == 0:
            die()
    def write(self, fd, data):
        if self.left == 1:
            os.write(fd, data[:int(len(data) * self.share)])
        self.step()
        return super().write(fd, data)
    def open(self, path, flags):
        self.step()
        return super().open(path, flags)
    def sync(self, fd):
        self.step()
    def sync_folder(self, folder):
        self.step()
    def rename(self, source, target):
        self.step()
        super().rename(source, target)
    def link(self, source, target):
        self.step()
        super().link(source, target)
    def unlink(self, path):
        self.step()
        super().unlink(path)

def run(case):
    home = Path(case["home"])
    os.environ["ORKAS_HOME"] = str(home)
    def work(name: str) -> str:
        "Do it."
        if case["inside"] == [name, "before"]:
            die()
        (home / name).write_text("done")
        if case["inside"] == [name, "after"]:
            die()
        return f"result of {name} " + "long " * (20_000 if name == "b" else 1)
    look = tool(name="look", read_only=True)(work)
    calls = [call("look" if n in case["reads"] else "work", name=n, id=n) for n in "abc"]
    session = Session.open("job", ops=Deadly(case["nth"], case["share"]))
    agent = Agent(ScriptedProvider([["I shall", *calls], "all done"]), tools=[work, look], session=session)
    asyncio.run(agent.run("go"))

for line in sys.stdin:
    case = json.loads(line)
    child = os.fork()
    if child == 0:
        run(case)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Zygote:
    """A process that has everything loaded and forks for each case; each case is a process that may be killed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", ZYGOTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, *, nth: int = 0, share: float = 0.0, inside: tuple[str, str] | None = None, reads: str = ""
    ) -> tuple[int, Path]:
        """The exit status and the home of one case. ``reads``: the calls that only read."""
        self._count += 1
        home = self._root / str(self._count)
        home.mkdir()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(
            json.dumps({"home": str(home), "nth": nth, "share": share, "inside": inside, "reads": reads}) + "\n"
        )
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), home

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def zygote(tmp_path: Path):
    made = Zygote(tmp_path)
    yield made
    made.close()


def kind(message: Message) -> str:
    text = text_of(message)
    if not message.synthetic:
        return "real"
    return next(k for k in ("outcome unknown", "not started", "this call was done", "no result") if k in text)


def resumed(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the history says of a, b and c after the crash; checked against the truth, and that it can go on."""
    monkeypatch.setenv("ORKAS_HOME", str(home))
    with Session.open("job") as session:
        kinds = [kind(m) for m in session.messages if isinstance(m, ToolMessage)]
        for name, what in zip("abc", kinds, strict=False):
            happened = (home / name).exists()
            assert happened or what not in ("real", "this call was done"), f"{name} was not done"
            assert not happened or what != "not started", f"{name} was done"
        before = list(session.messages)
        provider = ScriptedProvider(["ok"])
        done = asyncio.run(Agent(provider, tools=[], session=session).run("go on"))
        assert done.outcome == "completed"
        assert is_paired(provider.requests[0].messages)
        assert session.messages[: len(before)] == before
    assert Session.read("job").messages == session.messages, "the same story at every loading"
    return kinds


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
def test_killed_inside_a_tool(zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    for place, name in enumerate("abc"):
        for moment in ("before", "after"):
            status, home = zygote.run(inside=(name, moment))
            assert status == -9
            assert (home / name).exists() == (moment == "after")
            expected = ["real"] * place + ["outcome unknown"] + ["not started"] * (2 - place)
            assert resumed(home, monkeypatch) == expected


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_killed_at_every_call_that_writes(share: float, zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    seen: Counter[str] = Counter()
    nth, status = 0, -9
    while status == -9:
        nth += 1
        status, home = zygote.run(nth=nth, share=share)
        if (home / "sessions/job.jsonl").exists():
            kinds: list[Any] = resumed(home, monkeypatch)
            order = sorted(kinds, key=["real", "this call was done", "outcome unknown", "not started"].index)
            assert kinds == order, "one after another"
            assert sum(k in ("this call was done", "outcome unknown") for k in kinds) <= 1
            seen.update(kinds)
    assert status == 0
    assert kinds == ["real"] * 3
    assert nth > 20
    assert {"real", "outcome unknown", "not started"} <= set(seen)
    assert ("this call was done" in seen) == (share in (0.5, 0.9))


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
@pytest.mark.parametrize("reads", ["ab", "bc", "abc", "b"])
def test_killed_inside_a_tool_beside_others(reads: str, zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    for place, name in enumerate("abc"):
        for moment in ("before", "after"):
            status, home = zygote.run(inside=(name, moment), reads=reads)
            assert status == -9
            kinds = resumed(home, monkeypatch)
            for at, other in enumerate("abc"):
                if other in reads and name in reads and len(reads) > 1:
                    assert kinds[at] in ("real", "no result"), "beside the one that was killed"
                elif at < place:
                    assert kinds[at] == "real"
                elif at == place:
                    assert kinds[at] == ("no result" if name in reads else "outcome unknown")
                else:
                    assert kinds[at] == "not started"


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
@pytest.mark.parametrize(("share", "reads"), [(1.0, "ab"), (0.5, "bc"), (0.9, "abc")])
def test_killed_at_every_call_that_writes_beside_others(
    share: float, reads: str, zygote: Zygote, monkeypatch: pytest.MonkeyPatch
):
    seen: Counter[str] = Counter()
    nth, status = 0, -9
    while status == -9:
        nth += 1
        status, home = zygote.run(nth=nth, share=share, reads=reads)
        if (home / "sessions/job.jsonl").exists():
            kinds = resumed(home, monkeypatch)
            order = sorted(kinds, key=["real", "this call was done", "no result", "outcome unknown", "not started"].index)
            assert kinds == order, "kept in declared order"
            seen.update(kinds)
            for name, what in zip("abc", kinds, strict=False):
                assert what in ("real", "this call was done", "not started", "no result" if name in reads else "outcome unknown")
    assert status == 0
    assert kinds == ["real"] * 3
    assert "no result" in seen


def test_a_text_of_two_blocks_that_was_cut_is_read_as_one():
    record = replace(result("a"), content=[Text(text="one "), Text(text="two")])
    assert salvage(encode(record)[:-30]) == ("a", "one two")
