"""Settings. The working folder is never configuration.

One file, ``home()/config.toml``. Each setting is taken from the first place that has it: a flag, the environment,
the file, the default; and each value knows which. The file holds no secrets: keys come from the environment or from
``orkas auth login``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from orkas.infra import environment, files
from orkas.infra.errors import UsageError
from orkas.infra.home import home

__all__ = ["KEYS", "Setting", "Settings", "content", "file_path", "load", "set_value", "unset_value"]


def file_path() -> Path:
    """The configuration file; it need not exist."""
    return home() / "config.toml"


class Key(msgspec.Struct, frozen=True):
    """One setting. ``read`` makes its value of what stands in the file, or of text; ValueError says what it must be."""

    default: Any
    read: Callable[[Any], Any]
    variable: str | None = None
    """The environment variable that sets it."""
    about: str = ""


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            names = [name for name in allowed if name]
            raise ValueError(f"must be {', '.join(names[:-1])} or {names[-1]}")
        return value

    return read


def _line(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("must be text of one line")
    return value.strip()


def _count(value: Any) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
        raise ValueError("must be a whole number from 1 on")
    return value


def _usd(value: Any) -> float:
    try:
        amount = float(value)
    except (TypeError, ValueError):
        amount = -1.0
    if isinstance(value, bool) or not 0 <= amount < 1_000:
        raise ValueError("must be an amount of USD, such as 0.04")
    return amount


def _address(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#]+[^\s]*", value.strip(), re.IGNORECASE):
        raise ValueError("must be an address that begins with http:// or https://")
    return value.strip()


def _hosts(value: Any) -> list[str]:
    from orkas.infra.guard import Allowed

    entries = _words(value)
    for entry in entries:
        try:
            Allowed.read(entry)
        except ValueError as error:
            raise ValueError(f"must be hosts such as localhost:8080 or 10.0.0.0/8: {error}") from None
    return entries


def _words(value: Any) -> list[str]:
    """A list of the file, or words with commas between; in brackets too, as lists are written."""
    if isinstance(value, str):
        value = [word.strip(" \t\"'") for word in value.strip(" []").split(",")]
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError("must be a list of texts")
    return [word for word in value if word]


def _engines(value: Any) -> list[str]:
    entries = _words(value)
    for entry in entries:
        if entry not in ENGINES:
            raise ValueError(f"must be among {', '.join(ENGINES)}; several are asked in their order")
    return entries


ENGINES = ("brave", "tavily", "searxng", "duckduckgo", "vendor")
"""Search engines that ``web_search`` can ask; ``vendor``: that of the model's own vendor."""

KEYS: Mapping[str, Key] = {
    "model": Key("", _line, "ORKAS_MODEL", "default model string; empty: what is found on this machine"),
    "approve": Key("ask", _one_of("ask", "edits", "all", "none"), None, "what happens to calls the policy asks about"),
    "sandbox": Key("on", _one_of("on", "off"), None, "walls of the system around shell commands"),
    "thinking": Key("", _one_of("", "off", "low", "medium", "high"), None, "reasoning effort; empty: the vendor's own"),
    "max_rounds": Key(100, _count, None, "model calls one turn may make"),
    "catalogues.litellm": Key("", _address, None, "where the price list of LiteLLM is fetched; empty: the public one"),
    "catalogues.modelsdev": Key("", _address, None, "the same for models.dev"),
    "catalogues.genai": Key("", _address, None, "the same for Pydantic's prices"),
    "web.allow": Key([], _hosts, None, "hosts of your own network for the web tools, such as localhost:8080"),
    "search.engine": Key([], _engines, None, "search engines in the order they are asked; empty: what has a key"),
    "image.model": Key("", _line, "ORKAS_IMAGE_MODEL", "model that draws, such as openai/gpt-image-1; empty: none"),
    "image.price": Key(0.0, _usd, None, "USD that one picture of it costs; 0: not known"),
    "search.searxng": Key("", _address, "SEARXNG_BASE_URL", "where your SearXNG is reached"),
}
_ENDPOINT = Key("", _address, None, "where this vendor is reached")
_OAUTH: Mapping[str, Key] = {
    "authorize_url": Key("", _address, None, "where a browser logs in"),
    "token_url": Key("", _address, None, "where tokens are given out"),
    "device_url": Key("", _address, None, "where a login with a code begins"),
    "client_id": Key("", _line, None, "the id of your own OAuth client"),
    "scopes": Key("", _line, None, "what the token may do, separated by blanks"),
    "redirect_url": Key("", _address, None, "the redirect address of that client, on this machine"),
}
_VENDOR_KEY = re.compile(r"vendors\.([a-z0-9][a-z0-9-]*)\.(base_url|oauth\.(\w+))")
VENDOR_FORM = "vendors.NAME.base_url"
OAUTH_FORM = "vendors.NAME.oauth.…"
OAUTH_FIELDS = tuple(_OAUTH)


class Setting(msgspec.Struct, frozen=True):
    """A value and where it is from: ``default``, the file's path, ``environment NAME`` or ``flag``."""

    key: str
    value: Any
    origin: str


class Settings(msgspec.Struct):
    """All settings of one process. ``warnings`` are sentences for the user; nothing in them stops a run."""

    values: dict[str, Setting]
    warnings: list[str] = []
    broken: list[str] = []
    """What cannot be used and, behind the last semicolon, what to do. ``load`` raises the first unless tolerant."""

    def __getitem__(self, key: str) -> Any:
        return self.values[key].value

    @property
    def endpoints(self) -> dict[str, str]:
        """Addresses by the environment variable that would set them, for vendors the file names."""
        return {
            endpoint_variable(key): s.value for key, s in self.values.items() if key.endswith(".base_url") and s.value
        }

    def oauth(self, vendor: str) -> dict[str, Any]:
        """What the file says of this vendor's OAuth client."""
        prefix = f"vendors.{vendor}.oauth."
        return {k.removeprefix(prefix): s.value for k, s in self.values.items() if k.startswith(prefix) and s.value}


def endpoint_variable(key: str) -> str:
    """``vendors.my-lab.base_url`` → ``MY_LAB_BASE_URL``."""
    return key.split(".")[1].upper().replace("-", "_") + "_BASE_URL"


def key_of(name: str) -> Key:
    """The key of this name.

    Raises:
        UsageError: there is none; the sentence names the nearest one, or says where secrets belong.
    """
    if name in KEYS:
        return KEYS[name]
    if found := _VENDOR_KEY.fullmatch(name):
        if found[2] == "base_url":
            return _ENDPOINT
        if found[3] in _OAUTH:
            return _OAUTH[found[3]]
    said, hint = _unknown(name)
    raise UsageError(said, hint=hint)


def load(
    environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None, *, tolerant: bool = False
) -> Settings:
    """The settings in force. ``flags``: what the command line set, None where it did not.

    ``tolerant``: a file that cannot be used is listed in ``broken`` and left out, for commands that show it.

    Raises:
        UsageError: the file, or a value in it or in the environment, cannot be used.
    """
    environ = environment.environ if environ is None else environ
    settings = Settings({name: Setting(name, key.default, "default") for name, key in KEYS.items()})
    _take_file(settings)
    _take_environment(settings, environ)
    if settings.broken and not tolerant:
        said, _, hint = settings.broken[0].rpartition("; ")
        raise UsageError(said, hint=hint)
    for name, value in (flags or {}).items():
        if value is not None and name in KEYS:
            settings.values[name] = Setting(name, value, "flag")
    return settings


def set_value(name: str, text: str) -> Any:
    """Write one setting into the file, which keeps its comments and its order; returns the value as it is read back.

    Raises:
        UsageError: no such key, a value it cannot take, a secret, or a file this cannot be written into.
        StorageError: the file could not be written; it is as it was.
    """
    from orkas.infra.redact import looks_secret

    key = key_of(name)
    if looks_secret(text):
        raise UsageError(
            f"this value of {name!r} looks like a secret, and the configuration holds none",
            hint="put keys into the environment, such as OPENAI_API_KEY, or run `orkas auth login`",
        )
    try:
        value = key.read(text)
    except ValueError as error:
        raise UsageError(f"{name!r} {error}", hint=f"{name}: {key.about}") from None
    text, old = _read_file()
    new = _edited(text, name, value)
    if not _says(new, _with(old, name, value)):
        raise UsageError(
            f"{name!r} stands in {file_path()} in a form that cannot be changed here", hint="change it with an editor"
        )
    files.replace(file_path(), new.encode())
    return value


def unset_value(name: str) -> bool:
    """Take one setting out of the file; returns whether it stood there.

    Raises:
        UsageError: no such key, or a file this cannot be taken out of.
        StorageError: the file could not be written; it is as it was.
    """
    key_of(name)
    text, old = _read_file()
    wanted = _without(old, name)
    if wanted == old:
        return False
    new = _cut(text, name)
    if not _says(new, wanted):
        raise UsageError(
            f"{name!r} stands in {file_path()} in a form that cannot be changed here", hint="remove it with an editor"
        )
    files.replace(file_path(), new.encode())
    return True


# The file


def _read_file() -> tuple[str, dict[str, Any]]:
    """Text and content of the file, both empty when there is none.

    Raises:
        UsageError: it is there and cannot be read or is no TOML.
    """
    path = file_path()
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for without end
            raise UsageError(
                f"{path} cannot be read: it is no regular file", hint="make it a readable file or remove it"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        return "", {}
    except NotADirectoryError:
        raise UsageError(f"{path} cannot be read: {home()} is no folder", hint="set ORKAS_HOME to a folder") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="make it a readable file or remove it"
        ) from None
    try:
        text = data.decode("utf-8-sig")
        return text, _parsed(text)
    except ValueError as error:  # UnicodeDecodeError and TOMLDecodeError
        what = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise UsageError(f"{path} is not valid: {what}", hint="edit or remove the file") from None


def content() -> dict[str, Any]:
    """All that stands in the file; empty when there is none.

    Raises:
        UsageError: it is there and cannot be read or is no TOML.
    """
    return _read_file()[1]


def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _take_file(settings: Settings) -> None:
    try:
        _, content = _read_file()
    except UsageError as error:
        settings.broken.append(str(error))
        return
    for name, value in _flat(content):
        if _is_others(name):
            continue
        try:
            settings.values[name] = Setting(name, key_of(name).read(value), str(file_path()))
        except UsageError as error:
            settings.warnings.append(f"{file_path()}: {error}")
        except ValueError as error:
            settings.broken.append(f"{file_path()}: {name!r} {error}; `orkas config set {name} …` or `unset` mends it")


def _is_others(name: str) -> bool:
    """Stands in a table that the floor above reads: aliases and vendors of the
    user's own (``providers.own``), rules (``harness.policy.rules``)."""
    from orkas.infra.redact import looks_secret, secret_name

    head, _, rest = name.partition(".")
    if head in _WRITTEN:
        return bool(rest)
    field = rest.partition(".")[2]
    if head != "vendors" or not field or re.fullmatch(_VENDOR_KEY, name):
        return False
    return "." in field or not (looks_secret(name) or secret_name(field))


def _take_environment(settings: Settings, environ: Mapping[str, str]) -> None:
    names = {key.variable: name for name, key in KEYS.items() if key.variable}
    names |= {endpoint_variable(name): name for name in settings.values if name.endswith(".base_url")}
    for variable, name in names.items():
        if given := environ.get(variable):
            try:
                settings.values[name] = Setting(name, key_of(name).read(given), f"environment {variable}")
            except ValueError as error:
                settings.broken.append(f"the variable {variable} {error}; correct or unset it")


_WRITTEN = ("aliases", "policy")
"""Tables that the floor above reads."""
_TABLES = frozenset({"aliases", "policy", "vendors", *(key.partition(".")[0] for key in KEYS if "." in key)})


def _flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Leaves of the file by their dotted names, in its order."""
    leaves: list[tuple[str, Any]] = []
    for name, value in content.items():
        if value == {} and (prefix or name in _TABLES):
            continue  # a table whose settings were all taken out
        inner = isinstance(value, dict) and value and prefix + name not in KEYS
        leaves += _flat(value, f"{prefix}{name}.") if inner else [(prefix + name, value)]
    return leaves


def _unknown(name: str) -> tuple[str, str]:
    """What to say of a key that does not exist, and what to do."""
    from orkas.infra.redact import looks_secret, secret_name

    if secret_name(name):
        return (
            f"secrets are not kept in the configuration ({name!r})",
            "put keys into the environment, such as OPENAI_API_KEY, or run `orkas auth login`",
        )
    if looks_secret(name):
        return "secrets are not kept in the configuration", "put keys into the environment, such as OPENAI_API_KEY"
    import difflib

    head = name.partition(".")[0]
    table = difflib.get_close_matches(head, _WRITTEN, n=1, cutoff=0.75)
    if table and name not in KEYS:
        where = f"the table [{table[0]}] is written with an editor, in {file_path()}"
        return f"there is no setting {name!r}", where if head in _WRITTEN else f"did you mean [{table[0]}]? {where}"
    known = [*KEYS, VENDOR_FORM, *(f"vendors.NAME.oauth.{field}" for field in _OAUTH)]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    said = f"there is no setting {name!r}"
    return said, f"did you mean {near[0]!r}?" if near else f"there are {', '.join([*KEYS, VENDOR_FORM, OAUTH_FORM])}"


# Changing one value and nothing else


def _with(content: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """``content`` with one leaf set: what the edited file must say."""
    head, _, rest = name.partition(".")
    if not rest:
        return {**content, head: value}
    inner = content.get(head)
    return {**content, head: _with(inner if isinstance(inner, dict) else {}, rest, value)}


def _without(content: dict[str, Any], name: str) -> dict[str, Any]:
    """``content`` less one leaf; the table that held it stays."""
    head, _, rest = name.partition(".")
    if not rest:
        return {key: value for key, value in content.items() if key != head}
    inner = content.get(head)
    return {**content, head: _without(inner, rest)} if isinstance(inner, dict) else content


def _cut(text: str, name: str) -> str:
    """The file's text without the line of one setting. The caller checks that it says what was meant."""
    table, _, key = name.rpartition(".")
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    start, end = _section(lines, table) or (0, 0)
    ours = re.compile(rf"\s*{re.escape(key)}\s*=")
    return "".join(line for n, line in enumerate(lines) if not (start <= n < end and ours.match(line)))


def _says(text: str, content: dict[str, Any]) -> bool:
    """Whether the text is TOML of exactly this content: the proof that an edit changed one value and nothing else."""
    try:
        return _parsed(text) == content
    except ValueError:
        return False


def _edited(text: str, name: str, value: Any) -> str:
    """The file's text with one line changed or added. The caller checks that it says what was meant."""
    import json

    table, _, key = name.rpartition(".")
    literal = json.dumps(value, ensure_ascii=False)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    section = _section(lines, table)
    start, end = section or (len(lines), len(lines))
    for n in range(start, end):
        if found := re.match(rf"(\s*{re.escape(key)}\s*=\s*)", lines[n]):
            lines[n] = found[1] + literal + _after_value(lines[n][found.end() :])
            return "".join(lines)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    added = [f"{key} = {literal}{newline}"]
    if section is None:
        added = [*([newline] if lines else []), f"[{table}]{newline}", *added]
    alone = end if table or end == len(lines) else start  # comments only: they may belong to the table that follows
    last = next((n for n in range(end, start, -1) if re.match(r"\s*[^#\s]", lines[n - 1])), alone)
    lines[last:last] = added
    return "".join(lines)


def _section(lines: list[str], table: str) -> tuple[int, int] | None:
    """Lines that belong to a table, header excluded; None: it is not there."""
    headers = [n for n, line in enumerate(lines) if re.match(r"\s*\[", line)]
    if not table:
        return 0, headers[0] if headers else len(lines)
    wanted = r"\s*\[\s*" + r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in table.split(".")) + r"\s*\]"
    for n in headers:
        if re.match(wanted, lines[n]):
            return n + 1, next((m for m in headers if m > n), len(lines))
    return None


def _after_value(rest: str) -> str:
    """What follows a value on its line: blanks, a comment, the line's end."""
    if found := re.match(r"\[[^\]\n]*\]|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s#]+", rest):
        return rest[found.end() :]
    return rest
