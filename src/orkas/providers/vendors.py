"""The vendor table: one row a vendor, in ``vendors.toml``. A new vendor is a row, never a branch in the code."""

from __future__ import annotations

from functools import cache
from typing import Literal

import msgspec

__all__ = ["Quirks", "Vendor", "table"]

ThinkingStyle = Literal["", "reasoning_effort", "reasoning", "enable_thinking", "thinking_type"]


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a vendor's dialect differs. Every default is the plain dialect."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    """Asks for usage at the end of a stream; some servers refuse the field."""
    developer: bool = False
    """Reasoning models want the system prompt from a ``developer``."""
    thinking: ThinkingStyle = ""
    """How reasoning is switched; empty: it cannot be."""
    thinking_back: Literal["", "reasoning_content", "reasoning", "reasoning_details", "parts"] = ""
    """The field in which the model's own reasoning goes back to it; empty: it does not."""
    thinking_required: bool = False
    """Every assistant message with calls needs that field, even empty."""
    ids: Literal["chat", "anthropic", "nine"] = "chat"
    """What a call id may look like: 40 printable characters, 64 of [A-Za-z0-9_-], exactly 9 letters and digits."""
    assistant_after_tool: bool = False
    """A user message may not follow a tool result directly."""
    content_null: bool = True
    """An assistant message with calls and no text has content null; false: an empty string."""
    cache_key: str = ""
    """Field that takes the session as the key of the prompt cache."""
    cache_header: str = ""
    """Header that does."""
    cache_control: bool = True
    """Understands ``cache_control`` (Anthropic dialect)."""
    output: Literal["", "json_object", "json_schema"] = ""
    """What a model can be held to in its answer: nothing, any JSON object, a schema."""
    output_alone: bool = False
    """Only where no tool may be called: else the form of the answer would forbid the calls."""
    model_path: str = ""
    """The model is named in the path, at ``{model}``, and not in the body; empty: what the dialect does."""


class Vendor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. ``base_url`` empty: the user must give one; with ``{host}`` and ``{place}``: see ``vertex``."""

    dialect: Literal["openai_chat", "anthropic", "google"]
    base_url: str = ""
    keys: tuple[str, ...] = ()
    """Environment variables that hold the key besides ``<ROW>_API_KEY``, in order."""
    urls: tuple[str, ...] = ()
    """Environment variables that hold the endpoint besides ``<ROW>_BASE_URL``."""
    local: bool = False
    """Runs on the user's machine or network: needs no key."""
    slow: bool = False
    """Runs on hardware that may fall silent for minutes, and writes a call before it sends any of it."""
    key_header: str = ""
    """Header that carries the key; empty: the dialect's own."""
    models: str = "/models"
    """Path of the cheapest request that needs the key."""
    prefixes: tuple[str, ...] = ()
    """Bare model names that begin like this belong here."""
    quirks: Quirks = Quirks()

    def key_variables(self, name: str) -> list[str]:
        """Environment variables that may hold the key of row ``name``, in the order they are looked at."""
        return list(dict.fromkeys([variable(name, "API_KEY"), *self.keys]))

    def url_variables(self, name: str) -> list[str]:
        """The same for its endpoint."""
        return list(dict.fromkeys([variable(name, "BASE_URL"), *self.urls]))


def variable(row: str, what: str) -> str:
    """``<ROW>_<WHAT>``: upper case, ``-`` as ``_``."""
    return f"{row.upper().replace('-', '_')}_{what}"


@cache
def table() -> dict[str, Vendor]:
    """All rows by name. Read on first use."""
    import tomllib
    from pathlib import Path

    rows = tomllib.loads(Path(__file__).with_name("vendors.toml").read_text("utf-8"))
    return msgspec.convert(rows, dict[str, Vendor])
