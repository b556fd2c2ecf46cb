"""A process that pushes jobs: ``python -m tests.store.push_jobs PATH DURABILITY``; ``$SYNC_LOG`` grows with each sync.

Prints how many syncs (seen in the log), and how many commits, pushes in turn and pushes at one time took.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import cast

from agentkit import Agent, Runtime
from agentkit.store.sqlite import Durability, SqliteStore

PUSHES = 100


class Bot(Agent):
    """Schedules."""

    async def later(self, number: int) -> None:
        """Push a job that is due in a year."""
        await self.schedule(365 * 86_400, self.work, number)

    async def work(self, payload: int) -> None:
        """Do nothing."""


async def measure(path: str, durability: Durability) -> dict[str, int]:
    """Push jobs one by one, then as many at one time."""
    log = Path(os.environ["SYNC_LOG"])
    store = SqliteStore(path, durability=durability)
    async with Runtime(Bot, store=store) as runtime:
        bot = runtime.get(Bot, "ada")
        await bot.later(-1)
        counts = [(log.stat().st_size, store.writer.synced_commits)]
        for number in range(PUSHES):
            await bot.later(number)
        counts.append((log.stat().st_size, store.writer.synced_commits))
        await asyncio.gather(*(bot.later(number) for number in range(PUSHES)))
        counts.append((log.stat().st_size, store.writer.synced_commits))
    (start, start_commits), (one, one_commits), (many, many_commits) = counts
    return {
        "syncs in turn": one - start,
        "commits in turn": one_commits - start_commits,
        "syncs at one time": many - one,
        "commits at one time": many_commits - one_commits,
    }


if __name__ == "__main__":
    Path(os.environ["SYNC_LOG"]).touch()
    sys.stdout.write(json.dumps(asyncio.run(measure(sys.argv[1], cast(Durability, sys.argv[2])))))
