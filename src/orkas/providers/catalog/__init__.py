"""What is known of models: windows, limits, abilities, prices."""

from orkas.providers.catalog.file import as_of
from orkas.providers.catalog.lookup import (
    Converse,
    Gemini,
    aliases,
    anthropic_output,
    anthropic_thinking,
    cohere_thinks,
    converse,
    gemini,
    is_plain_openai,
    model_info,
    names,
    near,
    openai_effort,
    reasons_openai,
    reload,
)  # fmt: skip

__all__ = [
    "Converse", "Gemini", "aliases", "anthropic_output", "anthropic_thinking", "as_of", "cohere_thinks", "converse",
    "gemini", "is_plain_openai", "model_info", "names", "near", "openai_effort", "reasons_openai", "reload",
]  # fmt: skip
