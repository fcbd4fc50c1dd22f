"""OpenAI Chat Completions and everybody who speaks it, more or less."""

from orkas.providers.openai_chat.reader import OpenAIChat

__all__ = ["OpenAIChat"]
