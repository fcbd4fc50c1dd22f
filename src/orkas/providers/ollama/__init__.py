"""The chat of an Ollama server."""

from orkas.providers.ollama.reader import Ollama

__all__ = ["Ollama"]
