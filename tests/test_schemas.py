"""The committed schemas are those of the code, and what the code writes is valid by them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from orkas.infra import events, messages, schemas
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    tool_result,
    user_message,
)

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("ORKAS_SHARED", ROOT.parent / "shared"))

MESSAGES: list[Message] = [
    user_message("hi", [Image(media_type="image/png", data="AA==")]),
    messages.UserMessage([Image(media_type="image/png", file="1.png")], origin="tool_image", tool_call_id="c1"),
    AssistantMessage(
        [
            Thinking(text="hm", signature="s", vendor={"raw": [1]}),
            Thinking(redacted="blob"),
            Text(text="a", file="c1.txt", bytes=9),
            ToolCall(id="c1", name="add", arguments={"a": 1}),
            ToolCall(id="c2", name="add", arguments=None, arguments_raw='{"a'),
            Opaque(kind="server_tool_use", vendor={"id": "x"}),
        ],
        model="anthropic/claude", api="anthropic_messages", stop_reason="tool_use", usage=Usage(1, 2, cost_usd=0.5),
        id="m1", ts=1.5,
    ),
    tool_result("c1", "3"),
    tool_result("c2", "interrupted", is_error=True, synthetic=True),
]  # fmt: skip

EVENTS: list[events.Event] = [
    events.TextDelta(0, "a"),
    events.ThinkingDelta(1, "a"),
    events.Approval(1, "q", "c", "shell", ["rm a"], ["rm changes a"], "shell: rm a (in /w)", ["once", "session"]),
    events.ToolStart(2, "c", "add", {"a": 1}),
    events.ToolStart(3, "c", "add", None),
    events.ToolProgress(4, "c", "half"),
    events.ToolEnd(5, "c", "add", "3"),
    events.Compaction(6, 100, 20),
    events.Retry(7, 1, "overloaded", 0.5, 12),
    events.Notice(8, "warning", "clipped"),
    events.Fallback(9, "v/other", "overloaded"),
    events.Done(9, "completed", "a", "stop", "v/m", "s", 1, Usage(), {"add": events.ToolCount(1)}),
    events.UserInput(10, "u1", "and then?"),
    events.Done(
        11, "failed", "", "error", "v/m", "s", 1, Usage(1, 2, 3, 4, 5, 0.1), {}, events.ErrorInfo("auth", "no key", 401)
    ),
]


def validator(name: str) -> Draft202012Validator:
    schema = schemas.generate()[name]
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", ["message", "event"])
def test_the_committed_schema_is_that_of_the_code(name: str) -> None:
    committed = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    assert committed == schemas.generate()[name], "run: python -m orkas.infra.schemas schemas"


def test_the_command_writes_what_is_committed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orkas.infra.schemas", str(tmp_path / "new")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=60)
    written = {p.name: p.read_bytes() for p in (tmp_path / "new").iterdir()}
    assert written == {p.name: p.read_bytes() for p in (ROOT / "schemas").iterdir()}


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: f"{e.seq}-{e.type}")
def test_events_are_valid(event: events.Event) -> None:
    validator("event").validate(json.loads(events.encode(event)))


def test_every_kind_of_event_was_tried() -> None:
    assert {type(e) for e in EVENTS} == set(events.Event.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_messages_are_valid(message: Message) -> None:
    check = validator("message")
    check.validate(json.loads(messages.encode(message)))
    check.validate(messages.to_record(message))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("event", {"type": "text_delta", "text": "no seq"}),
        ("event", {"type": "nothing_known", "seq": 0}),
        ("event", {"type": "notice", "seq": 0, "level": "loud", "text": ""}),
        ("message", {"role": "user"}),
        ("message", {"role": "system", "content": []}),
        ("message", {"role": "user", "content": [{"type": "text"}]}),
        ("message", {"role": "tool", "content": []}),
    ],
)
def test_what_is_none_is_refused(name: str, value: dict[str, Any]) -> None:
    assert not validator(name).is_valid(value)


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the shared cases are not here")
def test_what_is_read_from_old_files_is_written_valid() -> None:
    check, seen = validator("message"), 0
    for path in sorted((SHARED / "cases" / "02-pairing").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            message = messages.decode_message(line)
            assert message is not None
            check.validate(msgspec.json.decode(messages.encode(message)))
            seen += 1
    assert seen > 50
