"""Recurring requests become cron, an interval or an iCalendar rule, whichever says exactly what was asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from agentkit.schedules.parser.bounds import Bounds, bounds_of
from agentkit.schedules.parser.calendar_days import date_of, instant
from agentkit.schedules.parser.meanings import (
    CalendarDay,
    Clock,
    Every,
    MonthDay,
    NthWorkday,
    Problem,
)
from agentkit.schedules.parser.parsed import Cron, Interval, Rrule
from agentkit.schedules.parser.restrictions import clocks_of, with_restrictions
from agentkit.schedules.parser.rhythm import day_fields, day_rules, hours_field, minute_rules
from agentkit.schedules.parser.timing import Timing

_RRULE_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_ALL_WEEK: Final = frozenset(range(7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A recurrence with its bounds."""

    when: Cron | Interval | Rrule
    until: datetime | None = None
    count: int | None = None
    starts_at: datetime | None = None


def repeated(timing: Timing, now: datetime, zone: tzinfo, zone_name: str) -> Repeated | Problem:
    """Return the recurrence a request asks for.

    Args:
        timing: What the request says about time; ``every`` is set.
        now: The moment of the request, aware.
        zone: The zone its clock times are in.
        zone_name: That zone's IANA name.
    """
    now = now.astimezone(zone)
    joined = with_restrictions(timing)
    if isinstance(joined, Problem):
        return joined
    timing, every = joined
    bounds = bounds_of(timing, every, now, zone)
    if isinstance(bounds, Problem):
        return bounds
    if every.needs_time and not timing.clocks:
        return Problem("At what time each night?")
    clocks = clocks_of(timing, every)
    if every.unit in ("second", "minute", "hour"):
        found = _within_a_day(timing, every, bounds, now, zone_name)
    elif timing.window is not None:
        return Problem("How often within those hours should it run?")
    elif every.unit in ("day", "week") and every.step > 1:
        found = _every_some_days(every, clocks, bounds, now, zone, zone_name)
    elif every.step > 1 and not (every.unit == "month" and every.months):
        found = _every_some_months(every, clocks, bounds, now, zone, zone_name)
    elif every.workday > 0:
        found = _nth_workday(every, clocks, bounds, now, zone, zone_name)
    else:
        begin = _first_day_of(bounds, now)
        if bounds.starts_at is not None and every.unit == "month" and not _names_days(every):
            # "every month starting on 5 March"
            every = replace(every, month_days=frozenset({begin.day}))
        found = Repeated(when=Cron(cron=_cron(every, clocks, begin), timezone=zone_name))
    if isinstance(found, Problem):
        return found
    starts_at = found.starts_at if found.starts_at is not None else bounds.starts_at
    return replace(found, until=bounds.until, count=bounds.count, starts_at=starts_at)


def _first_day_of(bounds: Bounds, now: datetime) -> datetime:
    return now if bounds.starts_at is None else bounds.starts_at.astimezone(now.tzinfo)


def _names_days(every: Every) -> bool:
    return bool(every.month_days or every.nth or every.workday or every.dates)


def _within_a_day(timing: Timing, every: Every, bounds: Bounds, now: datetime, zone_name: str) -> Repeated | Problem:
    if timing.clocks or (timing.part and not every.part):
        return Problem("Should it run at that time, or all day long at that interval?")
    window = timing.window
    restricted = bool(every.weekdays or every.months or every.month_days or every.nth or window)
    seconds = every.step * {"second": 1, "minute": 60, "hour": 3600}[every.unit or "hour"]
    cycle = 60 if every.unit == "minute" else 24
    fits = every.unit != "second" and cycle % every.step == 0 and every.step < cycle
    if not restricted and (not fits or (every.minute is None and bounds.is_clock)):
        if every.minute is not None:
            return Problem("How often should it run?")
        return Repeated(when=Interval(interval_seconds=seconds))
    if every.unit == "second" or (window is None and not fits):
        return Problem("I can't keep that rhythm on those days only. At which times should it run?")
    days = day_fields(every)
    if every.unit == "minute":
        if window is None:
            minutes = "*" if every.step == 1 else f"*/{every.step}"
            return Repeated(when=Cron(cron=f"{minutes} * {days}", timezone=zone_name))
        rules = minute_rules(every.step, window)
    else:
        rules = hours_field(every.step, every.minute, window)
    if isinstance(rules, Problem):
        return rules
    return Repeated(when=Cron(cron=" | ".join(f"{rule} {days}" for rule in rules), timezone=zone_name))


def _cron(every: Every, clocks: list[Clock], now: datetime) -> str:
    if every.unit == "week" and not every.weekdays:
        every = replace(every, weekdays=frozenset({now.weekday()}))
    if every.unit in ("month", "year") and not _names_days(every):
        if every.unit == "year" and not every.months:
            every = replace(every, months=frozenset({1}))
        if not every.weekdays:
            every = replace(every, month_days=frozenset({1}))
    if every.unit == "year" and every.month_days and not every.months:
        every = replace(every, months=frozenset({1}))
    by_minute: dict[int, list[int]] = {}
    for clock in clocks:
        by_minute.setdefault(clock.minute, []).append(clock.hour % 24)
    hours = [f"{minute} {','.join(str(hour) for hour in sorted(set(named)))}" for minute, named in by_minute.items()]
    return " | ".join(f"{times} {days}" for days in day_rules(every) for times in hours)


def _every_some_days(
    every: Every, clocks: list[Clock], bounds: Bounds, now: datetime, zone: tzinfo, zone_name: str
) -> Repeated | Problem:
    if len(clocks) > 1:
        return Problem("I can keep such a rhythm for one time of day. Which one?")
    clock = clocks[0]
    earliest = now if bounds.starts_at is None else max(now, bounds.starts_at.astimezone(zone) - timedelta(minutes=1))
    if every.unit == "day" and every.weekdays and every.step % 7 == 0:
        every = replace(every, unit="week", step=every.step // 7)
    if every.unit == "day":
        rule = f"FREQ=DAILY;INTERVAL={every.step}"
        if every.weekdays or every.months:
            return Problem("On which days exactly should it run?")
        start = _first_day(earliest, clock, zone, _ALL_WEEK)
    else:
        weekdays = every.weekdays or frozenset({_first_day_of(bounds, now).weekday()})
        names = ",".join(_RRULE_DAYS[weekday] for weekday in sorted(weekdays))
        rule = f"FREQ=WEEKLY;INTERVAL={every.step};BYDAY={names}"
        if every.months:
            return Problem("On which days exactly should it run?")
        start = _first_day(earliest, clock, zone, weekdays)
    if isinstance(start, Problem):
        return start
    return Repeated(when=Rrule(rrule=rule, timezone=zone_name), starts_at=start)


def _first_day(earliest: datetime, clock: Clock, zone: tzinfo, weekdays: frozenset[int]) -> datetime | Problem:
    for later in range(15):
        day = earliest.date() + timedelta(days=later)
        if day.weekday() in weekdays:
            found = instant(day, clock, zone)
            if isinstance(found, Problem) or found > earliest.astimezone(UTC):
                return found
    return Problem("On which days should it run?")


def _every_some_months(
    every: Every, clocks: list[Clock], bounds: Bounds, now: datetime, zone: tzinfo, zone_name: str
) -> Repeated | Problem:
    several = len(clocks) > 1 or len(every.month_days) > 1
    if several or every.nth or every.dates or every.workday or every.weekdays:
        return Problem("On which dates exactly should it run?")
    clock = clocks[0]
    earliest = now if bounds.starts_at is None else max(now, bounds.starts_at.astimezone(zone) - timedelta(minutes=1))
    frequency = "YEARLY" if every.unit == "year" else "MONTHLY"
    rule = f"FREQ={frequency};INTERVAL={every.step}"
    number = next(iter(every.month_days), 1)
    if every.unit == "year":
        day = date_of(CalendarDay(next(iter(every.months), 1), number), earliest, clock)
    else:
        day = date_of(MonthDay(number), earliest, clock)
        rule += f";BYMONTHDAY={number}"
    if isinstance(day, Problem):
        return day
    start = instant(day, clock, zone)
    if isinstance(start, Problem):
        return start
    return Repeated(when=Rrule(rrule=rule, timezone=zone_name), starts_at=start)


def _nth_workday(
    every: Every, clocks: list[Clock], bounds: Bounds, now: datetime, zone: tzinfo, zone_name: str
) -> Repeated | Problem:
    if len(clocks) > 1 or every.months or every.step > 1:
        return Problem("On which dates exactly should it run?")
    earliest = now if bounds.starts_at is None else max(now, bounds.starts_at.astimezone(zone) - timedelta(minutes=1))
    day = date_of(NthWorkday(every.workday), earliest, clocks[0])
    if isinstance(day, Problem):
        return day
    start = instant(day, clocks[0], zone)
    if isinstance(start, Problem):
        return start
    rule = f"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS={every.workday}"
    return Repeated(when=Rrule(rrule=rule, timezone=zone_name), starts_at=start)
