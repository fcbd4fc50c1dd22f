"""A conversation under everything that may happen to it, in any order, against a plain list of what must be there."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from orkas import Agent, Session
from orkas.harness.pairing import cut_points, is_paired
from orkas.harness.sessions import shelf
from orkas.infra.messages import AssistantMessage, Message, Text, encode, text_of, tool_result, user_message
from orkas.testing import ScriptedProvider, call

FULL = os.environ.get("ORKAS_CRASH") == "full"
pytestmark = pytest.mark.timeout(3600)


def words(messages: list[Message]) -> list[str]:
    """What was said and what was found out; results made up by us say nothing."""
    return [text_of(m) for m in messages if text_of(m) and not getattr(m, "synthetic", False)]


class Conversation(RuleBasedStateMachine):
    """``expected`` is the model: the words of the conversation; ``shelved``: those of the other sessions."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orkas-crash-"))
        self.before = os.environ.get("ORKAS_HOME")
        self.generation = self.count = 0
        self.expected: list[str] = []
        self.shelved: dict[str, list[str]] = {}
        self._move(self.root / "0")
        self.name = "s"
        self.vendor = "one"
        self.session = Session.open(self.name)

    def teardown(self) -> None:
        self.session.close()
        shutil.rmtree(self.root)
        if self.before is None:
            os.environ.pop("ORKAS_HOME")
        else:
            os.environ["ORKAS_HOME"] = self.before

    def _move(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        os.environ["ORKAS_HOME"] = str(home)

    def _word(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _provider(self, *replies: object) -> ScriptedProvider:
        provider = ScriptedProvider(replies)  # type: ignore[arg-type]
        provider.id = self.vendor
        return provider

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(count=st.integers(0, 3), size=st.sampled_from([1, 1, 60_000]))
    def turn(self, count: int, size: int) -> None:
        """A whole turn, with some calls."""
        asked, answer = self._word("u"), self._word("a")
        results = [self._word("r") for _ in range(count)]
        given = iter(results)

        def work() -> str:
            return next(given) + " " * (size > 1) + "x" * (size - 1)

        calls = [call("work", id=f"k{n}") for n in range(count)]  # the same ids in every turn, as some vendors do
        provider = self._provider(*[[c for c in calls]] * (count > 0), answer)
        done = asyncio.run(Agent(provider, tools=[work], session=self.session).run(asked))
        assert done.outcome == "completed"
        assert all(is_paired(r.messages) for r in provider.requests)
        self.expected += [asked, *results, answer]

    @rule(count=st.integers(1, 3), place=st.integers(0, 2))
    def stop(self, count: int, place: int) -> None:
        """Stop, pressed while a tool runs."""
        place = min(place, count - 1)
        asked = self._word("u")
        results = [self._word("r") for _ in range(place)]
        given = iter(results)

        async def work() -> str:
            if (found := next(given, None)) is not None:
                return found
            agent.stop()
            await asyncio.sleep(60)
            raise AssertionError

        calls = [call("work", id=f"k{n}") for n in range(count)]
        agent = Agent(self._provider(calls), tools=[work], session=self.session)
        done = asyncio.run(agent.run(asked))
        assert done.outcome == "aborted"
        made = [text_of(m) for m in self.session.messages[-count:]]
        assert ["outcome unknown" in t for t in made[place:]] == [True] + [False] * (count - place - 1)
        assert all("not started" in t for t in made[place + 1 :])
        self.expected += [asked, *results]

    @rule(done=st.integers(0, 3), torn=st.integers(0, 200))
    def crash(self, done: int, torn: int) -> None:
        """The process dies in a round, at the record of a result; what lies on disk is found by the next one."""
        asked = self._word("u")
        results = [self._word("r") for _ in range(done)]
        ids = [f"{self._word('c')}" for _ in range(done + 2)]
        calls = [call("t", id=i) for i in ids]
        self.session.append(user_message(asked), AssistantMessage([*calls], starts=ids[0]))
        for n, text in enumerate(results):
            self.session.append(replace(tool_result(ids[n], text), starts=ids[n + 1]))
        cut = encode(tool_result(ids[done], "never saved " * 20))[:torn]
        old = self.session
        self.generation += 1
        shutil.copytree(self.home, self.root / str(self.generation), ignore=shutil.ignore_patterns("*.lock"))
        old.close()
        self._move(self.root / str(self.generation))
        with (self.home / f"sessions/{self.name}.jsonl").open("ab") as file:
            file.write(cut)
        self.session = Session.open(self.name)
        fates = [text_of(m) for m in self.session.messages[-2:]]
        assert "not started" in fates[1]
        assert "outcome unknown" in fates[0] or ("this call was done" in fates[0] and ids[done].encode() in cut)
        self.expected += [asked, *results]

    @rule(keep=st.integers(0, 5))
    def compact(self, keep: int) -> None:
        points = cut_points(self.session.messages)
        at = points[max(0, len(points) - 1 - keep)]
        summary = self._word("sum")
        kept = self.session.messages[at:]
        self.session.rewrite([replace(user_message(summary), origin="summary"), *kept])
        self.expected = [summary, *(self.expected[len(self.expected) - len(words(kept)) :] if words(kept) else [])]

    @precondition(lambda self: self.expected)
    @rule(back=st.integers(0, 5))
    def rewind(self, back: int) -> None:
        self.session.close()
        messages = Session.read(self.name).messages
        points = cut_points(messages)
        to = points[max(0, len(points) - 1 - back)]
        self.expected = self.expected[: len(words(messages[:to]))]
        shelf.rewind(self.name, to)
        self.session = Session.open(self.name)

    @precondition(lambda self: self.expected)
    @rule(stay=st.booleans())
    def fork(self, stay: bool) -> None:
        self._arrived(shelf.fork(self.name), self.expected, stay)

    @rule(stay=st.booleans(), torn=st.integers(0, 80))
    def fetch(self, stay: bool, torn: int) -> None:
        """A session file from elsewhere, damaged in its middle and at its end."""
        first, second = self._word("i"), self._word("i")
        records = [encode(user_message(first)), b"{bad", encode(user_message(second)), encode(tool_result("c", "orphan"))]
        path = self.root / "foreign.jsonl"
        path.write_bytes(b"\n".join(records) + b"\n" + encode(user_message("cut"))[:torn])
        whole = torn >= len(encode(user_message("cut")))
        self._arrived(shelf.import_file(path), [first, second, *["cut"] * whole], stay)

    @rule(vendor=st.sampled_from(["one", "two", "three"]))
    def switch(self, vendor: str) -> None:
        """Another model goes on with the conversation from the next turn."""
        self.vendor = vendor

    @rule()
    def reopen(self) -> None:
        self.session.close()
        self.session = Session.open(self.name)

    def _arrived(self, name: str, expected: list[str], stay: bool) -> None:
        if stay:
            self.shelved[name] = list(expected)
            return
        self.session.close()
        self.shelved[self.name] = self.expected
        self.name, self.expected = name, list(expected)
        self.session = Session.open(name)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def memory_and_disk_tell_what_happened(self) -> None:
        if not hasattr(self, "session"):
            return
        messages = self.session.messages
        assert is_paired(messages)
        assert [w.split(" ")[0] for w in words(messages)] == self.expected
        assert not self.session.unsaved
        spilled = [b.file for m in messages for b in m.content if isinstance(b, Text) and b.file]
        assert all(self.session.media(file) for file in spilled)
        if messages:
            assert Session.read(self.name).messages == messages

    @invariant()
    def the_others_are_as_they_were(self) -> None:
        for name, expected in getattr(self, "shelved", {}).items():
            if expected:
                assert [w.split(" ")[0] for w in words(Session.read(name).messages)] == expected


Conversation.TestCase.settings = settings(
    max_examples=200 if FULL else 15,
    stateful_step_count=30 if FULL else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestConversation = Conversation.TestCase
