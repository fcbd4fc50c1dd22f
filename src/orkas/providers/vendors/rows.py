"""What is known of a vendor: one row of ``vendors.toml``. A new vendor is a row, never a branch in the code.

``vendors.json`` is the same table as a program reads it: ``scripts/vendors.py`` writes it after each change.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

import msgspec

__all__ = ["OAuthClient", "Quirks", "Told", "ToldRates", "Vendor", "shipped", "variable"]

ThinkingStyle = Literal["", "reasoning_effort", "reasoning", "enable_thinking", "thinking_type", "chat_template_kwargs"]


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a vendor's dialect differs. Every default is the plain dialect."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    """Asks for usage at the end of a stream; some servers refuse the field."""
    developer: bool = False
    """Reasoning models want the system prompt from a ``developer`` (Responses: not as ``instructions``)."""
    thinking: ThinkingStyle = ""
    """How reasoning is switched; empty: it cannot be."""
    efforts: dict[str, tuple[str, str, str, str]] = {}
    """What ``reasoning_effort`` says for off, low, medium and high, by how a model's name begins; empty: nothing is
    said. Where there is such a table, models that are not in it are not told how to think."""
    thinking_back: Literal["", "reasoning_content", "reasoning", "reasoning_details", "parts"] = ""
    """The field in which the model's own reasoning goes back to it; empty: it does not."""
    thinking_required: bool = False
    """Every assistant message with calls needs that field, even empty."""
    ids: Literal["chat", "anthropic", "nine", "responses"] = "chat"
    """What a call id may look like: 40 printable characters, 64 of [A-Za-z0-9_-], exactly 9 letters and digits, 64
    printable characters."""
    assistant_after_tool: bool = False
    """A user message may not follow a tool result directly."""
    content_null: bool = True
    """An assistant message with calls and no text has content null; false: an empty string."""
    cache_key: str = ""
    """Field that takes the session as the key of the prompt cache."""
    cache_header: str = ""
    """Header that does."""
    cache_models: tuple[str, ...] = ()
    """Models, by how their names begin, that cache only what is marked (Chat Completions): requests for them ask for
    marks that the vendor sets itself."""
    cache_control: bool = True
    """Understands ``cache_control`` (Anthropic dialect)."""
    output: Literal["", "json_object", "json_schema"] = ""
    """What a model can be held to in its answer: nothing, any JSON object, a schema."""
    output_alone: bool = False
    """Only where no tool may be called: else the form of the answer would forbid the calls."""
    model_path: str = ""
    """The model is named in the path, at ``{model}``, and not in the body; empty: what the dialect does."""


class OAuthClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one logs in at a vendor without a key. Holds no secret."""

    authorize_url: str = ""
    """Where a browser is sent (authorization code with PKCE); empty: that way is not offered."""
    token_url: str = ""
    device_url: str = ""
    """Where a login with a code begins (RFC 8628); empty: that way is not offered."""
    client_id: str = ""
    scopes: str = ""
    """Separated by blanks."""
    redirect_url: str = ""
    """The redirect address as it was registered, on this machine; without a port: any free one. Empty:
    ``http://127.0.0.1/callback``."""
    gives: Literal["token", "key"] = "token"
    """``key``: a lasting API key instead of a token, in OpenRouter's way."""


_Rate = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
"""Infinity is a number in TOML, and no price."""


class ToldRates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price as the user writes it: USD a million tokens."""

    input: _Rate
    output: _Rate
    cache_read: _Rate | None = None
    cache_write: _Rate | None = None


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says of one model. Sizes in tokens."""

    context_window: Annotated[int, msgspec.Meta(ge=1_000)] | None = None
    max_output: Annotated[int, msgspec.Meta(ge=1)] | None = None
    images: bool | None = None
    price: ToldRates | None = None


class Vendor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. ``base_url`` empty: the user must give one; with ``{host}`` and ``{place}``: see ``vertex``; with
    ``{region}``: see ``aws``."""

    dialect: Literal["openai_responses", "openai_chat", "anthropic", "google", "ollama", "bedrock", "cohere"]
    base_url: str = ""
    path: str = ""
    """Path of the API below a bare host, where there is no ``base_url`` that tells; empty: ``/v1``."""
    keys: tuple[str, ...] = ()
    """Environment variables that hold the key besides ``<ROW>_API_KEY``, in order."""
    urls: tuple[str, ...] = ()
    """Environment variables that hold the endpoint besides ``<ROW>_BASE_URL``."""
    compatible: str = ""
    """Path below which the same server speaks OpenAI's dialect: an address that names it means that server."""
    local: bool = False
    """Runs on the user's machine or network: needs no key."""
    free: bool = False
    """Its tokens cost nothing."""
    slow: bool = False
    """Runs on hardware that may fall silent for minutes, and writes a call before it sends any of it."""
    account: str = ""
    """The row whose stored login this one shares; empty: its own."""
    oauth: OAuthClient | None = None
    """A login that the vendor offers to everybody's programs. Clients of a user's own come from the configuration."""
    key_header: str = ""
    """Header that carries the key; empty: the dialect's own."""
    models: str = "/models"
    """Path of the cheapest request that needs the key."""
    prefixes: tuple[str, ...] = ()
    """Bare model names that begin like this belong here."""
    quirks: Quirks = Quirks()
    catalog: dict[str, Told] = {}
    """What the user says of its models, by their names."""
    own: bool = False
    """The user's own: nothing is known of its models but what the user says."""

    def key_variables(self, name: str) -> list[str]:
        """Environment variables that may hold the key of row ``name``, in the order they are looked at."""
        return list(dict.fromkeys([variable(name, "API_KEY"), *self.keys]))

    def told_keys(self, name: str) -> str:
        """All ways to give row ``name`` a key by the environment, in words; those that its vendor names come first."""
        ways = list(dict.fromkeys([*self.keys, variable(name, "API_KEY")]))
        if self.dialect == "bedrock":
            ways.append("AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY")
        return " or ".join(filter(None, [", ".join(ways[:-1]), ways[-1]]))

    def pool_variables(self, name: str) -> list[str]:
        """Environment variables that may hold several keys of row ``name``."""
        return [key + "S" for key in self.key_variables(name) if key.endswith("_API_KEY")]

    def url_variables(self, name: str) -> list[str]:
        """The same for its endpoint."""
        return list(dict.fromkeys([variable(name, "BASE_URL"), *self.urls]))


def variable(row: str, what: str) -> str:
    """``<ROW>_<WHAT>``: upper case, ``-`` as ``_``."""
    return f"{row.upper().replace('-', '_')}_{what}"


@cache
def shipped() -> dict[str, Vendor]:
    """The rows that everybody has, by name. Read on first use."""
    from pathlib import Path

    return msgspec.json.decode(Path(__file__).with_name("vendors.json").read_bytes(), type=dict[str, Vendor])
