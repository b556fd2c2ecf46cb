"""An RFC 5545 recurrence in plain English where it is a common one, and by its own text where it isn't."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time
from typing import Final
from zoneinfo import ZoneInfo

from agentkit.schedules.cron_fields import DayFields
from agentkit.schedules.describe.cron import sentence, with_zone
from agentkit.schedules.describe.days import ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, LAST, DayWords, day_words
from agentkit.schedules.describe.times import MOST_LISTED, TimeWords, is_short, time_words
from agentkit.schedules.describe.words import (
    PLACES,
    WORKDAYS,
    listed,
    moment_shown,
    months_listed,
    ordinal,
    wall_shown,
    weekdays_named,
)
from agentkit.schedules.recurrence_text import RuleText, read_rule
from agentkit.schedules.wall_clock import wall_at, zone_named

# What is said in words; a rule with any other part is given as it is.
SAID_PARTS: Final = {
    "INTERVAL",
    "COUNT",
    "BYHOUR",
    "BYMINUTE",
    "BYSECOND",
    "BYMONTH",
    "BYMONTHDAY",
    "BYSETPOS",
}
NO_PLACES: Final = DayFields(
    days=ALL_DAYS,
    has_last_day=False,
    has_last_workday=False,
    weekdays=ALL_WEEKDAYS,
    numbered_weekdays=frozenset(),
    last_weekdays=frozenset(),
    needs_both=True,
)
OF_EVERY_MONTH: Final = " of every month"
EVERY_YEAR: Final = "every year "
# February may begin and end on a weekend.
FEWEST_WORKDAYS: Final = 20
SAME_TIME: Final = TimeWords(text="at the time of day it was made", is_rhythm=False)


def describe_recurrence(rrule: str, timezone: str, *, starts_at: datetime | None = None) -> str:
    """Return when a recurrence runs, in English.

    Args:
        rrule: Anything ``Recurrence`` accepts.
        timezone: IANA name, said after the times.
        starts_at: Where the rule starts, unless its text has a ``DTSTART``; None if that isn't known, and what
            the rule leaves open isn't either.

    Raises:
        ScheduleError: If the rule is malformed or the zone is unknown.

    >>> describe_recurrence("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "Europe/Berlin")
    'every other Friday at 09:00 Europe/Berlin'
    """
    rule, zone = read_rule(rrule), zone_named(timezone)
    start = rule.start or starts_at
    if start is not None:
        rule = rule.completed_from(_wall(start, zone))
    words = _in_words(rule)
    if words is None:
        return with_zone(f"by the rule {'; '.join(rrule.split())}", timezone)
    return ", ".join([with_zone(words, timezone), *_bounds(rule, zone)])


def is_complete(rrule: str) -> bool:
    """Return whether a rule says all by itself, whatever its start."""
    rule, early, late = read_rule(rrule), datetime(2001, 1, 1), datetime(2002, 2, 3, 4, 5, 6)
    return rule.start is not None or rule.completed_from(early) == rule.completed_from(late)


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment if moment.tzinfo is None else wall_at(moment, zone)


def _in_words(rule: RuleText) -> str | None:
    """Return what a rule says but for its bounds; None if there are no words for it."""
    if rule.extra or rule.excluded or not SAID_PARTS.issuperset(rule.numbers):
        return None
    days, times = _days(rule), _times(rule)
    return None if days is None or times is None else sentence(days, times)


def _bounds(rule: RuleText, zone: ZoneInfo) -> list[str]:
    bounds = [] if rule.start is None else [f"from {_shown(rule.start, zone)}"]
    if rule.until is not None:
        bounds.append(f"until {_shown(rule.until, zone)}")
    if rule.count is not None:
        bounds.append("once in all" if rule.count == 1 else f"{rule.count:,} times in all")
    return bounds


def _shown(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment of a rule; the last one of a day means that day."""
    if moment.tzinfo is not None:
        return moment_shown(moment, zone)
    return moment.date().isoformat() if moment.time() == time.max else wall_shown(moment)


def _times(rule: RuleText) -> TimeWords | None:
    hours, minutes, seconds = (rule.numbers.get(name) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    if hours is None and minutes is None and seconds is None:
        return SAME_TIME
    if hours is None or minutes is None or seconds is None:
        return None
    times = [hour * 60 + minute for hour in hours for minute in minutes]
    if len(times) > 1 and "BYSETPOS" in rule.numbers:
        return None
    if seconds == (0,):
        return time_words(times, follows_real_time=False) if is_short(times) else None
    clock = [time(hour, minute, second) for hour in hours for minute in minutes for second in seconds]
    if len(clock) > MOST_LISTED:
        return None
    return TimeWords(text=f"at {listed([f'{moment:%H:%M:%S}' for moment in clock])}", is_rhythm=False)


def _days(rule: RuleText) -> DayWords | None:
    """Return the words for a rule's days, if there are any."""
    if rule.frequency == "DAILY" and rule.interval > 1:
        has_choice = rule.has_day_parts() or "BYMONTH" in rule.numbers or "BYSETPOS" in rule.numbers
        return None if has_choice else _alike(f"every {rule.interval:,} days")
    if rule.frequency == "WEEKLY" and rule.interval > 1:
        return None if "BYSETPOS" in rule.numbers or "BYMONTHDAY" in rule.numbers else _some_weeks(rule)
    if (place := _workday_place(rule)) is not None:
        return _spaced(_alike(f"on the {place} workday{OF_EVERY_MONTH}"), rule)
    fields = _fields(rule)
    if fields is None:
        return None
    words = day_words(fields, frozenset(rule.numbers.get("BYMONTH", ALL_MONTHS)))
    return words if rule.interval == 1 else _spaced(words, rule)


def _some_weeks(rule: RuleText) -> DayWords | None:
    """Return the words for every so many weeks, which are counted from Monday if that makes a difference."""
    weekdays = _plain_weekdays(rule)
    if not weekdays or (len(weekdays) > 1 and rule.week_starts_on != 0):
        return None
    weeks = "every other week" if rule.interval == 2 else f"every {rule.interval:,} weeks"
    text = f"{weeks} on {listed(weekdays_named(weekdays))}"
    if rule.interval == 2 and len(weekdays) == 1:
        text = f"every other {weekdays_named(weekdays)[0]}"
    months = frozenset(rule.numbers.get("BYMONTH", ALL_MONTHS))
    return _alike(text if months == ALL_MONTHS else f"{text} in {months_listed(months)}")


def _fields(rule: RuleText) -> DayFields | None:
    """Return the days of a rule's months as the day fields of cron, if they can say them."""
    by_month, by_year = rule.frequency == "MONTHLY", rule.frequency == "YEARLY"
    if rule.is_finer_than("DAILY") or (not rule.has_day_parts() and rule.frequency != "DAILY"):
        return None
    if "BYSETPOS" in rule.numbers:
        return _placed_field(rule) if by_month else None
    days = rule.numbers.get("BYMONTHDAY", tuple(ALL_DAYS))
    numbered = frozenset((_from_sunday(day), place) for day, place in rule.weekdays if place is not None)
    is_in_month = not numbered or by_month or (by_year and "BYMONTH" in rule.numbers)
    if min(days) < -1 or not is_in_month or any(place not in PLACES for _, place in numbered):
        return None
    return replace(
        NO_PLACES,
        days=frozenset(day for day in days if day > 0),
        has_last_day=-1 in days,
        weekdays=_plain_weekdays(rule) if rule.weekdays else ALL_WEEKDAYS,
        numbered_weekdays=frozenset((day, place) for day, place in numbered if place > 0),
        last_weekdays=frozenset(day for day, place in numbered if place < 0),
    )


def _placed_field(rule: RuleText) -> DayFields | None:
    """Return the day field of a rule that picks one day of a month with BYSETPOS."""
    weekdays, places = _plain_weekdays(rule), rule.numbers["BYSETPOS"]
    if "BYMONTHDAY" in rule.numbers or len(places) > 1 or places[0] not in PLACES:
        return None
    if weekdays == WORKDAYS and places == (LAST,):
        return replace(NO_PLACES, days=frozenset(), has_last_workday=True)
    if len(weekdays) != 1:
        return None
    (weekday,) = weekdays
    if places == (LAST,):
        return replace(NO_PLACES, weekdays=frozenset(), last_weekdays=weekdays)
    return replace(NO_PLACES, weekdays=frozenset(), numbered_weekdays=frozenset({(weekday, places[0])}))


def _workday_place(rule: RuleText) -> str | None:
    """Return which workday of every month a rule means, counted from the first: ``second``."""
    places = rule.numbers.get("BYSETPOS", ())
    is_plain = rule.frequency == "MONTHLY" and not {"BYMONTH", "BYMONTHDAY"} & set(rule.numbers)
    if not is_plain or _plain_weekdays(rule) != WORKDAYS or len(places) != 1 or not 0 < places[0] <= FEWEST_WORKDAYS:
        return None
    return PLACES.get(places[0], ordinal(places[0]))


def _spaced(words: DayWords, rule: RuleText) -> DayWords | None:
    """Return the words for every so many months or years instead of every one."""
    if rule.interval == 1:
        return words
    if rule.frequency == "YEARLY" and words.each.startswith(EVERY_YEAR):
        text = f"every {rule.interval:,} years {words.each.removeprefix(EVERY_YEAR)}"
        return replace(words, each=text, on=text)
    dates, of_every_month, exception = words.each.partition(OF_EVERY_MONTH)
    if rule.frequency != "MONTHLY" or not of_every_month:
        return None
    note = " (months without one are left out)" if exception else ""
    text = f"every {rule.interval:,} months {dates}"
    return DayWords(each=text, on=text, condition=words.condition + note)


def _plain_weekdays(rule: RuleText) -> frozenset[int]:
    return frozenset(_from_sunday(weekday) for weekday, place in rule.weekdays if place is None)


def _from_sunday(weekday: int) -> int:
    """Return a weekday counted from Monday, 0, as cron counts it."""
    return (weekday + 1) % 7


def _alike(text: str) -> DayWords:
    return DayWords(each=text, on=text)
