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


def month_days(days: Weekdays) -> Every | None:
    """Return "the 1st and 15th of every month"; the days come as a set of numbers."""
    if not all(1 <= day <= 31 for day in days):
        return None
    return Every(unit="month", month_days=days)


def month_day_range(first: float, last: float, months: MonthSpan | int | None = None) -> Every | None:
    """Return "the 1st to 7th of every month", or of June every year."""
    if not 1 <= first < last <= 31:
        return None
    numbers = frozenset(range(int(first), int(last) + 1))
    if months is None:
        return Every(unit="month", month_days=numbers)
    return Every(unit="year", month_days=numbers, months=months_of(months))


def date_range(first: float, last: Day | Problem) -> Every | Problem | None:
    """Return "every year on the 1st to 7th of June", its end read as a date."""
    if not isinstance(last, CalendarDay) or last.year is not None:
        return last if isinstance(last, Problem) else None
    return month_day_range(first, last.day, last.month)


def days_and_last(days: Weekdays | float) -> Every | None:
    """Return "the 1st and the last day of every month"."""
    every = month_days(days if isinstance(days, frozenset) else frozenset({int(days)}))
    return None if every is None else replace(every, month_days=every.month_days | {-1})


def every_second_date(first: int) -> Every:
    """Return "on odd days of every month" (from 1) or on even ones (from 2)."""
    return Every(unit="month", month_days=frozenset(range(first, 32, 2)))


def nth_weekday_yearly(nth: float, weekdays: Weekdays, months: MonthSpan | int) -> Every | None:
    """Return "every year on the first Monday of January and July"."""
    every = nth_weekday_monthly(nth, weekdays)
    return None if every is None else replace(every, unit="year", months=months_of(months))


def last_workday_yearly(_: Weekdays, months: MonthSpan | int) -> Every:
    """Return "every year on the last workday of March"."""
    return Every(unit="year", workday=-1, months=months_of(months))


def last_day_yearly(months: MonthSpan | int) -> Every:
    """Return "every year on the last day of February and June"."""
    return Every(unit="year", month_days=frozenset({-1}), months=months_of(months))


def nth_weekdays_monthly(first: float, weekdays: Weekdays, second: float, others: Weekdays) -> Every | None:
    """Return "the first Monday and the second Tuesday of every month"."""
    one, other = nth_weekday_monthly(first, weekdays), nth_weekday_monthly(second, others)
    return None if one is None or other is None else replace(one, nth=one.nth | other.nth)


def last_month_day(*_: object) -> Every:
    """Return "the last day of every month"."""
    return Every(unit="month", month_days=frozenset({-1}))


def nth_weekday_monthly(nth: float, weekdays: Weekdays, *_: object) -> Every | None:
    """Return "the second Wednesday of every month"."""
    if nth > 5 or nth == 0:
        return None
    return Every(unit="month", nth=frozenset((int(nth), weekday) for weekday in weekdays))


def nth_set_monthly(numbers: frozenset[int], weekdays: Weekdays) -> Every | None:
    """Return "the first and third Monday of the month"."""
    if not all(1 <= number <= 5 for number in numbers):
        return None
    return Every(unit="month", nth=frozenset((nth, weekday) for nth in numbers for weekday in weekdays))


def last_weekday_monthly(weekdays: Weekdays, *_: object) -> Every | None:
    """Return "the last Friday of the month"."""
    return nth_weekday_monthly(-1, weekdays)


def nth_workday_monthly(nth: float, *_: object) -> Every | None:
    """Return "the first working day of the month"."""
    return Every(unit="month", workday=int(nth)) if 1 <= nth <= 20 else None


def last_workday_monthly(*_: object) -> Every:
    """Return "the last working day of the month"."""
    return Every(unit="month", workday=-1)


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
