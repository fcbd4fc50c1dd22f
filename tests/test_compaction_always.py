"""For any history, any window and any model that summarises: no loop, no broken pair, no lost request."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orkas import Agent, Session, tool
from orkas.harness import pairing
from orkas.harness.context import plan
from orkas.harness.context.plan import Scales
from orkas.harness.context.policy import Threshold
from orkas.harness.context.sizes import message_size
from orkas.infra import files
from orkas.infra.errors import ProviderError, StorageError, UsageError
from orkas.infra.events import Compaction, Event
from orkas.infra.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolMessage,
    text_of,
    tool_result,
    user_message,
)
from orkas.infra.tokens import estimate
from orkas.providers.base import CompletionParams, ModelInfo
from orkas.testing import ScriptedProvider, call
from orkas.testing.scripted import Reply

GOOD = "## Goal\nGo on.\n## Done\nEverything so far.\n## Next step\nThe next."
SUMMARIES: list[Callable[[CompletionParams], Reply]] = [
    lambda _: GOOD,
    lambda _: "",
    lambda _: "huge " * 20_000,
    lambda _: "rather long " * 700,
    lambda p: text_of(p.messages[-1]),
    lambda p: next((text_of(m) for m in reversed(p.messages) if type(m) is AssistantMessage), ""),
    lambda _: [call("work", size=1)],
    lambda _: ProviderError("bad", class_="invalid_request", status=400),
    lambda _: ProviderError("down", class_="server", status=500, wait_s=0.0),
    lambda _: ProviderError("too long", class_="context_overflow", status=400),
    lambda _: AssistantMessage([Text(text=GOOD)], stop_reason="length"),
    lambda _: AssistantMessage([Text(text=GOOD)], stop_reason="overflow"),
]


@tool
def work(size: int) -> str:
    """Work."""
    return "row 12, " * (size // 8)


def history(sizes: list[tuple[str, int]]) -> list[Message]:
    made: list[Message] = []
    for n, (who, size) in enumerate(sizes):
        text = f"{who} {n} " + "some words " * (size // 11)
        if who == "user":
            made.append(user_message(text))
        elif who == "agent":
            made.append(AssistantMessage([Text(text=text)], stop_reason="stop"))
        else:
            calls = [call("work", id=f"h{n}-{k}", size=size) for k in range(1 + size % 3)]
            made += [AssistantMessage(list(calls)), *(tool_result(c.id, text) for c in calls)]
    return made


class Strict(ScriptedProvider):
    """Refuses what its window does not hold, calls tools of the given sizes, and summarises as told."""

    def __init__(self, window: int, results: list[int], summaries: list[int], told: int | None) -> None:
        super().__init__([], info=ModelInfo(context_window=told, max_output=min(1_000, window // 4)))
        self.window = window
        self.work = 0
        self.asked = 0
        self.last: list[str] = []
        self._results = iter(results)
        self._summaries = itertools.cycle(summaries)
        self._replies = iter(lambda: self._answer, None)

    def _answer(self, params: CompletionParams) -> Reply:
        assert pairing.is_paired(params.messages)
        summarising = params.tool_choice == "none" or params.system.startswith("You summarise")
        if summarising:
            self.asked += 1
        size = sum(map(message_size, params.messages)) + estimate(params.system)
        if size > self.window:
            return ProviderError("too long", class_="context_overflow", status=400)
        if summarising:
            return SUMMARIES[next(self._summaries)](params)
        self.work += 1
        said = [text_of(m) for m in params.messages if pairing.speaks(m)]
        self.last.append(next(t for t in reversed(said) if not t.startswith("You have made the same call")))
        size = next(self._results, -1)
        return "All done." if size < 0 else [call("work", size=size)]


SPEAKER = st.sampled_from(["user", "agent", "tool", "tool", "tool"])
SIZE = st.sampled_from([5, 80, 900, 5_000, 40_000, 400_000])


@settings(max_examples=int(os.environ.get("ORKAS_EXAMPLES", "60")), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    before=st.lists(st.tuples(SPEAKER, SIZE), max_size=25),
    request=SIZE,
    results=st.lists(SIZE, max_size=8),
    window=st.sampled_from([1_500, 4_000, 16_000, 60_000]),
    knows=st.booleans(),
    summaries=st.lists(st.integers(0, len(SUMMARIES) - 1), min_size=1, max_size=4),
)
@example(before=[], request=400_000, results=[5], window=4_000, knows=True, summaries=[0])
@example(before=[("tool", 400_000)] * 3, request=5, results=[400_000], window=4_000, knows=False, summaries=[1])
async def test_no_history_no_window_and_no_model_make_it_loop(
    before: list[tuple[str, int]], request: int, results: list[int], window: int, knows: bool, summaries: list[int]
) -> None:
    session = Session()
    if made := history(before):
        session.append(*made)
    model = Strict(window, results, summaries, window if knows else None)
    agent = Agent(model, tools=[work], session=session, max_retries=1, system="Be brief.")
    asks = "REQUEST " + "please do it " * (request // 13) + " END"
    events: list[Event] = []
    since: list[int] = []
    async with aclosing(agent.stream(asks)) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, Compaction):
                since.append(model.work)
                assert event.tokens_after < event.tokens_before
                assert pairing.is_paired(session.messages)
    done = events[-1]
    assert done.type == "done"
    assert done.outcome == "completed" or (done.error is not None and done.error.class_ in ("context_overflow", "invalid_request")), done  # type: ignore[union-attr]
    rounds = model.work + 1
    assert max((since.count(n) for n in set(since)), default=0) <= 2, "two at one place: one before asking, one after a refusal"
    assert model.asked <= 60 * rounds, "summary calls are bounded for each round"
    assert pairing.is_paired(session.messages)
    for text in model.last:
        assert text == asks or (text.startswith("REQUEST") and text.endswith("END") and "left out" in text)


@settings(max_examples=150, deadline=None)
@given(before=st.lists(st.tuples(SPEAKER, SIZE), min_size=1, max_size=25), usable=st.integers(200, 40_000))
def test_what_stays_is_paired_and_ends_as_the_history_ends(before: list[tuple[str, int]], usable: int) -> None:
    messages = history(before)
    budgets = Threshold().budgets(usable, 0.6)
    scales = Scales(lambda ms: sum(map(message_size, ms)), estimate, lambda text, name: "whole.txt")
    made = plan.make(messages, budgets, usable, scales)
    assert pairing.is_paired(made.staying) and pairing.is_paired([user_message("s"), *made.staying])
    spoken = [m for m in messages if pairing.speaks(m)]
    if spoken:
        kept = [m for m in made.staying if pairing.speaks(m)][-1]
        assert text_of(kept) == text_of(spoken[-1]) or "whole.txt" in text_of(kept)
    ids = [m.id for m in messages if m.id]
    assert [i for i in ids if i in {m.id for m in made.staying}] == [m.id for m in made.staying if m.id], "in order"
    assert len(made.older) + sum(m in messages for m in made.staying) <= len(messages)
    clipped = sum(message_size(m) for m in made.staying if type(m) is ToolMessage)
    assert clipped <= budgets.tail + 64 * len(made.staying)
    if sum(map(message_size, messages)) <= budgets.tail:
        assert made.pointless


# --- the disk fails -----------------------------------------------------------------------------------------------


class Failing(files.Ops):
    """The ``nth`` call fails."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.calls = 0
        self.fired = False

    def _step(self) -> None:
        self.calls += 1
        if self.calls == self.nth:
            self.fired = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: Path, flags: int) -> int:
        self._step()
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        self._step()
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._step()

    def sync_folder(self, folder: Path) -> None:
        self._step()

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._step()
        super().link(source, target)


def rounds(session: Session, mark: str) -> None:
    session.append(user_message(f"{mark} question"))
    for n in range(12):
        session.append(AssistantMessage([call("work", id=f"{mark}{n}", size=9)]), tool_result(f"{mark}{n}", f"{mark} " * 200))
    session.append(AssistantMessage([Text(text=f"{mark} answer")], stop_reason="stop"))


def talking() -> Agent:
    replies: Any = itertools.repeat(GOOD)
    return Agent(ScriptedProvider(replies, info=ModelInfo(context_window=16_000, max_output=1_000)), tools=[work])


@pytest.mark.parametrize("direction", ["compact", "uncompact"])
async def test_whatever_call_fails_the_history_is_the_old_one_or_the_new_one(
    direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nth in itertools.count(1):
        monkeypatch.setenv("ORKAS_HOME", str(tmp_path / f"{direction}{nth}"))
        ops = Failing(0)
        session = Session.open("s", ops=ops)
        agent = talking()
        agent.session = session
        rounds(session, "a")
        whole = list(session.messages)
        if direction == "uncompact":
            await agent.compact()
        session.append(user_message("since"))
        before = list(session.messages)
        ops.calls, ops.nth = 0, nth
        try:
            await (agent.compact() if direction == "compact" else agent.uncompact())
            worked = True
        except StorageError:
            worked = False
        ops.nth = 0
        assert worked or session.messages == before, "a failure has changed nothing"
        on_disk = Session.read("s").messages
        assert on_disk == session.messages
        session.append(user_message("after"))
        session.close()
        with Session.open("s") as again:
            assert [text_of(m) for m in again.messages][-2:] == ["since", "after"]
            if getattr(again.messages[0], "origin", None) == "summary":
                again.uncompact()
            assert again.messages[: len(whole)] == whole
            assert [text_of(m) for m in again.messages[len(whole) :]] == ["since", "after"]
        if not ops.fired:
            break
    assert nth > 8


async def test_a_compaction_that_never_became_visible_is_not_taken_back(tmp_path: Path) -> None:
    """The process dies between the archive and the new file: the block in the archive is nobody's."""
    agent = talking()
    with Session.open("s") as session:
        agent.session = session
        rounds(session, "a")
        await agent.compact()
        rounds(session, "b")
        assert session.path is not None
        old, visible = session.path.read_bytes(), list(session.messages)
        await agent.compact()
        path = session.path
    path.write_bytes(old)
    with Session.open("s") as session:
        assert session.messages == visible
        session.uncompact()
        assert not any(getattr(m, "origin", None) == "summary" for m in session.messages)
        assert [text_of(m) for m in session.messages if pairing.speaks(m)] == ["a question", "b question"]
        with pytest.raises(UsageError, match="no compaction"):
            session.uncompact()


async def test_the_bytes_of_a_record_come_back_as_they_were() -> None:
    agent = talking()
    with Session.open("s") as session:
        rounds(session, "a")
        assert session.path is not None
        path = session.path
    lines = path.read_bytes().splitlines()
    lines[2] = lines[2].replace(b'{"role"', b'{ "extra": {"kept":1}, "role"', 1)
    path.write_bytes(b"\n".join([*lines, b'{"type":"note","x":1}', b""]))
    before = path.read_bytes().splitlines()
    with Session.open("s") as session:
        agent.session = session
        await agent.compact()
        session.uncompact()
    assert path.read_bytes().splitlines() == before


async def test_a_damaged_archive_is_told_and_nothing_changes() -> None:
    agent = talking()
    with Session.open("s") as session:
        agent.session = session
        rounds(session, "a")
        await agent.compact()
        before = list(session.messages)
        assert session.path is not None
        archive = session.path.with_name("s.jsonl.archive")
        archive.write_bytes(b"\n".join(archive.read_bytes().splitlines()[:-3]))
        with pytest.raises(StorageError, match="archive of this session is damaged"):
            session.uncompact()
        assert session.messages == before
        archive.unlink()
        with pytest.raises(UsageError, match="no compaction"):
            session.uncompact()


async def test_what_was_rewound_stays_away() -> None:
    from orkas.harness.sessions import shelf

    agent = talking()
    with Session.open("s") as session:
        agent.session = session
        rounds(session, "a")
        whole = list(session.messages)
        await agent.compact()
        count = len(session.messages)
        session.append(user_message("since"))
    shelf.rewind("s", count - 1)
    with Session.open("s") as session:
        session.uncompact()
        assert session.messages == whole[:-1]


# --- trimming -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", range(0, 45))
def test_trimming_cuts_between_turns_and_never_inside_the_newest(kept: int) -> None:
    session = Session()
    for mark in ("a", "b", "c"):
        rounds(session, mark)
    session.append(user_message("d question"), AssistantMessage([call("work", id="open", size=1)]), tool_result("open", "x"))
    before = list(session.messages)
    dropped = session.trim(kept)
    assert session.messages == before[dropped:]
    assert pairing.is_paired(session.messages) and pairing.speaks(session.messages[0])
    assert [text_of(m) for m in session.messages if pairing.speaks(m)][-1] == "d question"
    assert len(session.messages) <= max(kept, 3) or dropped == 0


def test_trimming_on_disk_keeps_what_is_dropped_and_the_summary() -> None:
    with Session.open("s") as session:
        summary = user_message("notes on what was")
        summary.origin = "summary"
        session.append(summary)
        rounds(session, "a")
        rounds(session, "b")
        assert session.trim(10) == 26
        assert session.messages[0].id == summary.id and len(session.messages) == 27
        assert session.path is not None
        assert b"a answer" in session.path.with_name("s.jsonl.archive").read_bytes()
        assert Session.read("s").messages == session.messages
        assert session.trim(1_000) == 0
