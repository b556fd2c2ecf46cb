"""A job that takes the process with it doesn't do so for ever, and nobody else pays for it (SPEC 7.4, 7.5)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from agentkit import Agent, AgentOptions, JobContext, Runtime, YieldNow
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentId, AgentRow
from tests.faults.crash import BYSTANDERS, TRIES
from tests.faults.journal import Journal
from tests.store.rows import activate, job_row, puts

ROOT = Path(__file__).parent.parent.parent
DEADLY = AgentId("Deadly", "deadly")


def deaths_until_it_survives(folder: Path, kind: str) -> int:
    """Start the process again and again, as a supervisor does; returns how often it died."""
    command = [sys.executable, "-m", "tests.faults.crash", str(folder), kind]
    for deaths in range(20):
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=30)
        if ended.returncode == 0:
            return deaths
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    raise AssertionError("the process died twenty times")


def counted(folder: Path) -> Counter[str]:
    """Return how often each line stands in the journal."""
    journal = Journal(folder / "journal")
    lines = Counter(" ".join(words) for words in journal.read())
    journal.close()
    return lines


async def history(folder: Path, agent: AgentId) -> list[str]:
    """Return the outcomes of an agent's runs."""
    store = SqliteStore(folder / "agents.db")
    await store.open()
    outcomes = [run.outcome for run in await store.history(agent, 100)]
    await store.close()
    return outcomes


async def test_job_that_kills_the_process_each_time_is_set_aside(tmp_path: Path) -> None:
    """After five deaths it is poisoned; the jobs that ran beside it at the first one all get done, and none is."""
    deaths = deaths_until_it_survives(tmp_path, "deadly")

    lines = counted(tmp_path)
    assert deaths == lines["start deadly"] == AgentOptions().max_crash_strikes
    assert lines["event job:poisoned deadly"] == 1
    assert await history(tmp_path, DEADLY) == ["poisoned"]
    for number in range(BYSTANDERS):
        assert lines[f"end bystander{number}"] >= 1
        assert await history(tmp_path, AgentId("Bystander", f"bystander{number}")) == ["completed"]


async def test_job_that_gets_on_between_its_deaths_is_not_set_aside(tmp_path: Path) -> None:
    """What it commits clears its strikes, so that it may die more often than five times."""
    deaths = deaths_until_it_survives(tmp_path, "learning")

    lines = counted(tmp_path)
    assert deaths == TRIES - 1 > AgentOptions().max_crash_strikes
    assert lines["end deadly"] == 1
    assert await history(tmp_path, DEADLY) == ["completed"]


class Busy(Agent):
    """Has a job that runs again and again until the struck agent's has run; ``deps`` is the list of runs."""

    async def push(self) -> None:
        """Push the job, due now."""
        await self.lifecycle.jobs.push("work", after=0, id="work")

    async def on_job(self, context: JobContext) -> YieldNow | None:
        """Take a while."""
        self.deps.append(self.name)
        await asyncio.sleep(0.02)
        return None if "struck" in self.deps else YieldNow()


async def test_struck_agent_gets_its_turn_among_busy_ones(tmp_path: Path) -> None:
    """Its job waits until no other runs beside it, but not for ever: those that come later wait behind it."""
    struck = AgentId("Busy", "struck")
    store = SqliteStore(tmp_path / "agents.db")
    await store.open()
    lease = (await activate(store, await store.join(""), struck)).lease
    due_ms = round(time.time() * 1_000) + 300
    row = AgentRow(alarm_ms=due_ms, crash_strikes=1)
    await store.commit(lease, row, puts(job_row(due_ms=due_ms)), release=True).wait()
    await store.close()
    ran: list[str] = []

    async with Runtime(Busy, store=store, deps=ran, shutdown_grace=0) as runtime:
        for number in range(4):
            await runtime.get(Busy, f"busy{number}").push()
            await asyncio.sleep(0.005)
        async with asyncio.timeout(20):
            while await store.jobs(struck):
                await asyncio.sleep(0.01)

    assert len(set(ran[: ran.index("struck")])) == 4
    assert ran.count("struck") == 1
