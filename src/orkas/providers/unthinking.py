"""Thinking that its own vendor refuses to take back: signed by another key, another version, an edited session."""

from __future__ import annotations

import re

from msgspec.structs import replace

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Message, Thinking
from orkas.providers.base import CompletionParams

__all__ = ["Unthinking"]

_BLAMED = re.compile(
    r"(?:invalid|bad|corrupt\w*|expired)\W{1,3}(?:thought_?)?\W{0,2}signature|"
    r"signature\W{1,4}(?:in|of) \W{0,2}thinking|expected \W?thinking\b|"
    r"thinking\W{1,3}(?:or \W{0,2}redacted_thinking\W{1,3})?blocks?\b.{0,80}"
    r"(?:cannot be modified|must remain|is not valid|are not valid|invalid)|"
    r"encrypted (?:content|reasoning)\b.{0,60}(?:could not be|cannot be|failed to be) (?:verified|decrypted|parsed)"
)


class Unthinking:
    """The messages of one provider that go out without their thinking from now on."""

    def __init__(self) -> None:
        self._bare: dict[int, tuple[Message, Message]] = {}

    def learn(self, refusal: ProviderError, params: CompletionParams, *, model: str, api: str) -> bool:
        """Whether ``refusal`` blames thinking that this request held and the next one, made by ``applied``, will not.

        ``model`` (``vendor/model``) and ``api``: whose thinking was sent at all.
        """
        if refusal.class_ != "invalid_request" or not _BLAMED.search(refusal.message.lower()):
            return False
        known = len(self._bare)
        for m in params.messages:
            if type(m) is AssistantMessage and m.model == model and m.api == api and id(m) not in self._bare:
                content = [b for b in m.content if not isinstance(b, Thinking)]
                if len(content) < len(m.content):
                    self._bare[id(m)] = (m, replace(m, content=content))
        return len(self._bare) > known

    def applied(self, params: CompletionParams) -> CompletionParams:
        """The request without what was refused; the very same as long as nothing was."""
        if not self._bare:
            return params
        return replace(params, messages=[self._bare[id(m)][1] if id(m) in self._bare else m for m in params.messages])
