"""When a recurring schedule runs next, and what becomes of runs that were missed. Plain functions."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.clock import LATEST_MS, from_ms, to_ms
from agentkit.errors import CronError
from agentkit.schedules.schedule import Record

#: Most missed runs that ``catch_up="all"`` makes up for, and the highest count of skipped ones.
MOST_MISSED = 1_000


def following(record: Record, after_ms: int) -> int | None:
    """Return the first occurrence strictly after a moment, within ``starts_at`` and ``until``; None if none."""
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

        try:
            moment = CronRule.parse(str(record.when), record.timezone).next_after(from_ms(after_ms))
        except CronError:
            return None
        return to_ms(moment)
    from agentkit.schedules.recurrence import Recurrence

    rule = Recurrence(str(record.when), record.timezone)
    anchor = from_ms(record.first_ms or 0)
    found = rule.next_after(from_ms(after_ms), timezone=record.timezone, anchor=anchor)
    return None if found is None else to_ms(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What to do when a recurring schedule's alarm has come.

    Attributes:
        run_ms: The occurrence to run; None: none.
        skipped: Occurrences left out.
        next_ms: When to wake again; None: never.
    """

    run_ms: int | None
    skipped: int
    next_ms: int | None


def plan_firing(
    record: Record, due_ms: int, *, now_ms: int, serving_since_ms: int, recovered: bool
) -> Firing:
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
    is_missed = next_is_due or (due_ms < serving_since_ms and not recovered)
    if not is_missed:
        return Firing(run_ms=due_ms, skipped=0, next_ms=after_now)
    missed = newest_missed(record, due_ms, now_ms) if next_is_due else [due_ms]
    match record.catch_up:
        case "skip":
            return Firing(run_ms=None, skipped=len(missed), next_ms=after_now)
        case "once":
            return Firing(run_ms=missed[-1], skipped=len(missed) - 1, next_ms=after_now)
        case "all":
            following_ms = missed[1] if len(missed) > 1 else after_now
            return Firing(run_ms=missed[0], skipped=0, next_ms=following_ms)


def newest_missed(record: Record, due_ms: int, now_ms: int) -> list[int]:
    """Return the occurrences from ``due_ms`` to now, the newest 1,000 at most, oldest first.

    It looks back from now over a stretch that doubles, so a year of minutes costs no more than a day of them.
    """
    second = following(record, due_ms)
    gap = max((second or now_ms) - due_ms, 1)
    stretch = gap * (MOST_MISSED + 1)
    while True:
        start = max(due_ms - 1, now_ms - stretch)
        found = []
        moment = following(record, start)
        while moment is not None and moment <= now_ms:
            found.append(moment)
            moment = following(record, moment)
        if start < due_ms:
            # The occurrence that is due may lie off the rule by now (an edited expression); it counts all the same.
            found = found if found and found[0] == due_ms else [due_ms, *found]
            return found[-MOST_MISSED:]
        if len(found) >= MOST_MISSED:
            return found[-MOST_MISSED:]
        stretch *= 2
