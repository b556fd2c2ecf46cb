"""A clock that moves only when told: timers in order, sleepers that wait, clocks that are set back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from agentkit.testing import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_clock_begins_where_it_is_told() -> None:
    """By default on 1 January 2026, UTC; both forms of now agree."""
    given = datetime(2030, 6, 1, 12, 30, tzinfo=UTC)

    assert FakeClock().now() == START
    assert FakeClock(given).now() == given
    assert FakeClock(given).now_ms() == int(given.timestamp() * 1000)


def test_naive_beginning_is_refused() -> None:
    """A clock needs to know its zone."""
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(datetime(2026, 1, 1))


def test_timers_fire_in_order_when_the_clock_passes_them() -> None:
    """Earlier ones first, equal ones in the order in which they were set, later ones not yet."""
    clock, fired = FakeClock(), list[str]()
    for name, seconds in [("c", 3), ("a", 1), ("b1", 2), ("b2", 2), ("later", 9)]:
        clock.call_at(clock.now_ms() + seconds * 1_000, lambda name=name: fired.append(name))  # type: ignore[misc]  # bound early

    clock.move_to(START + 3 * SECOND)

    assert fired == ["a", "b1", "b2", "c"]
    assert clock.next_ms() == clock.now_ms() + 6_000


def test_cancelled_timer_does_not_fire() -> None:
    """Cancelling, also twice or after the fact, is no error."""
    clock, fired = FakeClock(), list[str]()
    timer = clock.call_at(clock.now_ms() + 1_000, lambda: fired.append("a"))

    timer.cancel()
    timer.cancel()
    clock.move_to(START + 5 * SECOND)
    timer.cancel()

    assert fired == []
    assert clock.next_ms() is None


def test_timer_in_the_past_waits_for_the_next_move() -> None:
    """Nothing is called back before ``call_at`` has returned."""
    clock, fired = FakeClock(), list[str]()

    clock.call_at(clock.now_ms() - 1_000, lambda: fired.append("a"))
    before = list(fired)
    clock.move_to(clock.now())

    assert (before, fired) == ([], ["a"])


def test_clock_may_be_set_back() -> None:
    """Timers wait for their moment on the clock; what has fired doesn't fire again."""
    clock, fired = FakeClock(), list[str]()
    clock.call_at(clock.now_ms() + 1_000, lambda: fired.append("a"))
    clock.call_at(clock.now_ms() + 5_000, lambda: fired.append("b"))
    clock.move_to(START + 2 * SECOND)

    clock.move_to(START - 100 * SECOND)
    clock.move_to(START + 4 * SECOND)
    middle = list(fired)
    clock.move_to(START + 5 * SECOND)

    assert middle == ["a"]
    assert fired == ["a", "b"]


async def test_sleeper_waits_until_the_clock_reaches_it() -> None:
    """``sleep`` ends at its moment, not before."""
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)

    clock.move_to(START + 9.999 * SECOND)
    await asyncio.sleep(0)
    early = task.done()
    clock.move_to(START + 10 * SECOND)
    await task

    assert early is False


async def test_cancelled_sleeper_leaves_no_timer() -> None:
    """A sleep that was cancelled is forgotten."""
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait({task})

    assert clock.next_ms() is None
    assert not clock.sleepers


@pytest.mark.parametrize("duration", [0, -1, timedelta(0)])
async def test_sleeping_no_time_ends_at_once(duration: float | timedelta) -> None:
    """The clock needn't move for it."""
    await FakeClock().sleep(duration)
