"""Thinking that a vendor refuses: to take back (signed by another key, another version, an edited session) or to do."""

from __future__ import annotations

from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Block, Message, Opaque, Thinking, ToolCall
from orkas.infra.patterns import lazy
from orkas.providers.base import CompletionParams

__all__ = ["Unthinking"]

_BLAMED = lazy(
    r"(?:invalid|bad|corrupt\w*|expired)\W{1,3}(?:thought_?)?\W{0,2}signature|"
    r"signature\W{1,4}(?:in|of) \W{0,2}thinking|expected \W?thinking\b|"
    r"thinking\W{1,3}(?:or \W{0,2}redacted_thinking\W{1,3})?blocks?\b.{0,80}"
    r"(?:cannot be modified|must remain|is not valid|are not valid|invalid)|"
    r"encrypted (?:content|reasoning)\b.{0,60}(?:could not be|cannot be|failed to be) (?:verified|decrypted|parsed)"
)


_UNABLE = lazy(r"does not support (?:thinking|reasoning)\b")


class Unthinking:
    """The messages of one provider that go out like another model's from now on: their words and calls alone. And its
    models that are no longer told to think.

    What a vendor signed or sealed may stand on any of their blocks, and the others may be bound to it.
    """

    def __init__(self) -> None:
        self._bare: dict[int, tuple[Message, Message]] = {}
        self._unable: set[str] = set()
        """Models that cannot think and refuse to be told anything about it."""

    def learn(self, refusal: ProviderError, params: CompletionParams, *, model: str, api: str) -> bool:
        """Whether ``refusal`` blames thinking that this request held or asked for, and the next one, made by
        ``applied``, will not.

        ``model`` (``vendor/model``) and ``api``: whose thinking was sent at all.
        """
        if params.thinking is not None and params.model not in self._unable and _UNABLE.search(refusal.message.lower()):
            self._unable.add(params.model)
            return True
        if refusal.class_ != "invalid_request" or not _BLAMED.search(refusal.message.lower()):
            return False
        known = len(self._bare)
        for m in params.messages:
            if type(m) is not AssistantMessage or (m.model, m.api) != (model, api) or id(m) in self._bare:
                continue
            if any(_has_own(b) for b in m.content):
                self._bare[id(m)] = (m, replace(m, model="", api=""))
        return len(self._bare) > known

    def applied(self, params: CompletionParams) -> CompletionParams:
        """The request without what was refused; the very same as long as nothing was."""
        if params.thinking is not None and params.model in self._unable:
            params = replace(params, thinking=None)
        if not self._bare:
            return params
        return replace(params, messages=[self._bare[id(m)][1] if id(m) in self._bare else m for m in params.messages])


def _has_own(block: Block) -> bool:
    """Holds what goes back only to the model that gave it."""
    if isinstance(block, Thinking | Opaque):
        return True
    return bool(block.vendor) or (isinstance(block, ToolCall) and bool(block.signature))
