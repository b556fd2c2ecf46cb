"""A process with a job that kills it: ``python -m tests.faults.crash FOLDER KIND``; started again until it survives.

``deadly``: the job dies each time. ``learning``: it stores how often it tried, dies, and succeeds at the eighth try.
Beside it, other agents have jobs. Ends by itself when nothing waits any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentkit import Agent, JobContext, Runtime
from agentkit.events import Event
from agentkit.store.sqlite import SqliteStore
from tests.faults.journal import Journal

BYSTANDERS = 20
TRIES = 8


class Bystander(Agent):
    """Has an ordinary job; ``deps`` is the journal."""

    async def push(self) -> None:
        """Push it."""
        await self.lifecycle.jobs.push("work", after=0.3, id="work")

    async def on_job(self, context: JobContext) -> None:
        """Take a while."""
        self.deps.write("start", self.name)
        await asyncio.sleep(0.05)
        self.deps.write("end", self.name)


class Deadly(Agent):
    """Has a job that takes the process with it."""

    async def push(self, kind: str) -> None:
        """Push it, to run while the others' jobs do."""
        await self.lifecycle.jobs.push(kind, after=0.3, id="deadly")

    async def on_job(self, context: JobContext) -> None:
        """Die."""
        self.deps.write("start", self.name)
        await asyncio.sleep(0.02)
        if context.job.function == "learning":
            tries = await self.storage.get("tries", 0) + 1
            await self.storage.put("tries", tries)
            if tries == TRIES:
                self.deps.write("end", self.name)
                return
        os.kill(os.getpid(), signal.SIGKILL)


async def live(folder: Path, kind: str) -> None:
    """Push the jobs at the first start, then serve until nothing waits."""
    journal = Journal(folder / "journal")
    store = SqliteStore(folder / "agents.db")
    is_first = not (folder / "agents.db").exists()
    runtime = Runtime(Bystander, Deadly, store=store, deps=journal)
    runtime.events.subscribe("agents:lifecycle", lambda event: note(journal, event))
    async with runtime:
        if is_first:
            await runtime.get(Deadly, "deadly").push(kind)
            for number in range(BYSTANDERS):
                await runtime.get(Bystander, f"bystander{number}").push()
        while any(summary.alarm_ms is not None for summary in await store.agents()):
            await asyncio.sleep(0.01)


def note(journal: Journal, event: Event) -> None:
    """Note an event."""
    journal.write("event", event.type, event.name)


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
