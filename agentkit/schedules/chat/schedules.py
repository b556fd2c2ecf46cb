"""Between what a chat decided and what the scheduler takes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from agentkit.clock import from_ms, to_ms
from agentkit.errors import ScheduleError
from agentkit.schedules.chat.targets import Entry
from agentkit.schedules.occurrences import following
from agentkit.schedules.record import Record
from agentkit.schedules.recurrence import Recurrence
from agentkit.schedules.request import Every
from agentkit.schedules.schedule import Schedule

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_RUNS_COMPARED: Final = 50


def request_of(plan: ParsedSchedule | Schedule) -> tuple[Any, dict[str, Any]] | None:
    """Return ``when`` and the bounds to schedule by; None for a paused schedule whose place in time is not known.

    A schedule that exists is asked for again as it goes on from its next run, so that its rhythm stays.
    """
    if not isinstance(plan, Schedule):
        return plan, {}
    kept = {"until": plan.until, "count": plan.remaining, "starts_at": plan.starts_at}
    if plan.type == "cron":
        return plan.cron, kept
    if plan.next_run is None:
        return None
    if plan.interval is not None:
        return Every(plan.interval), kept | {"starts_at": plan.next_run}
    if plan.rrule is not None:
        return Recurrence(plan.rrule, plan.timezone), kept | {"starts_at": plan.next_run}
    return plan.next_run, {}


def with_moment(schedule: Schedule, record: Record, now: datetime) -> Schedule:
    """Return a paused schedule with the run that resuming it would bring, if any; another as it is."""
    if not schedule.paused:
        return schedule
    if schedule.is_recurring:
        moment_ms = following(record, to_ms(now))
    else:
        moment_ms = record.first_ms if record.type == "delayed" else int(record.when)
    return schedule if moment_ms is None else replace(schedule, next_run=from_ms(moment_ms))


def is_same(entry: Entry, plan: ParsedSchedule, task: str) -> bool:
    """Return whether a recurring schedule does what is asked for; one-shots never count as the same."""
    schedule, when = entry.schedule, plan.when
    if entry.task != task or schedule.until != plan.until or schedule.remaining != plan.count:
        return False
    match when.type:
        case "cron":
            return (schedule.cron, schedule.timezone) == (when.cron, when.timezone)
        case "rrule":
            return (schedule.rrule, schedule.timezone) == (when.rrule, when.timezone)
        case "interval":
            return schedule.interval == timedelta(seconds=when.interval_seconds)
        case _:
            return False


def runs_too_often(plan: ParsedSchedule, now: datetime, at_least: timedelta) -> bool:
    """Return whether two of a plan's next runs are closer than that; what never runs is the scheduler's to refuse."""
    from agentkit.schedules.parser.upcoming import next_runs

    try:
        runs = next_runs(plan, now, _RUNS_COMPARED)
    except ScheduleError:
        return False
    return any(later - earlier < at_least for earlier, later in pairwise(runs))
