"""The next runs of a plan, to show what was understood before anything is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentkit.errors import ScheduleError
from agentkit.schedules.cron import CronRule
from agentkit.schedules.parser.parsed import Cron, Delayed, Interval, NoSchedule, ParsedSchedule, Rrule, Scheduled
from agentkit.schedules.recurrence import Recurrence


def next_runs(plan: ParsedSchedule, now: datetime, limit: int) -> list[datetime]:
    """Return the plan's next runs in UTC, at most ``limit``; none for a plan with nothing to schedule.

    Args:
        plan: What a request was understood as.
        now: The moment of the request, aware.
        limit: How many runs to return.

    Raises:
        ScheduleError: If the plan's rule is malformed or never runs.
    """
    limit = limit if plan.count is None else min(limit, plan.count)
    runs: list[datetime] = []
    last = now.astimezone(UTC)
    while len(runs) < limit:
        run = _run_after(plan, now.astimezone(UTC), last)
        if run is None or (plan.until is not None and run > plan.until):
            break
        runs.append(run)
        last = run
    return runs


def _run_after(plan: ParsedSchedule, now: datetime, moment: datetime) -> datetime | None:
    start = plan.starts_at
    try:
        match plan.when:
            case NoSchedule():
                return None
            case Scheduled(date=date):
                return date if date > moment else None
            case Delayed(delay_in_seconds=seconds):
                date = now + timedelta(seconds=seconds)
                return date if date > moment else None
            case Interval(interval_seconds=seconds):
                first = now + timedelta(seconds=seconds) if start is None else start
                passed = (moment - first) // timedelta(seconds=seconds)
                return max(first, first + (passed + 1) * timedelta(seconds=seconds))
            case Cron(cron=cron, timezone=timezone):
                earliest = moment if start is None else max(moment, start - timedelta(seconds=1))
                return CronRule.parse(cron, timezone).next_after(earliest)
            case Rrule(rrule=rrule, timezone=timezone):
                rule = Recurrence(rrule, timezone)
                return rule.next_after(moment, timezone=timezone, anchor=start or now)
    except OverflowError as error:
        message = "the schedule runs beyond the calendar; choose an earlier time"
        raise ScheduleError(message) from error
