"""Gemini generateContent, on AI Studio and on Vertex AI."""

from orkas.providers.google.reader import Google

__all__ = ["Google"]
