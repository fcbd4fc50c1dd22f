"""Before the window overflows, older messages make room: a summary stands for them, and the archive keeps them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from orkas.infra.events import Event

if TYPE_CHECKING:
    from orkas.harness.turn import Turn

__all__ = ["Compactor"]


class Compactor:
    """One for each session. Remembers what was tried in vain, so that nothing is tried twice."""

    def due(self, turn: Turn) -> bool:
        """Whether the next request must be preceded by a compaction."""
        return False

    async def run(self, turn: Turn, *, keep: str = "", overflowed: bool = False) -> AsyncGenerator[Event, None]:
        """Make room. ``keep``: what the user wants the summary to keep. ``overflowed``: the vendor refused the request.

        Tells ``retry`` and ``compaction``; nothing is told when nothing was replaced.

        Raises:
            ProviderError: class ``context_overflow``: there is no way to make the next request fit. Says which part
                is too large.
            Aborted: Stop was pressed; nothing was replaced.
            StorageError: the new history could not be saved; the old one stands.
        """
        nothing: tuple[Event, ...] = ()
        for event in nothing:
            yield event
