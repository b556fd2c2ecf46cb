"""What the rules for phrases with a preposition make: "on Monday", "until Friday", "for four weeks"."""

from __future__ import annotations

from agentkit.schedules.parser import amounts, days, recurrences
from agentkit.schedules.parser.meanings import (
    After,
    At,
    Clock,
    Day,
    Duration,
    Every,
    Excluding,
    Lasting,
    MonthSpan,
    On,
    Part,
    Problem,
    Starting,
    Times,
    Unit,
    Until,
)

Weekdays = frozenset[int]
MOST_RUNS = 10_000
"""As many as an iCalendar rule may count here."""
Bound = Day | Clock | Duration | Weekdays | At | Problem | None


def excluding(weekdays: Weekdays) -> Excluding:
    """Return "except Sunday"."""
    return Excluding(weekdays=weekdays)


def excluding_months(span: MonthSpan | int) -> Excluding:
    """Return "except in August"."""
    return Excluding(months=span.months if isinstance(span, MonthSpan) else frozenset({span}))


def after(length: Duration | Problem) -> After | Problem:
    """Return "in ten minutes"."""
    return length if isinstance(length, Problem) else After(length)


def on(day: Day | Weekdays | Problem | None) -> On | Every | Problem | None:
    """Return a day as said with its preposition; several weekdays recur."""
    if day is None or isinstance(day, Problem):
        return day
    if not isinstance(day, frozenset):
        return On(day)
    single_day = days.coming(day)
    return recurrences.every_weekday(day) if single_day is None else On(single_day)


def after_minutes(count: float) -> After | Problem | None:
    """Return "in 10", which means minutes; a larger number is a year or counts something else."""
    return None if count > 600 else after(amounts.duration(count, Unit("minute")))


def until(end: Bound) -> Until | Problem | None:
    """Return "until Friday"."""
    found = _bound(end)
    return found if found is None or isinstance(found, Problem) else Until(found)


def starting(start: Bound) -> Starting | Problem | None:
    """Return "starting on Monday"."""
    found = _bound(start)
    return found if found is None or isinstance(found, Problem) else Starting(found)


def _bound(bound: Bound) -> Day | Clock | Duration | Problem | None:
    if isinstance(bound, frozenset):
        return days.coming(bound)
    if isinstance(bound, At):
        return bound.clocks[0] if len(bound.clocks) == 1 else None
    return bound


def starting_said(said: After | On | At | Problem | Part) -> Starting | Problem | None:
    """Return "starting in two weeks", whose second part has been read before."""
    match said:
        case Problem():
            return said
        case After(duration=duration):
            return Starting(duration)
        case On(day=day):
            return Starting(day)
        case At():
            return starting(said)
        case _:
            return None


def lasting(length: Duration | Problem) -> Lasting | Problem:
    """Return "for four weeks"."""
    return length if isinstance(length, Problem) else Lasting(length)


def lasting_from_now(length: Duration | Problem) -> Lasting | Problem:
    """Return "for the next four weeks"."""
    return length if isinstance(length, Problem) else Lasting(length, coming=True)


def count_of(count: float) -> Times | Problem | None:
    """Return "8 times"."""
    if count != int(count) or count < 1:
        return None
    return (
        Times(int(count)) if count <= MOST_RUNS else Problem("That is more often than I can count. How often in all?")
    )
