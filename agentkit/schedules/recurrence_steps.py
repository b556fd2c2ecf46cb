"""The steps of a recurrence: where its periods begin, and its times where a period is a day or less."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product

from agentkit.schedules.recurrence_text import RuleText

PERIODS = {
    "WEEKLY": timedelta(weeks=1),
    "DAILY": timedelta(days=1),
    "HOURLY": timedelta(hours=1),
    "MINUTELY": timedelta(minutes=1),
    "SECONDLY": timedelta(seconds=1),
}

# A rule whose interval steps over all its own times must end the search, which takes 50 ms here.
MOST_STEPS_WITHOUT_A_TIME = 20_000


def period_start(rule: RuleText, start: datetime, earliest: datetime) -> datetime:
    """Return where the rule's last period begins that begins no later than ``earliest``.

    Args:
        rule: Its interval counts from the period ``start`` is in.
        start: Where the rule starts.
        earliest: Not before ``start``.
    """
    if rule.frequency in PERIODS:
        first = _beginning(rule, start)
        period = PERIODS[rule.frequency] * rule.interval
        return first + (earliest - first) // period * period
    if rule.frequency == "MONTHLY":
        months = earliest.year * 12 + earliest.month - start.year * 12 - start.month
        years, month = divmod(start.month - 1 + months // rule.interval * rule.interval, 12)
        return datetime(start.year + years, month + 1, 1)
    years = (earliest.year - start.year) // rule.interval * rule.interval
    return datetime(start.year + years, 1, 1)


def matching_times(rule: RuleText, first_period: datetime, days: Iterator[datetime]) -> Iterator[datetime]:
    """Yield the times of a rule that goes by days, hours, minutes or seconds, ascending.

    Args:
        rule: With all parts spelled out.
        first_period: Where its first period begins.
        days: The days it may run on, at midnight, ascending; the search ends with them.
    """
    try:
        yield from _search(rule, first_period, days)
    # The end of the calendar is the end of the search.
    except OverflowError:
        return


def _search(rule: RuleText, first_period: datetime, days: Iterator[datetime]) -> Iterator[datetime]:
    period = PERIODS[rule.frequency] * rule.interval
    moment = first_period
    day = next(days, None)
    steps = 0
    while steps < MOST_STEPS_WITHOUT_A_TIME:
        steps += 1
        while day is not None and moment - day >= PERIODS["DAILY"]:
            day = next(days, None)
        if day is None:
            return
        next_try = max(day, _next_fitting_time(rule, moment))
        if next_try > moment:
            moment += -((moment - next_try) // period) * period
            continue
        for found in _times_within(rule, moment):
            steps = 0
            yield found
        moment += period


def _beginning(rule: RuleText, moment: datetime) -> datetime:
    """Return where the week, day, hour, minute or second of a moment begins."""
    if rule.frequency == "WEEKLY":
        moment -= timedelta(days=(moment.weekday() - rule.week_starts_on) % 7)
    moment = moment.replace(microsecond=0)
    if not rule.is_finer_than("MINUTELY"):
        moment = moment.replace(second=0)
    if not rule.is_finer_than("HOURLY"):
        moment = moment.replace(minute=0)
    return moment if rule.is_finer_than("DAILY") else moment.replace(hour=0)


def _next_fitting_time(rule: RuleText, moment: datetime) -> datetime:
    """Return ``moment`` if the parts finer than its day allow it, else the next beginning worth a try."""
    numbers = rule.numbers
    if rule.is_finer_than("DAILY") and moment.hour not in numbers.get("BYHOUR", (moment.hour,)):
        return moment.replace(minute=0, second=0) + PERIODS["HOURLY"]
    if rule.is_finer_than("HOURLY") and moment.minute not in numbers.get("BYMINUTE", (moment.minute,)):
        return moment.replace(second=0) + PERIODS["MINUTELY"]
    if rule.is_finer_than("MINUTELY") and moment.second not in numbers.get("BYSECOND", (moment.second,)):
        return moment + PERIODS["SECONDLY"]
    return moment


def _times_within(rule: RuleText, moment: datetime) -> list[datetime]:
    """Return the times of the one period that begins at ``moment``."""
    numbers = rule.numbers
    hours = (moment.hour,) if rule.is_finer_than("DAILY") else numbers["BYHOUR"]
    minutes = (moment.minute,) if rule.is_finer_than("HOURLY") else numbers["BYMINUTE"]
    seconds = (moment.second,) if rule.is_finer_than("MINUTELY") else numbers["BYSECOND"]
    times = [
        moment.replace(hour=hour, minute=minute, second=second)
        for hour, minute, second in product(hours, minutes, seconds)
    ]
    positions = numbers.get("BYSETPOS")
    if positions is None:
        return times
    places = {position - 1 if position > 0 else len(times) + position for position in positions}
    return [time for place, time in enumerate(times) if place in places]
