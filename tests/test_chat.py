"""The chat at a real pseudo-terminal, with a scripted model; what is on the screen is read by a terminal emulator."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pexpect
import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas import Session
from orkas.infra.errors import UsageError
from orkas.infra.events import Done, ErrorClass, ErrorInfo
from orkas.infra.messages import AssistantMessage, ToolCall, Usage, user_message
from orkas.infra.terminal import inert
from orkas.product.chat import words
from orkas.product.chat.editor import completions
from orkas.product.chat.history import KEPT, History
from orkas.product.chat.markdown import MAX_CHARS, MAX_LINES, Block, Splitter
from orkas.product.chat.typed import Typed
from orkas.product.chat.words import continues
from orkas.testing import FakeVendor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a POSIX thing")

CHILD = """
import argparse, asyncio, os, pathlib, sys, time
more = []
approve = None
{before}
from orkas import ToolContext, tool
from orkas.infra.errors import ProviderError
from orkas.infra.messages import Thinking
from orkas.testing import ScriptedProvider, call

@tool
def show(text: str) -> str:
    "Give the text back."
    return text

@tool
def lines(count: int) -> str:
    "So many lines."
    return "\\n".join(f"line {{n}}" for n in range(1, count + 1))

@tool
async def slow(context: ToolContext, name: str) -> str:
    "Never ends."
    context.progress("still at it")
    await asyncio.sleep(60)
    return "never"

@tool
async def until_said() -> str:
    "Ends when the user has said something."
    while not list((pathlib.Path(os.environ["ORKAS_HOME"]) / "sessions").glob("*.inbox")):
        await asyncio.sleep(0.01)
    return "said"

@tool
def send(text: str) -> str:
    "Send a message."
    return "sent " + text
send.read_only = False

options = argparse.Namespace(
    model=ScriptedProvider({replies}), session={session!r}, continue_={continue_!r}, cwd=None, system=None,
    tools=[show, lines, slow, until_said, send, *more], thinking=None, approve=approve, max_rounds=None, image=None,
    debug=False,
)
from orkas.product.chat import main
sys.exit(main(options))
"""
BLOCKED = """
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("rich", "prompt_toolkit"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
"""


class Terminal:
    """A child process at a terminal of its own, and what a person would see there."""

    def __init__(
        self, argv: list[str], *, columns: int = 80, rows: int = 24, env: dict[str, str] | None = None
    ) -> None:
        environ = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        environ |= {"TERM": "xterm-256color", **(env or {})}
        self.raw = b""
        self._screen = pyte.HistoryScreen(columns, rows, history=20_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.child = pexpect.spawn(argv[0], argv[1:], dimensions=(rows, columns), env=environ)

    def read(self, seconds: float = 0.05) -> bool:
        """Take in what is there; False when the child's side is closed."""
        try:
            data = self.child.read_nonblocking(1 << 16, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def until(self, condition: Callable[[], bool], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            alive = self.read()
            if (not alive and not condition()) or time.monotonic() > deadline:
                raise AssertionError(f"it did not come to that; the terminal shows:\n{self.text}")

    def shows(self, text: str, seconds: float = 10) -> None:
        self.until(lambda: text in self.text, seconds)

    def persist(self, act: Callable[[], object], condition: Callable[[], bool]) -> None:
        """Act, and again each half second: readline sees no signal that comes just before it begins to wait."""
        for _ in range(10):
            act()
            with contextlib.suppress(AssertionError):
                return self.until(condition, 0.5)
        raise AssertionError(f"it did not come to that; the terminal shows:\n{self.text}")

    def ready(self) -> None:
        """A new prompt, with nothing behind it."""
        self.until(lambda: (self.text.splitlines() or [""])[-1] == ">")

    def say(self, text: str) -> None:
        self.ready()
        shown = "> " + text[:40]
        before = self.text.count(shown)
        self.child.send(text + "\r")
        self.until(lambda: self.text.count(shown) > before)

    def key(self, data: str) -> None:
        self.child.send(data)

    @property
    def lines(self) -> list[str]:
        old = ["".join(row[x].data for x in range(self._screen.columns)).rstrip() for row in self._screen.history.top]
        return old + [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def cursor_shown(self) -> bool:
        return not self._screen.cursor.hidden

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def ended(self, seconds: float = 10) -> int:
        """The exit status: as the shell gives it."""
        self.until(lambda: not self.read(), seconds)
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else 128 + self.child.signalstatus


Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    opened: list[Terminal] = []

    def run(
        replies: str = "['Hello.'] * 9", *, before: str = "", session: str | None = None, continue_: bool = False,
        **terminal: object,
    ) -> Terminal:  # fmt: skip
        script = tmp_path / f"child{len(opened)}.py"
        script.write_text(CHILD.format(before=before, replies=replies, session=session, continue_=continue_))
        opened.append(Terminal([sys.executable, str(script)], **terminal))  # type: ignore[arg-type]
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.child.close(force=True)


def records() -> list[dict[str, object]]:
    """All messages of the only session on disk."""
    (file,) = (Path(os.environ["ORKAS_HOME"]) / "sessions").glob("*.jsonl")
    return [r for line in file.read_bytes().splitlines() if "role" in (r := json.loads(line))]


def paired() -> bool:
    """Every call of the session has its result right behind it."""
    open_calls: list[object] = []
    for record in records():
        if record["role"] == "tool":
            if not open_calls or open_calls.pop(0) != record["tool_call_id"]:
                return False
        elif open_calls:
            return False
        open_calls += [b["id"] for b in record["content"] if b["type"] == "tool_call"]  # type: ignore[attr-defined]
    return not open_calls


# --- a conversation ---------------------------------------------------------------------------------------------


def test_a_conversation_from_greeting_to_leaving(start: Start) -> None:
    terminal = start('["I **am** here.\\n\\n- one\\n- two\\n", "Again."]')
    terminal.ready()
    assert "scripted/model" in terminal.text
    assert "session 20" in terminal.text
    terminal.say("hello")
    terminal.shows("scripted/model · 10 in · 5 out")
    assert "I am here." in terminal.text
    assert " • two" in terminal.text
    terminal.say("more")
    terminal.shows("Again.")
    terminal.ready()
    terminal.key("\x04")
    assert terminal.ended() == 0
    assert terminal.cursor_shown
    assert [r["role"] for r in records()] == ["user", "assistant"] * 2


@pytest.mark.parametrize("enter", ["\r", "\n"])
def test_a_line_that_came_in_one_burst_is_one_input_however_it_ends(start: Start, enter: str) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("hello" + enter)
    terminal.shows("Hello.")


def test_many_lines_by_hand_are_one_input(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("one")
    terminal.shows("> one")
    terminal.key("\x1b\r")
    terminal.key("two")
    terminal.shows("  two")
    terminal.read(0.2)
    terminal.key("\n")
    terminal.key("three\\")
    terminal.shows("three\\")
    terminal.key("\rfour\r")
    terminal.shows("Hello.")
    assert records()[0]["content"] == [{"type": "text", "text": "one\ntwo\nthree\nfour"}]


def test_a_paste_of_many_lines_is_one_input_and_its_control_codes_are_harmless(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("\x1b[200~first\r\nsecond \x1b]0;owned\x07 中文\x1b[201~")
    terminal.shows("second ^[]0;owned^G")
    terminal.key("\r")
    terminal.shows("Hello.")
    assert records()[0]["content"] == [{"type": "text", "text": "first\nsecond \x1b]0;owned\x07 中文"}]
    assert b"\x1b]0;" not in terminal.raw


def test_what_was_typed_is_kept_for_its_owner_only_and_comes_back(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("remember me\x1b\rplease\r")
    terminal.shows("Hello.")
    terminal.ready()
    terminal.key("\x04")
    assert terminal.ended() == 0
    file = Path(os.environ["ORKAS_HOME"]) / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert History(file).entries() == ["remember me\nplease"]
    terminal = start()
    terminal.ready()
    terminal.key("\x1b[A\x1b[A")
    terminal.shows("> remember me")


def test_names_are_completed(start: Start, tmp_path: Path) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("/thi")
    terminal.shows("/thinking")
    terminal.key("\t\r")
    terminal.shows("shown in full from now on")


# --- what is shown of a turn ------------------------------------------------------------------------------------


def test_completion_tells_what_commands_do_and_knows_models_and_sessions(start: Start) -> None:
    terminal = start(session="trip")
    terminal.say("hello")
    terminal.ready()
    terminal.key("/")
    terminal.shows("what can be typed here")
    terminal.key("model anth")
    terminal.shows("anthropic/claude")
    terminal.key("\x15/session tr")
    terminal.until(lambda: terminal.text.count("trip") == 2)  # in the greeting, and in the menu


def test_a_tool_is_one_line_and_a_long_result_is_folded(start: Start) -> None:
    terminal = start('[[call("show", text="short")], [call("lines", count=140)], "Done."]')
    terminal.say("go")
    terminal.shows("Done.")
    terminal.ready()
    assert re.search(r"✓ show  short · \d\.\d s · short", terminal.text)
    assert re.search(r"✓ lines  140 · \d\.\d s", terminal.text)
    assert "  … 137 more lines · /expand 2" in terminal.text
    assert "line 4\n" not in terminal.text
    terminal.say("/expand")
    terminal.shows("line 140")
    terminal.ready()
    terminal.say("/expand 1")
    terminal.shows("1 · show  short\nshort")
    terminal.ready()
    terminal.say("/expand 7")
    terminal.shows("no such tool result")
    terminal.ready()
    before = terminal.text.count("line 77")
    terminal.key("\x0f")
    terminal.until(lambda: terminal.text.count("line 77") == before + 1)
    terminal.ready()


def test_a_running_tool_tells_time_and_progress_and_leaves_no_trace(start: Start) -> None:
    terminal = start('[[call("slow", name="build")], "After."]')
    terminal.say("go")
    terminal.shows("slow  build · 0.")
    terminal.shows("still at it")
    terminal.shows("slow  build · 0.5 s")
    terminal.key("\x03")
    terminal.shows("✗ slow  build")
    terminal.ready()
    assert "still at it" not in terminal.text
    assert "Ctrl-C stops" not in terminal.text


def test_what_runs_in_the_background_is_listed_and_stopped(start: Start) -> None:
    terminal = start(
        "[[call('shell', command='echo up; sleep 60', background=True)], 'It runs.']",
        before="from orkas.tools.shell import Shell\nmore = [Shell()]\napprove = 'all'",
    )
    terminal.say("/jobs")
    terminal.shows("Nothing runs in the background.")
    terminal.say("start it")
    terminal.shows("It runs.")
    terminal.say("/jobs")
    terminal.until(lambda: re.search(r"job-\w+  running for \d+ s  echo up; sleep 60", terminal.text) is not None)
    terminal.say("/jobs stop")
    terminal.until(lambda: re.search(r"job-\w+ \(echo up; sleep 60\): stopped", terminal.text) is not None)
    terminal.say("/jobs stop job-none")
    terminal.shows("there is no background job 'job-none'")
    terminal.say("/exit")
    assert terminal.ended() == 0


def test_a_failed_call_and_a_failed_turn_say_so_and_the_conversation_goes_on(start: Start) -> None:
    terminal = start('[[call("nothing")], ProviderError("the key is wrong", class_="auth", status=401), "Back."]')
    terminal.say("go")
    terminal.shows("✗ nothing")
    terminal.shows("the key is wrong (auth, HTTP 401).")
    terminal.say("again")
    terminal.shows("Back.")
    assert "Traceback" not in terminal.text


def test_reasoning_is_a_line_until_it_is_wanted(start: Start) -> None:
    reply = '[Thinking(text="hidden thought"), 0.3, "Answer."]'
    terminal = start(f"[{reply}, {reply}]")
    terminal.say("go")
    terminal.shows("Answer.")
    terminal.ready()
    assert "thought for 0.3 s" in terminal.text
    assert "hidden thought" not in terminal.text
    terminal.say("/thinking")
    terminal.say("go")
    terminal.shows("hidden thought\nthought for 0.3 s")


HOSTILE = "\\x1b]52;c;ZXZpbA==\\x07 \\x1b[2J \\x9b31m \\x1b]8;;http://evil\\x1b\\\\click \\r forged"


def test_control_codes_of_model_and_tool_are_shown_not_obeyed(start: Start) -> None:
    terminal = start(f'["{HOSTILE}", [call("show", text="{HOSTILE}")], "{HOSTILE}", "End."]')
    terminal.say("go")
    terminal.shows("^[]52;c;ZXZpbA==^G")
    terminal.say("tool")
    terminal.shows("✓ show")
    terminal.ready()
    terminal.say("/expand")
    terminal.ready()
    for code in (b"\x1b]52", b"\x1b[2J", b"\x9b31m", b"\x1b]8;"):
        assert code not in terminal.raw.replace("\u009b".encode(), b"\x9b")


def test_a_huge_reply_is_shown_whole(start: Start) -> None:
    terminal = start('[[f"word{n} " for n in range(25_000)] + ["\\n\\nThe end."]]')
    terminal.say("go")
    terminal.shows("The end.", 60)
    terminal.ready()
    whole = " ".join(terminal.text.split())
    assert all(f"word{n} " in whole for n in range(0, 25_000, 501))
    assert whole.count("word12345 ") == 1


def test_ctrl_c_is_heard_while_a_huge_table_is_drawn(start: Start) -> None:
    terminal = start('["|a|b|\\n|-|-|\\n" + "|1|2|\\n" * 300_000]')
    terminal.say("x")
    terminal.until(lambda: terminal.raw.count(b"\n") > 200)
    begun = time.monotonic()
    terminal.child.sendintr()
    terminal.until(lambda: b"not shown:" in terminal.raw, 5)
    assert time.monotonic() - begun < 3  # under a second on a machine with nothing else to do
    terminal.ready()


def test_streaming_leaves_every_line_once_in_the_scrollback(start: Start) -> None:
    pieces = [f"Paragraph {n} with a few words to fill.\\n\\n" for n in range(30)]
    pieces += ["```python\\n", *[f"print({n})\\n" for n in range(200)], "```\\n", "last **words**"]
    script = "[[" + ", ".join(f'"{p}"' if i % 9 else f'"{p}", 0.02' for i, p in enumerate(pieces)) + "]]"
    terminal = start(script)
    terminal.say("go")
    terminal.shows("last words")
    terminal.ready()
    for n in range(30):
        assert terminal.lines.count(f"Paragraph {n} with a few words to fill.") == 1
    for n in range(200):
        assert terminal.lines.count(f"print({n})") == 1


RETRYING = """
import sys, time
from orkas.infra.events import Retry, TextDelta
from orkas.product.chat.rich_screen import RichScreen
screen = RichScreen(sys.stdout)
screen.say("before")
screen.begin()
told = {told!r}
screen.show(TextDelta(0, told))
screen.tick()
time.sleep(0.2)
screen.show(Retry(1, 2, "the connection broke", 0.5, len(told)))
screen.show(TextDelta(2, "The whole answer."))
screen.end()
print("end")
"""


def test_text_that_is_taken_back_leaves_the_screen() -> None:
    terminal = Terminal([sys.executable, "-c", RETRYING.format(told="First *half*.\n\n- of an answ")])
    terminal.shows("end")
    again = "Asking again in 0.5 s (attempt 2): the connection broke"
    assert terminal.lines[:4] == ["before", again, "", "The whole answer."]
    assert b"of an answ" in terminal.raw


def test_text_that_has_left_the_screen_is_marked_as_taken_back() -> None:
    told = "".join(f"paragraph {n}\n\n" for n in range(40))
    terminal = Terminal([sys.executable, "-c", RETRYING.format(told=told)])
    terminal.shows("end")
    assert f"taken back: the last {len(told):,} characters above" in terminal.text
    assert terminal.text.index("taken back") < terminal.text.index("Asking again") < terminal.text.index("The whole")


def test_what_markdown_would_swallow_is_kept(start: Start) -> None:
    terminal = start('["In __init__.py use Vec<String> and <div>,\\nnot a_b_c.\\n\\n**bold** [here](http://x.y)"]')
    terminal.say("go")
    terminal.shows("bold here (http://x.y)")
    assert "In __init__.py use Vec<String> and <div>, not a_b_c." in terminal.text


def test_a_chat_is_recorded_as_a_picture(tmp_path: Path) -> None:
    script, picture = tmp_path / "child.py", tmp_path / "chat.svg"
    script.write_text(CHILD.format(before="", replies="['**Hello** 中文.']", session=None, continue_=False))
    record = Path(__file__).resolve().parents[1] / "docs" / "record.py"
    command = [sys.executable, str(record), "--out", str(picture), "--say", "hi", "--", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    svg = picture.read_text()
    assert "Hello" in svg
    assert "中文" in svg
    assert "url(" not in svg.replace("url(#", "")


def test_narrow_wide_and_unfinished(start: Start) -> None:
    table = "| a | b |\\n|---|---|\\n| x | 很长很长很长的单元格 |\\n\\n"
    reply = f'"# 标题\\n\\n这是一个很长的中文段落，", 0.1, "用来检查宽字符。\\n\\n{table}", "```\\nunclosed `"'
    terminal = start(f"[[{reply}]]", columns=12, rows=10)
    terminal.ready()
    terminal.key("go\r")
    terminal.shows("unclosed `")
    flat = "".join(terminal.text.split())
    assert "很长很" in flat
    assert "宽字符。" in flat.replace("\n", "")


def test_resize_while_streaming(start: Start) -> None:
    words_ = ", ".join(f'"w{n} ", 0.01' for n in range(150))
    terminal = start(f'[[{words_}, "\\n\\nThe end."]]')
    terminal.say("go")
    terminal.shows("w20")
    terminal.resize(50, 24)
    terminal.child.kill(signal.SIGWINCH)
    terminal.shows("w60")
    terminal.resize(100, 30)
    terminal.shows("The end.")
    terminal.ready()
    assert "w149" in terminal.text
    terminal.key("\x04")
    assert terminal.ended() == 0


# --- saying something while a turn runs -------------------------------------------------------------------------


def asked() -> list[str]:
    """What the user said, as the session has it."""
    return [r["content"][0]["text"] for r in records() if r["role"] == "user"]  # type: ignore[index]


def test_what_is_typed_during_a_turn_is_seen_and_sent_to_it(start: Start) -> None:
    terminal = start('[["a ", 2.0, "b"], "Second answer."]')
    terminal.say("go")
    terminal.shows("Ctrl-C stops")
    terminal.key("the othre\x7f\x7fer one")
    terminal.shows("> the other one")
    terminal.key("\r")
    terminal.shows("> the other one  (with the model's next step)")
    terminal.shows("Second answer.")
    terminal.ready()
    assert asked() == ["go", "the other one"]
    assert terminal.text.count("the other one") == 1
    assert "next step" not in terminal.text
    terminal.key("\x1b[A")
    terminal.shows("\n> the other one")  # it is in the history too


def test_it_reaches_the_model_after_the_running_tool(start: Start) -> None:
    terminal = start('[["I look. ", call("until_said")], "Understood."]')
    terminal.say("go")
    terminal.shows("I look.")
    terminal.key("not that one\r")
    terminal.shows("Understood.")
    assert [r["role"] for r in records()] == ["user", "assistant", "tool", "user", "assistant"]
    assert paired()


def test_queue_waits_for_the_end_of_the_turn(start: Start) -> None:
    terminal = start('[[call("show", text="x"), 2.0], "First.", "Second."]')
    terminal.say("go")
    terminal.shows("Ctrl-C stops")
    terminal.key("/queue and then this\r")
    terminal.shows("> and then this  (when this turn has ended)")
    terminal.shows("Second.")
    terminal.ready()
    assert asked() == ["go", "and then this"]
    assert terminal.text.index("First.") < terminal.text.index("> and then this") < terminal.text.index("Second.")


def test_commands_wait_for_the_end_and_a_line_under_way_goes_to_the_prompt(start: Start) -> None:
    terminal = start('[["a ", 2.0, "b"], "Second."]')
    terminal.say("go")
    terminal.shows("Ctrl-C stops")
    terminal.key("/thinking\rhalf a")
    terminal.shows("> /thinking  (after this turn)")
    terminal.shows("shown in full from now on")
    terminal.shows("> half a")
    terminal.key(" line\r")
    terminal.shows("Second.")
    assert asked() == ["go", "half a line"]


def test_what_a_stopped_turn_did_not_take_goes_first_with_the_next(start: Start) -> None:
    terminal = start('[["told ", 60, "never"], "Still here."]')
    terminal.say("go")
    terminal.shows("told")
    terminal.key("wait\r")
    terminal.shows("> wait  (with")
    terminal.key("\x03")
    terminal.shows("they go first with the next message")
    terminal.say("again")
    terminal.shows("Still here.")
    assert asked() == ["go", "wait", "again"]


def test_a_paste_during_a_turn_is_one_message_and_harmless(start: Start) -> None:
    terminal = start('[["a ", 2.0, "b"], "Second."]')
    terminal.say("go")
    terminal.shows("Ctrl-C stops")
    terminal.key("\x1b[200~one\r\ntwo \x1b]0;owned\x07\x1b[201~")
    terminal.shows("  two ^[]0;owned^G")
    terminal.key("\r")
    terminal.shows("Second.")
    assert asked() == ["go", "one\ntwo \x1b]0;owned\x07"]
    assert b"\x1b]0;" not in terminal.raw


def test_ctrl_d_during_a_turn_leaves_after_it(start: Start) -> None:
    terminal = start('[["a ", 0.5, "The end."]]')
    terminal.say("go")
    terminal.shows("Ctrl-C stops")
    terminal.key("\x04")
    terminal.shows("The end.")
    assert terminal.ended() == 0


def test_at_a_dumb_terminal_a_whole_line_is_sent(start: Start) -> None:
    terminal = start('[["a ", 2.0, "b"], "Second."]', env={"TERM": "dumb"})
    terminal.say("go")
    terminal.shows("a")
    terminal.key("and this\r")
    terminal.shows("(with the model's next step)")
    terminal.shows("Second.")
    assert asked() == ["go", "and this"]
    assert b"\x1b" not in terminal.raw


def test_at_the_prompt_what_is_queued_is_said_at_once(start: Start) -> None:
    terminal = start('["First."]')
    terminal.say("/queue")
    terminal.shows("Say /queue and what the model is told")
    terminal.say("/queue do it now")
    terminal.shows("First.")
    assert asked() == ["do it now"]


def test_a_command_that_takes_nothing_says_so(start: Start) -> None:
    terminal = start()
    terminal.say("/stats all")
    terminal.shows("/stats takes nothing after it")


def test_what_a_crash_left_behind_is_told(start: Start) -> None:
    with Session.open("crashed") as session:
        session.append(user_message("Look."))
        session.append(AssistantMessage([ToolCall(id="c1", name="show", arguments={"text": "a"})]))
        session.inbox.steer("And quickly.")
    terminal = start(session="crashed")
    terminal.shows("A tool call was cut off when this conversation ended")
    terminal.shows("A message of yours waits and goes first with the next one.")


def test_a_line_break_within_a_paragraph_is_a_space(start: Start) -> None:
    terminal = start('["one line\\nthat goes on\\n\\nand another"]')
    terminal.say("go")
    terminal.shows("one line that goes on")


def test_a_plain_chat_for_want_of_packages_says_so(start: Start) -> None:
    terminal = start(before=BLOCKED)
    terminal.ready()
    assert terminal.text.count("pip install rich prompt-toolkit") == 1


@pytest.mark.parametrize(
    ("keys", "entered", "left"),
    [
        ("abc", [], "abc"),
        ("abc\r", ["abc"], ""),
        ("a\rb\nc", ["a", "b"], "c"),
        ("abc\x7f\bd", [], "ad"),
        ("one two\x17x", [], "one x"),
        ("abc\x15d", [], "d"),
        ("a\x1b\rb\r", ["a\nb"], ""),
        ("a\\\rb\r", ["a\nb"], ""),
        ("a\x1b[Ab\x1bOAc\x1b[1;5Cd", [], "abcd"),
        ("\x1b[200~a\rb\x1b[201~c\r", ["a\nbc"], ""),
        ("中文é\r", ["中文é"], ""),
        ("\t\x01a\x0f", [], "a"),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_keys_are_read_the_same_however_they_are_cut(keys: str, entered: list[str], left: str, step: int) -> None:
    data, typed, found = keys.encode(), Typed(), []
    for start in range(0, len(data), step):
        found += typed.feed(data[start : start + step])
    assert (found, typed.text, typed.ended) == (entered, left, False)


def test_ctrl_d_ends_only_an_empty_message() -> None:
    typed = Typed()
    assert typed.feed(b"a\x04") == [] and not typed.ended
    typed.feed(b"\x15\x04")
    assert typed.ended


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_whatever_is_typed_is_text(data: bytes) -> None:
    typed = Typed()
    for text in [*typed.feed(data), typed.text]:
        text.encode()


# --- stopping and leaving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", ['["told ", 60, "never"]', '[call("slow", name="x")]'], ids=["stream", "tool"])
def test_ctrl_c_stops_the_turn_and_the_prompt_comes_back(start: Start, reply: str) -> None:
    terminal = start(f'[{reply}, "Still here."]')
    terminal.say("go")
    terminal.shows("told" if "told" in reply else "still at it")
    begun = time.monotonic()
    terminal.key("\x03")
    terminal.shows("stopped")
    terminal.ready()
    assert time.monotonic() - begun < 2
    terminal.say("again")
    terminal.shows("Still here.")
    assert paired()
    assert "Traceback" not in terminal.text


def test_ctrl_c_at_the_prompt_first_asks_then_leaves(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("half a line")
    terminal.shows("> half a line")
    terminal.key("\x03")
    terminal.ready()
    assert "again to leave" not in terminal.text
    terminal.key("\x03")
    terminal.shows("Press Ctrl-C again to leave.")
    terminal.ready()
    terminal.key("\x03")
    assert terminal.ended() == 130
    assert "Traceback" not in terminal.text


def test_an_input_between_takes_the_first_ctrl_c_back(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.key("\x03")
    terminal.shows("again to leave")
    terminal.say("hello")
    terminal.shows("Hello.")
    terminal.ready()
    terminal.key("\x03")
    terminal.until(lambda: terminal.text.count("again to leave") == 2)
    terminal.say("hello")
    terminal.shows("Hello.")


def test_ctrl_c_twice_in_a_turn_stops_it_and_leaves(start: Start) -> None:
    terminal = start('[[call("slow", name="x")]]')
    terminal.say("go")
    terminal.shows("still at it")
    terminal.key("\x03")
    terminal.read(0.1)  # signals that wait together are one
    terminal.key("\x03")
    assert terminal.ended() == 130
    assert "stopped" in terminal.text
    assert terminal.cursor_shown
    assert paired()


@pytest.mark.parametrize("when", ["prompt", "turn"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_the_system_ends_it_in_order(start: Start, name: str, when: str) -> None:
    number = getattr(signal, name)
    terminal = start('["Hello.", [call("slow", name="x")]]')
    terminal.say("hello")
    terminal.shows("Hello.")
    terminal.ready()
    if when == "turn":
        terminal.say("go")
        terminal.shows("still at it")
    terminal.child.kill(number)
    assert terminal.ended() == 128 + number
    assert terminal.cursor_shown
    assert "Traceback" not in terminal.text
    assert paired()


def test_a_terminal_that_is_closed_ends_it(start: Start) -> None:
    terminal = start('[[call("slow", name="x")]]')
    terminal.say("go")
    terminal.shows("still at it")
    terminal.child.ptyproc.fileobj.close()
    deadline = time.monotonic() + 5
    while terminal.child.isalive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not terminal.child.isalive()
    assert paired()


@pytest.mark.parametrize("how", ["\x04", "\x03", "/exit\r"])
def test_the_terminal_is_left_as_it_was_found(tmp_path: Path, how: str) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD.format(before="", replies="['Hello.']", session=None, continue_=False))
    commands = f"stty -g > before; {sys.executable} {script}; stty -g > after; echo the shell again"
    terminal = Terminal(["sh", "-c", f"cd {tmp_path}; {commands}"])
    terminal.say("hello")
    terminal.shows("Hello.")
    terminal.ready()
    terminal.key(how)
    if how == "\x03":
        terminal.shows("again to leave")
        terminal.ready()
        terminal.key(how)
    terminal.shows("the shell again")
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()
    for code in (b"\x1b[?2004", b"\x1b[?25"):
        on, off = (b"h", b"l") if code.endswith(b"25") else (b"l", b"h")
        assert terminal.raw.rfind(code + on) > terminal.raw.rfind(code + off)
    assert terminal.ended() == 0


# --- slash commands ---------------------------------------------------------------------------------------------


def test_help_lists_every_command(start: Start) -> None:
    terminal = start()
    terminal.say("/help")
    terminal.ready()
    for name in ("/help", "/model", "/session", "/clear", "/thinking", "/expand", "/exit", "Ctrl-C", "Ctrl-J"):
        assert name in terminal.text


def test_stats_shows_what_this_conversation_used(start: Start) -> None:
    terminal = start()
    terminal.say("/stats")
    terminal.shows("Nothing was counted in this conversation yet.")
    terminal.say("hello")
    terminal.ready()
    terminal.say("/stats")
    terminal.shows("`orkas stats` shows all conversations.")
    assert re.search(r"scripted/model +1 ", terminal.text) and re.search(r"total +1 ", terminal.text)


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_a_plain_word_leaves_and_the_way_back_is_told(start: Start, word: str) -> None:
    terminal = start()
    terminal.say("hello")
    terminal.ready()
    terminal.key(word + "\r")
    assert terminal.ended() == 0
    (file,) = (Path(os.environ["ORKAS_HOME"]) / "sessions").glob("*.jsonl")
    assert f"orkas --session {file.stem}" in terminal.text
    assert [r["role"] for r in records()] == ["user", "assistant"]


def test_ctrl_c_leaves_the_search_of_the_history_at_once(start: Start) -> None:
    terminal = start()
    terminal.say("hello")
    terminal.ready()
    terminal.key("\x12hel")
    terminal.shows("search")
    terminal.key("\x03")
    terminal.until(lambda: "search" not in terminal.text)
    terminal.ready()


def test_a_model_without_a_key_is_told_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    terminal = start()
    terminal.say("/model anthropic/claude-sonnet-4-5")
    terminal.shows("set ANTHROPIC_API_KEY")


def test_an_unknown_command_and_a_literal_slash(start: Start) -> None:
    terminal = start()
    terminal.say("/sesion")
    terminal.shows("There is no command /sesion. Did you mean /session?")
    terminal.say("//etc/hosts, please")
    terminal.shows("Hello.")
    assert records()[0]["content"] == [{"type": "text", "text": "/etc/hosts, please"}]


def test_model_is_shown_and_changed_and_a_bad_one_is_told(start: Start) -> None:
    terminal = start()
    terminal.say("/model")
    terminal.shows("The model is scripted/model.")
    terminal.say("/model nonsense/x")
    terminal.shows("nonsense")
    terminal.say("still there?")
    terminal.shows("Hello.")
    terminal.say("/model demo/offline")
    terminal.shows("From now on: demo/offline")


def test_sessions_are_listed_left_and_taken_up_again(start: Start) -> None:
    terminal = start(session="first")
    terminal.say("question one")
    terminal.shows("Hello.")
    terminal.say("/session")
    terminal.shows("session first · 2 messages ·")
    terminal.say("/clear")
    terminal.shows("/session first goes back to it.")
    terminal.say("question two")
    terminal.ready()
    terminal.say("/session list")
    terminal.shows("* 20")
    terminal.say("/session nowhere")
    terminal.shows("nowhere")
    terminal.say("/session first")
    terminal.shows("2 messages so far; the last question: question one")
    terminal.say("/exit")
    assert terminal.ended() == 0


def test_continue_takes_the_last_session(start: Start) -> None:
    terminal = start(session="trip")
    terminal.say("to Rome")
    terminal.shows("Hello.")
    terminal.ready()
    terminal.key("\x04")
    terminal.ended()
    terminal = start(continue_=True)
    terminal.shows("session trip")
    terminal.shows("the last question: to Rome")


def test_nothing_to_continue_is_wrong_usage(start: Start) -> None:
    terminal = start(continue_=True)
    assert terminal.ended() == 2
    assert "no earlier session" in terminal.text
    assert "Traceback" not in terminal.text


# --- plain terminals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "env"),
    [("", {"NO_COLOR": "1"}), ("", {"TERM": "dumb"}), (BLOCKED, {})],
    ids=["NO_COLOR", "dumb", "no rich installed"],
)
def test_plain_terminals_get_no_escape_code_at_all(start: Start, before: str, env: dict[str, str]) -> None:
    terminal = start(f'["**Bold** {HOSTILE}\\n", [call("lines", count=9)], "End."]', before=before, env=env)
    terminal.ready()
    terminal.key("hello\\\r")
    terminal.read(0.2)
    terminal.key("more\r")
    terminal.shows("**Bold** ^[]52")
    terminal.say("go")
    terminal.shows("End.")
    terminal.ready()
    assert re.search(r"✓ lines  9 · \d\.\d s", terminal.text)
    assert "… 6 more lines · /expand 1" in terminal.text
    assert b"\x1b" not in terminal.raw
    assert records()[0]["content"] == [{"type": "text", "text": "hello\nmore"}]
    terminal.key("\x04")
    assert terminal.ended() == 0


def test_plain_terminals_break_lines_at_words_and_keep_the_marks_of_markdown(start: Start) -> None:
    text = "# Head\\n\\n" + "several words " * 12 + "\\n- point **one**\\n"
    terminal = start(f'["{text}"]', env={"NO_COLOR": "1"}, columns=40)
    terminal.say("x")
    terminal.shows("- point **one**")
    terminal.shows("# Head")
    body = [line for line in terminal.lines if "several" in line]
    assert len(body) > 3 and all(set(line.split()) <= {"several", "words"} for line in body)
    assert b"\x1b" not in terminal.raw


def test_ctrl_c_on_a_plain_terminal(start: Start) -> None:
    terminal = start('[["told ", 60], "Still here."]', env={"NO_COLOR": "1"})
    terminal.say("go")
    terminal.shows("told")
    terminal.key("\x03")
    terminal.shows("stopped")
    terminal.say("again")
    terminal.shows("Still here.")
    terminal.ready()
    terminal.persist(lambda: terminal.key("\x03"), lambda: "again to leave" in terminal.text)
    terminal.ready()
    terminal.persist(lambda: terminal.key("\x03"), lambda: not terminal.read())
    assert terminal.ended() == 130
    assert "Traceback" not in terminal.text


def test_sigterm_at_a_plain_prompt(start: Start) -> None:
    terminal = start(env={"NO_COLOR": "1"})
    terminal.say("hello")
    terminal.ready()
    terminal.persist(lambda: terminal.child.kill(signal.SIGTERM), lambda: not terminal.read())
    assert terminal.ended() == 143
    assert "Traceback" not in terminal.text


def test_an_encoding_without_ticks_is_no_reason_to_die(start: Start) -> None:
    env = {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    terminal = start('[[call("show", text="x")], "caf\\u00e9 \\u4e2d"]', env=env)
    terminal.say("go")
    terminal.until(lambda: re.search(r"\+ show  x - \d\.\d s - x", terminal.text) is not None)
    terminal.shows("caf\\xe9 \\u4e2d")


def test_without_a_terminal_lines_are_inputs(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD.format(before="", replies="['One.', 'Two.']", session=None, continue_=False))
    done = subprocess.run(
        [sys.executable, str(script)], input=b"hi\nthere\n", capture_output=True, timeout=20, env={**os.environ}
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.index(b"One.") < done.stdout.index(b"Two.")
    assert b"\x1b" not in done.stdout


# --- finding a model --------------------------------------------------------------------------------------------

FOUND = "import argparse, sys; from orkas.product.chat import main; sys.exit(main(argparse.Namespace()))"


def test_without_a_model_it_says_what_it_looked_for_and_asks_once(start: Start) -> None:
    terminal = Terminal([sys.executable, "-c", FOUND])
    terminal.shows("[y/N]")
    assert "no language model" in terminal.text
    assert "orkas models install local" in terminal.text
    terminal.key("what is this?\r")  # no answer: it is said to the model
    terminal.until(lambda: bool(list((Path(os.environ["ORKAS_HOME"]) / "sessions").glob("*"))))
    terminal.ready()
    assert records()[0]["content"] == [{"type": "text", "text": "what is this?"}]
    terminal.key("\x04")
    assert terminal.ended() == 0
    terminal = Terminal([sys.executable, "-c", FOUND])
    terminal.ready()
    assert "[y/N]" not in terminal.text
    terminal.child.close(force=True)


# --- the splitter -----------------------------------------------------------------------------------------------

_LINES = st.sampled_from(
    ["\n", "text\n", "# head\n", "- item\n", "  more\n", "1. one\n", "```py\n", "```\n", "~~~\n", "| a | b |\n",
     "|---|---|\n", "| 1 | 2 |\n", "> quote\n", "    code\n", "`tick\n", "  ```\n", "中文。\n", "a \\\r\n", "---\n"]
)  # fmt: skip
_TEXTS = st.one_of(st.lists(_LINES, max_size=40).map("".join), st.text(alphabet="`~\n -#|*a1.\r", max_size=300))


def split(pieces: list[str]) -> list[Block]:
    splitter = Splitter()
    done = [block for piece in pieces for block in splitter.feed(piece)]
    return done + splitter.finish()


@given(_TEXTS, st.data())
@settings(max_examples=300, deadline=None)
def test_any_cutting_gives_the_same_blocks_and_they_join_to_the_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    edges = [0, *cuts, len(text)]
    whole = split([text])
    assert split([text[a:b] for a, b in itertools.pairwise(edges)]) == whole
    assert split(list(text)) == whole
    assert "".join(block.text for block in whole) == text


@given(st.sampled_from(["x", "x y ", "- a\n", "text\n", "```\ncode\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "中 "]))
@settings(max_examples=20, deadline=None)
def test_no_block_grows_without_bound(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    splitter = Splitter()
    pending = 0
    for start_ in range(0, len(text), 997):
        splitter.feed(text[start_ : start_ + 997])
        pending = max(pending, len(splitter.pending.text))
    assert pending <= 2 * MAX_CHARS + 997
    blocks = split([text])
    assert max(len(b.text) for b in blocks) <= 2 * MAX_CHARS
    assert max(b.text.count("\n") for b in blocks) <= MAX_LINES + 1
    assert "".join(b.text for b in blocks) == text


def test_blocks_are_what_markdown_calls_blocks() -> None:
    text = "Para\ngoes on.\n\n# Head\nnext\n```py\na\n\nb\n```\n- x\n\n  more\n\n- y\n\nend"
    assert [b.text for b in split([text])] == [
        "Para\ngoes on.\n\n", "# Head\n", "next\n", "```py\na\n\nb\n```\n", "- x\n\n  more\n\n- y\n\n", "end",
    ]  # fmt: skip


def test_a_finished_block_is_given_at_once() -> None:
    splitter = Splitter()
    assert splitter.feed("One.\n") == []
    assert splitter.feed("\nTw") == [Block("One.\n\n")]
    assert splitter.pending == Block("Tw")


def test_a_long_fence_is_cut_into_fences() -> None:
    blocks = split(["```py\n" + "x = 1\n" * (MAX_LINES + 10) + "```\nafter\n"])
    assert [b.source.splitlines()[0] for b in blocks] == ["```py", "```py", "after"]
    assert [b.source.splitlines()[-1] for b in blocks] == ["```", "```", "after"]


# --- small parts ------------------------------------------------------------------------------------------------


@given(st.text())
def test_inert_text_holds_nothing_a_terminal_obeys(text: str) -> None:
    safe = inert(text)
    assert all(c in "\t\n" or (ord(c) >= 0x20 and not 0x7F <= ord(c) <= 0x9F) for c in safe)
    assert inert(safe) == safe
    assert inert(text.replace("\r\n", "\n")) == safe


def test_inert_text_stays_readable() -> None:
    assert inert("a\tb\r\n中文 é 😀") == "a\tb\n中文 é 😀"
    assert inert("\x1b[2J\x9b\x00\x7f\u202e\ud83d") == "^[[2J\\x9b^@^?\\u202e\\ud83d"


@given(st.text(), st.integers(1, 60))
def test_clipped_text_fits(text: str, width: int) -> None:
    line = words.one_line(text)
    assert words.cells(words.clip(line, width)) <= max(width, 1)


def test_the_end_of_a_turn_in_words() -> None:
    usage = Usage(input=1200, output=56, cache_read=1000)
    done = Done(9, "completed", "", "stop", "a/b", "s", 1, usage, {})
    assert words.done_line(done, 3.21) == "a/b · 2,200 in (1,000 from cache) · 56 out · 3.2 s"
    done.usage.cost_usd = 0.00125
    assert words.done_line(done, 75).endswith("1 min 15 s · $0.0013")
    done.usage, done.stop_reason = Usage(), "length"
    assert words.done_line(done, 12) == "a/b · 12 s · ended by length"


@pytest.mark.parametrize("class_", get_args(ErrorClass))
def test_every_failure_says_what_to_do(class_: str) -> None:
    told = words.failure(ErrorInfo(class_, "it broke.", None))  # type: ignore[arg-type]
    assert told.startswith(f"it broke ({class_.replace('_', ' ')}). ")
    assert told.count(". ") >= 1


def test_a_backslash_goes_on_and_an_escaped_one_does_not() -> None:
    assert [continues(t) for t in ("a\\", "a\\\\", "a", "\\\\\\")] == [True, False, False, True]


def test_completions_of_commands_and_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / "setup.py").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "bad\x1bname").touch()
    assert completions("/mo", tmp_path, ["/model", "/exit"]) == [("/mo", "/model")]
    assert completions("see @s", tmp_path, []) == [("s", "setup.py"), ("s", "src/")]
    assert completions("@src/", tmp_path, []) == [("src/", "src/main.py")]
    assert completions("@", tmp_path, []) == [("", "setup.py"), ("", "src/")]
    assert completions("a@s", tmp_path, []) == []


def test_a_history_has_an_end_and_survives_damage(tmp_path: Path) -> None:
    history = History(tmp_path / "new" / "history")
    history.path.parent.mkdir()
    history.path.write_bytes(b'not json\n{"a": 1}\n' + b'"old"\n' * (2 * KEPT + 5))
    history.add("line\nbreak \ud83d")
    found = history.entries()
    assert len(found) == KEPT
    assert found[-1] == "line\nbreak \ufffd"
    assert len(history.path.read_bytes().splitlines()) == KEPT
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_written_is_told_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = History(tmp_path / "file" / "history")
    history.add("x")
    assert history.problem
    assert history.entries() == []


@pytest.mark.parametrize("kind", ["nested", "digits", "pipe", "folder"])
def test_a_history_that_is_none_is_told_and_the_chat_goes_on(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "history"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes((b"[" * 100_000 if kind == "nested" else b"1" * 6000) + b'\n"good"\n')
    history = History(path)
    assert history.entries() == ([] if kind in ("pipe", "folder") else ["good"])
    history.add("more")
    assert bool(history.problem) == (kind in ("pipe", "folder"))


def test_tools_are_chosen_by_name() -> None:
    from orkas.product.chat.start import _tools

    assert _tools("all") is None
    assert _tools("none") == []
    assert [t.name for t in _tools("shell, read_file") or []] == ["shell", "read_file"]
    with pytest.raises(UsageError, match="no tool 'shel'") as caught:
        _tools("shel")
    assert caught.value.hint == "did you mean shell?"


# -- another model


def test_the_chat_asks_another_model_when_the_first_does_not_answer() -> None:
    with FakeVendor(keys={"good"}) as vendor:
        vendor.script("From the second.")
        base = vendor.base_url
        env = {"CUSTOM_API_KEY": "bad", "CUSTOM_BASE_URL": base, "ANTHROPIC_API_KEY": "good", "ANTHROPIC_BASE_URL": base}
        words = ["--model", "custom/m", "--fallback", "anthropic/claude-x", "--max-retries", "0", "--tools", "none"]
        terminal = Terminal([sys.executable, "-m", "orkas", *words], env=env)
        terminal.say("Hello?")
        terminal.shows("From the second.")
        terminal.ready()
        terminal.key("\x04")
        assert terminal.ended() == 0
    assert [r.status for r in vendor.requests] == [401, 200]


# --- questions --------------------------------------------------------------------------------------------------

SENDS = '[[call("send", text="one\\u202e two")], [call("send", text="one\\u202e two")], "Done."]'


@pytest.mark.parametrize("before", ["", BLOCKED], ids=["rich", "plain"])
def test_a_question_is_shown_whole_and_answered_with_a_word(start: Start, before: str) -> None:
    terminal = start(SENDS, before=before)
    terminal.say("send it")
    terminal.shows("May this run?  send")
    terminal.shows("text: one\\u202e two")
    terminal.shows("n no")
    terminal.key("y\r")
    terminal.shows("sent one")
    terminal.until(lambda: terminal.text.count("May this run?") == 2)
    terminal.key("n it was sent already\r")
    terminal.shows("Done.")
    refused = [r for r in records() if r["role"] == "tool"][-1]
    assert "it was sent already" in json.dumps(refused)
    assert refused["is_error"]


@pytest.mark.parametrize("before", ["", BLOCKED], ids=["rich", "plain"])
def test_a_rule_for_longer_is_shown_before_it_is_stored(start: Start, before: str) -> None:
    terminal = start(SENDS, before=before)
    terminal.say("send it")
    terminal.shows("s and a would allow from now on: send:")
    assert not (Path(os.environ["ORKAS_HOME"]) / "grants.jsonl").exists()
    terminal.key("a\r")
    terminal.shows("Done.")
    assert terminal.text.count("May this run?") == 1
    assert (Path(os.environ["ORKAS_HOME"]) / "grants.jsonl").read_text().count("send") >= 1


@pytest.mark.parametrize("before", ["", BLOCKED], ids=["rich", "plain"])
def test_ctrl_c_at_a_question_stops_the_turn(start: Start, before: str) -> None:
    terminal = start(SENDS, before=before)
    terminal.say("send it")
    terminal.shows("n no")
    terminal.key("\x03")
    terminal.shows("stopped")
    terminal.ready()
    assert paired()
    assert "not started" in json.dumps(records()[-1])


def test_what_is_no_answer_is_said_to_the_model_and_the_question_stays(start: Start) -> None:
    terminal = start(SENDS)
    terminal.say("send it")
    terminal.shows("n no")
    terminal.key("yes please be quick\r")
    terminal.shows("with the model's next step")
    terminal.key("o\r")
    terminal.shows("o is no answer to this question; y or n is")
    terminal.key("s\r")
    terminal.shows("Done.")
    said = [r for r in records() if r["role"] == "user"]
    assert "yes please be quick" in json.dumps(said)


def test_the_mode_is_changed_in_the_chat(start: Start) -> None:
    terminal = start(SENDS)
    terminal.say("/approve")
    terminal.shows("Approval is ask")
    terminal.say("/approve sometimes")
    terminal.shows("ask, edits, all, none")
    terminal.say("/approve none")
    terminal.shows("Approval is none")
    terminal.say("send it")
    terminal.shows("Done.")
    assert "May this run?" not in terminal.text
