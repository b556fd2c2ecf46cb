"""At most one live instance of an agent, also when a call and an alarm wake it in the same moment (SPEC 1, 2.2)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agentkit import Agent, AgentContext, JobContext, Runtime
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentId
from tests.store.rows import job_row, put_away


class Worker(Agent):
    """Counts its instances and its runs; ``deps`` is the list of what happened."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.deps.append("built")

    async def ask(self) -> None:
        """Be called."""

    async def on_job(self, context: JobContext) -> None:
        """Take long enough for a second instance to begin as well."""
        self.deps.append("begun")
        await asyncio.sleep(0.3)
        self.deps.append("ended")


@pytest.mark.parametrize("wait", [0.0, 0.04, 0.06, 0.08])
async def test_call_during_a_claim_finds_the_claimed_instance(tmp_path: Path, wait: float) -> None:
    """The job that was due runs once, whenever calls arrive while its agent is being claimed."""
    path = tmp_path / "agents.db"
    await store_overdue(path)
    happened: list[str] = []
    # Slow commits, so that calls arrive while the claim is on its way.
    store = SqliteStore(path, commit_hook=lambda when, number: time.sleep(0.02))

    async with Runtime(Worker, store=store, deps=happened) as runtime:
        worker = runtime.get(Worker, "ada")
        await asyncio.sleep(wait)
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                await asyncio.sleep(0.002)
                group.create_task(worker.ask())
        while await runtime.store.jobs(AgentId("Worker", "ada")):
            await asyncio.sleep(0.01)

    assert happened == ["built", "begun", "ended"]


async def store_overdue(path: Path) -> None:
    """Make a store with an agent whose job is long due."""
    store = SqliteStore(path)
    await store.open()
    await put_away(store, await store.join(""), AgentId("Worker", "ada"), job_row())
    await store.close()
