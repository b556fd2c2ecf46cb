"""A process whose jobs take a nap: ``python -m tests.faults.naps FOLDER GRACE SECONDS …``; serves until a signal.

Pushes one job for each number of seconds, all due now, to one agent, and notes in the journal what happens.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentkit import Agent, JobContext, Runtime
from agentkit.store.sqlite import SqliteStore
from tests.faults.journal import Journal


class Sleeper(Agent):
    """Naps; ``deps`` is the journal."""

    async def push(self, seconds: list[float]) -> None:
        """Push naps, due now."""
        async with self.transaction():
            for index, nap in enumerate(seconds):
                await self.lifecycle.jobs.push("nap", after=0, payload=nap, id=f"nap{index}")

    async def on_job(self, context: JobContext) -> None:
        """Nap; a job cut off notes that, too."""
        job = context.job
        self.deps.write("start", job.id, context.attempt, context.recovered)
        try:
            await asyncio.sleep(job.payload)
        except asyncio.CancelledError:
            self.deps.write("cut", job.id)
            raise
        self.deps.write("end", job.id)


async def serve(folder: Path, grace: float, seconds: list[float]) -> None:
    """Push the naps, and serve until a signal."""
    journal = Journal(folder / "journal")
    store = SqliteStore(folder / "agents.db")
    async with Runtime(Sleeper, store=store, deps=journal, shutdown_grace=grace) as runtime:
        if seconds:
            await runtime.get(Sleeper, "ada").push(seconds)
        await runtime.run()
    journal.write("closed")


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2]), [float(word) for word in sys.argv[3:]]))
