"""What single phrases mean, before they are put together: the vocabulary of the grammar's results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

UnitName = Literal["second", "minute", "hour", "day", "week", "month", "year"]
SECONDS: dict[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of time; a quarter is three months."""

    name: UnitName
    size: int = 1


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day. ``exact`` is False while the half of the day is open ("at 3")."""

    hour: int
    minute: int = 0
    exact: bool = False


@dataclass(frozen=True, slots=True)
class DayPart:
    """A part of the day: the hour it stands for, and which half "at 8" then falls in."""

    hour: int
    half: Literal["am", "pm", "night"]
    minute: int = 0


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time. ``last`` is its smallest unit, for "two hours and a half"."""

    seconds: float = 0
    months: int = 0
    workdays: int = 0
    last: UnitName = "second"


@dataclass(frozen=True, slots=True)
class Problem:
    """Timing that can't be; the text says why, as a question."""

    question: str


@dataclass(frozen=True, slots=True)
class DayOffset:
    """So many days after today."""

    days: int


@dataclass(frozen=True, slots=True)
class WeekdayDay:
    """A weekday (Monday is 0): the coming one, this week's, or that of a later calendar week."""

    weekday: int
    week: int | None = None
    weeks_more: int = 0


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """A day of the year, -1 for a month's last; without a year the next to come. A weekday said with it must agree."""

    month: int
    day: int
    year: int | None = None
    weekday: int | None = None


@dataclass(frozen=True, slots=True)
class MonthDay:
    """A day of a month, -1 for the last: the next one to come, or that of a month so many ahead."""

    day: int
    months_ahead: int | None = None


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The n-th weekday (-1: the last) of a month, by its number or so many months ahead."""

    nth: int
    weekday: int
    month: int | None = None
    months_ahead: int | None = None


@dataclass(frozen=True, slots=True)
class NthWorkday:
    """The n-th working day of the month, -1 for the last."""

    nth: int


@dataclass(frozen=True, slots=True)
class Period:
    """A week, weekend, month or year as a whole, so many ahead (0: this one)."""

    unit: Literal["week", "weekend", "month", "quarter", "year", "workday"]
    ahead: int
    end: bool = False


@dataclass(frozen=True, slots=True)
class MonthSpan:
    """Whole months by number: "in January", "from May to September"."""

    months: frozenset[int]


@dataclass(frozen=True, slots=True)
class EasterDay:
    """So many days after Easter Sunday."""

    offset: int


@dataclass(frozen=True, slots=True)
class Shifted:
    """A day or clock time moved by a duration, such as "a week from Monday"."""

    anchor: Day | Clock
    duration: Duration
    sign: int = 1


@dataclass(frozen=True, slots=True)
class Instant:
    """A full timestamp; naive when the text gave no offset."""

    moment: datetime


Day = (
    DayOffset
    | WeekdayDay
    | CalendarDay
    | MonthDay
    | NthWeekday
    | NthWorkday
    | Period
    | MonthSpan
    | EasterDay
    | Shifted
    | Instant
)
DAY_TYPES = (
    DayOffset,
    WeekdayDay,
    CalendarDay,
    MonthDay,
    NthWeekday,
    NthWorkday,
    Period,
    MonthSpan,
    EasterDay,
    Shifted,
    Instant,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """A recurrence, or a restriction of one when ``unit`` is None.

    Attributes:
        nth: Pairs of n and weekday within the month; n is -1 for the last.
        workday: The n-th working day of the month.
        dates: Pairs of month and day that are no product of months and days of the month.
        minute: Minute of the hour for hourly rules.
        needs_time: Whether no hour is understood by itself: "nightly".
    """

    unit: UnitName | None = None
    step: int = 1
    seconds: int = 0
    weekdays: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    nth: frozenset[tuple[int, int]] = frozenset()
    workday: int = 0
    dates: frozenset[tuple[int, int]] = frozenset()
    minute: int | None = None
    part: DayPart | None = None
    needs_time: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """Clock times named together."""

    clocks: tuple[Clock, ...]


@dataclass(frozen=True, slots=True)
class On:
    """A day, said with its preposition."""

    day: Day


@dataclass(frozen=True, slots=True)
class After:
    """A delay from now."""

    duration: Duration


@dataclass(frozen=True, slots=True)
class Until:
    """The last day or time of a recurrence."""

    end: Day | Clock | Duration


@dataclass(frozen=True, slots=True)
class Starting:
    """The first day or time of a recurrence."""

    start: Day | Clock | Duration


@dataclass(frozen=True, slots=True)
class Lasting:
    """How long a recurrence goes on; ``coming`` for "the next three days"."""

    duration: Duration
    coming: bool = False

    @property
    def goes_on_for_days(self) -> bool:
        """Whether it is longer than a task takes at a time."""
        return self.duration.last in ("day", "week", "month", "year")


@dataclass(frozen=True, slots=True)
class Times:
    """How often a recurrence runs in all."""

    count: int


@dataclass(frozen=True, slots=True)
class Rate:
    """So many times in a unit, which leaves open when."""

    count: int
    unit: Unit


@dataclass(frozen=True, slots=True)
class Excluding:
    """Weekdays, days of the month or months left out of a recurrence."""

    weekdays: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Window:
    """The hours of the day in which a rule runs, the end included where it falls on a run."""

    start: Clock
    end: Clock


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: an IANA name, or a fixed offset in minutes, or the user's own when both are empty."""

    name: str = ""
    minutes: int | None = None


@dataclass(frozen=True, slots=True)
class Vague:
    """A time that only a person can make precise: "at some point", "soon"."""

    question: str = ""


@dataclass(frozen=True, slots=True)
class Several:
    """Parts said in one phrase, such as "tonight": today, and at night."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """A time that is over: "yesterday", "two hours ago"."""


Part = (
    Clock
    | DayPart
    | Problem
    | Day
    | Every
    | At
    | On
    | After
    | Until
    | Starting
    | Lasting
    | Times
    | Rate
    | Excluding
    | Window
    | Zone
    | Vague
    | Several
    | Past
)
