"""Runs that ended, as users see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentkit.clock import from_ms
from agentkit.store.store import HistoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """One run of a schedule.

    Attributes:
        schedule: Its id.
        callback: The callback's name.
        run_id: Names the occurrence; ``requeue`` takes it.
        due: When it was due.
        started: When its first attempt began.
        finished: When it ended.
        attempts: How many attempts it took; 0 if it was never begun.
        outcome: ``completed``, ``failed``, ``skipped``, ``orphaned``, ``sealed`` or ``poisoned``.
        error: The last error with its traceback, if it failed.
    """

    schedule: str
    callback: str
    run_id: str
    due: datetime
    started: datetime
    finished: datetime
    attempts: int
    outcome: str
    error: str | None


def to_run(row: HistoryRow) -> ScheduleRun:
    """Return a stored run as users see it."""
    return ScheduleRun(
        schedule=row.job_id,
        callback=row.function,
        run_id=row.run_id,
        due=from_ms(row.due_ms),
        started=from_ms(row.started_ms),
        finished=from_ms(row.finished_ms),
        attempts=row.attempts,
        outcome=row.outcome,
        error=row.error,
    )
