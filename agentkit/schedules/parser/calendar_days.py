"""Days become dates, and dates with a time of day become instants; nothing here knows a language."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from agentkit.schedules.parser.meanings import (
    CalendarDay,
    Clock,
    Day,
    DayOffset,
    Duration,
    EasterDay,
    Instant,
    MonthDay,
    MonthSpan,
    NthWeekday,
    NthWorkday,
    Period,
    Problem,
    Shifted,
    WeekdayDay,
)

NINE: Final = Clock(9, 0, exact=True)
LAST_YEAR: Final = 9000
_FRIDAY, _SATURDAY = 4, 5


def date_of(day: Day, now: datetime, clock: Clock | None) -> date | Problem:
    """Return the date meant, seen from a local ``now``; ``clock`` decides whether today is still ahead."""
    today = now.date()
    match day:
        case DayOffset(days=days):
            return _moved(today, days)
        case WeekdayDay():
            return _weekday(day, now, clock)
        case CalendarDay():
            return _calendar(day, now, clock)
        case MonthDay():
            return _month_day(day, now, clock)
        case NthWeekday():
            return _nth_weekday(day, now, clock)
        case NthWorkday(nth=nth):
            return _first_ahead([nth_workday(today, nth, ahead) for ahead in (0, 1)], now, clock)
        case Period():
            return _period(day, now)
        case MonthSpan(months=months):
            firsts = [date(today.year + later, month, 1) for later in (0, 1) for month in sorted(months)]
            return _first_ahead(firsts, now, clock)
        case EasterDay(offset=offset):
            years = (today.year, today.year + 1)
            return _first_ahead([easter(year) + timedelta(days=offset) for year in years], now, clock)
        case Shifted(anchor=anchor, duration=duration, sign=sign):
            if isinstance(anchor, Clock):
                return today
            start = date_of(anchor, now, clock)
            return start if isinstance(start, Problem) else _shift_date(start, duration, sign)
        case Instant(moment=moment):
            return moment.date()


def _moved(start: date, days: int) -> date | Problem:
    try:
        moved = start + timedelta(days=days)
    except OverflowError:
        return too_far()
    return moved if moved.year < LAST_YEAR else too_far()


def too_far() -> Problem:
    """Return the question for a time beyond the calendar."""
    return Problem("That is too far ahead to schedule. When should it be?")


def _shift_date(start: date, duration: Duration, sign: int) -> date | Problem:
    if duration.workdays:
        return add_workdays(start, duration.workdays * sign)
    moved = add_months(start, duration.months * sign)
    if isinstance(moved, Problem):
        return moved
    return _moved(moved, int(sign * duration.seconds // 86400))


def add_months(start: date, months: int) -> date | Problem:
    """Return the date so many calendar months later, the month's last day where it is shorter."""
    index = start.year * 12 + start.month - 1 + months
    year, month = divmod(index, 12)
    if not 1 <= year < LAST_YEAR:
        return too_far()
    return date(year, month + 1, min(start.day, calendar.monthrange(year, month + 1)[1]))


def add_workdays(start: date, count: int) -> date | Problem:
    """Return the date so many working days later, Saturday and Sunday left out."""
    if abs(count) > 10000:
        return too_far()
    moved = start
    left = abs(count)
    while left:
        moved += timedelta(days=1 if count > 0 else -1)
        left -= moved.weekday() < _SATURDAY
    return moved


def _is_ahead(day: date, now: datetime, clock: Clock | None) -> bool:
    time_of_day = clock or NINE
    return (day, time_of_day.hour, time_of_day.minute) > (now.date(), now.hour, now.minute)


def _first_ahead(days: list[date], now: datetime, clock: Clock | None) -> date:
    return next((day for day in sorted(days) if _is_ahead(day, now, clock)), days[-1])


def _weekday(day: WeekdayDay, now: datetime, clock: Clock | None) -> date | Problem:
    today = now.date()
    monday = today - timedelta(days=today.weekday())
    if day.week is not None:
        found = _moved(monday, 7 * day.week + day.weekday)
        # "this Monday" said on a Wednesday can't be the one that is over.
        if not isinstance(found, Problem) and day.week == 0 and not _is_ahead(found, now, clock):
            found = _moved(found, 7)
    else:
        found = _moved(today, (day.weekday - today.weekday()) % 7)
        if not isinstance(found, Problem) and not _is_ahead(found, now, clock):
            found = _moved(found, 7)
    return found if isinstance(found, Problem) else _moved(found, 7 * day.weeks_more)


def _calendar(day: CalendarDay, now: datetime, clock: Clock | None) -> date | Problem:
    missing = Problem("That day is not in the calendar. Which date do you mean?")
    years = [day.year] if day.year is not None else list(range(now.year, now.year + 9))
    for year in years:
        if not 1 <= year < LAST_YEAR:
            return too_far()
        if not 1 <= day.month <= 12:
            continue
        length = calendar.monthrange(year, day.month)[1]
        number = length if day.day == -1 else day.day
        if not 1 <= number <= length:
            continue
        found = date(year, day.month, number)
        if day.year is None and not _is_ahead(found, now, clock):
            continue
        if day.weekday is not None and found.weekday() != day.weekday:
            named = calendar.day_name[found.weekday()]
            return Problem(f"{found.isoformat()} is a {named}. Which day do you mean?")
        return found
    return missing


def _month_day(day: MonthDay, now: datetime, clock: Clock | None) -> date | Problem:
    today = now.date()
    candidates = range(14) if day.months_ahead is None else (day.months_ahead,)
    for ahead in candidates:
        first = add_months(today.replace(day=1), ahead)
        if isinstance(first, Problem):
            return first
        length = calendar.monthrange(first.year, first.month)[1]
        number = length if day.day == -1 else day.day
        if number > length:
            continue
        found = first.replace(day=number)
        if day.months_ahead is not None or _is_ahead(found, now, clock):
            return found
    return Problem("That month is too short. Which date do you mean?")


def nth_weekday(year: int, month: int, nth: int, weekday: int) -> date | None:
    """Return the n-th such weekday of a month (-1: the last), or None where there is none."""
    first, length = calendar.monthrange(year, month)
    days = list(range((weekday - first) % 7 + 1, length + 1, 7))
    if nth > len(days):
        return None
    return date(year, month, days[nth - 1] if nth > 0 else days[nth])


def nth_workday(today: date, nth: int, ahead: int) -> date:
    """Return the n-th working day (-1: the last) of the month so many ahead."""
    first = add_months(today.replace(day=1), ahead)
    if isinstance(first, Problem):
        return today
    length = calendar.monthrange(first.year, first.month)[1]
    days = [first.replace(day=number) for number in range(1, length + 1)]
    working = [day for day in days if day.weekday() < _SATURDAY]
    return working[nth - 1] if nth > 0 else working[nth]


def _nth_weekday(day: NthWeekday, now: datetime, clock: Clock | None) -> date | Problem:
    today = now.date()
    found: list[date] = []
    for ahead in range(26) if day.months_ahead is None else (day.months_ahead,):
        first = add_months(today.replace(day=1), ahead)
        if isinstance(first, Problem) or (day.month is not None and first.month != day.month):
            continue
        candidate = nth_weekday(first.year, first.month, day.nth, day.weekday)
        if candidate is not None:
            found.append(candidate)
    if not found:
        return Problem("That month has no such weekday. Which date do you mean?")
    return _first_ahead(found, now, clock)


def easter(year: int) -> date:
    """Return Easter Sunday of a year, by the anonymous Gregorian computus."""
    golden, century, rest = year % 19, year // 100, year % 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    late = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * late + 114, 31)
    return date(year, month, day + 1)


def _period(day: Period, now: datetime) -> date | Problem:
    today = now.date()
    monday = today - timedelta(days=today.weekday())
    match day.unit:
        case "week":
            return _moved(monday, 7 * day.ahead + (_FRIDAY if day.end else 0))
        case "weekend":
            saturday = _moved(monday, 7 * day.ahead + _SATURDAY)
            afternoon = not isinstance(saturday, Problem) and (saturday, 9) <= (today, now.hour)
            return _moved(monday, 6) if day.ahead == 0 and afternoon else saturday
        case "month":
            first = add_months(today.replace(day=1), day.ahead + day.end)
            return first if isinstance(first, Problem) or not day.end else first - timedelta(days=1)
        case "quarter":
            first = add_months(today.replace(day=1), 3 * (day.ahead + day.end) - (today.month - 1) % 3)
            return first if isinstance(first, Problem) or not day.end else first - timedelta(days=1)
        case "year":
            return date(today.year + day.ahead, 12 if day.end else 1, 31 if day.end else 1)
        case "workday":
            return add_workdays(today, day.ahead)


def instant(day: date, clock: Clock, zone: tzinfo) -> datetime | Problem:
    """Return the instant in UTC of a wall clock time; one in a spring gap moves on by the gap (RFC 5545, 3.3.5)."""
    try:
        if clock.hour >= 24:
            day, clock = day + timedelta(days=1), Clock(clock.hour - 24, clock.minute, exact=True)
        return datetime.combine(day, time(clock.hour, clock.minute), zone).astimezone(UTC)
    except (OverflowError, ValueError):
        return too_far()
