"""When a recurring schedule runs next, and what becomes of runs that were missed. Plain functions."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.clock import LATEST_MS, from_ms, to_ms
from agentkit.errors import CronError
from agentkit.schedules.record import Record
from agentkit.schedules.wall_clock import zone_named

#: Most missed runs that ``catch_up="all"`` makes up for, and the highest count of skipped ones.
MOST_MISSED = 1_000
# Dates, weekdays and leap days come back after 28 years, from 1901 to 2099.
_YEARS_TO_REPEAT = 28
_FIRST_REPEATING_YEAR = 1901


def following(record: Record, after_ms: int) -> int | None:
    """Return the first occurrence strictly after a moment, within ``starts_at`` and ``until``; None if none.

    Raises:
        ScheduleError: The rule or its zone can't be read (any more).
    """
    if record.starts_ms is not None:
        after_ms = max(after_ms, record.starts_ms - 1)
    next_ms = _following(record, after_ms)
    if next_ms is None or (record.until_ms is not None and next_ms > record.until_ms):
        return None
    return next_ms


def _following(record: Record, after_ms: int) -> int | None:
    if record.type == "interval":
        first, interval = record.first_ms or 0, int(record.when)
        if after_ms < first:
            return first
        next_ms = first + ((after_ms - first) // interval + 1) * interval
        return next_ms if next_ms <= LATEST_MS else None
    if record.type == "cron":
        from agentkit.schedules.cron import CronRule

        rule = CronRule.parse(str(record.when), record.timezone)
        try:
            moment = rule.next_after(from_ms(after_ms))
        except CronError:
            return None
        return to_ms(moment)
    from agentkit.schedules.recurrence import Recurrence

    recurrence = Recurrence(str(record.when), record.timezone)
    anchor = from_ms(record.first_ms or 0)
    found = recurrence.next_after(from_ms(after_ms), timezone=record.timezone, anchor=anchor)
    return None if found is None else to_ms(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What to do when a recurring schedule's alarm has come.

    Attributes:
        run_ms: The occurrence to run; None: none.
        skipped: Occurrences left out, at most 1,000.
        next_ms: When to wake again; None: never.
        backlog_ms: The last of the missed occurrences that are made up for one by one; None if none are.
    """

    run_ms: int | None
    skipped: int
    next_ms: int | None
    backlog_ms: int | None = None


def plan_firing(record: Record, due_ms: int, *, now_ms: int, serving_since_ms: int, recovered: bool) -> Firing:
    """Decide which occurrence runs (SPEC 8.6).

    Args:
        record: A recurring schedule.
        due_ms: The occurrence that woke the agent.
        now_ms: The present.
        serving_since_ms: Since when the store has been served; what was due before counts as missed.
        recovered: A crash cut this occurrence off in the middle: it has begun, so it isn't missed.
    """
    after_now = following(record, max(now_ms, due_ms))
    if record.is_manual:
        return Firing(run_ms=due_ms, skipped=0, next_ms=after_now)
    second = following(record, due_ms)
    next_is_due = second is not None and second <= now_ms
    # A clock that was set back shows a time before the start: nothing was missed then.
    was_down = due_ms < serving_since_ms <= now_ms and not recovered
    if not (next_is_due or was_down):
        return Firing(run_ms=due_ms, skipped=0, next_ms=after_now)
    match record.catch_up:
        case "skip":
            if recovered:
                return Firing(run_ms=due_ms, skipped=0, next_ms=second)
            missed = newest_missed(record, due_ms, now_ms, most=MOST_MISSED)
            return Firing(run_ms=None, skipped=len(missed), next_ms=after_now)
        case "once":
            missed = newest_missed(record, due_ms, now_ms, most=MOST_MISSED + 1)
            return Firing(run_ms=missed[-1], skipped=len(missed) - 1, next_ms=after_now)
        case "all":
            return _plan_backlog(record, due_ms, second, now_ms)


def _plan_backlog(record: Record, due_ms: int, second: int | None, now_ms: int) -> Firing:
    """Run the oldest missed occurrence; they are counted once, not again before each of them."""
    if record.backlog_ms is not None and due_ms <= record.backlog_ms:
        return Firing(run_ms=due_ms, skipped=0, next_ms=second, backlog_ms=record.backlog_ms)
    missed = newest_missed(record, due_ms, now_ms, most=2 * MOST_MISSED)
    kept = missed[-MOST_MISSED:]
    return Firing(
        run_ms=kept[0],
        skipped=len(missed) - len(kept),
        next_ms=following(record, kept[0]),
        backlog_ms=kept[-1],
    )


def newest_missed(record: Record, due_ms: int, now_ms: int, *, most: int) -> list[int]:
    """Return the occurrences from ``due_ms`` to now, the newest ``most`` of them, oldest first.

    It looks back from now over a stretch that doubles, so a year of minutes costs no more than a day of them.
    """
    stretch = _closest_together(record) * most
    while True:
        start = max(due_ms, now_ms - stretch)
        found = [due_ms] if start == due_ms else []
        moment = following(record, start)
        while moment is not None and moment <= now_ms:
            found.append(moment)
            moment = following(record, moment)
        if start == due_ms or len(found) >= most:
            return found[-most:]
        stretch *= 2


def _closest_together(record: Record) -> int:
    """Return how many milliseconds lie between two occurrences at least."""
    if record.type == "interval":
        return int(record.when)
    return 60_000 if record.type == "cron" else 1_000


def due_after_set_back(record: Record, due_ms: int, now_ms: int) -> int | None:
    """Return when a schedule is due by a clock that was set back to now; None: as before.

    What has just run doesn't run again for a small correction: a recurring schedule is moved only when it
    would leave out more than one occurrence. An instant that somebody named stays what it is.
    """
    if record.is_manual:
        return now_ms if due_ms > now_ms else None
    if record.type == "delayed":
        latest_ms = now_ms + int(record.when)
        return latest_ms if due_ms > latest_ms else None
    if not record.is_recurring:
        return None
    first = following(record, now_ms)
    second = None if first is None else following(record, first)
    return first if second is not None and due_ms > second else None


def set_back_start(record: Record, now_ms: int) -> None:
    """Move a start that lies ahead, since the clock was set back, into the past; the rhythm stays."""
    if record.first_ms is None or record.first_ms <= now_ms or record.starts_ms is not None:
        return
    if record.type == "interval":
        interval = int(record.when)
        record.first_ms -= (record.first_ms - now_ms - 1) // interval * interval
    elif record.type == "rrule":
        record.first_ms = _earlier_start(record, record.first_ms)


def _earlier_start(record: Record, first_ms: int) -> int:
    """Return a start of the same rule whole rounds of the calendar earlier, where that changes no later date."""
    from agentkit.schedules.recurrence_text import read_rule

    rule = read_rule(str(record.when))
    wall = from_ms(first_ms).astimezone(zone_named(record.timezone))
    year = wall.year - _YEARS_TO_REPEAT * rule.interval
    # Counted rules depend on their start, and before 1901 the calendar repeats otherwise.
    if rule.count is not None or year < _FIRST_REPEATING_YEAR:
        return first_ms
    return to_ms(wall.replace(year=year))
