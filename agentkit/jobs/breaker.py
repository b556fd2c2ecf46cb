"""Protects a process against jobs that exhaust its memory or crash it (SPEC 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agentkit.clock import Clock, from_ms
from agentkit.ids import IdSource
from agentkit.jobs.job import Job, JobOptions
from agentkit.store.store import JobRow

#: How long alarms wait for one that runs alone, and that one for them.
LONGEST_WAIT_MS = 30_000
_STEP_MS = 30_000
_LONGEST_MS = 300_000


class Waiting(Protocol):
    """Notes that the running task waits for others; see ``TaskSet``."""

    def waits(self) -> AbstractContextManager[None]:
        """Hold the note while the block runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimitContext:
    """What hooks are told after a memory-limit reset; the rows have moved by then.

    Attributes:
        sealed: The running job and all recovery loops were taken out of the queue.
        next_time: When the delayed jobs run again; None when sealed.
        executing: The job that was under way.
        purged_recovery_loop_jobs: How many recovery loops were taken out.
    """

    sealed: bool
    next_time: datetime | None
    executing: Job | None
    purged_recovery_loop_jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """What a reset does to the queue.

    Attributes:
        strikes: The agent's count afterwards.
        changes: Rows to put, or None to take out.
        removed: Rows that go into the history as ``sealed``.
    """

    strikes: int
    changes: dict[str, JobRow | None]
    removed: list[JobRow]
    context: MemoryLimitContext


def plan_reset(
    jobs: Iterable[JobRow],
    executing: JobRow | None,
    *,
    strikes: int,
    limit: int,
    now_ms: int,
    ids: IdSource,
    shared: bool = False,
) -> ResetPlan:
    """Decide what a memory-limit reset does: delay 30 s a strike (at most 5 min), or seal at the limit.

    Args:
        jobs: The agent's queue.
        executing: The job that was under way.
        strikes: Count before this reset.
        limit: ``max_alarm_memory_limit_strikes``.
        now_ms: The present.
        ids: Versions of moved rows come from here.
        shared: Other agents had jobs under way too: blame is uncertain, nobody is sealed (SPEC 7.5).
    """
    strikes += 1
    hit = [row for row in jobs if row == executing or JobOptions.from_text(row.options).recovery_loop]
    loops = sum(1 for row in hit if JobOptions.from_text(row.options).recovery_loop)
    job = None if executing is None else Job(executing)
    if strikes >= limit and not shared:
        context = MemoryLimitContext(sealed=True, next_time=None, executing=job, purged_recovery_loop_jobs=loops)
        return ResetPlan(strikes=0, changes={row.id: None for row in hit}, removed=hit, context=context)
    next_ms = now_ms + min(_STEP_MS * strikes, _LONGEST_MS)
    moved = {
        row.id: row._replace(due_ms=max(next_ms, row.due_ms), run_id=row.run_id if row == executing else ids.new())
        for row in hit
    }
    context = MemoryLimitContext(sealed=False, next_time=from_ms(next_ms), executing=job, purged_recovery_loop_jobs=0)
    return ResetPlan(strikes=strikes, changes=dict(moved), removed=[], context=context)


class Isolation:
    """Lets alarms run side by side, but one whose agent is under suspicion only alone (SPEC 7.5).

    What kills a process does so early: nobody waits longer than ``LONGEST_WAIT_MS``, and a suspect that has others
    beside it by then shares the blame.
    """

    def __init__(self, tasks: Waiting, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._running = 0
        self._alone = False
        self._suspects = 0
        self._free = asyncio.Event()

    async def enter(self, *, alone: bool) -> bool:
        """Wait for the turn of an alarm, which ``leave`` ends; a waiting suspect goes before newcomers.

        Returns:
            Whether the alarm runs alone now.
        """
        deadline_ms = self._clock.now_ms() + LONGEST_WAIT_MS
        self._suspects += alone
        try:
            while (self._alone or (self._running if alone else self._suspects)) and (
                self._clock.now_ms() < deadline_ms
            ):
                await self._wait(deadline_ms)
        finally:
            self._suspects -= alone
        self._alone = alone and not self._running
        self._running += 1
        return self._alone

    async def _wait(self, deadline_ms: int) -> None:
        self._free.clear()
        timer = self._clock.call_at(deadline_ms, self._free.set)
        try:
            with self._tasks.waits():
                await self._free.wait()
        finally:
            timer.cancel()

    @property
    def is_alone(self) -> bool:
        """One alarm holds the turn alone."""
        return self._alone

    def leave(self) -> None:
        """End a turn."""
        self._running -= 1
        if not self._running:
            self._alone = False
        self._free.set()
