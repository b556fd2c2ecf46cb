"""One cron rule as sets of numbers, and the step from one matching wall-clock minute to the next.

Nothing here knows a time zone: walls come in and go out (see ``wall_clock``), always later than before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, datetime

# A month is fully described by the weekday of its first day (Monday is 0) and its length.
MonthShape = tuple[int, int]

MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
SATURDAY = 6
SUNDAY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFields:
    """The two day fields of a rule; weekdays count from Sunday, 0, to Saturday, 6.

    Attributes:
        days: Days of the month.
        has_last_day: ``L``, the month's last day.
        has_last_workday: ``LW``, its last day from Monday to Friday.
        weekdays: Weekdays, each week.
        numbered_weekdays: ``1#2``: the weekday and which one of the month.
        last_weekdays: ``5L``: the last such weekday of the month.
        needs_both: Day of month and weekday must both match. Otherwise either is enough, which is the classic
            rule; as in Debian's cron a field that starts with ``*`` switches it off.
    """

    days: frozenset[int]
    has_last_day: bool
    has_last_workday: bool
    weekdays: frozenset[int]
    numbered_weekdays: frozenset[tuple[int, int]]
    last_weekdays: frozenset[int]
    needs_both: bool

    def in_shape(self, shape: MonthShape) -> tuple[int, ...]:
        """Return the matching days of such a month, ascending."""
        first_weekday, length = shape
        return tuple(day for day in range(1, length + 1) if self._matches(day, first_weekday, length))

    def _matches(self, day: int, first_weekday: int, length: int) -> bool:
        weekday = (first_weekday + day) % 7
        by_month = (
            day in self.days
            or (self.has_last_day and day == length)
            or (self.has_last_workday and day == _last_workday(first_weekday, length))
        )
        by_week = (
            weekday in self.weekdays
            or (weekday, (day + 6) // 7) in self.numbered_weekdays
            or (weekday in self.last_weekdays and day + 7 > length)
        )
        return (by_month and by_week) if self.needs_both else (by_month or by_week)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CronFields:
    """One cron rule, ready to step.

    Attributes:
        minutes: Ascending.
        hours: Ascending.
        months: From 1 to 12.
        days: Matching days, ascending, by the shape of the month.
        follows_real_time: Minute or hour starts with ``*``: the rule means a rhythm, not fixed times of day.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    days: Mapping[MonthShape, tuple[int, ...]]
    follows_real_time: bool

    def fires(self) -> bool:
        """Return whether any day of any year matches: false for 30 February."""
        lengths = {MONTH_LENGTHS[month - 1] for month in self.months}
        if 2 in self.months:
            lengths.add(29)
        return any(self.days[first, length] for first in range(7) for length in lengths)

    def next_wall(self, wall: datetime) -> datetime:
        """Return the first matching minute later than the minute of ``wall``.

        Raises:
            OverflowError: If there is none before the year 10000.
        """
        year, month, day, hour = wall.year, wall.month, wall.day, wall.hour
        days = self._days_of(year, month)
        if day in days:
            position = bisect_right(self.minutes, wall.minute) if hour in self.hours else len(self.minutes)
            if position < len(self.minutes):
                return datetime(year, month, day, hour, self.minutes[position])
            position = bisect_right(self.hours, hour)
            if position < len(self.hours):
                return datetime(year, month, day, self.hours[position], self.minutes[0])
        position = bisect_right(days, day)
        while position == len(days):
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            days, position = self._days_of(year, month), 0
        return datetime(year, month, days[position], self.hours[0], self.minutes[0])

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        if year > MAXYEAR:
            raise OverflowError(year)
        if month not in self.months:
            return ()
        leap_day = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return self.days[datetime(year, month, 1).weekday(), MONTH_LENGTHS[month - 1] + leap_day]


def month_shapes() -> list[MonthShape]:
    """Return all 28 shapes a month can have."""
    return [(first_weekday, length) for first_weekday in range(7) for length in range(28, 32)]


def _last_workday(first_weekday: int, length: int) -> int:
    weekday = (first_weekday + length) % 7
    if weekday == SATURDAY:
        return length - 1
    return length - 2 if weekday == SUNDAY else length
