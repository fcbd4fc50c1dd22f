"""A scripted reply as OpenAI Responses: items, their events, and one JSON body."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from orkas.infra.messages import Thinking, ToolCall, Usage
from orkas.testing.say import Say, arguments_of, fragments, plain, signature_of

__all__ = ["response_body", "response_events"]


def response_events(say: Say, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events of a stream, one each, with the script's pauses between them."""
    frame = _Frame(request)
    yield frame.event("response.created", response=frame.response("in_progress", []))
    yield frame.event("response.in_progress", response=frame.response("in_progress", []))
    output: list[dict[str, Any]] = []
    text: list[str] = []
    for piece in [*say.pieces, None]:
        if text and not isinstance(piece, str | float | int):
            output.append(frame.message("".join(text), len(output)))
            yield from _message_ends(frame, output[-1], len(output) - 1)
            text = []
        match piece:
            case None:
                break
            case str():
                if not text:
                    yield from _message_begins(frame, len(output))
                text.append(piece)
                where = {"output_index": len(output), "item_id": frame.id("msg", len(output)), "content_index": 0}
                yield frame.event("response.output_text.delta", **where, delta=piece, logprobs=[])
            case Thinking() | ToolCall():
                output.append(frame.item(piece, len(output)))
                yield from _events_of(frame, output[-1], len(output) - 1, say.fragment)
            case _:
                yield float(piece)
    yield frame.end(say, output)


def response_body(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    """The same as one JSON body."""
    frame = _Frame(request)
    output: list[dict[str, Any]] = []
    text = ""
    for piece in [*say.pieces, None]:
        if isinstance(piece, str):
            text += piece
            continue
        if text and not isinstance(piece, float | int):
            output.append(frame.message(text, len(output)))
            text = ""
        if isinstance(piece, Thinking | ToolCall):
            output.append(frame.item(piece, len(output)))
    return frame.ended(say, output)


class _Frame:
    """What the parts of one response have in common. Ids follow from the request, so no conversation has one twice."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._model = request.get("model", "")
        self._mark = hashlib.sha256(plain(request.get("input"))).hexdigest()[:24]
        self._number = -1

    def event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        data = plain({"type": kind, "sequence_number": self._number, **fields})
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)

    def id(self, prefix: str, index: int) -> str:
        return f"{prefix}_{self._mark}{index:02}"

    def message(self, text: str, index: int) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "id": self.id("msg", index), "type": "message", "status": "completed",
            "role": "assistant", "content": [part],
        }  # fmt: skip

    def item(self, piece: Thinking | ToolCall, index: int) -> dict[str, Any]:
        kept = piece.vendor or {}
        if isinstance(piece, Thinking):
            summary = [{"type": "summary_text", "text": piece.text}] if piece.text else []
            return {
                "id": kept.get("item") or self.id("rs", index), "type": "reasoning", "summary": summary, "content": [],
                "encrypted_content": piece.encrypted or "gAAAA" + signature_of(piece),
            }  # fmt: skip
        return {
            "id": kept.get("id") or self.id("fc", index), "type": "function_call", "status": "completed",
            "call_id": piece.id, "name": piece.name, "arguments": arguments_of(piece),
        }  # fmt: skip

    def response(self, status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "id": f"resp_{self._mark}", "object": "response", "created_at": 1760000000, "status": status,
            "model": self._model, "error": None, "incomplete_details": None, "output": output, "usage": None,
            "store": False, "parallel_tool_calls": True, **more,
        }  # fmt: skip

    def ended(self, say: Say, output: list[dict[str, Any]]) -> dict[str, Any]:
        reason, usage = say.stop("responses"), _usage(say.usage)
        if reason == "completed":
            return self.response("completed", output, usage=usage)
        return self.response("incomplete", output, usage=usage, incomplete_details={"reason": reason})

    def end(self, say: Say, output: list[dict[str, Any]]) -> bytes:
        response = self.ended(say, output)
        return self.event(f"response.{response['status']}", response=response)


def _message_begins(frame: _Frame, index: int) -> Iterator[bytes]:
    id = frame.id("msg", index)
    item = {"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    yield frame.event("response.output_item.added", output_index=index, item=item)
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield frame.event("response.content_part.added", output_index=index, item_id=id, content_index=0, part=part)


def _message_ends(frame: _Frame, item: dict[str, Any], index: int) -> Iterator[bytes]:
    (part,) = item["content"]
    where = {"output_index": index, "item_id": item["id"], "content_index": 0}
    yield frame.event("response.output_text.done", **where, text=part["text"], logprobs=[])
    yield frame.event("response.content_part.done", **where, part=part)
    yield frame.event("response.output_item.done", output_index=index, item=item)


def _events_of(frame: _Frame, item: dict[str, Any], index: int, size: int | None) -> Iterator[bytes]:
    where = {"output_index": index, "item_id": item["id"]}
    if item["type"] == "reasoning":
        begun = {**item, "summary": [], "encrypted_content": item["encrypted_content"][:8]}
        yield frame.event("response.output_item.added", output_index=index, item=begun)
        for part in item["summary"]:
            at = {**where, "summary_index": 0}
            yield frame.event("response.reasoning_summary_part.added", **at, part={**part, "text": ""})
            yield frame.event("response.reasoning_summary_text.delta", **at, delta=part["text"])
            yield frame.event("response.reasoning_summary_text.done", **at, text=part["text"])
            yield frame.event("response.reasoning_summary_part.done", **at, part=part)
    else:
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield frame.event("response.output_item.added", output_index=index, item=begun)
        for piece in fragments(item["arguments"], size):
            yield frame.event("response.function_call_arguments.delta", **where, delta=piece)
        yield frame.event("response.function_call_arguments.done", **where, arguments=item["arguments"])
    yield frame.event("response.output_item.done", output_index=index, item=item)


def _usage(usage: Usage) -> dict[str, Any]:
    given = sum(n or 0 for n in (usage.input, usage.cache_read, usage.cache_write))
    output = usage.output or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": given + output,
    }
