"""What is known of models: windows, output limits, abilities, prices. Sizes in tokens, prices in USD a million.

The facts lie in ``models.json``, which ``scripts/catalog.py`` builds from public catalogues and which tells their date,
or in the one that ``catalog.refresh`` has stored (see ``catalog.file``). They are read on first use. A name that is
not there counts as the next of its family, but for the price: that is only known of a model that is there itself, at
the vendor that is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from orkas.infra.patterns import lazy
from orkas.providers.base import FREE, ModelInfo, Price, Rates, ThinkingLevel
from orkas.providers.catalog.file import Row, facts
from orkas.providers.vendors import Vendor, known_row

__all__ = [
    "Converse", "Gemini", "aliases", "anthropic_output", "anthropic_thinking", "cohere_thinks", "converse",
    "gemini", "is_plain_openai", "model_info", "names", "near", "openai_effort", "reasons_openai", "reload",
]  # fmt: skip

_SAFE_OUTPUT = 8_192
"""Output limit assumed where none is known: small enough for every current model."""
_MAKERS = (
    "anthropic", "openai", "google", "mistral", "deepseek", "xai", "moonshot", "zai", "alibaba", "cohere", "perplexity",
)  # fmt: skip
"""Whose facts about a model count for whoever else serves it."""
_SAME = {"openai-chat": "openai", "vertex": "google"}
"""Other ways to the same models at the same price."""


def reload() -> None:
    """Forget what was read: a refreshed catalogue counts from the next question on."""
    facts.cache_clear()
    _looked_up.clear()


def aliases() -> dict[str, str]:
    """Short names that are always there, and the model string of each."""
    return facts().aliases


def names(vendor: str) -> list[str]:
    """Models of this vendor that are known here. It may have others, which can be used as well."""
    row = known_row(vendor)
    own = list(row.catalog) if row is not None else []
    return list(dict.fromkeys([*own, *facts().vendors.get(_SAME.get(vendor, vendor), {})]))


def near(model: str, vendor: str = "") -> list[str]:
    """Model strings that look like this name, the nearest first: of one vendor, else of all that make models."""
    import difflib

    if vendor:
        known = {name: f"{vendor}/{name}" for name in names(vendor)}
        found = difflib.get_close_matches(model.lower(), known, n=3, cutoff=0.7)
        return [known[name] for name in found if name != model.lower()]
    known = {name: f"{maker}/{name}" for maker in reversed(_MAKERS) for name in facts().vendors.get(maker, {})}
    return [known[name] for name in difflib.get_close_matches(_bare(model), known, n=3, cutoff=0.75)]


_looked_up: dict[tuple[str, str], tuple[Vendor | None, ModelInfo]] = {}
_AT_HOME = 32_768
"""Ollama is asked for the context that a request needs; from this size on a conversation is rather compacted. Models
that fit a machine of one's own take as much, and their machine holds it. A window that the user sets goes before."""


def model_info(vendor: str, model: str) -> ModelInfo:
    """What is known of a model. Unknown: no window, a conservative output limit, images allowed, no price.

    Models on the user's own machine are never looked up: their window is what the server was started with, or asked
    for. They cost nothing, unless they only pass through it (``:cloud`` at Ollama).
    """
    row = known_row(vendor)
    known = _looked_up.get((vendor, model))
    if known is not None and known[0] is row:
        return known[1]
    if len(_looked_up) >= _KEPT:
        _looked_up.clear()
    info = _info(row, vendor, model)
    _looked_up[vendor, model] = row, info
    return info


_KEPT = 256


def _info(row: Vendor | None, vendor: str, model: str) -> ModelInfo:
    """What the user says of the model, then what is shipped; of a server of the user's own nothing is."""
    if row is None:
        return _shipped(vendor, model)
    known = _at_home(row, model) if row.own or row.local else _shipped(vendor, model)
    told = row.catalog.get(model)
    if told is None:
        return known
    rates = told.price
    return msgspec.structs.replace(
        known,
        context_window=told.context_window or known.context_window,
        max_output=told.max_output or known.max_output,
        images=known.images if told.images is None else told.images,
        price=Price(Rates(rates.input, rates.output, rates.cache_read, rates.cache_write)) if rates else known.price,
    )


def _at_home(row: Vendor, model: str) -> ModelInfo:
    if model.endswith(("-cloud", ":cloud")):  # it only passes through
        return ModelInfo(max_output=_SAFE_OUTPUT)
    window = _AT_HOME if row.dialect == "ollama" else None
    return ModelInfo(window, _SAFE_OUTPUT, price=FREE if row.free else None)


def _shipped(vendor: str, model: str) -> ModelInfo:
    rows = facts().vendors.get(_SAME.get(vendor, vendor), {})
    exact = next((rows[name] for name in _spellings(model) if name in rows), None)
    row = exact or _relative(rows, model)
    if row is None:
        return ModelInfo(max_output=_SAFE_OUTPUT)
    abilities = row.abilities
    return ModelInfo(
        row.window, row.output or _SAFE_OUTPUT, "i" in abilities, reasons="r" in abilities, tools="t" in abilities,
        price=_price(exact) if exact is not None else None,
    )  # fmt: skip


def _price(row: Row) -> Price | None:
    if row.input is None or row.answer is None:
        return None
    if not row.input and not row.answer:
        return FREE
    tiers = tuple((above, Rates(given, answer, read, write)) for above, given, answer, read, write in row.tiers)
    return Price(Rates(row.input, row.answer, row.cache_read, row.cache_write), tiers)


_DATED = lazy(r"(?:[-@](?:20\d{2}-?\d{2}-?\d{2}|latest|default))+$")


def _spellings(model: str) -> Iterator[str]:
    """The ways in which this very model may be written in the file: whole, then without its date."""
    name = model.lower().removeprefix("models/")
    yield name
    if (plain := _DATED.sub("", name)) != name:
        yield plain
    if name.startswith("claude") and "." in name:
        yield from _spellings(name.replace(".", "-"))


def _relative(rows: dict[str, Row], model: str) -> Row | None:
    """The row of the nearest relative: of this vendor, else of the maker, else of a family."""
    bare = _bare(model)
    families = facts().families
    shelves = [rows, *(facts().vendors.get(maker, {}) for maker in _MAKERS)]
    for name in _shorter(model.lower()):
        if name in rows:
            return rows[name]
    for name in _shorter(bare):
        if found := next((shelf[name] for shelf in shelves if name in shelf), None) or families.get(name):
            return found
    return None


def _shorter(name: str) -> Iterator[str]:
    """The name and its beginnings, cut where a part of it ends."""
    while name:
        yield name
        name = name[: max(name.rfind(c) for c in "-.:@_ ")] if any(c in name for c in "-.:@_ ") else ""


_MAKER = lazy(
    r"^(?:[a-z-]{2,8}\.)?(?:ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|"
    r"nvidia|openai|qwen|writer|xai|zai)\.(?=[a-z])"
)
"""Region and maker in front of a model's name on Bedrock: ``us.anthropic.claude-…``."""
_REVISION = lazy(r"(?<!claude)-v\d+(?::\d+)?(?::\d+k)?$")
"""The end of a model's name there: ``…-20250929-v1:0``; the version of ``claude-v2`` is none."""


def _bare(model: str) -> str:
    """``anthropic/claude-sonnet-4.5:free`` → ``claude-sonnet-4.5`` as its own vendor spells it."""
    name = _REVISION.sub("", model.lower().rpartition("/")[2])
    name = _MAKER.sub("", name).partition(":")[0].partition("@")[0]
    return name.replace(".", "-") if name.startswith("claude") else name


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


def reasons_openai(model: str) -> bool:
    """One of OpenAI's reasoning models by name."""
    name = model.rpartition("/")[2]
    return _REASONING.match(name) is not None and "chat" not in name


_REASONING = lazy(r"o[1-9]|codex|gpt-(?:[5-9]|[1-9]\d)(?!\d)")


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
    if "-pro" in name or not (name.startswith("gpt-") and reasons_openai(name)):
        return ""
    return "minimal" if re.match(r"gpt-5(?!\.)", name) else "none"


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

    @property
    def typed_with_tools(self) -> bool:
        """Can be held to a schema in its answer while there are tools: came with the same generation."""
        return self.media_results


_GEMINI = lazy(r"gemini-(\d+)(?:\.(\d+))?")


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
