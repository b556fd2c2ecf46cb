"""Runs schedules that are due: which occurrence, with what, and when the next one is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from agentkit.capability import Scope
from agentkit.clock import LATEST_MS, from_ms, to_ms
from agentkit.errors import PayloadError, ScheduleError
from agentkit.jobs.failures import FinalFailure, InvalidPayload, LeftOut
from agentkit.jobs.job import JobContext
from agentkit.jobs.outcome import RescheduleAt
from agentkit.schedules.callbacks import Callbacks, call
from agentkit.schedules.occurrences import (
    MOST_MISSED,
    Firing,
    due_after_set_back,
    following,
    plan_firing,
    set_back_start,
)
from agentkit.schedules.record import Record, read_record, record_text, to_schedule
from agentkit.schedules.schedule import Schedule

logger = logging.getLogger(__name__)

CHANNEL = "agents:schedule"
OnError: TypeAlias = Callable[[Exception], Awaitable[None]]


class _Begun(NamedTuple):
    """The occurrence that was begun last: when, and what was planned for a recurring one."""

    run_id: str
    now_ms: int
    firing: Firing | None


class ScheduleRunner:
    """Runs the schedules of one agent."""

    __slots__ = ("_begun", "_callbacks", "_on_error", "_scope")

    def __init__(self, scope: Scope, callbacks: Callbacks, on_error: OnError | None) -> None:
        self._scope = scope
        self._callbacks = callbacks
        self._on_error = on_error
        self._begun: _Begun | None = None

    async def run(self, context: JobContext) -> RescheduleAt | None:
        """Call the callback of a schedule that is due, and say when it is due again."""
        job = context.job
        record = Record(**job.payload)
        run_ms, next_ms, skipped = to_ms(context.due_at), None, record.skipped
        firing = self._begin(context, record)
        if firing is not None:
            next_ms, record.backlog_ms = firing.next_ms, firing.backlog_ms
            skipped = min(record.skipped + firing.skipped, MOST_MISSED)
            if firing.run_ms is None:
                record.skipped = skipped
                self._tell("schedule:skip", context, {"skipped": firing.skipped})
                raise LeftOut(f"{firing.skipped} missed, and catch_up is skip", self._next(record, next_ms))
            run_ms = firing.run_ms
        schedule = self._firing(context, record, run_ms, next_ms, skipped)
        self._tell(
            "schedule:execute" if context.attempt == 1 else "schedule:retry",
            context,
            {"attempt": context.attempt},
        )
        await self._call(job.function, record, schedule)
        return self._after_run(record, next_ms)

    def _begin(self, context: JobContext, record: Record) -> Firing | None:
        """Decide what runs, once an occurrence: an attempt later than the first doesn't move on to another."""
        if context.attempt > 1 and self._begun is not None and self._begun.run_id == context.run_id:
            return self._begun.firing
        now_ms, firing = self._now_ms(), None
        if record.is_recurring:
            try:
                firing = plan_firing(
                    record,
                    to_ms(context.due_at),
                    now_ms=now_ms,
                    serving_since_ms=to_ms(context.serving_since),
                    recovered=context.recovered or context.attempt > 1,
                )
            except ScheduleError as error:  # a zone or a syntax that has gone since: not the schedule's end
                raise InvalidPayload from error
        self._begun = _Begun(context.run_id, now_ms, firing)
        return firing

    async def _call(self, callback: str, record: Record, schedule: Schedule) -> None:
        try:
            function, arguments = self._callbacks.prepare(callback, record.payload, schedule)
        except PayloadError as error:
            raise InvalidPayload from error
        except LookupError as error:
            logger.error("schedule %s of %s: %s", schedule.id, self._scope.name, error)
            raise FinalFailure from error
        await call(function, arguments)

    async def failed(self, context: JobContext, error: Exception) -> RescheduleAt | None:
        """Tell of a run that failed for good; a recurring schedule goes on."""
        self._tell("schedule:error", context, {"error": type(error).__name__})
        on_error = self._on_error or self._callbacks.on_error
        if on_error is not None:
            try:
                await on_error(error)
            except Exception:
                logger.exception("on_error raised")
        record = Record(**context.job.payload)
        if not record.is_recurring:
            return None
        begun = self._begun
        if begun is None or begun.firing is None or begun.run_id != context.run_id:
            return self._after_run(record, following(record, max(self._now_ms(), to_ms(context.due_at))))
        record.backlog_ms = begun.firing.backlog_ms
        return self._after_run(record, begun.firing.next_ms)

    def skip(self, context: JobContext) -> RescheduleAt | None:
        """Leave an occurrence out whose predecessor is still running."""
        record = Record(**context.job.payload)
        record.skipped = min(record.skipped + 1, MOST_MISSED)
        self._tell("schedule:skip", context, {"skipped": 1})
        return self._next(record, following(record, self._now_ms()))

    async def clock_set_back(self) -> None:
        """Move what would wait until the clock is where it was before; a run under way does so at its end."""
        now_ms = self._now_ms()
        for row in self._scope.jobs.rows():
            record = read_record(row)
            is_under_way = self._begun is not None and self._begun.run_id == row.run_id
            if is_under_way or (record.is_paused and not record.is_manual):
                continue
            set_back_start(record, now_ms)
            due_ms = due_after_set_back(record, row.due_ms, now_ms)
            if due_ms is not None:
                await self._scope.jobs.put_row(row._replace(due_ms=due_ms, payload=record_text(record)))

    def _after_run(self, record: Record, next_ms: int | None) -> RescheduleAt | None:
        if not record.is_recurring:
            return None
        record.skipped = 0
        if record.remaining is not None:
            record.remaining -= 1
            if record.remaining <= 0:
                return None
        if record.is_paused:
            next_ms = LATEST_MS
        elif next_ms is not None and self._begun is not None and self._now_ms() < self._begun.now_ms:
            set_back_start(record, self._now_ms())
            next_ms = due_after_set_back(record, next_ms, self._now_ms()) or next_ms
        return self._next(record, next_ms)

    def _next(self, record: Record, next_ms: int | None) -> RescheduleAt | None:
        record.is_manual = False
        return None if next_ms is None else RescheduleAt(from_ms(next_ms), record.to_json())

    def _firing(self, context: JobContext, record: Record, run_ms: int, next_ms: int | None, skipped: int) -> Schedule:
        job = context.job
        schedule = to_schedule(
            record,
            id=job.id,
            callback=job.function,
            created_at=job.created_at,
            next_run=None if next_ms is None else from_ms(next_ms),
            retry=job.retry,
            timeout=job.timeout,
        )
        return replace(schedule, due_at=from_ms(run_ms), skipped=skipped, run_id=context.run_id)

    def _now_ms(self) -> int:
        return self._scope.clock.now_ms()

    def _tell(self, event: str, context: JobContext, facts: dict[str, Any]) -> None:
        job = context.job
        known = {"schedule_id": job.id, "callback": job.function, "run_id": context.run_id}
        self._scope.emit(CHANNEL, event, {**known, **facts})
