"""``orkas config``: each setting, its value, and where that comes from."""

from __future__ import annotations

import argparse
from typing import Any

from orkas.infra import config
from orkas.infra.amounts import decimal
from orkas.infra.errors import UsageError
from orkas.infra.redact import looks_secret, redact
from orkas.product.cli import out, parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas config",
        description="Settings, from the first place that has them: flags, the environment, the file, the default.\n\n"
        "settings:\n" + "\n".join(f"  {name:<24}{key.about}" for name, key in config.KEYS.items())
        + f"\n  {config.VENDOR_FORM:<24}where this vendor is reached"
        f"\n  {config.OAUTH_FORM:<24}your own OAuth client there: {', '.join(config.OAUTH_FIELDS)}",
    )  # fmt: skip
    add = parsing.choose(own)
    add("list", _list, "list all settings and where each comes from", example="orkas config list")
    get = add("get", _get, "print one setting", example="orkas config get model")
    get.add_argument("key", metavar="KEY")
    change = add(
        "set", _set, "write one setting into the file", example="orkas config set model anthropic/claude-sonnet-4-5"
    )
    change.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="VALUE")
    unset = add("unset", _unset, "take one setting out of the file again", example="orkas config unset model")
    unset.add_argument("key", metavar="KEY")
    add("path", _path, "print where the file is", example="orkas config path")
    return own


def _list(options: argparse.Namespace) -> int:
    settings = config.load(tolerant=True)
    for text in (*settings.broken, *settings.warnings):
        out.warning(text)
    rows = list(settings.values.values())
    if options.json:
        out.data([{"key": s.key, "value": _shown(s.value), "origin": s.origin} for s in rows])
    else:
        out.table([(s.key, _text(s) or "not set", s.origin) for s in rows])
    return 0


def _text(setting: config.Setting) -> str:
    """A value for people; empty where nobody has set it and there is no default."""
    match _shown(setting.value):
        case list() as several:
            return ", ".join(map(str, several))
        case float() as amount:
            return decimal(amount) if amount else ""
        case value:
            return str(value)


def _shown(value: Any) -> Any:
    """A value without the password that an address from the environment may hold."""
    return redact(value) if isinstance(value, str) else value


def _get(options: argparse.Namespace) -> int:
    default = config.key_of(options.key).default
    found = config.load().values.get(options.key, config.Setting(options.key, default, "default"))
    if options.json:
        out.data({"key": found.key, "value": _shown(found.value), "origin": found.origin})
    elif not (text := _text(found)):
        instead = config.key_of(found.key).about.partition("empty: ")[2]
        out.note(f"{found.key} is not set" + (f"; what counts is {instead}" if instead else ""))
    else:
        out.line(text)
    return 0


def _set(options: argparse.Namespace) -> int:
    if options.key in ("model", "image.model") and options.value and not looks_secret(options.value):
        from orkas.providers.registry import artist, split_model

        split_model(options.value)
        if options.key == "image.model":
            artist(options.value)
    value = config.set_value(options.key, parsing.plain(options.value))
    if options.json:
        out.data({"key": options.key, "value": value, "origin": str(config.file_path())})
    try:
        now = config.load().values[options.key]
    except UsageError:
        return 0  # something else in the file is wrong; what was asked for is done
    if now.origin.startswith("environment"):
        out.warning(f"{now.origin} is set and goes before the file")
    return 0


def _unset(options: argparse.Namespace) -> int:
    there = config.unset_value(options.key)
    now = config.load(tolerant=True).values.get(options.key)
    if options.json:
        out.data({"key": options.key, "unset": there, "value": _shown(now.value) if now else None})
    elif not there:
        out.note(f"{options.key} is not set in {config.file_path()}")
    elif now is not None and now.origin.startswith("environment"):
        out.warning(f"{now.origin} is set all the same")
    return 0


def _path(options: argparse.Namespace) -> int:
    path = str(config.file_path())
    out.data({"path": path}) if options.json else out.line(path)
    return 0
