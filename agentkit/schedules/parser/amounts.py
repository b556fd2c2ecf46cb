"""What the rules for numbers, durations and clock times make, the same in every language."""

from __future__ import annotations

from agentkit.schedules.parser.meanings import (
    SECONDS,
    At,
    Clock,
    DayPart,
    Duration,
    Problem,
    Unit,
    Window,
)
from agentkit.schedules.parser.tokens import clock

Number = int | float
Time = Clock | Problem | Number | None
"""A clock time as the rules hand it over: perhaps still a bare hour, perhaps one that can't be."""


def add(left: Number, right: Number) -> Number:
    """Return "forty" and "five" as 45."""
    return left + right


def times(left: Number, right: Number) -> Number:
    """Return "two" and "hundred" as 200."""
    return left * right


def duration(count: Number, unit: Unit) -> Duration | Problem:
    """Return so many units; months and years are counted as such, all else in seconds."""
    if count <= 0:
        return Problem("That time is not ahead of now. When should it be?")
    if count > 10**7:
        return Problem("That is too far ahead to schedule. When should it be?")
    if unit.name in ("month", "year"):
        months = count * unit.size * (12 if unit.name == "year" else 1)
        if months != int(months):
            return Problem("How many months or days do you mean?")
        return Duration(months=int(months), last=unit.name)
    return Duration(seconds=count * unit.size * SECONDS[unit.name], last=unit.name)


def one(unit: Unit) -> Duration | Problem:
    """Return "an hour"."""
    return duration(1, unit)


def half(unit: Unit) -> Duration | Problem:
    """Return "half an hour"."""
    if unit.name == "year" and unit.size == 1:
        return Duration(months=6, last="month")
    return duration(0.5, unit)


def quarter(unit: Unit) -> Duration | Problem:
    """Return "a quarter of an hour"."""
    return duration(0.25, unit)


def three_quarters(unit: Unit) -> Duration | Problem:
    """Return "three quarters of an hour"."""
    return duration(0.75, unit)


def and_a_half(length: Duration | Problem) -> Duration | Problem:
    """Return "an hour and a half"."""
    if isinstance(length, Problem):
        return length
    if length.last == "year":
        return Duration(length.seconds, length.months + 6, last="month")
    if length.last == "month":
        return Problem("How many days do you mean by half a month?")
    return Duration(length.seconds + SECONDS[length.last] / 2, length.months, last=length.last)


def together(left: Duration | Problem, right: Duration | Problem) -> Duration | Problem | None:
    """Return "two hours" and "ten minutes" as one; the second has to be the smaller unit."""
    if isinstance(left, Problem):
        return left
    if isinstance(right, Problem):
        return right
    if left.workdays or right.workdays:
        return None
    order = ("year", "month", "week", "day", "hour", "minute", "second")
    if order.index(left.last) >= order.index(right.last):
        return None
    return Duration(left.seconds + right.seconds, left.months + right.months, last=right.last)


def either(*_: object) -> Problem:
    """Return the question about "in 5 to 10 minutes"."""
    return Problem("Which of the two? When exactly should it be?")


def hours_minutes(hours: Number, minutes: Number) -> Duration | None:
    """Return "1h30" as a duration."""
    if isinstance(minutes, float) or not 0 <= minutes < 60:
        return None
    return Duration(hours * 3600 + minutes * 60, last="minute")


def hours_and(hours: Number, count: Number, unit: Unit) -> Duration | Problem | None:
    """Return "1 hr 30 min"."""
    return together(Duration(hours * 3600, last="hour"), duration(count, unit))


def spoken(hour: Number, minute: Number) -> Clock | Problem | None:
    """Return "nine thirty"; one figure of minutes is no time of day."""
    if hour != int(hour) or minute != int(minute) or not (0 < hour < 24 and 10 <= minute < 60):
        return None
    return clock(int(hour), int(minute))


def spoken_am(hour: Number, minute: Number) -> Clock | Problem | None:
    """Return "six fifteen am"."""
    return in_the_morning(spoken(hour, minute))


def spoken_pm(hour: Number, minute: Number) -> Clock | Problem | None:
    """Return "seven forty-five pm"."""
    return in_the_afternoon(spoken(hour, minute))


def workdays(count: Number) -> Duration | None:
    """Return "three business days"."""
    return Duration(workdays=int(count), last="day") if 0 < count <= 10000 and count == int(count) else None


def oclock(hour: Number) -> Clock | Problem | None:
    """Return a whole hour, its half of the day open."""
    return clock(int(hour)) if hour == int(hour) and hour >= 0 else None


def exact_clock(hour: Number, minute: Number | None = None) -> Clock | Problem | None:
    """Return "19h30", which says the half of the day."""
    if hour != int(hour) or hour < 0:
        return None
    return clock(int(hour), int(minute or 0), exact=True)


def in_the_morning(time: Time) -> Clock | Problem | None:
    """Return "7 am"."""
    found = as_clock(time)
    if not isinstance(found, Clock) or found.hour > 12:
        return found
    return Clock(found.hour % 12, found.minute, exact=True)


def in_the_afternoon(time: Time) -> Clock | Problem | None:
    """Return "7 pm"; "13 pm" is 13:00."""
    found = as_clock(time)
    if not isinstance(found, Clock) or found.hour > 12:
        return found
    return Clock(found.hour % 12 + 12, found.minute, exact=True)


def as_clock(time: Time) -> Clock | Problem | None:
    """Return a bare number as a whole hour."""
    return oclock(time) if isinstance(time, int | float) else time


def half_past(hour: Time) -> Clock | Problem | None:
    """Return "half past seven"."""
    return minutes_past(30, hour)


def half_before(hour: Time) -> Clock | Problem | None:
    """Return German "halb acht", half past seven."""
    return minutes_to(30, hour)


def quarter_past(hour: Time) -> Clock | Problem | None:
    """Return "quarter past nine"."""
    return minutes_past(15, hour)


def quarter_to(hour: Time) -> Clock | Problem | None:
    """Return "quarter to six"."""
    return minutes_to(15, hour)


def minutes_past(minutes: Number, hour: Time) -> Clock | Problem | None:
    """Return "twenty past eight"."""
    time = as_clock(hour)
    if not isinstance(time, Clock) or time.minute or not 0 <= minutes < 60:
        return time if isinstance(time, Problem) else None
    return Clock(time.hour % 24, int(minutes), time.exact)


def minutes_to(minutes: Number, hour: Time) -> Clock | Problem | None:
    """Return "ten to six"."""
    time = as_clock(hour)
    if not isinstance(time, Clock) or time.minute or not 0 < minutes < 60:
        return time if isinstance(time, Problem) else None
    before = time.hour - 1
    if not time.exact and before < 1:
        before = 12
    return Clock(before % 24, 60 - int(minutes), time.exact)


def with_part(time: Time, part: DayPart) -> Clock | Problem | None:
    """Return "5 in the morning": the part of the day decides the half."""
    found = as_clock(time)
    if not isinstance(found, Clock) or found.exact:
        return found
    return Clock(in_half(found.hour, part), found.minute, exact=True)


def with_part_first(part: DayPart, time: Time) -> Clock | Problem | None:
    """Return "afternoon 3", as Chinese and Japanese say it."""
    return with_part(time, part)


def in_half(hour: int, part: DayPart) -> int:
    """Return the hour of 24 that a clock hour is in that part of the day; 24 is the coming midnight."""
    if hour > 12 or hour == 0:
        return hour
    if part.half == "am":
        return hour % 12
    if part.half == "pm":
        return hour if hour == 12 else hour + 12
    if hour == 12:
        return 24
    return hour if hour < 5 else hour + 12


def at_one(time: Time) -> At | Problem | None:
    """Return a single time of day as named with "at"."""
    if isinstance(time, int | float) and time > 24:
        return None
    found = as_clock(time)
    return At((found,)) if isinstance(found, Clock) else found


def at_more(first: At | Time, more: At | Time) -> At | Problem | None:
    """Return "at 8, 14 and 22:00"."""
    clocks: tuple[Clock, ...] = ()
    for side in (first, more):
        found = side if isinstance(side, At) else at_one(side)
        if found is None or isinstance(found, Problem):
            return found
        clocks += found.clocks
    return At(clocks)


def window(start: Time, end: Time) -> Window | Problem | None:
    """Return "from 9 to 17"; "9 to 5" ends in the afternoon."""
    if any(isinstance(side, int | float) and not 0 <= side <= 24 for side in (start, end)):
        return None
    first, last = as_clock(start), as_clock(end)
    if first is None or last is None:
        return None
    if isinstance(first, Problem):
        return first
    if isinstance(last, Problem):
        return last
    if not last.exact and last.hour <= 12 and (last.hour, last.minute) <= (first.hour, first.minute):
        last = Clock(last.hour % 12 + 12, last.minute, exact=True)
    if not first.exact and last.exact and last.hour > 12 and first.hour < 7 and first.hour + 12 < last.hour:
        first = Clock(first.hour % 12 + 12, first.minute, exact=True)
    return Window(first, last)


def nothing(*_: object) -> None:
    """Refuse the match."""
