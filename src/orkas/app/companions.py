"""What lives beside the conversation of an agent, as long as it does: made when a tool or a question needs it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from orkas.harness.sessions.session import Session
from orkas.harness.tool import Tool
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.approvals import Approvals
    from orkas.harness.undo.keeper import Keeper
    from orkas.infra.jobs import Jobs

__all__ = ["Companions"]


class Companions:
    """Who watches the files for undo, the commands in the background, and the questions for a person."""

    def __init__(self, cwd: Path, tools: Iterable[Tool]) -> None:
        self._cwd = cwd
        self._touching = any(hasattr(tool, "touches") for tool in tools)
        self._using_jobs = any(getattr(tool, "uses_jobs", False) for tool in tools)
        self._kept_for: Session | None = None
        self._looked = False
        self._approvals: Approvals | None = None
        self.keeper: Keeper | None = None
        self.jobs: Jobs | None = None

    @property
    def approvals(self) -> Approvals:
        if self._approvals is None:
            from orkas.harness.approvals import Approvals

            self._approvals = Approvals()
        return self._approvals

    def watching(self, session: Session) -> Keeper | None:
        """Who watches the files for undo; None while no tool says that it changes any."""
        if not self._touching:
            return None
        if self.keeper is None or self._kept_for is not session:
            from orkas.harness.undo.keeper import Keeper

            in_memory = session.files is None
            self.keeper, self._kept_for = Keeper(self._cwd, session.id, in_memory=in_memory), session
            if in_memory:
                weakref.finalize(self, self.keeper.forget)
        return self.keeper

    def background(self) -> Jobs | None:
        """The commands in the background; None while no tool can start any."""
        if self.jobs is None and self._using_jobs:
            from orkas.infra.jobs import Jobs

            self.jobs = Jobs()
            weakref.finalize(self, self.jobs.abandon).atexit = False  # at exit they are ended in order
        return self.jobs

    async def healed(self) -> list[str]:
        """What a killed process left is put right before the first turn: files half-done, commands still running."""
        if self._looked or self.keeper is None:
            return []
        self._looked = True
        from orkas.tools.changeset import heal, journal

        told = await in_thread(heal) if journal().is_dir() else []
        if self.jobs is not None:
            from orkas.infra.orphans import folder, reap

            count = await in_thread(reap) if folder().is_dir() else 0
            were = "A background job was" if count == 1 else f"{count} background jobs were"
            told += [f"{were} still running, left by an Orkas that was killed: ended now."] if count else []
        return told
