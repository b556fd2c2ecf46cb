"""The one agent that all measures use, and stores full of it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from agentkit import Agent, AgentOptions, JobContext, Runtime
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import FakeClock
from benchmarks.event_log import slow_async

DAY = 86_400
#: Where an entry point finds its store: it works in a folder of its own.
FILE = "agentkit.db"


class Probe(Agent):
    """Pushes jobs that tell ``deps``, a function of (number, due seconds), that they run."""

    options = AgentOptions(max_schedules=10_000_000)

    async def ping(self) -> None:
        """Do nothing."""

    async def push(self, number: int) -> None:
        """Push a job that is due in a day."""
        await self.lifecycle.jobs.push("noop", after=DAY, payload=[number])

    async def push_at(self, moment: datetime, function: str, number: int) -> None:
        """Push a job."""
        await self.lifecycle.jobs.push(function, at=moment, payload=[number, moment.timestamp()])

    async def remind(self, number: int) -> None:
        """Schedule a callback for tomorrow."""
        await self.schedule(DAY, self.reminded, [number])

    async def reminded(self, payload: list[int]) -> None:
        """Do nothing."""

    async def on_job(self, context: JobContext) -> None:
        """Tell ``deps``, and take three seconds where that is asked for."""
        number, due = context.job.payload
        if context.job.function == "slow":
            await slow_async(number, due)
        else:
            self.deps(number, due)


def fill_store(path: str, *, agents: int, due_in: float, jobs_each: int = 1, schedules: bool = False) -> None:
    """Fill a store with agents whose jobs, or schedules, are due from then on, one agent a millisecond.

    One agent pushes its own; its rows are then cloned under other names, which leaves the rows that a million calls
    would leave.
    """
    asyncio.run(_seed(path, due_in=due_in, jobs=jobs_each, schedules=schedules))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma synchronous=off")
        _clone(connection, agents)
        connection.execute("pragma wal_checkpoint(truncate)")


async def _seed(path: str, *, due_in: float, jobs: int, schedules: bool) -> None:
    now = datetime.now(UTC)
    due_at = now + timedelta(seconds=due_in)
    # A clock that stands still before anything is due: nothing runs while the store is filled.
    clock = FakeClock(min(now, due_at - timedelta(seconds=DAY)))
    async with Runtime(Probe, store=SqliteStore(path), clock=clock) as runtime:
        seed = runtime.get(Probe, "seed")
        for number in range(jobs):
            if schedules:
                await seed.schedule(due_at, "reminded", [number])
            else:
                await seed.push_at(due_at, "noop", number)


def _clone(connection: sqlite3.Connection, count: int) -> None:
    key, alarm_ms = connection.execute("select agent_id, alarm_ms from agents where name='seed'").fetchone()
    values: dict[str, Any] = {"seed": key, "alarm": alarm_ms, "count": count, "prefix": "agent-"}
    connection.execute("begin")
    names, picks = _columns(
        connection, "agents", {"name": ":prefix || n", "alarm_ms": ":alarm + n"}, without="agent_id"
    )
    connection.execute(
        f"""with recursive series(n) as (select 0 union all select n + 1 from series where n < :count - 1)
          insert into agents ({names}) select {picks} from series, agents original where original.agent_id = :seed""",
        values,
    )
    changed = {"agent_id": "clone.agent_id", "due_ms": "original.due_ms + clone.alarm_ms - :alarm"}
    names, picks = _columns(connection, "jobs", changed)
    connection.execute(
        f"""insert into jobs ({names}) select {picks} from agents clone, jobs original
          where original.agent_id = :seed and clone.agent_id <> :seed order by clone.agent_id""",
        values,
    )
    connection.execute("delete from jobs where agent_id = :seed", values)
    connection.execute("delete from agents where agent_id = :seed", values)
    connection.execute("commit")


def _columns(
    connection: sqlite3.Connection, table: str, changed: dict[str, str], *, without: str = ""
) -> tuple[str, str]:
    """Return a table's columns, and what to select for them: the original's, but for those that change."""
    names = [row[1] for row in connection.execute(f"pragma table_info({table})") if row[1] != without]
    return ", ".join(names), ", ".join(changed.get(name, f"original.{name}") for name in names)
