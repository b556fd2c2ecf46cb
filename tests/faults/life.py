"""A fixed life of two agents, killed at each of its commits: ``python -m tests.faults.life FOLDER before|after``.

For each commit, until one survives, the program forks a child that plays the life on a store of its own and kills
itself right before, or right after, that commit. Each leaves ``before-1.db`` and ``before-1.journal`` (and so on); the
names of those that were killed are printed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from functools import partial
from itertools import count, takewhile
from pathlib import Path

from agentkit import Agent, JobContext
from agentkit.store.sqlite import SqliteStore
from agentkit.store.writer import CommitHook
from agentkit.testing import ManualRuntime
from tests.faults.journal import Journal


class Diary(Agent):
    """Keeps what happened to it; ``deps`` is the journal."""

    async def on_start(self) -> None:
        """Note that it began."""
        self.deps.write("started", self.name)

    async def make_order(self) -> None:
        """Note an order and schedule its reminder, together."""
        async with self.transaction():
            await self.storage.put("order", "made")
            await self.schedule(60, self.remind, "order", key="order")

    async def write_pair(self, left: str, right: str) -> None:
        """Store two values together, in place of what was there."""
        async with self.transaction():
            await self.storage.put("left", left)
            await self.storage.put("right", right)

    async def read(self) -> dict[str, object]:
        """Return all values."""
        return await self.storage.list()

    async def push(self, id: str, minutes: float) -> None:
        """Push a job."""
        await self.lifecycle.jobs.push("work", after=timedelta(minutes=minutes), id=id)

    async def move(self, id: str, minutes: float) -> None:
        """Move a job."""
        await self.lifecycle.jobs.reschedule(id, self.lifecycle.clock.now() + timedelta(minutes=minutes))

    async def cancel(self, id: str) -> None:
        """Cancel a job."""
        await self.lifecycle.jobs.cancel(id)

    async def remind(self, payload: str) -> None:
        """Note that a reminder was given."""
        self.deps.write("reminded", self.name, payload)

    async def on_job(self, context: JobContext) -> None:
        """Have an effect in the store, once an occurrence, however often it runs (SPEC 4.11)."""
        self.deps.write("ran", self.name, context.job.id, context.attempt)
        key = f"effect of {context.run_id}"
        async with self.transaction():
            if await self.storage.get(key) is None:
                await self.storage.put(key, context.job.id)
                await self.storage.put("effects", await self.storage.get("effects", 0) + 1)


async def live(path: Path, journal: Journal, hook: CommitHook | None = None) -> None:
    """Play the life from beginning to end; each step is noted once it was acknowledged."""
    async with ManualRuntime(Diary, store=SqliteStore(path, commit_hook=hook), deps=journal) as runtime:
        ada, bob = runtime.get(Diary, "ada"), runtime.get(Diary, "bob")
        await ada.schedule(60, "remind", "soon")
        journal.write("acknowledged", "soon")
        await ada.make_order()
        journal.write("acknowledged", "order")
        await ada.push("moved", 2)
        journal.write("acknowledged", "pushed")
        await ada.move("moved", 3)
        journal.write("acknowledged", "moved")
        await ada.push("cancelled", 4)
        await ada.cancel("cancelled")
        journal.write("acknowledged", "cancelled")
        await ada.schedule_every(600, "remind", "often", key="often")
        journal.write("acknowledged", "often")
        await ada.write_pair("1", "1")
        await ada.write_pair("2", "2")
        journal.write("acknowledged", "pair")
        await ada.push("twice", 1)
        await runtime.advance(timedelta(minutes=3, seconds=30))
        journal.write("acknowledged", "worked")
        await runtime.evict(Diary, "ada")
        await bob.write_pair("bob", "bob")
        await bob.push("never", 60)
        journal.write("acknowledged", "bob")
        await bob.destroy()
        journal.write("acknowledged", "destroying")
        await runtime.advance(timedelta(seconds=10))
        journal.write("acknowledged", "destroyed")


def killer(point: str) -> CommitHook:
    """Return a hook that ends the process at a commit, counted from 1."""
    moment, number = point.split("-")

    def at_commit(when: str, commits: int) -> None:
        reached = commits + 1 if when == "before" else commits
        if when == moment and reached == int(number):
            # Meanwhile whoever doesn't wait for this commit goes on, and is found out.
            time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

    return at_commit


def is_killed(folder: Path, point: str) -> bool:
    """Let a child live until that commit; False if there is no such commit."""
    child = os.fork()
    if child == 0:
        journal = Journal(folder / f"{point}.journal")
        asyncio.run(live(folder / f"{point}.db", journal, killer(point)))
        os._exit(0)
    return ended_by_a_kill(child)


def ended_by_a_kill(child: int) -> bool:
    """Wait for a child to end: by a kill, or because it was done."""
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGKILL), f"the child ended with {ended}"
    return ended == -signal.SIGKILL


def main(folder: Path, moment: str) -> None:
    """Kill a child at each commit, until one survives, and print the points at which one died."""
    points = (f"{moment}-{number}" for number in count(1))
    sys.stdout.write(" ".join(takewhile(partial(is_killed, folder), points)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
