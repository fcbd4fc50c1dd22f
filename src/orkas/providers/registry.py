"""Model string → provider and model id."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orkas.infra.errors import UsageError
from orkas.infra.net import Http
from orkas.providers.base import Dialect, LLMProvider
from orkas.providers.http import HttpProvider
from orkas.providers.vendors import Vendor, table

if TYPE_CHECKING:
    from orkas.providers.aws import Signer

__all__ = ["resolve", "split_model", "vendor_names"]


def vendor_names() -> list[str]:
    """The known vendors, in the order of the table, then what needs none: the local model and the demo."""
    return [*table(), *_OURS]


def split_model(model: str) -> tuple[str, str]:
    """Vendor and model id of a model string: ``vendor/model``, or a bare name that says where it belongs.

    Raises:
        UsageError: no vendor can be told.
    """
    name = model.strip()
    vendor, slash, rest = name.partition("/")
    if slash:
        if vendor.lower() not in _OURS and vendor.lower() not in table():
            raise UsageError(f"unknown vendor {vendor!r}", hint=_near(vendor))
        if not rest:
            raise UsageError(f"{model!r} names no model", hint=f"write {vendor}/MODEL")
        return vendor.lower(), rest
    if not name:
        raise UsageError("no model given", hint="name one as vendor/model, or set ORKAS_MODEL")
    if found := max(_claims(name, table()), default=None):
        return found[1], name
    if ":" in name:
        return "ollama", name
    raise UsageError(f"{model!r} does not say which vendor it belongs to", hint=f"write vendor/{name}; {_near(name)}")


def _claims(name: str, rows: Mapping[str, Vendor]) -> list[tuple[int, str]]:
    """Vendors whose prefix the name begins with, with the length of the prefix."""
    low = name.lower()
    return [(len(p), vendor) for vendor, row in rows.items() for p in row.prefixes if low.startswith(p)]


def _near(vendor: str) -> str:
    import difflib

    names = vendor_names()
    near = difflib.get_close_matches(vendor.lower(), names, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return "known vendors: " + ", ".join(names)


def resolve(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    environ: Mapping[str, str] = os.environ,
    http: Http | None = None,
) -> tuple[LLMProvider, str]:
    """The provider for a model string, and the model's id there. Nothing is connected to.

    A key that is missing is told when the first request is made. ``http``: a transport with limits or certificates of
    its own.

    Raises:
        UsageError: unknown vendor, no model, no address or an address that is none.
    """
    vendor, model_id = split_model(model)
    if vendor in _OURS:
        return _OURS[vendor](), model_id
    row = table()[vendor]
    key_names = row.key_variables(vendor)
    key = api_key or next((v for n in key_names if (v := environ.get(n, "").strip())), None)
    url = _base_url(vendor, row, base_url, environ, key)
    signer = None
    if row.dialect == "bedrock" and key is None:
        from orkas.providers.aws import signer as signer_of

        signer = signer_of(environ)
        key = signer.secret if signer is not None else None
    dialect = _dialect(vendor, row, signer)
    named = row.keys[0] if vendor in ("openai-chat", "bedrock") else key_names[0]
    if row.dialect == "bedrock":
        named += " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return HttpProvider(vendor, row, dialect, base_url=url, api_key=key, key_name=named, http=http), model_id


def _demo() -> LLMProvider:
    from orkas.providers.demo import DemoProvider

    return DemoProvider()


def _local() -> LLMProvider:
    from orkas.providers.local import LocalProvider

    def connect(base_url: str, api_key: str) -> LLMProvider:
        row = table()["llamacpp"]
        return HttpProvider("local", row, _dialect("local", row), base_url=base_url, api_key=api_key, key_name="")

    return LocalProvider(connect)


_OURS: dict[str, Callable[[], LLMProvider]] = {"local": _local, "demo": _demo}
"""Vendors that are not rows: what runs on this machine without an address of its own."""


def _base_url(vendor: str, row: Vendor, given: str | None, environ: Mapping[str, str], key: str | None) -> str:
    names = row.url_variables(vendor)
    url = given or next((v for n in names if (v := environ.get(n, "").strip())), "")
    if not url and not row.base_url:
        raise UsageError(f"{vendor} needs a base URL", hint=f"give base_url, or set {names[0]}")
    own = row.base_url
    if "{region}" in own:
        from orkas.providers.aws import address as place

        own = own if url else place(own, environ)
    elif "{" in own and "/" not in (url.partition("://")[2] or url).rstrip("/"):
        from orkas.providers.vertex import address

        own = address(own, environ, key)
    return _complete(url, row, own) if url else own


def _complete(url: str, row: Vendor, base_url: str) -> str:
    """An address as people write it: scheme and path added where they are missing.

    A URL with a path is taken as it is; a bare host gets the path of ``base_url``, the row's own address.
    """
    bare = "://" not in url
    if bare:
        host = url.partition("/")[0].rpartition(":")[0] or url.partition("/")[0]
        near = row.local or host in ("localhost", "127.0.0.1", "0.0.0.0", "[::1]")  # noqa: S104 - compared, not bound
        url = ("http://" if near else "https://") + url
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is no address: {error}", hint="write it as http://host:port/path") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is no web address", hint="write it as http://host:port/path")
    own = urlsplit(base_url)
    netloc = parts.netloc
    if parts.hostname == "0.0.0.0":  # noqa: S104 - where a server listens, not where it is reached
        netloc = netloc.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    if bare and port is None and own.port and row.local:
        netloc += f":{own.port}"
    path = parts.path.rstrip("/")
    if row.compatible and path.endswith(row.compatible):
        path = path.removesuffix(row.compatible) + own.path
    path = path or own.path.rstrip("/") or row.path or "/v1"
    return parts._replace(netloc=netloc, path=path).geturl()


def _dialect(vendor: str, row: Vendor, signer: Signer | None = None) -> Dialect:
    if row.dialect == "anthropic":
        from orkas.providers.anthropic import Anthropic

        return Anthropic(vendor, row.quirks, row.key_header)
    if row.dialect == "openai_responses":
        from orkas.providers.openai_responses import OpenAIResponses

        return OpenAIResponses(vendor, row.quirks, row.key_header)
    if row.dialect == "google":
        from orkas.providers.google import Google

        return Google(vendor, row.quirks, row.key_header)
    if row.dialect == "ollama":
        from orkas.providers.ollama import Ollama

        return Ollama(vendor, row.quirks, row.key_header)
    if row.dialect == "bedrock":
        from orkas.providers.bedrock import Bedrock

        return Bedrock(vendor, row.quirks, row.key_header, signer)
    if row.dialect == "cohere":
        from orkas.providers.cohere import Cohere

        return Cohere(vendor, row.quirks, row.key_header)
    from orkas.providers.openai_chat import OpenAIChat

    return OpenAIChat(vendor, row.quirks, row.key_header)
