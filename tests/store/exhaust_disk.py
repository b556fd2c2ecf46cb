"""A process on a small disk: ``python -m tests.store.exhaust_disk FOLDER``; fills it, frees it, and goes on."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from datetime import timedelta
from pathlib import Path

from agentkit import Agent
from agentkit.errors import StoreUnavailableError
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime


class Bot(Agent):
    """Notes what it was reminded of."""

    async def later(self, number: int) -> None:
        """Push a job that takes some room."""
        await self.schedule(60, self.remind, {"number": number, "text": "x" * 50_000})

    async def remind(self, payload: dict[str, object]) -> None:
        """Note that a job ran."""
        self.deps.append(payload["number"])


async def exhaust(folder: Path) -> str:
    """Push until there is no room, make some, and see what is left."""
    path, ballast = folder / "agents.db", folder / "ballast"
    ballast.write_bytes(bytes(4_000_000))
    acknowledged: list[int] = []
    ran: list[int] = []
    async with ManualRuntime(Bot, store=SqliteStore(path), deps=ran) as runtime:
        bot = runtime.get(Bot, "ada")
        refusals: list[str] = []
        while len(refusals) < 3:
            number = len(acknowledged) + len(refusals)
            try:
                await bot.later(number)
            except StoreUnavailableError as error:
                refusals.append(str(error))
            else:
                acknowledged.append(number)
        assert all("the disk is full" in refusal for refusal in refusals), refusals
        ballast.unlink()
        await bot.later(1_000)
        acknowledged.append(1_000)
        await runtime.advance(timedelta(minutes=10))
    assert sorted(ran) == acknowledged, (ran, acknowledged)
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()
    return "refused, then stored; ran every acknowledged job and no other; intact"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(exhaust(Path(sys.argv[1]))) + "\n")
