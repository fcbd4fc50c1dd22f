"""A call that needs a yes: asked before it begins, answered by id, bound to what was shown, safe through any end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from cli_support import orkas
from orkas import Agent, Session, ToolContext, ToolResult, tool
from orkas.harness import pairing
from orkas.harness.policy import Policy
from orkas.harness.policy.grants import path as grants_file
from orkas.harness.policy.grants import revoke, stored
from orkas.harness.policy.rules import Rule, Rules
from orkas.infra import files
from orkas.infra.errors import UsageError
from orkas.infra.events import Approval, Done, Event, ToolEnd, ToolStart, UserInput, decode, encode
from orkas.infra.home import home
from orkas.infra.messages import ToolMessage, text_of
from orkas.testing import ScriptedProvider, call


def agent_for(tmp_path: Path, *replies: Any, **options: Any) -> Agent:
    return Agent(ScriptedProvider([*replies, "done", "done"]), cwd=tmp_path, **options)


async def told(agent: Agent, *answers: str, prompt: str = "go") -> list[Event]:
    """The events of a turn whose questions are answered one after another."""
    waiting = list(answers)
    found: list[Event] = []
    async with aclosing(agent.stream(prompt)) as events:
        async for event in events:
            found.append(event)
            if isinstance(event, Approval):
                agent.answer(event.id, waiting.pop(0))  # type: ignore[arg-type]
    assert not waiting
    return found


def only(kind: type[Any], events: list[Event]) -> Any:
    [found] = [e for e in events if isinstance(e, kind)]
    return found


WRITE = {"path": "a.txt", "content": "one\ntwo\n"}


async def test_it_is_asked_before_it_begins_and_runs_with_a_yes(tmp_path: Path) -> None:
    events = await told(agent_for(tmp_path, [call("write_file", **WRITE)]), "once")
    kinds = [e.type for e in events]
    assert kinds.index("approval") < kinds.index("tool_start") < kinds.index("tool_end")
    asked = only(Approval, events)
    assert asked.tool == "write_file"
    assert asked.reasons
    assert asked.scopes == ["once", "session", "always"]
    assert "a.txt" in asked.rule
    assert str(tmp_path) in asked.rule
    assert any("one" in line for line in asked.question)
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert decode(encode(asked)) == asked


async def test_a_no_is_told_to_the_model_and_nothing_runs(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE)])
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                agent.answer(event.id, "no", "use b.txt")
            if isinstance(event, ToolEnd):
                assert event.is_error
                assert "refused" in event.result
                assert "use b.txt" in event.result
    assert not (tmp_path / "a.txt").exists()


async def test_what_only_reads_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    events = await told(agent_for(tmp_path, [
        call("read_file", path="a.txt"), call("list_files"), call("search_files", pattern="h"),
        call("shell", command="ls -la | head -3 && cat a.txt"),
    ]))  # fmt: skip
    assert not any(isinstance(e, Approval) for e in events)
    assert not any(e.is_error for e in events if isinstance(e, ToolEnd))


async def test_several_are_asked_one_after_another_in_declared_order(tmp_path: Path) -> None:
    calls = [call("write_file", path=f"{n}.txt", content="x") for n in range(3)]
    events = await told(agent_for(tmp_path, calls), "once", "no", "once")
    asked = [e.call_id for e in events if isinstance(e, Approval)]
    assert asked == [c.id for c in calls]
    order = [e.type for e in events if e.type in ("approval", "tool_start", "tool_end")]
    assert order == ["approval", "tool_start", "tool_end"] * 3
    assert [(tmp_path / f"{n}.txt").exists() for n in range(3)] == [True, False, True]


async def test_a_session_grant_holds_for_the_same_file_in_the_same_agent_alone(tmp_path: Path) -> None:
    two = [call("write_file", **WRITE)], [call("edit_file", path="a.txt", old="one", new="1")]
    agent = agent_for(tmp_path, [call("write_file", **WRITE), call("write_file", path="./a.txt", content="x")])
    events = await told(agent, "session")
    assert sum(isinstance(e, Approval) for e in events) == 1
    events = await told(agent_for(tmp_path, two[0]), "once")
    assert sum(isinstance(e, Approval) for e in events) == 1
    assert not grants_file().exists()


async def test_always_is_stored_with_the_user_and_never_in_the_folder(tmp_path: Path) -> None:
    command = call("shell", command="touch made")
    await told(agent_for(tmp_path, [command]), "always")
    [grant] = stored()
    assert grant.rule == "shell: touch made"
    assert grant.folder == str(tmp_path)
    assert not any("grants" in str(p) for p in tmp_path.rglob("*"))
    assert not any(isinstance(e, Approval) for e in await told(agent_for(tmp_path, [command])))
    other = tmp_path / "other"
    other.mkdir()
    assert any(isinstance(e, Approval) for e in await told(agent_for(other, [command]), "no"))
    longer = call("shell", command="touch made; touch more")
    assert any(isinstance(e, Approval) for e in await told(agent_for(tmp_path, [longer]), "no"))
    assert revoke(1) == grant
    assert any(isinstance(e, Approval) for e in await told(agent_for(tmp_path, [command]), "no"))


def test_a_grant_that_cannot_be_read_grants_nothing(tmp_path: Path) -> None:
    files.append(grants_file(), b'{"key": 3}\n\xff\n[]\n')
    assert stored() == []
    assert Policy("ask", headless=False).decide("shell", {"command": "touch x"}).verdict == "ask"


async def test_what_always_needs_a_person_can_be_said_once_only(tmp_path: Path) -> None:
    for arguments in ({"command": "ls", "network": True}, {"command": "ls", "outside": True}, {"command": "rm -rf ."}):
        agent = agent_for(tmp_path, [call("shell", **arguments)])
        async with aclosing(agent.stream("go")) as events:
            async for event in events:
                if isinstance(event, Approval):
                    assert event.scopes == ["once"]
                    assert event.rule == ""
                    with pytest.raises(UsageError, match="once, no"):
                        agent.answer(event.id, "always")
                    agent.answer(event.id, "no")


async def test_answers_that_answer_nothing_are_refused_with_a_sentence(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE), call("write_file", path="b", content="x")])
    with pytest.raises(UsageError, match="no open question"):
        agent.answer("q1", "once")
    seen: list[str] = []
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                for id in seen:
                    with pytest.raises(UsageError, match="is over"):
                        agent.answer(id, "once")
                with pytest.raises(UsageError, match="once, session, always, no"):
                    agent.answer(event.id, "yes")  # type: ignore[arg-type]
                agent.answer(event.id, "no")
                with pytest.raises(UsageError, match="is over"):
                    agent.answer(event.id, "once")
                seen.append(event.id)
    assert len(seen) == 2
    with pytest.raises(UsageError, match="is over"):
        agent.answer(seen[0], "once")
    assert not (tmp_path / "a.txt").exists()


async def test_the_answer_may_come_late_and_from_another_thread(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE)])
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                threading.Timer(0.1, agent.answer, (event.id, "once")).start()
    assert (tmp_path / "a.txt").exists()


async def test_stop_ends_the_waiting_at_once_and_says_that_it_was_never_started(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE), call("write_file", path="b", content="x")])
    began = 0.0
    asked = ""
    kinds = []
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            kinds.append(event.type)
            if isinstance(event, Approval):
                began, asked = time.monotonic(), event.id
                threading.Timer(0.05, agent.stop).start()
            if isinstance(event, Done):
                assert event.outcome == "aborted"
    assert time.monotonic() - began < 1
    assert "tool_start" not in kinds
    results = [m for m in agent.session.messages if isinstance(m, ToolMessage)]
    assert ["not started" in text_of(m) for m in results] == [True, True]
    with pytest.raises(UsageError, match="is over"):
        agent.answer(asked, "once")


async def test_a_caller_that_leaves_while_it_waits_leaves_a_valid_session(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE)])
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                break
    assert pairing.is_paired(agent.session.messages)
    assert not (tmp_path / "a.txt").exists()
    assert (await agent.run("again")).outcome == "completed"


async def test_steering_works_while_it_waits(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE)])
    said = ""
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                said = agent.steer("and be quick")
                agent.answer(event.id, "once")
            if isinstance(event, UserInput):
                assert event.id == said
                said = ""
    assert said == ""


async def test_waiting_for_a_person_is_no_silence_of_the_tool(tmp_path: Path) -> None:
    @tool(limit_s=0.05)
    def quick() -> str:
        """Quick."""
        return "quick"

    quick.read_only = False  # type: ignore[attr-defined]
    agent = agent_for(tmp_path, [call("quick")], tools=[quick])
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                asyncio.get_running_loop().call_later(0.3, agent.answer, event.id, "once")
            if isinstance(event, ToolEnd):
                assert event.result == "quick"


async def test_what_runs_is_what_was_approved(tmp_path: Path) -> None:
    """A tool whose call changes between the yes and the run is refused."""

    class Sly:
        name = "sly"
        description = "Sly."
        read_only = False
        ran = False

        def __init__(self) -> None:
            self.parameters: dict[str, Any] = {"type": "object", "properties": {}}

        def preview(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return "nothing at all"

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            self.ran = True
            return ToolResult("ran")

    sly = Sly()
    wish = call("sly", what="ls")
    agent = agent_for(tmp_path, [wish], tools=[sly])
    async with aclosing(agent.stream("go")) as events:
        async for event in events:
            if isinstance(event, Approval):
                assert event.question == ["nothing at all"]
                agent.answer(event.id, "once")
            if isinstance(event, ToolStart):
                assert wish.arguments is not None
                asked = agent.session.messages[-1].content[-1]
                asked.arguments["what"] = "rm"  # type: ignore[union-attr, index]
            if isinstance(event, ToolEnd):
                assert "Refused by policy" in event.result
    assert not sly.ran


@pytest.mark.parametrize("mode", ["ask", "edits", "none"])
async def test_where_nobody_can_be_asked_it_is_denied_at_once(tmp_path: Path, mode: Any) -> None:
    agent = agent_for(tmp_path, [call("shell", command="curl x")], approve=mode)
    done = await agent.run("go")
    assert done.tools["shell"].errors == 1
    [result] = [m for m in agent.session.messages if isinstance(m, ToolMessage)]
    assert "--approve" in text_of(result)
    assert "not run" in text_of(result)


async def test_modes_can_change_between_calls(tmp_path: Path) -> None:
    agent = agent_for(tmp_path, [call("write_file", **WRITE)])
    agent.approve = "edits"
    assert not any(isinstance(e, Approval) for e in await told(agent))
    with pytest.raises(UsageError, match="ask, edits, all, none"):
        agent.approve = "sometimes"  # type: ignore[assignment]
    assert agent.approve == "edits"


async def test_a_question_of_a_session_on_disk_is_a_record_with_its_answer(tmp_path: Path) -> None:
    with Session.open("asked") as session:
        await told(agent_for(tmp_path, [call("write_file", **WRITE)], session=session), "once")
        path = session.path
        before = session.messages
    assert path is not None
    records = [json.loads(line) for line in path.read_text().splitlines()]
    asked, answered = [r for r in records if r.get("type") == "approval"]
    assert asked["tool"] == "write_file"
    assert answered == {"type": "approval", "id": asked["id"], "ts": answered["ts"], "answer": "once"}
    with Session.open("asked") as again:
        assert again.warnings == []
        assert again.messages == before
        assert again.loaded.synthesized == 0


CRASH = """
import asyncio, os, sys
from orkas import Agent, Session
from orkas.testing import ScriptedProvider, call

async def main():
    agent = Agent(ScriptedProvider([[call("write_file", path="a.txt", content="x"), call("list_files")], "done"]),
        cwd=sys.argv[1], session=Session.open("killed"))
    async for event in agent.stream("go"):
        if event.type == "approval":
            if sys.argv[2] == "answered":
                agent.answer(event.id, "once")
            else:
                os.kill(os.getpid(), 9)
        if event.type == "tool_start":
            os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.parametrize(("when", "truth"), [("waiting", "not started"), ("answered", "outcome unknown")])
def test_a_question_that_a_crash_leaves_open_is_told(tmp_path: Path, when: str, truth: str) -> None:
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(CRASH), str(tmp_path), when], check=False)
    assert ended.returncode == -9
    with Session.open("killed") as session:
        first, second = [m for m in session.messages if isinstance(m, ToolMessage)]
        assert truth in text_of(first)
        assert "not started" in text_of(second)
        assert any("question was open" in w for w in session.warnings) == (when == "waiting")
        session.append(*[])
    done = Agent(ScriptedProvider(["on"]), session=Session.open("killed"), cwd=tmp_path).run_sync("go on")
    assert done.outcome == "completed"
    assert not any("question was open" in w for w in Session.read("killed").warnings)


async def test_an_always_that_cannot_be_saved_is_told_and_holds_for_the_session(tmp_path: Path) -> None:
    grants_file().mkdir(parents=True)
    events = await told(agent_for(tmp_path, [call("shell", command="touch x"), call("shell", command="touch x")]), "always")
    notice = next(e for e in events if e.type == "notice")
    assert "this session only" in notice.text  # type: ignore[union-attr]
    assert sum(isinstance(e, Approval) for e in events) == 1


def test_a_rule_that_cannot_be_used_is_never_left_out_in_silence(tmp_path: Path) -> None:
    home().mkdir(exist_ok=True)
    for text in ("deny = ['shell: \"x']", "deny = 'shell'", "allow = ['*: x']", "forbid = ['x']", "ask = ['a b']",
                 "allow = ['web_fetch: https://x/']", "deny = [3]", "deny = ['shell:']"):  # fmt: skip
        (home() / "config.toml").write_text(f"[policy]\n{text}\n")
        with pytest.raises(UsageError):
            Rules.load()
        assert Policy("all").decide("shell", {"command": "ls"}).verdict == "deny"
        assert Policy("all").decide("own", {}).verdict == "deny"


def test_rules_are_taken_from_the_users_configuration(tmp_path: Path) -> None:
    home().mkdir(exist_ok=True)
    (home() / "config.toml").write_text(
        "[policy]\nallow = ['shell: npm test', 'web_fetch: docs.python.org']\ndeny = ['write_file: secrets/']\n"
    )
    policy = Policy("ask")
    context = ToolContext(tmp_path)
    assert policy.decide("shell", {"command": "npm test -- -k x"}, context).verdict == "allow"
    assert policy.decide("shell", {"command": "npm test && rm x"}, context).verdict == "deny"
    assert policy.decide("web_fetch", {"url": "https://docs.python.org/3/"}, context).verdict == "allow"
    assert policy.decide("web_fetch", {"url": "https://docs.python.org.evil.test/"}, context).verdict == "deny"
    assert Policy("all").decide("write_file", {"path": "secrets/x"}, context).verdict == "deny"
    assert Rule.read("deny", "shell: npm test").words == ("npm", "test")


async def test_a_grant_does_not_hold_in_a_weaker_sandbox(tmp_path: Path) -> None:
    command = call("shell", command="touch made")
    await told(agent_for(tmp_path, [command]), "always")
    assert any(isinstance(e, Approval) for e in await told(agent_for(tmp_path, [command], sandbox=False), "no"))


def test_what_was_approved_for_always_is_listed_and_taken_back(tmp_path: Path) -> None:
    asyncio.run(told(agent_for(tmp_path, [call("shell", command="touch made")]), "always"))
    listed = orkas("policy", "grants", "--json")
    [grant] = listed.json
    assert grant["folder"] == str(tmp_path)
    assert "shell: touch made" in orkas("policy", "grants").out
    orkas("policy", "revoke", "2").refused(2, "no approval 2")
    assert orkas("policy", "revoke", "1").status == 0
    assert orkas("policy", "grants", "--json").json == []
    checked = orkas("policy", "check", "--json", "touch x").json
    assert (checked["verdict"], checked["effect"]) == ("allow", "writes")


def test_a_headless_run_denies_and_says_what_would_allow_it(tmp_path: Path) -> None:
    (home() / "config.toml").write_text("[policy]\ndeny = ['shell: \"x']\n")
    orkas("run", "--model", "demo/offline", "hello").refused(2, "[policy]")
    assert "No tool runs" in orkas("doctor").out
    (home() / "config.toml").unlink()
    ran = orkas("tool", "run", "--approve", "ask", "write_file", json.dumps(WRITE), cwd=tmp_path)
    assert ran.status == 4
    assert "--approve edits would allow it" in ran.out
    assert orkas("tool", "run", "write_file", json.dumps(WRITE), cwd=tmp_path).status == 0
    assert orkas("tool", "run", "shell", '{"command": "sudo id"}', cwd=tmp_path).status == 4


async def test_a_question_shows_no_secret_and_keeps_none(tmp_path: Path) -> None:
    key = "zQ83hunter-Kf92mmXw71pp"
    (tmp_path / ".env").write_text(f"SERVICE_API_KEY={key}\n")
    with Session.open("quiet") as session:
        agent = Agent(
            ScriptedProvider([[call("edit_file", path=".env", old_text="SERVICE", new_text="OTHER")], "done"]),
            cwd=tmp_path, session=session, approve="ask",
        )  # fmt: skip
        asked = only(Approval, await told(agent, "no"))
    assert asked.question
    assert key not in encode(asked).decode()
    assert not [p for p in home().rglob("*") if p.is_file() and key.encode() in p.read_bytes()]


@pytest.mark.parametrize("name", ["write_file", "read_file"])
async def test_a_name_no_file_can_have_ends_no_turn(tmp_path: Path, name: str) -> None:
    more = {"content": "x"} if name == "write_file" else {}
    agent = agent_for(tmp_path, [call("write_file", **WRITE), call(name, path="a\0b", **more)])
    events = await told(agent, "once")
    assert only(Done, events).outcome == "completed"
    assert [e.is_error for e in events if isinstance(e, ToolEnd)] == [False, True]


async def test_a_preview_that_fails_leaves_the_question_with_its_arguments(tmp_path: Path) -> None:
    class Send:
        name, description, parameters, read_only = "send", "", {"type": "object"}, False

        def preview(self, arguments: dict[str, Any], context: ToolContext) -> str:
            raise RuntimeError("broken")

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return "sent"

    agent = Agent(ScriptedProvider([[call("send", text="hi")], "done"]), tools=[Send()], cwd=tmp_path)
    events = await told(agent, "once")
    assert only(Done, events).outcome == "completed"
    assert any("hi" in line for line in only(Approval, events).question)
