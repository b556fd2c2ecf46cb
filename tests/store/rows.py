"""Rows for tests, and the few steps that most tests of a store begin with."""

from __future__ import annotations

from itertools import count

from agentkit.store.store import (
    Activated,
    AgentId,
    AgentRow,
    Batch,
    HistoryRow,
    JobRow,
    Lease,
    Owner,
    Store,
    ValueRange,
)

ADA = AgentId("Bot", "ada")
BOB = AgentId("Bot", "bob")

_runs = count(1)


def job_row(id: str = "job", *, due_ms: int = 1_000, exclusive: bool = False, payload: str = "null") -> JobRow:
    """Return a job; each has a later ``run_id`` than the one before."""
    return JobRow(due_ms, f"{next(_runs):024x}", id, "host", "work", payload, "", int(exclusive), 500)


def history_row(run_id: str, *, seq: int = 1, pinned: bool = False) -> HistoryRow:
    """Return a finished run, the agent's ``seq``-th; a pinned one is set aside."""
    outcome = "poisoned" if pinned else "completed"
    return HistoryRow(run_id, "job", "host", "work", 1, 2, 3, 1, outcome, None, None, int(pinned), seq)


def puts(*jobs: JobRow) -> Batch:
    """Return a batch that puts jobs."""
    return Batch(jobs={job.id: job for job in jobs})


def row_for(*jobs: JobRow) -> AgentRow:
    """Return the hot row of an agent with these jobs."""
    wanted = [job for job in jobs if job.exclusive] or jobs
    return AgentRow(alarm_ms=min(job.due_ms for job in wanted))


async def activate(store: Store, node: str, agent: AgentId = ADA) -> Activated:
    """Claim an agent that is free or the node's own."""
    activated = await store.activate(node, agent, again=True)
    assert not isinstance(activated, Owner)
    return activated


async def put_away(store: Store, node: str, agent: AgentId, *jobs: JobRow) -> None:
    """Store an agent with these jobs, owned by nobody."""
    lease = (await activate(store, node, agent)).lease
    await store.commit(lease, row_for(*jobs), puts(*jobs), release=True).wait()


async def stored_values(store: Store, lease: Lease, scope: str = "host") -> dict[str, str]:
    """Return all values of a scope."""
    return dict(await store.values(lease, scope, ValueRange()))
