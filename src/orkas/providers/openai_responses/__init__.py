"""OpenAI Responses, stateless."""

from orkas.providers.openai_responses.reader import OpenAIResponses

__all__ = ["OpenAIResponses"]
