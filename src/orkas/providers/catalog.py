"""What is known of models: windows, output limits, abilities. Trimmed by hand; unknown models get safe defaults.

Sources: the vendors' model pages and the models.dev and litellm catalogues, as of autumn 2026. Sizes in tokens.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from orkas.providers.base import ModelInfo, ThinkingLevel

__all__ = [
    "Converse", "Gemini", "anthropic_thinking", "cohere_thinks", "converse", "gemini", "is_plain_openai", "model_info",
    "openai_effort", "reasons_openai",
]  # fmt: skip


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
    _Row("nova-", 300_000, 10_000),
    _Row("nova-micro", 128_000, 10_000, images=False),
    _Row("nova-premier", 1_000_000, 32_000),
    _Row("nova-2", 1_000_000, 64_000),
    _Row("command-r", 128_000, 4_096, images=False),
    _Row("command-a", 256_000, 8_192, images=False),
    _Row("command-a-reasoning", 256_000, 32_768, images=False),
    _Row("command-a-plus", 288_000, 32_768),
    _Row("command-a-vision", 128_000, 8_192),
)

_SAFE_OUTPUT = 8_192
"""Output limit assumed where none is known: small enough for every current model."""


_OWN_MACHINE = ("ollama", "ollama-chat", "lmstudio", "llamacpp", "vllm", "custom", "gpustack")
_AT_HOME = 32_768
"""Ollama is asked for the context that a request needs; from this size on a conversation is rather compacted. Models
that fit a machine of one's own take as much, and their machine holds it. A window that the user sets goes before."""


def model_info(vendor: str, model: str) -> ModelInfo:
    """What is known of a model. Unknown: no window, a conservative output limit, images allowed.

    Models on the user's own machine are never looked up: their window is what the server was started with, or asked
    for.
    """
    if vendor == "ollama" and not model.endswith("cloud"):
        return ModelInfo(_AT_HOME, _SAFE_OUTPUT)
    row = None if vendor in _OWN_MACHINE else _row(_bare(model))
    if row is None:
        return ModelInfo(max_output=_SAFE_OUTPUT)
    return ModelInfo(row.window, row.output, row.images)


_MAKER = re.compile(
    r"^(?:[a-z-]{2,6}\.)?(?:ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|"
    r"nvidia|openai|qwen|writer|zai)\.(?=[a-z])"
)
"""Region and maker in front of a model's name on Bedrock: ``us.anthropic.claude-…``."""


def _bare(model: str) -> str:
    """``anthropic/claude-sonnet-4.5:free`` → ``claude-sonnet-4.5`` as its own vendor spells it."""
    name = model.rpartition("/")[2].partition(":")[0].partition("@")[0].lower()
    name = _MAKER.sub("", name)
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
    parts = name.split("-")[2:]
    version = [int(p) for p in parts[:2] if p.isdecimal() and len(p) < 4]
    return "budget" if version and [*version, 0][:2] < [4, 6] else "adaptive"


def reasons_openai(model: str) -> bool:
    """One of OpenAI's reasoning models by name."""
    name = model.rpartition("/")[2]
    return name.startswith(("o1", "o3", "o4", "gpt-5", "codex")) and "chat" not in name


def is_plain_openai(model: str) -> bool:
    """An OpenAI model without reasoning: it refuses the switch."""
    return model.startswith(("gpt-3", "gpt-4", "chatgpt")) or ("gpt-5" in model and "chat" in model)


def openai_effort(model: str, level: ThinkingLevel) -> str:
    """The effort that a thinking level stands for; empty where the model takes no such word.

    Off is the least a model can do: ``none`` from gpt-5.1 on, ``minimal`` for gpt-5, ``low`` for codex models; the
    o-series and the pro models always think.
    """
    name = model.rpartition("/")[2]
    if is_plain_openai(name):
        return ""
    if level != "off":
        return level
    if "codex" in name:
        return "low"
    if "-pro" in name or not name.startswith("gpt-5"):
        return ""
    return "none" if name.startswith("gpt-5.") else "minimal"


def cohere_thinks(model: str) -> bool:
    """Whether a model of Cohere's can be told to think; the others refuse the field."""
    return _bare(model).startswith(("command-a-reasoning", "command-a-plus"))


class Converse(NamedTuple):
    """How one model takes its requests through Bedrock."""

    thinking: Literal["", "claude", "nova", "effort"] = ""
    """What its thinking is told in."""
    cache: Literal["", "messages", "all"] = ""
    """Where marks of the prompt cache are understood: nowhere, in system prompt and messages, in tools too."""
    media_results: bool = False
    """A tool's result may hold pictures."""
    mixed: bool = True
    """Words may stand in one message with calls or their results."""


def converse(model: str) -> Converse:
    """What is known of a model on Bedrock. Source: Amazon's pages on Converse, prompt caching and reasoning."""
    name = _bare(model)
    if name.startswith("claude"):
        old = ("claude-2", "claude-v", "claude-instant", "claude-3-h", "claude-3-o", "claude-3-s")
        marks = not name.startswith((*old, "claude-3-5-sonnet-20240620"))
        return Converse("claude" if anthropic_thinking(model) else "", "all" if marks else "", media_results=True)
    if name.startswith("nova-"):
        return Converse("nova" if name.startswith("nova-2") else "", "messages", media_results=True)
    if name.startswith("gpt-oss"):
        return Converse("effort")
    return Converse(mixed=not any(maker in model for maker in ("mistral.", "meta.", "ai21.")))


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
