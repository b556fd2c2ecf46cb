"""Where a recurrence begins and ends: "starting on Monday", "until Friday", "for four weeks", "8 times"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from agentkit.schedules.parser.calendar_days import add_months, date_of, instant
from agentkit.schedules.parser.meanings import (
    SECONDS,
    Clock,
    Day,
    DayOffset,
    Duration,
    Every,
    Instant,
    MonthSpan,
    Period,
    Problem,
)
from agentkit.schedules.parser.once import moment
from agentkit.schedules.parser.timing import Timing

_END_OF_DAY: Final = time(23, 59, 59)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """First instant, last instant and number of runs; ``is_clock`` when a time of day is where it starts."""

    starts_at: datetime | None = None
    until: datetime | None = None
    count: int | None = None
    is_clock: bool = False


def bounds_of(timing: Timing, every: Every, now: datetime, zone: tzinfo) -> Bounds | Problem:
    """Return the bounds of a recurrence; days that remain beside it, such as "this week", bound it too."""
    start = _start(timing, now, zone)
    if isinstance(start, Problem):
        return start
    if start is not None and start <= now:
        start = None
    end: datetime | Problem | None = None
    if timing.until is not None:
        end = _end(timing.until.end, start or now, now, zone)
    elif timing.day is not None:
        return _whole_period(timing, every, now, zone)
    if isinstance(end, Problem):
        return end
    if timing.lasting is not None:
        lasts = _lasts(timing.lasting.duration, start, now)
        if isinstance(lasts, Problem):
            return lasts
        if not _is_length_of_task(timing.lasting.duration, every) or timing.lasting.coming:
            end = lasts if end is None else min(end, lasts)
    if end is not None and end <= (start or now):
        return Problem("That end is over already. Until when should it run?")
    return Bounds(
        starts_at=None if start is None else start.astimezone(UTC),
        until=None if end is None else end.astimezone(UTC),
        count=timing.times.count if timing.times is not None else None,
        is_clock=timing.starting is not None and isinstance(timing.starting.start, Clock | Duration),
    )


def is_bound(duration: Duration, every: Every) -> bool:
    """Tell whether "for so long" bounds the recurrence; else it is how long the task takes."""
    return not _is_length_of_task(duration, every)


def _is_length_of_task(duration: Duration, every: Every) -> bool:
    period = every.step * SECONDS.get(every.unit or "day", 86400 * (365 if every.unit == "year" else 30))
    if every.unit == "week" and len(every.weekdays) > 1:
        period = SECONDS["day"]
    length = duration.seconds + duration.months * 30 * SECONDS["day"] + duration.workdays * SECONDS["day"]
    return length <= period and not (duration.last in ("week", "month", "year") and length >= period)


def _start(timing: Timing, now: datetime, zone: tzinfo) -> datetime | Problem | None:
    if timing.starting is None:
        return None
    match timing.starting.start:
        case Clock() as clock:
            return moment(Timing(clocks=(clock,)), now, zone)
        case Duration(last="day" | "week" | "month" | "year") as duration:
            later = _months(now + timedelta(seconds=duration.seconds), replace(duration, seconds=0))
            found = later if isinstance(later, Problem) else later.date()
        case Duration() as duration:
            return now + timedelta(seconds=duration.seconds) if not duration.months else _months(now, duration)
        case Instant() as day:
            return moment(Timing(day=day), now, zone)
        case DayOffset() | Period() as day:
            found = date_of(day, now, None)
        case day:
            found = date_of(day, now, Clock(23, 59, exact=True))
    return found if isinstance(found, Problem) else instant(found, Clock(0, 0, exact=True), zone)


def _months(start: datetime, duration: Duration) -> datetime | Problem:
    day = add_months(start.date(), duration.months)
    if isinstance(day, Problem):
        return day
    return datetime.combine(day, start.timetz()) + timedelta(seconds=duration.seconds)


def _lasts(duration: Duration, start: datetime | None, now: datetime) -> datetime | Problem:
    begin = start or now
    try:
        end = _months(begin, duration) if duration.months else begin + timedelta(seconds=duration.seconds)
        if duration.workdays:
            end = begin + timedelta(days=duration.workdays)
    except OverflowError:
        return Problem("Until when should it run?")
    if isinstance(end, Problem) or start is None:
        return end
    return end - timedelta(seconds=1)


def _end(end: Day | Clock | Duration, begin: datetime, now: datetime, zone: tzinfo) -> datetime | Problem:
    match end:
        case Clock():
            return moment(Timing(clocks=(end,)), max(begin, now).astimezone(zone), zone)
        case Duration():
            return _lasts(end, None, now)
        case MonthSpan():
            first = date_of(end, begin, Clock(23, 59, exact=True))
            found = first if isinstance(first, Problem) else _month_end(first)
        case Period(ahead=0) | Period(end=True):
            found = _last_of(end, now)
        case Instant():
            return moment(Timing(day=end), now, zone)
        case _:
            found = date_of(end, begin.astimezone(zone), Clock(23, 59, exact=True))
    if isinstance(found, Problem):
        return found
    return datetime.combine(found, _END_OF_DAY, zone).astimezone(UTC)


def _month_end(first: date) -> date | Problem:
    following = add_months(first.replace(day=1), 1)
    return following if isinstance(following, Problem) else following - timedelta(days=1)


def _last_of(period: Period, now: datetime) -> date | Problem:
    """Return the last day of a week, weekend, month or year."""
    if period.unit in ("week", "weekend"):
        monday = date_of(Period("week", period.ahead), now, None)
        return monday if isinstance(monday, Problem) else monday + timedelta(days=6)
    return date_of(Period(period.unit, period.ahead, end=True), now, None)


def _whole_period(timing: Timing, every: Every, now: datetime, zone: tzinfo) -> Bounds | Problem:
    """Return the bounds of "every hour today" or "every day next week"."""
    unclear = Problem("On which days should it run?")
    count = timing.times.count if timing.times is not None else None
    match timing.day:
        case DayOffset() as day if every.unit in ("second", "minute", "hour"):
            first = last = date_of(day, now, None)
        case Period(unit="week" | "month" | "year" | "weekend", end=False) as period:
            first, last = date_of(replace(period), now, None), _last_of(period, now)
        case _:
            return unclear
    if isinstance(first, Problem) or isinstance(last, Problem):
        return unclear
    begin = instant(first, Clock(0, 0, exact=True), zone)
    if isinstance(begin, Problem):
        return begin
    end = datetime.combine(last, _END_OF_DAY, zone).astimezone(UTC)
    return Bounds(starts_at=begin if begin > now else None, until=end, count=count)
