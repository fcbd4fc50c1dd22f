"""What is known of models: windows, output limits, abilities. Trimmed by hand; unknown models get safe defaults.

Sources: the vendors' model pages and the models.dev and litellm catalogues, as of autumn 2026. Sizes in tokens.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from orkas.providers.base import ModelInfo

__all__ = ["Gemini", "anthropic_output", "anthropic_thinking", "gemini", "model_info"]


class _Row(NamedTuple):
    prefix: str
    window: int
    output: int
    images: bool = True


# The longest prefix that a model's name begins with decides. A vendor in front (``openrouter`` ids) is cut off first.
_ROWS = (
    _Row("claude-2", 200_000, 4_096, images=False),
    _Row("claude-3-haiku", 200_000, 4_096),
    _Row("claude-3-opus", 200_000, 4_096),
    _Row("claude-3-sonnet", 200_000, 4_096),
    _Row("claude-3-5-haiku", 200_000, 8_192),
    _Row("claude-3-5-sonnet", 200_000, 8_192),
    _Row("claude-3-7-sonnet", 200_000, 64_000),
    _Row("claude-opus-4", 200_000, 32_000),
    _Row("claude-opus-4-5", 200_000, 64_000),
    _Row("claude-opus-4-6", 200_000, 64_000),
    _Row("claude-opus-4-7", 200_000, 64_000),
    _Row("claude-opus-4-8", 200_000, 64_000),
    _Row("claude-opus-5", 200_000, 64_000),
    _Row("claude-sonnet-", 200_000, 64_000),
    _Row("claude-haiku-", 200_000, 64_000),
    _Row("claude", 200_000, 32_000),
    _Row("gpt-3.5", 16_385, 4_096, images=False),
    _Row("gpt-4", 8_192, 4_096, images=False),
    _Row("gpt-4-turbo", 128_000, 4_096),
    _Row("gpt-4-1106-vision", 128_000, 4_096),
    _Row("gpt-4o", 128_000, 16_384),
    _Row("gpt-4.1", 1_047_576, 32_768),
    _Row("gpt-5", 400_000, 128_000),
    _Row("gpt-5-chat", 128_000, 16_384),
    _Row("gpt-oss", 131_072, 32_768, images=False),
    _Row("chatgpt-4o", 128_000, 16_384),
    _Row("o1-mini", 128_000, 65_536, images=False),
    _Row("o1", 200_000, 100_000),
    _Row("o3-mini", 200_000, 100_000, images=False),
    _Row("o3", 200_000, 100_000),
    _Row("o4", 200_000, 100_000),
    _Row("codex-", 200_000, 100_000),
    _Row("gemini-", 1_048_576, 65_536),
    _Row("gemini-2.0", 1_048_576, 8_192),
    _Row("gemma-3", 131_072, 8_192),
    _Row("mistral-small", 131_072, 16_384),
    _Row("mistral-medium", 131_072, 16_384),
    _Row("mistral-large", 131_072, 16_384),
    _Row("magistral-", 131_072, 40_960),
    _Row("ministral-", 131_072, 8_192, images=False),
    _Row("pixtral-", 131_072, 8_192),
    _Row("codestral", 262_144, 8_192, images=False),
    _Row("devstral", 131_072, 8_192, images=False),
    _Row("deepseek-chat", 131_072, 8_192, images=False),
    _Row("deepseek-reasoner", 131_072, 32_768, images=False),
    _Row("deepseek-", 131_072, 8_192, images=False),
    _Row("grok-3", 131_072, 16_384, images=False),
    _Row("grok-4", 262_144, 32_768),
    _Row("grok-4-fast", 2_000_000, 32_768),
    _Row("grok-4.1-fast", 2_000_000, 32_768),
    _Row("grok-4-1-fast", 2_000_000, 32_768),
    _Row("grok-code", 262_144, 16_384, images=False),
    _Row("kimi-k2", 262_144, 16_384, images=False),
    _Row("kimi-k2.5", 262_144, 16_384),
    _Row("glm-4", 131_072, 32_768, images=False),
    _Row("glm-4.6", 204_800, 65_536, images=False),
    _Row("glm-4.7", 204_800, 65_536, images=False),
    _Row("glm-5", 204_800, 65_536, images=False),
    _Row("qwen3-max", 262_144, 32_768, images=False),
    _Row("qwen3-coder", 262_144, 32_768, images=False),
    _Row("qwen-", 131_072, 8_192, images=False),
    _Row("sonar", 127_072, 8_000, images=False),
    _Row("llama-3.", 131_072, 8_192, images=False),
    _Row("llama-4", 131_072, 8_192),
)

_SAFE_OUTPUT = 8_192
"""Output limit assumed where none is known: small enough for every current model."""


def model_info(vendor: str, model: str) -> ModelInfo:
    """What is known of a model. Unknown: no window, a conservative output limit, images allowed.

    Models on the user's own machine are never looked up: their window is what the server was started with.
    """
    row = None if vendor in ("ollama", "lmstudio", "llamacpp", "vllm", "custom", "gpustack") else _row(_bare(model))
    if row is None:
        return ModelInfo(max_output=_SAFE_OUTPUT)
    return ModelInfo(row.window, row.output, row.images)


def _bare(model: str) -> str:
    """``anthropic/claude-sonnet-4.5:free`` → ``claude-sonnet-4.5`` as its own vendor spells it."""
    name = model.rpartition("/")[2].partition(":")[0].partition("@")[0].lower()
    return name.replace(".", "-") if name.startswith("claude") else name


def _row(name: str) -> _Row | None:
    return max((r for r in _ROWS if name.startswith(r.prefix)), key=lambda r: len(r.prefix), default=None)


def anthropic_thinking(model: str) -> Literal["", "budget", "adaptive"]:
    """How a Claude model is told to think: not at all, with a budget of tokens, or as it sees fit (4.6 and later)."""
    name = _bare(model)
    old = ("claude-2", "claude-3-5", "claude-3-h", "claude-3-o", "claude-3-s")
    if not name.startswith("claude-") or name.startswith(old):
        return ""
    if name.startswith("claude-3-7"):
        return "budget"
    version = _claude_version(name)
    return "budget" if version and version < (4, 6) else "adaptive"


def anthropic_output(model: str) -> bool:
    """Whether a Claude model can be held to a schema: 4.5 and later, and Opus 4.1.

    Source: Anthropic's page on structured outputs.
    """
    name = _bare(model)
    if not name.startswith("claude-") or name[7:8].isdecimal():
        return False
    version = _claude_version(name)
    return not version or version >= (4, 5) or (version == (4, 1) and "opus" in name)


def _claude_version(name: str) -> tuple[int, ...]:
    """Of names like ``claude-sonnet-4-5-20250929``; empty where there is none."""
    version = [int(p) for p in name.split("-")[2:4] if p.isdecimal() and len(p) < 4]
    return tuple([*version, 0][:2]) if version else ()


class Gemini(NamedTuple):
    """How one model of Google's takes its requests."""

    thinking: Literal["", "budget", "level"] = ""
    """What its thinking is told in: nothing, tokens, levels by name."""
    least: int | str = ""
    """The least thinking it does: 0 tokens, a budget it cannot go below, a level."""
    medium: bool = True
    """Has a level between low and high."""
    signatures: bool = False
    """Refuses a call of the current turn whose step begins without a thought signature."""
    media_results: bool = False
    """A tool's result may hold pictures; others want them in a part of the user's."""
    json_schema: bool = True
    """Takes tools as JSON Schema; others a subset of OpenAPI that refuses every other field."""

    @property
    def typed_with_tools(self) -> bool:
        """Can be held to a schema in its answer while there are tools: came with the same generation."""
        return self.media_results


_GEMINI = re.compile(r"gemini-(\d+)(?:\.(\d+))?")


def gemini(model: str) -> Gemini:
    """What is known of a model of Google's. A name without a version (``gemini-flash-latest``) is taken for new.

    Source: Google's pages on thinking, thought signatures and function calling.
    """
    name = _bare(model)
    found = _GEMINI.match(name)
    version = (int(found[1]), int(found[2] or 0)) if found else (3, 1)
    if version < (2, 5) or not name.startswith("gemini"):
        return Gemini(json_schema=False)
    if version < (3, 0):
        if "image" in name or "tts" in name:
            return Gemini()
        return Gemini("budget", least=128 if "pro" in name else 0)
    pro = "pro" in name
    least, medium = "low" if pro else "minimal", not pro or version > (3, 0)
    return Gemini("level", least, medium, signatures=True, media_results=True)
