"""The one door to the time: moments, durations, and timers that look at the wall clock."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from agentkit.clock import EPOCH, SystemClock, duration_of, from_ms, seconds_of, to_ms

# --- moments and durations (SPEC 1)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (EPOCH, 0),
        (EPOCH + timedelta(microseconds=1), 1),
        (EPOCH + timedelta(microseconds=1_000), 1),
        (EPOCH + timedelta(microseconds=1_001), 2),
        (EPOCH - timedelta(microseconds=1_500), -1),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 1_767_225_600_000),
    ],
)
def test_moments_round_up_to_the_millisecond(moment: datetime, expected: int) -> None:
    """A job never runs before its due time, whatever the zone of the moment."""
    assert to_ms(moment) == expected


def test_milliseconds_come_back_as_utc() -> None:
    """Stored times are milliseconds since the epoch."""
    assert from_ms(1_767_225_600_123) == datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)
    assert from_ms(to_ms(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))).year == 9999


def test_naive_moment_is_refused_with_the_mend() -> None:
    """The error names the argument and shows how to add a zone."""
    with pytest.raises(ValueError, match=r"starts_at 2026-01-01T09:00:00 has no time zone; .*ZoneInfo"):
        to_ms(datetime(2026, 1, 1, 9), "starts_at")


@pytest.mark.parametrize("value", [0, 1, -2.5, timedelta(days=3)])
def test_duration_is_seconds_or_a_timedelta(value: Any) -> None:
    """Both forms come out as a timedelta."""
    expected = value if isinstance(value, timedelta) else timedelta(seconds=value)

    assert duration_of(value, "wait") == expected
    assert seconds_of(value) == expected.total_seconds()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("10", TypeError),
        (None, TypeError),
        (True, TypeError),
        (datetime(2026, 1, 1, tzinfo=UTC), TypeError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (1e300, ValueError),
    ],
)
def test_what_is_no_duration_is_refused_by_name(value: Any, error: type[Exception]) -> None:
    """The error names the argument."""
    with pytest.raises(error, match="wait"):
        duration_of(value, "wait")


# --- the system's clock (SPEC 6.7)


async def test_system_clock_calls_back_no_earlier_than_the_moment() -> None:
    """A timer fires when the wall clock has reached its moment, not a millisecond before."""
    clock, seen = SystemClock(), list[int]()
    done = asyncio.Event()
    moments = [clock.now_ms() + wait for wait in (0, 1, 5, 10, 20)]
    for moment in moments:
        clock.call_at(moment, lambda moment=moment: seen.append(clock.now_ms() - moment))  # type: ignore[misc]  # bound early
    clock.call_at(moments[-1] + 1, done.set)

    await done.wait()

    assert len(seen) == 5
    assert min(seen) >= 0


async def test_cancelled_timer_of_the_system_clock_does_not_fire() -> None:
    """Cancelling is enough, also after the fact."""
    clock, seen = SystemClock(), list[str]()
    done = asyncio.Event()
    cancelled = clock.call_at(clock.now_ms() + 5, lambda: seen.append("cancelled"))
    kept = clock.call_at(clock.now_ms() + 10, done.set)

    cancelled.cancel()
    await done.wait()
    kept.cancel()

    assert seen == []


@pytest.mark.parametrize("away", [timedelta(minutes=1), timedelta(days=40), timedelta(days=36_500)])
async def test_timer_looks_at_the_wall_clock_at_least_every_thirty_seconds(
    monkeypatch: pytest.MonkeyPatch, away: timedelta
) -> None:
    """However far the moment, the event loop is asked for short waits only, again and again."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    steps: list[Callable[[], None]] = []
    call_later = loop.call_later

    def record(delay: float, callback: Callable[[], None], **_: Any) -> asyncio.TimerHandle:
        waits.append(delay)
        steps.append(callback)
        return call_later(3_600, callback)

    monkeypatch.setattr(loop, "call_later", record)
    clock = SystemClock()
    fired: list[bool] = []
    timer = clock.call_at(clock.now_ms() + away // timedelta(milliseconds=1), lambda: fired.append(True))

    for _ in range(3):
        steps[-1]()
    timer.cancel()

    assert fired == []
    assert len(waits) == 4
    assert all(29 < wait < 30.01 for wait in waits)


async def test_both_forms_of_now_agree() -> None:
    """Milliseconds and moment are the same wall clock."""
    clock = SystemClock()

    before, now, after = clock.now_ms(), clock.now(), clock.now_ms()

    assert before <= now.timestamp() * 1000 < after + 1
    assert now.utcoffset() == timedelta(0)


async def test_sleep_takes_both_forms_of_duration() -> None:
    """Seconds or a timedelta; none at all ends at once."""
    clock = SystemClock()
    before = clock.now_ms()

    await clock.sleep(0)
    await clock.sleep(0.005)
    await clock.sleep(timedelta(milliseconds=5))

    assert clock.now_ms() - before >= 9


def test_only_the_clock_asks_the_system_for_the_time() -> None:
    """No other module of the package reads the clock or sleeps; they are handed one."""
    package = Path(__file__).parents[1] / "agentkit"
    forbidden = {"time.time", "time.time_ns", "time.sleep", "datetime.now", "datetime.utcnow", "date.today"}

    found = [
        f"{path.relative_to(package)}: {ast.unparse(node.func)}"
        for path in package.rglob("*.py")
        if path.name != "clock.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]

    assert found == []
