"""Which model to talk to when nobody has said: what is there, looked for in a fixed order, each find told.

Only the loopback addresses of usual local servers are contacted, and none is waited for longer than 0.3 s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orkas.infra import environment
from orkas.providers.local import installed

__all__ = ["DEFAULT_MODELS", "DEMO", "LOCAL_SERVERS", "LocalServerRow", "Step", "choose", "discover"]

DEMO = "demo/offline"
PROBE_S = 0.3

DEFAULT_MODELS: dict[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai/gpt-6.1-sol",
    "GEMINI_API_KEY": "google/gemini-3.8-flash",
    "GOOGLE_API_KEY": "google/gemini-3.8-flash",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-5",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-v4-flash",
    "MISTRAL_API_KEY": "mistral/mistral-large-latest",
    "GROQ_API_KEY": "groq/llama-3.3-70b-versatile",
    "XAI_API_KEY": "xai/grok-4.7",
}
"""The model a key stands for when none is named: the only place where such a default is written. The first key wins."""


@dataclass(frozen=True, slots=True)
class Step:
    """One place that was looked at. ``text``: one plain sentence for ``doctor`` and the first start."""

    name: str
    found: bool
    model: str | None
    """The model string to use, where found."""
    text: str


@dataclass(frozen=True, slots=True)
class LocalServerRow:
    """A local server: where it usually listens and how it is asked for its models."""

    vendor: str
    title: str
    address: str
    variables: tuple[str, ...] = ()
    """Environment variables that name another address; only loopback ones are looked at."""


LOCAL_SERVERS: tuple[LocalServerRow, ...] = (
    LocalServerRow("ollama", "Ollama", "127.0.0.1:11434", ("OLLAMA_BASE_URL", "OLLAMA_HOST")),
    LocalServerRow("lmstudio", "LM Studio", "127.0.0.1:1234", ("LMSTUDIO_BASE_URL",)),
    LocalServerRow("llamacpp", "llama.cpp", "127.0.0.1:8080", ("LLAMACPP_BASE_URL",)),
    LocalServerRow("vllm", "vLLM", "127.0.0.1:8000", ("VLLM_BASE_URL",)),
)


def discover(
    environ: Mapping[str, str] = environment.environ,
    *,
    explicit: str | None = None,
    probe: bool = True,
    home: Path | None = None,
    servers: Sequence[LocalServerRow] = LOCAL_SERVERS,
    keys: Mapping[str, str] = DEFAULT_MODELS,
) -> list[Step]:
    """Every step in order: named model, keys, logins, local servers, installed model, offline demo. The last is always
    found.

    ``explicit``: a model from an option or a setting; it goes before ORKAS_MODEL. ``probe``: False contacts nothing.
    """
    return [
        _named(explicit, environ),
        *_keys(environ, keys),
        *_logins(keys, home),
        *(_probe_all(servers, environ) if probe else []),
        _installed(home),
        Step("demo", True, DEMO, "The offline demo is always there; it is no language model."),
    ]


def choose(environ: Mapping[str, str] = environment.environ, **options: Any) -> Step:
    """The first step that found something; takes what ``discover`` takes. Local servers are asked only where nothing
    before them was found."""
    quick = discover(environ, **{**options, "probe": False})
    first = next(step for step in quick if step.found)
    if first.name in ("named", "key"):
        return first
    return next(step for step in discover(environ, **options) if step.found)


def _named(explicit: str | None, environ: Mapping[str, str]) -> Step:
    model, where = (explicit, "by you") if explicit else (environ.get("ORKAS_MODEL"), "by ORKAS_MODEL")
    if model:
        return Step("named", True, model, f"The model {model} was named {where}.")
    return Step("named", False, None, "No model was named; --model or ORKAS_MODEL does that.")


def _keys(environ: Mapping[str, str], keys: Mapping[str, str]) -> list[Step]:
    there = [name for name in keys if environ.get(name, "").strip() or environ.get(f"{name}S", "").strip()]
    if there:
        return [Step("key", True, keys[name], f"{name} is set, so {keys[name]} can be used.") for name in there]
    said = "No API key is in the environment; ANTHROPIC_API_KEY or another one does it, or `orkas auth login`."
    return [Step("key", False, None, said)]


def _logins(keys: Mapping[str, str], home: Path | None) -> list[Step]:
    """Stored logins; a key in the environment goes before them."""
    from orkas.infra.errors import StorageError
    from orkas.infra.secrets import Store

    try:
        stored = Store(home).places()
    except StorageError as error:
        return [Step("key", False, None, f"Stored logins cannot be read: {error}.")]
    there = {vendor: model for model in dict.fromkeys(keys.values()) if (vendor := model.partition("/")[0]) in stored}
    return [Step("key", True, m, f"You are logged in at {vendor}, so {m} can be used.") for vendor, m in there.items()]


def _installed(home: Path | None) -> Step:
    models = installed(home)
    if models:
        return Step("installed", True, models[0].model, f"The model {models[0].name} is installed on this machine.")
    return Step("installed", False, None, "No local model is installed; orkas models install local does that.")


def _probe_all(servers: Sequence[LocalServerRow], environ: Mapping[str, str]) -> list[Step]:
    """All at once, each in a thread that nobody waits for longer than the limit, whatever the other side does."""
    futures: list[Future[Step]] = []
    for row in servers:
        future: Future[Step] = Future()
        threading.Thread(target=_fill, args=(future, row, environ), daemon=True).start()
        futures.append(future)
    done, _late = wait(futures, timeout=PROBE_S + 0.05)
    return [f.result() if f in done else _absent(row) for f, row in zip(futures, servers, strict=True)]


def _fill(future: Future[Step], row: LocalServerRow, environ: Mapping[str, str]) -> None:
    try:
        future.set_result(_probe(row, environ))
    except Exception:  # noqa: BLE001 - whatever answers there, it is not a server we know
        future.set_result(_absent(row))


def _probe(row: LocalServerRow, environ: Mapping[str, str]) -> Step:
    name, address = _address(row, environ)
    host = urlsplit(address).hostname
    if not _is_loopback(host):
        return Step(row.vendor, False, None, f"{name} names {host}, which is not this machine; name a model to use it.")
    models = _models(address, row)
    if models is None:
        return _absent(row)
    if not models:
        return Step(row.vendor, False, None, f"{row.title} is running at {address} but has no model loaded or pulled.")
    return Step(row.vendor, True, f"{row.vendor}/{models[0]}", f"{row.title} is running at {address} with {models[0]}.")


def _absent(row: LocalServerRow) -> Step:
    return Step(row.vendor, False, None, f"{row.title} is not running at its usual place ({row.address}).")


def _address(row: LocalServerRow, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that names the address (or the server's title) and the address as ``http://host:port``."""
    name = next((v for v in row.variables if environ.get(v, "").strip()), "")
    given = environ.get(name, "").strip() or row.address
    parts = urlsplit(given if "//" in given else f"http://{given}")
    host = parts.hostname or "127.0.0.1"
    if host in ("0.0.0.0", "::"):  # noqa: S104 - where a server listens; it is reached at loopback
        host = "127.0.0.1"
    port = parts.port or int(row.address.rpartition(":")[2])
    return name or row.title, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _is_loopback(host: str | None) -> bool:
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _models(address: str, row: LocalServerRow) -> list[str] | None:
    """The names of the models it has, best guess first; None: nobody there."""
    asked: list[tuple[str, Callable[[Any], list[str]]]] = [
        ("/v1/models", lambda body: [m["id"] for m in body["data"] if isinstance(m.get("id"), str)])
    ]
    if row.vendor == "ollama":
        asked.insert(0, ("/api/tags", lambda body: [m["name"] for m in body["models"] if isinstance(m["name"], str)]))
    for path, names in asked:
        body = _get(address, path)
        if body is not None:
            return [n for n in names(body) if "embed" not in n.lower()]
    return None


def _get(address: str, path: str) -> dict[str, Any] | None:
    """A JSON object of at most 1 MiB from loopback, without proxy and redirects; None: no such answer."""
    import http.client
    import json

    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=PROBE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = json.loads(answer.read(1 << 20)) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if isinstance(body, dict) else None
