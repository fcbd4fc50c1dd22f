"""Histories as crashes, old releases, imports and bad vendors may leave them: begun well, then cut, doubled, mislabelled."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool_result,
    user_message,
)

PNG = "iVBORw0KGgo="
IDS = ["", "a", "b", "c", "a_2", "call_1", "functions.add:0", "toolu_" + "x" * 90, "ü", "a b"]
NAMES = ["add", "read_file", "", "a name", "x" * 80]
WRITERS = [("anthropic/claude-sonnet-4-5", "anthropic_messages"), ("openai/gpt-4o", "openai_chat"), ("", ""), ("old/m", "x")]


def damaged_history(dice: Random) -> list[Message]:
    history: list[Message] = []
    for n in range(dice.randint(0, 6)):
        history.append(user_message(f"u{n}" if dice.random() < 0.9 else dice.choice(["", " ", "\ud800"])))
        ids = [dice.choice(IDS) for _ in range(dice.randint(0, 4))]
        history.append(_reply(dice, n, ids))
        for place, call_id in enumerate(ids):
            following = dice.choice([None, "", *ids[place + 1 :]])
            synthetic = dice.random() < 0.3
            made = tool_result(call_id, f"r{n}.{place}" if dice.random() < 0.9 else "", synthetic=synthetic)
            history.append(replace(made, starts=following))
        history += [_picture(i) for i in ids if dice.random() < 0.2]
    for _ in range(dice.randint(0, 6)):
        if history:
            _damage(dice, history)
    return history


def _reply(dice: Random, n: int, ids: list[str]) -> AssistantMessage:
    model, api = dice.choice(WRITERS)
    calls = [
        ToolCall(id=i, name=dice.choice(NAMES), arguments=dice.choice([{}, {"a": 1}, None]), arguments_raw=dice.choice([None, '{"a":']))
        for i in ids
    ]
    blocks: list[object] = [Text(text=t) for t in dice.choice([[], [f"a{n}"], ["", f"a{n}"], ["  "]])]
    if dice.random() < 0.2:
        blocks.insert(0, dice.choice([
            Thinking(text="hm", signature="sig"), Thinking(text="hm"), Thinking(redacted="r"), Opaque(kind="server_tool"),
        ]))  # fmt: skip
    stop = dice.choice(["", "stop", "tool_use", "aborted", "error", "length"])
    starts = dice.choice([None, "", *ids])
    return AssistantMessage([*blocks, *calls], model, api, stop, starts=starts)  # type: ignore[list-item]


def _picture(call_id: str) -> UserMessage:
    return UserMessage([Image(media_type="image/png", data=PNG)], origin="tool_image", tool_call_id=call_id)


def _damage(dice: Random, history: list[Message]) -> None:
    at = dice.randrange(len(history))
    match dice.choice(["drop", "double", "move", "orphan", "speak", "cut"]):
        case "drop":
            del history[at]
        case "double" if isinstance(history[at], ToolMessage):
            history.insert(dice.randint(0, len(history)), history[at])
        case "move":
            history.insert(dice.randrange(len(history)), history.pop(at))
        case "orphan":
            history.insert(at, tool_result(dice.choice(IDS), "orphan"))
        case "speak":
            history.insert(at, user_message("and"))
        case "cut":
            del history[max(at, len(history) - 3) :]
