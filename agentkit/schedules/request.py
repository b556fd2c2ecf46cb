"""What a caller may pass as ``when``, read into the form that is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit.clock import Duration, duration_of, to_ms
from agentkit.errors import NothingToScheduleError, ScheduleError, ScheduleNotClearError
from agentkit.schedules.record import Record
from agentkit.schedules.recurrence import Recurrence
from agentkit.schedules.schedule import ScheduleType
from agentkit.schedules.wall_clock import zone_named

if TYPE_CHECKING:
    from agentkit.schedules.parser import ParsedSchedule

_MILLISECOND = timedelta(milliseconds=1)
_LONGEST = timedelta(days=3653)
_LONGEST_KEY = 1_000


@dataclass(frozen=True, slots=True)
class Every:
    """An interval that passed its check."""

    interval: timedelta


When: TypeAlias = "Duration | datetime | str | Recurrence | ParsedSchedule | Every"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``when``, as it is stored; bounds only where a ``ParsedSchedule`` brought some."""

    type: ScheduleType
    when: int | str
    timezone: str
    starts_ms: int | None = None
    until_ms: int | None = None
    count: int | None = None


def read_when(when: Any, *, zone: str) -> Request:
    """Read ``when``.

    Raises:
        ScheduleError: It is of another kind, or no time that can be waited for.
    """
    if not isinstance(zone, str):
        raise ScheduleError(f'timezone must be an IANA name such as "Europe/Berlin", got {zone!r}')
    zone_named(zone)
    match when:
        case bool():
            pass
        case datetime():
            return Request(type="scheduled", when=_instant(when), timezone=zone)
        case timedelta() | int() | float():
            return Request(type="delayed", when=_delay_ms(when), timezone=zone)
        case str():
            return _read_cron(when, zone)
        case Recurrence():
            return Request(type="rrule", when=when.rrule, timezone=when.timezone or zone)
        case Every(interval=interval):
            return Request(type="interval", when=interval // _MILLISECOND, timezone=zone)
        case _ if hasattr(when, "when") and hasattr(when, "question"):
            return _read_plan(when, zone)
    message = (
        f"when must be seconds, a timedelta, an aware datetime, a cron expression, a Recurrence or a ParsedSchedule, "
        f"got {when!r}"
    )
    raise ScheduleError(message)


def read_interval(interval: Duration) -> Every:
    """Check an interval: 1 s to ten years.

    Raises:
        ScheduleError: It is outside of that.
    """
    duration = read_duration(interval, "interval")
    if not timedelta(seconds=1) <= duration <= _LONGEST:
        raise ScheduleError(f"interval must be 1 s to ten years, got {interval!r}")
    return Every(-(-duration // _MILLISECOND) * _MILLISECOND)


def read_duration(value: Duration, name: str) -> timedelta:
    """Read seconds or a timedelta.

    Raises:
        ScheduleError: It is neither, or not finite.
    """
    try:
        return duration_of(value, name)
    except (ValueError, TypeError) as error:
        raise ScheduleError(str(error)) from None


def check_options(record: Record) -> None:
    """Check what says how a schedule goes on.

    Raises:
        ScheduleError: An option has a value that it can't have, or means nothing for a one-shot.
    """
    if record.catch_up not in ("once", "skip", "all"):
        raise ScheduleError(f'catch_up must be "once", "skip" or "all", got {record.catch_up!r}')
    count: Any = record.count
    key: Any = record.key
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ScheduleError(f"count must be a whole number of 1 or more, got {count!r}; leave it out for no end")
    if key is not None and (not isinstance(key, str) or not key.strip()):
        raise ScheduleError(f"key must be a text that is not blank, got {key!r}; leave it out for none")
    if key is not None and len(key.encode(errors="replace")) > _LONGEST_KEY:
        raise ScheduleError(f"key {key[:40]!r}… is too long; at most {_LONGEST_KEY:,} bytes are allowed")
    if record.is_recurring:
        return
    options = {
        "starts_at": record.starts_ms,
        "until": record.until_ms,
        "count": count,
        "catch_up": None if record.catch_up == "once" else record.catch_up,
    }
    for name, value in options.items():
        if value is not None:
            message = f"{name} is for schedules that run again and again; a {record.type} one runs once, however late"
            raise ScheduleError(message)


def _read_cron(expression: str, zone: str) -> Request:
    from agentkit.schedules.cron import CronRule

    CronRule.parse(expression, zone)
    return Request(type="cron", when=expression, timezone=zone)


def _read_plan(plan: ParsedSchedule, zone: str) -> Request:
    """A sentence that was understood (SPEC 9.1)."""
    if plan.question:
        raise ScheduleNotClearError(plan.question)
    timing = plan.when
    if timing.type == "no-schedule":
        raise NothingToScheduleError
    when: Any
    if timing.type == "delayed":
        when = timing.delay_in_seconds
    elif timing.type == "scheduled":
        when = timing.date
    elif timing.type == "interval":
        when = read_interval(timing.interval_seconds)
    elif timing.type == "cron":
        when, zone = timing.cron, timing.timezone
    else:
        when = Recurrence(timing.rrule, timing.timezone)
    request = read_when(when, zone=zone)
    if timing.type in ("delayed", "scheduled"):
        return request
    return Request(
        type=request.type,
        when=request.when,
        timezone=request.timezone,
        starts_ms=None if plan.starts_at is None else to_ms(plan.starts_at),
        until_ms=None if plan.until is None else to_ms(plan.until),
        count=plan.count,
    )


def _instant(when: datetime) -> int:
    try:
        return to_ms(when, "when")
    except ValueError as error:
        raise ScheduleError(str(error)) from None


def _delay_ms(when: Duration) -> int:
    delay = read_duration(when, "delay")
    if delay < timedelta(0):
        raise ScheduleError(f"delay must not be negative, got {when!r}; for a moment pass an aware datetime")
    return -(-delay // _MILLISECOND)
