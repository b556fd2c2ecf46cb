"""A schedule in plain English: when it runs, within which bounds, and the next run, by the clock of its zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from agentkit.clock import LATEST_MS, from_ms
from agentkit.schedules.describe.cron import describe_cron
from agentkit.schedules.describe.recurrence import describe_recurrence, is_complete
from agentkit.schedules.describe.words import duration_unit, every, moment_shown
from agentkit.schedules.recurrence import Recurrence
from agentkit.schedules.schedule import Schedule
from agentkit.schedules.wall_clock import zone_named

__all__ = ["describe", "describe_cron"]

SHORTLY: Final = timedelta(milliseconds=1)


def describe(schedule: Schedule) -> str:
    """Return when a schedule runs, in English, with its zone and its next run.

    Such as ``every Monday at 09:00 Europe/Berlin, next 2026-12-07 09:00`` or
    ``once, 2026-12-07 09:00 Europe/Berlin``. All moments are on the wall clock of the zone.
    """
    zone = zone_named(schedule.timezone)
    if not schedule.is_recurring:
        return ", ".join(["once", *_single_run(schedule, zone)])
    details = [*_bounds(schedule, zone), _next_run(schedule, zone)]
    if schedule.type == "interval":
        details = _with_zone_once(details, schedule.timezone)
    return ", ".join([_rule(schedule), *details])


def _single_run(schedule: Schedule, zone: ZoneInfo) -> list[str]:
    moment = schedule.next_run or schedule.due_at
    if moment is None and schedule.delay is not None:
        # A delay may reach beyond the last moment there is; it then waits for that one.
        moment = schedule.created_at + min(schedule.delay, from_ms(LATEST_MS) - schedule.created_at)
    parts = [] if moment is None else [f"{moment_shown(moment, zone)} {schedule.timezone}"]
    return [*parts, "paused"] if schedule.paused else parts


def _rule(schedule: Schedule) -> str:
    if schedule.cron is not None:
        return describe_cron(schedule.cron, schedule.timezone)
    if schedule.rrule is not None:
        return describe_recurrence(schedule.rrule, schedule.timezone, starts_at=_start(schedule, schedule.rrule))
    if schedule.interval is not None:
        return every(*duration_unit(schedule.interval))
    return "never"


def _start(schedule: Schedule, rrule: str) -> datetime | None:
    """Return where a rule that leaves something open starts, if that is certain: when it was made, mostly."""
    made_at = schedule.created_at
    if schedule.starts_at is not None or is_complete(rrule):
        return schedule.starts_at
    if schedule.next_run is None:
        # What a key names may have been made anew since.
        return made_at if schedule.key is None else None
    rule = Recurrence(rrule)
    found = rule.next_after(schedule.next_run - SHORTLY, timezone=schedule.timezone, anchor=made_at)
    return made_at if found == schedule.next_run else None


def _bounds(schedule: Schedule, zone: ZoneInfo) -> list[str]:
    bounds = []
    if schedule.starts_at is not None:
        bounds.append(f"from {moment_shown(schedule.starts_at, zone)}")
    if schedule.until is not None:
        bounds.append(f"until {moment_shown(schedule.until, zone)}")
    if schedule.remaining is not None:
        bounds.append("once more" if schedule.remaining == 1 else f"{schedule.remaining:,} more times")
    return bounds


def _next_run(schedule: Schedule, zone: ZoneInfo) -> str:
    if schedule.paused:
        return "paused"
    return "no more runs" if schedule.next_run is None else f"next {moment_shown(schedule.next_run, zone)}"


def _with_zone_once(parts: list[str], timezone: str) -> list[str]:
    """Return bounds and next run with the zone beside the first moment; an interval needs none itself."""
    for place, part in enumerate(parts):
        if part.startswith(("from ", "until ", "next ")):
            return [*parts[:place], f"{part} {timezone}", *parts[place + 1 :]]
    return parts
