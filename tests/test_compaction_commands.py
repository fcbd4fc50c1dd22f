"""``orkas session compact``, ``orkas session uncompact``, and what the chat offers of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_support import CUSTOM, DEMO, orkas, serving
from orkas import Session
from orkas.harness.context.summary import HEADINGS
from orkas.infra.messages import AssistantMessage, Text, ToolCall, text_of, tool_result, user_message
from test_chat import Start, start  # noqa: F401 - the chat at a terminal, as a fixture

GOOD = "## Goal\nA trip to Lisbon.\n## Done\nThe hotel is booked.\n## Next step\nThe train."


@pytest.fixture
def trip() -> str:
    with Session.open("trip") as session:
        session.append(user_message("Plan a trip to Lisbon."))
        for n in range(20):
            asks = ToolCall(id=f"c{n}", name="shell", arguments={"command": f"look {n}"})
            session.append(AssistantMessage([asks]), tool_result(f"c{n}", f"hotel number {n} " * 40))
        session.append(AssistantMessage([Text(text="The hotel is booked.")], stop_reason="stop"))
    return "trip"


def test_compact_and_back(trip: str) -> None:
    before = Session.read(trip).messages
    with serving([GOOD]) as model:
        ran = orkas("session", "compact", trip, "--keep", "the hotels", *CUSTOM, "--json", env=model.env)
        assert ran.status == 0, ran.err
        assert ran.json["id"] == trip and ran.json["method"] == "summary"
        assert 0 < ran.json["tokens_after"] < ran.json["tokens_before"]
        assert "the hotels" in str(model.requests[0]["messages"][-1]) and model.requests[0]["tool_choice"] == "none"
    shown = orkas("session", "show", trip)
    assert "The hotel is booked." in shown.out and len(Session.read(trip).messages) < len(before)
    back = orkas("session", "uncompact", trip)
    assert back.status == 0 and "has 42 now" in back.out
    assert Session.read(trip).messages == before
    orkas("session", "uncompact", trip).refused(2, "no compaction to take back")


def test_compact_for_people(trip: str) -> None:
    with serving([GOOD]) as model:
        ran = orkas("session", "compact", trip, *CUSTOM, env=model.env)
    assert ran.status == 0 and "tokens before" in ran.out and "orkas session uncompact trip" in ran.out


def test_a_summary_that_is_none_changes_nothing(trip: str) -> None:
    before = Session.read(trip).messages
    with serving(["  "]) as model:
        orkas("session", "compact", trip, *CUSTOM, env=model.env).refused(
            1, "could not be summarised", "nothing was changed", "another model"
        )
    with serving(401) as model:
        orkas("session", "compact", trip, *CUSTOM, env=model.env).refused(3, "could not be summarised")
    assert Session.read(trip).messages == before


def test_the_demo_lists_what_was_asked_and_what_ran(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n" * 300)
    for question in ("Read a.txt", "Which file here is the largest?", "What is 2 + 3?", "Read a.txt"):
        assert orkas("run", question, "--session", "tour", *DEMO, cwd=tmp_path).status == 0
    assert orkas("session", "compact", "tour", *DEMO).status == 0
    summary = text_of(Session.read("tour").messages[0])
    assert [line[3:] for line in summary.splitlines() if line.startswith("## ")] == list(HEADINGS)
    assert "- asked: Which file here is the largest?" in summary and '- ran read_file {"path":"a.txt"}' in summary
    assert orkas("run", "Read a.txt", "--session", "tour", *DEMO, cwd=tmp_path).status == 0
    assert orkas("session", "compact", "tour", *DEMO).status == 0
    assert "- asked: Which file here is the largest?" in text_of(Session.read("tour").messages[0])  # carried on
    orkas("session", "uncompact", "tour")
    assert orkas("session", "uncompact", "tour").status == 0


def test_too_little_to_summarise_says_so(tmp_path: Path) -> None:
    orkas("run", "Hello", "--session", "short", *DEMO)
    orkas("run", "Hello again", "--session", "short", *DEMO)
    orkas("session", "compact", "short", *DEMO).refused(1, "go on first")


def test_nothing_to_summarise_is_one_sentence() -> None:
    with Session.open("short") as session:
        session.append(user_message("Hello"))
    with serving([GOOD]) as model:
        orkas("session", "compact", "short", *CUSTOM, env=model.env).refused(2, "nothing to summarise")
        assert not model.requests
    orkas("session", "compact", "nowhere", *DEMO).refused(1, "there is no session")
    orkas("session", "uncompact", "nowhere").refused(1, "there is no session")


def test_a_run_that_compacts_says_so(trip: str) -> None:
    with Session.open(trip) as session:
        for n in range(400):
            asks = ToolCall(id=f"d{n}", name="shell", arguments={"command": f"look {n}"})
            session.append(AssistantMessage([asks]), tool_result(f"d{n}", f"hotel number {n} " * 300))
    with serving([GOOD], ["On to the train."]) as model:
        ran = orkas("run", "Go on.", "--session", trip, *CUSTOM, "--json", env=model.env)
    assert ran.status == 0
    [told] = [e for e in ran.events if e["type"] == "compaction"]
    assert told["tokens_after"] < told["tokens_before"]
    assert text_of(Session.read(trip).messages[-1]) == "On to the train."


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a POSIX thing")
def test_the_chat_compacts_and_takes_it_back(trip: str, start: Start) -> None:  # noqa: F811
    count = len(Session.read(trip).messages)
    terminal = start(repr([GOOD]), session=trip)
    terminal.say("/compact the hotels")
    terminal.shows("The conversation was summarised:")
    terminal.say("/session")
    terminal.ready()
    assert len(Session.read(trip).messages) < count
    terminal.say("/uncompact")
    terminal.shows("messages restored")
    terminal.say("/uncompact")
    terminal.shows("no compaction to take back")
    terminal.ready()
    terminal.key("\x04")
    assert terminal.ended() == 0
    assert len(Session.read(trip).messages) == count
