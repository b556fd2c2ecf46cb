"""The Scheduler: makes schedules, keeps them as jobs, and calls their callbacks when they are due."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from agentkit.capability import Capability
from agentkit.clock import LATEST_MS, Duration, duration_of, from_ms
from agentkit.errors import QuotaError, ScheduleError
from agentkit.jobs.job import JobContext, JobOptions
from agentkit.jobs.outcome import RescheduleAt
from agentkit.json_value import to_text
from agentkit.options import AgentOptions
from agentkit.retry import RetryPolicy
from agentkit.schedules.callbacks import Callback, Callbacks
from agentkit.schedules.equality import find_equal, is_unchanged, take_over
from agentkit.schedules.history import ScheduleRun, to_run
from agentkit.schedules.occurrences import following
from agentkit.schedules.record import Record, moment_ms, paused_row, read_record, record_text, to_schedule
from agentkit.schedules.request import When, check_options, read_duration, read_interval, read_when
from agentkit.schedules.runner import CHANNEL, OnError, ScheduleRunner
from agentkit.schedules.schedule import CatchUp, Schedule, ScheduleType
from agentkit.schedules.wall_clock import zone_named
from agentkit.store.store import JobRow

logger = logging.getLogger(__name__)

_KEY_PREFIX = "key:"
_TIMEZONE = "timezone"
# Inside the class, list is the method.
Moments: TypeAlias = list[datetime]
Runs: TypeAlias = list[ScheduleRun]


class Scheduler(Capability):
    """Calls callbacks of its host at times to come. Everything it is asked for is durable when it returns.

    A plain-function callback runs in a daemon thread: it can't be cancelled, other code of the agent may run beside
    it, and ``agentkit.from_thread`` reaches storage from there.
    """

    id = "scheduler"

    def __init__(
        self,
        callbacks: Mapping[str, Callback] | None = None,
        *,
        host: object | None = None,
        retry: RetryPolicy | None = None,
        hung_timeout: Duration = 30,
        on_error: OnError | None = None,
        options: AgentOptions | None = None,
    ) -> None:
        """Put a scheduler together.

        Args:
            callbacks: Functions by the names under which they are stored.
            host: Whose methods are callbacks as well.
            retry: For schedules that bring no policy of their own.
            hung_timeout: After so many seconds a run is reported as slow.
            on_error: Called with the last error of a run that failed for good; by default the host's ``on_error``.
            options: The agent's options: time zone and quotas.
        """
        self._callbacks = Callbacks(callbacks, host)
        self._retry = retry or RetryPolicy()
        self._hung_timeout = duration_of(hung_timeout, "hung_timeout")
        self._on_error: OnError | None = on_error
        self._options = options or AgentOptions()
        self._warned: frozenset[str] = frozenset()
        self._made_runner: ScheduleRunner | None = None
        self._zone: str | None = None

    # --- making schedules

    async def set(
        self,
        when: When,
        callback: str | Callback,
        payload: Any = None,
        *,
        retry: RetryPolicy | None = None,
        idempotent: bool | None = None,
        timezone: str | None = None,
        key: str | None = None,
        catch_up: CatchUp = "once",
        starts_at: datetime | None = None,
        until: datetime | None = None,
        count: int | None = None,
        timeout: Duration | None = None,
    ) -> Schedule:
        """Make a schedule.

        Args:
            when: Seconds or a timedelta (once, after that), an aware datetime (once, then), a cron expression, a
                ``Recurrence`` or a ``ParsedSchedule``.
            callback: A method of the agent, or its name.
            payload: JSON, a pydantic model or a dataclass; checked against the callback's annotation.
            retry: Overrides the Scheduler's policy, field by field.
            idempotent: Return an equal schedule that exists instead of adding one; by default so for recurring ones.
            timezone: IANA name for cron and recurrences; by default the agent's.
            key: A stable name: the same key replaces what it named when anything has changed.
            catch_up: What becomes of missed runs: the latest runs (``once``), none (``skip``) or ``all``.
            starts_at: No run before this moment.
            until: No run after this moment.
            count: End after so many runs.
            timeout: Cancel a run after this long; it counts as failed.

        Raises:
            ScheduleError: It can't be made as asked; nothing is stored.
            PayloadError: The payload can't be stored, or the callback's annotation refuses it.
            QuotaError: The agent has ``options.max_schedules`` already.
        """
        name = self._callbacks.name_of(callback)
        zone = await self.timezone() if timezone is None else timezone
        request = read_when(when, zone=zone)
        record = Record(
            type=request.type,
            when=request.when,
            timezone=request.timezone,
            payload=self._callbacks.checked(name, payload),
            key=key,
            catch_up=catch_up,
            starts_ms=request.starts_ms if starts_at is None else moment_ms(starts_at, "starts_at"),
            until_ms=request.until_ms if until is None else moment_ms(until, "until"),
            count=request.count if count is None else count,
        )
        check_options(record)
        return await self._make(record, name, retry=retry, idempotent=idempotent, timeout=timeout)

    async def every(
        self, interval: Duration, callback: str | Callback, payload: Any = None, **options: Any
    ) -> Schedule:
        """Make a schedule that runs every interval of elapsed time, the first time after one interval.

        Args:
            interval: Seconds or a timedelta, 1 s to ten years. For whole days by the wall clock use a ``Recurrence``.
            callback: See ``set``.
            payload: See ``set``.
            options: As in ``set``.
        """
        return await self.set(read_interval(interval), callback, payload, **options)

    async def _make(
        self,
        record: Record,
        callback: str,
        *,
        retry: RetryPolicy | None,
        idempotent: bool | None,
        timeout: Duration | None,
    ) -> Schedule:
        now_ms = self._now_ms()
        record.remaining = record.count
        options = self._job_options(record.type, retry, timeout)
        key = record.key
        existing = None if key is None else self.lifecycle.jobs.row(_KEY_PREFIX + key)
        if key is None and (record.is_recurring if idempotent is None else idempotent):
            existing = find_equal(self.lifecycle.jobs.rows(), record, callback, self._callbacks)
            if existing is not None:
                await self.lifecycle.jobs.rearm()
                return self._schedule(existing)
        if existing is not None and is_unchanged(existing, record, callback, options, self._callbacks):
            await self.lifecycle.jobs.rearm()
            return self._schedule(existing)
        due_ms = self._first_due(record, now_ms)
        if existing is not None:
            due_ms = take_over(existing, record, due_ms, now_ms)
        if existing is None:
            self._check_quota()
            self._warn_of_piling_up(record, callback, idempotent=idempotent)
        id = None if key is None else _KEY_PREFIX + key
        text = to_text(record.to_json(), "payload", limit=self._options.max_payload_bytes, quota="max_payload_bytes")
        row = await self.lifecycle.jobs.push_row(callback, due_ms, text, id=id, options=options)
        schedule = self._schedule(row, record)
        self._tell("schedule:create", row)
        return schedule

    def _first_due(self, record: Record, now_ms: int) -> int:
        """Return when a new schedule first runs: strictly in the future for recurring ones."""
        if record.type == "delayed":
            record.first_ms = now_ms + int(record.when)
            if record.first_ms > LATEST_MS:
                raise ScheduleError(f"delay {int(record.when) * _MILLISECOND} reaches beyond the year 9999")
            return record.first_ms
        if record.type == "scheduled":
            return int(record.when)
        starts = record.starts_ms
        if record.type == "interval":
            record.first_ms = now_ms + int(record.when) if starts is None else starts
        elif record.type == "rrule":
            record.first_ms = now_ms if starts is None else starts
        due_ms = following(record, now_ms)
        if due_ms is None:
            bounds = {"starts_at": record.starts_ms, "until": record.until_ms}
            given = [f"{name} {from_ms(bound).isoformat()}" for name, bound in bounds.items() if bound is not None]
            reason = f"with {' and '.join(given)}; choose other bounds" if given else "any more; choose another rule"
            raise ScheduleError(f"{record.type} {record.when!r} never runs {reason}")
        return due_ms

    def _job_options(self, type: ScheduleType, retry: RetryPolicy | None, timeout: Duration | None) -> str:
        limit = None if timeout is None else read_duration(timeout, "timeout")
        if limit is not None and limit <= timedelta(0):
            raise ScheduleError(f"timeout must be more than 0 s, got {timeout!r}; leave it out for none")
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise ScheduleError(f"retry must be a RetryPolicy, as in RetryPolicy(max_attempts=5), got {retry!r}")
        return JobOptions(
            retry=(retry or RetryPolicy()).filled_from(self._retry),
            single_flight=type == "interval",
            hung_timeout=None if self._hung_timeout == _DEFAULT_HUNG else self._hung_timeout,
            timeout=limit,
        ).to_text()

    def _check_quota(self) -> None:
        limit = self._options.max_schedules
        count = self.lifecycle.jobs.count()
        if count >= limit:
            raise QuotaError("max_schedules", limit, f"{self.lifecycle.name!r} has {count:,} schedules already")

    def _warn_of_piling_up(self, record: Record, callback: str, *, idempotent: bool | None) -> None:
        """SPEC 8.9: a one-shot made at every start piles up."""
        if record.is_recurring or idempotent or record.key or not self.lifecycle.is_starting:
            return
        if callback not in self._warned:
            self._warned |= {callback}
            logger.warning(
                "on_start schedules %r once more at every start; pass idempotent=True or key=... to keep one",
                callback,
            )

    # --- looking and changing

    async def get(self, id: str) -> Schedule | None:
        """Return a schedule, or None."""
        row = self.lifecycle.jobs.row(id)
        return None if row is None else self._schedule(row)

    async def list(
        self,
        *,
        id: str | None = None,
        type: ScheduleType | None = None,
        callback: str | Callback | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> list[Schedule]:
        """Return schedules by next run, paused ones last; ``start`` (in) and ``end`` (out) bound the next run.

        Raises:
            ScheduleError: A bound is naive.
        """
        name = self._callbacks.name_of(callback) if callable(callback) else callback
        start_ms, end_ms = moment_ms(start, "start"), moment_ms(end, "end")
        found = []
        for row in self.lifecycle.jobs.rows():
            if (id is not None and row.id != id) or (name is not None and row.function != name):
                continue
            schedule = self._schedule(row)
            if (type is None or schedule.type == type) and _is_between(row, schedule, start_ms, end_ms):
                found.append(schedule)
        return found

    async def cancel(self, id: str) -> bool:
        """Delete a schedule; False if there is none. A run under way goes on."""
        row = self.lifecycle.jobs.row(id)
        if row is None:
            return False
        await self.lifecycle.jobs.cancel(id)
        self._tell("schedule:cancel", row)
        return True

    async def pause(self, id: str) -> bool:
        """Keep a schedule from running until it is resumed; False if there is none."""
        row = self.lifecycle.jobs.row(id)
        if row is None:
            return False
        record = read_record(row)
        if not record.is_paused:
            await self.lifecycle.jobs.put_row(paused_row(row, record))
        return True

    async def resume(self, id: str) -> bool:
        """Let a paused schedule run again, a recurring one at its next occurrence after now; False if there is none."""
        row = self.lifecycle.jobs.row(id)
        if row is None:
            return False
        record = read_record(row)
        if not record.is_paused:
            return True
        record.is_paused, record.is_manual = False, False
        due_ms = self._resumed_due(record)
        if due_ms is None:
            await self.lifecycle.jobs.cancel(id)
        else:
            await self.lifecycle.jobs.put_row(row._replace(due_ms=due_ms, payload=record_text(record)))
        return True

    def _resumed_due(self, record: Record) -> int | None:
        if record.type == "delayed":
            return record.first_ms
        if record.type == "scheduled":
            return int(record.when)
        return following(record, self._now_ms())

    async def run_now(self, id: str) -> bool:
        """Run a schedule at the next alarm, once, whatever its time; False if there is none.

        A paused one stays paused afterwards, a one-shot is done with it.
        """
        row = self.lifecycle.jobs.row(id)
        if row is None:
            return False
        record = read_record(row)
        record.is_manual = True
        await self.lifecycle.jobs.put_row(row._replace(due_ms=self._now_ms(), payload=record_text(record)))
        return True

    async def next_runs(self, id: str, n: int = 5) -> Moments:
        """Return the next ``n`` moments at which a schedule will run; fewer if it ends before."""
        row = self.lifecycle.jobs.row(id)
        if row is None or read_record(row).is_paused:
            return []
        record, moments = read_record(row), [row.due_ms]
        wanted = n if record.remaining is None else min(n, record.remaining)
        while record.is_recurring and len(moments) < wanted:
            next_ms = following(record, moments[-1])
            if next_ms is None:
                break
            moments.append(next_ms)
        return [from_ms(moment) for moment in moments[:wanted]]

    async def history(self, limit: int = 100) -> Runs:
        """Return the latest runs, newest first."""
        return [to_run(row) for row in await self.lifecycle.history(limit) if row.owner == self.id]

    # --- the agent's zone

    async def timezone(self) -> str:
        """Return the IANA name of the zone that applies when none is given."""
        if self._zone is not None and not self.lifecycle.is_in_transaction:
            return self._zone
        stored: str | None = await self.lifecycle.storage.get(_TIMEZONE)
        zone = stored or self._options.timezone
        if not self.lifecycle.is_in_transaction:  # which may be dropped
            self._zone = zone
        return zone

    async def set_timezone(self, name: str) -> None:
        """Store the zone that applies when none is given; schedules that exist keep theirs.

        Raises:
            ScheduleError: The zone is unknown.
        """
        zone_named(name)
        await self.lifecycle.storage.put(_TIMEZONE, name)
        await self.lifecycle.once_committed(self._forget_zone)

    async def _forget_zone(self) -> None:
        self._zone = None

    # --- running: see ``ScheduleRunner``

    @property
    def _runner(self) -> ScheduleRunner:
        if self._made_runner is None:
            self._made_runner = ScheduleRunner(self.lifecycle, self._callbacks, self._on_error)
        return self._made_runner

    async def on_job(self, context: JobContext) -> RescheduleAt | None:
        """Call the callback of a schedule that is due, and say when it is due again."""
        return await self._runner.run(context)

    async def on_job_error(self, context: JobContext, error: Exception) -> RescheduleAt | None:
        """Tell of a run that failed for good; a recurring schedule goes on."""
        return await self._runner.failed(context, error)

    async def on_job_skipped(self, context: JobContext) -> RescheduleAt | None:
        """Leave an occurrence out whose predecessor is still running."""
        return self._runner.skip(context)

    async def on_clock_set_back(self) -> None:
        """Move what would wait until the clock is where it was before."""
        await self._runner.clock_set_back()

    def on_set_aside(self, row: JobRow) -> JobRow | None:
        """Keep a recurring schedule, paused, when its job is sealed or poisoned (SPEC 7.5)."""
        record = read_record(row)
        return paused_row(row, record) if record.is_recurring else None

    # --- inside

    def _now_ms(self) -> int:
        return self.lifecycle.clock.now_ms()

    def _schedule(self, row: JobRow, record: Record | None = None) -> Schedule:
        options = JobOptions.from_text(row.options)
        return to_schedule(
            read_record(row) if record is None else record,
            id=row.id,
            callback=row.function,
            created_at=from_ms(row.created_ms),
            next_run=from_ms(row.due_ms),
            retry=options.retry,
            timeout=options.timeout,
        )

    def _tell(self, event: str, row: JobRow) -> None:
        self.lifecycle.emit(CHANNEL, event, {"schedule_id": row.id, "callback": row.function})


_DEFAULT_HUNG = timedelta(seconds=30)
_MILLISECOND = timedelta(milliseconds=1)


def _is_between(row: JobRow, schedule: Schedule, start_ms: int | None, end_ms: int | None) -> bool:
    """Tell whether the next run is within bounds; without bounds a paused one is, too."""
    if start_ms is None and end_ms is None:
        return True
    if schedule.next_run is None:
        return False
    return (start_ms is None or row.due_ms >= start_ms) and (end_ms is None or row.due_ms < end_ms)
