"""Models installed on this machine: which there are, and the provider ``local/<name>`` that runs one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.home import home as default_home
from orkas.infra.messages import AssistantMessage, user_message
from orkas.providers.base import FREE, AuthStatus, Completion, CompletionParams, LLMProvider, ModelInfo, Request
from orkas.providers.local.server import LocalServer, ServerConfig, shared

__all__ = [
    "CONTEXT", "MAX_OUTPUT", "InstalledModel", "LocalProvider", "Manifest", "find", "installed", "models_folder",
]  # fmt: skip

CONTEXT = 8192
"""Tokens of context the server is given: 2.0 GB of memory with the model we install."""
MAX_OUTPUT = 1024
_TEMPLATES = {"qwen2.5-coder": "qwen25coder_tools.jinja"}
"""Chat templates of ours, by the name a manifest gives them."""


class Manifest(msgspec.Struct, omit_defaults=True):
    """What stands beside an installed model file. It is written last: without it nothing is installed."""

    name: str
    file: str
    bytes: int
    sha256: str
    source: str
    """Where it came from, in words."""
    license: str = ""
    template: str = ""
    """Which chat template of ours to use; empty: the one inside the file."""
    installed: str = ""


@dataclass(frozen=True, slots=True)
class InstalledModel:
    manifest: Manifest
    folder: Path

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def model(self) -> str:
        """The model string."""
        return f"local/{self.manifest.name}"

    @property
    def gguf(self) -> Path:
        return self.folder / self.manifest.file

    @property
    def whole(self) -> bool:
        """The file is there and has the size it had. ``local_model.verify`` reads all of it."""
        try:
            return self.gguf.stat().st_size == self.manifest.bytes
        except OSError:
            return False

    def config(self) -> ServerConfig:
        """How to serve it."""
        own = _TEMPLATES.get(self.manifest.template)
        template = Path(__file__).with_name(own) if own else None
        return ServerConfig(self.name, self.gguf, template, CONTEXT, MAX_OUTPUT)


def models_folder(home: Path | None = None) -> Path:
    """Where installed models lie, one folder each."""
    return (home or default_home()) / "models"


def installed(home: Path | None = None) -> list[InstalledModel]:
    """The installed models whose file is there, newest first. What cannot be read is not installed."""
    found = []
    for path in sorted(models_folder(home).glob("*/manifest.json")):
        try:
            model = InstalledModel(msgspec.json.decode(path.read_bytes(), type=Manifest), path.parent)
        except (OSError, msgspec.DecodeError):
            continue
        if model.whole:
            found.append(model)
    return sorted(found, key=lambda m: m.manifest.installed, reverse=True)


def find(name: str, home: Path | None = None) -> InstalledModel:
    """The installed model ``name``; an empty name is the newest one.

    Raises:
        ProviderError: class ``not_found``.
    """
    models = installed(home)
    for model in models:
        if name in ("", model.name):
            return model
    there = ", ".join(m.name for m in models)
    raise ProviderError(
        f"no local model {name!r} is installed" if name else "no local model is installed",
        class_="not_found",
        hint=f"installed: {there}" if there else "run: orkas models install local",
    )


class LocalProvider:
    """``local/<name>``: one model of this machine, driven through an ordinary provider for its server.

    The server starts with the first request and then stays for the life of the process, also after ``aclose``.
    """

    id = "local"
    api = "openai_chat"

    def __init__(
        self, connect: Callable[[str, str], LLMProvider], *, home: Path | None = None, server: LocalServer | None = None
    ) -> None:
        """``connect``: (base URL, API key) to a provider that speaks Chat Completions there. ``server``: use this
        one, whatever the model's name."""
        self._connect = connect
        self._home = home
        self._server = server
        self._inner: LLMProvider | None = None
        self._address: tuple[str, str] | None = None

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(context_window=CONTEXT, max_output=MAX_OUTPUT, images=False, small=True, price=FREE)

    def request(self, params: CompletionParams) -> Request:
        return self._at(self._address or ("http://127.0.0.1:0/v1", "")).request(params)

    @asynccontextmanager
    async def stream(self, params: CompletionParams) -> AsyncGenerator[Completion, None]:
        inner = await self._ready(params.model)
        async with inner.stream(params) as completion:
            yield completion

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        inner = await self._ready(params.model)
        return await inner.complete(params)

    async def warm(self, params: CompletionParams) -> None:
        """Load the model and have it read the system prompt and the tools, so that the first answer comes sooner.

        Raises:
            ProviderError: as ``complete``; a caller that only wants warmth may drop it, the real request tells again.
        """
        await self.complete(replace(params, messages=[user_message("Hello")], tool_choice="auto", max_output=1))

    async def validate_auth(self) -> AuthStatus:
        models = installed(self._home)
        if not models:
            return AuthStatus(False, "no local model is installed; run: orkas models install local")
        return AuthStatus(True, f"no key needed; {models[0].name} is installed")

    async def aclose(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.aclose()

    async def _ready(self, name: str) -> LLMProvider:
        server = self._server or shared(find(name, self._home).config())
        address = await server.ensure()
        if address != self._address:
            await self.aclose()
            self._address = address
        return self._at(address)

    def _at(self, address: tuple[str, str]) -> LLMProvider:
        if self._inner is None:
            self._inner = self._connect(*address)
        return self._inner
