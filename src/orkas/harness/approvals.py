"""The questions that wait for a person, and their answers.

An answer is bound to the id of its question, and the question to the very call that was shown. Late answers, answers to
what was never asked, and answers that were not offered are refused with a sentence.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Literal, TypeAlias, get_args

import msgspec

from orkas.harness.policy.question import Question
from orkas.infra.abort import Abort
from orkas.infra.errors import UsageError

__all__ = ["Answer", "Approvals", "Reply"]

Answer: TypeAlias = Literal["once", "session", "always", "no"]
_KEPT = 1_000
"""Ids of questions that are over, remembered to tell a late answer from a wrong one."""


class Reply(msgspec.Struct, frozen=True):
    """What a person said."""

    answer: Answer
    note: str = ""
    """Words for the model, with a no."""

    @property
    def refusal(self) -> str:
        """What the model is told of a no; empty when it was a yes."""
        if self.answer != "no":
            return ""
        said = f" They said: “{self.note}”." if self.note else ""
        return f"The user refused this call; it was not run.{said} Do not try it another way; ask, or go on without it."


class Approvals:
    """The questions of one agent. ``answer`` from any task or thread; the rest by the runner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Question | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._over: dict[str, None] = {}

    @property
    def open(self) -> Question | None:
        """The question that waits for an answer now."""
        return self._open

    def put(self, question: Question) -> None:
        """Open a question; it can be answered from now on."""
        with self._lock:
            self._open = question
            self._waiting = asyncio.get_running_loop().create_future()

    async def reply(self, abort: Abort) -> Reply:
        """The answer to the open question; it is over when this ends, however it ends.

        Raises:
            Aborted: Stop was pressed.
        """
        waiting = self._waiting
        assert waiting is not None, "a question is open"
        try:
            with abort.guard():
                return await waiting
        finally:
            self.close()

    def close(self) -> None:
        """The open question is over; an answer to it comes too late."""
        with self._lock:
            if self._open is not None:
                self._over[self._open.id] = None
                if len(self._over) > _KEPT:
                    del self._over[next(iter(self._over))]
            self._open = self._waiting = None

    def answer(self, id: str, answer: str, note: str = "") -> None:
        """Answer the open question.

        Raises:
            UsageError: it is not open (any more), or this answer was not offered.
        """
        with self._lock:
            question, waiting = self._open, self._waiting
            if question is None or waiting is None or question.id != id:
                known = id in self._over
                raise UsageError(
                    f"the question {id!r} is over" if known else f"there is no open question {id!r}",
                    hint="answer an approval event with its own id, once, while it waits",
                )
            if answer not in get_args(Answer) or answer not in (*question.scopes, "no"):
                offered = ", ".join([*question.scopes, "no"])
                raise UsageError(f"{answer!r} is no answer to this question", hint=f"it is one of {offered}")
            self._over[question.id] = None
            self._open = None
        reply = Reply(answer, note)  # type: ignore[arg-type]  # checked above
        waiting.get_loop().call_soon_threadsafe(_settle, waiting, reply)


def _settle(waiting: asyncio.Future[Reply], reply: Reply) -> None:
    if not waiting.done():
        waiting.set_result(reply)
