"""One alarm of one agent: every due job in order, one commit each, then ``on_alarm``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable

from agentkit.clock import Clock
from agentkit.errors import JobError
from agentkit.ids import IdSource
from agentkit.jobs.breaker import MemoryLimitContext, plan_reset
from agentkit.jobs.dispatch import Dispatcher, Emit, MemoryLimitReached, RunResult
from agentkit.jobs.settle import history_row, record, settle
from agentkit.options import AgentOptions
from agentkit.store.session import Session
from agentkit.store.store import Batch, JobRow

logger = logging.getLogger(__name__)

DESTROY = "agentkit:destroy"
_BACKLOG = 10
_LIFECYCLE = "agents:lifecycle"


class Alarm:
    """Runs what is due. The stored alarm moves past a job only in the commit of that job's outcome.

    Args:
        set_aside: Returns what to keep of a job that is taken out of the queue by force (None: nothing).
        on_reset: Called after a memory-limit reset.
        teardown: Called when the destroy job's turn has come.
    """

    __slots__ = (
        "_clock",
        "_dispatcher",
        "_emit",
        "_ids",
        "_is_stopped",
        "_on_reset",
        "_options",
        "_session",
        "_set_aside",
        "_teardown",
    )

    def __init__(
        self,
        session: Session,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        ids: IdSource,
        options: AgentOptions,
        emit: Emit,
        set_aside: Callable[[JobRow], JobRow | None],
        on_reset: Callable[[MemoryLimitContext], Awaitable[None]],
        teardown: Callable[[], Awaitable[None]],
    ) -> None:
        self._session = session
        self._dispatcher = dispatcher
        self._clock = clock
        self._ids = ids
        self._options = options
        self._emit = emit
        self._set_aside = set_aside
        self._on_reset = on_reset
        self._teardown = teardown
        self._is_stopped = False

    def stop(self) -> None:
        """Begin no further job: the one under way is the last."""
        self._is_stopped = self._dispatcher.is_stopped = True

    @property
    def is_stopped(self) -> bool:
        """No further job begins; a cancellation is meant."""
        return self._is_stopped

    @property
    def is_suspect(self) -> bool:
        """The agent's last alarms ended badly: its jobs run with no other agent's beside them."""
        return self._session.row.crash_strikes > 0 or self._session.row.memory_strikes > 0

    async def fire(self, *, may_release: Callable[[], bool]) -> bool:
        """Run every job that is due now, in due order.

        Args:
            may_release: Asked at the last commit, whether the agent is given up in it.

        Returns:
            Whether the alarm went through; False when the agent is gone afterwards (released, reset, destroyed).
        """
        session = self._session
        if session.interrupted is not None:
            await self._set_poisoned_aside()
        now_ms, before = self._clock.now_ms(), self._ids.new()
        self._warn_of_backlog(now_ms)
        while not self._is_stopped and (row := session.table.next_due(now_ms, before)) is not None:
            if session.row.running != row.id:
                session.row.running = row.id
                await session.store.mark(session.lease, row.id)
                continue  # the row is read again: it may have been cancelled meanwhile
            if row.function == DESTROY and row.owner == "host":
                await self._teardown()
                return False
            if not await self._run(row, now_ms, before, may_release):
                return False
        if session.row.running is not None:  # claimed, or marked, for a job that was no longer due
            session.row.running = None
            await session.commit(Batch()).wait()
        return True

    async def _run(self, row: JobRow, now_ms: int, before: str, may_release: Callable[[], bool]) -> bool:
        """Run one job and commit its outcome; False when the agent is gone afterwards."""
        session, started_ms = self._session, self._clock.now_ms()
        try:
            result = await self._dispatcher.run(row)
        except MemoryLimitReached as error:
            await self.reset(row, error.__cause__ or error, started_ms)
            return False
        batch = self._settle(row, result, started_ms)
        following = None if self._is_stopped else session.table.next_due(now_ms, before)
        session.row.running = None if following is None else following.id
        released = following is None and may_release()
        await session.commit_row(batch, release=released).wait()
        self._announce(row, result)
        return not released

    def _settle(self, row: JobRow, result: RunResult, started_ms: int) -> Batch:
        session, now_ms = self._session, self._clock.now_ms()
        try:
            batch = settle(
                row,
                result,
                table=session.table,
                hot=session.row,
                options=self._options,
                ids=self._ids,
                started_ms=started_ms,
                now_ms=now_ms,
            )
        except (ValueError, TypeError) as error:  # the payload of a RescheduleAt
            result.kind, result.outcome, result.error = "failed", None, error
            return self._settle(row, result, started_ms)
        session.interrupted = None if session.interrupted == row.id else session.interrupted
        session.apply(batch)
        return batch

    def _announce(self, row: JobRow, result: RunResult) -> None:
        if result.kind == "completed":
            return
        facts = {
            "job_id": row.id,
            "owner": row.owner,
            "function": row.function,
            "run_id": row.run_id,
            "attempts": result.attempts,
            "error": type(result.error).__name__,
        }
        if result.kind in ("failed", "orphaned"):
            self._emit(_LIFECYCLE, f"job:{result.kind}", facts)
        if result.kind == "orphaned":
            logger.error(
                "%s: %s; `agentkit requeue` brings it back after a deploy (run %s)",
                self._session.agent,
                result.error,
                row.run_id,
            )

    def _warn_of_backlog(self, now_ms: int) -> None:
        """SPEC 4.9: ten due jobs of one owner hint at a schedule that piles up."""
        if len(self._session.table) < _BACKLOG:
            return
        due = [row for row in self._session.table if row.due_ms <= now_ms]
        for owner, count in Counter(row.owner for row in due).items():
            if count >= _BACKLOG:
                function, _ = Counter(row.function for row in due if row.owner == owner).most_common(1)[0]
                facts = {"owner": owner, "count": count, "function": function}
                self._emit(_LIFECYCLE, "job:backlog_warning", facts)

    async def reset(self, row: JobRow | None, error: BaseException, started_ms: int, *, shared: bool = False) -> None:
        """Apply a memory-limit reset to the queue, then run the hooks (SPEC 7.2, 7.3)."""
        session = self._session
        current = None if row is None else session.table.get(row.id)
        plan = plan_reset(
            session.table,
            row if row == current else None,
            strikes=session.row.memory_strikes,
            limit=self._options.max_alarm_memory_limit_strikes,
            now_ms=self._clock.now_ms(),
            ids=self._ids,
            shared=shared,
        )
        session.row.memory_strikes = plan.strikes
        session.row.running = None
        await self._take_out(plan.changes, plan.removed, "sealed", error, started_ms)
        await self._on_reset(plan.context)

    async def _set_poisoned_aside(self) -> None:
        """Take a job out that has crashed the process too often (SPEC 7.4)."""
        session = self._session
        row = session.table.get(session.interrupted or "")
        if row is None or session.row.crash_strikes < self._options.max_crash_strikes:
            return
        strikes = session.row.crash_strikes
        session.interrupted = None
        error = JobError(f"job {row.id!r} ({row.function}) was set aside: the process died {strikes} times in it")
        session.row.running = None
        await self._take_out({row.id: None}, [row], "poisoned", error, self._clock.now_ms())
        facts = {"job_id": row.id, "owner": row.owner, "function": row.function, "run_id": row.run_id}
        self._emit(_LIFECYCLE, "job:poisoned", facts)

    async def _take_out(
        self,
        changes: dict[str, JobRow | None],
        removed: list[JobRow],
        kind: str,
        error: BaseException,
        started_ms: int,
    ) -> None:
        session, now_ms = self._session, self._clock.now_ms()
        batch = Batch(jobs=dict(changes))
        for row in removed:
            batch.jobs[row.id] = self._set_aside(row)
            result = RunResult(kind=kind, error=error)
            run = history_row(row, result, started_ms=started_ms, now_ms=now_ms)
            record(batch, run, hot=session.row, options=self._options)
        session.apply(batch)
        await session.commit_row(batch).wait()
