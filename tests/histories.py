"""Histories with everything odd in them that can be stored, for whoever turns them into requests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
    calls_of,
    user_message,
)  # fmt: skip

PNG = "iVBORw0KGgo="

texts = st.sampled_from(["", " ", "hi", "caffè ☕", "\ud83c", "a\nb"]) | st.text(max_size=5)
images = st.builds(
    Image, media_type=st.sampled_from(["image/png", "image/gif", "image/tiff"]), data=st.sampled_from([PNG, "", None])
)
thoughts = st.builds(Thinking, text=texts, signature=st.sampled_from([None, "c2ln"]))
redacted = st.just(Thinking(redacted="cmVk"))
opaque = st.just(Opaque(kind="toolUse:server", vendor={"toolUse": {"toolUseId": "s"}}))
ids = st.sampled_from(["c1", "c2", "x" * 80, "", "\ud83c", "a.b:c", "a b"])


def picture(call_id: str, kind: str = "image/png") -> UserMessage:
    """A picture that a tool returned."""
    return UserMessage([Image(media_type=kind, data=PNG)], origin="tool_image", tool_call_id=call_id)


@st.composite
def histories(draw: st.DrawFn, stamps: list[tuple[str, str]]) -> list[Message]:
    """Paired histories that these models, as (``vendor/model``, dialect), wrote by turns."""
    out: list[Message] = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            out.append(UserMessage([*draw(st.lists(st.builds(Text, text=texts) | images, max_size=3))]))
            continue
        calls = [
            ToolCall(
                id=draw(ids), name=draw(st.sampled_from(["add", "2x", "\ud83c", " "])),
                arguments=draw(st.none() | st.dictionaries(texts, texts, max_size=2)),
                vendor=draw(st.sampled_from([None, {"id": "v"}, {"id": 1}])),
            )
            for _ in range(draw(st.integers(0, 3)))
        ]  # fmt: skip
        blocks = [*draw(st.lists(st.builds(Text, text=texts) | thoughts | redacted | opaque | images, max_size=3)), *calls]
        model, api = draw(st.sampled_from(stamps))
        vendor: dict[str, Any] | None = draw(st.sampled_from([None, {"tool_plan": "I will"}, {"tool_plan": 1}]))
        stop = draw(st.sampled_from(["stop", "tool_use", "aborted", "error"]))
        out.append(AssistantMessage(list(draw(st.permutations(blocks))), model, api, stop, vendor=vendor))
        made = calls_of(out[-1])
        out += [ToolMessage(c.id, [Text(text=draw(texts)), *draw(st.lists(images, max_size=1))]) for c in made]
        out += [picture(c.id) for c in made if draw(st.booleans())]
    return [*out, user_message("go")]


def askable(history: list[Message], n: int) -> bool:
    """Whether a request is made after the first ``n`` messages: not between a call, its results and their pictures."""
    following = history[n] if n < len(history) else None
    if calls_of(history[n - 1]) or isinstance(following, ToolMessage):
        return False
    return not (isinstance(following, UserMessage) and following.origin == "tool_image")
