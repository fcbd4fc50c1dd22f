"""What public catalogues say of models, held against each other, because each has mistakes of its own.

- A window counts when two of them name the same; else the smallest that any names.
- The output limit is the smallest that any names; one of more than half of the window says nothing and is cut.
- A price in which they differ is the dearest of them, the dearest hour and what is announced for the next month
  included, so that a cost limit is never passed by a mistake here. One that nobody names is left out: unknown. So is
  a price of nothing that only one names.
- Models without tools, retired ones and those that answer with something else than text are left out.

The catalogues are read as they are published, whatever has another form than it should is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

__all__ = ["ADDRESSES", "READERS", "VENDORS", "Catalogue", "Facts", "Names", "build", "dearest"]

ADDRESSES = {
    "litellm": "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json",
    "modelsdev": "https://models.dev/api.json",
    "genai": "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json",
}
"""Where each is published: LiteLLM's price list, models.dev, Pydantic's prices."""


class Names(NamedTuple):
    """What one vendor of ours is called in each catalogue."""

    litellm: tuple[str, ...]
    genai: str
    modelsdev: str


VENDORS = {
    "anthropic": Names(("anthropic",), "anthropic", "anthropic"),
    "openai": Names(("openai",), "openai", "openai"),
    "google": Names(("gemini",), "google", "google"),
    "mistral": Names(("mistral",), "mistral", "mistral"),
    "deepseek": Names(("deepseek",), "deepseek", "deepseek"),
    "xai": Names(("xai",), "x-ai", "xai"),
    "moonshot": Names(("moonshot",), "moonshotai", "moonshotai"),
    "zai": Names(("zai",), "zai", "zai"),
    "alibaba": Names(("dashscope",), "", "alibaba"),
    "perplexity": Names(("perplexity",), "perplexity", "perplexity"),
    "cohere": Names(("cohere_chat",), "cohere", "cohere"),
    "groq": Names(("groq",), "groq", "groq"),
    "cerebras": Names(("cerebras",), "cerebras", "cerebras"),
    "together": Names(("together_ai",), "together", "togetherai"),
    "fireworks": Names(("fireworks_ai",), "fireworks", "fireworks-ai"),
    "bedrock": Names(("bedrock", "bedrock_converse"), "aws", "amazon-bedrock"),
    "openrouter": Names((), "openrouter", "openrouter"),
    "huggingface": Names((), "", "huggingface"),
    "nvidia": Names((), "", "nvidia"),
}
MAKERS = (
    "anthropic", "openai", "google", "mistral", "deepseek", "xai", "moonshot", "zai", "alibaba", "cohere", "perplexity",
)  # fmt: skip
"""Whose facts about a model count for whoever else serves it."""
NO_PRICE = ("huggingface", "nvidia", "perplexity")
"""Whoever serves there sets the price, or tokens are not all that is paid for."""

class Facts(NamedTuple):
    """What one catalogue says of one model. Prices in USD a million tokens: input, output, cache read, cache write."""

    window: int | None = None
    most_input: int | None = None
    output: int | None = None
    images: bool | None = None
    reasons: bool | None = None
    tools: bool | None = None
    price: tuple[float | None, ...] = (None, None, None, None)
    tiers: dict[int, tuple[float | None, ...]] = {}  # noqa: RUF012 - never changed
    old: bool = False
    """Of the catalogue that is months behind the others."""


class Catalogue(NamedTuple):
    """One catalogue, read. Either half may be missing."""

    models: Callable[[Names], Iterator[tuple[str, Facts]]] | None = None
    """All models of a vendor, by their names there."""
    find: Callable[[Names, str], Facts | None] | None = None
    """What it says of one model."""


# ------------------------------------------------------------------ the three catalogues


def litellm(rows: Any, today: date) -> Catalogue:
    """LiteLLM's list: an object of rows by model.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(rows, dict) or not any(isinstance(r, dict) and "litellm_provider" in r for r in rows.values()):
        raise ValueError("it is no list of LiteLLM's")

    def models(names: Names) -> Iterator[tuple[str, Facts]]:
        for key, row in rows.items():
            if isinstance(row, dict) and row.get("litellm_provider") in names.litellm and _listed(key, row, today):
                name = key.removeprefix("fireworks_ai/") if "fireworks_ai" in names.litellm else key
                name = _PREFIX.sub("", name)
                if "bedrock" in names.litellm and "/" in name:
                    continue  # prices of one region under an id of the catalogue's own
                yield name, _of_litellm(row)

    return Catalogue(models)


def _listed(key: str, row: dict[str, Any], today: date) -> bool:
    """Whether a row is of a model that chats in text and is not long retired."""
    if row.get("mode") not in ("chat", "responses") or key.startswith("ft:"):
        return False
    end = _day(row.get("deprecation_date"))
    if end is not None and end < today - timedelta(days=90):
        return False
    said = row.get("supported_output_modalities")
    return not isinstance(said, list) or "text" in said


_PREFIX = re.compile(r"^(gemini|mistral|deepseek|xai|moonshot|zai|dashscope|perplexity|groq|cerebras|together_ai)/")
_FIELDS = (
    "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
)  # fmt: skip


_ABOVE = re.compile(r"input_cost_per_token_above_(\d{1,6})k_tokens")


def _of_litellm(row: dict[str, Any]) -> Facts:
    above = {int(m[1]) * 1000 for key in row if (m := _ABOVE.fullmatch(key))}
    tiers = {at: tuple(_million(row.get(f"{f}_above_{at // 1000}k_tokens")) for f in _FIELDS) for at in above}
    price = tuple(_million(row.get(field)) for field in _FIELDS)
    if row.get("tiered_pricing"):
        price, tiers = _tiered(_dicts(row["tiered_pricing"]))
    return Facts(
        _size(row.get("max_input_tokens")), _size(row.get("max_input_tokens")), _size(row.get("max_output_tokens")),
        bool(row.get("supports_vision")), bool(row.get("supports_reasoning")),
        bool(row.get("supports_function_calling")), price, tiers,
    )  # fmt: skip


def _tiered(rows: list[dict[str, Any]]) -> tuple[tuple[float | None, ...], dict[int, tuple[float | None, ...]]]:
    made = {}
    for row in rows:
        start = row["range"][0] if isinstance(row.get("range"), list) and row["range"] else None
        if isinstance(start, int | float) and 0 <= start <= _LARGEST:
            made[int(start)] = tuple(_million(row.get(f)) for f in _FIELDS)
    return made.pop(0, (None,) * 4), made


def _million(price: Any) -> float | None:
    return None if (known := _price(price)) is None else round(known * 1e6, 6)


def modelsdev(providers: Any, _today: date) -> Catalogue:
    """models.dev: an object of providers by id, each with its models.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(providers, dict) or not any(isinstance(p, dict) and "models" in p for p in providers.values()):
        raise ValueError("it is not the catalogue of models.dev")

    def models(names: Names) -> Iterator[tuple[str, Facts]]:
        for name, model in _dict(_dict(providers.get(names.modelsdev)).get("models")).items():
            kinds = _dict(_dict(model).get("modalities"))
            if isinstance(model, dict) and model.get("status") != "deprecated" and kinds.get("output") == ["text"]:
                yield name, _of_modelsdev(model, kinds.get("input"))

    return Catalogue(models)


def _of_modelsdev(model: dict[str, Any], takes: Any) -> Facts:
    limit, cost = _dict(model.get("limit")), _dict(model.get("cost"))
    tiers = {}
    for tier in _dicts(cost.get("tiers")):
        start = _size(_dict(tier.get("tier")).get("size"))
        if start is not None:
            tiers[start] = _costs(tier)
    if isinstance(dear := cost.get("context_over_200k"), dict):
        tiers.setdefault(200_000, _costs(dear))
    return Facts(
        _size(limit.get("context")), _size(limit.get("input")), _size(limit.get("output")),
        isinstance(takes, list) and "image" in takes, bool(model.get("reasoning")), bool(model.get("tool_call")),
        _costs(cost), tiers,
    )  # fmt: skip


def _costs(said: dict[str, Any]) -> tuple[float | None, ...]:
    return tuple(_price(said.get(field)) for field in ("input", "output", "cache_read", "cache_write"))


def genai(providers: Any, today: date) -> Catalogue:
    """Pydantic's prices: a list of providers, each with models and what names they match.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(providers, list) or not any("models" in p for p in _dicts(providers)):
        raise ValueError("it is no list of Pydantic's prices")
    shelves = {str(p.get("id")): _dicts(p.get("models")) for p in _dicts(providers)}

    def find(names: Names, name: str) -> Facts | None:
        found = next((m for m in shelves.get(names.genai, []) if _matches(m.get("match"), name)), None)
        return _of_genai(found, today) if found is not None else None

    return Catalogue(find=find)


def _matches(clause: Any, name: str) -> bool:
    """Whether a clause takes a name. Expressions of others are not run: what only they match is not found."""
    said = _dict(clause)
    for kind, value in said.items():
        if kind in ("or", "and") and isinstance(value, list):
            return (any if kind == "or" else all)(_matches(inner, name) for inner in value)
        if isinstance(value, str) and (test := _TESTS.get(kind)):
            return test(name, value.lower())
    return False


_TESTS: dict[str, Callable[[str, str], bool]] = {
    "equals": str.__eq__, "starts_with": str.startswith, "ends_with": str.endswith, "contains": str.__contains__,
}  # fmt: skip


def _of_genai(model: dict[str, Any], today: date) -> Facts:
    price: tuple[float | None, ...] = (None,) * 4
    tiers: dict[int, tuple[float | None, ...]] = {}
    for prices in _in_force(model.get("prices"), today):
        said = [prices.get(field) for field in ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")]
        price = dearest(price, tuple(_step(s, 0) for s in said))
        starts = {start for s in said for t in _dicts(_dict(s).get("tiers")) if (start := _size(t.get("start")))}
        for at in starts:
            at_it = tuple(_step(s, at) for s in said)
            tiers[at] = dearest(tiers.get(at, at_it), at_it)
    return Facts(window=_size(model.get("context_window")), price=price, tiers=tiers)


def _in_force(said: Any, today: date) -> list[dict[str, Any]]:
    """Prices that hold today at some hour, or will within a month. Later ones take the place of earlier ones."""
    if isinstance(said, dict):
        return [said]
    held: list[dict[str, Any]] = []
    for entry in _dicts(said):
        constraint = _dict(entry.get("constraint"))
        start = _day(constraint.get("start_date"))
        prices = _dict(entry.get("prices"))
        if start is None and constraint:
            held.append(prices)  # certain hours
        elif start is None or start <= today:
            held = [prices]
        elif start <= today + timedelta(days=31):
            held.append(prices)
    return held


def _step(said: Any, at: int) -> float | None:
    """A price for prompts of more than ``at`` tokens."""
    if not isinstance(said, dict):
        return _price(said)
    reached = [t for t in _dicts(said.get("tiers")) if (_size(t.get("start")) or 0) <= at]
    last = max(reached, key=lambda t: _size(t.get("start")) or 0, default=None)
    return _price(last.get("price") if last is not None else said.get("base"))


READERS: dict[str, Callable[[Any, date], Catalogue]] = {"litellm": litellm, "modelsdev": modelsdev, "genai": genai}

_LARGEST = 100_000_000
"""More tokens than any window has."""
_DEAREST = 100_000.0
"""USD: more than a million tokens of any model cost."""


def _size(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= _LARGEST
    return int(value) if fits else None


def _price(value: Any) -> float | None:
    """USD; None for what is no price."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _DEAREST
    return float(value) if fits else None


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


# ------------------------------------------------------------------ one answer out of three


def dearest(*prices: tuple[float | None, ...]) -> tuple[float | None, ...]:
    return tuple(max((p for p in column if p is not None), default=None) for column in zip(*prices, strict=True))


def merged(said: list[Facts], maker: list[Any] | None, *, priced: bool, free: bool) -> list[Any]:
    """One row of the file: window, output, abilities, prices, tiers; what is empty at the end is left out."""
    totals = [f.window for f in said if f.window and f.most_input != f.window]
    windows = []
    for f in said:
        whole = (f.window or 0) + (f.output or 0)  # some catalogues call the input the window
        windows += [whole if f.most_input == f.window and whole in totals else f.window] if f.window else []
    agreed = [w for w in windows if windows.count(w) > 1]
    window = max(agreed) if agreed else min(windows, default=None)
    output = min((f.output for f in said if f.output), default=None)
    if maker is not None:
        window = min((w for w in (window, maker[0]) if w), default=None)
    if window and output and output > window // 2:
        output = window // 4
    images = [f.images for f in said if f.images is not None]
    abilities = ("i" if images and all(images) else "") + ("r" if any(f.reasons for f in said) else "")
    row: list[Any] = [window, output, abilities + ("t" if any(f.tools for f in said) else "")]
    said = _fresh(said)
    price = dearest(*(f.price for f in said))
    if priced and price[0] is not None and price[1] is not None and (any(price[:2]) or free or _free(said)):
        row += [_whole(p) for p in price]
        row.append([[at, *map(_whole, tier)] for at, tier in _tiers(said, price)])
    while row and row[-1] in (None, []):
        row.pop()
    return row


def _fresh(said: list[Facts]) -> list[Facts]:
    """Those whose prices count."""
    return [f for f in said if not f.old and f.price[0] is not None] or said


def _free(said: list[Facts]) -> bool:
    return len([f for f in said if f.price[:2] == (0, 0)]) > 1


def _tiers(said: list[Facts], price: tuple[float | None, ...]) -> list[tuple[int, tuple[float | None, ...]]]:
    """Thresholds that catalogues give for the same step (272,000 and 272,001) are one."""
    made: dict[int, tuple[float | None, ...]] = {}
    for f in said:
        for at, tier in f.tiers.items():
            near = round(at, -3)
            made[near] = dearest(made.get(near, price), tuple(tier), price)
    return sorted((at, tier) for at, tier in made.items() if tier != price)


def _whole(price: float | None) -> float | int | None:
    return int(price) if price is not None and price == int(price) else price


_DATED = re.compile(r"[-@](?:20\d{2}-?\d{2}-?\d{2}|\d{4}|latest|default)$")


Families = Mapping[str, tuple[int, int | None, str]]
"""Window, output limit and abilities of whole families of models."""


def build(catalogues: Sequence[Catalogue], families: Families) -> dict[str, dict[str, list[Any]]]:
    """Rows by vendor and model, as ``providers.catalog`` reads them."""
    vendors: dict[str, dict[str, list[Any]]] = {}
    for vendor, names in VENDORS.items():
        ours: dict[str, list[Facts]] = {}
        for catalogue in catalogues:
            for name, facts in catalogue.models(names) if catalogue.models else ():
                ours.setdefault(name.lower(), []).append(facts)
        rows = {}
        for name, said in ours.items():
            if not any(f.tools for f in said) or not _sane(name):
                continue
            maker = None if vendor in MAKERS else _maker(vendors, families, name)
            thirds = [f for c in catalogues if c.find and (f := c.find(names, name)) is not None]
            rows[name] = merged([*said, *thirds], maker, priced=vendor not in NO_PRICE, free=name.endswith(":free"))
        for name in [name for name, row in rows.items() if not row or row[0] is None]:
            del rows[name]
        for name in list(rows):
            base = _DATED.sub("", name)
            if base != name and base in rows and rows[base][2:] == rows[name][2:]:
                del rows[name]
        vendors[vendor] = dict(sorted(rows.items()))
    return vendors


def _sane(name: str) -> bool:
    if not name.isprintable() or not 0 < len(name) <= 200:
        return False
    return not re.search(
        r"learnlm|gemini-exp|gemini-gemma|audio|realtime|live|tts|image|embed|robotics|deep-research|computer-use|guard"
        r"|:extended", name,
    )  # fmt: skip


def _maker(vendors: dict[str, dict[str, list[Any]]], families: Families, name: str) -> list[Any] | None:
    last = re.sub(r"^.*[/]|^(?:[a-z-]+\.)?[a-z]+\.(?=[a-z])", "", name).partition(":")[0]
    last = last.replace(".", "-") if last.startswith("claude") else last
    found = next((rows[last] for maker in MAKERS if last in (rows := vendors.get(maker, {}))), None)
    if found is None and last.startswith("claude"):  # a longer window there is one that must be asked for
        found = next((list(families[f]) for f in sorted(families, key=len, reverse=True) if last.startswith(f)), None)
    return found
