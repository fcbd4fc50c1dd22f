"""What the readers of all dialects have in common: the state of a reply, its faults, and bytes into its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, StopReason, ToolCall
from orkas.providers.base import Part
from orkas.providers.reading.body import Body, broken_off
from orkas.providers.reading.calls import settle
from orkas.providers.reading.payloads import odd

__all__ = ["EventReply", "Reply"]

T = TypeVar("T")


class Reply:
    """A reply that is being read. ``model``: ``vendor/model``, stamped on the message."""

    def __init__(self, model: str) -> None:
        self.done = False
        self.brisk = False
        self._model = model
        self._vendor = model.partition("/")[0]
        self._error: ProviderError | None = None

    def partial(self) -> AssistantMessage:
        """What has come so far, as a message. None of its calls ever runs."""
        message = self._message("error")
        settle([b for b in message.content if type(b) is ToolCall], "error")
        return message

    def _message(self, reason: StopReason) -> AssistantMessage:
        """What has come, with this reason for its end."""
        raise NotImplementedError

    def _end_of(self, end: T | None) -> T:
        """What ended the reply. Raises what the vendor refused or, without an end, that the reply broke off."""
        if self._error is not None:
            raise self._error
        if end is None:
            raise broken_off(self._vendor)
        return end

    def _fail(self, payload: bytes) -> None:
        """The reply carried an error, in the vendor's words."""
        from orkas.providers.errors import classify  # only a failure needs the table

        self._fail_with(self._error or classify(self._vendor, 200, {}, payload))

    def _fail_with(self, error: ProviderError) -> None:
        """The error is raised at the end, after the parts that came before it. The first one counts."""
        self._error = self._error or error
        self.done = True


class EventReply(Reply):
    """A reply that comes as server-sent events, or in one piece. A dialect adds ``_read`` and ``_read_whole``."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._body = Body()

    def feed(self, data: bytes) -> list[Part]:
        payloads = self._body.feed(data)
        if self.done or (not payloads and data):
            return []
        parts: list[Part] = []
        if payloads:
            self._read(payloads, parts, last=not data)
        if not data and not self.done and self._body.whole is not None:
            self._read_whole(self._body.whole, parts)
        return parts

    def _read(self, payloads: list[bytes], parts: list[Part], *, last: bool) -> None:
        """Take the events of one read, and say whether what comes now is ``brisk``. ``last``: the body has ended."""
        raise NotImplementedError

    def _read_whole(self, body: bytes, parts: list[Part]) -> None:
        """Take a body in one piece."""
        raise NotImplementedError

    def _odd(
        self, payload: bytes, one: Callable[[bytes], T], tolerant: Callable[[bytes], T | None], *, last: bool
    ) -> T | None:
        """One event with odd types, lone surrogates or garbage in it; None: there is none, or the reply is damaged."""
        try:
            return odd(payload, one, tolerant, vendor=self._vendor, last=last)
        except ProviderError as error:
            self._fail_with(error)
            return None

    def _fail(self, payload: bytes) -> None:
        if self._error is None and (error := self._body.not_a_reply(self._vendor)) is not None:
            self._fail_with(error)
        else:
            super()._fail(payload)
