"""Running commands: through the tool, with real processes."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orkas
from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.abort import Aborted
from orkas.infra.errors import ToolFailed
from orkas.infra.output import HEAD, SPOOL_LIMIT, TAIL, Output, readable
from orkas.infra.sandbox import find
from orkas.tools.shell import Shell

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).parents[2] / "shared"))
CASES = SHARED / "cases/05-shell/behaviour.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
CHILD_ENV = os.environ | {"PYTHONPATH": str(Path(orkas.__file__).parents[1])}
SECRET = "sk-very-secret-0123456789"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shell tool needs a POSIX system")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)


class Bench:
    def __init__(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()
        self.files = tmp_path / "files"
        self.context = ToolContext(cwd=tmp_path / "work", files=self.files, env={"TEST_MARK": str(tmp_path)})
        if find().backend is None:
            self.context.sandbox = "off"
        self.said: list[str] = []
        self.context.progress = self.said.append

    async def run(self, command: str, timeout_s: float = 3) -> ToolResult:
        return await Shell().run({"command": command, "timeout_s": timeout_s}, self.context)

    async def text(self, command: str) -> str:
        return (await self.run(command)).text

    def survivors(self) -> list[str]:
        """Command lines of processes that carry our mark."""
        found = []
        needle = f"TEST_MARK={self.context.env['TEST_MARK']}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if needle in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    async def begin(self, command: str) -> asyncio.Task[ToolResult]:
        """Run it in a task; returns once bash has begun with it."""
        running = asyncio.create_task(self.run(f"touch begun; {command}", timeout_s=60))
        while not (self.context.cwd / "begun").exists():
            assert not running.done(), running
            await asyncio.sleep(0.01)
        return running

    async def nobody_left(self, within_s: float) -> None:
        until = time.monotonic() + within_s
        while self.survivors():
            assert time.monotonic() < until, self.survivors()
            await asyncio.sleep(0.02)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# the shared rows


@pytest.mark.parametrize("row", ROWS, ids=[r["id"] for r in ROWS])
async def test_shared_rows(bench: Bench, row: dict[str, Any]) -> None:
    if row["id"] == "sh13" and not shutil.which("git"):
        pytest.skip("needs git")
    if row["id"] == "sh23" and not shutil.which("ps"):
        pytest.skip("needs ps")
    if row["expect"] == "no_editor":
        await bench.text("git init -q . && git config user.email a@b && git config user.name n")
    began = time.monotonic()
    try:
        result = await bench.run(row["command"], 60 if row["expect"] == "bounded_output" else 3)
    except ToolFailed as refused:
        assert row["command"].startswith("sudo"), refused
        result = ToolResult(str(refused))
    seconds = time.monotonic() - began
    expect, _, value = row["expect"].partition(":")
    text = result.text
    assert text
    await bench.nobody_left(2)
    match expect:
        case "returns_within_s":
            assert seconds < float(value)
        case "timeout_kills_all":
            assert seconds < 5
            assert "time limit of 3 s" in text
        case "bounded_output":
            assert len(text) < 30_000
            assert result.bytes == 200_000_000
        case "no_crash_utf8_replace":
            assert text.startswith("\ufffd\ufffd\u2400x\ufffd")
        case "control_codes_neutralised_in_ui":
            assert "\x1b" not in text
            assert "\x07" not in text
            assert "ciao" in text
        case "no_editor":
            assert seconds < 3
            assert "exit code 1" in text
        case "exit_code":
            assert f"[exit code {value}" in text
        case "empty_output_ok":
            assert text == "(no output)\n[exit code 0]"
        case "stderr_kept":
            assert text.startswith("x\n")
        case "secret_not_visible" | "secret_not_in_argv":
            assert SECRET not in text
        case _:
            pytest.fail(f"a kind of row that is not known: {expect}")


# what comes back


async def test_both_streams_in_the_order_they_were_written(bench: Bench) -> None:
    result = await bench.run("echo a; echo b >&2; echo c; exit 3")
    assert result.text == "a\nb\nc\n[exit code 3]"
    assert result.is_error
    assert not (await bench.run("echo a")).is_error


async def test_a_death_by_signal_is_named(bench: Bench) -> None:
    assert (await bench.text("kill -9 $$")).endswith("[exit code 137, killed by SIGKILL]")
    assert (await bench.text("kill -1 $$")).endswith("[exit code 129, killed by SIGHUP]")
    assert (await bench.text("exit 137")).endswith("[exit code 137, as if killed by SIGKILL]")
    assert (await bench.text("sh -c 'kill -SEGV $$'; exit $?")).endswith("[exit code 139, as if killed by SIGSEGV]")
    for code in (128, 129, 193, 255):  # git's own errors, and what is no signal
        assert (await bench.text(f"exit {code}")).endswith(f"[exit code {code}]")


async def test_a_long_output_is_kept_whole_in_a_file(bench: Bench) -> None:
    result = await bench.run("seq 1 20000")
    whole = "".join(f"{n}\n" for n in range(1, 20001))
    assert result.file is not None
    assert Path(result.file).read_text() == whole
    assert Path(result.file).parent == bench.files
    assert stat.S_IMODE(Path(result.file).stat().st_mode) == 0o600
    assert result.bytes == len(whole)
    assert result.text.startswith("1\n2\n3\n")
    assert "\n20000\n[exit code 0]" in result.text
    name = Path(result.file).name
    assert f"bytes left out: the whole output is kept: read on with read_result, file {name}" in result.text
    assert len(result.text) < 25_000


async def test_without_a_folder_the_loss_is_said(bench: Bench) -> None:
    bench.context.files = None
    assert "they are lost" in await bench.text("seq 1 20000")


async def test_a_folder_that_cannot_be_written_is_said(bench: Bench) -> None:
    bench.files.write_text("not a folder")
    result = await bench.run("seq 1 20000")
    assert "they are lost" in result.text
    assert result.text.endswith("20000\n[exit code 0]")


def test_a_disk_that_fills_up_is_told_with_what_is_kept_and_what_is_lost(tmp_path: Path) -> None:
    program = (
        "import asyncio, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from orkas.harness.tool import ToolContext\n"
        "from orkas.tools.shell import Shell\n"
        "context = ToolContext(cwd=Path(sys.argv[1]), files=Path(sys.argv[1]))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "for limit in (100_000, 199_995, 0):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    result = asyncio.run(Shell().run({'command': 'yes 123456789 | head -c 200000'}, context))\n"
        "    print(next(line for line in result.text.split(chr(10)) if 'left out' in line), result.file)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=CHILD_ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    some, nearly, none = done.stdout.splitlines()
    assert "the first 100,000 bytes are in" in some
    assert "incomplete (see read_result); 90,000 bytes after them are lost (File too large)" in some
    assert "the first 199,995 bytes are in" in nearly
    assert "the rest is shown below" in nearly
    assert "they are lost, the whole output could not be kept (File too large)" in none
    assert none.endswith("None")


async def test_more_than_the_limit_is_marked_incomplete(bench: Bench) -> None:
    result = await bench.run("head -c 80000000 /dev/zero | tr '\\0' b", timeout_s=20)
    assert result.file is not None
    assert f"the first {SPOOL_LIMIT:,} bytes are in" in result.text
    with Path(result.file).open("rb") as file:
        file.seek(SPOOL_LIMIT)
        assert file.read() == b"\n[incomplete: %d more bytes were not kept]\n" % (80_000_000 - SPOOL_LIMIT)


async def test_an_endless_writer_is_ended_in_time_and_memory(bench: Bench) -> None:
    began = time.monotonic()
    result = await bench.run("yes", timeout_s=2)
    assert time.monotonic() - began < 4
    assert "time limit of 2 s" in result.text
    assert len(result.text) < 30_000
    await bench.nobody_left(1)


async def test_signs_of_life(bench: Bench) -> None:
    await bench.run("for i in 1 2 3; do echo step $i; sleep 0.5; done", timeout_s=5)
    assert 1 <= len(bench.said) <= 3
    assert all(line.startswith("step ") for line in bench.said)


# the environment


async def test_only_the_listed_variables_reach_a_child(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_MESSAGES", "C")
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    monkeypatch.setenv("BASH_ENV", "/nowhere")
    names = {line.split("=")[0] for line in (await bench.text("env")).split("\n") if "=" in line}
    assert {"PATH", "LC_MESSAGES", "https_proxy", "TEST_MARK", "TERM"} <= names
    assert not {"BASH_ENV", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "ORKAS_HOME", "PYTEST_CURRENT_TEST"} & names
    assert (await bench.text("echo $TERM $GIT_TERMINAL_PROMPT $PAGER")).startswith("dumb 0 cat\n")


async def test_nothing_lasts_from_one_call_to_the_next(bench: Bench) -> None:
    await bench.run("export X=1; cd /; alias ls=false; umask 077")
    assert (await bench.text("echo [$X]; pwd")).startswith(f"[]\n{bench.context.cwd}\n")


async def test_there_is_no_terminal(bench: Bench) -> None:
    assert "[exit code 1]" in await bench.text("exec 3</dev/tty")
    assert "got:" in await bench.text("cat; echo got:")


async def test_a_working_folder_that_is_gone_is_made_again_and_said_once(bench: Bench) -> None:
    bench.context.cwd.rmdir()
    first = await bench.text("pwd")
    assert first.startswith(f"{bench.context.cwd}\n")
    assert "was gone; it was made again" in first
    assert "was gone" not in await bench.text("pwd")


# refusals


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"command": "sudo id"}, "blocked"),
        ({"command": "rm -rf ~"}, "blocked"),
        ({"command": ""}, "bad arguments"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "echo " + "x" * 200_000}, "too long"),
        ({"command": "true", "timeout_s": 0}, "more than 0"),
        ({"command": "true", "timeout_s": "nan"}, "more than 0"),
        ({}, "command"),
    ],
)
async def test_refusals_are_sentences(bench: Bench, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        await Shell().run(arguments, bench.context)


# ways out


LEAVING = [
    "sleep 30 & echo ready",
    "setsid sleep 30 & echo ready",
    "setsid sleep 30 >/dev/null 2>&1 & echo ready",
    "(setsid sh -c 'sleep 30 & sleep 31' >/dev/null 2>&1 &) ; echo ready",
    "nohup sleep 30 >/dev/null 2>&1 </dev/null & disown; echo ready",
    "sh -c \"trap '' TERM HUP; sleep 30\" & echo ready",
]


@pytest.mark.parametrize("command", LEAVING)
async def test_what_a_command_leaves_behind_is_ended_and_said(bench: Bench, command: str) -> None:
    began = time.monotonic()
    text = await bench.text(command)
    assert time.monotonic() - began < 1
    assert text == "ready\n[processes that the command left running were ended with it]\n[exit code 0]"
    await bench.nobody_left(1.5)


CLEAN = [
    "env -i setsid sleep {n} & echo ready",
    "env -i setsid sleep {n} >/dev/null 2>&1 </dev/null & echo ready",
    "(env -i setsid sh -c 'setsid sleep {n} & exit' &) >/dev/null 2>&1; echo ready",
    "env -i setsid sh -c 'trap \"\" TERM HUP; sleep {n}' >/dev/null 2>&1 & sleep 0.1; echo ready",
    "env -i setsid sh -c 'env -i setsid sleep {n} & kill -9 $$' >/dev/null 2>&1; echo ready",
]
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux adopts orphans")


def runs(command: str) -> bool:
    return command in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


async def gone(command: str, within_s: float) -> None:
    until = time.monotonic() + within_s
    while runs(command):
        assert time.monotonic() < until, command
        await asyncio.sleep(0.02)


@linux_only
@pytest.mark.parametrize("command", CLEAN)
async def test_who_dropped_session_and_environment_is_found_too(bench: Bench, command: str) -> None:
    unique = f"3{os.getpid()}.{CLEAN.index(command)}"
    text = await bench.text(command.format(n=unique))
    assert text.endswith("ready\n[processes that the command left running were ended with it]\n[exit code 0]")
    await gone(f"sleep {unique}", 1.5)


@linux_only
@pytest.mark.parametrize("way", ["time limit", "stop", "cancelled"])
async def test_whatever_ends_a_command_ends_who_dropped_everything(bench: Bench, way: str) -> None:
    unique = f"4{os.getpid()}.{len(way)}"
    command = f"env -i setsid sleep {unique} >/dev/null 2>&1 & sleep 30"
    running = asyncio.create_task(bench.run(command, timeout_s=0.4 if way == "time limit" else 60))
    while not runs(f"sleep {unique}"):
        await asyncio.sleep(0.01)
    if way == "stop":
        bench.context.abort.fire()
    elif way == "cancelled":
        running.cancel()
    await asyncio.wait({running})
    await gone(f"sleep {unique}", 2)


@linux_only
@pytest.mark.parametrize("signal_name", ["KILL", "STOP", "TERM"])
async def test_a_command_that_turns_on_its_launcher_is_ended_as_well(bench: Bench, signal_name: str) -> None:
    began = time.monotonic()
    result = await bench.run(f"kill -{signal_name} $PPID; setsid sleep 30 & sleep 30", timeout_s=0.6)
    assert result.is_error
    assert ("how it ended is not known" in result.text) is (signal_name == "KILL" and bench.context.sandbox == "off")
    assert time.monotonic() - began < 3
    await bench.nobody_left(2)


@linux_only
async def test_orphans_are_reaped(bench: Bench) -> None:
    text = await bench.text(
        "for i in 1 2 3; do (setsid true &); done; sleep 0.2; ps -o stat= --ppid $PPID | grep -c Z; true"
    )
    assert text == "0\n[exit code 0]"
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if "launcher" in Path(f"/proc/{pid}/cmdline").read_text()]


@linux_only
async def test_our_environment_is_not_that_of_the_parent(bench: Bench) -> None:
    text = await bench.text("tr '\\0' '\\n' < /proc/$PPID/environ")
    assert SECRET not in text
    assert "ORKAS_RUN=" in text or "Permission denied" in text


async def test_a_command_starts_with_a_plain_state(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of an interpreter in between is left: locale, signals, open files."""
    monkeypatch.setenv("LANG", "C")
    monkeypatch.delenv("LC_CTYPE", raising=False)
    assert await bench.text("echo ${LC_CTYPE-none}; yes | head -1; ls /dev/fd | wc -l") == "none\ny\n4\n[exit code 0]"
    assert await bench.text("grep SigIgn /proc/self/status") == "SigIgn:\t0000000000000000\n[exit code 0]"


STUBBORN = [
    "sleep 30",
    "trap '' TERM INT HUP; sleep 30; sleep 30",
    "setsid sh -c \"trap '' TERM; sleep 30\"; sleep 30",
    "env -i setsid sleep 31; true",
    "python3 -c \"import subprocess, time; subprocess.Popen(['sleep', '30'], start_new_session=True); time.sleep(30)\"",
    "kill -STOP $$",
]


@pytest.mark.parametrize("command", STUBBORN)
async def test_nobody_survives_the_time_limit(bench: Bench, command: str) -> None:
    result = await bench.run(command, timeout_s=0.4)
    assert "time limit" in result.text
    assert result.is_error
    await bench.nobody_left(1)
    assert "sleep 31" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", [*STUBBORN, "yes"])
async def test_stop_returns_at_once_and_nobody_survives(bench: Bench, command: str) -> None:
    running = await bench.begin(command)
    began = time.monotonic()
    bench.context.abort.fire()
    result = await running
    assert time.monotonic() - began < 0.5
    assert "stopped by the user" in result.text
    await bench.nobody_left(2)


async def test_stop_through_a_guard_ends_the_command_too(bench: Bench) -> None:
    async def guarded() -> None:
        with bench.context.abort.guard():
            await (await bench.begin("setsid sleep 30; sleep 30"))

    running = asyncio.create_task(guarded())
    while not (bench.context.cwd / "begun").exists():
        await asyncio.sleep(0.01)
    bench.context.abort.fire()
    with pytest.raises(Aborted):
        await running
    await bench.nobody_left(2)


async def test_a_cancelled_task_leaves_nobody(bench: Bench) -> None:
    running = await bench.begin("trap '' TERM; sleep 30; sleep 30")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await bench.nobody_left(2)


@pytest.mark.parametrize("way", ["the loop ends", "an exception", "the task is forgotten"])
def test_a_process_that_ends_leaves_nobody(tmp_path: Path, way: str) -> None:
    bench = Bench(tmp_path)
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from orkas.harness.tool import ToolContext\n"
        "from orkas.tools.shell import Shell\n"
        "cwd, mark, way = sys.argv[1:]\n"
        "async def main():\n"
        "    context = ToolContext(cwd=Path(cwd), env={'TEST_MARK': mark})\n"
        "    command = \"trap '' TERM; touch begun; setsid sleep 30 & sleep 30; sleep 30\"\n"
        "    task = asyncio.create_task(Shell().run({'command': command}, context))\n"
        "    while not (Path(cwd) / 'begun').exists(): await asyncio.sleep(0.01)\n"
        "    if way == 'an exception': raise RuntimeError('boom')\n"
        "    if way == 'the loop ends': context.abort.fire(); await task\n"
        "loop = asyncio.new_event_loop()\n"
        "if way == 'the task is forgotten': loop.run_until_complete(main())\n"
        "else: asyncio.run(main())\n"
    )
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", program, str(bench.context.cwd), bench.context.env["TEST_MARK"], way],
        env=CHILD_ENV, capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    assert time.monotonic() - began < 10
    asyncio.run(bench.nobody_left(0.5))


async def test_stop_before_the_start_runs_nothing(bench: Bench) -> None:
    bench.context.abort.fire()
    result = await bench.run("touch made")
    assert "stopped" in result.text
    assert not (bench.context.cwd / "made").exists()


async def test_nothing_is_used_up_by_many_runs(bench: Bench) -> None:
    await bench.run("true")
    before = len(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(bench.run(f"echo {n}") for n in range(30)))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_neighbour_is_left_alone(bench: Bench) -> None:
    """What one command leaves is ended; what another one runs at the same time is not."""
    other = await bench.begin("until [ -e after ]; do sleep 0.05; done; echo done")
    await bench.run("sleep 30 & true")
    (bench.context.cwd / "after").touch()
    assert (await other).text == "done\n[exit code 0]"


# the output itself


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_any_cutting_of_the_bytes_gives_the_same_text(data: bytes, cuts: list[int]) -> None:
    output = Output()
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    for start, stop in itertools.pairwise(edges):
        output.feed(data[start:stop])
    output.close()
    assert output.head() == data
    assert output.total == len(data)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aé世😀"), st.integers(1, 9_000)), min_size=1, max_size=8))
def test_head_and_tail_are_the_ends_and_whole_characters(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[str, int]]
) -> None:
    output = Output(tmp_path_factory.mktemp("spool"))
    text = "".join(char * count for char, count in pieces)
    for char, count in pieces:
        output.feed((char * count).encode())
    output.close()
    head, tail = output.head().decode(), output.tail().decode()
    assert text.startswith(head)
    assert text.endswith(tail)
    assert output.complete
    if output.clipped:
        assert HEAD - 4 < len(output.head()) <= HEAD
        assert TAIL - 4 < len(output.tail()) <= TAIL
        assert output.file is not None
        assert output.file.read_text() == text
    else:
        assert head == text


@given(st.binary(max_size=80))
def test_nothing_readable_drives_a_terminal(data: bytes) -> None:
    codes = [ord(c) for c in readable(data) if c not in "\t\n"]
    assert not [c for c in codes if c < 32 or 0x7F <= c < 0xA0 or 0x202A <= c <= 0x202E]


def test_readable() -> None:
    assert readable(b"a\r\nb\rc") == "a\nb\nc"
    assert readable(b"\x1b[1;31mred\x1b[0m \x1b]52;c;aGk=\x07") == "red \u241b]52;c;aGk=\u2407"
    assert readable("\x9b2J".encode()) == "\\x9b2J"


def test_a_full_disk_is_said_and_the_command_goes_on(tmp_path: Path) -> None:
    """The file system refuses after some bytes, for every kind of moment."""
    resource = pytest.importorskip("resource")
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from orkas.infra.output import Output\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "for n, limit in enumerate((0, 1, 10_000, 30_000, 65_536, 100_000)):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    output = Output(Path(sys.argv[1]), f'o{n}')\n"
        "    for _ in range(20): output.feed(b'x' * 7_000)\n"
        "    output.close()\n"
        "    assert output.trouble and output.total == 140_000 and len(output.tail()) == 10_000, vars(output)\n"
        "    assert not output.complete\n"
        "    size = output.file.stat().st_size if output.file else 0\n"
        "    assert output.kept == size == (limit if limit > 10_000 else 0), (output.kept, size, limit)\n"
        "    assert output.file or not Path(sys.argv[1], f'o{n}.txt').exists()\n"
    )
    assert resource
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=CHILD_ENV, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a program that its parent died")
@pytest.mark.parametrize("command", ["sleep 93", "env -i setsid sleep 93 & sleep 93", "trap '' TERM; sleep 93 & sleep 93"])
def test_a_command_ends_with_us_even_when_we_are_killed(command: str, tmp_path: Path) -> None:
    arguments = json.dumps({"command": f"echo started > here; {command}"})
    run = subprocess.Popen(
        [sys.executable, "-m", "orkas", "tool", "run", "shell", arguments, "--cwd", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 10
    while not (tmp_path / "here").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    run.kill()
    run.wait()
    while _of_folder(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _of_folder(tmp_path) == []


def _of_folder(folder: Path) -> list[str]:
    """Processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder.resolve():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found
