"""What was used is counted as it happens, never disturbs a turn, and adds up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_support import DEMO, orkas
from orkas import Agent, Session, tool
from orkas.harness import statistics
from orkas.harness.statistics import Line, Recorder, ToolUse, day_of, read, summed
from orkas.infra import files
from orkas.infra.errors import ProviderError, ToolFailed, UsageError
from orkas.infra.events import Notice, Retry
from orkas.infra.messages import AssistantMessage, Text, Usage
from orkas.product import stats
from orkas.testing import ScriptedProvider, call

CHINESE = "漢"


@pytest.fixture
def folder() -> Path:
    return Path(os.environ["ORKAS_HOME"], "stats")


def reply(model: str = "v/m", **usage: Any) -> AssistantMessage:
    return AssistantMessage([Text(text="x")], model, "a", "stop", Usage(**usage) if usage else None)


def put(folder: Path, name: str, *lines: Line | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    data = [line if isinstance(line, bytes) else json.dumps(plain(line)).encode() + b"\n" for line in lines]
    path.write_bytes(b"".join(data))
    return path


def plain(line: Line) -> dict[str, Any]:
    import msgspec

    return msgspec.to_builtins(line)  # type: ignore[no-any-return]


def total() -> Line:
    return stats.report(read().lines).total


# --- what is counted ----------------------------------------------------------------------------------------------


@tool
def works() -> str:
    """It works."""
    return "fine"


@tool
def refuses() -> str:
    """It cannot."""
    raise ToolFailed("not today")


@tool
def breaks() -> str:
    """It breaks."""
    raise RuntimeError("bug")


async def test_a_turn_is_counted_with_its_tools_and_their_two_kinds_of_error(folder: Path):
    calls = [call("works"), call("refuses"), call("works"), call("breaks"), call("nothing_of_that_name")]
    with Session.open("s") as session:
        model = ScriptedProvider([calls, ProviderError("busy", class_="overloaded", wait_s=0), "done"])
        done = await Agent(model, session=session, tools=[works, refuses, breaks]).run("go")
    assert done.outcome == "completed"
    used = total()
    assert (used.calls, used.input, used.output, used.retries, used.unpriced) == (2, 20, 10, 1, 2)
    assert used.tools == {
        "works": ToolUse(2), "refuses": ToolUse(1, failed=1), "breaks": ToolUse(1, faults=1),
        "nothing_of_that_name": ToolUse(1, failed=1),
    }  # fmt: skip
    assert {(line.session, line.model) for line in read().lines} == {("s", "scripted/model")}
    assert all(abs(line.t - time.time()) < 60 for line in read().lines)


async def test_a_round_is_on_disk_before_the_next_reply_has_ended(folder: Path):
    seen: list[Line] = []

    def look(_: object) -> str:
        seen.append(total())
        return "done"

    with Session.open("s") as session:
        await Agent(ScriptedProvider([[call("works")], look]), session=session, tools=[works]).run("go")
    assert seen[0].calls == 1
    assert total().tools == {"works": ToolUse(1)}


async def test_a_stopped_tool_is_a_call_and_no_error_of_the_tool():
    with Session.open("s") as session:

        @tool
        async def endless() -> str:
            """It goes on."""
            import asyncio

            agent.stop()
            await asyncio.sleep(60)
            return ""

        agent = Agent(ScriptedProvider([[call("endless")]]), session=session, tools=[endless])
        assert (await agent.run("go")).outcome == "aborted"
    assert total().tools == {"endless": ToolUse(1)}


async def test_a_conversation_in_memory_leaves_no_trace():
    await Agent(ScriptedProvider([[call("works")], "done"]), tools=[works]).run("go")
    assert orkas("run", "find parser", "--ephemeral", *DEMO).status == 0
    assert not Path(os.environ["ORKAS_HOME"], "stats").exists()


async def test_an_agent_that_goes_to_another_session_counts_there():
    agent = Agent(ScriptedProvider(["a", "b", "c"]), tools=[])
    for name in ("one", "two", None):
        session = Session.open(name) if name else Session()
        agent.session = session
        await agent.run("go")
        session.close()
    assert {name: line.calls for name, line in stats.report(read().lines).rows["session"].items()} == {"one": 1, "two": 1}


@pytest.mark.parametrize(
    ("usage", "priced", "counted"),
    [
        ({}, False, False),
        ({"input": 5, "output": 7}, False, True),
        ({"input": 5, "output": 7, "cost_usd": 0.5}, True, True),
        ({"input": 5, "output": 7, "cost_usd": 0.0}, True, True),
        ({"input": 5, "output": 7, "cost_usd": float("nan")}, False, True),
        ({"input": -5, "output": 2**70, "cost_usd": float("inf")}, False, True),
        ({"cost_usd": 0.5}, True, False),
    ],
    ids=str,
)
def test_what_the_vendor_did_not_say_is_unknown_and_never_zero(usage: dict[str, Any], priced: bool, counted: bool):
    with Session.open("s") as session:
        recorder = Recorder(session)
        session.append(reply())
        recorder.heard(reply(**usage))
        recorder.close()
    used = total()
    assert (used.calls, used.unpriced, used.uncounted) == (1, not priced, not counted)
    assert used.cost_usd == (usage["cost_usd"] if priced else 0)


def test_names_are_kept_whatever_they_hold():
    with Session.open("s") as session:
        recorder = Recorder(session)
        recorder.used("\ud800" + CHINESE * 10_000, error="failed")
        recorder.heard(reply('v/"\n\ud83d'))
        recorder.compacted()
        recorder.close()
    (name,) = total().tools
    assert len(name) == 64 and total().compactions == 1 and read().skipped == 0


# --- the disk -----------------------------------------------------------------------------------------------------


async def test_a_disk_that_takes_nothing_disturbs_no_turn_and_is_told_once(folder: Path):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("in the way")
    with Session.open("s") as session:
        agent = Agent(ScriptedProvider([[call("works")], "done", "again"]), session=session, tools=[works])
        events = [event async for event in agent.stream("go")]
        assert events[-1].type == "done" and events[-1].outcome == "completed"
        (told,) = [e for e in events if isinstance(e, Notice)]
        assert "statistics" in told.text and "not affected" in told.text
        assert [e.seq for e in events] == list(range(len(events)))
        assert not [e async for e in agent.stream("more") if isinstance(e, Notice)]
    assert "no folder" in orkas("stats").err
    warned = [f for f in orkas("doctor", "--json").json if f["area"] == "statistics"]
    assert warned[0]["level"] == "warning" and folder.read_text() == "in the way"


def test_a_disk_that_fills_up_leaves_at_most_a_torn_line_and_no_line_is_welded_to_it(folder: Path):
    program = (
        "import resource, signal\n"
        "from orkas.harness.statistics import Recorder\n"
        "from orkas.harness.sessions.session import Session\n"
        "from orkas.infra.messages import AssistantMessage\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "recorder = Recorder(Session.open('s'))\n"
        "for limit in (resource.RLIM_INFINITY, 60, 40, resource.RLIM_INFINITY):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    recorder.heard(AssistantMessage([], 'v/m'))\n"
        "print(bool(recorder.trouble()), recorder.trouble() == '')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "True True\n", ran.stderr
    found = read()
    assert (len(found.lines), found.skipped) == (2, 1)


def test_torn_and_foreign_lines_are_skipped_and_told(folder: Path):
    path = put(
        folder, time.strftime("%Y-%m.jsonl", time.gmtime()), Line(int(time.time()), "s", "m", 1), b"\n", b"hello\n",
        b'{"t":-1,"session":"s"}\n', b'{"t":1e300,"session":"s"}\n', b'{"session":"s"}\n', b"[]\n", b"\xff\0\n",
        b'{"t":5,"session":"s","calls":"many"}\n', b'{"t":5,"session":"s","more":[1]}\n', b'{"t":5,"sess',
    )  # fmt: skip
    assert [line.calls for line in read().lines] == [1, 0] and read().skipped == 8
    with Session.open("s") as session:
        recorder = Recorder(session)
        session.append(reply())
        recorder.heard(reply())
        recorder.close()
    assert (total().calls, read().skipped) == (2, 8)
    assert b'{"t":5,"sess\n[' in path.read_bytes()
    assert "8 damaged or foreign lines" in orkas("stats").err
    put(folder, "notes.txt", b"x")
    put(folder, "2026-13.jsonl", b"x")
    assert read().skipped == 8


def test_several_processes_write_at_once(folder: Path):
    program = (
        "import sys\n"
        "from orkas.harness.statistics import Recorder\n"
        "from orkas.harness.sessions.session import Session\n"
        "from orkas.infra.messages import AssistantMessage, Usage\n"
        "recorder = Recorder(Session.open(sys.argv[1]))\n"
        "sys.stdin.readline()\n"
        "for n in range(500):\n"
        "    recorder.heard(AssistantMessage([], 'v/m', usage=Usage(1, 2)))\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, f"s{n}"], stdin=subprocess.PIPE) for n in range(3)
    ]
    for child in children:
        child.communicate(b"go\n")
        assert child.returncode == 0
    assert (total().calls, total().input, read().skipped) == (1500, 1500, 0)


# --- months that are over -----------------------------------------------------------------------------------------

NOON = 1_767_268_800  # 2026-01-01T12:00:00Z


def january(folder: Path) -> Path:
    lines = [
        Line(NOON + day * 86_400 + n, f"s{n % 2}", "v/m", 1, input=10, cost_usd=0.25, tools={"shell": ToolUse(1, 1)})
        for day in range(10) for n in range(20)
    ]  # fmt: skip
    return put(folder, "2026-01.jsonl", *lines, b"torn")


def test_a_month_that_is_over_is_replaced_by_its_sums_and_says_the_same(folder: Path):
    path = january(folder)
    size = path.stat().st_size
    first = read()
    assert (first.skipped, len(first.lines)) == (1, 20)  # ten days of two sessions
    assert path.stat().st_size < size / 5
    kept = path.read_bytes()
    again = read()
    assert again.lines == first.lines and again.skipped == 1 and path.read_bytes() == kept
    used = total()
    assert (used.calls, used.input, used.cost_usd) == (200, 2000, 50.0)
    assert used.tools == {"shell": ToolUse(200, 200)}
    path.write_bytes(kept + b'{"t":%d,"session":"late","calls":1}\n' % NOON)  # a clock that was set back
    assert total().calls == 201


def test_the_running_month_is_left_as_it_is(folder: Path):
    now = int(time.time())
    path = put(folder, time.strftime("%Y-%m.jsonl", time.gmtime()), *[Line(now, "s", "m", 1)] * 5)
    kept = path.read_bytes()
    assert len(read().lines) == 5 and path.read_bytes() == kept


def test_a_month_that_cannot_be_replaced_is_read_all_the_same(folder: Path):
    path = january(folder)
    folder.chmod(0o500)
    try:
        assert len(read().lines) == 20
    finally:
        folder.chmod(0o700)
    assert path.exists()


def test_what_cannot_be_read_stays_when_a_month_is_replaced(folder: Path):
    new = b'{"t":1587000000,"session":"new","v2":{"calls":1},"calls":"7"}\n'
    absurd = b'{"t":1587000000,"session":"s","calls":1,"cost_usd":1e308}\n'
    path = put(folder, "2020-04.jsonl", Line(1587000000, "s", calls=1), new, absurd, Line(1587000001, "s", calls=2), b"torn")
    for _ in range(3):
        found = read()
        assert ([line.calls for line in found.lines], found.skipped) == ([3], 3)
        assert path.read_bytes().startswith(b'{"summed":true}\n')
        assert new in path.read_bytes() and absurd in path.read_bytes() and b"torn\n" in path.read_bytes()
    assert [p.name for p in folder.iterdir()] == [path.name]


def test_no_sum_is_more_than_can_be_read_again(folder: Path):
    most = Line(1587000000, "s", calls=2**53, cost_usd=1e12, tools={"t": ToolUse(2**53, 2**53, 2**53)})
    put(folder, "2020-04.jsonl", *[most] * 3)
    assert read().lines == read().lines == [most]


def test_a_month_replaced_under_a_writer_loses_none_of_its_lines(folder: Path):
    with Session.open("t") as session:
        recorder = Recorder(session)
        recorder.heard(reply(input=1, output=1))
        [path] = folder.iterdir()
        statistics._replace(path)  # as a process whose clock is months ahead does
        for _ in range(5):
            recorder.heard(reply(input=1, output=1))
        path.unlink()
        recorder.heard(reply(input=1, output=1))
        assert total().calls == 1
        path.unlink()
        path.mkdir()
        recorder.heard(reply(input=1, output=1))
        recorder.close()
        assert recorder.trouble()
    assert read().lines == []
    assert "is no file" in statistics.check()


def test_lines_of_before_and_after_a_replacement_add_up(folder: Path):
    with Session.open("t") as session:
        recorder = Recorder(session)
        for n in range(6):
            recorder.heard(reply(input=1, output=1))
            if n == 2:
                statistics._replace(next(folder.iterdir()))
        recorder.close()
    assert total().calls == 6


def test_one_process_at_a_time_replaces_a_month(folder: Path):
    path = put(folder, "2020-04.jsonl", *[Line(1587000000, "s", calls=1)] * 2)
    before = path.read_bytes()
    with files.Lock(folder / "2020-04.lock"):
        assert [line.calls for line in read().lines] == [2]
        assert path.read_bytes() == before
    read()
    assert path.read_bytes() != before


def test_a_folder_with_the_name_of_a_month_breaks_nothing(folder: Path):
    put(folder, "2020-04.jsonl", Line(1587000000, "s", calls=1))
    (folder / "2020-05.jsonl").mkdir()
    assert total().calls == 1
    assert "is no file" in statistics.check()


def test_since_reads_no_month_that_ended_before(folder: Path):
    path = january(folder)
    size = path.stat().st_size
    assert read(NOON + 40 * 86_400).lines == [] and path.stat().st_size == size
    assert sum(line.calls for line in read(NOON + 5 * 86_400 - 43_200).lines) == 100


counts = st.integers(0, 1000)
lines = st.builds(
    Line, t=st.integers(NOON, NOON + 5 * 86_400), session=st.sampled_from("ab"), model=st.sampled_from(["", "v/m"]),
    calls=counts, input=counts, output=counts, unpriced=counts, retries=counts, cost_usd=st.integers(0, 9).map(float),
    tools=st.dictionaries(st.sampled_from("xy"), st.builds(ToolUse, counts, counts, counts)),
)  # fmt: skip


@given(st.lists(lines, max_size=30))
def test_sums_of_sums_are_the_sums(given: list[Line]):
    kept = [plain(line) for line in given]
    days = list(summed(given, lambda line: (day_of(line), line.session, line.model)).values())
    for key in (day_of, lambda line: line.session, lambda line: line.model, lambda _: 0):
        twice = {name: plain(line) for name, line in summed(days, key).items()}
        once = {name: plain(line) for name, line in summed(given, key).items()}
        for sums in (once, twice):
            for line in sums.values():
                for name in ("t", "session", "model"):
                    line.pop(name, None)
        assert once == twice
    assert [plain(line) for line in given] == kept


@given(st.lists(lines, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
def test_lines_of_earlier_releases_and_those_of_this_one_say_the_same(folder: Path, given: list[Line]):
    path = put(folder, "2026-01.jsonl", *given)
    before = read().lines  # this writes the month anew
    assert path.read_bytes().count(b'{"t"') == 0
    assert read().lines == before


# --- what is shown ------------------------------------------------------------------------------------------------


def today(**fields: Any) -> Line:
    return Line(int(time.time()), **{"session": "s", "model": "v/m", "calls": 1, **fields})


def test_the_command_shows_totals_models_days_and_tools(folder: Path):
    put(
        folder, time.strftime("%Y-%m.jsonl", time.gmtime()),
        today(input=100, output=50, cache_read=300, cost_usd=1.5),
        today(model="w/n", session="t", input=1_000_000, output=7, unpriced=1, retries=2),
        today(calls=0, tools={"shell": ToolUse(8, 2, 1)}),
    )  # fmt: skip
    out = orkas("stats").out
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert re.search(r"v/m +1 +100 +50 +300 +0 +75% +\$1\.50$", rows["v/m"])
    assert re.search(r"w/n +1 +1,000,000 .* 0% +-$", rows["w/n"])
    assert re.search(r"total +2 +1,000,100 +57 +300 +2 +0% +>= \$1\.50$", rows["total"])
    assert re.search(r"shell +8 +2 +25% +1 +12%", rows["shell"])
    assert "cost of 1 of 2 calls is not known" in out and "cache write" not in out
    assert "v/m" not in orkas("stats", "--session", "t").out
    assert "w/n" not in orkas("stats", "--model", "v/").out
    assert orkas("stats", "--by", "session").out.splitlines()[1].startswith("t ")


def test_the_command_as_json(folder: Path):
    put(folder, time.strftime("%Y-%m.jsonl", time.gmtime()), today(input=100, cost_usd=1.5), today(unpriced=1))
    data = orkas("stats", "--json", "--since", "1d").json
    assert set(data) == {"since", "total", "by_day", "by_model", "by_session", "by_tool", "skipped_lines"}
    assert (data["total"]["cost_usd"], data["total"]["cost_complete"], data["total"]["calls"]) == (1.5, False, 2)
    assert data["by_model"][0]["model"] == "v/m" and data["by_day"][0]["day"] == time.strftime("%Y-%m-%d")
    unknown = orkas("stats", "--json", "--session", "nobody", "--by", "day").json
    assert unknown["total"]["calls"] == 0 and unknown["by_day"] == [] and "by_model" not in unknown


def test_nothing_yet_is_one_sentence(folder: Path):
    ran = orkas("stats")
    assert (ran.status, ran.out) == (0, "") and len(ran.err.splitlines()) == 1
    assert orkas("stats", "--json").json["total"]["cost_usd"] is None
    assert not folder.exists()


def test_a_real_run_is_counted(folder: Path):
    assert orkas("run", "find parser", "--session", "trip", *DEMO).status == 0
    assert orkas("run", "go on", "--session", "other", *DEMO).status == 0
    data = orkas("stats", "--json", "--session", "trip").json
    assert data["total"]["calls"] >= 2 and data["by_tool"][0]["calls"] >= 1
    assert [row["model"] for row in data["by_model"]] == ["demo/offline"]
    assert all(p.stat().st_mode & 0o077 == 0 for p in (folder, *folder.iterdir()))


NOW = time.mktime((2026, 11, 30, 15, 30, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("today", (2026, 11, 30, 0, 0)), ("7d", (2026, 11, 23, 0, 0)), ("1w", (2026, 11, 23, 0, 0)),
        ("12h", (2026, 11, 30, 3, 30)), ("2026-11-05", (2026, 11, 5, 0, 0)), ("2026-11-05T10:00", (2026, 11, 5, 10, 0)),
    ],
)  # fmt: skip
def test_moments_to_begin_at(said: str, meant: tuple[int, ...]):
    assert stats.since_moment(said, NOW) == time.mktime((*meant, 0, 0, 0, -1))


@pytest.mark.parametrize("said", ["", "7", "d", "0d", "-1d", "yesterday", "2026-13-01", "99999w", "٧d", "1y", "x" * 500])
def test_what_is_no_moment_is_wrong_usage(said: str):
    with pytest.raises(UsageError, match="2026-11-30"):
        stats.since_moment(said, NOW)


async def test_the_retry_is_counted_although_the_turn_fails():
    busy = ProviderError("busy", class_="overloaded", wait_s=0)
    with Session.open("s") as session:
        agent = Agent(ScriptedProvider([busy] * 3), session=session, tools=[], max_retries=2)
        told = [e async for e in agent.stream("go") if isinstance(e, Retry)]
    assert total().retries == len(told) == 2 and total().calls == 0


def test_the_folder_is_under_the_home():
    assert statistics.folder() == Path(os.environ["ORKAS_HOME"], "stats")
