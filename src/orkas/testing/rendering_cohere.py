"""A scripted reply as Cohere's chat says it: events, or one JSON body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall, Usage
from orkas.testing.say import Say, arguments_of, plain

__all__ = ["cohere_body", "cohere_events"]


def cohere_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events, one each. What is said beside calls is part of the answer; a plan is never made up."""

    def event(kind: str, index: int | None = None, **message: Any) -> bytes:
        fields: dict[str, Any] = {"type": kind} if index is None else {"type": kind, "index": index}
        if message:
            fields["delta"] = {"message": message}
        return _event(kind, fields)

    start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield _event("message-start", {"id": "fake", "type": "message-start", "delta": {"message": start}})
    index, kind, calls = -1, "", 0
    for piece in [*say.pieces, None]:
        said = "text" if isinstance(piece, str) else "thinking" if isinstance(piece, Thinking) else ""
        if kind and (piece is None or isinstance(piece, ToolCall) or (said and said != kind)):
            yield event("content-end", index)
            kind = ""
        match piece:
            case None:
                break
            case str() | Thinking():
                if not kind:
                    index, kind = index + 1, said
                    yield event("content-start", index, content={"type": kind, kind: ""})
                words = piece.text if isinstance(piece, Thinking) else piece
                yield event("content-delta", index, content={kind: words})
            case ToolCall():
                head = {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": ""}}
                yield event("tool-call-start", calls, tool_calls=head)
                raw = arguments_of(piece)
                step = say.fragment or len(raw) or 1
                for at in range(0, len(raw), step):
                    part = {"function": {"arguments": raw[at : at + step]}}
                    yield event("tool-call-delta", calls, tool_calls=part)
                yield event("tool-call-end", calls)
                calls += 1
            case _:
                yield float(piece)
    ending = {"finish_reason": say.stop("cohere"), "usage": _usage(say.usage)}
    yield _event("message-end", {"type": "message-end", "delta": ending})
    yield b"data: [DONE]\n\n"


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), plain(fields))


def cohere_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The whole reply in one body."""
    content: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for piece in say.pieces:
        match piece:
            case str() if content and content[-1]["type"] == "text":
                content[-1]["text"] += piece
            case str():
                content.append({"type": "text", "text": piece})
            case Thinking():
                content.append({"type": "thinking", "thinking": piece.text})
            case ToolCall():
                function = {"name": piece.name, "arguments": arguments_of(piece)}
                calls.append({"id": piece.id, "type": "function", "function": function})
    made = {"content": content, "tool_calls": calls}
    message = {"role": "assistant", **{name: value for name, value in made.items() if value}}
    ending = {"finish_reason": say.stop("cohere"), "usage": _usage(say.usage)}
    return {"id": "fake", "message": message, **ending}


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write))
    tokens = {"input_tokens": prompt, "output_tokens": usage.output or 0}
    return {"billed_units": tokens, "tokens": tokens, "cached_tokens": usage.cache_read or 0}
