"""The chat of Cohere, version 2."""

from orkas.providers.cohere.reader import Cohere

__all__ = ["Cohere"]
