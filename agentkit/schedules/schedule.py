"""A schedule as users see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from agentkit.retry import RetryPolicy

ScheduleType: TypeAlias = Literal["delayed", "scheduled", "cron", "interval", "rrule"]
CatchUp: TypeAlias = Literal["once", "skip", "all"]

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a callback of an agent is called, and with what.

    Attributes:
        id: Names it within the agent.
        callback: Name of the method.
        payload: JSON, as the callback's annotation dumps it.
        type: ``delayed``, ``scheduled``, ``cron``, ``interval`` or ``rrule``.
        next_run: Aware UTC moment; None while paused, and once there is none.
        retry: Its own retry policy.
        timezone: IANA name the wall clock is read in; for elapsed time only used to show moments.
        paused: It runs no more until it is resumed.
        key: The stable name it was given.
        starts_at: Not before this moment.
        until: Not after this moment (inclusive).
        remaining: Runs left of ``count``; None means no end.
        catch_up: What becomes of runs that were missed: ``once``, ``skip`` or ``all``.
        created_at: When it was first made.
        timeout: A run is cancelled after this long.
        delay: Of a ``delayed`` one.
        cron: Expression of a ``cron`` one.
        interval: Of an ``interval`` one.
        rrule: Rule of an ``rrule`` one.
        due_at: While it fires: the occurrence being run.
        skipped: While it fires: occurrences left out since the last run (1,000 means that or more).
        run_id: While it fires: names this occurrence; see ``JobContext.run_id``.
    """

    id: str
    callback: str
    type: ScheduleType
    created_at: datetime
    payload: Any = None
    next_run: datetime | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timezone: str = "UTC"
    paused: bool = False
    key: str | None = None
    starts_at: datetime | None = None
    until: datetime | None = None
    remaining: int | None = None
    catch_up: CatchUp = "once"
    timeout: timedelta | None = None
    delay: timedelta | None = None
    cron: str | None = None
    interval: timedelta | None = None
    rrule: str | None = None
    due_at: datetime | None = None
    skipped: int = 0
    run_id: str | None = None

    @property
    def is_recurring(self) -> bool:
        """It runs more than once."""
        return self.type in ("cron", "interval", "rrule")

    def describe(self) -> str:
        """Say in English when it runs, with the zone and the next run.

        Example: ``every Monday at 09:00 Europe/Berlin, next 2026-12-07 09:00``.
        """
        from agentkit.schedules.describe import describe

        return describe(self)
