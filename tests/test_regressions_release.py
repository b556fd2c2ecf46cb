"""Instances that are released by their last commit, while others look at them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentkit import Agent, JobContext, Runtime
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentId
from tests.store.rows import job_row, put_away


class Worker(Agent):
    """Takes a moment for its job, one of them longer."""

    async def on_job(self, context: JobContext) -> None:
        await asyncio.sleep(0.6 if self.name == "slow" else 0.15)
        self.deps.append(self.name)


async def test_drain_waits_for_the_last_after_others_were_released(tmp_path: Path) -> None:
    """Agents woken from a backlog leave one by one; the drain goes on waiting for those that are left."""
    path = tmp_path / "agents.db"
    store = SqliteStore(path)
    await store.open()
    node = await store.join("")
    for name in [*(f"quick-{number}" for number in range(7)), "slow"]:
        await put_away(store, node, AgentId("Worker", name), job_row())
    await store.close()
    done: list[str] = []

    runtime = Runtime(Worker, store=f"sqlite:///{path}", deps=done, max_concurrent_agents=8)
    await runtime.start()
    await asyncio.sleep(0.1)
    await runtime.close()

    assert sorted(done) == sorted(["slow", *(f"quick-{number}" for number in range(7))])
