"""What the rules for recurrences make, the same in every language."""

from __future__ import annotations

from dataclasses import replace

from agentkit.schedules.parser import amounts
from agentkit.schedules.parser.days import months_of
from agentkit.schedules.parser.meanings import (
    At,
    CalendarDay,
    Clock,
    Day,
    DayPart,
    Duration,
    Every,
    MonthDay,
    MonthSpan,
    Period,
    Problem,
    Rate,
    Several,
    Times,
    Unit,
)

Weekdays = frozenset[int]


def every_unit(unit: Unit) -> Every:
    """Return "every hour"; every quarter is January, April, July and October."""
    if unit.name == "month" and unit.size == 3:
        return Every(unit="month", months=frozenset({1, 4, 7, 10}))
    return _stepped(unit.name, unit.size)


def _stepped(name: str, step: int) -> Every:
    match name:
        case "second" | "minute" | "hour":
            return Every(unit=name, step=step)
        case "day" | "week" | "month" | "year":
            return Every(unit=name, step=step)
    message = f"no such unit: {name}"
    raise ValueError(message)


def every_duration(length: Duration | Problem) -> Every | Problem | None:
    """Return "every 90 minutes" in the largest unit that holds it, "every 3 business days" as a question."""
    if isinstance(length, Problem):
        return Problem("How often should it run?")
    if length.workdays:
        return (
            Every(unit="day", weekdays=frozenset(range(5)))
            if length.workdays == 1
            else Problem("I can't count working days between runs. On which days should it run?")
        )
    if length.months:
        if length.seconds:
            return Problem("I can't repeat in months and days at once. How often should it run?")
        whole_years = length.months % 12 == 0 and length.last == "year"
        return _stepped("year", length.months // 12) if whole_years else _stepped("month", length.months)
    seconds = length.seconds
    if seconds < 1 or seconds != int(seconds):
        return Problem("It can't run more often than once a second. How often should it run?")
    for name, size in (("week", 604800), ("day", 86400)):
        if seconds % size == 0 and (name == length.last or (name == "day" and length.last == "week")):
            return _stepped(name, int(seconds // size))
    for name, size in (("hour", 3600), ("minute", 60)):
        if seconds % size == 0:
            return _stepped(name, int(seconds // size))
    return Every(unit="second", step=int(seconds))


def every_and_a_half(unit: Unit) -> Every | Problem | None:
    """Return "every hour and a half"."""
    return every_duration(amounts.and_a_half(amounts.one(unit)))


def every_between(length: Duration | Problem) -> Every | Problem | None:
    """Return Japanese "2時間おき", every two hours; "1日おき" leaves a day out, and of more days it may mean either."""
    every = every_duration(length)
    if isinstance(every, Problem) or isinstance(length, Problem) or length.last in ("second", "minute", "hour"):
        return every
    return replace(every, step=2) if isinstance(every, Every) and every.step == 1 else None


def every_nth(nth: float, unit: Unit) -> Every | None:
    """Return "every third day"."""
    if nth != int(nth) or nth < 1:
        return None
    return _stepped(unit.name, int(nth) * unit.size)


def every_other(unit: Unit) -> Every:
    """Return "every other day"."""
    return _stepped(unit.name, 2 * unit.size)


def every_weekday(weekdays: Weekdays) -> Every:
    """Return "every Monday and Friday"."""
    return Every(unit="week", weekdays=weekdays)


def every_other_weekday(weekdays: Weekdays) -> Every:
    """Return "every other Monday"."""
    return Every(unit="week", step=2, weekdays=weekdays)


def in_months(every: Every | Problem, months: MonthSpan | int) -> Every | Problem | None:
    """Return Spanish "todos los días de enero"."""
    if isinstance(every, Problem):
        return every
    return None if every.months else replace(every, months=months_of(months))


def within(fine: Every | Rate | Problem, coarse: Every | Rate | Problem) -> Every | Problem | None:
    """Return "every minute of every hour of every day"."""
    if not isinstance(fine, Every) or not isinstance(coarse, Every):
        return None
    is_whole = coarse == Every(unit=coarse.unit) and coarse.unit in ("hour", "day")
    return fine if is_whole and fine.unit in ("second", "minute", "hour") else None


def days_a_week(days: Duration | Problem, week: Duration | Problem) -> Every | Problem | None:
    """Return "seven days a week"; of fewer days it must be said which."""
    if isinstance(days, Problem) or isinstance(week, Problem) or week != Duration(604800, last="week"):
        return None
    if days.last != "day" or days.seconds > week.seconds:
        return None
    return Every(unit="day") if days.seconds == week.seconds else Problem("On which days of the week?")


def on_weekday(every: Every | Problem, weekdays: Weekdays) -> Every | Problem | None:
    """Return "every fortnight on a Sunday"."""
    if isinstance(every, Problem):
        return every
    return replace(every, weekdays=weekdays) if every.unit == "week" and not every.weekdays else None


def every_nth_weekday(nth: float, weekdays: Weekdays) -> Every | None:
    """Return "every third Monday", which is every three weeks."""
    return Every(unit="week", step=int(nth), weekdays=weekdays) if nth == int(nth) and nth > 0 else None


def every_part(part: DayPart) -> Every:
    """Return "every morning"."""
    return Every(unit="day", part=part)


def every_in_part(every: Every, part: DayPart) -> Every | None:
    """Return "every day in the morning"."""
    return replace(every, part=part) if every.part is None else None


def every_month_number(month: int) -> Every:
    """Return "every January", its first day unless another is named."""
    return Every(unit="year", months=frozenset({month}))


def every_date(day: Day | Problem | None) -> Every | Problem | None:
    """Return "every 17 March" or "every 20th"."""
    match day:
        case Problem():
            return day
        case CalendarDay(year=None):
            return Every(unit="year", months=frozenset({day.month}), month_days=frozenset({day.day}))
        case Period(unit="month", ahead=0, end=True):
            return Every(unit="month", month_days=frozenset({-1}))
        case MonthDay(months_ahead=None | 0):
            return Every(unit="month", month_days=frozenset({day.day}))
        case _:
            return None


def minute_of_hour(minute: float | Duration | Problem) -> Every | None:
    """Return "at 20 minutes past each hour"."""
    number = _minutes(minute)
    return None if number is None else Every(unit="hour", minute=number)


def minute_before_hour(minute: float | Duration | Problem) -> Every | None:
    """Return "ten to every hour"."""
    number = _minutes(minute)
    return None if not number else Every(unit="hour", minute=60 - number)


def _minutes(minute: float | Duration | Problem) -> int | None:
    if isinstance(minute, Duration):
        minute = minute.seconds / 60
    if isinstance(minute, Problem) or minute != int(minute) or not 0 <= minute < 60:
        return None
    return int(minute)


def rate(count: float, unit: Unit) -> Rate | Every | None:
    """Return "three times a day", which leaves the hours open; once a day is every day."""
    if count == 1:
        return every_unit(unit)
    return Rate(int(count), unit) if count == int(count) and count > 0 else None


def rate_per(count: float, length: Duration | Problem) -> Rate | Every | None:
    """Return "three times a day", the unit read as a duration of one."""
    if isinstance(length, Problem) or length.workdays:
        return None
    one_of = {"second": (1, 0), "minute": (60, 0), "hour": (3600, 0), "day": (86400, 0), "week": (604800, 0)}
    one_of |= {"month": (0, 1), "year": (0, 12)}
    if (length.seconds, length.months) != one_of[length.last]:
        return None
    return rate(count, Unit(length.last))


def times_per(times: Times | Problem, unit: Unit) -> Rate | Every | Problem | None:
    """Return "three times a day", its count read before."""
    return times if isinstance(times, Problem) else rate(times.count, unit)


def times_per_length(times: Times | Problem, length: Duration | Problem) -> Rate | Every | Problem | None:
    """Return "three times a day", its unit read as a duration."""
    return times if isinstance(times, Problem) else rate_per(times.count, length)


def rate_of(count: float, every: Every | Problem | Rate) -> Rate | None:
    """Return "twice daily"."""
    if not isinstance(every, Every) or every.unit is None or every.step != 1 or not 2 <= count <= 24:
        return None
    return Rate(int(count), Unit(every.unit))


def every_two_parts(first: DayPart, second: DayPart) -> Several:
    """Return "every morning and evening"."""
    clocks = tuple(Clock(part.hour, part.minute, exact=True) for part in (first, second))
    return Several((Every(unit="day"), At(clocks)))
