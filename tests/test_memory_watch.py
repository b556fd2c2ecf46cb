"""A process over its memory limit (SPEC 7.1)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentkit import Agent, AgentOptions, JobContext
from agentkit.clock import from_ms
from agentkit.memory_watch import EXIT_STATUS, MemoryWatch, resident_bytes
from agentkit.testing import ManualRuntime

HOG = """
import asyncio, sys
from agentkit import Agent, Runtime

class Hog(Agent):
    async def start(self) -> None:
        await self.schedule(0.05, self.eat)

    async def eat(self) -> None:
        self.food = bytearray(400_000_000)
        for index in range(0, len(self.food), 4096):
            self.food[index] = 1
        await asyncio.sleep(30)

    async def on_alarm_memory_limit(self, context) -> None:
        print("hook", context.sealed, context.executing.function, flush=True)

async def main() -> None:
    async with Runtime(Hog, store=sys.argv[1], memory_limit=300_000_000) as runtime:
        await runtime.get(Hog, "ada").start()
        await asyncio.sleep(30)

asyncio.run(main())
"""


class Worker(Agent):
    """Sleeps in its job; blamed alone, it would be sealed at once."""

    options = AgentOptions(max_alarm_memory_limit_strikes=1)

    async def push(self) -> None:
        await self.lifecycle.jobs.push("work", after=1, id="work")

    async def due(self) -> object:
        job = await self.lifecycle.jobs.get("work")
        return None if job is None else (job.due_at, self.lifecycle.session.row.memory_strikes)

    async def on_job(self, context: JobContext) -> None:
        await self.lifecycle.clock.sleep(1000)


def test_process_over_its_limit_stores_the_strike_and_ends(tmp_path: Path) -> None:
    """The hook runs, the exit status is that of a process killed for its memory, and the job is kept for later."""
    url = f"sqlite:///{tmp_path}/agents.db"

    ended = subprocess.run([sys.executable, "-c", HOG, url], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == EXIT_STATUS, ended.stderr
    assert ended.stdout == "hook False eat\n"
    assert "its limit is 300000000" in ended.stderr


async def test_agents_with_jobs_under_way_share_the_blame() -> None:
    """Each gets a strike and its job is delayed; an agent that only sat there gets none."""
    left: list[int] = []
    async with ManualRuntime(Worker) as runtime:
        ada, bob, idle = (runtime.get(Worker, name) for name in ("ada", "bob", "idle"))
        for agent in (ada, bob):
            await agent.push()
        await idle.due()
        await runtime.advance(1)
        assert runtime._hosting is not None
        watch = MemoryWatch(100, runtime._hosting, clock=runtime.clock, measure=lambda: 101, leave=left.append)

        await watch.run()

        assert left == [EXIT_STATUS]
        later = from_ms(runtime.clock.now_ms() + 30_000)
        assert [await agent.due() for agent in (ada, bob, idle)] == [(later, 1), (later, 1), None]
        assert runtime.events.count("alarm:memory_limit_reset") == 2


def test_resident_memory_is_measured() -> None:
    """The figure grows with what the process holds."""
    before = resident_bytes()

    held = b"x" * 50_000_000

    assert resident_bytes() - before > 40_000_000
    assert len(held) == 50_000_000
