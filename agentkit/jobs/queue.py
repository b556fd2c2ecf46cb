"""An owner's view of its agent's job queue."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta
from math import ceil, isfinite
from typing import Any

from agentkit.clock import EARLIEST_MS, LATEST_MS, Clock, Duration, duration_of, to_ms
from agentkit.errors import JobError, JobOwnedByOtherError, UnknownRunError
from agentkit.ids import IdSource
from agentkit.jobs.job import Job, JobOptions, check_word, row_from_text
from agentkit.json_value import to_text
from agentkit.retry import RetryPolicy
from agentkit.store.session import Session
from agentkit.store.store import JobRow

_NO_POLICY = RetryPolicy()


class JobQueue:
    """What one owner may do with the jobs of its agent: it sees and changes only its own.

    Every change is durable when the call returns; inside ``transaction()``, when the block is left.
    """

    __slots__ = ("_clock", "_ids", "_max_payload_bytes", "_owner", "_session")

    def __init__(self, session: Session, owner: str, *, clock: Clock, ids: IdSource, max_payload_bytes: int) -> None:
        self._session = session
        self._owner = owner
        self._clock = clock
        self._ids = ids
        self._max_payload_bytes = max_payload_bytes

    async def push(
        self,
        function: str,
        *,
        at: datetime | None = None,
        after: Duration | None = None,
        payload: Any = None,
        id: str | None = None,
        retry: RetryPolicy | None = None,
        single_flight: bool = False,
        hung_timeout: Duration | None = None,
        timeout: Duration | None = None,
        exclusive: bool = False,
        recovery_loop: bool = False,
    ) -> Job:
        """Put a job into the queue; an id of this owner's that exists is replaced.

        Args:
            function: What ``on_job`` is to do; not blank.
            at: An aware moment; one in the past runs at the next alarm. Exactly one of ``at`` and ``after``.
            after: Seconds or a timedelta from now.
            payload: JSON, a pydantic model or a dataclass; at most ``options.max_payload_bytes``.
            id: Unique within the agent; made up when left out.
            retry: Overrides the class's retry policy, field by field.
            single_flight: Don't run it while an earlier run of it is still alive.
            hung_timeout: After this long a run is reported as slow (but goes on).
            timeout: After this long a run is cancelled and counts as failed.
            exclusive: Run nothing else of the agent while it is pending.
            recovery_loop: Slow it down, and in the end drop it, when memory runs out.

        Raises:
            PayloadError: A blank function or id, or a payload that JSON can't carry. Nothing is stored.
            JobOwnedByOtherError: The id belongs to another owner. Nothing is changed.
            ValueError: Not exactly one of ``at`` and ``after``, a naive or a non-finite time.
        """
        check_word(function, "function")
        due_ms = self._due_ms(at, after)
        text = to_text(payload, "payload", limit=self._max_payload_bytes, quota="max_payload_bytes")
        options = ""
        if retry or single_flight or recovery_loop or hung_timeout is not None or timeout is not None:
            options = JobOptions(
                retry or _NO_POLICY,
                single_flight,
                _positive(hung_timeout, "hung_timeout"),
                _positive(timeout, "timeout"),
                recovery_loop,
            ).to_text()
        row = self._row(function, due_ms, text, id=id, options=options, exclusive=exclusive)
        await self._session.put_job(row)
        return Job(row)

    async def push_row(
        self, function: str, due_ms: int, payload: str, *, id: str | None = None, options: str = ""
    ) -> JobRow:
        """Push what is already checked and encoded (capabilities of agentkit)."""
        row = self._row(function, due_ms, payload, id=id, options=options)
        await self._session.put_job(row)
        return row

    def _row(
        self,
        function: str,
        due_ms: int,
        payload: str,
        *,
        id: str | None,
        options: str,
        exclusive: bool = False,
    ) -> JobRow:
        now_ms = self._clock.now_ms()
        run_id = self._ids.new()
        created_ms = now_ms
        if id is None:
            id = run_id
        else:
            check_word(id, "id")
            old = self._session.job(id)
            if old is not None:
                if old.owner != self._owner:
                    raise JobOwnedByOtherError(id, old.owner)
                created_ms = old.created_ms
        return JobRow(due_ms, run_id, id, self._owner, function, payload, options, int(exclusive), created_ms)

    def _due_ms(self, at: datetime | None, after: Duration | None) -> int:
        due_ms = self._asked_ms(at, after)
        if not EARLIEST_MS <= due_ms <= LATEST_MS:
            message = f"{at if after is None else after} lies outside of the years 1 to 9999"
            raise ValueError(message)
        return due_ms

    def _asked_ms(self, at: datetime | None, after: Duration | None) -> int:
        if (at is None) == (after is None):
            message = "give exactly one of at= (an aware datetime) and after= (seconds or a timedelta)"
            raise ValueError(message)
        if type(after) is int or type(after) is float:
            if not isfinite(after):
                message = f"after must be a finite number of seconds, got {after!r}"
                raise ValueError(message)
            return self._clock.now_ms() + ceil(after * 1000)
        if after is not None:
            return self._clock.now_ms() + _ceil_ms(duration_of(after, "after"))
        if not isinstance(at, datetime):
            message = f"at must be an aware datetime, got {at!r}; for a delay use after="
            raise TypeError(message)
        return to_ms(at, "at")

    async def cancel(self, id: str) -> bool:
        """Delete a job; False if there is none. A run under way goes on, its outcome no longer counts."""
        if self._own(id) is None:
            return False
        await self._session.drop_job(id)
        return True

    async def reschedule(self, id: str, at: datetime) -> bool:
        """Move a job to another moment; False if there is none."""
        due_ms = self._due_ms(at, None)
        row = self._own(id)
        if row is None:
            return False
        await self._session.put_job(row._replace(due_ms=due_ms, run_id=self._ids.new()))
        return True

    async def get(self, id: str) -> Job | None:
        """Return a job, or None."""
        row = self._own(id)
        return None if row is None else Job(row)

    async def list(self) -> builtins.list[Job]:
        """Return the owner's jobs by due time."""
        return [Job(row) for row in self.rows()]

    def rows(self) -> builtins.list[JobRow]:
        """Return the owner's jobs by due time, as stored."""
        return [row for row in self._session.jobs() if row.owner == self._owner]

    def count(self) -> int:
        """Return how many jobs the owner has."""
        return self._session.count_jobs(self._owner)

    def row(self, id: str) -> JobRow | None:
        """Return one of the owner's jobs as stored, or None."""
        return self._own(id)

    async def put_row(self, row: JobRow) -> JobRow:
        """Replace one of the owner's jobs; it counts as pushed now."""
        row = row._replace(run_id=self._ids.new())
        await self._session.put_job(row)
        return row

    async def rearm(self) -> None:
        """Derive the alarm from the jobs again. Never needed: every change does so."""
        self._session.row.alarm_ms = self._session.table.alarm_ms()
        self._session.on_change(self._session)

    async def requeue(self, run_id: str) -> Job:
        """Bring a failed, orphaned, sealed or poisoned run's job back; it is due at once.

        Raises:
            UnknownRunError: This owner has no such run, or it needs no second one.
            JobError: A job with its id is in the queue again by now.
        """
        return Job(await requeue(self._session, run_id, ids=self._ids, clock=self._clock, owner=self._owner))

    def _own(self, job_id: str) -> JobRow | None:
        row = self._session.job(job_id)
        return row if row is not None and row.owner == self._owner else None


async def requeue(session: Session, run_id: str, *, ids: IdSource, clock: Clock, owner: str | None = None) -> JobRow:
    """Bring the job of a recorded run back, whoever owns it if ``owner`` is None; see ``JobQueue.requeue``."""
    recorded = await session.store.run(session.agent, run_id)
    if recorded is None or recorded.job is None or (owner is not None and recorded.owner != owner):
        raise UnknownRunError(run_id)
    row = row_from_text(recorded.job)
    if session.job(row.id) is not None:
        message = f"job {row.id!r} of run {run_id!r} is in the queue again already; cancel that one first"
        raise JobError(message)
    row = row._replace(due_ms=clock.now_ms(), run_id=ids.new())
    await session.requeue(row, run_id)
    return row


def _ceil_ms(duration: timedelta) -> int:
    whole, rest = divmod(duration, timedelta(milliseconds=1))
    return whole + (rest > timedelta(0))


def _positive(value: Duration | None, name: str) -> timedelta | None:
    if value is None:
        return None
    duration = duration_of(value, name)
    if duration <= timedelta(0):
        message = f"{name} must be more than 0 s, got {value!r}; leave it out for none"
        raise ValueError(message)
    return duration
