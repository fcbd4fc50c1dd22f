"""What a vendor gave out and takes back only as it was: signatures of thinking, sealed reasoning, what hangs on it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from orkas.testing.rules.base import Api, objects

__all__ = ["given_out"]


def given_out(api: Api, body: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Thinking in an answer, by its signature or seal; and items that stand behind a reasoning item, with its id."""
    if api == "anthropic":
        return _thoughts_in(body), {}
    if api == "responses":
        return _sealed_in(body)
    if api == "bedrock":
        return _reasoning_in(body), {}
    return (dict.fromkeys(_google_signatures(body), ""), {}) if api == "google" else ({}, {})


def _sealed_in(body: bytes) -> tuple[dict[str, str], dict[str, str]]:
    seals: dict[str, str] = {}
    bonds: dict[str, str] = {}
    reasoning = ""
    for item in _items_in(body):
        if item.get("type") == "reasoning":
            reasoning = str(item.get("id"))
            seals[str(item.get("encrypted_content"))] = reasoning
        elif reasoning:
            bonds[str(item.get("id"))] = reasoning
    return seals, bonds


def _items_in(body: bytes) -> list[dict[str, Any]]:
    """The items that a Responses answer gives out, streamed or whole."""
    if body.lstrip().startswith(b"{"):
        return objects(_object(body).get("output"))
    return objects([e.get("item") for e in _events(body) if e.get("type") == "response.output_item.done"])


def _thoughts_in(body: bytes) -> dict[str, str]:
    """The thinking that a Messages answer gives out, streamed or whole, by signature."""
    if body.lstrip().startswith(b"{"):
        return dict(filter(None, map(_signed, _object(body).get("content", []))))
    blocks: dict[int, dict[str, Any]] = {}
    for event in _events(body):
        if event.get("type") == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif event.get("type") == "content_block_delta" and (block := blocks.get(event["index"])):
            for name in ("thinking", "signature"):
                block[name] = block.get(name, "") + event["delta"].get(name, "")
    return dict(filter(None, map(_signed, blocks.values())))


def _signed(block: dict[str, Any]) -> tuple[str, str] | None:
    if block.get("type") == "redacted_thinking":
        return block["data"], ""
    if block.get("type") == "thinking" and block.get("signature"):
        return block["signature"], block["thinking"]
    return None


def _reasoning_in(body: bytes) -> dict[str, str]:
    """The thinking that an answer gives out, streamed or whole, by signature (redacted: by its data)."""
    if body.lstrip()[:1] == b"{":
        content = _object(body).get("output", {}).get("message", {}).get("content", [])
        flat = [b["reasoningContent"] for b in content if "reasoningContent" in b]
        return dict(_bedrock_signed({**r, **r.get("reasoningText", {})}) for r in flat)
    blocks: dict[int, dict[str, str]] = {}
    for event in _payloads(body):
        delta = (event.get("delta") or {}).get("reasoningContent")
        for name, value in (delta or {}).items():
            block = blocks.setdefault(event["contentBlockIndex"], {})
            block[name] = block.get(name, "") + value
    return dict(map(_bedrock_signed, blocks.values()))


def _bedrock_signed(block: dict[str, Any]) -> tuple[str, str]:
    return (block["redactedContent"], "") if "redactedContent" in block else (block["signature"], block.get("text", ""))


def _payloads(body: bytes) -> Iterator[dict[str, Any]]:
    at = 0
    while at + 12 <= len(body):
        total, headers = struct.unpack_from(">II", body, at)
        payload = body[at + 12 + headers : at + total - 4]
        if payload.startswith(b"{"):
            yield _object(payload)
        at += total or len(body)


def _google_signatures(body: bytes) -> list[str]:
    """All thought signatures that an answer gives out, whatever its form."""
    found: list[str] = []
    for line in body.splitlines() if body.lstrip().startswith(b"data:") else [body]:
        _gather(_json(line.removeprefix(b"data:")), found)
    return found


def _gather(value: Any, found: list[str]) -> None:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == "thoughtSignature" and isinstance(inner, str):
            found.append(inner)
        else:
            _gather(inner, found)


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    """What the events of a stream hold."""
    for line in body.splitlines():
        if line.startswith(b"data:"):
            yield _object(line.removeprefix(b"data:"))


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object; anything else counts as empty."""
    value = _json(text)
    return value if isinstance(value, dict) else {}
