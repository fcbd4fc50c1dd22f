"""The models of an agent: the one in use, and who is asked when it does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orkas.harness.succession import Candidate
from orkas.infra.errors import UsageError
from orkas.infra.threads import in_thread
from orkas.providers.base import LLMProvider

if TYPE_CHECKING:
    from orkas.providers.accounts.auth import Credentials

__all__ = ["Models"]


class Models:
    """``base_url``, ``api_key`` and ``credentials`` go to models of the first one's vendor and to no other."""

    def __init__(
        self, *, base_url: str | None, api_key: str | None, credentials: Credentials | None, priced: bool
    ) -> None:
        self.first: Candidate | None = None
        self._fallbacks: list[Candidate] = []
        self._base_url, self._api_key, self._credentials = base_url, api_key, credentials
        self._priced = priced

    @property
    def all(self) -> list[Candidate]:
        """In the order in which they are asked."""
        return [self.first, *self._fallbacks] if self.first else self._fallbacks

    def use(self, model: str | LLMProvider) -> None:
        """Ask this one first.

        Raises:
            UsageError: unknown vendor, an endpoint is missing, or there is a cost limit and the price is not known.
        """
        self.first = self._candidate(model, vendor="")

    def fall_back(self, models: Sequence[str | LLMProvider]) -> None:
        """Ask these, one after another, when the first one does not answer. Raises as ``use`` does."""
        vendor = self.first.provider.id if self.first else "none"
        try:
            self._fallbacks = [self._candidate(m, vendor=vendor) for m in models]
        except UsageError as error:
            raise UsageError(f"fallback: {error.message}", hint=error.hint) from None

    async def choose(self) -> None:
        """Where nobody said which, take what is found. Raises as ``use`` does."""
        if self.first is None:
            from orkas.providers.discovery import choose

            self.use((await in_thread(choose)).model or "")

    async def aclose(self) -> None:
        for candidate in self.all:
            await candidate.provider.aclose()

    def _candidate(self, model: str | LLMProvider, *, vendor: str) -> Candidate:
        """A model that may be asked. The address and key that were given are used for ``vendor`` alone; empty: any."""
        found = self._found(model, vendor)
        if self._priced and found.provider.info(found.model).price is None:
            raise UsageError(
                f"a cost limit cannot be kept: the price of {found.full_model} is not known",
                hint="leave the limit out, or say the price in config.toml (docs/models.md); max_rounds limits a turn",
            )
        return found

    def _found(self, model: str | LLMProvider, vendor: str) -> Candidate:
        if not isinstance(model, str):
            if not all(hasattr(model, name) for name in ("id", "stream", "info")):
                raise UsageError(
                    f"model must be a string or a provider object, not {model!r}",
                    hint='write it as "vendor/model", such as "demo/offline"',
                )
            return Candidate(model, getattr(model, "model", "model"))
        from orkas.providers.registry import resolve, split_model

        if vendor in ("", split_model(model)[0]):
            return Candidate(*resolve(
                model, base_url=self._base_url, api_key=self._api_key, credentials=self._credentials
            ))  # fmt: skip
        return Candidate(*resolve(model))
