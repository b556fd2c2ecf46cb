"""What a schedule's time becomes when a person names a new one: what the words leave open stays as it was."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

from agentkit.schedules.schedule import Schedule

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

Parse: TypeAlias = "Callable[[str], Awaitable[ParsedSchedule]]"

_DAY: Final = timedelta(days=1)
_NUMBER: Final = re.compile(r"\d{1,4}")
_CLOCK: Final = re.compile(
    r"(?:at |around |@ ?)?(?:\d{1,2}(?:[:.h]\d{2})?\s?(?:am|pm|a\.m\.|p\.m\.|o'?clock|h|uhr)?|noon|midnight|midday)"
    r"(?: (?:in the (?:morning|afternoon|evening)|at night))?"
)
_HAS_CLOCK: Final = re.compile(
    r"\d{1,2}[:.h]\d{2}|\d\s?(?:am|pm|a\.m|p\.m|o'?clock|uhr|h\b)|\bat \d|@"
    r"|noon|midday|midnight|morning|evening|night|afternoon|\bin \S+ (?:sec|min|hour)|\b(?:second|minute|hour)"
)
_WEEKDAY: Final = re.compile(
    r"(?:on )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|mon|tue|wed|thu|fri|sat|sun)", re.IGNORECASE
)
_UNITS: Final = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
# "On payday" and "when I get home" leave words over that are no task.
_STILL_A_TIME: Final = re.compile(
    r"(?:on|in|at|from|until|till|by|after|before|around|about|every|each|starting|not|maybe)\b|(?:soon|a bit)$"
)
_CONDITION: Final = re.compile(r"(?:when|whenever|if|once|after|before|until|as soon as)\b")
_LEFT_OVER: Final = frozenset({"", "it", "that", "this", "to", "run", "be", "for", "only", "just"})


async def changed(schedule: Schedule, words: str, parse: Parse, *, now: datetime) -> ParsedSchedule | None:
    """Return when a schedule is to run from now on; None if the words are no time for it.

    A recurring one ends when it would have ended, unless the words say when.

    Args:
        schedule: As it is.
        words: The new time: "10", "5pm", "every Friday", "tomorrow at 9".
        parse: Reads a text as a request.
        now: Aware.
    """
    plan = await _retimed(schedule, words.strip(" ,.!?"), parse, now=now)
    return None if plan is None else _bounded(schedule, plan, now)


def retimed_by(schedule: Schedule, plan: ParsedSchedule, now: datetime) -> ParsedSchedule:
    """Return when a schedule is to run once a request is taken for its new time."""
    return _bounded(schedule, _at_a_moment(plan, now), now)


def _bounded(schedule: Schedule, plan: ParsedSchedule, now: datetime) -> ParsedSchedule:
    """Carry over the bounds that a new recurrence leaves open."""
    if not schedule.is_recurring or not is_recurring(plan):
        return plan
    if plan.until is None and plan.count is None:
        plan = replace(plan, until=schedule.until, count=schedule.remaining)
    # The start of an interval or a rule is its first run, so it belongs to the old rhythm.
    is_waiting = schedule.type == "cron" and schedule.starts_at is not None and schedule.starts_at > now
    if is_waiting and plan.when.type != "rrule" and plan.starts_at is None:
        return replace(plan, starts_at=schedule.starts_at)
    return plan


async def _retimed(schedule: Schedule, words: str, parse: Parse, *, now: datetime) -> ParsedSchedule | None:
    if _NUMBER.fullmatch(words):
        return await _numbered(schedule, words, parse, now=now)
    if _CLOCK.fullmatch(words):
        return await _at_clock(schedule, words, parse, now=now)
    if schedule.is_recurring and _WEEKDAY.fullmatch(words):
        words = f"every {words.removeprefix('on ')}"
    clock = _clock_of(schedule)
    if clock is not None and not _HAS_CLOCK.search(words):
        plan = _pure(await parse(f"{words} at {clock}"), now)
        if plan is not None:
            return plan
    return _pure(await parse(words), now) or _pure(await parse(f"every {words}"), now)


async def shifted(
    schedule: Schedule, words: str, parse: Parse, *, way: Literal["later", "earlier"], now: datetime
) -> ParsedSchedule | None:
    """Return a one-shot's new moment, so much later or earlier; None if the words are no amount of time."""
    from agentkit.schedules.parser import Delayed

    amount = await parse(f"in {words}")
    if amount.question or not isinstance(amount.when, Delayed) or schedule.next_run is None:
        return None
    step = timedelta(seconds=amount.when.delay_in_seconds)
    if not schedule.is_recurring:
        return _once(schedule.next_run + step if way == "later" else schedule.next_run - step)
    local = schedule.next_run.astimezone(ZoneInfo(schedule.timezone))
    moved = local + step if way == "later" else local - step
    if moved.date() != local.date():
        return None
    return await _at_clock(schedule, f"at {moved:%H:%M}", parse, now=now)


def is_pure(plan: ParsedSchedule) -> bool:
    """Return whether a text was a time and nothing else."""
    return (
        plan.question is None
        and plan.when.type != "no-schedule"
        and plan.description.lower().strip(" .,") in _LEFT_OVER
    )


def is_complete(plan: ParsedSchedule) -> bool:
    """Return whether a text says both what and when."""
    return plan.question is None and plan.when.type != "no-schedule" and not is_pure(plan)


def is_amount(plan: ParsedSchedule) -> bool:
    """Return whether a text was an amount of time from now and nothing else."""
    return is_pure(plan) and plan.when.type == "delayed"


def is_named_apart(plan: ParsedSchedule, text: str) -> bool:
    """Return whether a text has a task beside words of time, understood or not."""
    task, whole = plan.description.lower().strip(" .,"), text.lower().strip(" .,!?")
    if task in _LEFT_OVER or len(task) >= len(whole):
        return False
    return _STILL_A_TIME.match(task) is None and _CONDITION.match(whole) is None


def is_recurring(plan: ParsedSchedule) -> bool:
    """Return whether a plan runs more than once."""
    return plan.when.type in ("cron", "interval", "rrule")


def _pure(plan: ParsedSchedule, now: datetime) -> ParsedSchedule | None:
    return _at_a_moment(plan, now) if is_pure(plan) else None


def _at_a_moment(plan: ParsedSchedule, now: datetime) -> ParsedSchedule:
    """Turn a delay into the moment it is over."""
    from agentkit.schedules.parser import Delayed

    if isinstance(plan.when, Delayed):
        return _once(now + timedelta(seconds=plan.when.delay_in_seconds))
    return plan


def _once(moment: datetime) -> ParsedSchedule:
    from agentkit.schedules.parser import ParsedSchedule, Scheduled

    return ParsedSchedule(description="", when=Scheduled(date=moment))


async def _numbered(schedule: Schedule, words: str, parse: Parse, *, now: datetime) -> ParsedSchedule | None:
    """Read a bare number in the unit the schedule was made in, or as a time of day."""
    length = schedule.delay or schedule.interval
    if length is None:
        return await _at_clock(schedule, _same_half(schedule, int(words)) or f"at {words}", parse, now=now)
    seconds = int(length.total_seconds())
    unit = next(name for size, name in _UNITS if seconds % size == 0)
    return _pure(await parse(f"{'in' if schedule.delay else 'every'} {words} {unit}"), now)


def _same_half(schedule: Schedule, hour: int) -> str | None:
    """Return the nearer of an hour's two readings for what runs in the afternoon: 18:00 becomes 19:00 by "7"."""
    if schedule.next_run is None or not 1 <= hour <= 12:
        return None
    present = schedule.next_run.astimezone(ZoneInfo(schedule.timezone)).hour
    if present < 12:
        return None
    morning, evening = hour % 12, hour % 12 + 12
    return f"at {morning if abs(present - morning) < abs(present - evening) else evening}:00"


async def _at_clock(schedule: Schedule, words: str, parse: Parse, *, now: datetime) -> ParsedSchedule | None:
    """Keep the days, change the time of day."""
    words = words if words.startswith(("at ", "around ", "@")) else f"at {words}"
    if schedule.type == "interval":
        return None
    if schedule.type == "cron":
        return await _cron_at(schedule, words, parse)
    if schedule.next_run is None:
        # A recurrence without its next day would lose its rhythm.
        return None if schedule.is_recurring else _pure(await parse(words), now)
    zone = ZoneInfo(schedule.timezone)
    day = schedule.next_run.astimezone(zone).date()
    plan = _pure(await parse(f"on {day.isoformat()} {words}"), now)
    if schedule.type == "rrule":
        plan = plan or await _earlier_that_day(day, words, parse, zone=zone)
        return None if plan is None else _rule_from(schedule, plan)
    return plan or _pure(await parse(words), now)


async def _earlier_that_day(day: date, words: str, parse: Parse, *, zone: ZoneInfo) -> ParsedSchedule | None:
    """Return a time of day that is over on the day a rhythm counts from; requests name only moments to come."""
    from agentkit.schedules.parser import Scheduled

    plan = await parse(f"on {(day + _DAY).isoformat()} {words}")
    if not is_pure(plan) or not isinstance(plan.when, Scheduled):
        return None
    # A day less by the wall clock, not 24 hours.
    local = plan.when.date.astimezone(zone) - _DAY
    return replace(plan, when=Scheduled(date=local.astimezone(UTC)))


async def _cron_at(schedule: Schedule, words: str, parse: Parse) -> ParsedSchedule | None:
    from agentkit.schedules.parser import Cron, ParsedSchedule

    plan = await parse(f"every day {words}")
    fields = (schedule.cron or "").split()
    if not is_pure(plan) or not isinstance(plan.when, Cron) or len(fields) != 5:
        return None
    if not (fields[0].isdigit() and fields[1].isdigit()):
        return None  # several times a day: which of them is meant can't be told
    minute, hour, *_ = plan.when.cron.split()
    cron = Cron(cron=" ".join((minute, hour, *fields[2:])), timezone=schedule.timezone)
    kept = ParsedSchedule(description="", when=cron)
    return replace(kept, until=schedule.until, count=schedule.remaining, starts_at=schedule.starts_at)


def _rule_from(schedule: Schedule, plan: ParsedSchedule) -> ParsedSchedule | None:
    """Let a recurrence go on with the time of day of a moment on its next day."""
    from agentkit.schedules.parser import Rrule, Scheduled

    if schedule.rrule is None or "BYHOUR" in schedule.rrule or not isinstance(plan.when, Scheduled):
        return None
    rule = Rrule(rrule=schedule.rrule, timezone=schedule.timezone)
    return replace(plan, when=rule, starts_at=plan.when.date, until=schedule.until, count=schedule.remaining)


def _clock_of(schedule: Schedule) -> str | None:
    """Return the time of day a schedule runs at, if that is one."""
    if schedule.type in ("delayed", "interval") or schedule.next_run is None:
        return None
    fields = (schedule.cron or "").split()
    if fields and not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    return f"{schedule.next_run.astimezone(ZoneInfo(schedule.timezone)):%H:%M}"
