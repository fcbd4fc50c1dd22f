"""One generator on top, coroutines that tell below it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas.harness.telling import tell, telling
from orkas.infra.events import Event, TextDelta


def said(number: int) -> Event:
    return TextDelta(number, str(number))


async def all_of(work: Callable[[], object]) -> list[int]:
    async with aclosing(telling(work)) as events:  # type: ignore[arg-type]
        return [event.seq async for event in events]


@given(st.lists(st.sampled_from(["tell", "wait", "deeper", "up"]), max_size=30))
def test_events_come_in_the_order_in_which_they_are_told_however_deep(steps: list[str]) -> None:
    expected = list(range(steps.count("tell")))
    numbers = iter(expected)
    left = iter(steps)

    async def work() -> None:
        for step in left:
            if step == "tell":
                await tell(said(next(numbers)))
            elif step == "wait":
                await asyncio.sleep(0)
            elif step == "deeper":
                await work()
            else:
                return

    async def whole() -> None:
        for _ in steps:  # who went up too often goes on from the top
            await work()

    assert asyncio.run(all_of(whole)) == expected


async def test_nothing_runs_before_the_first_event_is_asked_for_nor_beyond_the_one_that_was() -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(3):
            done.append(number)
            await tell(said(number))

    events = telling(work)
    assert done == []
    await anext(events)
    await asyncio.sleep(0)
    assert done == [0]
    await events.aclose()
    assert done == [0]


async def test_a_caller_that_leaves_ends_the_work_where_it_tells_and_its_way_out_is_awaited() -> None:
    left: list[str] = []

    async def inner() -> None:
        try:
            await tell(said(0))
            left.append("went on")
        finally:
            await asyncio.sleep(0)
            left.append("inner")

    async def work() -> None:
        try:
            await inner()
        finally:
            await asyncio.sleep(0.001)
            left.append("outer")

    async with aclosing(telling(work)) as events:
        async for _ in events:
            break
    assert left == ["inner", "outer"]


async def test_what_ends_the_work_reaches_the_caller_after_what_was_told() -> None:
    async def work() -> None:
        await tell(said(0))
        await asyncio.sleep(0)
        raise KeyError("lost")

    seen: list[int] = []
    with pytest.raises(KeyError):
        async with aclosing(telling(work)) as events:
            async for event in events:
                seen.append(event.seq)
    assert seen == [0]


async def test_a_cancelled_caller_cancels_what_the_work_waits_for() -> None:
    outcome: list[str] = []

    async def work() -> None:
        await tell(said(0))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            outcome.append("cancelled")
            raise

    task = asyncio.create_task(all_of(work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert outcome == ["cancelled"]


async def test_the_work_runs_in_the_task_of_whoever_asks_for_the_next_event() -> None:
    tasks: list[object] = []

    async def work() -> None:
        for number in range(2):
            tasks.append(asyncio.current_task())
            async with asyncio.timeout(1):
                await asyncio.sleep(0)
            await tell(said(number))

    events = telling(work)
    for _ in range(2):
        await asyncio.create_task(anext(events))  # type: ignore[arg-type]
    await events.aclose()
    assert len(set(map(id, tasks))) == 2


def test_work_that_is_left_with_its_loop_closed_is_silent() -> None:
    left: list[str] = []

    async def work() -> None:
        try:
            await tell(said(0))
        finally:
            left.append("left")

    events = telling(work)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(anext(events))  # type: ignore[arg-type]
    loop.close()
    del events
    assert left == ["left"]
