"""How a turn is told: one async generator on top, plain coroutines below it that tell events on their way.

Whatever a coroutine awaits may ``tell`` too, however deep, and is entered, left and ended like any other: no room
hands on the events of another. A caller that leaves ends the coroutine where it tells, by ``Left``; what that awaits on
its way out is awaited.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any, TypeAlias, get_args

from orkas.infra.events import Event

__all__ = ["Left", "Work", "tell", "telling"]

Work: TypeAlias = Coroutine[Any, Any, object]

_EVENTS = frozenset(get_args(Event))


class Left(BaseException):
    """Raised where something is told to a caller who has left: let it pass. (A coroutine that is thrown a
    ``GeneratorExit`` could not await anything any more.)"""


@coroutine
def tell(event: Event) -> Generator[Event, None, None]:
    """Tell the caller of ``telling``; goes on when it asks for more. Never inside ``abort.guard()``.

    Raises:
        Left: the caller has left.
    """
    yield event


async def telling(begin: Callable[[], Work]) -> AsyncGenerator[Event, None]:
    """All that the work tells, in order, to its end. It begins with the first event that is asked for."""
    work = begin()
    event = await _next(work)
    while event is not None:
        try:
            yield event
        except BaseException:  # closed, most of the time
            with suppress(Left):
                await _next(work, Left())
            raise
        event = await _next(work)


@coroutine
def _next(work: Work, error: BaseException | None = None) -> Generator[Any, None, Event | None]:
    """Run the work until it tells an event; None when it has ended. What it waits for is the event loop's."""
    try:
        got = work.send(None) if error is None else work.throw(error)
        while type(got) not in _EVENTS:
            try:
                yield got
            except BaseException as thrown:  # noqa: BLE001 - whatever it is, it is for the work: mostly a cancellation
                got = work.throw(thrown)
            else:
                got = work.send(None)
    except StopIteration:
        return None
    return got  # type: ignore[no-any-return]
