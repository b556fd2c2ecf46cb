"""The checks a plan has to pass, whoever read the request."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agentkit.schedules.parser import Cron, Delayed, Interval, NoSchedule, ParsedSchedule, Rrule, Scheduled, When
from agentkit.schedules.parser.upcoming import next_runs
from agentkit.schedules.parser.validate import fault_of, too_often

NOW = datetime(2026, 2, 10, 13, 45, tzinfo=UTC)


def plan_of(when: When) -> ParsedSchedule:
    return ParsedSchedule(description="call", when=when)


@pytest.mark.parametrize(
    "when",
    [
        Scheduled(date=NOW + timedelta(minutes=1)),
        Delayed(delay_in_seconds=1),
        Interval(interval_seconds=20),
        Cron(cron="0 9 * * 1 | 30 17 * * 5", timezone="Europe/Berlin"),
        NoSchedule(),
    ],
)
def test_sound_plan_has_no_fault(when: When) -> None:
    """What can be scheduled passes."""
    assert fault_of(plan_of(when), NOW) is None


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        (Scheduled(date=NOW), "not in the future"),
        (Scheduled(date=datetime(2027, 1, 1)), "has no offset"),
        (Scheduled(date=datetime(9999, 1, 1, tzinfo=UTC)), "too far"),
        (Delayed(delay_in_seconds=0), "above 0"),
        (Delayed(delay_in_seconds=-5), "above 0"),
        (Interval(interval_seconds=10**12), "ten years"),
        (Cron(cron="0 0 9 * * *", timezone="UTC"), "five fields"),
        (Cron(cron="61 9 * * *", timezone="UTC"), "61"),
        (Cron(cron="0 9 30 2 *", timezone="UTC"), "never"),
        (Cron(cron="0 9 * * *", timezone="Mars/Olympus"), "unknown"),
        (Rrule(rrule="FREQ=DAILY;INTERVAL=2", timezone="UTC"), "starts_at"),
    ],
)
def test_fault_says_what_is_wrong(when: When, reason: str) -> None:
    """Each fault names what to change."""
    fault = fault_of(plan_of(when), NOW)

    assert fault is not None
    assert reason in fault


def test_bounds_must_leave_a_run() -> None:
    """A plan whose bounds leave no run is at fault."""
    daily = plan_of(Cron(cron="0 9 * * *", timezone="UTC"))

    assert fault_of(replace(daily, until=NOW - timedelta(days=1)), NOW)
    assert fault_of(replace(daily, until=NOW + timedelta(hours=1)), NOW)
    assert fault_of(replace(daily, count=0), NOW)
    assert fault_of(replace(daily, until=NOW + timedelta(days=1), count=1), NOW) is None


def test_runs_closer_than_a_minute_are_too_often() -> None:
    """Two runs within a minute are too often, whatever made them."""
    assert too_often(plan_of(Interval(interval_seconds=20)), NOW)
    assert too_often(plan_of(Interval(interval_seconds=60)), NOW) is None
    assert too_often(plan_of(Cron(cron="* * * * *", timezone="UTC")), NOW) is None


def test_next_runs_keep_the_bounds() -> None:
    """No more runs are shown than count and until allow, and none before the start."""
    daily = plan_of(Cron(cron="0 9 * * *", timezone="UTC"))

    counted = next_runs(replace(daily, count=2), NOW, 5)
    ended = next_runs(replace(daily, until=datetime(2026, 2, 12, 9, tzinfo=UTC)), NOW, 5)
    started = next_runs(replace(daily, starts_at=datetime(2026, 3, 1, tzinfo=UTC)), NOW, 1)

    assert len(counted) == 2
    assert [run.day for run in ended] == [11, 12]
    assert started == [datetime(2026, 3, 1, 9, tzinfo=UTC)]
