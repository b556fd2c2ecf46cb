"""The words of descriptions, as tables, and how numbers, lists and moments are said. No rules in here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from agentkit.schedules.wall_clock import offsets_at, wall_at

# Cron counts weekdays from Sunday, 0.
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
WORKDAYS: Final = frozenset(range(1, 6))
MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
# -1 is the last one, whichever number it has.
PLACES: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
UNITS: Final = (
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
    ("millisecond", timedelta(milliseconds=1)),
)


def listed(parts: Sequence[str], word: str = "and") -> str:
    """Return parts as one phrase.

    >>> listed(["1st", "15th", "last day"])
    '1st, 15th and last day'
    """
    return f" {word} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as first and last of each run of three or more, the others on their own.

    >>> runs_of([1, 2, 5, 6, 7])
    [(1, 1), (2, 2), (5, 7)]
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    found: list[tuple[int, int]] = []
    for run in runs:
        found += [(run[0], run[-1])] if len(run) > 2 else [(number, number) for number in run]
    return found


def numbers_listed(numbers: Iterable[int]) -> str:
    """Return numbers as one phrase, such as ``0, 5 and 10 to 14``."""
    return listed([str(first) if first == last else f"{first} to {last}" for first, last in runs_of(numbers)])


def weekday_order(weekday: int) -> int:
    """Return the place of one of cron's weekdays in a week that starts on Monday."""
    return (weekday - 1) % 7


def weekdays_named(weekdays: Iterable[int], ending: str = "") -> list[str]:
    """Return cron's weekdays by name, Monday first, each with an ending such as ``s``."""
    return [WEEKDAYS[weekday] + ending for weekday in sorted(weekdays, key=weekday_order)]


def months_listed(months: Iterable[int]) -> str:
    """Return months as one phrase."""
    return listed([MONTHS[month - 1] for month in sorted(months)])


def ordinal(day: int) -> str:
    """Return a day of the month such as ``1st``."""
    return f"{day}{ENDINGS.get(day, 'th')}"


def clock_time(minute_of_day: int) -> str:
    """Return a time of day such as ``09:30``."""
    return f"{minute_of_day // 60:02}:{minute_of_day % 60:02}"


def every(number: int, unit: str) -> str:
    """Return how often something is, such as ``every hour`` or ``every 90 minutes``."""
    return f"every {unit}" if number == 1 else f"every {number:,} {unit}s"


def duration_unit(duration: timedelta) -> tuple[int, str]:
    """Return a duration in the largest unit that says it in whole numbers: 90 minutes, not an hour and a half.

    Days are said in hours, because a day by the clock may have 23 or 25 of them.
    """
    for unit, length in UNITS:
        if duration % length == timedelta(0):
            return duration // length, unit
    return duration // timedelta(microseconds=1), "microsecond"


def moment_shown(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment by the clock of the zone, to the minute unless it has seconds.

    A time that comes twice, when clocks go back, is shown with its offset; a moment whose wall would be beyond
    the year 9999, in UTC with that offset.
    """
    try:
        local = wall_at(moment, zone)
    except OverflowError:
        return wall_shown(moment)
    wall = local.replace(tzinfo=None, fold=0)
    first, second = offsets_at(wall, zone)
    return wall_shown(local if first > second else wall)


def wall_shown(wall: datetime) -> str:
    """Return what a clock shows, to the minute unless there are seconds, with the offset if it has one."""
    precision = "minutes"
    if wall.microsecond:
        precision = "microseconds" if wall.microsecond % 1000 else "milliseconds"
    elif wall.second:
        precision = "seconds"
    return wall.isoformat(sep=" ", timespec=precision)
