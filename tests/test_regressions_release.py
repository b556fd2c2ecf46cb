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

    async def note(self) -> None:
        await asyncio.sleep(0.05)
        await self.storage.put("noted", True)

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


async def test_call_made_before_an_eviction_is_served_by_the_next_instance(tmp_path: Path) -> None:
    """A call that was made but not begun when its instance fell idle doesn't run on what is leaving."""
    async with Runtime(Worker, store=f"sqlite:///{tmp_path}/agents.db", deps=[]) as runtime:
        ada = runtime.get(Worker, "ada")
        await ada.note()
        assert runtime._hosting is not None
        [lifecycle] = runtime._hosting.live.values()

        call = ada.note()
        runtime._hosting.evict_soon(lifecycle)
        await call

        [successor] = runtime._hosting.live.values()
        assert successor is not lifecycle
