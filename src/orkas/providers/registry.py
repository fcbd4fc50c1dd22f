"""Model string → provider and model id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orkas.infra import environment
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.net import Http
from orkas.infra.secrets import Secret
from orkas.providers import catalog
from orkas.providers.accounts.auth import Credentials, credentials_for, environment_keys
from orkas.providers.base import Dialect, LLMProvider
from orkas.providers.http import HttpProvider
from orkas.providers.vendors import Vendor, shipped, table
from orkas.providers.vendors.own import own

if TYPE_CHECKING:
    from orkas.providers.clouds.aws import Signer
    from orkas.providers.drawing import Shape

__all__ = ["artist", "resolve", "short_names", "split_model", "vendor_names"]


def vendor_names() -> list[str]:
    """The known vendors, in the order of the table, then what needs none: the local model and the demo."""
    return [*table(), *_OURS]


def short_names() -> dict[str, str]:
    """Aliases and the model string of each: the user's own, then those that everybody has."""
    return {**catalog.aliases(), **own().aliases}


def split_model(model: str) -> tuple[str, str]:
    """Vendor and model id of a model string: ``vendor/model``, an alias, or a bare name that says where it belongs.

    Raises:
        UsageError: no vendor can be told.
    """
    name = model.strip()
    if not name.isprintable():
        raise UsageError(f"{model!r} holds characters that no name has", hint="type the name of the model anew")
    if "/" not in name and (whole := own().aliases.get(name.lower()) or (name and catalog.aliases().get(name.lower()))):
        name = whole
    vendor, slash, rest = name.partition("/")
    if slash:
        return _known_vendor(vendor.strip(), name), rest.strip()
    if not name:
        raise UsageError("no model given", hint="name one as vendor/model, or set ORKAS_MODEL")
    if found := _claims(name, table()):
        if len(found) > 1:
            choices = " or ".join(f"{vendor}/{name}" for vendor in found)
            raise UsageError(f"{name!r} may belong to several vendors", hint=f"write {choices}")
        return found[0], name
    if name.lower() in vendor_names():
        raise UsageError(f"{model!r} names a vendor and no model", hint=_models_of(name.lower()))
    if ":" in name:
        before, _, after = name.partition(":")
        if before.lower() in _claims(after, table()):  # as other programs write it; no model of Ollama's is so called
            raise UsageError(f"{name!r} has a colon after the vendor", hint=f"write {before.lower()}/{after}")
        return "ollama", name
    raise UsageError(f"{model!r} does not say which vendor it belongs to", hint=f"write vendor/{name}; {_near(name)}")


def _known_vendor(vendor: str, name: str) -> str:
    low, rest = vendor.lower(), name.partition("/")[2].strip()
    if low not in _OURS and low not in shipped() and low not in table():
        if mistake := own().mistakes.get(low):
            raise UsageError(mistake, hint="`orkas doctor` shows all that is wrong with the file")
        raise UsageError(f"unknown vendor {vendor!r}", hint=_near(vendor, rest))
    if not rest:
        raise UsageError(f"{name!r} names no model", hint=_models_of(low))
    if low == "demo" and rest != "offline":
        raise UsageError(f"there is no model {name!r}", hint="the demo is demo/offline")
    return low


def _models_of(vendor: str) -> str:
    """What to write for a model of this vendor."""
    from orkas.providers.discovery import DEFAULT_MODELS, DEMO
    from orkas.providers.local import installed

    if vendor == "local":
        names = [model.model for model in installed()]
        return f"write {' or '.join(names)}" if names else "none is installed: orkas models install local"
    known = (model for model in (*DEFAULT_MODELS.values(), DEMO) if model.partition("/")[0] == vendor)
    example = next(known, None)
    return f"write {vendor}/MODEL, such as {example}" if example else f"write {vendor}/MODEL"


def _claims(name: str, rows: Mapping[str, Vendor]) -> list[str]:
    """Vendors whose prefix the name begins with: those with the longest, the user's own before others."""
    low = name.lower()
    found = [((len(p), row.own), vendor) for vendor, row in rows.items() for p in row.prefixes if low.startswith(p)]
    best = max((rank for rank, _ in found), default=None)
    return list(dict.fromkeys(vendor for rank, vendor in found if rank == best))


def _near(name: str, model: str = "") -> str:
    """What may have been meant: vendors, aliases and models that look like it; else the vendors there are."""
    import difflib

    vendors = difflib.get_close_matches(name.lower(), vendor_names(), n=3)
    if model:
        found = [f"{vendor}/{model}" for vendor in vendors] or catalog.near(model)
    else:
        found = [*difflib.get_close_matches(name.lower(), short_names(), n=2, cutoff=0.7), *catalog.near(name)]
        found += [f"{vendor}/MODEL" for vendor in vendors]
    if found:
        return f"did you mean {' or '.join(found[:4])}?"
    return "known vendors: " + ", ".join(vendor_names())


def resolve(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | Secret | None = None,
    environ: Mapping[str, str] = environment.environ,
    http: Http | None = None,
    credentials: Credentials | None = None,
) -> tuple[LLMProvider, str]:
    """The provider for a model string, and the model's id there. Nothing is connected to.

    ``api_key`` goes before the environment, and that before a stored login. A key that is missing is told when the
    first request is made. ``http``: a transport with limits or certificates of its own. ``credentials``: in place of
    all of these.

    Raises:
        UsageError: unknown vendor, no model, no address or an address that is none.
    """
    vendor, model_id = split_model(model)
    if vendor in _OURS:
        return _OURS[vendor](), model_id
    row = table()[vendor]
    signer = _signer(vendor, row, environ) if credentials is None and not api_key else None
    credentials = credentials or credentials_for(vendor, row, api_key=api_key, environ=environ)
    url = _base_url(vendor, row, base_url, environ, credentials)
    dialect = _dialect(vendor, row, signer)
    return HttpProvider(
        vendor, row, dialect, base_url=url, credentials=credentials, key_name=row.told_keys(vendor), http=http
    ), model_id


def artist(
    model: str, *, shape: Shape = "", environ: Mapping[str, str] = environment.environ
) -> tuple[HttpProvider, str]:
    """As ``resolve``, for a model that draws: its replies hold pictures of this shape.

    Raises:
        UsageError: also where the vendor speaks no wire of pictures that is known here.
    """
    from orkas.providers.drawing import GoogleImages, OpenAIImages

    vendor, model_id = split_model(model)
    row = table().get(vendor)
    dialect: Dialect
    if row is not None and row.dialect == "google":
        dialect = GoogleImages(shape, row.key_header, row.quirks.model_path)
    elif row is not None and row.dialect in ("openai_responses", "openai_chat"):
        dialect = OpenAIImages(shape, row.key_header)
    else:
        raise UsageError(f"{vendor} draws no pictures here", hint="take a model of openai, google or one that is alike")
    credentials = credentials_for(vendor, row, environ=environ)
    url = _base_url(vendor, row, None, environ, credentials)
    key_name = row.told_keys(vendor)
    return HttpProvider(vendor, row, dialect, base_url=url, credentials=credentials, key_name=key_name), model_id


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


def _signer(vendor: str, row: Vendor, environ: Mapping[str, str]) -> Signer | None:
    """Who signs the requests, where the environment has an access key of AWS and no key of Bedrock's own."""
    if row.dialect != "bedrock":
        return None
    from orkas.providers.clouds.aws import SECRET, signer

    return signer(environ) if environment_keys(vendor, row, environ)[0] == SECRET else None


def _base_url(
    vendor: str, row: Vendor, given: str | None, environ: Mapping[str, str], credentials: Credentials
) -> str:
    names = row.url_variables(vendor)
    url = given or next((v for n in names if (v := environ.get(n, "").strip())), "")
    if not url and not row.base_url:
        raise UsageError(f"{vendor} needs a base URL", hint=f"give base_url, or set {names[0]}")
    own = row.base_url
    if "{region}" in own:
        from orkas.providers.clouds.aws import address as place

        own = own if url else place(own, environ)
    elif "{" in own and "/" not in (url.partition("://")[2] or url).rstrip("/"):
        from orkas.providers.clouds.vertex import address

        own = address(own, environ, _key(credentials))
    return (_complete(url, row, own) if url else own).partition("#")[0]  # a fragment is for browsers


def _key(credentials: Credentials) -> str | None:
    """The key that the first request will show, where there is one."""
    try:
        grant = credentials.peek()
    except ProviderError:  # told when the first request is made
        return None
    return grant.secret.reveal() if grant is not None and not grant.bearer else None


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
