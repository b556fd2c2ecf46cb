"""What a plan must be before it may be scheduled, whoever read the request. Plain checks, each with its reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from agentkit.errors import ScheduleError
from agentkit.schedules.cron import CronRule
from agentkit.schedules.parser.parsed import Cron, Delayed, Interval, NoSchedule, ParsedSchedule, Rrule, Scheduled
from agentkit.schedules.parser.upcoming import next_runs
from agentkit.schedules.recurrence import Recurrence
from agentkit.schedules.wall_clock import zone_named

LONGEST_INTERVAL: Final = timedelta(days=3653)
"""Ten years ("Scheduler" 8.2 of the specification)."""
LATEST_YEAR: Final = 9000
_RUNS_COMPARED: Final = 60


def fault_of(plan: ParsedSchedule, now: datetime) -> str | None:
    """Return why a plan can't be scheduled, in a sentence to ask again with, or None if it can.

    Args:
        plan: What a request was understood as.
        now: The moment of the request, aware.
    """
    try:
        return _fault_of_when(plan, now.astimezone(UTC)) or _fault_of_bounds(plan, now.astimezone(UTC))
    except ScheduleError as error:
        return str(error)


def too_often(plan: ParsedSchedule, now: datetime, at_least: timedelta = timedelta(minutes=1)) -> str | None:
    """Return the reason if two of the plan's next runs are closer than that, else None.

    Source: "Limits against accidents and abuse", 19 of the specification.
    """
    try:
        runs = next_runs(plan, now, _RUNS_COMPARED)
    except ScheduleError as error:
        return str(error)
    if any(later - earlier < at_least for earlier, later in pairwise(runs)):
        return f"it would run more often than once in {at_least.total_seconds():g} seconds; choose a longer interval"
    return None


def _fault_of_when(plan: ParsedSchedule, now: datetime) -> str | None:
    match plan.when:
        case NoSchedule():
            return None
        case Scheduled(date=date):
            return fault_of_date(date, now)
        case Delayed(delay_in_seconds=seconds):
            return fault_of_seconds(seconds, "delay_in_seconds")
        case Interval(interval_seconds=seconds):
            return fault_of_seconds(seconds, "interval_seconds")
        case Cron(cron=cron, timezone=timezone):
            return fault_of_cron(cron, timezone)
        case Rrule(rrule=rrule, timezone=timezone):
            if plan.starts_at is None:
                return "an rrule needs starts_at, its first run"
            zone_named(timezone)
            Recurrence(rrule, timezone)
            return None


def fault_of_date(date: datetime, now: datetime) -> str | None:
    """Return why a one-off can't run at that date, or None."""
    if date.tzinfo is None:
        return f"date {date.isoformat()} has no offset; write it like 2027-03-01T09:00:00+01:00"
    if date <= now:
        return f"date {date.isoformat()} is not in the future; now is {now.isoformat()}"
    if date.year >= LATEST_YEAR:
        return f"date {date.isoformat()} is too far ahead"
    return None


def fault_of_seconds(seconds: int, name: str) -> str | None:
    """Return why a delay or an interval of so many seconds can't be, or None."""
    if seconds <= 0:
        return f"{name} must be above 0, got {seconds}"
    if seconds > LONGEST_INTERVAL.total_seconds():
        return f"{name} must be at most ten years, got {seconds}"
    return None


def fault_of_cron(cron: str, timezone: str) -> str | None:
    """Return why cron rules can't be used: not five fields, malformed, never firing, or an unknown zone."""
    for rule in cron.split(" | "):
        if len(rule.split()) != 5:
            return f"cron {rule!r} needs five fields: minute hour day month weekday"
    try:
        CronRule.parse(cron, timezone)
    except ScheduleError as error:
        return str(error)
    return None


def _fault_of_bounds(plan: ParsedSchedule, now: datetime) -> str | None:
    if plan.count is not None and plan.count < 1:
        return f"count must be 1 or more, got {plan.count}"
    for name, moment in (("until", plan.until), ("starts_at", plan.starts_at)):
        if moment is not None and moment.tzinfo is None:
            return f"{name} {moment.isoformat()} has no offset; write it like 2027-03-01T09:00:00+01:00"
    if plan.until is not None and plan.until <= now:
        return f"until {plan.until.isoformat()} is over already"
    if plan.until is not None and plan.starts_at is not None and plan.until < plan.starts_at:
        return "until comes before starts_at"
    if not isinstance(plan.when, NoSchedule) and not next_runs(plan, now, 1):
        return "it would never run within its bounds"
    return None
