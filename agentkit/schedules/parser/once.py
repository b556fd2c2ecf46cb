"""One-off requests: a delay, or a day and a time of day, become a ``Delayed`` or a ``Scheduled``."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from agentkit.schedules.parser.amounts import in_half
from agentkit.schedules.parser.calendar_days import (
    NINE,
    add_months,
    add_workdays,
    date_of,
    instant,
    too_far,
)
from agentkit.schedules.parser.meanings import (
    CalendarDay,
    Clock,
    Day,
    DayOffset,
    DayPart,
    Duration,
    Instant,
    MonthSpan,
    Period,
    Problem,
    Shifted,
    WeekdayDay,
)
from agentkit.schedules.parser.parsed import Delayed, Scheduled
from agentkit.schedules.parser.timing import Timing

_LONGEST_DELAY: Final = 10 * 366 * 86400
_OVER: Final = Problem("That time is over already. When should it be?")


def once(timing: Timing, now: datetime, zone: tzinfo) -> Scheduled | Delayed | Problem:
    """Return when a one-off request runs.

    Args:
        timing: What the request says about time.
        now: The moment of the request, aware, in the user's zone.
        zone: The zone the request's clock times are in.
    """
    if len(timing.clocks) > 1:
        return Problem("At which of these times? I can set one reminder at a time.")
    if timing.after is not None:
        found = _delay(timing, now.astimezone(zone), zone)
    else:
        found = moment(timing, now.astimezone(zone), zone)
    if isinstance(found, Problem | Delayed):
        return found
    if found <= now.astimezone(UTC):
        return _OVER
    return Scheduled(date=found)


def _delay(timing: Timing, now: datetime, zone: tzinfo) -> datetime | Delayed | Problem:
    assert timing.after is not None
    duration = timing.after.duration
    clock = timing.clocks[0] if len(timing.clocks) == 1 else None
    if clock is not None or timing.part is not None or duration.months or duration.workdays:
        day = _later_date(now.date(), duration)
        if isinstance(day, Problem):
            return day
        if clock is None and timing.part is None:
            minute = Clock(now.hour, now.minute, exact=True)
            found = instant(day, minute, zone)
        else:
            found = instant(day, settled(clock, timing.part, has_date=True), zone)
        return found
    seconds = duration.seconds
    if seconds > _LONGEST_DELAY:
        return too_far()
    if seconds < 1:
        return Problem("That time is not ahead of now. When should it be?")
    return Delayed(delay_in_seconds=round(seconds))


def _later_date(today: date, duration: Duration) -> date | Problem:
    if duration.workdays:
        return add_workdays(today, duration.workdays)
    moved = add_months(today, duration.months)
    if isinstance(moved, Problem):
        return moved
    try:
        return moved + timedelta(days=int(duration.seconds // 86400))
    except OverflowError:
        return too_far()


def settled(clock: Clock | None, part: DayPart | None, *, has_date: bool) -> Clock:
    """Return the time of day meant, its half of the day decided; 09:00 when none was said."""
    if clock is None:
        return NINE if part is None else Clock(part.hour, part.minute, exact=True)
    if clock.exact:
        # "midnight tonight" and "12 at night" are the coming midnight; a clock of 24 stays as it is.
        return clock
    if part is not None:
        return Clock(in_half(clock.hour, part), clock.minute, exact=True)
    hour = clock.hour
    if 1 <= hour <= 6:
        return Clock(hour + 12, clock.minute, exact=True)
    return Clock(hour, clock.minute, exact=has_date)


def moment(timing: Timing, now: datetime, zone: tzinfo) -> datetime | Problem:
    """Return the instant, in UTC, that a day and a time of day mean."""
    day: Day | None = timing.day
    if day is not None and timing.months is not None:
        return Problem("On which date exactly?")
    if day is None and timing.months is not None:
        day = timing.months
    said = timing.clocks[0] if timing.clocks else None
    if isinstance(day, Instant):
        naive = day.moment.tzinfo is None
        return _checked(day.moment.replace(tzinfo=zone) if naive else day.moment)
    if isinstance(day, Shifted) and isinstance(day.anchor, Clock):
        return _shifted_clock(day, now, zone, part=timing.part)
    clock = settled(said, timing.part, has_date=day is not None)
    if said is not None and said.hour == 24:
        return _midnight(day, now, zone)
    if isinstance(day, Period) and day.unit == "week" and day.end and said is None and timing.part is None:
        clock = Clock(17, 0, exact=True)
    if day is None:
        return _coming_clock(clock, now, zone)
    if isinstance(day, Period) and day.ahead == 0 and not day.end and day.unit != "weekend":
        return Problem("On which day exactly?")
    found = date_of(day, now, clock)
    if isinstance(found, Problem):
        return found
    if timing.weekday is not None and found.weekday() != timing.weekday:
        return Problem(f"{found.isoformat()} is a {found:%A}. Which day do you mean?")
    if day == DayOffset(0) and timing.part is not None and timing.part.half == "night" and said and clock.hour < 5:
        # "tonight at 2" is after midnight.
        found += timedelta(days=1)
    at = instant(found, clock, zone)
    if not isinstance(at, Problem) and at <= now and said is not None and _may_be_later(said, timing, day):
        # "today at 8", said at noon, leaves the evening.
        return instant(found, Clock(clock.hour + 12, clock.minute, exact=True), zone)
    return at


def _may_be_later(said: Clock, timing: Timing, day: Day) -> bool:
    return isinstance(day, DayOffset) and not said.exact and timing.part is None and 7 <= said.hour < 12


def _checked(when: datetime) -> datetime | Problem:
    try:
        found = when.astimezone(UTC)
    except (OverflowError, ValueError):
        return too_far()
    return found if found.year < 9000 else too_far()


def _coming_clock(clock: Clock, now: datetime, zone: tzinfo) -> datetime | Problem:
    """Return the next time the clock shows that; with the half open, the nearest between 07:00 and 23:00."""
    hours = [clock.hour] if clock.exact else [clock.hour, clock.hour + 12]
    today = now.date()
    for day in (today, today + timedelta(days=1), today + timedelta(days=2)):
        for hour in hours:
            if hour > 23 or (not clock.exact and not 7 <= hour <= 23):
                continue
            found = instant(day, Clock(hour, clock.minute, exact=True), zone)
            if isinstance(found, Problem) or found > now:
                return found
    return _OVER


def _midnight(day: Day | None, now: datetime, zone: tzinfo) -> datetime | Problem:
    """Return the coming 00:00, or the one a named day starts with; tonight's is the end of today."""
    found = now.date() if day is None else date_of(day, now, Clock(23, 59, exact=True))
    if isinstance(found, Problem):
        return found
    if found <= now.date():
        return instant(found, Clock(24, 0, exact=True), zone)
    return instant(found, Clock(0, 0, exact=True), zone)


def _shifted_clock(day: Shifted, now: datetime, zone: tzinfo, *, part: DayPart | None) -> datetime | Problem:
    assert isinstance(day.anchor, Clock)
    at = moment(Timing(clocks=(day.anchor,), part=part), now, zone)
    if isinstance(at, Problem):
        return at
    found = at + timedelta(seconds=day.sign * day.duration.seconds)
    return found if found > now else found + timedelta(days=1)


def names_one_day(day: Day) -> bool:
    """Tell whether a day is one date and no span such as a month."""
    return isinstance(day, DayOffset | WeekdayDay | CalendarDay) or not isinstance(day, MonthSpan)
