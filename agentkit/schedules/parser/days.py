"""What the rules for days make, the same in every language."""

from __future__ import annotations

from dataclasses import replace

from agentkit.schedules.parser.meanings import (
    At,
    CalendarDay,
    Clock,
    Day,
    DayOffset,
    Duration,
    MonthDay,
    MonthSpan,
    NthWeekday,
    Period,
    Problem,
    Several,
    Shifted,
    Unit,
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


def month_end(month: int) -> CalendarDay:
    """Return "the last day of February", in every year the right one."""
    return CalendarDay(month, -1)


def fortnight_from(weekdays: Weekdays) -> WeekdayDay | None:
    """Return "Friday fortnight"."""
    weekday = only(weekdays)
    return None if weekday is None else WeekdayDay(weekday, weeks_more=2)


def a_week_after(day: Day | Problem) -> Day | Problem | None:
    """Return "tomorrow week"."""
    return Shifted(day, Duration(7 * 86400, last="week")) if isinstance(day, DayOffset) else None


def weeks_after(length: Duration | Problem, day: Day | None = None) -> Day | Problem | None:
    """Return "two weeks today"."""
    if isinstance(length, Problem) or length.last != "week":
        return None
    return Shifted(day or DayOffset(0), length)


def weekday_in_weeks(length: Duration | Problem, weekdays: Weekdays) -> WeekdayDay | None:
    """Return "in two weeks on Monday", that of the calendar week so many ahead."""
    weekday = only(weekdays)
    if weekday is None or isinstance(length, Problem) or length.last != "week" or length.seconds % 604800:
        return None
    return WeekdayDay(weekday, int(length.seconds // 604800))


def nth_coming(count: float, weekdays: Weekdays) -> WeekdayDay | None:
    """Return "three Fridays from now"."""
    weekday = only(weekdays)
    return WeekdayDay(weekday, weeks_more=int(count) - 1) if weekday is not None and 0 < count < 500 else None


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


def weekday_the(weekdays: Weekdays, number: float) -> Several | Problem | None:
    """Return "Friday the 13th", whose weekday is checked."""
    weekday, day = coming(weekdays), day_of_month(number)
    if weekday is None or not isinstance(day, MonthDay):
        return day if isinstance(day, Problem) else None
    return Several((day, weekday))


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
        case "month" if unit.size == 3:
            return Period("quarter", ahead)
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


def end_of(period: Day | None) -> Day | None:
    """Return "the end of next month"."""
    if isinstance(period, Period) and period.unit != "workday":
        return replace(period, end=True)
    return period if isinstance(period, DayOffset) else None


def shifted(length: Duration | Problem, anchor: Day | Clock | Problem | None) -> Shifted | At | Problem | None:
    """Return "a week from Monday"."""
    if isinstance(length, Problem):
        return length
    if anchor is None or isinstance(anchor, Problem):
        return anchor
    if isinstance(anchor, Clock) and anchor.exact:
        return _moved_clock(anchor, length)
    return Shifted(anchor, length)


def before(length: Duration | Problem, anchor: Day | Clock | Problem | None) -> Shifted | At | Problem | None:
    """Return "ten minutes before noon"."""
    if isinstance(length, Duration) and isinstance(anchor, Clock) and anchor.exact:
        return _moved_clock(anchor, replace(length, seconds=-length.seconds))
    found = shifted(length, anchor)
    return replace(found, sign=-1) if isinstance(found, Shifted) else found


def _moved_clock(clock: Clock, length: Duration) -> At | None:
    minutes, rest = divmod(clock.hour * 60 + clock.minute + length.seconds / 60, 1)
    if rest or length.months or length.workdays or not 0 <= minutes <= 24 * 60:
        return None
    return At((Clock(int(minutes) // 60, int(minutes) % 60, exact=True),))


def nth_weekday(nth: float, weekdays: Weekdays) -> NthWeekday | None:
    """Return "the last Friday", of this month or the next."""
    weekday = only(weekdays)
    return None if weekday is None or nth > 5 else NthWeekday(int(nth), weekday)


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


def weekday_range(first: Weekdays, last: Weekdays) -> Weekdays | None:
    """Return "Monday to Friday"."""
    start, end = only(first), only(last)
    if start is None or end is None or start == end:
        return None
    return frozenset((start + step) % 7 for step in range((end - start) % 7 + 1))


def month_range(first: int, last: int) -> MonthSpan | None:
    """Return "from May to September"."""
    months = frozenset((first - 1 + step) % 12 + 1 for step in range((last - first) % 12 + 1))
    return MonthSpan(months)


def one_month(month: int) -> MonthSpan:
    """Return "in January"."""
    return MonthSpan(frozenset({month}))


def months_too(months: MonthSpan | int, more: MonthSpan | int) -> MonthSpan:
    """Return "January and July"."""
    return MonthSpan(months_of(months) | months_of(more))


def months_of(months: MonthSpan | int) -> frozenset[int]:
    """Return the numbers of a month, or of several."""
    return months.months if isinstance(months, MonthSpan) else frozenset({months})


def union(left: Weekdays | float, right: Weekdays | float) -> Weekdays:
    """Return two sets of numbers, or numbers, as one set."""
    first = left if isinstance(left, frozenset) else frozenset({int(left)})
    second = right if isinstance(right, frozenset) else frozenset({int(right)})
    return first | second


def weekday_number_too(weekdays: Weekdays, number: float) -> Weekdays | None:
    """Return Chinese "每周一三五", whose days are numbers."""
    return weekdays | {int(number) - 1} if 1 <= number <= 6 and number == int(number) else None


def single(number: float) -> Weekdays:
    """Return a number as a set of numbers."""
    return frozenset({int(number)})
