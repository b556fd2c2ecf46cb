"""Parts of one request put together: each fills its slot, or is refused because the slot is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from agentkit.schedules.parser.meanings import (
    DAY_TYPES,
    After,
    At,
    CalendarDay,
    Clock,
    Day,
    DayOffset,
    DayPart,
    Every,
    Excluding,
    Lasting,
    MonthDay,
    MonthSpan,
    NthWeekday,
    NthWorkday,
    On,
    Part,
    Past,
    Period,
    Problem,
    Rate,
    Several,
    Shifted,
    Starting,
    Times,
    Until,
    Vague,
    WeekdayDay,
    Window,
    Zone,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What a request says about time, slot by slot."""

    clocks: tuple[Clock, ...] = ()
    part: DayPart | None = None
    day: Day | None = None
    weekday: int | None = None
    every: Every | None = None
    after: After | None = None
    until: Until | None = None
    starting: Starting | None = None
    lasting: Lasting | None = None
    times: Times | None = None
    rate: Rate | None = None
    excluding: Excluding | None = None
    months: MonthSpan | None = None
    window: Window | None = None
    zone: Zone | None = None
    vague: Vague | None = None
    problem: Problem | None = None
    past: Past | None = None

    @property
    def has_moment(self) -> bool:
        """Whether anything says when to run, not only how long or until when."""
        return bool(self.clocks or self.part or self.day or self.every or self.after or self.rate or self.problem) or (
            self.months is not None
        )


def fill(timing: Timing, part: Part) -> Timing | None:
    """Return the timing with the part in its slot, or None when another part already says it."""
    match part:
        case Several(parts=parts):
            filled: Timing | None = timing
            for single in parts:
                filled = fill(filled, single) if filled is not None else None
            return filled
        case Problem():
            return replace(timing, problem=timing.problem or part)
        case Past():
            return replace(timing, past=part)
        case Vague():
            return replace(timing, vague=timing.vague or part)
        case Clock():
            return _fill_clocks(timing, (part,))
        case At(clocks=clocks):
            return _fill_clocks(timing, clocks)
        case DayPart():
            other = timing.part or (timing.every.part if timing.every is not None else None)
            free = timing.after is None and (other is None or other == part)
            return replace(timing, part=part) if free else None
        case On(day=day):
            return _fill_day(timing, day)
        case After():
            free = timing.after is None and timing.every is None and timing.day is None
            return replace(timing, after=part) if free else None
        case Every():
            return _fill_every(timing, part)
        case MonthSpan():
            return replace(timing, months=part) if timing.months is None and timing.after is None else None
        case _ if isinstance(part, DAY_TYPES):
            return _fill_day(timing, part)
        case _:
            return _fill_bound(timing, part)


def _fill_bound(timing: Timing, part: Part) -> Timing | None:
    match part:
        case Until():
            return replace(timing, until=part) if timing.until is None else None
        case Starting():
            return replace(timing, starting=part) if timing.starting is None else None
        case Lasting():
            return replace(timing, lasting=part) if timing.lasting is None else None
        case Times():
            return replace(timing, times=part) if timing.times is None else None
        case Rate():
            return replace(timing, rate=part) if timing.rate is None else None
        case Excluding():
            if timing.excluding is None:
                return replace(timing, excluding=part)
            both = Excluding(timing.excluding.weekdays | part.weekdays, timing.excluding.months | part.months)
            return replace(timing, excluding=both)
        case Window():
            return replace(timing, window=part) if timing.window is None else None
        case Zone():
            return replace(timing, zone=part) if timing.zone is None else None
        case _:
            return None


def _fill_clocks(timing: Timing, clocks: tuple[Clock, ...]) -> Timing | None:
    if timing.clocks:
        return timing if timing.clocks == clocks else None
    if timing.after is not None and timing.after.duration.last in ("second", "minute", "hour"):
        return None
    return replace(timing, clocks=clocks)


def _fill_day(timing: Timing, day: Day) -> Timing | None:
    if isinstance(day, MonthSpan):
        return fill(timing, day)
    if timing.after is not None:
        return None
    if timing.every is not None and not _suits(timing.every, day):
        return None
    if timing.day is None:
        return replace(timing, day=day)
    if timing.day == day:
        return timing
    if timing.every is not None and isinstance(day, CalendarDay) and isinstance(timing.day, CalendarDay):
        # "every year on 1 January, 1 April and 1 July"
        every = day_into_every(timing.every, timing.day)
        return None if every is None else replace(timing, every=every, day=day)
    # "Friday, 13 March" in pieces, and "Monday next week" said apart.
    match timing.day, day:
        case DayOffset() | MonthDay(), WeekdayDay(week=None, weekday=weekday):
            return replace(timing, weekday=weekday)
        case WeekdayDay(week=None, weekday=weekday), DayOffset():
            return replace(timing, day=day, weekday=weekday)
        case CalendarDay(weekday=None) as dated, WeekdayDay(week=None, weekday=weekday):
            return replace(timing, day=replace(dated, weekday=weekday))
        case WeekdayDay(week=None, weekday=weekday), CalendarDay(weekday=None) as dated:
            return replace(timing, day=replace(dated, weekday=weekday))
        case (Period(unit="week", ahead=ahead), WeekdayDay(week=None, weekday=weekday)) | (
            WeekdayDay(week=None, weekday=weekday),
            Period(unit="week", ahead=ahead),
        ):
            return replace(timing, day=WeekdayDay(weekday, ahead))
    return None


def _fill_every(timing: Timing, every: Every) -> Timing | None:
    if timing.every is None:
        suits = timing.after is None and (timing.day is None or _suits(every, timing.day))
        return replace(timing, every=every) if suits else None
    both = merge(timing.every, every)
    return None if both is None else replace(timing, every=both)


def _suits(every: Every, day: Day) -> bool:
    """Tell whether a day can restrict the recurrence, as "the 5th" does "monthly", or bound it, as "this week"."""
    if isinstance(day, Period | MonthDay | NthWeekday):
        return True
    if isinstance(day, DayOffset):
        return every.unit in ("second", "minute", "hour", None)
    return every.unit is None or day_into_every(every, day) is not None


def names_days(every: Every) -> bool:
    """Tell whether a recurrence says on which days it runs, as "every day" and "on Mondays" do."""
    named = every.weekdays or every.month_days or every.months or every.nth or every.dates or every.workday
    return bool(named) or every.unit not in ("week", "month", "year")


_RANK = {None: 9, "second": 0, "minute": 1, "hour": 2, "day": 3, "week": 4, "month": 5, "year": 6}


def merge(first: Every, second: Every) -> Every | None:
    """Return two recurrences of one request as one: "every hour" and "on weekdays", or None if they differ."""
    if first == second:
        return first
    fine, coarse = sorted((first, second), key=lambda every: _RANK[every.unit])
    if fine.unit == coarse.unit and fine.unit is not None:
        if fine.step != coarse.step and 1 not in (fine.step, coarse.step):
            return None
        if fine.unit not in ("week", "month", "day", "hour", "year"):
            return None
    elif coarse.unit is not None:
        # A finer rhythm within a coarser one: only what restricts, such as weekdays, can be kept.
        restricts = coarse.weekdays or coarse.nth or coarse.month_days or coarse.months or coarse.workday
        if coarse.step != 1 or not (restricts or fine.unit == "day" or coarse.unit in ("hour", "day")):
            return None
        if fine.unit == "day" and fine.step == 1 and not restricts:
            return None
    if fine.weekdays and coarse.weekdays and fine.unit == "week" == coarse.unit and fine.step != coarse.step:
        return None
    unit = fine.unit
    if fine.unit == "day" and fine.step == 1 and coarse.unit in ("week", "month", "year"):
        unit = coarse.unit
    step = fine.step if fine.unit != coarse.unit else max(fine.step, coarse.step)
    if fine.part is not None and coarse.part is not None and fine.part != coarse.part:
        return None
    return Every(
        unit=unit,
        step=step,
        weekdays=fine.weekdays | coarse.weekdays,
        month_days=fine.month_days | coarse.month_days,
        months=fine.months | coarse.months,
        nth=fine.nth | coarse.nth,
        workday=fine.workday or coarse.workday,
        dates=fine.dates | coarse.dates,
        minute=coarse.minute if fine.minute is None else fine.minute,
        part=fine.part or coarse.part,
        needs_time=fine.needs_time or coarse.needs_time,
    )


def day_into_every(every: Every, day: Day) -> Every | None:
    """Return the recurrence on that day: "every month" on "the 5th", or None where the two don't fit."""
    match day:
        case WeekdayDay(week=None, weeks_more=0, weekday=weekday) if every.unit == "week":
            if every.weekdays and weekday not in every.weekdays:
                return None
            return replace(every, weekdays=every.weekdays | {weekday})
        case MonthDay(months_ahead=None, day=number) if every.unit in ("month", "year"):
            return replace(every, month_days=every.month_days | {number})
        case CalendarDay(year=None, month=month, day=number) if every.unit == "year":
            named = every.dates or frozenset(product(every.months, every.month_days))
            if named:
                return replace(every, months=frozenset(), month_days=frozenset(), dates=named | {(month, number)})
            if every.months not in (frozenset(), frozenset({month})):
                return None
            return replace(every, months=frozenset({month}), month_days=frozenset({number}))
        case Period(unit="month", ahead=0, end=True) if every.unit in ("month", "year"):
            return replace(every, month_days=frozenset({-1}))
        case Period(unit="weekend", ahead=0) if every.unit == "week":
            return replace(every, weekdays=frozenset({5, 6}))
        case NthWeekday(nth=nth, weekday=weekday, months_ahead=months_ahead, month=month) if every.unit in (
            "month",
            "year",
        ) and months_ahead in (None, 0):
            months = every.months | (frozenset({month}) if month else frozenset())
            return replace(every, nth=frozenset({(nth, weekday)}), months=months)
        case NthWorkday(nth=nth) if every.unit == "month":
            return replace(every, workday=nth)
        case Shifted():
            return None
        case _:
            return None
