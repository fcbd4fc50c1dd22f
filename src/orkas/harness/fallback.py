"""Asking somebody else when a model does not answer, and telling it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from orkas.harness.succession import Candidate
from orkas.harness.telling import tell
from orkas.harness.turn import Turn
from orkas.infra.errors import ProviderError
from orkas.infra.events import Event, Fallback, Notice, Retry

__all__ = ["opening", "succeeding"]


async def succeeding(turn: Turn, asking: Callable[[], Awaitable[object]]) -> None:
    """``asking``, begun anew with the next candidate where the one before has failed for good. That is told.

    Raises:
        ProviderError: nobody is left, or the failure is none of the candidate. Says how those before it failed.
    """
    succession, retries = turn.setup.succession, turn.retries
    while True:
        try:
            await asking()
        except ProviderError as error:
            turn.setup.context.abort.check()
            candidate = None if retries.spoken else succession.failed(error)
            if candidate is None:
                if (summed_up := succession.summed_up(error)) is error:
                    raise
                raise summed_up from error
            retries.moved()
            turn.setup.recorder.retried(candidate.full_model)
            await tell(Retry(turn.next_seq(), retries.next_ordinal(), _takes_over(error, candidate), 0.0))
            await tell(Fallback(turn.next_seq(), candidate.full_model, error.message))
        else:
            return


def opening(turn: Turn) -> Iterable[Event]:
    """What is to be told at the beginning of a turn: that it begins with another than the first candidate."""
    passed = turn.setup.succession.passed_over
    if passed is not None:
        now = turn.setup.succession.current.full_model
        reason = f"the credentials for {passed.full_model} were refused a moment ago"
        yield Fallback(turn.next_seq(), now, reason)
        yield Notice(turn.next_seq(), "info", f"{now} answers: {reason}.")


def _takes_over(error: ProviderError, candidate: Candidate) -> str:
    return f"{error.message}; {candidate.full_model} takes over"
