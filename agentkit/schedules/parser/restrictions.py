"""What restricts a recurrence is put into it: days, months, exceptions, and the hours it is anchored at."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agentkit.schedules.parser.days import LONGEST_MONTH
from agentkit.schedules.parser.meanings import Clock, DayOffset, Every, Problem, Rate, UnitName
from agentkit.schedules.parser.once import settled
from agentkit.schedules.parser.timing import Timing, day_into_every

_ALL_WEEK: Final = frozenset(range(7))
_QUARTERS: Final = frozenset({1, 4, 7, 10})


def with_restrictions(timing: Timing) -> tuple[Timing, Every] | Problem:
    """Return the recurrence with the day, the months and the exceptions said beside it, and what is left."""
    every = timing.every
    assert every is not None
    if timing.rate is not None and not _names_all(timing, every, timing.rate):
        return Problem("At which times should it run?")
    if timing.day is not None and not isinstance(timing.day, DayOffset):
        joined = day_into_every(every, timing.day)
        if joined is not None:
            every = joined
            timing = replace(timing, day=None)
    if timing.months is not None:
        if every.months and every.months != timing.months.months:
            return Problem("In which months should it run?")
        every = replace(every, months=timing.months.months)
    if timing.excluding is not None:
        every = replace(every, months=_without(every.months, timing.excluding.months, frozenset(range(1, 13))))
        weekdays = _without(every.weekdays, timing.excluding.weekdays, _ALL_WEEK)
        steps = every.step > 1 and every.unit not in ("second", "minute", "hour")
        if timing.excluding.weekdays and (steps or every.month_days or every.nth or not weekdays):
            return Problem("On which days exactly should it run?")
        unit = "week" if every.unit == "day" and timing.excluding.weekdays else every.unit
        every = replace(every, weekdays=weekdays, unit=unit)
    if every.weekdays and (every.month_days or every.nth or every.dates) and every.unit != "hour":
        return Problem("Do you mean the days of the week or the days of the month?")
    ends = -1 in every.month_days or every.workday == -1 or any(nth == -1 for nth, _ in every.nth)
    if every.unit == "month" and every.months == _QUARTERS and ends:
        every = replace(every, months=frozenset({3, 6, 9, 12}))
    if every.month_days and every.nth:
        return Problem("On which dates exactly should it run?")
    longest = max((LONGEST_MONTH[month] for month in every.months), default=31)
    if any(day > longest for day in every.month_days):
        return Problem("Those months have no such day. Which dates do you mean?")
    if every.unit is None and every.minute is not None:
        return Problem("How often should it run?")
    if every.unit == "minute" and every.minute is not None:
        return Problem("Should it run once an hour, or all the time at that interval?")
    if every.unit in ("day", "week") and every.step == 1 and every.minute is not None:
        if every.minute and timing.window is None:
            return Problem("At that minute of which hour?")
        # "every Monday from 9 to 17, on the hour"
        every = replace(every, unit="hour")
    if every.unit is None:
        every = replace(every, unit="week")
    if every.unit == "hour" and timing.clocks:
        return _anchored(timing, every)
    return timing, every


def _names_all(timing: Timing, every: Every, rate: Rate) -> bool:
    """Tell whether the request names as many times, or days, as it says: "twice a day, at 8 and 20:00"."""
    match rate.unit.name:
        case "day":
            return len(timing.clocks) == rate.count
        case "week":
            return len(every.weekdays) == rate.count
        case "month":
            return len(every.month_days) + len(every.nth) == rate.count
        case "year":
            return max(len(every.months), len(every.dates)) == rate.count
        case _:
            return False


def _anchored(timing: Timing, every: Every) -> tuple[Timing, Every] | Problem:
    """Return "every 8 hours at 6" as every day at 6, 14 and 22:00."""
    unclear = Problem("Should it run at that time, or all day long at that interval?")
    if 24 % every.step or every.step == 1 or timing.window is not None or every.minute is not None:
        return unclear
    named = clocks_of(timing, every)
    first = named[0]
    hours = sorted((first.hour + step) % 24 for step in range(0, 24, every.step))
    clocks = tuple(Clock(hour, first.minute, exact=True) for hour in hours)
    if len(named) > 1 and sorted(clock.hour for clock in named) != hours:
        return unclear
    unit: UnitName = "week" if every.weekdays else "day"
    return replace(timing, clocks=clocks), replace(every, unit=unit, step=1)


def _without(chosen: frozenset[int], left_out: frozenset[int], everything: frozenset[int]) -> frozenset[int]:
    return (chosen or everything) - left_out if left_out else chosen


def clocks_of(timing: Timing, every: Every) -> list[Clock]:
    """Return the times of day at which it runs, their half of the day decided."""
    part = timing.part or every.part
    if not timing.clocks:
        return [settled(None, part, has_date=True)]
    clocks = timing.clocks
    if part is None and any(clock.exact and clock.hour > 12 for clock in clocks):
        # Beside 14:00 and 22:00, "at 8" and "at 6" are hours of 24 too.
        clocks = tuple(replace(clock, exact=True) for clock in clocks)
    chosen: list[Clock] = []
    for clock in clocks:
        time = settled(clock, part, has_date=True)
        # "at 8, 2 and 8" goes on through the day.
        passed = chosen and (time.hour, time.minute) <= (chosen[-1].hour, chosen[-1].minute)
        if passed and not clock.exact and time.hour + 12 < 24:
            time = replace(time, hour=time.hour + 12)
        chosen.append(time)
    return sorted(chosen, key=lambda clock: (clock.hour, clock.minute))
