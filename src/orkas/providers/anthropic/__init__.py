"""Anthropic Messages."""

from orkas.providers.anthropic.reader import Anthropic

__all__ = ["Anthropic"]
