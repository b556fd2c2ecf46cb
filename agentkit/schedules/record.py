"""What a schedule's job carries: the record behind a ``Schedule``, and how it becomes a job's row and comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agentkit.clock import LATEST_MS, from_ms, to_ms
from agentkit.errors import ScheduleError
from agentkit.json_value import from_text, to_text
from agentkit.retry import RetryPolicy
from agentkit.schedules.schedule import CatchUp, Schedule, ScheduleType
from agentkit.store.store import JobRow

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True, kw_only=True)
class Record:
    """What a schedule's job carries as its payload, in milliseconds and short keys.

    Attributes:
        when: The delay or interval in ms, the instant in ms, the expression or the rule: as it was given.
        first_ms: Where an interval's grid or a rule's recurrence begins; when a delay is over.
        backlog_ms: The last of the missed occurrences that are being made up for.
        skipped: Occurrences left out since the last run.
        is_manual: Its present due time is a ``run_now``, not an occurrence.
    """

    type: ScheduleType
    when: int | str
    timezone: str
    payload: Any = None
    key: str | None = None
    catch_up: CatchUp = "once"
    first_ms: int | None = None
    backlog_ms: int | None = None
    starts_ms: int | None = None
    until_ms: int | None = None
    remaining: int | None = None
    count: int | None = None
    skipped: int = 0
    is_paused: bool = False
    is_manual: bool = False

    @property
    def is_recurring(self) -> bool:
        """It runs more than once."""
        return self.type in ("cron", "interval", "rrule")

    def to_json(self) -> dict[str, Any]:
        """Return what to store: fields that differ from their defaults."""
        stored = {"type": self.type, "when": self.when, "timezone": self.timezone}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                stored[name] = value
        return stored

    def identity(self) -> tuple[object, ...]:
        """Return what makes two schedules of one callback the same, their payloads aside (SPEC 8.5)."""
        zone = self.timezone if self.type in ("cron", "rrule") else None
        return (self.type, self.when, zone, self.starts_ms, self.until_ms, self.count)


_DEFAULTS: dict[str, Any] = {
    "payload": None,
    "key": None,
    "catch_up": "once",
    "first_ms": None,
    "backlog_ms": None,
    "starts_ms": None,
    "until_ms": None,
    "remaining": None,
    "count": None,
    "skipped": 0,
    "is_paused": False,
    "is_manual": False,
}


def to_schedule(
    record: Record,
    *,
    id: str,
    callback: str,
    created_at: datetime,
    next_run: datetime | None,
    retry: RetryPolicy,
    timeout: timedelta | None,
) -> Schedule:
    """Return a record as users see it."""
    kind, when = record.type, record.when
    return Schedule(
        id=id,
        callback=callback,
        payload=record.payload,
        type=record.type,
        next_run=None if record.is_paused else next_run,
        retry=retry,
        timezone=record.timezone,
        paused=record.is_paused,
        key=record.key,
        starts_at=None if record.starts_ms is None else from_ms(record.starts_ms),
        until=None if record.until_ms is None else from_ms(record.until_ms),
        remaining=record.remaining,
        catch_up=record.catch_up,
        created_at=created_at,
        timeout=timeout,
        delay=int(when) * _MILLISECOND if kind == "delayed" else None,
        interval=int(when) * _MILLISECOND if kind == "interval" else None,
        cron=str(when) if kind == "cron" else None,
        rrule=str(when) if kind == "rrule" else None,
    )


def moment_ms(moment: datetime | None, name: str) -> int | None:
    """Return an optional moment in milliseconds.

    Raises:
        ScheduleError: It is naive, or no datetime at all.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise ScheduleError(f"{name} must be an aware datetime, got {moment!r}")
    try:
        return to_ms(moment, name)
    except ValueError as error:
        raise ScheduleError(str(error)) from None


def read_record(row: JobRow) -> Record:
    """Return the record that a job's row carries."""
    return Record(**from_text(row.payload))


def record_text(record: Record) -> str:
    """Return a record as a job's payload."""
    return to_text(record.to_json(), "payload")


def paused_row(row: JobRow, record: Record) -> JobRow:
    """Return a job's row as it is while its schedule is paused."""
    record.is_paused, record.is_manual = True, False
    return row._replace(due_ms=LATEST_MS, payload=record_text(record))
