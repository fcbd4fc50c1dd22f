"""In which order a history goes out: message after message, or turn about in contents of two roles."""

from __future__ import annotations

from typing import ClassVar

from orkas.infra.messages import AssistantMessage, Message, ToolMessage, UserMessage
from orkas.providers.writing.history import Piece, Writer

__all__ = ["InOrder", "TurnAbout"]


class InOrder(Writer):
    """One record a message. The last word is never the model's: it would go on with its own words, or refuse to."""

    def __init__(self) -> None:
        super().__init__()
        self._last: type | None = None

    def user(self, message: UserMessage) -> bytes:
        raise NotImplementedError

    def assistant(self, message: AssistantMessage) -> bytes:
        """Nothing, where there is nothing that may be sent."""
        raise NotImplementedError

    def result(self, message: ToolMessage) -> bytes:
        raise NotImplementedError

    def add(self, message: Message) -> None:
        if type(message) is ToolMessage:
            data = self.result(message)
        elif type(message) is UserMessage:
            data = self.user(message)
        elif type(message) is not AssistantMessage or not (data := self.assistant(message)):
            return
        self.write(data) if self.empty else self.write(b",", data)
        self._last = type(message)

    def finish(self) -> list[Piece]:
        if self._last is AssistantMessage:
            return [*self.written(), b',{"role":"user","content":"Continue."}']
        return self.written()


class TurnAbout(Writer):
    """Neighbours of the same role become one content. A conversation begins with the user."""

    opening: ClassVar[dict[str, bytes]]
    """How the content of each role begins."""
    go_on: ClassVar[bytes]
    """The part that says nothing but to go on, where the user has said nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._role = ""

    def _put(self, role: str, parts: bytes) -> None:
        if role == self._role:
            self.write(b",", parts)
            return
        if self.empty and role != "user":
            self.write(self.opening["user"], self.go_on)
        if not self.empty:
            self.write(b"]},")
        self.write(self.opening[role], parts)
        self._role = role
