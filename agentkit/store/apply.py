"""The statements of a group commit: agents' batches become rows, each fenced by its lease."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from agentkit.store.store import AgentRow, Batch, HistoryRow, JobRow, Lease

FENCE = """update agents set node=?, alarm_ms=?, running=?, memory_strikes=?, crash_strikes=?, failed_starts=?,
  runs=?, destroying=? where agent_id=? and node=? and epoch=?"""
PUT_JOB = f"insert or replace into jobs (agent_id, {','.join(JobRow._fields)}) values (?,?,?,?,?,?,?,?,?,?)"
DELETE_JOB = "delete from jobs where agent_id=? and id=?"
PUT_VALUE = "insert or replace into key_values values (?,?,?,?)"
DELETE_VALUE = "delete from key_values where agent_id=? and scope=? and key=?"
CLEAR_SCOPE = "delete from key_values where agent_id=? and scope=?"
PUT_HISTORY = f"""insert or replace into history (agent_id, {",".join(HistoryRow._fields)})
  values (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""
FORGET = "delete from history where agent_id=? and run_id=?"
PRUNE = """delete from history where agent_id=:agent and pinned=0 and seq <= coalesce((
  select seq from history where agent_id=:agent and pinned=0 order by seq desc limit 1 offset :keep), -1)"""
DROP_EMPTY = """delete from agents where agent_id=? and node is null and alarm_ms is null
  and not exists (select 1 from jobs where jobs.agent_id=agents.agent_id)
  and not exists (select 1 from key_values where key_values.agent_id=agents.agent_id)
  and not exists (select 1 from history where history.agent_id=agents.agent_id)"""
DESTROY = tuple(f"delete from {table} where agent_id=?" for table in ("jobs", "key_values", "history", "agents"))


class Change(NamedTuple):
    """One commit of one agent: its hot row as it then was, and what else changed."""

    lease: Lease
    row: tuple[Any, ...]
    batch: Batch
    release: bool


def row_values(row: AgentRow) -> tuple[Any, ...]:
    """Return the hot row in the order of ``FENCE``."""
    return (
        row.alarm_ms,
        row.running,
        row.memory_strikes,
        row.crash_strikes,
        row.failed_starts,
        row.runs,
        row.destroying,
    )


def apply_changes(connection: sqlite3.Connection, changes: list[Change]) -> set[Lease]:
    """Write all changes whose lease still holds; returns the leases that don't.

    Must come first in its transaction.
    """
    if not changes:
        return set()
    merged = list(_merge(changes))
    fenced: set[Lease] = set()
    parameters = [_fence_parameters(change) for change in merged]
    if connection.executemany(FENCE, parameters).rowcount != len(parameters):
        # Nothing else has been written yet: begin again and ask one by one.
        connection.execute("rollback")
        connection.execute("begin immediate")
        for change, values in zip(merged, parameters, strict=True):
            if connection.execute(FENCE, values).rowcount == 0:
                fenced.add(change.lease)
        merged = [change for change in merged if change.lease not in fenced]
    _write(connection, merged)
    return fenced


def _merge(changes: list[Change]) -> Iterable[Change]:
    """Fold the changes of each lease into one; the last hot row counts."""
    by_lease: dict[Lease, Change] = {}
    # Merged into batches of our own: a failed group is run again entry by entry from the originals.
    own: dict[Lease, Batch] = {}
    for change in changes:
        lease = change.lease
        earlier = by_lease.get(lease)
        if earlier is None:
            by_lease[lease] = change
            continue
        batch = own.get(lease)
        if batch is None:
            batch = own[lease] = Batch()
            batch.absorb(earlier.batch)
        batch.absorb(change.batch)
        by_lease[lease] = Change(lease, change.row, batch, earlier.release or change.release)
    return by_lease.values()


def _fence_parameters(change: Change) -> tuple[Any, ...]:
    lease = change.lease
    return (None if change.release else lease.node, *change.row, lease.key, lease.node, lease.epoch)


def _write(connection: sqlite3.Connection, changes: list[Change]) -> None:
    put_jobs, dropped_jobs, put_values, dropped_values, history = [], [], [], [], []
    for lease, _, batch, _ in changes:
        key = lease.key
        for job_id, job in batch.jobs.items():
            if job is None:
                dropped_jobs.append((key, job_id))
            else:
                put_jobs.append((key, *job))
        for scope in batch.cleared:
            connection.execute(CLEAR_SCOPE, (key, scope))
        for (scope, name), value in batch.values.items():
            if value is None:
                dropped_values.append((key, scope, name))
            else:
                put_values.append((key, scope, name, value))
        history += [(key, *run) for run in batch.history]
    for statement, rows in (
        (PUT_JOB, put_jobs),
        (DELETE_JOB, dropped_jobs),
        (PUT_VALUE, put_values),
        (DELETE_VALUE, dropped_values),
        (PUT_HISTORY, history),
    ):
        if rows:
            connection.executemany(statement, rows)
    for change in changes:
        _finish(connection, change)


def _finish(connection: sqlite3.Connection, change: Change) -> None:
    key, batch = change.lease.key, change.batch
    if batch.forget:
        connection.executemany(FORGET, [(key, run_id) for run_id in batch.forget])
    if batch.keep_history is not None:
        connection.execute(PRUNE, {"agent": key, "keep": batch.keep_history})
    if batch.destroy:
        for statement in DESTROY:
            connection.execute(statement, (key,))
    elif change.release and change.lease.fresh:
        connection.execute(DROP_EMPTY, (key,))
