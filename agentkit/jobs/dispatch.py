"""Runs one due job: attempts, waits between them, time limits, and runs that won't stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from agentkit import context
from agentkit.clock import Clock, from_ms
from agentkit.context import Work
from agentkit.errors import JobError, JobTimeoutError
from agentkit.jobs.failures import FinalFailure, InvalidPayload, LeftOut, is_memory_limit, is_platform
from agentkit.jobs.job import Job, JobContext
from agentkit.jobs.outcome import JobOutcome, RescheduleAt, YieldNow
from agentkit.options import AgentOptions
from agentkit.store.session import Session
from agentkit.store.store import JobRow

logger = logging.getLogger(__name__)

#: How long a cancelled run may take to clean up before it is abandoned.
CANCEL_GRACE = timedelta(seconds=5)


class MemoryLimitReached(Exception):  # noqa: N818  # control flow between dispatch and the breaker
    """Memory ran out in a run: the breaker's turn, not the retry policy's."""


class Handler(Protocol):
    """What runs an owner's jobs: the host or a capability."""

    def on_job(self, context: JobContext) -> Any:
        """Run the job; may be a coroutine function."""


Emit = Callable[[str, str, dict[str, Any]], None]


@dataclass(slots=True, kw_only=True)
class RunResult:
    """How a run ended.

    Attributes:
        kind: ``completed``, ``failed``, ``skipped`` or ``orphaned``.
        outcome: What becomes of the job.
        error: Why, unless it completed.
    """

    kind: str
    outcome: JobOutcome = None
    attempts: int = 1
    error: BaseException | None = None


class Dispatcher:
    """Runs the jobs of one agent, one at a time."""

    __slots__ = (
        "_alive",
        "_began",
        "_clock",
        "_emit",
        "_handlers",
        "_options",
        "_serving_since",
        "_session",
        "is_stopped",
    )

    def __init__(
        self,
        session: Session,
        *,
        clock: Clock,
        options: AgentOptions,
        emit: Emit,
        handlers: Callable[[str], Handler | None],
        serving_since: datetime,
        began: Callable[[], None],
    ) -> None:
        self._session = session
        self._began = began
        self._clock = clock
        self._options = options
        self._emit = emit
        self._handlers = handlers
        self._serving_since = serving_since
        #: The runtime closes: what fails now fails for that.
        self.is_stopped = False
        # Runs that outlived their job's turn, by job id: since when, and whose work.
        self._alive: dict[str, tuple[int, Work]] = {}

    async def run(self, row: JobRow) -> RunResult:
        """Run a job to its outcome.

        Raises:
            MemoryLimitReached: Memory ran out.
            StoreError, AgentGoneError, RuntimeClosedError: The platform failed; the job stays as it is.
        """
        handler = self._handlers(row.owner)
        if handler is None:
            return _orphaned(row, f"no capability {row.owner!r} is installed that takes jobs")
        job = Job(row)
        alive_since = self._alive_since(row.id) if self._alive else None
        if alive_since is not None and job.single_flight:
            waited = timedelta(milliseconds=self._clock.now_ms() - alive_since)
            if waited < self.hung_timeout(job):
                return await self._skip(handler, job, row, alive_since)
        return await self._attempts(handler, job, row)

    def hung_timeout(self, job: Job) -> timedelta:
        """Return how long a run of the job may take before it is reported."""
        return job.hung_timeout or self._options.hung_timeout_duration

    async def _attempts(self, handler: Handler, job: Job, row: JobRow) -> RunResult:
        attempt = 0
        while True:
            attempt += 1
            run = self._context(job, row, attempt)
            work = Work(f"job {job.id!r} of {self._session.agent}")
            try:
                returned = await self._guarded(handler, run, work)
            except LeftOut as left_out:
                reason = JobError(f"skipped: {left_out}")
                return RunResult(kind="skipped", outcome=left_out.outcome, attempts=0, error=reason)
            except InvalidPayload as error:
                return RunResult(kind="orphaned", attempts=attempt, error=error.__cause__ or error)
            except FinalFailure as error:
                cause = error.__cause__
                return await self._give_up(handler, run, cause if isinstance(cause, Exception) else error)
            except Exception as error:
                if is_memory_limit(error):
                    raise MemoryLimitReached from error
                if not work.abandoned and self.is_platform(error):
                    raise
                logger.debug("attempt %d of job %s failed", attempt, job.id, exc_info=True)
                policy = job.retry.filled_from(self._options.retry)
                if attempt >= policy.attempts() or work.is_alive:
                    return await self._give_up(handler, run, error)
                await self._clock.sleep(policy.wait(attempt))
                if self._session.table.get(row.id) is not row:
                    return RunResult(kind="failed", attempts=attempt, error=error)
                continue
            return _checked(returned, job, attempt)

    def _context(self, job: Job, row: JobRow, attempt: int) -> JobContext:
        return JobContext(
            job=job,
            attempt=attempt,
            run_id=row.run_id,
            due_at=job.due_at,
            recovered=self._session.interrupted == row.id,
            serving_since=self._serving_since,
        )

    async def _guarded(self, handler: Handler, run: JobContext, work: Work) -> Any:
        """Run an attempt. Whatever escapes it is its failure, but a cancellation of the alarm itself."""
        try:
            return await self._attempt(handler, run, work)
        except (Exception, KeyboardInterrupt):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise JobError(f"job {run.job.id!r} awaited something that was cancelled") from error
        except BaseException as error:
            raise JobError(f"job {run.job.id!r} raised {type(error).__name__}, which ends no process here") from error

    async def _attempt(self, handler: Handler, run: JobContext, work: Work) -> Any:
        job = run.job
        started_ms = self._clock.now_ms()
        hung = self.hung_timeout(job)
        slow = self._clock.call_at(started_ms + hung // _MILLISECOND, lambda: self._report_slow(job, hung))
        assert self._session.host is not None
        self._began()
        try:
            with context.entered(self._session.host, work=work):
                if job.timeout is not None:
                    return await self._bounded(_call(handler.on_job, run), job, work)
                return await _call(handler.on_job, run)
        finally:
            slow.cancel()
            if work.is_alive:
                self._alive[job.id] = (started_ms, work)

    async def _bounded(self, running: Awaitable[Any], job: Job, work: Work) -> Any:
        """Await a run; at its timeout cancel it, and abandon it when it doesn't stop."""
        assert job.timeout is not None
        task = asyncio.ensure_future(running)
        work.threads += 1
        task.add_done_callback(lambda _: work.thread_ended())
        late = asyncio.Event()
        timer = self._clock.call_at(self._clock.now_ms() + job.timeout // _MILLISECOND, late.set)
        try:
            if await _first(task, late):
                return task.result()
            task.cancel(f"timeout of job {job.id}")
            await self._stopped(task, work)
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await self._stopped(task, work)
            raise
        finally:
            timer.cancel()
        raise JobTimeoutError(job.id, job.timeout.total_seconds())

    async def _stopped(self, task: asyncio.Future[Any], work: Work) -> None:
        late = asyncio.Event()
        timer = self._clock.call_at(self._clock.now_ms() + CANCEL_GRACE // _MILLISECOND, late.set)
        try:
            if await _first(task, late):
                if not task.cancelled():
                    task.exception()  # seen: the timeout is what is reported
                return
        finally:
            timer.cancel()
        context.abandon(work)
        logger.error("%s did not stop when it was cancelled and is abandoned; it can't write any more", work.label)

    def is_platform(self, error: BaseException) -> bool:
        """Tell whether our platform failed, not the job."""
        session = self._session
        agent, location = str(session.agent), session.store.location
        return is_platform(error, agent=agent, location=location, is_closing=self.is_stopped)

    def _alive_since(self, job_id: str) -> int | None:
        entry = self._alive.get(job_id)
        if entry is None:
            return None
        if not entry[1].is_alive:
            del self._alive[job_id]
            return None
        return entry[0]

    async def _skip(self, handler: Handler, job: Job, row: JobRow, alive_since: int) -> RunResult:
        """Leave a single-flight job out; it comes again when the earlier run counts as hung."""
        skipped = getattr(handler, "on_job_skipped", None)
        if skipped is not None:
            outcome = await _call(skipped, self._context(job, row, 1))
        else:
            outcome = RescheduleAt(from_ms(alive_since) + self.hung_timeout(job))
        error = JobError(f"skipped: an earlier run of job {job.id!r} is still alive")
        return RunResult(kind="skipped", outcome=outcome, attempts=0, error=error)

    async def _give_up(self, handler: Handler, run: JobContext, error: Exception) -> RunResult:
        """Let the capability decide about a job that failed for good (SPEC 5.2)."""
        result = RunResult(kind="failed", attempts=run.attempt, error=error)
        hook = getattr(handler, "on_job_error", None)
        if hook is None:
            return result
        assert self._session.host is not None
        try:
            with context.entered(self._session.host):
                returned = await _call(hook, run, error)
        except Exception as raised:
            if self.is_platform(raised):
                raise
            logger.exception("on_job_error of %s raised", run.job.owner)
            return result
        checked = _checked(returned, run.job, run.attempt)
        return replace(result, outcome=checked.outcome) if checked.kind == "completed" else result

    def _report_slow(self, job: Job, hung: timedelta) -> None:
        facts = {
            "job_id": job.id,
            "owner": job.owner,
            "function": job.function,
            "seconds": hung.total_seconds(),
        }
        self._emit("agents:lifecycle", "job:slow_dispatch", facts)


_MILLISECOND = timedelta(milliseconds=1)


async def _first(task: asyncio.Future[Any], event: asyncio.Event) -> bool:
    """Wait for whichever comes first; True if the task is done."""
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
    return task.done()


async def _call(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a hook: a coroutine function here, a plain one in a thread."""
    if context.is_coroutine_function(function):
        return await function(*arguments)
    returned = await context.in_thread(function, *arguments)
    return await returned if inspect.isawaitable(returned) else returned


def _checked(returned: Any, job: Job, attempt: int) -> RunResult:
    """Accept what SPEC 4.5 allows; anything else is a failure, without retries: its effects have happened."""
    if returned is None or isinstance(returned, YieldNow):
        return RunResult(kind="completed", outcome=returned, attempts=attempt)
    if isinstance(returned, RescheduleAt) and _is_aware(returned.moment):
        return RunResult(kind="completed", outcome=returned, attempts=attempt)
    error = JobError(
        f"job {job.id!r} returned {_shown(returned)}; a run returns None, YieldNow() or RescheduleAt(an aware datetime)"
    )
    return RunResult(kind="failed", attempts=attempt, error=error)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except Exception:  # code of others
        return f"a {type(value).__name__}"


def _is_aware(moment: Any) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() is not None


def _orphaned(row: JobRow, reason: str) -> RunResult:
    error = JobError(f"job {row.id!r} ({row.function}) left the queue: {reason}")
    return RunResult(kind="orphaned", attempts=0, error=error)
