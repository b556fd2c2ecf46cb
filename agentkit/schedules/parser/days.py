"""What the rules for days and recurrences make, the same in every language."""

from __future__ import annotations

from dataclasses import replace

from agentkit.schedules.parser.meanings import (
    After,
    At,
    CalendarDay,
    Clock,
    Day,
    DayOffset,
    DayPart,
    Duration,
    Every,
    Excluding,
    Lasting,
    MonthDay,
    MonthSpan,
    NthWeekday,
    On,
    Period,
    Problem,
    Rate,
    Shifted,
    Starting,
    Times,
    Unit,
    Until,
    WeekdayDay,
)

Weekdays = frozenset[int]
LONGEST_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}


def only(weekdays: Weekdays) -> int | None:
    """Return the weekday if it is a single one."""
    return next(iter(weekdays)) if len(weekdays) == 1 else None


def coming(weekdays: Weekdays) -> WeekdayDay | None:
    """Return "on Monday"."""
    weekday = only(weekdays)
    return None if weekday is None else WeekdayDay(weekday)


def this_weekday(weekdays: Weekdays) -> WeekdayDay | None:
    """Return "this Monday"."""
    weekday = only(weekdays)
    return None if weekday is None else WeekdayDay(weekday, 0)


def next_weekday(weekdays: Weekdays) -> WeekdayDay | None:
    """Return "next Monday", that of the next calendar week."""
    weekday = only(weekdays)
    return None if weekday is None else WeekdayDay(weekday, 1)


def weekday_after_next(weekdays: Weekdays) -> WeekdayDay | None:
    """Return "the Monday after next"."""
    weekday = only(weekdays)
    return None if weekday is None else WeekdayDay(weekday, 2)


def week_from(weekdays: Weekdays) -> WeekdayDay | None:
    """Return "Monday week"."""
    weekday = only(weekdays)
    return None if weekday is None else WeekdayDay(weekday, weeks_more=1)


def month_day(month: int, day: float, year: int | None = None) -> CalendarDay | Problem | None:
    """Return "March 17, 2027"."""
    if day != int(day) or day < 1:
        return None
    if day > LONGEST_MONTH[month]:
        # "March 2027" without a day is no day at all, "April 31st" is one that does not exist.
        return None if day > 99 else Problem("That day is not in the calendar. Which date do you mean?")
    return CalendarDay(month, int(day), year)


def day_month(day: float, month: int, year: int | None = None) -> CalendarDay | Problem | None:
    """Return "17 March 2027"."""
    return month_day(month, day, year)


def dated_weekday(weekdays: Weekdays, day: Day | Problem) -> Day | Problem | None:
    """Return "Friday, 13 March"."""
    weekday = only(weekdays)
    if isinstance(day, CalendarDay) and weekday is not None:
        return replace(day, weekday=weekday)
    return day if isinstance(day, Problem) else None


def day_of_month(day: float) -> MonthDay | Problem | None:
    """Return "the 20th"."""
    if day != int(day) or day < 1:
        return None
    if day > 31:
        return Problem("No month has that many days. Which date do you mean?")
    return MonthDay(int(day))


def day_of_this_month(day: float) -> MonthDay | Problem | None:
    """Return "the 20th of this month"."""
    found = day_of_month(day)
    return MonthDay(found.day, 0) if isinstance(found, MonthDay) else found


def day_of_next_month(day: float) -> MonthDay | Problem | None:
    """Return "the 20th of next month"."""
    found = day_of_month(day)
    return MonthDay(found.day, 1) if isinstance(found, MonthDay) else found


def _period(unit: Unit, ahead: int) -> Day | None:
    match unit.name:
        case "day":
            return DayOffset(ahead)
        case "week" | "month" | "year" if unit.size == 1:
            return Period(unit.name, ahead)
        case _:
            return None


def this_period(unit: Unit) -> Day | None:
    """Return "this week"."""
    return _period(unit, 0)


def next_period(unit: Unit) -> Day | None:
    """Return "next week"."""
    return _period(unit, 1)


def after_next_period(unit: Unit) -> Day | None:
    """Return "the week after next"."""
    return _period(unit, 2)


def end_of(period: Day) -> Day | None:
    """Return "the end of next month"."""
    if isinstance(period, Period) and period.unit != "workday":
        return replace(period, end=True)
    return period if isinstance(period, DayOffset) else None


def shifted(length: Duration | Problem, anchor: Day | Clock | Problem) -> Shifted | Problem:
    """Return "a week from Monday"."""
    if isinstance(length, Problem):
        return length
    if isinstance(anchor, Problem):
        return anchor
    return Shifted(anchor, length)


def before(length: Duration | Problem, anchor: Day | Clock | Problem) -> Shifted | Problem:
    """Return "ten minutes before noon"."""
    found = shifted(length, anchor)
    return replace(found, sign=-1) if isinstance(found, Shifted) else found


def nth_in_month(nth: float, weekdays: Weekdays, month: int) -> NthWeekday | None:
    """Return "the first Monday of March"."""
    weekday = only(weekdays)
    return None if weekday is None or nth > 5 else NthWeekday(int(nth), weekday, month=month)


def nth_ahead(nth: float, weekdays: Weekdays, period: Day) -> NthWeekday | None:
    """Return "the last Friday of next month"."""
    weekday = only(weekdays)
    if weekday is None or nth > 5 or not isinstance(period, Period) or period.unit != "month":
        return None
    return NthWeekday(int(nth), weekday, months_ahead=period.ahead)


def last_in_month(weekdays: Weekdays, month: int) -> NthWeekday | None:
    """Return "the last Monday of March"."""
    return nth_in_month(-1, weekdays, month)


def last_ahead(weekdays: Weekdays, period: Day) -> NthWeekday | None:
    """Return "the last Friday of this month"."""
    return nth_ahead(-1, weekdays, period)


def last_day_of(period: Day) -> Day | None:
    """Return "the last day of next month"."""
    return end_of(period) if isinstance(period, Period) and period.unit != "week" else None


def every_unit(unit: Unit) -> Every:
    """Return "every hour"; every quarter is January, April, July and October."""
    if unit.name == "month" and unit.size == 3:
        return Every(unit="month", months=frozenset({1, 4, 7, 10}))
    return _stepped(unit.name, unit.size)


def _stepped(name: str, step: int) -> Every:
    match name:
        case "second" | "minute" | "hour":
            return Every(unit=name, step=step)  # type: ignore[arg-type]  # narrowed by the case above
        case "day" | "week" | "month" | "year":
            return Every(unit=name, step=step)  # type: ignore[arg-type]  # as above
    message = f"no such unit: {name}"
    raise ValueError(message)


def every_duration(length: Duration | Problem) -> Every | Problem | None:
    """Return "every 90 minutes" in the largest unit that holds it, "every 3 business days" as a question."""
    if isinstance(length, Problem):
        return Problem("How often should it run?")
    if length.workdays:
        return Every(unit="day", weekdays=frozenset(range(5))) if length.workdays == 1 else Problem(
            "I can't count working days between runs. On which days should it run?"
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


def every_date(day: Day | Problem) -> Every | Problem | None:
    """Return "every 17 March" or "every 20th"."""
    match day:
        case Problem():
            return day
        case CalendarDay(year=None):
            return Every(unit="year", months=frozenset({day.month}), month_days=frozenset({day.day}))
        case MonthDay(months_ahead=None):
            return Every(unit="month", month_days=frozenset({day.day}))
        case _:
            return None


def month_days(days: Weekdays) -> Every | None:
    """Return "the 1st and 15th of every month"; the days come as a set of numbers."""
    if not all(1 <= day <= 31 for day in days):
        return None
    return Every(unit="month", month_days=days)


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


def weekday_range(first: Weekdays, last: Weekdays) -> Weekdays | None:
    """Return "Monday to Friday"."""
    start, end = only(first), only(last)
    if start is None or end is None or start == end:
        return None
    return frozenset((start + step) % 7 for step in range((end - start) % 7 + 1))


def month_range(first: int, last: int) -> MonthSpan | None:
    """Return "from May to September"."""
    months = frozenset((first - 1 + step) % 12 + 1 for step in range((last - first) % 12 + 1))
    return MonthSpan(months, months_in_a_row=True)


def one_month(month: int) -> MonthSpan:
    """Return "in January"."""
    return MonthSpan(frozenset({month}))


def months_too(month: int, more: MonthSpan | int) -> MonthSpan:
    """Return "January and July"."""
    rest = more.months if isinstance(more, MonthSpan) else frozenset({more})
    return MonthSpan(frozenset({month}) | rest)


def union(left: Weekdays | float, right: Weekdays | float) -> Weekdays:
    """Return two sets of numbers, or numbers, as one set."""
    first = left if isinstance(left, frozenset) else frozenset({int(left)})
    second = right if isinstance(right, frozenset) else frozenset({int(right)})
    return first | second


def single(number: float) -> Weekdays:
    """Return a number as a set of numbers."""
    return frozenset({int(number)})


def excluding(weekdays: Weekdays) -> Excluding:
    """Return "except Sunday"."""
    return Excluding(weekdays=weekdays)


def excluding_months(span: MonthSpan | int) -> Excluding:
    """Return "except in August"."""
    return Excluding(months=span.months if isinstance(span, MonthSpan) else frozenset({span}))


def after(length: Duration | Problem) -> After | Problem:
    """Return "in ten minutes"."""
    return length if isinstance(length, Problem) else After(length)


def on(day: Day | Weekdays | Problem) -> On | Every | Problem | None:
    """Return a day as said with its preposition; several weekdays recur."""
    if isinstance(day, Problem):
        return day
    if not isinstance(day, frozenset):
        return On(day)
    single_day = coming(day)
    return every_weekday(day) if single_day is None else On(single_day)


def until(end: Day | Clock | Duration | Weekdays | At | Problem) -> Until | Problem | None:
    """Return "until Friday"."""
    found = _bound(end)
    return found if found is None or isinstance(found, Problem) else Until(found)


def starting(start: Day | Clock | Duration | Weekdays | At | Problem) -> Starting | Problem | None:
    """Return "starting on Monday"."""
    found = _bound(start)
    return found if found is None or isinstance(found, Problem) else Starting(found)


def _bound(bound: Day | Clock | Duration | Weekdays | At | Problem) -> Day | Clock | Duration | Problem | None:
    if isinstance(bound, frozenset):
        return coming(bound)
    if isinstance(bound, At):
        return bound.clocks[0] if len(bound.clocks) == 1 else None
    return bound


def lasting(length: Duration | Problem) -> Lasting | Problem:
    """Return "for four weeks"."""
    return length if isinstance(length, Problem) else Lasting(length)


def lasting_from_now(length: Duration | Problem) -> Lasting | Problem:
    """Return "for the next four weeks"."""
    return length if isinstance(length, Problem) else Lasting(length, coming=True)


def count_of(count: float) -> Times | None:
    """Return "8 times"."""
    return Times(int(count)) if count == int(count) and 1 <= count <= 100_000 else None


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
