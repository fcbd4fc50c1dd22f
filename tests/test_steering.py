"""What the user says while a turn runs reaches the model exactly once, whatever happens in between."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas import Agent, Session, tool
from orkas.harness import pairing
from orkas.harness.sessions import shelf
from orkas.infra import files
from orkas.infra.errors import ProviderError, StorageError, UsageError
from orkas.infra.events import Done, Event, ToolStart, UserInput
from orkas.infra.messages import UserMessage, encode, text_of
from orkas.providers.base import CompletionParams, ModelInfo
from orkas.testing import ScriptedProvider, call

SOURCE = str(Path(__file__).parents[1] / "src")


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


def said(messages: Any) -> list[str]:
    """All that the user said, in order."""
    return [text_of(m) for m in messages if isinstance(m, UserMessage)]


async def drain(agent: Agent, prompt: str = "go", act: Callable[[Event], object] = lambda _: None) -> list[Event]:
    events = []
    async with aclosing(agent.stream(prompt)) as stream:
        async for event in stream:
            events.append(event)
            act(event)
    assert isinstance(events[-1], Done)
    assert [e.seq for e in events] == list(range(len(events)))
    assert pairing.is_paired(agent.session.messages)
    return events


def once(kind: type, act: Callable[[], object]) -> Callable[[Event], object]:
    """Act on the first event of that kind."""
    left = [act]

    def on(event: Event) -> None:
        if isinstance(event, kind) and left:
            left.pop()()

    return on


def inbox_of(session: Session) -> Path:
    assert session.path is not None
    return session.path.with_name(session.path.name + ".inbox")


# --- while a turn runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "s"])
async def test_it_goes_out_with_the_next_request_after_the_results_of_the_round(name: str | None) -> None:
    provider = ScriptedProvider([[call("look"), call("look")], "Done."])
    session = Session.open(name) if name else Session()
    agent = Agent(provider, tools=[look], session=session)
    ids: list[str] = []
    events = await drain(agent, act=once(ToolStart, lambda: ids.append(agent.steer("the other one"))))
    roles = [r["role"] for r in session.records()]
    assert roles == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert said(provider.requests[1].messages) == ["go", "the other one"]
    [taken] = [e for e in events if isinstance(e, UserInput)]
    assert (taken.id, taken.text) == (ids[0], "the other one")
    assert session.records()[4]["id"] == ids[0]
    ends = [i for i, e in enumerate(events) if e.type == "tool_end"]
    assert events.index(taken) > ends[-1]
    session.close()


async def test_it_is_on_disk_before_it_is_acknowledged_and_gone_once_it_was_taken() -> None:
    session = Session.open("s")
    agent = Agent(ScriptedProvider([[call("look")], "Done."]), tools=[look], session=session)

    def act() -> None:
        id = agent.steer("über\nzwei Zeilen \ud83d\ude00")
        [line] = inbox_of(session).read_bytes().splitlines()
        assert json.loads(line) | {"ts": ""} == {
            "type": "steer", "id": id, "ts": "", "text": "über\nzwei Zeilen 😀",
        }  # fmt: skip

    await drain(agent, act=once(ToolStart, act))
    assert not inbox_of(session).exists()
    assert said(session.messages) == ["go", "über\nzwei Zeilen 😀"]
    session.close()


async def test_many_keep_their_order_and_come_once() -> None:
    provider = ScriptedProvider([[call("look")], [call("look")], "Done."])
    agent = Agent(provider, tools=[look], session=Session.open("s"))
    numbers = itertools.count()

    def act(event: Event) -> None:
        if event.type in ("tool_start", "tool_end"):
            agent.steer(f"n{next(numbers)}")

    await drain(agent, act=act)
    assert said(provider.requests[1].messages) == ["go", "n0", "n1"]
    assert said(provider.requests[2].messages) == ["go", "n0", "n1", "n2", "n3"]
    assert said(agent.session.messages) == ["go", "n0", "n1", "n2", "n3"]
    agent.session.close()


async def test_after_the_last_reply_the_turn_goes_on() -> None:
    provider = ScriptedProvider(["First.", "Second."])
    agent = Agent(provider, tools=[])
    events = await drain(agent, act=lambda e: agent.steer("and?") if getattr(e, "text", "") == "First." else None)
    done = events[-1]
    assert isinstance(done, Done)
    assert (done.text, done.rounds) == ("Second.", 2)
    assert said(provider.requests[1].messages) == ["go", "and?"]


async def test_from_another_thread() -> None:
    agent = Agent(ScriptedProvider([[call("wait", seconds=0.05)], "Done."]), tools=[wait], session=Session.open("s"))
    threads: list[threading.Thread] = []

    def act() -> None:
        for n in range(8):
            threads.append(threading.Thread(target=agent.steer, args=(f"t{n}",)))
            threads[-1].start()

    await drain(agent, act=once(ToolStart, act))
    for thread in threads:
        thread.join()
    await drain(Agent(ScriptedProvider(["x"]), tools=[], session=agent.session))  # one may have come after the end
    assert sorted(t for t in said(agent.session.messages) if t != "go") == [f"t{n}" for n in range(8)]
    agent.session.close()


async def test_what_is_queued_waits_for_the_end_and_the_stream_goes_on_with_it() -> None:
    provider = ScriptedProvider([[call("look")], "First.", "Second.", "Third."])
    agent = Agent(provider, tools=[look])

    def act() -> None:
        agent.queue("one")
        agent.queue("two")
        agent.steer("now")

    events = await drain(agent, act=once(ToolStart, act))
    assert [said(r.messages)[1:] for r in provider.requests] == [
        [], ["now"], ["now", "one"], ["now", "one", "two"],
    ]  # fmt: skip
    done = events[-1]
    assert isinstance(done, Done)
    assert (done.text, done.stop_reason) == ("Third.", "stop")
    assert [e.type for e in events].count("done") == 1


# --- without a turn, and after one that ended otherwise -----------------------------------------------------------


async def test_without_a_turn_it_goes_first_with_the_next() -> None:
    provider = ScriptedProvider(["Done."])
    agent = Agent(provider, tools=[])
    agent.queue("a")
    agent.steer("b")
    await drain(agent)
    assert said(provider.requests[0].messages) == ["a", "b", "go"]


class Case:
    """A turn that ends otherwise than by an answer, with something waiting."""

    def __init__(self, ending: str) -> None:
        self.ending = ending
        replies: dict[str, list[Any]] = {
            "stop": [[call("wait", seconds=60)]],
            "failure": [[call("look")], ProviderError("no", class_="auth")],
            "max_rounds": [[call("look")]],
            "loop": [[call("look")]] * 5 + ["Status."],
        }
        self.provider = ScriptedProvider([*replies[ending], "Next."])
        self.agent = Agent(
            self.provider, tools=[look, wait], session=Session.open("s"), max_rounds=1 if ending == "max_rounds" else 50
        )

    def act(self, event: Event) -> None:
        agent = self.agent
        match self.ending:
            case "stop" if event.type == "tool_start":
                agent.steer("wait for me")
                agent.stop()
            case "failure" if event.type == "retry" or len(self.provider.requests) == 2:
                return
            case "failure" | "max_rounds" if event.type == "tool_start":
                agent.queue("wait for me")
            case "loop" if event.type == "text_delta" and "Status" not in event.text:  # type: ignore[union-attr]
                agent.steer("wait for me")


@pytest.mark.parametrize("ending", ["stop", "failure", "max_rounds", "loop"])
async def test_what_waits_stays_for_the_next_turn(ending: str) -> None:
    case = Case(ending)
    done = (await drain(case.agent, act=case.act))[-1]
    assert isinstance(done, Done)
    assert done.outcome == {"stop": "aborted", "failure": "failed"}.get(ending, "completed")
    assert said(case.agent.session.messages) == ["go"]
    case.agent.session.close()
    session = Session.open("s")
    again = Agent(ScriptedProvider(["Next."]), tools=[], session=session)
    await drain(again, "and now")
    assert said(session.messages) == ["go", "wait for me", "and now"]
    assert not inbox_of(session).exists()
    session.close()


@pytest.mark.parametrize("text", ["", "  \n\t", None, 7])
def test_nothing_is_no_message(text: Any) -> None:
    agent = Agent(ScriptedProvider([]), tools=[])
    for send in (agent.steer, agent.queue):
        with pytest.raises(UsageError, match=r"is empty|must be a string"):
            send(text)
    for much in ("x" * 1_000_001, "\0" * 900_000):  # a control code takes six bytes of a record
        with pytest.raises(UsageError, match="put the material into a file"):
            agent.steer(much)
    assert agent.session.inbox.waiting() == []


async def test_the_largest_that_is_taken_is_taken_by_the_session_too() -> None:
    wide = ModelInfo(context_window=50_000_000, max_output=1_000)
    agent = Agent(ScriptedProvider(["ok"], info=wide), tools=[], session=Session.open("s"))
    for much in ("x" * 1_000_000, "\0" * 600_000, "中" * 1_000_000):
        agent.steer(much)
    done = (await drain(agent))[-1]
    assert isinstance(done, Done) and done.outcome == "completed"
    assert [len(t) for t in said(agent.session.messages)] == [1_000_000, 600_000, 1_000_000, 2]
    agent.session.close()


def test_a_session_that_is_closed_or_only_read_takes_nothing() -> None:
    session = Session.open("s")
    session.append(UserMessage([], id="m"))
    session.inbox.steer("kept")
    session.close()
    with pytest.raises(UsageError, match="is closed"):
        session.inbox.steer("x")
    reading = Session.read("s")
    assert said(reading.inbox.waiting()) == ["kept"]
    with pytest.raises(UsageError, match="reading only"):
        reading.inbox.steer("x")


def test_it_goes_where_its_session_goes() -> None:
    with Session.open("s") as session:
        session.append(UserMessage([], id="m"))
        session.inbox.steer("kept")
    assert [s.id for s in shelf.list_sessions()] == ["s"]
    copy = shelf.fork("s")
    with Session.open(copy) as forked:
        assert forked.inbox.waiting() == []
    place = shelf.delete("s")
    assert sorted(p.name for p in place.iterdir()) == ["s.jsonl", "s.jsonl.inbox"]


# --- damage, faults, crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "text"), [("a", ""), ("a", " \n"), ("", "hi"), ("a", "x" * 1_000_001)])
def test_a_record_that_nobody_could_have_sent_is_set_aside(id: str, text: str) -> None:
    with Session.open("s") as session:
        session.inbox.queue("real")
        path = inbox_of(session)
    record = {"type": "queue", "id": id, "ts": "", "text": text}
    path.write_bytes(encode(record) + b"\n" + path.read_bytes())
    with Session.open("s") as session:
        assert said(session.inbox.waiting()) == ["real"]
        assert "set aside" in session.warnings[0]
    with Session.open("s") as session:
        assert session.warnings == []


def test_a_torn_line_is_set_aside_and_told() -> None:
    with Session.open("s") as session:
        session.inbox.steer("whole")
        path = inbox_of(session)
    path.write_bytes(path.read_bytes() + b'\xff not json\n{"type":"steer","id":"x","te')
    with Session.open("s") as session:
        [warning] = session.warnings
        assert "2 lines of 's.jsonl.inbox'" in warning and "s.jsonl.damaged" in warning
        assert said(session.inbox.waiting()) == ["whole"]
        aside = path.with_name("s.jsonl.damaged").read_text()
        assert '\\"id\\":\\"x\\",\\"te' in aside and "not json" in aside
        session.inbox.steer("more")
    with Session.open("s") as session:
        assert session.warnings == []
        assert said(session.inbox.waiting()) == ["whole", "more"]


class Crash(BaseException):
    """The process is gone."""


class Doomed(files.Ops):
    """The ``nth`` call fails: ``code``, or with 0 the process ends there and then. A write takes half before."""

    def __init__(self, nth: int, code: int) -> None:
        self.left, self.code, self.fired = nth, code, False

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0 or (self.fired and not self.code):
            self.fired = True
            raise OSError(self.code, os.strerror(self.code)) if self.code else Crash

    def open(self, path: Path, flags: int) -> int:
        self._step()
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        try:
            self._step()
        except BaseException:
            super().write(fd, data[: len(data) // 2])
            raise
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._step()

    def sync_folder(self, folder: Path) -> None:
        self._step()

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)


def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The disk as it is now, in the hands of another process."""
    home = Path(os.environ["ORKAS_HOME"])
    new = tmp_path / f"after{number}"
    shutil.copytree(home, new) if home.exists() else new.mkdir()
    for lock in new.rglob("*.lock"):
        lock.unlink()
    monkeypatch.setenv("ORKAS_HOME", str(new))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_leaves_nothing_of_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for nth in itertools.count(1):
        monkeypatch.setenv("ORKAS_HOME", str(tmp_path / f"{code}-{nth}"))
        ops = Doomed(nth, code)
        with Session.open("s", ops=ops) as session:
            kept = []
            for text in ("one", "two", "three"):
                try:
                    session.inbox.steer(text)
                except StorageError:
                    continue
                kept.append(text)
            assert said(session.inbox.waiting()) == kept
            assert ops.fired == (len(kept) < 3)
        with Session.open("s") as session:
            assert said(session.inbox.waiting()) == kept
            assert session.warnings == []
        if not ops.fired:
            return


async def scenario(ops: files.Ops, acknowledged: list[str]) -> None:
    """Steer, queue, a turn that takes some of it, more."""
    session = Session.open("s", ops=ops)
    provider = ScriptedProvider([[call("look")], "First.", "Second."])
    agent = Agent(provider, tools=[look], session=session)

    def send(how: Callable[[str], str], text: str) -> None:
        how(text)
        acknowledged.append(text)

    send(agent.steer, "before")
    await drain(agent, act=once(ToolStart, lambda: (send(agent.steer, "steered"), send(agent.queue, "queued"))))
    send(agent.steer, "after")


async def test_killed_at_any_step_everything_acknowledged_goes_out_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nth in itertools.count(1):
        monkeypatch.setenv("ORKAS_HOME", str(tmp_path / f"home{nth}"))
        ops, acknowledged = Doomed(nth, 0), []  # type: ignore[var-annotated]
        with suppress(Crash):
            await scenario(ops, acknowledged)
        elsewhere(tmp_path, monkeypatch, nth)
        with Session.open("s") as session:
            provider = ScriptedProvider(["Next."])
            await drain(Agent(provider, tools=[], session=session), "next")
            heard = said(provider.requests[0].messages)
            mine = [t for t in heard if t not in ("go", "next")]
            assert mine == ["before", "steered", "queued", "after"][: len(mine)]
            assert mine[: len(acknowledged)] == acknowledged
            assert len(mine) <= len(acknowledged) + 1
            assert not inbox_of(session).exists()
        if not ops.fired:
            assert acknowledged == ["before", "steered", "queued", "after"]
            assert nth > 40
            return


async def test_a_message_whose_save_failed_comes_once_with_the_next_turn() -> None:
    class Full(files.Ops):
        full = False

        def write(self, fd: int, data: bytes) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(fd, data)

    ops = Full()
    session = Session.open("s", ops=ops)
    agent = Agent(ScriptedProvider(["Hello."]), tools=[], session=session)
    agent.steer("early")
    ops.full = True
    done = (await drain(agent))[-1]
    assert isinstance(done, Done) and done.error is not None and done.error.class_ == "storage"
    ops.full = False
    events = await drain(agent)
    assert said(session.messages) == ["early", "go"]
    assert [e.text for e in events if isinstance(e, UserInput)] == ["early"]
    session.close()
    with Session.open("s") as session:
        assert said(session.messages) == ["early", "go"]
        assert session.inbox.waiting() == []


STEPS = st.lists(st.sampled_from(["steer", "queue", "turn", "crash", "reopen", "unforgotten"]), max_size=14)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_put_take_crash_and_reopen_in_any_order(steps: list[str]) -> None:
    asyncio.run(_any_order(steps))


_names = itertools.count()


async def _any_order(steps: list[str]) -> None:
    name, sent = f"h{next(_names)}", []  # type: ignore[var-annotated]
    session = Session.open(name)
    for number, step in enumerate([*steps, "reopen", "turn"]):
        match step:
            case "steer" | "queue":
                send = session.inbox.steer if step == "steer" else session.inbox.queue
                sent.append(f"m{number}")
                send(sent[-1])
            case "turn":
                await drain(Agent(ScriptedProvider(["ok"]), tools=[], session=session))
            case "reopen":
                session.close()
                session = Session.open(name)
            case "crash":  # what is on disk is all there is
                session = _killed(session, name)
            case "unforgotten":  # the session has it, the inbox was not told
                session.append(*session.inbox.waiting())
                session = _killed(session, name)
    assert [t for t in said(session.messages) if t != "go"] == sent
    assert not inbox_of(session).exists()
    session.close()


def _killed(session: Session, name: str) -> Session:
    path = inbox_of(session)
    before = path.read_bytes() if path.exists() else None
    session.close()
    if before is not None:
        path.write_bytes(before)  # closing tidies up; a killed process does not
    return Session.open(name)


CHILD = """
import asyncio, sys
from orkas import Agent, Session, tool
from orkas.testing import ScriptedProvider, call

@tool
def look(n: int) -> int:
    "Look."
    return n

agent = Agent(
    ScriptedProvider([call("look", n=n)] for n in range(10**6)), tools=[look], session=Session.open("s"), max_rounds=10**6
)

async def main():
    n = 0
    async for event in agent.stream("go"):
        if event.type == "tool_start" and n < 400:
            agent.steer(f"m{n}")
            print(n, flush=True)
            n += 1
asyncio.run(main())
"""


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
@pytest.mark.parametrize("lines", [1, 3, 10, 30] if not os.environ.get("ORKAS_KILLS") else range(1, 60))
def test_a_process_killed_while_it_is_steered_loses_and_doubles_nothing(lines: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SOURCE}
    )
    assert child.stdout is not None
    for _ in range(lines):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    acknowledged = lines + len(rest)
    with Session.open("s") as session:
        provider = ScriptedProvider(["Next."])
        asyncio.run(drain(Agent(provider, tools=[], session=session), "next"))
        mine = [t for t in said(session.messages) if t.startswith("m")]
    assert mine == [f"m{n}" for n in range(len(mine))]
    assert acknowledged <= len(mine) <= acknowledged + 1


@pytest.fixture(autouse=True)
def _no_home_left_open() -> Iterator[None]:
    yield
    stray = [p.name for p in Path(os.environ["ORKAS_HOME"]).rglob("*.tmp")]
    assert stray == []


async def test_what_is_said_during_a_request_is_in_the_next_one() -> None:
    agent: Agent

    def reply(params: CompletionParams) -> list[Any]:
        agent.steer("late")
        return [call("look")]

    provider = ScriptedProvider([reply, "Done."])
    agent = Agent(provider, tools=[look])
    await drain(agent)
    assert said(provider.requests[0].messages) == ["go"]
    assert said(provider.requests[1].messages) == ["go", "late"]
