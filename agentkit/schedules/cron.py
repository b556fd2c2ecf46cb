"""Cron text to a rule, and a rule to the instants it runs at. The one door to ``croniter``.

``croniter`` spells out the fields. It repeats fixed times when clocks go back and knows neither ``LW`` nor
``5L``, so stepping (``cron_fields``) and the way from the wall clock to an instant are our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from agentkit.errors import CronError
from agentkit.schedules.cron_fields import CronFields, DayFields, month_shapes
from agentkit.schedules.wall_clock import (
    MINUTE,
    end_of_change,
    instant_of,
    offsets_at,
    wall_at,
    zone_named,
)

LONGEST_EXPRESSION = 1000

NAMED_RULES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

# Name, lowest and highest value, and what to write instead of a mistake.
MINUTES = ("minute", 0, 59, "0 to 59, as in 30 or */15")
HOURS = ("hour", 0, 23, "0 to 23, as in 9 or 9-17")
DAYS = ("day of month", 1, 31, "1 to 31, L, LW or ?")
MONTHS = ("month", 1, 12, "1 to 12 or JAN to DEC")
WEEKDAYS = ("day of week", 0, 6, "0 to 7 (Sunday is 0 and 7), SUN to SAT, 1#2, 5L or ?")
FIELDS = (MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)

PLAIN = re.compile(r"(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:/(\d{1,2}))?", re.ASCII)
NUMBERED_WEEKDAY = re.compile(r"([a-z]{3}|\d)#([1-5])", re.ASCII)
LAST_WEEKDAY = re.compile(r"l([a-z]{3}|\d)|([a-z]{3}|\d)l", re.ASCII)


@dataclass(frozen=True, slots=True)
class CronRule:
    """When a cron expression runs, by the wall clock of a zone.

    Five fields, minute to day of week, with names, ``7`` as Sunday, lists, ranges (``FRI-MON`` goes round),
    steps, ``?``, ``L``, ``LW``, ``5L`` or ``L5``, ``1#2``, names such as ``@daily``, and several rules joined
    by `` | ``. If day of month and day of week are both restricted, a day that matches either runs. As in
    Debian's cron, a field starting with ``*`` is no restriction in this sense: ``0 0 */2 * 1`` is a Monday
    with an odd date.

    When clocks go forward, a fixed time in the gap runs once, at the first minute after it. When they go
    back, a fixed time runs in the first pass only. An expression with ``*`` at the start of minute or hour
    means a rhythm and follows real time: it runs in both passes, and nothing in the gap is made up for. A day
    that a zone leaves out (Apia, 30 December 2011) is a long gap: what was due on it runs once, as it ends.

    Source: "Scheduler" 8.8 of the specification, and Debian's cron(8).

    >>> rule = CronRule.parse("0 9 * * MON-FRI", "Europe/Berlin")
    >>> rule.next_after(datetime(2026, 3, 27, 12, tzinfo=UTC)).isoformat()
    '2026-03-30T07:00:00+00:00'
    """

    expression: str
    timezone: str
    _zone: ZoneInfo = field(repr=False, compare=False)
    _rules: tuple[CronFields, ...] = field(repr=False, compare=False)

    @staticmethod
    def parse(expression: str, timezone: str) -> CronRule:
        """Return the rule an expression stands for; the same text gives the same object.

        Raises:
            CronError: If the expression is malformed or never runs.
            ScheduleError: If the zone is unknown.
        """
        return _parse(expression, timezone)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first instant later than ``moment`` at which the expression runs, in UTC.

        Raises:
            CronError: If there is none before the year 10000.
            ScheduleError: If ``moment`` is naive.
        """
        try:
            local = wall_at(moment, self._zone)
            instant = moment.astimezone(UTC)
            return min([_next_instant(rule, self._zone, local, instant) for rule in self._rules])
        except OverflowError as error:
            raise CronError(self.expression, f"does not run again after {moment.isoformat()}") from error


def _next_instant(rule: CronFields, zone: ZoneInfo, local: datetime, moment: datetime) -> datetime:
    """Return when one rule runs next; ``local`` is ``moment`` by the clock of the zone."""
    wall = local.replace(tzinfo=None, fold=0)
    if not rule.follows_real_time:
        return _next_fixed_time(rule, zone, wall, moment)
    if local.fold == 0:
        first, second = offsets_at(wall, zone)
        if first > second:
            return _next_in_first_pass(rule, zone, wall, moment)
    return _next_in_real_time(rule, zone, wall, moment)


def _next_fixed_time(rule: CronFields, zone: ZoneInfo, wall: datetime, moment: datetime) -> datetime:
    """Return the next instant of a rule whose times run once a day, whatever the clock does."""
    while True:
        wall = rule.next_wall(wall)
        first, second = offsets_at(wall, zone)
        if first < second:
            wall, first = end_of_change(wall, zone), second
        instant = instant_of(wall, first)
        # False only for walls of the first pass while the second is running.
        if instant > moment:
            return instant


def _next_in_real_time(rule: CronFields, zone: ZoneInfo, wall: datetime, moment: datetime) -> datetime:
    """Return the next instant of a rhythm: every pass of a repeated time counts, a skipped time does not."""
    while True:
        wall = rule.next_wall(wall)
        first, second = offsets_at(wall, zone)
        if first < second:
            wall = end_of_change(wall, zone) - MINUTE
            continue
        instant = instant_of(wall, first)
        if instant <= moment:
            instant = instant_of(wall, second)
        if instant > moment:
            return instant


def _next_in_first_pass(rule: CronFields, zone: ZoneInfo, wall: datetime, moment: datetime) -> datetime:
    """Return the next instant of a rhythm at a moment whose wall will come once more."""
    first, second = offsets_at(wall, zone)
    end = end_of_change(wall, zone)
    found = rule.next_wall(wall)
    if found < end:
        return instant_of(found, first)
    found = rule.next_wall(end - (first - second) - MINUTE)
    if found < end:
        return instant_of(found, second)
    return _next_in_real_time(rule, zone, end - MINUTE, moment)


@lru_cache(maxsize=1024)
def _parse(expression: str, timezone: str) -> CronRule:
    if len(expression) > LONGEST_EXPRESSION:
        reason = f"has {len(expression):,} characters; {LONGEST_EXPRESSION:,} are allowed"
        raise CronError(f"{expression[:50]}…", reason)
    zone = zone_named(timezone)
    rules = tuple(_read_rule(expression, text.strip().lower()) for text in expression.split("|"))
    return CronRule(expression, timezone, zone, rules)


def _read_rule(expression: str, text: str) -> CronFields:
    """Return the fields of one rule; errors name the whole expression."""
    if text.startswith("@") and text not in NAMED_RULES:
        raise CronError(expression, f"has the unknown name {text!r}; use one of {', '.join(NAMED_RULES)}")
    texts = NAMED_RULES.get(text, text).split()
    if len(texts) != len(FIELDS):
        reason = (
            f"has {len(texts)} fields where five are needed: minute, hour, day of month, month, day of week; "
            "there are no seconds and no years"
        )
        raise CronError(expression, reason)
    minute, hour, month = texts[0], texts[1], texts[3]
    days = read_days(expression, texts[2], texts[4])
    rule = CronFields(
        minutes=tuple(sorted(spell_out(expression, minute, MINUTES))),
        hours=tuple(sorted(spell_out(expression, hour, HOURS))),
        months=spell_out(expression, month, MONTHS),
        days={shape: days.in_shape(shape) for shape in month_shapes()},
        follows_real_time=minute.startswith("*") or hour.startswith("*"),
    )
    if not rule.fires():
        raise CronError(expression, "never runs: none of its months has such a day; change day or month")
    return rule


def read_days(expression: str, day: str, weekday: str) -> DayFields:
    """Return the two day fields, with the marks ``croniter`` does not know taken out of them first."""
    day, weekday = ("*" if text == "?" else text for text in (day, weekday))
    days = day.split(",")
    plain_days = [part for part in days if part not in ("l", "lw")]
    plain_weekdays: list[str] = []
    numbered: set[tuple[int, int]] = set()
    last: set[int] = set()
    for part in weekday.split(","):
        if match := NUMBERED_WEEKDAY.fullmatch(part):
            numbered |= {(found, int(match[2])) for found in spell_out(expression, match[1], WEEKDAYS)}
        elif match := LAST_WEEKDAY.fullmatch(part):
            last |= spell_out(expression, match[1] or match[2], WEEKDAYS)
        else:
            plain_weekdays.append(part)
    nothing: frozenset[int] = frozenset()
    return DayFields(
        days=spell_out(expression, ",".join(plain_days), DAYS) if plain_days else nothing,
        has_last_day="l" in days,
        has_last_workday="lw" in days,
        weekdays=spell_out(expression, ",".join(plain_weekdays), WEEKDAYS) if plain_weekdays else frozenset(),
        numbered_weekdays=frozenset(numbered),
        last_weekdays=frozenset(last),
        needs_both=day.startswith("*") or weekday.startswith("*"),
    )


def spell_out(expression: str, text: str, field_kind: tuple[str, int, int, str]) -> frozenset[int]:
    """Return the numbers a field without marks stands for, such as 0, 20 and 40 for ``*/20``."""
    # Imported late: it is slow, and most programs only read expressions once they serve.
    from croniter import CroniterError, croniter

    name, lowest, highest, help_text = field_kind
    position = FIELDS.index(field_kind)
    reason = f"has {text!r} as {name}; use {help_text}"
    parts = []
    for part in text.split(","):
        match = PLAIN.fullmatch(part)
        # croniter takes "*/90" for "*/60": an hour, where an hour and a half was meant.
        if match is None or int(match[3] or 1) > highest - lowest + 1:
            raise CronError(expression, reason)
        # And "9-9" for every hour.
        parts.append(match[1] if match[1] == match[2] else part)
    fields = ["*"] * len(FIELDS)
    fields[position] = ",".join(parts)
    try:
        values = croniter.expand(" ".join(fields))[0][position]
    except CroniterError as error:
        raise CronError(expression, reason) from error
    numbers = frozenset(value for value in values if isinstance(value, int))
    return frozenset(range(lowest, highest + 1)) if "*" in values else numbers
