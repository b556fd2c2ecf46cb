"""The days of a cron rule in English: days of the month, weekdays, months, and how they go together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from agentkit.schedules.cron_fields import MONTH_LENGTHS, DayFields
from agentkit.schedules.describe.words import (
    MONTHS,
    PLACES,
    WEEKDAYS,
    WORKDAYS,
    listed,
    months_listed,
    ordinal,
    runs_of,
    weekday_order,
    weekdays_named,
)

ALL_DAYS: Final = frozenset(range(1, 32))
ALL_WEEKDAYS: Final = frozenset(range(7))
ALL_MONTHS: Final = frozenset(range(1, 13))
PARITIES: Final = {
    frozenset(range(1, 32, 2)): "odd days",
    frozenset(range(2, 32, 2)): "even days",
}
LAST: Final = -1
LEAP_DAY: Final = "29 February"
LONGEST_LENGTHS: Final = (31, 29, *MONTH_LENGTHS[2:])
MOST_DATES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DayWords:
    """On which days, for either place in a sentence.

    Attributes:
        each: Before the times: ``every Monday`` at 09:00.
        on: After a rhythm: every hour ``on Mondays``; empty for every day.
        condition: At the end of the sentence: `` if that is a Friday``; mostly empty.
    """

    each: str
    on: str
    condition: str = ""


def day_words(days: DayFields, months: frozenset[int]) -> DayWords:
    """Return on which days of which months a rule runs."""
    is_any_date, is_any_weekday = days.days >= ALL_DAYS, days.weekdays >= ALL_WEEKDAYS
    has_places = bool(days.numbered_weekdays or days.last_weekdays)
    within = "" if months == ALL_MONTHS else f"in {months_listed(months)}"
    if (is_any_date and is_any_weekday) or (not days.needs_both and (is_any_date or is_any_weekday)):
        return DayWords(each=f"every day {within}".strip(), on=within)
    if is_any_weekday:
        return _date_words(days, months)
    if is_any_date and not has_places:
        return _weekday_words(days.weekdays, within)
    if is_any_date and not days.weekdays:
        return _placed_words(days, months)
    if is_any_date or not days.needs_both:
        return _either_words(days, is_any_date=is_any_date, within=within)
    dates = _date_words(days, months)
    return replace(dates, condition=f"{dates.condition} if that is {listed(_weekday_choices(days), 'or')}")


def _weekday_words(weekdays: frozenset[int], within: str) -> DayWords:
    left_out = weekdays_named(ALL_WEEKDAYS - weekdays)
    if len(left_out) == 1:
        each = f"every day {within} except {left_out[0]}" if within else f"every day except {left_out[0]}"
        return DayWords(each=each, on=f"{within} except on {left_out[0]}s".strip())
    each, on = f"every {listed(weekdays_named(weekdays))}", f"on {listed(weekdays_named(weekdays, 's'))}"
    if weekdays == WORKDAYS:
        each, on = "every weekday", "on weekdays"
    return DayWords(each=f"{each} {within}".strip(), on=f"{on} {within}".strip())


def _date_words(days: DayFields, months: frozenset[int]) -> DayWords:
    if dates := _dates_of_year(days, months):
        if dates == [LEAP_DAY]:
            return DayWords(each=f"every {LEAP_DAY}", on=f"on every {LEAP_DAY}")
        note = f" (not every year has a {LEAP_DAY})" if LEAP_DAY in dates else ""
        return _yearly(listed(dates), note)
    parts = _date_parts(days)
    shortest = min(MONTH_LENGTHS[month - 1] for month in months)
    singles = [] if days.days in PARITIES else [first for first, last in runs_of(days.days) if first == last]
    missing = [ordinal(day) for day in singles if day > shortest]
    return _of_months(listed(parts), months, missing=missing, is_alone=len(parts) == 1)


def _placed_words(days: DayFields, months: frozenset[int]) -> DayWords:
    parts = _placed(days, "and")
    fifths = [weekday for weekday, place in days.numbered_weekdays if place == max(PLACES)]
    missing = [f"fifth {name}" for name in weekdays_named(fifths)]
    is_alone = len(days.numbered_weekdays) + len(days.last_weekdays) == 1
    return _of_months(listed(parts), months, missing=missing, is_alone=is_alone)


def _of_months(dates: str, months: frozenset[int], *, missing: list[str], is_alone: bool) -> DayWords:
    """Return the words for dates of months; months that miss some of them are never passed over in silence."""
    note = f" (not every month has a {listed(missing, 'or')})" if missing else ""
    if months != ALL_MONTHS:
        return _yearly(f"{dates} of {months_listed(months)}", note)
    text = f"on {dates} of every month"
    if missing and is_alone:
        return DayWords(each=f"{text} that has one", on=f"{text} that has one")
    return DayWords(each=text, on=text, condition=note)


def _yearly(dates: str, note: str) -> DayWords:
    return DayWords(each=f"every year on {dates}", on=f"on {dates} every year", condition=note)


def _either_words(days: DayFields, *, is_any_date: bool, within: str) -> DayWords:
    """Return the words for days that match by any of several fields or kinds of weekday."""
    dates = [] if is_any_date else [listed(_date_parts(days), "or")]
    text = " or ".join(f"on {choice}" for choice in dates + _weekday_choices(days))
    return DayWords(each=text, on=text, condition=f", {within}" if within else "")


def _dates_of_year(days: DayFields, months: frozenset[int]) -> list[str]:
    """Return the dates of a year, such as ``25 December``, if they are few and nothing else is asked for."""
    if months == ALL_MONTHS or days.has_last_day or days.has_last_workday:
        return []
    dates = [(month, day) for month in sorted(months) for day in sorted(days.days)]
    real = [f"{day} {MONTHS[month - 1]}" for month, day in dates if day <= LONGEST_LENGTHS[month - 1]]
    return real if len(real) <= MOST_DATES else []


def _date_parts(days: DayFields) -> list[str]:
    """Return days of the month, the first of them with its article."""
    parity = PARITIES.get(days.days)
    parts = []
    if parity is None:
        parts = [
            ordinal(first) if first == last else f"{ordinal(first)} to {ordinal(last)}"
            for first, last in runs_of(days.days)
        ]
    parts += ["last day"] if days.has_last_day else []
    parts += ["last workday"] if days.has_last_workday else []
    parts[:1] = [f"the {part}" for part in parts[:1]]
    return parts if parity is None else [parity, *parts]


def _placed(days: DayFields, word: str) -> list[str]:
    """Return the weekdays that have a place in the month: ``the first and third Monday``."""
    placed = days.numbered_weekdays | {(weekday, LAST) for weekday in days.last_weekdays}
    found = []
    for weekday in sorted({weekday for weekday, _ in placed}, key=weekday_order):
        places = [PLACES[place] for place in PLACES if (weekday, place) in placed]
        found.append(f"the {listed(places, word)} {WEEKDAYS[weekday]}")
    return found


def _weekday_choices(days: DayFields) -> list[str]:
    """Return what a day may be: ``a Monday or Friday``, ``the first Tuesday``."""
    named = "weekday" if days.weekdays == WORKDAYS else listed(weekdays_named(days.weekdays) or [""], "or")
    return ([f"a {named}"] if days.weekdays else []) + _placed(days, "or")
