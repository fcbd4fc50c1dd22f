"""``orkas run`` as scripts and people meet it: pipes, prompts, signals, locales, endings."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO, Any

import pytest

from cli_support import CUSTOM, DEMO, command, environ, orkas, serving, start
from orkas import Session

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def saved(session: str) -> list[dict[str, Any]]:
    path = Path(os.environ["ORKAS_HOME"], "sessions", f"{session}.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def assert_paired(records: list[dict[str, Any]]) -> None:
    calls = [b["id"] for r in records if r.get("role") == "assistant" for b in r["content"] if b["type"] == "tool_call"]
    assert [r["tool_call_id"] for r in records if r.get("role") == "tool"] == calls


# Output


def test_the_answer_alone_is_on_stdout() -> None:
    ran = orkas("run", "hello", *DEMO)
    assert ran.status == 0 and ran.out.strip()
    assert ran.out.endswith("\n") and not ran.out.endswith("\n\n\n")
    assert "list_files" not in ran.out


def test_an_empty_answer_is_said_on_stderr() -> None:
    with serving([" "], [""], ["never"]) as model:
        ran = orkas("run", "hello", *CUSTOM, env=model.env)
    assert (ran.status, ran.out.strip(), len(model.requests)) == (0, "", 2)
    assert "The model gave an empty answer" in ran.err


def test_json_is_one_event_a_line_numbered_and_ended_by_one_done() -> None:
    events = orkas("run", "hello", "--json", *DEMO).events
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert [e["type"] for e in events].count("done") == 1
    done = events[-1]
    assert set(done) == {
        "type", "seq", "outcome", "text", "stop_reason", "model", "session", "rounds", "usage", "tools", "error",
    }  # fmt: skip
    assert (done["outcome"], done["model"], done["error"]) == ("completed", "demo/offline", None)
    assert set(done["usage"]) == {"input", "output", "cache_read", "cache_write", "reasoning", "cost_usd"}


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "cp936:strict"},
    ],
    ids=str,
)
def test_no_locale_breaks_a_run(locale: dict[str, str], tmp_path: Path) -> None:
    text = "naïve ✓ 🎉 漢字"
    with serving([text]) as model:
        human = subprocess.run(
            command("run", "grüße 漢", *CUSTOM),
            env={**model.env, **locale},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        machine = orkas("run", "grüße 漢", "--json", *CUSTOM, env={**model.env, **locale})
    assert (human.returncode, human.stderr) == (0, b"")
    assert b"na" in human.stdout
    assert machine.events[-1]["text"] == text  # JSON is UTF-8 wherever it is printed
    for request in model.requests:
        assert request["messages"][-1]["content"] in ("grüße 漢", [{"type": "text", "text": "grüße 漢"}])


def test_control_codes_of_a_model_are_inert_and_json_has_them_exactly() -> None:
    text = "a\x1b[2Jb\x1b]52;c;aGk=\x07c\x9bd\te\x7f\n"
    with serving([text]) as model:
        human = orkas("run", "x", *CUSTOM, env=model.env)
        machine = orkas("run", "x", "--json", *CUSTOM, env=model.env)
    assert human.out == "a^[[2Jb^[]52;c;aGk=^Gc\\x9bd\te^?\n"
    assert machine.events[-1]["text"] == text
    assert not set("\x1b\x07\x9b\x7f") & set(machine.out)


# The prompt


def prompt_of(*words: str, input: str | bytes | None) -> str:
    done = orkas("run", "--json", *words, *DEMO, input=input).events[-1]
    (first,) = [r for r in saved(done["session"]) if r.get("role") == "user"][:1]
    return "".join(b["text"] for b in first["content"])


def test_prompt_by_argument_dash_pipe_or_both() -> None:
    assert prompt_of("hello", input=None) == "hello"
    assert prompt_of("-", input="from stdin\n").strip() == "from stdin"
    assert prompt_of(input="from a pipe").strip() == "from a pipe"
    both = prompt_of("explain", input="line 1\nline 2\n")
    assert both.startswith("explain\n") and "<stdin>\nline 1\nline 2\n</stdin>" in both


def test_input_that_is_no_utf8_is_replaced_not_refused() -> None:
    assert prompt_of("-", input=b"caf\xe9 \xff").strip() == "caf� �"


def test_a_dash_after_two_dashes_begins_a_prompt() -> None:
    done = orkas("run", "--json", *DEMO, "--", "-v is what?").events[-1]
    assert done["outcome"] == "completed"


@pytest.mark.parametrize("words", [(), ("-",), ("",), ("  \n",)])
def test_an_empty_prompt_is_wrong_usage(words: tuple[str, ...]) -> None:
    orkas("run", *words, *DEMO).refused(2, "prompt")


def test_without_a_command_a_piped_prompt_is_a_run() -> None:
    ran = orkas(*DEMO, input="hello")
    assert ran.status == 0 and ran.out.strip()
    orkas(*DEMO).refused(2, "prompt")


def test_a_pipe_held_open_does_not_hold_a_run_that_has_its_prompt() -> None:
    reading, writing = os.pipe()
    try:
        began = time.monotonic()
        run = start("run", "hello", *DEMO, stdin=reading)
        out, err = run.communicate(timeout=30)
    finally:
        os.close(reading)
        os.close(writing)
    assert run.returncode == 0 and out.strip()
    assert b"left out" in err and time.monotonic() - began < 15


def test_closed_standard_streams_are_no_obstacle() -> None:
    shell = " ".join(command("run", "hello", "--json", *DEMO))
    for closed in ("<&-", "2>&-", "<&- 2>&-"):
        ran = subprocess.run(f"{shell} {closed}", shell=True, capture_output=True, env=environ(), timeout=30)
        assert ran.returncode == 0 and json.loads(ran.stdout.splitlines()[-1])["outcome"] == "completed"
    assert subprocess.run(f"{shell} <&- >&- 2>&-", shell=True, env=environ(), timeout=30).returncode == 0


# Sessions


def test_a_run_is_kept_unless_ephemeral() -> None:
    done = orkas("run", "hello", "--json", *DEMO).events[-1]
    assert_paired(saved(done["session"]))
    before = sorted(Path(os.environ["ORKAS_HOME"], "sessions").glob("*.jsonl"))
    assert orkas("run", "hello", "--ephemeral", *DEMO).status == 0
    assert sorted(Path(os.environ["ORKAS_HOME"], "sessions").glob("*.jsonl")) == before


def test_a_named_session_goes_on() -> None:
    orkas("run", "first", "--session", "trip", *DEMO)
    orkas("run", "second", "--session", "trip", *DEMO)
    texts = [r["content"][0]["text"] for r in saved("trip") if r.get("role") == "user"]
    assert texts == ["first", "second"]


def test_what_waits_in_a_session_goes_first_and_is_told() -> None:
    with Session.open("trip") as session:
        session.inbox.steer("by train")
    ran = orkas("run", "hello", "--session", "trip", *DEMO)
    assert ran.status == 0 and "sent now: by train" in ran.err
    said = [r["content"][0]["text"] for r in saved("trip") if r.get("role") == "user"]
    assert said == ["by train", "hello"]


def test_continue_takes_the_last_conversation() -> None:
    orkas("run", "first", "--continue", *DEMO).refused(2, "continue")
    orkas("run", "first", "--session", "trip", *DEMO)
    done = orkas("run", "second", "--continue", "--json", *DEMO).events[-1]
    assert done["session"] == "trip"


def test_ways_to_choose_a_session_exclude_one_another() -> None:
    orkas("run", "x", "--session", "a", "--ephemeral", *DEMO).refused(2, "--ephemeral")


# Bad input: one sentence, the right status, no file left behind


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["run", "x", "--model", "nobody/none"], 2, "nobody"),
        (["run", "x", "--cwd", "/no/such/folder", *DEMO], 2, "/no/such/folder"),
        (["run", "x", "--image", "/no/such.png", *DEMO], 2, "/no/such.png"),
        (["run", "x", "--image", "/etc/hostname", *DEMO], 2, "PNG"),
        (["run", "x", "--tools", "saw,hammer", *DEMO], 2, "saw"),
        (["run", "x", "--max-rounds", "0", *DEMO], 2, "--max-rounds"),
        (["run", "x", "--max-rounds", "many", *DEMO], 2, "--max-rounds"),
        (["run", "x", "--max-retries", "-1", *DEMO], 2, "--max-retries"),
        (["run", "x", "--max-retries", "many", *DEMO], 2, "--max-retries"),
        (["run", "x", "--thinking", "hard", *DEMO], 2, "--thinking"),
        (["run", "x", "--approve", "maybe", *DEMO], 2, "--approve"),
        (["run", "x", "--max-cost", "1.50", "--model", "openai/nobody-knows"], 2, "price"),
        (["run", "x", "--max-cost", "nan", *DEMO], 2, "price"),
        (["run", "x", "--fallback", "y", *DEMO], 2, "fallback: 'y'"),
        (["run", "x", "--mod", "demo/offline"], 2, "--mod"),
        (["run", "x", "y", *DEMO], 2, "y"),
        (["run", "x", "--session", *DEMO], 2, "--session"),
        (["rnu", "x"], 2, "orkas run"),
        (["serve"], 2, "serve"),
        (["--nonsense"], 2, "--nonsense"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_bad_input_gets_one_sentence(words: list[str], status: int, says: str) -> None:
    orkas(*words).refused(status, says)
    assert not list(Path(os.environ["ORKAS_HOME"]).glob("sessions/*.jsonl"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that not even root may write")
def test_a_home_that_cannot_be_written_is_told() -> None:
    ran = orkas("run", "x", *DEMO, env=environ(ORKAS_HOME="/proc/orkas-home"))
    assert ran.status == 1 and "Traceback" not in ran.err and "orkas-home" in ran.err
    assert orkas("run", "x", "--ephemeral", *DEMO, env=environ(ORKAS_HOME="/proc/orkas-home")).status == 0
    assert orkas("doctor", env=environ(ORKAS_HOME="/proc/orkas-home")).status == 1


def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    env = environ(ORKAS_HOME=str(tmp_path / "home"))
    ran = orkas("run", "x", *DEMO, env=env)
    assert ran.status in (1, 2) and "Traceback" not in ran.err and str(tmp_path / "home") in ran.err


def test_an_image_is_read_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    done = orkas("run", "what is it?", "--image", str(tmp_path / "dot.png"), "--json", *DEMO).events[-1]
    (first,) = [r for r in saved(done["session"]) if r.get("role") == "user"][:1]
    assert [b["type"] for b in first["content"]] == ["image", "text"]


@pytest.mark.parametrize(
    ("answer", "status", "kind"), [(401, 3, "auth"), (400, 1, "invalid_request"), (404, 1, "not_found")]
)
def test_a_failed_turn_says_so_on_stderr_in_json_and_by_status(answer: int, status: int, kind: str) -> None:
    with serving(answer) as model:
        machine = orkas("run", "x", "--json", *CUSTOM, env=model.env)
        human = orkas("run", "x", *CUSTOM, env=model.env)
    assert machine.status == human.status == status
    assert machine.events[-1]["error"]["class"] == kind
    human.refused(status)


def test_a_failed_request_is_made_again_as_often_as_the_user_says() -> None:
    with serving(503, ["fine"]) as model:
        ran = orkas("run", "x", *CUSTOM, env=model.env)
        assert (ran.status, ran.out.strip(), len(model.requests)) == (0, "fine", 2)
    with serving(503, ["fine"]) as model:
        ran = orkas("run", "x", "--max-retries", "0", *CUSTOM, env=model.env)
        assert (ran.status, ran.out, len(model.requests)) == (1, "", 1)


# Being stopped


def until(process: subprocess.Popen[bytes], what: bytes) -> bytes:
    """Its output up to and with the line that holds ``what``."""
    assert process.stdout is not None
    seen = b""
    while what not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("script", "sign"),
    [(["one ", 60.0, "two"], b"text_delta"), ([("shell", {"command": "sleep 61.5"})], b"tool_start")],
    ids=["stream", "tool"],
)
def test_a_signal_ends_the_turn_within_a_second_and_whole(number: int, script: list[Any], sign: bytes) -> None:
    with serving(script) as model:
        run = start("run", "go", "--json", "--session", "stop", *CUSTOM, env=model.env)
        seen = until(run, sign)
        began = time.monotonic()
        run.send_signal(number)
        rest, err = run.communicate(timeout=20)
    assert time.monotonic() - began < 2.5
    events = [json.loads(line) for line in (seen + rest).splitlines()]
    assert run.returncode == 130 and events[-1]["outcome"] == "aborted" and b"Traceback" not in err
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert_paired(saved("stop"))
    assert len(model.requests) == 1
    assert subprocess.run(["pgrep", "-f", "sleep 61[.]5"], capture_output=True).stdout == b""


def test_a_nohup_run_survives_the_hang_up() -> None:
    with serving(["one ", 1.5, "two"]) as model:
        run = start(
            "run",
            "go",
            "--json",
            *CUSTOM,
            env=model.env,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )
        until(run, b"text_delta")
        run.send_signal(signal.SIGHUP)
        rest, _ = run.communicate(timeout=20)
    assert run.returncode == 0 and json.loads(rest.splitlines()[-1])["text"] == "one two"


def unread(pipe: IO[bytes]) -> int:
    """Bytes that nobody has taken out of a pipe yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_ctrl_c_before_anything_began_is_quiet() -> None:
    run = start("run", "-", *DEMO, stdin=subprocess.PIPE)
    assert run.stdin is not None
    run.stdin.write(b"half a prompt")
    run.stdin.flush()
    while unread(run.stdin):  # now it waits for the rest; earlier, the interpreter itself would end it
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=10)
    assert (run.returncode, out, err) == (130, b"", b"")


def run_python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_thread_left_behind_does_not_hold_the_exit() -> None:
    code = """
import asyncio, sys, time
from orkas.product.cli.driving import drive
async def work():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
    print("done")
    return 7
sys.exit(drive(work()))
"""
    process = run_python(code)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (7, b"done\n", b"")


def test_the_second_ctrl_c_leaves_at_once_even_where_the_first_does_nothing() -> None:
    code = """
import asyncio, sys, time
from orkas.product.cli.driving import drive, stopping
async def work():
    with stopping(lambda: print("asked", flush=True)):
        print("up", flush=True)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                print("cancelled", flush=True)
sys.exit(drive(work()))
"""
    process = run_python(code)
    until(process, b"up")
    process.send_signal(signal.SIGINT)
    until(process, b"asked")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130 and out == b"cancelled\n" and time.monotonic() - began < 2


# The reader leaves


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_reader_that_leaves_ends_the_run_quietly_and_whole(words: tuple[str, ...]) -> None:
    script = [*(piece for n in range(40) for piece in (f"line {n}\n" + "x" * 4000 + "\n", 0.05))]
    with serving(script) as model:
        run = start("run", "go", "--session", "left", *words, *CUSTOM, env=model.env)
        assert run.stdout is not None and run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait(20) == 130
        run.stderr.close()
    assert_paired(saved("left"))
    assert [r["role"] for r in saved("left") if "role" in r] == ["user", "assistant"]


def test_output_into_a_pipe_nobody_reads() -> None:
    run = f"set -o pipefail; {' '.join(command('run', 'hello', '--json', *DEMO))} | true"
    ran = subprocess.run(["bash", "-c", run], capture_output=True, env=environ(), stdin=subprocess.DEVNULL, timeout=30)
    assert ran.stderr == b"" and ran.returncode in (0, 130)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("run", "hello", *DEMO), ("run", "hello", "--json", *DEMO), ("config", "list")])
def test_output_that_cannot_be_written_is_told(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = start(*words, stdout=full)
        _, err = ran.communicate(timeout=30)
    assert ran.returncode == 1 and b"Traceback" not in err
    assert err.count(b"\n") == 1 and b"No space left" in err


# On a terminal


def on_terminal(*words: str, env: dict[str, str], typed: bytes = b"") -> tuple[int, str]:
    """Run it with a terminal as all three streams; its status and what the screen got."""
    leader, follower = pty.openpty()
    process = start(*words, env=env, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    if typed:
        os.write(leader, typed)
    seen = b""
    while select.select([leader], [], [], 30)[0]:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break  # Linux says so when the last user of the terminal left
        if not piece:
            break
        seen += piece
    os.close(leader)
    return process.wait(30), seen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_control_codes_as_text_and_the_session_named() -> None:
    with serving([("shell", {"command": "echo '\x1b[2J'"})], ["over\rwrite \u202eevil\x1b[A"]) as model:
        status, screen = on_terminal(
            "run", "x", "--session", "here", "--approve", "all", *CUSTOM, env={**model.env, "NO_COLOR": "1", "TERM": "xterm"}
        )
    assert status == 0
    assert "over^Mwrite \\u202eevil^[[A\n" in screen
    assert "\x1b" not in screen and "here" in screen


def test_colours_only_where_wanted() -> None:
    assert "\x1b[" in on_terminal("run", "x", *DEMO, env=environ(TERM="xterm", NO_COLOR=""))[1]
    for env in (environ(TERM="xterm", NO_COLOR="1"), environ(TERM="dumb", NO_COLOR="")):
        status, screen = on_terminal("run", "x", *DEMO, env=env)
        assert status == 0 and "\x1b" not in screen


def test_the_chat_says_what_to_do_where_it_has_no_screen(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    with (tmp_path / "out").open("wb") as out:
        process = start(stdin=follower, stdout=out)
        _, err = process.communicate(timeout=20)
    os.close(leader)
    os.close(follower)
    assert process.returncode == 2 and b"orkas run" in err and err.count(b"\n") == 1


# Cost


def test_start_is_light() -> None:
    words = ["run", "hi", *DEMO, "--ephemeral"]
    code = f"import sys; from orkas.product.cli import main; main({words}); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ(), stdin=subprocess.DEVNULL
    )
    loaded = set(ran.stdout.splitlines()[-1].split())
    heavy = {"rich", "prompt_toolkit", "tomllib", "logging.handlers", "email", "aiohttp", "http.client"}
    assert sorted(loaded & heavy) == []


def test_a_full_disk_is_told_once() -> None:
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from orkas.product.cli import main; sys.exit(main(['run', 'a' * 3000, '--model', 'demo/offline', '--tools', 'none']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=environ(), capture_output=True, text=True, timeout=30)
    assert ran.returncode == 1 and ran.stderr.count("could not be written") == 1
    assert "warning" not in ran.stderr and "Traceback" not in ran.stderr


def test_a_turn_without_a_key_leaves_no_conversation_to_continue() -> None:
    orkas("run", "first", "--session", "kept", *DEMO)
    ran = orkas("run", "never sent", "--model", "anthropic/claude-sonnet-4-5")
    assert ran.status == 3 and "ANTHROPIC_API_KEY" in ran.err
    assert [one["id"] for one in orkas("session", "list", "--json").json] == ["kept"]
    (trashed,) = Path(os.environ["ORKAS_HOME"], "trash").rglob("*.jsonl")
    assert "never sent" in trashed.read_text()
    assert orkas("run", "named", "--session", "mine", "--model", "anthropic/claude-sonnet-4-5").status == 3
    assert "named" in orkas("session", "show", "mine").out
