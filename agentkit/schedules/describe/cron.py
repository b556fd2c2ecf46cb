"""A cron expression in plain English: common ones as people say them, all others field by field, always exact.

Sets of numbers are described, not spellings, so two expressions are described alike only if they run alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from agentkit.schedules.cron import (
    HOURS,
    MINUTES,
    MONTHS,
    NAMED_RULES,
    CronRule,
    read_days,
    spell_out,
)
from agentkit.schedules.cron_fields import DayFields
from agentkit.schedules.describe.days import DayWords, day_words
from agentkit.schedules.describe.times import TimeWords, is_short, time_words
from agentkit.schedules.describe.words import listed

ENDS_IN_TIME: Final = re.compile(r"\d\d:\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRule:
    """One rule of an expression as sets of numbers.

    Attributes:
        times: Minutes of the day.
        days: The two day fields.
        months: From 1 to 12.
        follows_real_time: See ``CronFields``.
    """

    times: frozenset[int]
    days: DayFields
    months: frozenset[int]
    follows_real_time: bool


def describe_cron(expression: str, timezone: str | None = None) -> str:
    """Return when an expression runs, in English.

    Args:
        expression: Anything ``CronRule`` accepts.
        timezone: IANA name, to be said at the end.

    Raises:
        CronError: If the expression is malformed or never runs.
        ScheduleError: If the zone is unknown.

    >>> describe_cron("30 8 * * MON-FRI", "Europe/Berlin")
    'every weekday at 08:30 Europe/Berlin'
    >>> describe_cron("0 9 13 * FRI")
    'on the 13th or on a Friday at 09:00'
    """
    CronRule.parse(expression, timezone or "UTC")
    rules = [_read(expression, text.strip().lower()) for text in expression.split("|")]
    return with_zone(listed([_described(rule) for rule in _merged(rules)]), timezone)


def with_zone(text: str, timezone: str | None) -> str:
    """Return a text with the zone its times are in."""
    if timezone is None:
        return text
    return f"{text} {timezone}" if ENDS_IN_TIME.fullmatch(text[-5:]) else f"{text}, {timezone}"


def sentence(days: DayWords, times: TimeWords) -> str:
    """Return one rule: days and times in the order English wants them."""
    if times.is_rhythm:
        return f"{times.text} {days.on}".strip() + days.condition
    return f"{days.each} {times.text}{days.condition}"


def _read(expression: str, text: str) -> ReadRule:
    minute, hour, day, month, weekday = NAMED_RULES.get(text, text).split()
    hours = spell_out(expression, hour, HOURS)
    minutes = spell_out(expression, minute, MINUTES)
    return ReadRule(
        times=frozenset(hour * 60 + minute for hour in hours for minute in minutes),
        days=read_days(expression, day, weekday),
        months=spell_out(expression, month, MONTHS),
        follows_real_time=minute.startswith("*") or hour.startswith("*"),
    )


def _merged(rules: list[ReadRule]) -> list[ReadRule]:
    """Return rules with fixed times on the same days as one, where that can be said in a few words."""
    merged: list[ReadRule] = []
    for rule in rules:
        for place, other in enumerate(merged):
            times = other.times | rule.times
            if rule == other:
                break
            is_alike = replace(rule, times=times) == replace(other, times=times)
            if is_alike and not rule.follows_real_time and is_short(times):
                merged[place] = replace(other, times=times)
                break
        else:
            merged.append(rule)
    return merged


def _described(rule: ReadRule) -> str:
    times = time_words(rule.times, follows_real_time=rule.follows_real_time)
    return sentence(day_words(rule.days, rule.months), times)
