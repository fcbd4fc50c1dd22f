"""A scripted reply in the words of a vendor: events of a stream, or one JSON body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from orkas.testing.rendering_anthropic import anthropic_body, anthropic_events
from orkas.testing.rendering_bedrock import bedrock_body, bedrock_frames
from orkas.testing.rendering_chat import chat_body, chat_events
from orkas.testing.rendering_cohere import cohere_body, cohere_events
from orkas.testing.rendering_google import google_body, google_events
from orkas.testing.rendering_ollama import ollama_body, ollama_lines
from orkas.testing.rendering_responses import response_body, response_events
from orkas.testing.rules.base import Api
from orkas.testing.say import Piece, Say, plain, signature_of

__all__ = ["Piece", "Say", "as_json", "as_stream", "plain", "signature_of"]

_EVENTS: dict[Api, Callable[[Say, dict[str, Any]], Iterator[bytes | float]]] = {
    "anthropic": anthropic_events, "openai": chat_events, "responses": response_events, "google": google_events,
    "ollama": ollama_lines, "bedrock": bedrock_frames, "cohere": cohere_events,
}  # fmt: skip
_BODIES: dict[Api, Callable[[Say, dict[str, Any]], dict[str, Any]]] = {
    "anthropic": anthropic_body, "openai": chat_body, "responses": response_body, "google": google_body,
    "ollama": ollama_body, "bedrock": bedrock_body, "cohere": cohere_body,
}  # fmt: skip


def as_stream(say: Say, api: Api, request: dict[str, Any]) -> Iterator[bytes | float]:
    """The events, one each, with the script's pauses in seconds between them."""
    return _EVENTS[api](say, request)


def as_json(say: Say, api: Api, request: dict[str, Any]) -> bytes:
    return plain(_BODIES[api](say, request))
