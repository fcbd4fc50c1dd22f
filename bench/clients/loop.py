"""The smallest honest loop, written by hand: what a programmer without a harness would run.

A raw client gives ``lines(payload)``, an asynchronous iterator of ``data:`` payloads; this does the rest.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

TOOL = {
    "type": "function",
    "function": {
        "name": "bump",
        "description": "Bump a value.",
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
    },
}
HEAD = '{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},"tools":' + json.dumps([TOOL])


class History:
    """Each message is turned into JSON once; a file, if there is one, gets the same line."""

    def __init__(self, path: Path | None) -> None:
        self.lines = path.read_text().splitlines() if path and path.exists() else []
        self.file = path.open("a") if path else None

    def add(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, ensure_ascii=False)
        self.lines.append(line)
        if self.file:
            self.file.write(line + "\n")
            self.file.flush()

    def payload(self) -> bytes:
        return f'{HEAD},"messages":[{",".join(self.lines)}]}}'.encode()

    def close(self) -> None:
        if self.file:
            self.file.close()


class RawClient:
    """What ``worker.py`` drives. ``store``: a folder for sessions, or None."""

    def __init__(self, base_url: str, tool: Callable[..., Awaitable[str]], store: str | None) -> None:
        self.url = base_url + "/chat/completions"
        self.tool = tool
        self.store = store

    def lines(self, payload: bytes) -> AsyncIterator[str | bytes]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    def path(self, session: str | None) -> Path | None:
        return Path(self.store or ".", f"{session}.jsonl") if session else None

    async def seed(self, session: str, pairs: list[tuple[str, str]]) -> None:
        history = History(self.path(session))
        for question, answer in pairs:
            history.add({"role": "user", "content": question})
            history.add({"role": "assistant", "content": answer})
        history.close()

    async def turn(self, prompt: str, session: str | None, on_text: Callable[[str], None]) -> None:
        history = History(self.path(session))
        history.add({"role": "user", "content": prompt})
        while True:
            message = await self.reply(history, on_text)
            history.add(message)
            for call in message.get("tool_calls", []):
                result = await self.tool(**json.loads(call["function"]["arguments"]))
                history.add({"role": "tool", "tool_call_id": call["id"], "content": result})
            if "tool_calls" not in message:
                history.close()
                return

    async def reply(self, history: History, on_text: Callable[[str], None]) -> dict[str, Any]:
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        finish = None
        async for data in self.lines(history.payload()):
            chunk = json.loads(data)
            if not chunk["choices"]:
                continue
            choice = chunk["choices"][0]
            delta = choice["delta"]
            if piece := delta.get("content"):
                text.append(piece)
                on_text(piece)
            for part in delta.get("tool_calls") or ():
                if "id" in part:
                    calls[part["index"]] = part
                else:
                    calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
            finish = choice["finish_reason"] or finish
        if finish is None:
            raise ConnectionError("the stream ended early")
        message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
        if calls:
            message["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": c["function"]} for _, c in sorted(calls.items())
            ]
        return message
