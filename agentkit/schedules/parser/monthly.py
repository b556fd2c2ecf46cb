"""What the rules for days of the month and of the year make, the same in every language."""

from __future__ import annotations

from dataclasses import replace

from agentkit.schedules.parser.days import months_of
from agentkit.schedules.parser.meanings import CalendarDay, Day, Every, MonthSpan, Problem

Weekdays = frozenset[int]


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


def every_second_date(first: int, months: MonthSpan | int | None = None) -> Every:
    """Return "on odd days of every month" (from 1) or on even ones (from 2), or of June every year."""
    every = Every(unit="month", month_days=frozenset(range(first, 32, 2)))
    return every if months is None else replace(every, unit="year", months=months_of(months))


def days_yearly(days: Weekdays | float, months: MonthSpan | int) -> Every | None:
    """Return "on the 1st and 15th of June and July every year"."""
    every = month_days(days if isinstance(days, frozenset) else frozenset({int(days)}))
    return None if every is None else replace(every, unit="year", months=months_of(months))


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


def yearly(every: Every | Problem) -> Every | Problem | None:
    """Return "on odd days of January every year", which names its months already."""
    return every if isinstance(every, Problem) or every.unit == "year" else None


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
