"""A schedule in plain English: when it runs, within which bounds, and the next run, by the clock of its zone."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from agentkit.schedules.describe_cron import describe_cron
from agentkit.schedules.describe_recurrence import describe_recurrence
from agentkit.schedules.describe_words import duration_unit, every, moment_shown
from agentkit.schedules.schedule import Schedule
from agentkit.schedules.wall_clock import zone_named

__all__ = ["describe", "describe_cron"]


def describe(schedule: Schedule) -> str:
    """Return when a schedule runs, in English, with its zone and its next run.

    Such as ``every Monday at 09:00 Europe/Berlin, next 2026-12-07 09:00`` or
    ``once, 2026-12-07 09:00 Europe/Berlin``. All moments are on the wall clock of the zone.
    """
    zone = zone_named(schedule.timezone)
    if not schedule.is_recurring:
        return ", ".join(["once", *_single_run(schedule, zone)])
    return ", ".join([_rule(schedule, zone), *_bounds(schedule, zone), *_next_run(schedule, zone)])


def _single_run(schedule: Schedule, zone: ZoneInfo) -> list[str]:
    moment = schedule.next_run or schedule.due_at
    if moment is None and schedule.delay is not None:
        moment = schedule.created_at + schedule.delay
    parts = [] if moment is None else [f"{moment_shown(moment, zone)} {schedule.timezone}"]
    return [*parts, "paused"] if schedule.paused else parts


def _rule(schedule: Schedule, zone: ZoneInfo) -> str:
    if schedule.cron is not None:
        return describe_cron(schedule.cron, schedule.timezone)
    if schedule.rrule is not None:
        return describe_recurrence(schedule.rrule, schedule.timezone, starts_at=schedule.starts_at)
    if schedule.interval is not None:
        return every(*duration_unit(schedule.interval))
    return "never"


def _bounds(schedule: Schedule, zone: ZoneInfo) -> list[str]:
    bounds = []
    if schedule.starts_at is not None:
        bounds.append(f"from {moment_shown(schedule.starts_at, zone)}")
    if schedule.until is not None:
        bounds.append(f"until {moment_shown(schedule.until, zone)}")
    if schedule.remaining is not None:
        bounds.append("once more" if schedule.remaining == 1 else f"{schedule.remaining:,} more times")
    return bounds


def _next_run(schedule: Schedule, zone: ZoneInfo) -> list[str]:
    if schedule.paused:
        return ["paused"]
    if schedule.next_run is None:
        return ["no more runs"]
    shown = f"next {moment_shown(schedule.next_run, zone)}"
    # A rule by the wall clock has named its zone already.
    return [f"{shown} {schedule.timezone}" if schedule.interval is not None else shown]
