"""The answer to a request that lets the vendor search the web, in three vendors' words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orkas.infra.messages import Usage
from orkas.testing.replay import Asked, Response
from orkas.testing.rules.base import Api, Rejection, objects
from orkas.testing.say import plain

__all__ = ["Searched"]


@dataclass(frozen=True, slots=True)
class Searched:
    """What the vendor found: title, address and what is said of it, for each page.

    ``error``: the vendor's tool failed, for this reason in the vendor's words. ``searches``: how many it made; with
    none the model answers without. A request without the vendor's search among its tools, or for a stream, is refused.
    """

    pages: Sequence[tuple[str, str, str]] = ()
    error: str = ""
    searches: int = 1
    usage: Usage = Usage(input=8_000, output=100)  # noqa: RUF009 - never changed

    def respond(self, asked: Asked) -> Response:
        made = _BODIES.get(asked.api)
        if made is None or asked.stream or not _TOOLS[asked.api](objects(asked.body.get("tools"))):
            refused = Rejection("this is the answer to a search of the vendor's own, which was not asked for", 400)
            return Response(400, {"content-type": "application/json"}, iter([refused.body(asked.api)]))
        return Response(200, {"content-type": "application/json"}, iter([plain(made(self, asked.body))]))


_TOOLS: dict[Api, Callable[[list[dict[str, Any]]], bool]] = {
    "anthropic": lambda tools: any(str(tool.get("type")).startswith("web_search_") for tool in tools),
    "responses": lambda tools: any(str(tool.get("type")).startswith("web_search") for tool in tools),
    "google": lambda tools: any("googleSearch" in tool or "google_search" in tool for tool in tools),
}


def _anthropic(said: Searched, request: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if said.searches or said.error:
        use = {"type": "server_tool_use", "id": "srvtoolu_fake", "name": "web_search", "input": {"query": "fake"}}
        result: Any = {"type": "web_search_tool_result_error", "error_code": said.error}
        if not said.error:
            result = [
                {"type": "web_search_result", "url": url, "title": title, "encrypted_content": "Eo8F", "page_age": None}
                for title, url, _ in said.pages
            ]
        content += [use, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_fake", "content": result}]
    for title, url, words in said.pages:
        cited = {
            "type": "web_search_result_location", "url": url, "title": title, "cited_text": words,
            "encrypted_index": "Eo8F",
        }  # fmt: skip
        content.append({"type": "text", "text": words, "citations": [cited] if words else None})
    if not said.pages:
        content.append({"type": "text", "text": "There is nothing to say."})
    return {
        "id": "msg_fake", "type": "message", "role": "assistant", "model": request.get("model"), "content": content,
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {
            "input_tokens": said.usage.input, "output_tokens": said.usage.output,
            "server_tool_use": {"web_search_requests": said.searches},
        },
    }  # fmt: skip


def _responses(said: Searched, request: dict[str, Any]) -> dict[str, Any]:
    sources = [{"type": "url", "url": url} for _, url, _ in said.pages]
    action: dict[str, Any] = {"type": "search", "query": "fake"}
    if "web_search_call.action.sources" in request.get("include", ()):
        action["sources"] = sources
    status = "failed" if said.error else "completed"
    output: list[dict[str, Any]] = [
        {"id": f"ws_fake{n}", "type": "web_search_call", "status": status, "action": action}
        for n in range(said.searches)
    ]
    text, notes = "", []
    for title, url, words in said.pages:
        link = f" ([{title}]({url}))"
        text += words
        if words:
            notes.append({
                "type": "url_citation", "url": url, "title": title, "start_index": len(text),
                "end_index": len(text) + len(link),
            })  # fmt: skip
            text += link + "\n\n"
    part = {"type": "output_text", "text": text or "There is nothing to say.", "annotations": notes, "logprobs": []}
    output.append({
        "id": "msg_fake", "type": "message", "status": "completed", "role": "assistant", "content": [part],
    })  # fmt: skip
    given, made = said.usage.input or 0, said.usage.output or 0
    return {
        "id": "resp_fake", "object": "response", "status": "completed", "model": request.get("model"), "error": None,
        "incomplete_details": None, "output": output,
        "usage": {"input_tokens": given, "output_tokens": made, "total_tokens": given + made},
    }  # fmt: skip


def _google(said: Searched, request: dict[str, Any]) -> dict[str, Any]:
    chunks = [{"web": {"uri": url, "title": title}} for title, url, _ in said.pages]
    supports = [
        {"segment": {"endIndex": len(words.encode()), "text": words}, "groundingChunkIndices": [place]}
        for place, (_, _, words) in enumerate(said.pages) if words
    ]  # fmt: skip
    text = " ".join(words for _, _, words in said.pages) or "There is nothing to say."
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0,
    }  # fmt: skip
    if said.searches:
        queries = [f"fake {n}" for n in range(said.searches)]
        known = {"groundingChunks": chunks, "groundingSupports": supports, "webSearchQueries": queries}
        candidate["groundingMetadata"] = known
    given, made = said.usage.input or 0, said.usage.output or 0
    counts = {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": request.get("model")}


_BODIES: dict[Api, Callable[[Searched, dict[str, Any]], dict[str, Any]]] = {
    "anthropic": _anthropic, "responses": _responses, "google": _google,
}  # fmt: skip
