"""What the user sends while a turn runs: durable before it is acknowledged, taken exactly once."""

from __future__ import annotations

from orkas.infra.messages import UserMessage, new_id, now, user_message

__all__ = ["Inbox"]


class Inbox:
    """One for each session. ``put`` from any thread; ``take`` by the runner."""

    def __init__(self) -> None:
        self._steered: list[UserMessage] = []
        self._queued: list[UserMessage] = []

    def steer(self, text: str) -> str:
        """A message for the running turn: it goes out with the next request. Returns its id; durable by then."""
        return self._put(self._steered, text)

    def queue(self, text: str) -> str:
        """A message for when the turn would end. Returns its id; durable by then."""
        return self._put(self._queued, text)

    def waiting(self) -> list[UserMessage]:
        """All that was sent to a turn which ended before it could take it, in order."""
        return [*self._steered, *self._queued]

    def steered(self) -> list[UserMessage]:
        """What waits for the next request, in order. Nothing is forgotten before ``taken``."""
        return list(self._steered)

    def queued(self) -> list[UserMessage]:
        """The next message that waits for the end of the turn: none or one."""
        return self._queued[:1]

    def taken(self, messages: list[UserMessage]) -> None:
        """They are durable in the session: forget them here."""
        ids = {m.id for m in messages}
        self._steered = [m for m in self._steered if m.id not in ids]
        self._queued = [m for m in self._queued if m.id not in ids]

    def _put(self, where: list[UserMessage], text: str) -> str:
        message = user_message(text)
        message.id, message.ts = new_id(), now()
        where.append(message)
        return message.id
