"""Between what a chat decided and what the scheduler takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.schedules.chat_targets import Entry
from agentkit.schedules.recurrence import Recurrence
from agentkit.schedules.request import Every
from agentkit.schedules.schedule import Schedule

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule


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


def is_same(entry: Entry, other: Entry) -> bool:
    """Return whether two recurring schedules do the same; one-shots never count as the same."""
    return entry.schedule.is_recurring and _identity(entry) == _identity(other)


def _identity(entry: Entry) -> tuple[object, ...]:
    schedule = entry.schedule
    timing = (schedule.type, schedule.cron, schedule.interval, schedule.rrule, schedule.timezone)
    return (entry.task, *timing, schedule.until, schedule.remaining)
