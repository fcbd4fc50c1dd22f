"""What the user adds in ``config.toml``: vendors of their own, facts about models, short names.

    [aliases]
    fast = "groq/llama-3.3-70b-versatile"

    [vendors.my-lab]                                 # speaks Chat Completions unless it says another dialect
    base_url = "https://llm.example.org/v1"

The folder one works in has no say. A table with a mistake is left out and told; the others count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec

from orkas.infra.errors import UsageError
from orkas.infra.home import home
from orkas.providers.vendors.rows import Quirks, Told, ToldRates, Vendor, shipped, variable

__all__ = ["Own", "own"]

_RESERVED = ("local", "demo")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_LEFT_OPEN = re.compile(r"[{}]")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_TAKEN = ("content-type", "accept", "host", "content-length", "transfer-encoding", "connection", "anthropic-version")
"""Headers that every request has for itself."""
_SPOKEN_FOR = ("model", "messages", "input", "contents", "stream", "tools", "tool_choice", "max_tokens", "system")
_OURS = ("base_url", "catalog", "oauth")
"""What may be said of a vendor that is in the table already. ``oauth`` is a setting: ``infra.config`` reads it."""
_FIELDS: dict[str, type[msgspec.Struct]] = {"": Vendor, "quirks": Quirks, "catalog": Told, "price": ToldRates}


class Own(msgspec.Struct):
    """What stands in the file. ``mistakes``: by the name of the table, one sentence each."""

    vendors: dict[str, Vendor] = {}
    aliases: dict[str, str] = {}
    mistakes: dict[str, str] = {}


_NOTHING = Own()
_read: tuple[object, Own] = (None, _NOTHING)


def _place() -> str:
    return f"{home()}/config.toml"  # where `infra.config` has it; that one is only loaded when there is a file


def own() -> Own:
    """What the user's file says. It is read again only when it has changed; a file that cannot be used says nothing
    here, and is told where the settings are read."""
    global _read
    path = _place()
    try:
        found = os.stat(path)  # noqa: PTH116 - asked at each choice of a model: a Path costs more than the call
    except OSError:
        _read = None, _NOTHING
        return _NOTHING
    stamp = (path, found.st_mtime_ns, found.st_size, found.st_ino)
    if _read[0] != stamp:
        _read = stamp, _file()
    return _read[1]


def _file() -> Own:
    from orkas.infra import config

    made = Own()
    try:
        content = config.content()
    except UsageError:
        return made
    for name, table in _tables(content, "vendors", made):
        try:
            row = _vendor(name, table)
        except ValueError as error:
            made.mistakes[name] = f"[vendors.{name}] in {_place()} cannot be used: {error}"
        else:
            if row is not None:
                made.vendors[name] = row
    for name, target in _tables(content, "aliases", made):
        if isinstance(target, str) and "/" in target.strip("/") and "/" not in name and name == name.strip().lower():
            made.aliases[name] = target
        else:
            text = 'an alias is a short lower-case name for a model, as in fast = "groq/llama-3.3-70b-versatile"'
            made.mistakes[f"aliases.{name}"] = f"{name!r} in [aliases] of {_place()} cannot be used: {text}"
    return made


def _tables(content: dict[str, Any], name: str, made: Own) -> Iterator[tuple[str, Any]]:
    table = content.get(name, {})
    if isinstance(table, dict):
        yield from table.items()
    else:
        made.mistakes[name] = f"{name!r} in {_place()} must be a table, as [{name}]"


def _vendor(name: str, table: Any) -> Vendor | None:
    """The row that a table describes; None: it only says where a known vendor is reached.

    Raises:
        ValueError: it cannot be used, and why.
    """
    if not isinstance(table, dict):
        raise ValueError("it must be a table")  # noqa: TRY004 - a mistake in a file, not in a program
    if not isinstance(table.get("oauth", {}), dict):
        raise ValueError(f"it must have oauth as a table, [vendors.{name}.oauth]")  # noqa: TRY004 - as above
    row = shipped().get(name)
    if row is not None:
        if others := [field for field in table if field not in _OURS]:
            raise ValueError(f"{name} is known already, so {others[0]!r} is not for you to say; take another name")
        if "catalog" not in table:
            return None
        catalog = _converted({"catalog": table["catalog"]}, dict[str, dict[str, Told]])["catalog"]
        return msgspec.structs.replace(row, catalog=catalog)
    if name in _RESERVED or not _NAME.fullmatch(name):
        raise ValueError("take another name, of lower-case letters, digits and hyphens")
    from orkas.infra.redact import secret_name

    for field in table:
        if secret_name(field) or field == "own":
            hint = f"; put the key into the variable {variable(name, 'API_KEY')}" if field != "own" else ""
            raise ValueError(f"there is no field {field!r}{hint}")
    told = {field: value for field, value in table.items() if field != "oauth"}
    if isinstance(address := told.get("base_url"), str):
        told["base_url"] = address.strip()
    made: Vendor = _converted({"dialect": "openai_chat", **told, "own": True}, Vendor)
    _check(made)
    return made


def _check(row: Vendor) -> None:
    from orkas.infra import config
    from orkas.infra.redact import looks_secret

    try:
        config.key_of("vendors.x.base_url").read(row.base_url or "https://later")
    except ValueError as error:
        raise ValueError(f"base_url {error}") from None
    for named in (*row.keys, *row.urls):
        if looks_secret(named) or not _VARIABLE.fullmatch(named):
            raise ValueError("keys and urls hold names of environment variables, such as MY_LAB_TOKEN, and no secrets")
    if not all(p.strip() and p == p.lower() for p in row.prefixes):
        raise ValueError("prefixes are beginnings of model names in lower case")
    for path in (row.models, row.quirks.model_path):
        if path and not path.startswith("/"):
            raise ValueError(f"{path!r} is a path and begins with /")
    address = row.base_url.replace("{region}", "") if row.dialect == "bedrock" else row.base_url
    if _LEFT_OPEN.search(address) or _LEFT_OPEN.search(row.quirks.model_path.replace("{model}", "", 1)):
        raise ValueError("braces stand for something only as {model} in model_path, once")
    for header in (row.key_header, row.quirks.cache_header):
        if header and (not _HEADER.fullmatch(header) or header.lower() in _TAKEN):
            raise ValueError(f"{header!r} cannot be the name of a header that holds a key")
    if row.quirks.cache_key in _SPOKEN_FOR:
        raise ValueError(f"the field {row.quirks.cache_key!r} of a request holds something else than a key")


def _converted(table: Any, type: Any) -> Any:
    try:
        return msgspec.convert(table, type)
    except msgspec.ValidationError as error:
        raise ValueError(_plain(str(error))) from None


def _plain(said: str) -> str:
    """A fault of validation as one sentence: the field, then what is wrong with it."""
    text, _, path = said.partition(" - at `$")
    where = path.rstrip("`").removeprefix("[...]").lstrip(".") or ""
    if unknown := re.search(r"unknown field `([^`]*)`", text):
        return _unknown(unknown[1], where)
    if missing := re.search(r"missing required field `([^`]*)`", text):
        return f"{where or 'the table'} lacks {missing[1]!r}"
    if value := re.search(r"Invalid enum value (.*)", text):
        return f"{where} may not be {value[1]}; it is one of {_choices(where)}"
    for form, meaning in _FORMS.items():
        if text.startswith(f"Expected `{form}"):
            return f"{where} must be {meaning}{_bound(text)}"
    return f"{where}: {text}" if where else text


_FORMS = {
    "str": "text",
    "array": "a list",
    "object": "a table",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
}


def _bound(text: str) -> str:
    """``Expected `float` >= 0.0``: its end, in words."""
    found = re.search(r"([<>])= ([0-9]+)", text)
    return "" if not found else f" from {found[2]} on" if found[1] == ">" else f" up to {found[2]}"


def _choices(where: str) -> str:
    area, _, field = where.rpartition(".")
    kind = get_type_hints(_FIELDS.get(area, Vendor)).get(field)
    return ", ".join(choice for choice in get_args(kind) if choice)


def _unknown(field: str, where: str) -> str:
    import difflib

    area = "price" if where.endswith("price") else where.partition(".")[0].partition("[")[0]
    known = [f for f in _FIELDS.get(area, Vendor).__struct_fields__ if f != "own"]
    near = difflib.get_close_matches(field, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no field {field!r}{f' in {where}' if where else ''}; {hint}"
