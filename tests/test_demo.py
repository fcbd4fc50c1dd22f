"""The offline demo: honest about itself, streams, calls real tools, tells what came back."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas.harness.context import summary
from orkas.infra.messages import AssistantMessage, Message, ToolMessage, calls_of, text_of, tool_result, user_message
from orkas.providers.base import CompletionParams, TextPart, ToolDef
from orkas.providers.demo import INTRODUCTION, DemoProvider
from orkas.providers.demo.rules import understand

NAMES = ("read_file", "write_file", "edit_file", "list_files", "search_files", "shell")
TOOLS = [ToolDef(name, "", {"type": "object", "properties": {}}) for name in NAMES]


def params(messages: list[Message], tools: list[ToolDef] = TOOLS, **more: Any) -> CompletionParams:
    return CompletionParams("offline", messages, tools=tools, **more)


class Folder:
    """Plain stand-ins for the built-in tools, on real files: same names, arguments and forms of result."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        try:
            return getattr(self, name)(**arguments), False
        except OSError as error:
            return f"{error.filename}: {error.strerror}", True

    def read_file(self, path: str, limit: int = 2000) -> str:
        lines = (self.path / path).read_text().splitlines()
        more = len(lines) - limit
        return "\n".join([*lines[:limit], *([f"[{more} more lines]"] if more > 0 else [])]) or "(empty file)"

    def write_file(self, path: str, content: str) -> str:
        (self.path / path).write_text(content)
        return f"created {path}"

    def edit_file(self, path: str, old_text: str, new_text: str) -> str:
        text = (self.path / path).read_text()
        (self.path / path).write_text(text.replace(old_text, new_text))
        return "replaced"

    def list_files(self, path: str) -> str:
        found = sorted((self.path / path).iterdir(), key=lambda p: (p.is_dir(), -p.stat().st_size))
        return "\n".join(f" dir  {p.name}/" if p.is_dir() else f"{p.stat().st_size:>4}  {p.name}" for p in found)

    def search_files(self, pattern: str, names_only: bool = False) -> str:
        files = [p for p in sorted(self.path.rglob("*")) if p.is_file()]
        if names_only:
            return "\n".join(p.name for p in files if re.search(pattern, p.name)) or "[no path matches]"
        hits = [f"{p.name}:{n}: {line}" for p in files for n, line in enumerate(p.read_text().splitlines(), 1)
                if re.search(pattern, line)]  # fmt: skip
        return "\n".join(hits) or "[no line matches; 3 files searched]"

    def shell(self, command: str) -> str:
        ran = subprocess.run(["sh", "-c", command], cwd=self.path, capture_output=True, text=True, check=False)
        return f"{ran.stdout.rstrip() or '(no output)'}\n[exit code {ran.returncode}]"


async def talk(folder: Path, *questions: str) -> tuple[list[Message], str]:
    """The whole conversation and the last answer."""
    demo, box, history = DemoProvider(), Folder(folder), list[Message]()
    for question in questions:
        history.append(user_message(question))
        for _ in range(6):
            reply = await demo.complete(params(history))
            history.append(reply)
            if not calls_of(reply):
                break
            for call in calls_of(reply):
                text, failed = box.run(call.name, call.arguments or {})
                history.append(tool_result(call.id, text, is_error=failed))
        else:
            pytest.fail(f"no end: {question}")
    return history, text_of(history[-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("Call Maria.\nHer number is 555-1234.\nBuy milk.\n")
    (tmp_path / "log.txt").write_text("ok\n" * 40)
    (tmp_path / "a.csv").write_text("id,animal\n1,zebra\n")
    (tmp_path / "src").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("question", "tool", "told"),
    [
        ("List the files.", "list_files", "3 files: log.txt, notes.txt and a.csv"),
        ("What is here?", "list_files", "One folder: src/"),
        ("Which file in this folder is the largest?", "list_files", "largest file here is log.txt with 120 bytes"),
        ("what's the smallest file?", "list_files", "smallest file here is a.csv"),
        ("Search for milk", "search_files", "milk is in notes.txt, line 3: Buy milk."),
        ("Which csv file contains the word zebra?", "search_files", "zebra is in a.csv, line 2"),
        ("find unicorns", "search_files", "in no file"),
        ("find files named *.txt", "search_files", "2 files: log.txt and notes.txt"),
        ("find files named notes", "search_files", "1 file: notes.txt"),
        ("find all files called nothing.like.this", "search_files", "no file named"),
        ("Read notes.txt", "read_file", "Her number is 555-1234."),
        ("please show me notes.txt.", "read_file", "Buy milk."),
        ("show log.txt", "read_file", "28 more lines follow"),
        ("the first line of notes.txt", "read_file", "is: Call Maria."),
        ("show me the last 2 lines of notes.txt", "shell", "Her number is 555-1234.\nBuy milk."),
        ("How many lines does notes.txt have?", "shell", "notes.txt has 3 lines."),
        ("run `echo hello there`", "shell", "printed: hello there"),
        ("run the command `true` and tell me what it prints", "shell", "printed nothing"),
        ("Create hello.txt with the text: Hello, world!", "write_file", "wrote hello.txt"),
        ("Replace milk with bread in notes.txt.", "edit_file", "replaced the text in notes.txt"),
        ("read nowhere.txt", "read_file", "That did not work"),
    ],
)
async def test_a_plain_request_calls_its_tool_and_tells_what_came_back(
    folder: Path, question: str, tool: str, told: str
) -> None:
    history, answer = await talk(folder, question)
    assert [c.name for m in history for c in calls_of(m)] == [tool]
    assert told in answer


async def test_writing_and_editing_change_the_files_as_asked(folder: Path) -> None:
    await talk(
        folder, "create a file called hello.txt with the text: Hello, world!", "Write 'a in b' to b.txt.",
        "In notes.txt, change milk to oat milk.",
    )  # fmt: skip
    assert (folder / "hello.txt").read_text() == "Hello, world!\n"
    assert (folder / "b.txt").read_text() == "a in b\n"
    assert "Buy oat milk." in (folder / "notes.txt").read_text()


async def test_two_steps_in_one_request(folder: Path) -> None:
    history, answer = await talk(folder, "Find the file that contains Maria and then read it")
    assert [c.name for m in history for c in calls_of(m)] == ["search_files", "read_file"]
    assert "Her number is 555-1234." in answer


async def test_says_once_per_conversation_that_it_is_no_language_model(folder: Path) -> None:
    history, _ = await talk(folder, "list the files", "hello", "write a poem about the sea")
    said = [text_of(m) for m in history if isinstance(m, AssistantMessage)]
    assert [text.startswith(INTRODUCTION) for text in said] == [True] + [False] * (len(said) - 1)
    assert all(m.model == "demo/offline" for m in history if isinstance(m, AssistantMessage))


@pytest.mark.parametrize("question", ["write a poem about the sea", "what is the meaning of life?", "", "make tea"])
async def test_what_it_cannot_do_names_a_real_model(tmp_path: Path, question: str) -> None:
    history, answer = await talk(tmp_path, question)
    assert not [c for m in history for c in calls_of(m)]
    assert "orkas models install local" in answer and "ANTHROPIC_API_KEY" in answer


async def test_remembering_is_refused_with_a_way_out(tmp_path: Path) -> None:
    _, answer = await talk(tmp_path, "remember that I like tea")
    assert "cannot remember" in answer and 'create notes.md with the text: I like tea' in answer
    assert not list(tmp_path.iterdir())


async def test_only_tools_on_offer_are_called() -> None:
    demo = DemoProvider()
    asked = [user_message("run `date`")]
    for given_ in (params(asked, []), params(asked, TOOLS[:2]), params(asked, tool_choice="none")):
        reply = await demo.complete(given_)
        assert not calls_of(reply) and "shell" in text_of(reply)
    counted = await demo.complete(params([user_message("count the lines of a.txt")], TOOLS[:1]))
    assert [c.name for c in calls_of(counted)] == ["read_file"]


async def test_it_streams_in_several_pieces_that_join_to_the_message() -> None:
    async with DemoProvider().stream(params([user_message("help")])) as completion:
        parts = [part async for part in completion]
    pieces = [p.text for some in parts for p in some if isinstance(p, TextPart)]
    assert len(pieces) > 10
    assert "".join(pieces) == text_of(completion.message)
    assert completion.message.stop_reason == "stop"


async def test_the_same_conversation_gives_the_same_replies(folder: Path) -> None:
    async def once() -> list[tuple[str, list[tuple[str, Any]]]]:
        history, _ = await talk(folder, "read notes.txt", "search for milk")
        return [(text_of(m), [(c.id, c.arguments) for c in calls_of(m)]) for m in history]

    first = await once()
    assert first == await once()
    ids = [id for _, calls in first for id, _ in calls]
    assert len(set(ids)) == len(ids)


async def test_a_result_of_an_earlier_turn_does_not_answer_this_one(folder: Path) -> None:
    history, answer = await talk(folder, "read notes.txt", "read a.csv")
    assert "zebra" in answer and "Maria" not in answer
    assert sum(isinstance(m, ToolMessage) for m in history) == 2


BEGINNINGS = st.sampled_from(["run ", "find ", "create x with ", "replace a with ", "the first "])


@given(st.text(max_size=200) | st.tuples(BEGINNINGS, st.text()).map("".join))
def test_no_question_breaks_the_rules(question: str) -> None:
    want = understand(question)
    assert want is None or want.options or want.answer


@pytest.mark.parametrize("piece", ["replace ", "a with ", "in x ", "write ", "find the file with a and then ", " "])
def test_a_long_question_costs_no_time(piece: str) -> None:
    began = time.process_time()
    for length in (20_000, 2_000_000):
        understand(f"replace {piece * (length // len(piece))} in x y")
    assert time.process_time() - began < 5


def test_the_request_shows_what_would_be_asked() -> None:
    request = DemoProvider().request(params([user_message("help")]))
    assert request.url == "demo:" and b'"help"' in request.body


async def test_a_part_of_a_conversation_that_is_given_as_text_is_summarised_too() -> None:
    part = "[user] Do it\n[agent] I look.\n[call] shell {}\n[result] done"
    asked = summary.piece_request(part, so_far="## Done\n- asked: before", place="2 of 2", words=100, keep="")
    reply = await DemoProvider().complete(
        CompletionParams(model="offline", messages=[user_message(asked)], system=summary.SYSTEM)
    )
    assert "## Goal\nDo it\n" in text_of(reply) and "- asked: before\n- asked: Do it\n- ran shell {}" in text_of(reply)
