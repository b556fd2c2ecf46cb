"""The statements by which nodes take agents over and give them up. Each runs inside one group commit."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any

from agentkit.store.store import Activated, AgentId, AgentRow, Claimed, JobRow, Lease, Owner

_HOT = "alarm_ms, running, memory_strikes, crash_strikes, failed_starts, runs, destroying"
_FREE = """update agents set node=null, epoch=epoch+1, crash_strikes=case
    when running is null then crash_strikes
    when :suspect is not null and :suspect<>agent_id then crash_strikes
    when :suspect is not null or :running=1 then crash_strikes+1
    else max(crash_strikes,1) end
  where node is not null"""
_EMPTY = """alarm_ms is null
  and not exists (select 1 from jobs where jobs.agent_id=agents.agent_id)
  and not exists (select 1 from key_values where key_values.agent_id=agents.agent_id)
  and not exists (select 1 from history where history.agent_id=agents.agent_id)"""
_DROP_EMPTY = f"delete from agents where node=? and {_EMPTY}"
_DROP_EMPTY_OF_DEAD = f"delete from agents where node is not null and {_EMPTY}"
_FIND = f"select agent_id, node, epoch, {_HOT} from agents where class=? and name=?"
_DUE = f"""select agent_id, class, name, epoch, {_HOT} from agents
  where class=? and node is null and alarm_ms<=? order by alarm_ms limit ?"""
_NEXT = "select min(alarm_ms) from agents where class=? and node is null and alarm_ms is not null"
_JOBS = f"select agent_id, {','.join(JobRow._fields)} from jobs where agent_id in (select value from json_each(?))"
_STATES = """select agent_id, value from key_values
  where agent_id in (select value from json_each(?)) and scope='state' and key=''"""
CLASSES_WAITING = """with recursive waiting(class) as (
  select min(class) from agents where node is null and alarm_ms is not null
  union all
  select (select min(class) from agents where node is null and alarm_ms is not null and class > waiting.class)
  from waiting where waiting.class is not null)
select class from waiting where class is not null"""
_REPAIR_STRETCH = 10_000
_DERIVED = """(select coalesce(min(case when exclusive then due_ms end), min(due_ms))
  from jobs where jobs.agent_id=agents.agent_id)"""
_REPAIR = f"""update agents set alarm_ms={_DERIVED}
  where agent_id>? and agent_id<=? and node is null and alarm_ms is not {_DERIVED}"""


def join(connection: sqlite3.Connection, node: str, address: str) -> None:
    """Free the agents of every other node, strike those whose job was under way, and enter the new node.

    An agent that ran alone takes the blame; strikes on shared evidence, several agents having had jobs under
    way, never go past the first (SPEC 7.5).
    """
    running = connection.execute(
        "select count(*) from agents where node is not null and running is not null"
    ).fetchone()[0]
    connection.execute(_DROP_EMPTY_OF_DEAD)
    suspect = connection.execute("select max(suspect) from nodes").fetchone()[0]
    connection.execute(_FREE, {"suspect": suspect, "running": running})
    connection.execute("delete from nodes")
    connection.execute("insert into nodes values (?,?,0,null)", (node, address))


def leave(connection: sqlite3.Connection, node: str) -> None:
    """Give up what the node owns; agents that stored nothing leave no row."""
    connection.execute(_DROP_EMPTY, (node,))
    connection.execute("update agents set node=null, running=null where node=?", (node,))
    connection.execute("delete from nodes where node=?", (node,))


def activate(connection: sqlite3.Connection, node: str, agent: AgentId, *, again: bool) -> Activated | Owner:
    """Claim one agent for a call."""
    found = connection.execute(_FIND, agent).fetchone()
    if found is None:
        cursor = connection.execute("insert into agents (class, name, node, epoch) values (?,?,?,1)", (*agent, node))
        lease = Lease(agent, int(cursor.lastrowid or 0), node, 1, fresh=True)
        return Activated(lease, AgentRow(), [], None)
    key, owner, epoch, *hot = found
    if owner is not None and not (again and owner == node):
        address = connection.execute("select address from nodes where node=?", (owner,)).fetchone()
        return Owner(owner, address[0] if address else "")
    connection.execute("update agents set node=?, epoch=?, running=null where agent_id=?", (node, epoch + 1, key))
    lease = Lease(agent, key, node, epoch + 1, fresh=False)
    activated = _loaded(connection, [(lease, AgentRow(*hot))])[0]
    activated.row.running = None  # a call is no job: a commit in it must not say that one is under way
    return activated


def claim_due(connection: sqlite3.Connection, node: str, classes: Sequence[str], now_ms: int, limit: int) -> Claimed:
    """Claim the earliest due agents, and say when the next one is due."""
    rows: list[tuple[Any, ...]] = []
    for class_name in classes:
        rows += connection.execute(_DUE, (class_name, now_ms, limit)).fetchall()
    rows.sort(key=lambda row: row[4])
    found = [
        (Lease(AgentId(class_name, name), key, node, epoch + 1, fresh=False), AgentRow(*hot))
        for key, class_name, name, epoch, *hot in rows[:limit]
    ]
    claimed = _loaded(connection, found) if found else []
    for activated in claimed:
        row = activated.row
        if row.crash_strikes or row.memory_strikes:
            # It waits for a turn of its own (SPEC 7.5) and is marked then; until then it is no evidence.
            row.running = None
    connection.executemany(
        "update agents set node=?, epoch=?, running=? where agent_id=?",
        [(node, agent.lease.epoch, agent.row.running, agent.lease.key) for agent in claimed],
    )
    next_due = [
        alarm for class_name in classes if (alarm := connection.execute(_NEXT, (class_name,)).fetchone()[0]) is not None
    ]
    return Claimed(claimed, min(next_due, default=None))


def mark(connection: sqlite3.Connection, lease: Lease, running: str) -> None:
    """Note the job under way; a fenced lease changes nothing and is found out at its commit."""
    connection.execute(
        "update agents set running=? where agent_id=? and node=? and epoch=?",
        (running, lease.key, lease.node, lease.epoch),
    )


def suspect(connection: sqlite3.Connection, node: str, lease: Lease | None) -> None:
    """Note whose alarm runs alone on a node."""
    connection.execute("update nodes set suspect=? where node=?", (lease.key if lease else None, node))


def repair_alarms(connection: sqlite3.Connection, after: int) -> int | None:
    """Derive the alarms of a stretch of unowned agents from their jobs."""
    last = connection.execute("select max(agent_id) from agents").fetchone()[0]
    if last is None or after >= last:
        return None
    until = after + _REPAIR_STRETCH
    connection.execute(_REPAIR, (after, until))
    return until


def _loaded(connection: sqlite3.Connection, found: list[tuple[Lease, AgentRow]]) -> list[Activated]:
    """Read what instances need, and point each hot row at the job that would run first."""
    keys = json.dumps([lease.key for lease, _ in found])
    jobs: dict[int, list[JobRow]] = {}
    for key, *job in connection.execute(_JOBS, (keys,)):
        jobs.setdefault(key, []).append(_job(*job))
    states = dict(connection.execute(_STATES, (keys,)).fetchall())
    loaded = []
    for lease, row in found:
        own = jobs.get(lease.key, [])
        interrupted, row.running = row.running, _first(own)
        loaded.append(Activated(lease, row, own, states.get(lease.key), interrupted))
    return loaded


def _job(due_ms: int, run_id: str, id: str, owner: str, function: str, *rest: Any) -> JobRow:
    """Build a row whose text is shared where many rows have the same."""
    if id == run_id:
        id = run_id
    return JobRow(due_ms, run_id, id, sys.intern(owner), sys.intern(function), *rest)


def _first(jobs: list[JobRow]) -> str | None:
    exclusive = [job for job in jobs if job.exclusive]
    first = min(exclusive or jobs, default=None)
    return first.id if first else None
