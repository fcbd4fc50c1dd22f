"""``orkas models``: vendors, known models, and the model that runs on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from orkas.infra import environment
from orkas.infra.amounts import counted, decimal
from orkas.infra.errors import UsageError
from orkas.infra.terminal import label
from orkas.product.cli import out, parsing
from orkas.product.cli.vendors import Row, rows
from orkas.providers.base import FREE, ModelInfo, Rates

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas models",
        usage="orkas models [--vendor V] [--json]\n       orkas models refresh [--json]\n"
        "       orkas models install local [--gguf PATH]",
        description="List vendors, or the known models of one; fetch newer windows and prices; install a model that "
        "runs on this machine.",
        example="orkas models --vendor anthropic",
    )
    own.add_argument("action", metavar="refresh|install", nargs="?", choices=("refresh", "install"))
    own.add_argument("what", metavar="local", nargs="?", choices=("local",))
    own.add_argument("--vendor", metavar="V", help="list the known models of this vendor")
    own.add_argument("--gguf", metavar="PATH", type=Path, help="install this model file instead of fetching one")
    return parsing.common(own, _do)


def _do(options: argparse.Namespace) -> int:
    _own_mistakes()
    if options.action == "refresh":
        return _refresh(options)
    if options.action is not None:
        return _install(options)
    if options.gguf is not None:
        raise UsageError("--gguf belongs to `orkas models install local`", hint="see `orkas models --help`")
    return _models(options) if options.vendor else _vendors(options)


def _own_mistakes() -> None:
    """What of the user's own vendors, models and short names does not count, and why."""
    from orkas.infra import config
    from orkas.providers.vendors.own import own

    try:
        config.content()
    except UsageError as error:
        out.warning(str(error))
    for text in own().mistakes.values():
        out.warning(text)


def _vendors(options: argparse.Namespace) -> int:
    from orkas.providers.local import installed
    from orkas.providers.registry import short_names

    found = rows()
    local = ", ".join(model.model for model in installed())
    if options.json:
        ours = [{"vendor": "local", "models": local or None, "local": True}, {"vendor": "demo", "local": True}]
        out.data([*(_facts(row) for row in found), *ours])
    else:
        lines = [(row.name, _ready(row), row.base_url or f"set {row.url_variable}") for row in found]
        lines.append(("local", "installed" if local else "absent", local or "orkas models install local"))
        lines.append(("demo", "always", "demo/offline, which is no language model"))
        out.table(lines)
        short = ", ".join(f"{name} → {model}" for name, model in short_names().items())
        out.note(f"short names: {short}")
        out.note("`orkas models --vendor NAME` lists models with their windows and prices")
        _catalogue()
    return 0


def _catalogue() -> None:
    """Which catalogue is in force, and of which day."""
    from orkas.providers.catalog import file as catalog_file

    if trouble := catalog_file.trouble():
        out.warning(trouble)
    whose = "refreshed" if catalog_file.refreshed() else "as it came with Orkas"
    out.note(f"windows and prices of {counted(catalog_file.count(), 'model')}: of {catalog_file.as_of()}, {whose}")


def _facts(row: Row) -> dict[str, Any]:
    return {
        "vendor": row.name,
        "dialect": row.dialect,
        "base_url": row.base_url or None,
        "local": row.local,
        "key": row.key,
        "login": row.login,
        "variables": row.variables,
        "prefixes": row.prefixes,
    }


def _ready(row: Row) -> str:
    return "no key needed" if row.local else "key found" if row.key or row.login else "no key"


def _models(options: argparse.Namespace) -> int:
    """Models of one vendor that are known here without asking it; every other name of it can be used as well."""
    from orkas.providers import catalog

    row = next((row for row in rows() if row.name == options.vendor), None)
    if row is None:
        raise UsageError(f"there is no vendor {options.vendor!r}", hint="`orkas models` lists them")
    known = [(name, catalog.model_info(row.name, name.partition("/")[2])) for name in _known(row.name)]
    if options.json:
        out.data([_model_facts(name, info) for name, info in known])
        return 0
    table = [(label(name), *_columns(info)) for name, info in known]
    out.table([("model", "window", "output", "in", "out", "read", "write", "can"), *table] if table else [])
    if any(info.price is not None and info.price is not FREE for _, info in known):
        out.note("prices: USD for a million tokens, + where long prompts cost more")
    out.note(f"any model of {row.name} can be used: {row.name}/NAME")
    _catalogue()
    return 0


def _model_facts(name: str, info: ModelInfo) -> dict[str, Any]:
    price = None
    if info.price is not None:
        tiers = [{"above": above, **_rates(rates)} for above, rates in info.price.tiers]
        price = {**_rates(info.price.base), "tiers": tiers}
    return {
        "model": name,
        "context_window": info.context_window,
        "max_output": info.max_output,
        "images": info.images,
        "reasons": info.reasons,
        "tools": info.tools,
        "price": price,
    }


def _rates(rates: Rates) -> dict[str, float | None]:
    return {name: getattr(rates, name) for name in ("input", "output", "cache_read", "cache_write")}


def _columns(info: ModelInfo) -> tuple[str, ...]:
    window = f"{info.context_window:,}" if info.context_window else "unknown"
    output = f"{info.max_output:,}" if info.max_output else "unknown"
    can = [word for word, it in (("images", info.images), ("reasons", info.reasons), ("tools", info.tools)) if it]
    if info.price is None:
        return window, output, "unknown", "", "", "", " ".join(can)
    base = info.price.base
    more = "+" if info.price.tiers else ""
    costs = [base.input, base.output, base.cache_read, base.cache_write]
    return window, output, *("-" if c is None else f"{decimal(c)}{more}" for c in costs), " ".join(can)


def _known(vendor: str) -> list[str]:
    from orkas.providers.catalog import names
    from orkas.providers.discovery import DEFAULT_MODELS, discover

    named = [*DEFAULT_MODELS.values(), *(step.model for step in discover(environment.environ) if step.model)]
    found = [name for name in named if name.partition("/")[0] == vendor]
    return list(dict.fromkeys([*found, *(f"{vendor}/{name}" for name in names(vendor))]))


def _refresh(options: argparse.Namespace) -> int:
    import asyncio

    from orkas.infra import config
    from orkas.providers.catalog.refresh import refresh

    if options.what is not None or options.vendor or options.gguf is not None:
        raise UsageError("`orkas models refresh` takes nothing else", hint="see `orkas models --help`")
    settings = config.load()
    addresses = {name: settings[f"catalogues.{name}"] for name in ("litellm", "modelsdev", "genai")}
    done = asyncio.run(refresh({name: address for name, address in addresses.items() if address}))
    for text in done.missed:
        out.warning(f"one catalogue was left out: {text}")
    if options.json:
        out.data(done)
        return 0
    out.lines([f"{counted(done.models, 'model')}, of {done.as_of}: {len(done.new)} new, {len(done.changed)} changed"])
    if done.new:
        more = f" and {len(done.new) - _NAMED} more" if len(done.new) > _NAMED else ""
        out.note(f"new: {label(', '.join(done.new[:_NAMED]), 2_000)}{more}")
    return 0


_NAMED = 12


def _install(options: argparse.Namespace) -> int:
    if options.what is None:
        raise UsageError("say what to install", hint="orkas models install local")
    from orkas.product import local_model

    def progress(text: str) -> None:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()

    local_model.install(gguf=options.gguf, progress=progress)
    lines = list(local_model.status())
    out.data(lines) if options.json else out.lines(lines)
    return 0
