"""A process with hundreds of agents: ``python -m tests.faults.crowd FOLDER SEED ROUND``, or ``FOLDER finish``.

A round pushes what the plan says, notes in the journal what was acknowledged and what ran, and waits to be killed.
The last life pushes nothing, works off what is left and ends by itself.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentkit import Agent, JobContext, Runtime
from agentkit.store.sqlite import SqliteStore
from tests.faults.journal import Journal
from tests.faults.plan import Push, plan_round


class Worker(Agent):
    """Notes when each of its jobs begins and ends."""

    async def push(self, push: Push) -> None:
        """Push a job."""
        await self.lifecycle.jobs.push("work", after=push.delay_ms / 1_000, payload=push.sleep_ms, id=push.job_id)

    async def on_job(self, context: JobContext) -> None:
        """Take a while."""
        journal: Journal = self.deps
        journal.write("start", context.job.id, self.name, context.attempt, context.run_id)
        await asyncio.sleep(context.job.payload / 1_000)
        journal.write("end", context.job.id, self.name)


async def serve(folder: Path, seed: int, number: int) -> None:
    """Push what the round's plan says, then go on serving."""
    journal = Journal(folder / "journal")

    async def push_one(push: Push) -> None:
        await asyncio.sleep(push.at_ms / 1_000)
        await runtime.get(Worker, push.agent).push(push)
        journal.write("acknowledged", push.job_id)

    async with Runtime(Worker, store=SqliteStore(folder / "agents.db"), deps=journal, idle_timeout=0.2) as runtime:
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        async with asyncio.TaskGroup() as group:
            for push in plan_round(seed, number).pushes:
                group.create_task(push_one(push))
        await asyncio.Event().wait()


async def finish(folder: Path) -> None:
    """Serve until nothing waits any more."""
    journal = Journal(folder / "journal")
    store = SqliteStore(folder / "agents.db")
    async with Runtime(Worker, store=store, deps=journal) as runtime:
        while any(summary.alarm_ms is not None for summary in await runtime.store.agents()):
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    if sys.argv[2] == "finish":
        asyncio.run(finish(Path(sys.argv[1])))
    else:
        asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
