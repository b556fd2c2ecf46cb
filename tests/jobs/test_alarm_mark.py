"""Between the note that a job is under way and its first line, the row is read again (SPEC 4.6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentkit import Runtime
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import Lease
from tests.jobs.worker import Script, Worker


class GatedStore(SqliteStore):
    """Holds the alarm up once it has noted which job is under way."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.noted = asyncio.Event()
        self.gate = asyncio.Event()

    async def mark(self, lease: Lease, running: str) -> None:
        await super().mark(lease, running)
        self.noted.set()
        await self.gate.wait()


async def test_job_cancelled_while_it_is_noted_does_not_run(tmp_path: Path) -> None:
    """A cancel that says True before the job's first line means that it never runs."""
    store, script = GatedStore(tmp_path / "agents.db"), Script()
    async with Runtime(Worker, store=store, deps=script) as runtime:
        ada = runtime.get(Worker, "ada")
        await ada.push("work", after=0.05, id="work")
        await store.noted.wait()

        cancelled = await ada.use(lambda agent: agent.lifecycle.jobs.cancel("work"))
        store.gate.set()
        await ada.push("later", after=0, id="later")
        while script.log != ["later"]:
            assert "work" not in script.log
            await asyncio.sleep(0.01)

    assert cancelled is True
