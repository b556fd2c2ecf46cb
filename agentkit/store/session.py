"""One live instance's door to its rows: every read and write of an agent passes here.

Memory is changed when a commit is asked for, the caller resumes when it is durable, and a commit that fails ends
the instance: what is in memory is then no longer what is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentkit import context
from agentkit.errors import AgentGoneError, TransactionConflictError
from agentkit.store.job_table import JobTable
from agentkit.store.store import (
    SQL_SCOPE,
    STATE_SCOPE,
    Activated,
    AgentId,
    Batch,
    JobRow,
    PendingCommit,
    Store,
    ValueRange,
)
from agentkit.store.transaction import Token, Transaction

if TYPE_CHECKING:
    from agentkit.host import DurableObject

_STATE = (STATE_SCOPE, "")
#: Why an instance that left in good order can't write any more.
EVICTED = "it was evicted"


def _ignore(_: Session) -> None:
    """Stand in for a hook until the runtime sets its own."""


class Session:
    """Reads and writes of one instance, under its lease.

    Attributes:
        row: The agent's hot row; ``alarm_ms`` follows the jobs.
        table: The jobs, committed or on their way.
        interrupted: Id of the job that was under way when the last owner died.
        is_starting: Start-up is under way: its commits don't count as progress after a crash.
        starter: The task that runs its start-up.
        gone: Why this instance may not write any more; None while it may.
        on_change: Called after the alarm may have changed.
        on_lost: Called once when a commit failed.
    """

    __slots__ = (
        "_active",
        "_last",
        "_lock",
        "_open",
        "_state",
        "gone",
        "host",
        "interrupted",
        "is_starting",
        "lease",
        "on_change",
        "on_lost",
        "row",
        "starter",
        "store",
        "table",
    )

    def __init__(self, store: Store, activated: Activated) -> None:
        self.store = store
        self.lease = activated.lease
        self.row = activated.row
        self.interrupted = activated.interrupted
        self.table = JobTable(activated.jobs)
        self.host: DurableObject | None = None
        self.gone: str | None = None
        self.is_starting = True
        self.starter: asyncio.Task[object] | None = None
        self.on_change: Callable[[Session], None] = _ignore
        self.on_lost: Callable[[Session], None] = _ignore
        self._state = activated.state
        # The latest commit asked for; earlier ones settle before it.
        self._last: PendingCommit | None = None
        self._open: Batch | None = None
        self._lock: asyncio.Lock | None = None
        self._active: Transaction | None = None

    @property
    def agent(self) -> AgentId:
        """Whose session this is."""
        return self.lease.agent

    def let_go(self) -> None:
        """Drop the links to an instance that has left; nothing can be written any more."""
        self.host = None
        self.on_change = self.on_lost = _ignore

    # --- who may write

    def _transaction(self) -> Transaction | None:
        """Return the open block that the running code belongs to, and note what it sees."""
        frame = context.current_frame()
        if frame is not None and self.has_pending:
            frame.seen = self._last
        while frame is not None:
            transaction = frame.transaction
            if transaction is not None and transaction.session is self and transaction.is_open:
                return transaction
            frame = frame.outer
        return None

    @property
    def is_in_transaction(self) -> bool:
        """The running code belongs to an open block."""
        return self._transaction() is not None

    def _writing(self) -> Transaction | None:
        """Return the open block as ``_transaction`` does, or raise if the running code lost the right to write.

        Raises:
            AgentGoneError: The instance has ended, or the run was abandoned.
        """
        if self.gone is not None:
            raise AgentGoneError(str(self.agent), self.gone)
        found: Transaction | None = None
        frame = context.current_frame()
        while frame is not None:
            if frame.work is not None and frame.work.abandoned:
                reason = f"{frame.work.label} did not stop when it was cancelled and was abandoned"
                raise AgentGoneError(str(self.agent), reason)
            transaction = frame.transaction
            if found is None and transaction is not None and transaction.session is self and transaction.is_open:
                found = transaction
            frame = frame.outer
        return found

    # --- commits

    def commit(self, batch: Batch, *, release: bool = False) -> PendingCommit:
        """Ask for a commit of the batch and the hot row; job changes are in memory at once."""
        self.apply(batch)
        return self.commit_row(batch, release=release)

    def apply(self, batch: Batch) -> None:
        """Take a batch's jobs over into memory and derive the alarm; ``commit_row`` must follow at once."""
        if batch.jobs:
            self.table.apply(batch.jobs)
            if self._active is not None:
                self._active.foreign.update(("job", job_id) for job_id in batch.jobs)
        self.row.alarm_ms = self.table.alarm_ms()

    def commit_row(self, batch: Batch, *, release: bool = False) -> PendingCommit:
        """Ask for a commit with the hot row as it stands (a fallback alarm, a teardown)."""
        if self.gone is not None:
            raise AgentGoneError(str(self.agent), self.gone)
        if not self.is_starting:
            self.row.crash_strikes = 0
        if release:
            self.gone = EVICTED
        self._open = batch
        self._last = self.store.commit(self.lease, self.row, batch, release=release, settled=self._settled)
        self.on_change(self)
        return self._last

    def _gathering(self) -> Batch:
        """Return the batch that the next group takes, or a new one; change it, then ``_ask`` for its commit."""
        if self._open is None or self._last is None or self._last.is_taken:
            return Batch()
        return self._open

    def _ask(self, batch: Batch) -> asyncio.Future[None]:
        if batch is not self._open:
            self.commit_row(batch)
        assert self._last is not None
        return self._last.wait()

    def _settled(self, error: BaseException | None) -> None:
        if self._last is not None and self._last.is_settled:
            self._open = None
        if error is not None and (self.gone is None or self.gone == EVICTED):
            self.gone = f"a commit failed ({error})"
            self.on_lost(self)

    async def settle(self) -> None:
        """Wait until what is on its way to the disk now has arrived.

        Raises:
            AgentGoneError: The instance has ended.
        """
        if self._last is not None and not self._last.is_settled:
            await self._last.wait()
        if self.gone is not None:
            raise AgentGoneError(str(self.agent), self.gone)

    @property
    def has_pending(self) -> bool:
        """Something is on its way to the disk."""
        return self._last is not None and not self._last.is_settled

    def _touch(self, *tokens: Token) -> None:
        if self._active is not None:
            self._active.foreign.update(tokens)

    # --- jobs

    def job(self, job_id: str) -> JobRow | None:
        """Return a job as the running code sees it."""
        transaction = self._transaction()
        if transaction is None:
            return self.table.get(job_id)
        transaction.reads.add(("job", job_id))
        if job_id in transaction.batch.jobs:
            return transaction.batch.jobs[job_id]
        return self.table.get(job_id)

    def count_jobs(self, owner: str) -> int:
        """Return how many jobs an owner has, as the running code sees them."""
        transaction = self._transaction()
        if transaction is None:
            return self.table.count(owner)
        return sum(1 for row in self.jobs() if row.owner == owner)

    def jobs(self) -> list[JobRow]:
        """Return all jobs as the running code sees them, by due time."""
        transaction = self._transaction()
        rows = {row.id: row for row in self.table}
        if transaction is not None:
            transaction.reads.add(("jobs",))
            for job_id, row in transaction.batch.jobs.items():
                if row is None:
                    rows.pop(job_id, None)
                else:
                    rows[job_id] = row
        return sorted(rows.values())

    def put_job(self, row: JobRow) -> Awaitable[None]:
        """Put a job; durable once awaited."""
        return self._change_job(row.id, row)

    def drop_job(self, job_id: str) -> Awaitable[None]:
        """Delete a job; durable once awaited."""
        return self._change_job(job_id, None)

    def requeue(self, row: JobRow, run_id: str) -> Awaitable[None]:
        """Bring a recorded job back and take its entry out of the history, in one commit."""
        transaction = self._writing()
        if transaction is not None:
            transaction.batch.absorb(Batch(jobs={row.id: row}, forget=[run_id]))
            return DONE
        return self.commit(Batch(jobs={row.id: row}, forget=[run_id])).wait()

    def _change_job(self, job_id: str, row: JobRow | None) -> Awaitable[None]:
        transaction = self._writing()
        if transaction is not None:
            transaction.batch.jobs[job_id] = row
            return DONE
        batch = self._gathering()
        batch.jobs[job_id] = row
        self.table.put(job_id, row)
        alarm_ms = self.table.alarm_ms()
        if alarm_ms != self.row.alarm_ms:
            self.row.alarm_ms = alarm_ms
            self.on_change(self)
        if self._active is not None:
            self._active.foreign.add(("job", job_id))
        return self._ask(batch)

    # --- values

    async def value(self, scope: str, key: str) -> str | None:
        """Return a value as the running code sees it."""
        transaction = self._transaction()
        if transaction is not None:
            transaction.reads.add(("value", scope, key))
            if (scope, key) in transaction.batch.values:
                return transaction.batch.values[scope, key]
            if scope in transaction.batch.cleared:
                return None
        return await self.store.value(self.lease, scope, key)

    async def values(self, scope: str, wanted: ValueRange) -> list[tuple[str, str]]:
        """Return values in key order as the running code sees them."""
        transaction = self._transaction()
        if transaction is None:
            return await self.store.values(self.lease, scope, wanted)
        transaction.reads.add(("scope", scope))
        found: dict[str, str | None] = {}
        if scope not in transaction.batch.cleared:
            found.update(await self.store.values(self.lease, scope, wanted._replace(limit=None)))
        for (put_scope, key), value in transaction.batch.values.items():
            if put_scope == scope and _is_wanted(key, wanted):
                found[key] = value
        rows = sorted(((key, value) for key, value in found.items() if value is not None), reverse=wanted.reverse)
        return rows[: wanted.limit]

    def put_values(self, scope: str, values: dict[str, str | None]) -> Awaitable[None]:
        """Put values, and delete those that are None; durable once awaited."""
        transaction = self._writing()
        batch = self._gathering() if transaction is None else transaction.batch
        for key, value in values.items():
            batch.values[scope, key] = value
        if transaction is not None:
            return DONE
        self._touch(*(("value", scope, key) for key in values))
        return self._ask(batch)

    def clear(self, scope: str) -> Awaitable[None]:
        """Delete all values of a scope; durable once awaited."""
        transaction = self._writing()
        batch = self._gathering() if transaction is None else transaction.batch
        batch.clear(scope)
        if transaction is not None:
            return DONE
        self._touch(("scope", scope))
        return self._ask(batch)

    # --- state

    def state(self) -> str | None:
        """Return the stored state as the running code sees it."""
        transaction = self._transaction()
        if transaction is not None:
            transaction.reads.add(("value", *_STATE))
            if _STATE in transaction.batch.values:
                return transaction.batch.values[_STATE]
        return self._state

    def put_state(self, text: str) -> Awaitable[None]:
        """Store the state; durable once awaited."""
        if self._writing() is None:
            self._state = text
        return self.put_values(STATE_SCOPE, {"": text})

    async def sql(self, statement: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Run a statement on the agent's private database, which no transaction of ours covers."""
        self._writing()
        if self.lease.fresh:
            # An agent that stored nothing leaves no row, and without its row its database is lost.
            await self.commit(Batch(values={(SQL_SCOPE, ""): "true"})).wait()
            self.lease.fresh = False
        return await self.store.sql(self.lease, statement, parameters)

    # --- transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what the block changes together, or nothing of it (SPEC 3.4)."""
        if self._writing() is not None:
            yield
            return
        self._lock = self._lock or asyncio.Lock()
        await self._turn(self._lock)
        transaction = self._active = Transaction(self)
        assert self.host is not None
        try:
            # What was on its way when the block began must be what it reads.
            await self.settle()
            with context.entered(self.host, transaction=transaction):
                yield
            await self._flush(transaction)
        finally:
            self.end(transaction)
        # Without the lock: what follows may want a block of its own.
        for follow in transaction.afterwards:
            await follow()

    async def _turn(self, lock: asyncio.Lock) -> None:
        """Take the lock, unless the code holds a block that the lock's holder waits for, which would never end."""
        if not lock.locked():
            await lock.acquire()
            return
        held = [frame.transaction for frame in context.frames() if frame.transaction and frame.transaction.is_open]
        link: Session | None = self
        while link is not None and link._active is not None:
            if link._active in held:
                other = f"the open block of {link.agent}, which waits for this one"
                raise TransactionConflictError(str(self.agent), [other])
            link = link._active.waits_for
        for transaction in held:
            transaction.waits_for = self
        try:
            await lock.acquire()
        finally:
            for transaction in held:
                transaction.waits_for = None

    def end(self, transaction: Transaction) -> None:
        """End a block, whether its code has left it or was abandoned in it, so that others get their turn."""
        transaction.is_open = False
        for work in transaction.works:
            if transaction in work.blocks:
                work.blocks.remove(transaction)
        if self._active is transaction:
            self._active = None
        if transaction.holds_lock:
            transaction.holds_lock = False
            assert self._lock is not None
            self._lock.release()

    async def _flush(self, transaction: Transaction) -> None:
        transaction.is_open = False
        self._writing()
        conflicts = transaction.conflicts()
        if conflicts:
            raise TransactionConflictError(str(self.agent), conflicts)
        batch = transaction.batch
        if not (batch.jobs or batch.values or batch.cleared or batch.forget):
            return
        if _STATE in batch.values:
            self._state = batch.values[_STATE]
        self._active = None
        await finish(self.commit(batch))

    async def once_committed(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Call a function: in a block once that is committed, else now."""
        transaction = self._transaction()
        if transaction is None:
            await follow()
        else:
            transaction.afterwards.append(follow)


async def finish(commit: PendingCommit) -> None:
    """Wait for a commit, also when cancelled meanwhile; then pass the cancellation on."""
    cancelled: asyncio.CancelledError | None = None
    while not commit.is_settled:
        try:
            await commit.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class _Done:
    """Something to await that is over already: a change inside a transaction."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


DONE = _Done()


def _is_wanted(key: str, wanted: ValueRange) -> bool:
    return (
        key.startswith(wanted.prefix)
        and (wanted.start is None or key >= wanted.start)
        and (wanted.end is None or key < wanted.end)
    )
