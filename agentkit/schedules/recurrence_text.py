"""The text of an RFC 5545 recurrence to a checked value. No clock, no zone and no ``dateutil`` here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from functools import lru_cache

from agentkit.errors import ScheduleError

LONGEST_TEXT = 10_000
# Counting is done once per rule, but all of it at once.
MOST_COUNTED = 10_000

# From the coarsest to the finest: the order decides whether a part adds times or leaves some out.
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
DAY_PARTS = ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")
TIME_PARTS = {"BYHOUR": "HOURLY", "BYMINUTE": "MINUTELY", "BYSECOND": "SECONDLY"}

NUMBER_PARTS = {
    "BYSECOND": (0, 59),
    "BYMINUTE": (0, 59),
    "BYHOUR": (0, 23),
    "BYMONTHDAY": (1, 31),
    "BYYEARDAY": (1, 366),
    "BYWEEKNO": (1, 53),
    "BYMONTH": (1, 12),
    "BYSETPOS": (1, 366),
    "INTERVAL": (1, 999_999),
    "COUNT": (1, MOST_COUNTED),
}
FROM_THE_END = {"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS"}
SINGLE = {"INTERVAL", "COUNT"}

NUMBER = re.compile(r"[+-]?\d{1,6}", re.ASCII)
WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
DATE = re.compile(r"\d{8}", re.ASCII)
DATE_TIME = re.compile(r"(\d{8}T\d{6})(Z?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """What a recurrence says. Its moments are walls (naive) or, where they ended in ``Z``, aware UTC.

    Attributes:
        frequency: One of ``FREQUENCIES``.
        numbers: The parts that list numbers, such as ``BYHOUR``, ascending.
        weekdays: ``BYDAY``: weekday from Monday, 0, and which one of the month or year, None for each.
        week_starts_on: Weekday from Monday, 0.
        until: Last moment allowed.
        start: ``DTSTART``, if the text has one.
        extra: ``RDATE``.
        excluded: ``EXDATE``.
    """

    frequency: str
    numbers: Mapping[str, tuple[int, ...]]
    weekdays: tuple[tuple[int, int | None], ...]
    week_starts_on: int
    until: datetime | None
    start: datetime | None
    extra: tuple[datetime, ...]
    excluded: tuple[datetime, ...]

    @property
    def interval(self) -> int:
        """Every how many periods."""
        return self.numbers.get("INTERVAL", (1,))[0]

    @property
    def count(self) -> int | None:
        """How many occurrences in all."""
        return self.numbers.get("COUNT", (None,))[0]

    def is_finer_than(self, frequency: str) -> bool:
        """Return whether its periods are shorter than those of ``frequency``."""
        return FREQUENCIES.index(self.frequency) > FREQUENCIES.index(frequency)

    def has_day_parts(self) -> bool:
        """Return whether anything but months chooses its days."""
        return bool(self.weekdays) or any(name in self.numbers for name in DAY_PARTS)

    def without_interval(self) -> RuleText:
        """Return the rule for every period."""
        return replace(self, numbers=dict(self.numbers) | {"INTERVAL": (1,)})

    def completed_from(self, start: datetime) -> RuleText:
        """Return the rule with all it leaves open spelled out from its start, as RFC 5545 3.3.10 says."""
        numbers, weekdays = dict(self.numbers), self.weekdays
        if not self.has_day_parts():
            if self.frequency == "YEARLY":
                numbers.setdefault("BYMONTH", (start.month,))
            if self.frequency in ("YEARLY", "MONTHLY"):
                numbers["BYMONTHDAY"] = (start.day,)
            elif self.frequency == "WEEKLY":
                weekdays = ((start.weekday(), None),)
        elif "BYWEEKNO" in numbers and not (weekdays or "BYMONTHDAY" in numbers or "BYYEARDAY" in numbers):
            weekdays = ((start.weekday(), None),)
        for (name, frequency), value in zip(TIME_PARTS.items(), (start.hour, start.minute, start.second), strict=True):
            if FREQUENCIES.index(self.frequency) < FREQUENCIES.index(frequency):
                numbers.setdefault(name, (value,))
        return replace(self, numbers=numbers, weekdays=weekdays)


@lru_cache(maxsize=1024)
def read_rule(text: str) -> RuleText:
    """Return what an RRULE says; lines with DTSTART, RDATE and EXDATE may stand beside it.

    Raises:
        ScheduleError: If it is malformed; the message names the part and what may stand there.
    """
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    try:
        if len(text) > LONGEST_TEXT:
            reason = f"has {len(text):,} characters; {LONGEST_TEXT:,} are allowed"
            raise ValueError(reason)
        return _read_lines(text.upper())
    except ValueError as error:
        message = f"rrule {shown!r} {error}"
        raise ScheduleError(message) from error


def _read_lines(text: str) -> RuleText:
    rules: list[str] = []
    dates: dict[str, list[datetime]] = {"DTSTART": [], "RDATE": [], "EXDATE": []}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon or name == "RRULE":
            rules.append(value or name)
        elif name in dates:
            dates[name] += [_read_moment(date) for date in value.split(",")]
        else:
            message = (
                f"has the line {name!r}; use RRULE, DTSTART, RDATE or EXDATE, with dates by the wall clock "
                "or in UTC, and give the zone as timezone="
            )
            raise ValueError(message)
    if len(rules) != 1 or len(dates["DTSTART"]) > 1:
        message = "must have one RRULE, such as FREQ=WEEKLY;BYDAY=MO, and at most one DTSTART"
        raise ValueError(message)
    return replace(
        _read_parts(rules[0]),
        start=next(iter(dates["DTSTART"]), None),
        extra=tuple(dates["RDATE"]),
        excluded=tuple(dates["EXDATE"]),
    )


def _read_parts(text: str) -> RuleText:
    parts: dict[str, str] = {}
    for part in text.strip(";").split(";"):
        name, _, value = part.strip().partition("=")
        if name in parts:
            message = f"has {name} twice; give it once, with commas between values"
            raise ValueError(message)
        parts[name] = value
    numbers = {name: _read_numbers(name, parts.pop(name)) for name in NUMBER_PARTS if name in parts}
    frequency = _read_choice("FREQ", parts.pop("FREQ", ""), FREQUENCIES)
    week_start = _read_choice("WKST", parts.pop("WKST", "MO"), WEEKDAYS)
    until = _read_until(parts.pop("UNTIL")) if "UNTIL" in parts else None
    weekdays = _read_weekdays(parts.pop("BYDAY")) if "BYDAY" in parts else ()
    if parts:
        message = f"has the unknown part {next(iter(parts))!r}; RFC 5545 has FREQ, INTERVAL, BYDAY and the like"
        raise ValueError(message)
    if until is not None and "COUNT" in numbers:
        message = "has both COUNT and UNTIL; keep one of them"
        raise ValueError(message)
    return RuleText(
        frequency=frequency,
        numbers=numbers,
        weekdays=_checked_weekdays(frequency, weekdays, in_month="BYMONTH" in numbers),
        week_starts_on=WEEKDAYS.index(week_start),
        until=until,
        start=None,
        extra=(),
        excluded=(),
    )


def _read_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        message = f"has {name}={value}; use one of {', '.join(choices)}"
        raise ValueError(message)
    return value


def _read_numbers(name: str, value: str) -> tuple[int, ...]:
    lowest, highest = NUMBER_PARTS[name]
    texts = value.split(",")
    numbers = {int(text) for text in texts if NUMBER.fullmatch(text)}
    sizes = {abs(number) for number in numbers} if name in FROM_THE_END else numbers
    is_list = all(NUMBER.fullmatch(text) for text in texts) and not (name in SINGLE and len(texts) > 1)
    if not is_list or min(sizes) < lowest or max(sizes) > highest:
        kind = "one number" if name in SINGLE else "numbers"
        end = f", or -{highest} to -{lowest} from the end" if name in FROM_THE_END else ""
        message = f"has {name}={value}; use {kind} from {lowest} to {highest:,}{end}"
        raise ValueError(message)
    return tuple(sorted(numbers))


def _read_weekdays(value: str) -> list[tuple[int, int | None]]:
    found = []
    for text in value.split(","):
        match = WEEKDAY.fullmatch(text)
        number = int(match[1]) if match and match[1] else None
        if match is None or number == 0 or abs(number or 0) > 53:
            message = f"has {text!r} in BYDAY; use MO to SU, or 1MO and -1FR for the first Monday and last Friday"
            raise ValueError(message)
        found.append((WEEKDAYS.index(match[2]), number))
    return found


def _checked_weekdays(
    frequency: str, weekdays: list[tuple[int, int | None]] | tuple[()], *, in_month: bool
) -> tuple[tuple[int, int | None], ...]:
    """Return weekdays that are either all numbered or all plain: ``dateutil`` would demand both of a day."""
    if all(number is None for _, number in weekdays):
        return tuple(weekdays)
    if frequency not in ("YEARLY", "MONTHLY"):
        message = f"has a numbered weekday in BYDAY, which needs FREQ=MONTHLY or YEARLY, not {frequency}"
        raise ValueError(message)
    most = 5 if frequency == "MONTHLY" or in_month else 53
    return tuple(
        (weekday, number)
        for weekday, given in weekdays
        for number in ([given] if given is not None else range(1, most + 1))
    )


def _read_until(value: str) -> datetime:
    """Return the last moment; a date alone means all of that day."""
    if DATE.fullmatch(value):
        return datetime.combine(_read_moment(f"{value}T000000"), time.max)
    return _read_moment(value)


def _read_moment(value: str) -> datetime:
    match = DATE_TIME.fullmatch(value)
    try:
        moment = datetime.strptime(match[1] if match else "", "%Y%m%dT%H%M%S")
    except ValueError as error:
        message = f"has the date {value!r}; write it as 20261231T090000, with a Z at the end for UTC"
        raise ValueError(message) from error
    return moment.replace(tzinfo=UTC) if match and match[2] else moment
