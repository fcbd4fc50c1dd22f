"""Commands in the background and pseudo-terminals: through the tools and the agent, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orkas
from orkas import Agent, Session
from orkas.harness.commands.typed import takes_commands
from orkas.harness.policy import Policy
from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.child import STOP_GRACE_S
from orkas.infra.errors import ToolFailed, UsageError
from orkas.infra.events import Done, Event, Notice, ToolEnd, ToolStart
from orkas.infra.job import GRACE_S
from orkas.infra.jobs import MAX_RUNNING, Jobs
from orkas.infra.messages import text_of
from orkas.infra.orphans import note, reap
from orkas.infra.output import screen_text
from orkas.infra.sandbox import find
from orkas.providers.base import CompletionParams
from orkas.testing import ScriptedProvider, call
from orkas.tools.shell import Shell
from orkas.tools.shell_job import ShellJob
from orkas.tools.stored import ReadResult

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shell tool needs a POSIX system")
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
CHILD_ENV = os.environ | {"PYTHONPATH": str(Path(orkas.__file__).parents[1])}


class Bench:
    """A working folder, the tools and the jobs of one agent."""

    def __init__(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        self.mark = str(tmp_path)
        self.jobs = Jobs()
        self.context = ToolContext(
            Path(os.path.realpath(tmp_path / "work")), files=tmp_path / "files", env={"TEST_MARK": self.mark},
            jobs=self.jobs,
        )  # fmt: skip
        if find().backend is None:
            self.context.sandbox = "off"

    async def start(self, command: str, **more: Any) -> str:
        """The name of a new job."""
        result = await Shell().run({"command": command, "background": True, **more}, self.context)
        found = re.search(r"\[(job-\w+) runs in the background", result.text)
        assert found, result.text
        return found[1]

    async def do(self, action: str, job: str | None = None, **more: Any) -> ToolResult:
        result = await ShellJob().run({"action": action, "job": job, **more}, self.context)
        return result if isinstance(result, ToolResult) else ToolResult(result)

    async def text(self, action: str, job: str | None = None, **more: Any) -> str:
        return (await self.do(action, job, **more)).text

    async def until(self, words: str, job: str, **typed: Any) -> str:
        """Read on until these words have come; all that was read. ``typed``: written first."""
        read = await self.text("write", job, wait_s=5, **typed) if typed else ""
        give_up = time.monotonic() + 10
        while words not in read:
            assert time.monotonic() < give_up, read
            read += await self.text("read", job, wait_s=5)
        return read

    def survivors(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"TEST_MARK={self.mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
        return found

    async def nobody_left(self, within_s: float = 2) -> None:
        until = time.monotonic() + within_s
        while self.survivors():
            assert time.monotonic() < until, self.survivors()
            await asyncio.sleep(0.02)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await asyncio.to_thread(made.jobs.close)
    await made.nobody_left()


# in the background


async def test_a_job_returns_at_once_and_is_read_to_its_end(bench: Bench) -> None:
    began = time.monotonic()
    job = await bench.start("echo one; read x; echo two; read x; exit 3")
    assert time.monotonic() - began < 3
    assert await bench.text("read", job, wait_s=5) == f"one\n[{job} is still running]"
    assert await bench.text("read", job) == f"(no new output)\n[{job} is still running]"
    assert await bench.text("write", job, text="\n", wait_s=5) == f"two\n[{job} is still running]"
    assert "running for" in await bench.text("list")
    assert await bench.text("write", job, keys=["enter"], wait_s=5) == f"(no new output)\n[{job} ended with exit code 3]"
    assert await bench.text("list") == f"{job}  ended with exit code 3  echo one; read x; echo two; read x; exit 3"


async def test_one_that_fails_at_once_is_told_with_its_start(bench: Bench) -> None:
    result = await Shell().run({"command": "echo no >&2; exit 4", "background": True}, bench.context)
    assert re.fullmatch(r"no\n\[job-\w+ ended with exit code 4\]", result.text)


async def test_what_is_left_out_is_marked_and_can_be_read(bench: Bench) -> None:
    job = await bench.start("seq 1 30000; read x; seq 1 3; read x")
    while bench.jobs.find(job).whole.total < len("".join(f"{n}\n" for n in range(1, 30001))):
        await asyncio.sleep(0.01)
    result = await bench.do("read", job, wait_s=5)
    assert len(result.text) < 25_000
    assert result.text.startswith("1\n2\n3\n")
    assert f"\n30000\n[{job} is still running]" in result.text
    marked = re.search(r"\[… ([\d,]+) of ([\d,]+) new bytes left out: .* file (job-\w+\.txt), .* ([\d,]+) or", result.text)
    assert marked
    assert (marked[2], result.bytes, result.file) == ("168,894", 168_894, str(bench.context.files / marked[3]))  # type: ignore[operator]
    page = await ReadResult().run({"file": marked[3], "start": int(marked[4].replace(",", "")), "chars": 100}, bench.context)
    assert re.match(r"\d*\n\d{4}\n", str(page))
    assert await bench.text("write", job, text="\n", wait_s=5) == f"1\n2\n3\n[{job} is still running]"


async def test_a_character_that_came_in_two_parts_is_one(bench: Bench) -> None:
    job = await bench.start(r"printf 'a\xe2\x82'; read x; printf '\xac\n'; read x; printf '\xe2'")
    assert (await bench.until("a", job)).startswith("a\n")
    assert await bench.text("write", job, text="\n", wait_s=5) == f"€\n[{job} is still running]"
    assert "\ufffd\n" in await bench.until("exit code 0", job, text="\n")


async def test_a_flood_is_bounded_and_ended(bench: Bench) -> None:
    job = await bench.start("yes")
    for _ in range(2):
        assert len(await bench.text("read", job, wait_s=0.5)) < 25_000
    began = time.monotonic()
    assert f"[{job} stopped]" in await bench.text("stop", job)
    assert time.monotonic() - began < GRACE_S + 2


async def test_waiting_ends_with_output_or_with_stop(bench: Bench) -> None:
    job = await bench.start("read x; echo now; sleep 60")
    began = time.monotonic()
    reading = asyncio.create_task(bench.text("read", job, wait_s=60))
    await asyncio.to_thread(bench.jobs.find(job).write, b"\n")
    assert "now" in await reading
    reading = asyncio.create_task(bench.text("read", job, wait_s=60))
    while not bench.jobs.find(job)._watchers:  # until it waits
        await asyncio.sleep(0)
    bench.context.abort.fire()
    assert await reading == f"(no new output)\n[{job} is still running]"
    assert time.monotonic() - began < 10


async def test_there_are_not_more_than_so_many(bench: Bench) -> None:
    started = await asyncio.gather(*(bench.start("sleep 60") for _ in range(MAX_RUNNING)))
    assert len(set(started)) == MAX_RUNNING
    with pytest.raises(ToolFailed, match="background jobs run already"):
        await bench.start("sleep 60")
    await bench.do("stop", started[0])
    await bench.start("sleep 60")


async def test_many_that_ended_are_forgotten_in_the_end(bench: Bench) -> None:
    arguments = {"command": "true", "background": True}
    for _ in range(3):
        await asyncio.gather(*(Shell().run(arguments, bench.context) for _ in range(MAX_RUNNING)))
    await Shell().run(arguments, bench.context)
    assert len(bench.jobs.listed()) == 16


async def test_a_time_limit_holds_for_a_job_too(bench: Bench) -> None:
    job = await bench.start("trap 'echo closing; exit' TERM; sleep 60 & wait", timeout_s=2)
    assert "closing" in (said := await bench.until("ended", job))
    assert f"[{job} ended at its time limit]" in said


STUBBORN = ["trap '' TERM HUP INT; sleep 60; sleep 60", "setsid sleep 60 & sleep 60", "kill -STOP $$", "nohup sleep 60"]


@pytest.mark.parametrize("tty", [False, True])
async def test_nobody_survives_the_end_of_a_job(bench: Bench, tty: bool) -> None:
    jobs = await asyncio.gather(*(bench.start(command, tty=tty) for command in STUBBORN))
    began = time.monotonic()
    told = await asyncio.gather(*(bench.text("stop", job) for job in jobs))
    assert all(f"[{job} stopped]" in text for job, text in zip(jobs, told, strict=True))
    assert time.monotonic() - began < GRACE_S + 4
    await bench.nobody_left()


async def test_all_of_a_job_may_close_in_order(bench: Bench) -> None:
    job = await bench.start("sh -c \"trap 'sleep 0.5; echo closed; exit' TERM; echo up; while :; do sleep 0.1; done\"")
    await bench.until("up", job)
    assert "closed" in await bench.text("stop", job)
    slow = "trap 'sleep 0.5; echo closed; exit' TERM; while :; do sleep 0.1; done"
    job = await bench.start(f"(echo up; {slow}) & wait")
    await bench.until("up", job)
    assert "closed" in await bench.text("stop", job)


async def test_what_a_job_leaves_behind_ends_with_it(bench: Bench) -> None:
    result = await Shell().run({"command": "setsid sleep 60 >/dev/null 2>&1 & echo x", "background": True}, bench.context)
    job = result.text.split("[")[1].split(" ")[0]
    await bench.until("exit code 0", job)
    await bench.nobody_left(STOP_GRACE_S + 2)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"action": "read"}, "job is missing"),
    ({"action": "read", "job": "job-none"}, "no job 'job-none'"),
    ({"action": "look"}, "bad arguments"),
    ({"action": "write", "job": "JOB"}, "text and keys are missing"),
    ({"action": "write", "job": "JOB", "text": "a\x03"}, "control code"),
    ({"action": "write", "job": "JOB", "text": "x" * 70_000}, "longer than"),
    ({"action": "write", "job": "JOB", "keys": ["hyper-q"]}, "no key 'hyper-q'"),
    ({"action": "write", "job": "JOB", "keys": ["up"]}, "no terminal"),
    ({"action": "read", "job": "JOB", "text": "x"}, "for the action write"),
    ({"action": "read", "job": "JOB", "wait_s": -1}, "bad arguments"),
]


async def test_refusals_are_sentences(bench: Bench) -> None:
    job = await bench.start("cat")
    for arguments, words in REFUSED:
        given = {key: job if value == "JOB" else value for key, value in arguments.items()}
        with pytest.raises(ToolFailed, match=words):
            await ShellJob().run(given, bench.context)


async def test_without_a_program_that_stays_there_are_no_jobs(bench: Bench) -> None:
    bench.context.jobs = None
    with pytest.raises(ToolFailed, match="no background jobs here"):
        await bench.start("sleep 60")
    with pytest.raises(ToolFailed, match="no background jobs here"):
        await bench.do("list")


# typing


async def test_the_end_of_input_and_signals_without_a_terminal(bench: Bench) -> None:
    job = await bench.start("trap 'echo caught; exit 5' INT; cat; echo over; sleep 60")
    said = await bench.until("over", job, text="last", keys=["enter", "ctrl-d"])
    assert said.startswith("last\n")
    with pytest.raises(ToolFailed, match="is closed"):
        await bench.do("write", job, text="more")
    ended = await bench.until("exit code 5", job, keys=["ctrl-c"])
    assert "caught\n" in ended
    with pytest.raises(ToolFailed, match="has ended"):
        await bench.do("write", job, text="more")


async def test_a_signal_is_heard_once_and_by_all_at_the_same_time(bench: Bench) -> None:
    """A shell that is told after its child would end with that one's code before it hears of the signal."""
    for _ in range(5):
        job = await bench.start("n=0; trap 'n=$((n+1))' INT; sleep 60; sleep 0.1; echo heard $n; exit 5")
        await bench.do("write", job, keys=["ctrl-c"], wait_s=0)
        assert "heard 1\n" in await bench.until("exit code 5", job)


async def test_a_time_limit_of_centuries_is_none(bench: Bench) -> None:
    for limit in (1e300, float("inf"), 40 * 86_400):
        job = await bench.start("read x; echo read $x", timeout_s=limit)
        assert "read on" in await bench.until("exit code 0", job, text="on", keys=["enter"])


async def test_a_job_that_does_not_read_is_said(bench: Bench) -> None:
    job = await bench.start("sleep 60")
    await bench.do("write", job, text="x" * 60_000, wait_s=0)
    text = await bench.text("write", job, text="x" * 60_000, wait_s=0)
    assert re.search(r"it took only [\d,]+ of 60,000 bytes", text)


async def test_a_terminal_has_a_size_echoes_and_hides_passwords(bench: Bench) -> None:
    job = await bench.start("stty size; read -p 'name? ' n; echo; read -s -p 'password? ' p; echo; echo ${#p} $n; cat", tty=True)
    assert "40 120\nname? " in await bench.until("name?", job)
    assert "eve" in await bench.until("password?", job, text="eve", keys=["enter"])
    assert "hunter2" not in await bench.until("7 eve", job, text="hunter2", keys=["enter"])
    await bench.until(f"[{job} ended", job, keys=["ctrl-d"])


KEYS = {
    "enter": "0d", "tab": "09", "escape": "1b", "backspace": "7f", "up": "1b 5b 41", "left": "1b 5b 44",
    "home": "1b 5b 48", "page-down": "1b 5b 36 7e", "ctrl-a": "01", "ctrl-c": "03", "ctrl-z": "1a", "ctrl-\\": "1c",
}  # fmt: skip


async def test_keys_are_those_of_a_terminal(bench: Bench) -> None:
    codes = " ".join(KEYS.values())
    count = len(codes.split())
    job = await bench.start(f"stty raw -echo; echo ready; head -c {count} | od -An -tx1 -v -w64; sleep 60", tty=True)
    await bench.until("ready", job)
    await bench.until(codes, job, keys=list(KEYS))


async def test_an_interactive_shell_is_interrupted_and_ended(bench: Bench) -> None:
    job = await bench.start("bash --norc", tty=True)
    await bench.until("$", job) if os.geteuid() else await bench.until("#", job)
    await bench.until("42\n", job, text="echo $((6*7))", keys=["enter"])
    await bench.until("ready\n", job, text="echo re''ady; sleep 60", keys=["enter"])
    await bench.until("^C", job, keys=["ctrl-c"])
    await bench.until("130\n", job, text="echo $?", keys=["enter"])
    began = time.monotonic()
    await bench.do("stop", job)
    assert time.monotonic() - began < 1.5  # it ignores SIGTERM, and is hung up


async def test_a_single_command_can_have_a_terminal(bench: Bench) -> None:
    command = r"test -t 0 && test -t 1 && echo yes; exec 3<>/dev/tty && echo own >&3; printf 'a\rb\033[31mred\033[0m\n'"
    result = await Shell().run({"command": command, "tty": True, "timeout_s": 5}, bench.context)
    assert result.text == "yes\nown\nbred\n[exit code 0]"
    waiting = await Shell().run({"command": "read x", "tty": True, "timeout_s": 0.5}, bench.context)
    assert "time limit" in waiting.text


def test_what_stands_on_the_screen_in_the_end() -> None:
    assert screen_text(b"10 %\r50 %\r100 %\r\ndone") == "100 %\ndone"
    assert screen_text(b"working...\r\x1b[Kok\r\n") == "ok\n"
    assert screen_text(b"abc\b\bX\r\n") == "aXc\n"
    assert screen_text(b"\x1b]0;title\x07\x1b[?25l\x1b[1;32mgreen\x1b[0m\x1b(B") == "green"
    assert screen_text(b"\x1b]52;c;aGk") == "\u241b]52;c;aGk"
    assert screen_text("\x9b2Jx\x85".encode()) == "x\\x85"


@given(st.text(alphabet="\x1b[]PX0;?KJm\x07\\\r\b\n\x9b\x9d\u202eab", max_size=60).map(str.encode) | st.binary(max_size=60))
def test_nothing_on_the_screen_drives_a_terminal(data: bytes) -> None:
    shown = screen_text(data)
    assert not [c for c in shown if c not in "\t\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E)]
    shown.encode()


# inside the walls


async def test_a_socket_in_the_private_folder_reaches_another_command(bench: Bench) -> None:
    if find().backend is None or find().backend.name != "bubblewrap":  # type: ignore[union-attr]
        pytest.skip("Landlock has no sockets")
    serve = (
        "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen(); print('up', flush=True);"
        " c = s.accept()[0]; c.sendall(b'hello'); c.close()\""
    )
    job = await bench.start(serve)
    await bench.until("up", job)
    ask = "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/s'); print(s.recv(9))\""
    assert "b'hello'" in (await Shell().run({"command": ask}, bench.context)).text


async def test_a_port_is_reached_only_where_both_have_the_network(bench: Bench) -> None:
    if find().backend is None:
        pytest.skip("there are no walls here")
    serve = (
        "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); print('up', s.getsockname()[1], flush=True);"
        " s.accept()[0].sendall(b'hello'); input()\""
    )
    for network, word in ((False, "refused"), (True, "b'hello'")):
        job = await bench.start(serve, network=network)
        port = (await bench.until("up", job)).split()[1]
        ask = f"python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(9))\""
        text = (await Shell().run({"command": ask, "network": True}, bench.context)).text
        assert word in text


async def test_what_a_job_may_not_make_is_set_aside_and_told(tmp_path: Path) -> None:
    if find().backend is None:
        pytest.skip("there are no walls here")
    replies = [
        [call("shell", command="mkdir .vscode; read x", background=True)],
        lambda request: [call("shell_job", action="write", job=job_in(request), keys=["enter"], wait_s=10)],
        [call("list_files", path=".")],
        "done",
    ]
    async with agent_of(tmp_path, replies) as agent:
        events = await drained(agent, "go")
    said = ".vscode is not for commands to make; it lies in .vscode.set-aside now"
    assert said in [event.result for event in events if isinstance(event, ToolEnd)][1]
    assert any(said in text for text in notices(events))


async def test_stop_before_a_job_is_known_of_ends_it(tmp_path: Path) -> None:
    async with agent_of(tmp_path, [[call("shell", command="sleep 60", background=True)], "never"]) as agent:

        def stop(event: Event) -> None:
            if isinstance(event, ToolStart):
                agent.stop()

        await drained(agent, "go", stop)
        for job in agent.jobs:
            assert await asyncio.to_thread(job.wait, 10)


# who is told, and when it ends


def job_in(request: CompletionParams) -> str:
    found = re.findall(r"job-[0-9a-f]{4}", " ".join(text_of(m) for m in request.messages))
    return found[0]


def agent_of(work: Path, replies: list[Any], **more: Any) -> Agent:
    walls = find().backend is not None
    return Agent(ScriptedProvider(replies), cwd=work, approve="all", sandbox=walls, **more)


async def drained(agent: Agent, prompt: str, on: Callable[[Event], object] = lambda _: None) -> list[Event]:
    events = []
    async for event in agent.stream(prompt):
        events.append(event)
        on(event)
    return events


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


async def test_the_end_of_a_job_is_told_once_to_model_and_user(tmp_path: Path) -> None:
    replies = [
        [call("shell", command="read x < fifo; exit 7", background=True)],
        [call("shell", command="mkfifo fifo; echo > fifo; sleep 0.5")],
        [call("list_files", path=".")],
        "done",
    ]
    replies[0] = [call("shell", command="mkfifo fifo; read x < fifo; exit 7", background=True)]
    replies[1] = [call("shell", command="echo > fifo; sleep 0.5")]
    async with agent_of(tmp_path, replies) as agent:
        events = await drained(agent, "go")
        results = [event.result for event in events if isinstance(event, ToolEnd)]
        name = agent.jobs[0].name
        told = f"[{name} ended with exit code 7; read its last output with shell_job]"
        assert [told in result for result in results] == [False, True, False]
        assert [text for text in notices(events) if "Background job" in text] == [
            f"Background job {name} (mkfifo fifo; read x < fifo; exit 7): ended with exit code 7."
        ]


async def test_what_ended_between_two_turns_is_told_in_the_next(tmp_path: Path) -> None:
    replies = [[call("shell", command="sleep 0.6", background=True)], "ok", [call("list_files", path=".")], "done"]
    async with agent_of(tmp_path, replies) as agent:
        await agent.run("go")
        before = list(agent.session.messages)
        await asyncio.to_thread(agent.jobs[0].wait, 10)
        events = await drained(agent, "and now?")
        assert agent.session.messages[: len(before)] == before
        assert "ended with exit code 0" in notices(events)[0]
        assert "ended with exit code 0" in next(e.result for e in events if isinstance(e, ToolEnd))


async def test_stop_ends_the_turn_and_not_the_job(tmp_path: Path) -> None:
    replies = [[call("shell", command="sleep 60", background=True)], [call("shell", command="sleep 61")], "never"]
    async with agent_of(tmp_path, replies) as agent:
        ended: list[float] = []

        def stop(event: Event) -> None:
            if isinstance(event, ToolEnd) and "runs in the background" in event.result:
                asyncio.get_running_loop().call_later(0.2, lambda: (ended.append(time.monotonic()), agent.stop()))

        events = await drained(agent, "go", stop)
        assert time.monotonic() - ended[0] < 1
        assert isinstance(events[-1], Done)
        assert events[-1].outcome == "aborted"
        assert any(text.startswith("Still running in the background: job-") for text in notices(events))
        [job] = agent.jobs
        assert job.running
        with pytest.raises(UsageError, match="no background job"):
            await agent.stop_job("job-none")
        assert (await agent.stop_job(job.name)).state == "stopped"


async def test_the_end_of_the_agent_ends_its_jobs(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, [[call("shell", command="sleep 60", background=True)], "ok"])
    await agent.run("go")
    [job] = agent.jobs
    await agent.aclose()
    assert not job.running


async def test_an_agent_that_is_forgotten_ends_its_jobs(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, [[call("shell", command="sleep 60", background=True)], "ok"])
    await agent.run("go")
    [job] = agent.jobs
    del agent
    import gc

    gc.collect()
    assert await asyncio.to_thread(job.wait, 10)


def test_a_job_outlives_the_event_loop_and_not_the_agent(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, [[call("shell", command="sleep 60", background=True)], "ok"])
    asyncio.run(agent.run("go"))
    [job] = agent.jobs
    assert job.running
    asyncio.run(agent.aclose())
    assert not job.running


RUNNING = """
import asyncio, os, signal, sys
from pathlib import Path
from orkas.harness.tool import ToolContext
from orkas.infra.jobs import Jobs
from orkas.tools.shell import Shell
cwd, mark, sandbox, command, way = sys.argv[1:]
jobs = Jobs()
context = ToolContext(Path(cwd), env={"TEST_MARK": mark}, sandbox=sandbox, jobs=jobs)
print(asyncio.run(Shell().run({"command": command, "background": True}, context)).text, flush=True)
if way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "wait":
    asyncio.run(asyncio.sleep(60))
if way == "error":
    raise RuntimeError("boom")
"""


def run_program(bench: Bench, command: str, way: str, home: Path) -> None:
    sandbox = "off" if bench.context.sandbox == "off" or way == "wait" else "find"
    arguments = [str(bench.context.cwd), bench.mark, sandbox, command, way]
    subprocess.run(
        [sys.executable, "-c", RUNNING, *arguments], env=CHILD_ENV | {"ORKAS_HOME": str(home)},
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip


@linux_only
@pytest.mark.parametrize("way", ["exit", "error", "kill"])
def test_a_job_ends_with_the_program_however_that_ends(tmp_path: Path, way: str) -> None:
    bench = Bench(tmp_path)
    command = "trap '' TERM HUP; setsid sleep 60 & sleep 60; sleep 60"
    run_program(bench, command, way, tmp_path / "home")
    asyncio.run(bench.nobody_left(5 if way == "kill" else 0.5))
    if way != "kill":
        assert list((tmp_path / "home/jobs").iterdir()) == []


@linux_only
async def test_what_outlived_a_killed_program_is_ended_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path / "home"))
    bench = Bench(tmp_path)
    command = (
        f"until ls {tmp_path}/home/jobs/*.json; do sleep 0.05; done; env -u ORKAS_RUN sleep 60 &"
        " kill -9 $PPID $(awk '/PPid/ {print $2}' /proc/$PPID/status); sleep 60"
    )
    await asyncio.to_thread(run_program, bench, command, "wait", tmp_path / "home")
    assert bench.survivors()
    replies = [[call("list_files", path=".")], "ok"]
    async with agent_of(bench.context.cwd, replies, session=Session()) as agent:
        events = await drained(agent, "go")
    assert any("left by an Orkas that was killed" in text for text in notices(events))
    await bench.nobody_left(1)
    assert list((tmp_path / "home/jobs").iterdir()) == []


@linux_only
def test_a_number_that_was_given_to_another_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path / "home"))
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        path = note(bystander.pid, "0123456789abcdef")
        assert path is not None
        assert reap() == 0  # its owner lives
        record = json.loads(path.read_text())
        gone = {"owner": record["owner"], "owner_began": "1"}
        for change in ({"began": "1"}, {"boot": "another"}):
            path.write_text(json.dumps(record | gone | change))
            assert reap() == 0
            assert bystander.poll() is None
            assert not path.exists()
        path.write_text("{half")
        assert reap() == 0
        path.write_text(json.dumps(record | gone))
        assert reap() == 1
        assert bystander.wait(5) == -signal.SIGKILL
    finally:
        bystander.kill()
        bystander.wait()


# may it be typed?


JUDGED: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("bash", {"text": "ls"}, "deny", "deny", "allow"),
    ("bash", {"text": "rm -rf ~"}, "deny", "deny", "deny"),
    ("bash", {"keys": ["up", "enter"]}, "deny", "deny", "allow"),
    ("bash", {"keys": ["ctrl-c"]}, "allow", "allow", "allow"),
    ("bash", {"keys": "ctrl-c"}, "deny", "deny", "allow"),
    ("cat", {"text": "rm -rf ~"}, "deny", "allow", "allow"),
    ("cat", {"keys": ["ctrl-d"]}, "allow", "allow", "allow"),
]
"""Verdicts where nobody can be asked, in the modes ask, edits and all."""


async def test_typing_is_judged(bench: Bench) -> None:
    jobs = {command: await bench.start(command, tty=True) for command in ("bash", "cat")}
    bench.context.sandbox = "find"
    for command, arguments, *verdicts in JUDGED:
        given = {"action": "write", "job": jobs[command], **arguments}
        for mode, verdict in zip(("ask", "edits", "all", "none"), [*verdicts, verdicts[0]], strict=True):
            assert Policy(mode).decide("shell_job", given, bench.context).verdict == verdict, (given, mode)  # type: ignore[arg-type]
        assert Policy("ask").decide("shell_job", {**given, "action": "Write"}, bench.context).verdict == verdicts[0]
        for action in ("read", "list", "stop"):
            assert Policy("none").decide("shell_job", {**given, "action": action}, bench.context).verdict == "allow"
    bench.context.sandbox = "off"
    given = {"action": "write", "job": jobs["cat"], "text": "x"}
    assert Policy("edits").decide("shell_job", given, bench.context).verdict == "deny"


@pytest.mark.parametrize(
    ("command", "takes"),
    [
        ("bash", True), ("exec /bin/sh", True), ("env FOO=1 python3.12 -i", True), ("psql db", True), ("./repl", True),
        ("cd x && ./run.sh", True), ("$SHELL", True), ("`echo sh`", True), ("py'th'on3", True), ("pyth?n3", True), ("cat", False), ("grep -n x", False),
        ("tail -f log", False), ("sort", False),
        *((line, True) for line in (
            "pytest --pdb", "go run .", "cargo run", "npm init", "ocaml", "maxima", "sage", "clj", "lein repl", "gs",
            "jupyter console", "docker exec -it web sh", "ssh host", "nc -l 80", "tmux", "script", "expect -i", "top",
            "ghci", "iex", "erl", "R", "julia", "octave", "tclsh", "guile", "racket", "sbcl", "perl -d -e 0", "irb",
            "rails console", "flask shell", "node", "deno", "bun repl", "lua", "less log", "git add -p", "vite", "java Main",
            "cat x | python3", "sort | sh", "gdb a.out", "sqlite3 x.db", "unheard-of-program",
        )),
        *((line, False) for line in ("wc -l", "tee -a notes.txt", "cat > notes.txt", "grep x | sort -u", "base64 -d", "jq ."))
    ],
)  # fmt: skip
def test_who_runs_what_is_typed(command: str, takes: bool) -> None:
    assert takes_commands(command) is takes


TAKE_DATA = [
    "cat", "grep -n x", "tail -f log", "sort", "cat > notes.txt", "tail -f log | grep -v x", "tee -a out.txt", "wc -l",
    "while read -r x; do echo \"$x\"; done", "sed -n 1p", "awk '{print $1}'", "rm -i a.txt", "jq .", "sleep 100", "head -5 < a.txt", "cp -i a b",
]
TAKE_COMMANDS = [
    "bash", "exec /bin/sh", "env FOO=1 python3.12 -i", "psql db", "./repl", "cd x && ./run.sh", "$SHELL", "`echo sh`",
    "py'th'on3", "pyth?n3", "pytest --pdb", "python -m pdb a.py", "go run .", "cargo run", "npm start", "npm run repl",
    "ocaml", "maxima", "sage", "clj", "lein repl", "jupyter console", "gs", "gdb ./a.out", "lldb", "sqlite3 x.db",
    "mysql", "ftp host", "ed", "ex a", "vi a", "less a", "man ls", "top", "irb", "pry", "rails console", "rails c",
    "node", "deno", "bun repl", "ghci", "iex -S mix", "erl", "lua", "R", "julia", "octave", "php -a", "perl -d x.pl",
    "tclsh", "guile", "racket", "sbcl", "bc", "dc", "docker exec -it c sh", "ssh host", "nc -l 1", "screen", "tmux",
    "script", "expect", "awk '{system($0)}'", "awk 'BEGIN{while((getline l)>0) system(l)}'", "git log", "git add -p",
    "git rebase -i HEAD~3", "xargs sh -c", "xargs rm", "cat | sh", "make", "uv run x", "read x; eval \"$x\"",
    "while read x; do $x; done", "npm init", "pip uninstall x", "npm init vite", "npm create vite", "cat; bash", "sed -f -", "tail -f x & sh", "mit-scheme",
    "some-new-repl", "nix repl", "gnuplot", "swipl", "kubectl exec -it p -- sh", "poetry shell", "manage.py shell",
    "python3 app.py", "java -jar x.jar", "flask run", "cat > ~/.profile", "split --filter=sh", "socat - TCP:h:1", "env -S sh",
    "parted /dev/x", "openssl", "tee >(sh)", "coproc sh", "busybox", "less +F log", "FOO=1 cat", "nohup ./server",
]


@pytest.mark.parametrize("command", TAKE_DATA)
def test_who_takes_data(command: str) -> None:
    assert not takes_commands(command)


@pytest.mark.parametrize("command", TAKE_COMMANDS)
def test_who_may_run_what_is_typed(command: str) -> None:
    """All but those of whom the contrary is known."""
    assert takes_commands(command)


ANSWERED: list[tuple[str, dict[str, Any], str]] = [
    ("read -r a", {"text": "y\n"}, "allow"),
    ("./ask.sh", {"text": "y\n"}, "allow"),
    ("./ask.sh", {"text": "yes", "keys": ["enter"]}, "allow"),
    ("./ask.sh", {"text": " 2\n\n"}, "allow"),
    ("./ask.sh", {"keys": ["enter", "enter"]}, "allow"),
    ("./ask.sh", {"text": "y; ls\n"}, "ask"),
    ("./ask.sh", {"text": "all\n"}, "ask"),
    ("./ask.sh", {"text": "y\r!sh\n"}, "ask"),
    ("./ask.sh", {"text": "y\u2028ls"}, "ask"),
    ("./ask.sh", {"keys": ["up", "enter"]}, "ask"),
    ("./ask.sh", {"text": "sudo id\n"}, "deny"),
    ("bash", {"text": "y\n"}, "ask"),
    ("python3 -i", {"text": "1\n"}, "ask"),
    ("bash -c 'read a'", {"text": "y\n"}, "ask"),
]
"""What is typed, and the verdict where writing in the working folder is approved."""


async def test_a_plain_answer_goes_with_the_command_that_asks(bench: Bench) -> None:
    (bench.context.cwd / "ask.sh").write_text("#!/bin/sh\nread a\nread b\n")
    (bench.context.cwd / "ask.sh").chmod(0o755)
    bench.context.sandbox = "find"
    jobs = {command: await bench.start(command, tty=True) for command in dict.fromkeys(one[0] for one in ANSWERED)}
    for command, arguments, wanted in ANSWERED:
        given = {"action": "write", "job": jobs[command], **arguments}
        decided = {mode: Policy(mode, headless=False).decide("shell_job", given, bench.context) for mode in ("ask", "edits")}  # type: ignore[arg-type]
        assert decided["edits"].verdict == wanted, (command, arguments, decided)
        assert decided["ask"].verdict != "allow"


@pytest.mark.parametrize(("walls", "origin"), [("off", "web"), ("find", None)])
async def test_what_a_job_beyond_the_walls_says_is_marked(bench: Bench, walls: Any, origin: str | None) -> None:
    bench.context.sandbox = walls
    result = await Shell().run({"command": "echo no; exit 4", "background": True}, bench.context)
    assert result.origin == origin


async def test_a_job_says_what_it_is(bench: Bench) -> None:
    job = bench.jobs.find(await bench.start("sleep 60 # \x1b[2J"))
    assert re.fullmatch(rf"<Job {job.name}: running for \d+ s: sleep 60 # [^\x1b]+>", repr(job))
    await bench.do("stop", job.name)
    assert repr(job).startswith(f"<Job {job.name}: stopped: sleep 60")
