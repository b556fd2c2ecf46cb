"""Which schedules a person means: by number, by "it", by place in the list, or by words of the task and its time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from agentkit.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A schedule made by chat.

    Attributes:
        number: What people call it by; never changes.
        task: What it is about, safe to show.
        schedule: As it is; a paused one with the next run it would have if it were resumed now.
    """

    number: int
    task: str
    schedule: Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a target names.

    Attributes:
        entries: The schedules meant.
        is_all: The target said "all".
        is_named: Each was named by itself, by its number or in a list.
        is_sure: Every word of the target was accounted for.
        is_pointer: The target pointed ("it", "the last one") rather than named.
        missing: Numbers it named that no schedule has.
    """

    entries: tuple[Entry, ...] = ()
    is_all: bool = False
    is_named: bool = False
    is_sure: bool = True
    is_pointer: bool = False
    missing: tuple[int, ...] = ()


_ONE: Final = r"(?:one|reminder|schedule|alarm|task|job|timer)"
_ALL: Final = re.compile(
    r"(?:all|everything|both)(?: of)?(?: (?:it|them|my|the|these|those))?"
    rf"(?: (?:of )?(?:{_ONE}s?|things?))?|every {_ONE}"
)
_POINTER: Final = re.compile(rf"|it|that|this|(?:that|this|the last|the latest|the previous|my last|last)(?: {_ONE})?")
_NUMBER: Final = re.compile(r"(?:#|no\.?|nr\.?|number|reminder|schedule|task)?\s*#?\s*(\d{1,6})")
_NUMBERS_BETWEEN: Final = re.compile(r"\s*(?:,\s*and|,|and|&|\+|\s)\s*")
_PARTS_BETWEEN: Final = re.compile(r"\s*(?:,\s*and\b|,|\band\b|&|\+)\s*")
_MOST_PARTS: Final = 20
_PLACE: Final = re.compile(rf"(?:the |my )?(first|next|second|third|fourth|fifth)(?: {_ONE})?")
_PLACES: Final = {"first": 0, "next": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4}
_WORD: Final = re.compile(r"\d{1,2}:\d{2}\s?(?:am|pm)?|\d{1,2}\s?(?:am|pm)\b|\w+(?:'\w+)?")
_IDLE: Final = frozenset(
    {
        "the",
        "a",
        "an",
        "my",
        "one",
        "ones",
        "reminder",
        "reminders",
        "schedule",
        "scheduled",
        "schedules",
        "alarm",
        "alarms",
        "task",
        "job",
        "timer",
        "about",
        "to",
        "of",
        "for",
        "me",
        "that",
        "this",
        "thing",
        "and",
        "with",
        "at",
        "on",
        "please",
        "notification",
        "which",
        "is",
        "are",
        "was",
        "i",
        "we",
        "it's",
        "o'clock",
        "oclock",
        "called",
        "named",
        "says",
        "saying",
        "from",
    }
)


def find(target: str, entries: Sequence[Entry], last: int | None, *, now: datetime) -> Found:
    """Return which schedules a target names; none if it names none.

    Args:
        target: The person's words, in lower case.
        entries: All schedules, as they are listed.
        last: Number of the schedule that "it" means.
        now: Aware.
    """
    target = target.strip(" \"'“”.,!?")
    if _ALL.fullmatch(target):
        return Found(entries=tuple(entries), is_all=True)
    if _POINTER.fullmatch(target):
        return Found(entries=_pointed(entries, last), is_pointer=True)
    numbers = _numbers(target)
    if numbers:
        return _numbered(numbers, entries)
    place = _PLACE.fullmatch(target)
    if place:
        position = _PLACES[place[1]]
        return Found(entries=tuple(entries[position : position + 1]))
    found = _by_words(target, entries, now)
    return found if found.entries and found.is_sure else _listed(target, entries, last, now=now) or found


def _numbered(numbers: set[int], entries: Sequence[Entry]) -> Found:
    named = tuple(entry for entry in entries if entry.number in numbers)
    missing = numbers - {entry.number for entry in named}
    return Found(entries=named, is_named=True, missing=tuple(sorted(missing)))


def _listed(target: str, entries: Sequence[Entry], last: int | None, *, now: datetime) -> Found | None:
    """Return the schedules of "the lawn and the car" if each part of it means one."""
    parts = [part for part in _PARTS_BETWEEN.split(target) if part]
    if not 2 <= len(parts) <= _MOST_PARTS:
        return None
    found = [find(part, entries, last, now=now) for part in parts]
    if any(not one.is_sure or len(one.entries) + len(one.missing) != 1 for one in found):
        return None
    numbers = {entry.number for one in found for entry in one.entries}
    return _numbered(numbers | {number for one in found for number in one.missing}, entries)


def _pointed(entries: Sequence[Entry], last: int | None) -> tuple[Entry, ...]:
    if last is None:
        return tuple(entries) if len(entries) == 1 else ()
    return tuple(entry for entry in entries if entry.number == last)


def _numbers(target: str) -> set[int]:
    """Return the numbers of "2", "#2", "number 2", "1, 2 and 5"; nothing if there is any other word."""
    numbers = set()
    for part in _NUMBERS_BETWEEN.split(target):
        found = _NUMBER.fullmatch(part)
        if found:
            numbers.add(int(found[1]))
        elif part not in ("no", "no.", "nr", "number", "reminder", "schedule", "task", ""):
            return set()
    return numbers


def _by_words(target: str, entries: Sequence[Entry], now: datetime) -> Found:
    wanted = [_stem(word) for word in _WORD.findall(target) if word not in _IDLE]
    if not wanted:
        return Found()
    scored = []
    for entry in entries:
        task = {_stem(word) for word in _WORD.findall(entry.task.lower())}
        timing = _timing_words(entry.schedule, now)
        known = sum(1 for word in wanted if word in task or word in timing)
        named = sum(1 for word in wanted if word in task)
        scored.append((known, named, entry))
    sure = tuple(entry for known, _, entry in scored if known == len(wanted))
    if sure:
        return Found(entries=sure)
    most = max((named for _, named, _ in scored), default=0)
    if not most:
        return Found()
    return Found(entries=tuple(entry for _, named, entry in scored if named == most), is_sure=False)


def _stem(word: str) -> str:
    word = word.replace(" ", "")
    for ending in ("ing", "'s", "es", "ed", "s", "e"):
        if len(word) - len(ending) >= 3 and word.endswith(ending):
            return word.removesuffix(ending)
    return word


def _timing_words(schedule: Schedule, now: datetime) -> set[str]:
    """Return the words by which a schedule's time may be meant: "9am", "daily", "monday", "paused"."""
    words = {"paused"} if schedule.paused else set()
    words |= _describing_words(schedule)
    minute, hour = [*(schedule.cron or "").split(), "", ""][:2]
    if schedule.next_run is not None:
        words |= _moment_words(schedule, now)
    elif minute.isdigit() and hour.isdigit():
        words |= _clock_words(int(hour), int(minute))
    return {_stem(word) for word in words}


def _describing_words(schedule: Schedule) -> set[str]:
    if schedule.type == "interval":
        return {"interval", "repeating", "recurring", "every"}
    if not schedule.is_recurring:
        return {"once"}
    text = (schedule.cron or schedule.rrule or "").upper()
    words = {"repeating", "recurring", "every"}
    if text.endswith(("1-5", "MON-FRI")) or "BYDAY=MO,TU,WE,TH,FR" in text:
        words |= {"weekday", "weekdays"}
    elif text.endswith("* * *"):
        words |= {"daily", "day"}
    elif text.endswith("*"):
        words |= {"monthly", "month"}
    else:
        words |= {"weekly", "week"}
    return words


def _clock_words(hour: int, minute: int) -> set[str]:
    of_twelve, half = hour % 12 or 12, "am" if hour < 12 else "pm"
    words = {f"{hour:02}:{minute:02}", f"{hour}:{minute:02}", f"{of_twelve}:{minute:02}{half}"}
    return words | {f"{of_twelve}{half}", str(of_twelve), str(hour)} if minute == 0 else words


def _moment_words(schedule: Schedule, now: datetime) -> set[str]:
    assert schedule.next_run is not None
    zone = ZoneInfo(schedule.timezone)
    local = schedule.next_run.astimezone(zone)
    days = (local.date() - now.astimezone(zone).date()).days
    words = {f"{local:%A}".lower(), *_clock_words(local.hour, local.minute)}
    if not schedule.is_recurring:
        words |= {word for word, ahead in (("today", 0), ("tomorrow", 1)) if ahead == days}
    return words
