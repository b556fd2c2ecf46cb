"""How instances come and go: start-ups that fail oddly, calls that meet an eviction, and jobs of lost instances."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, JobContext, Runtime
from agentkit.errors import AgentCallError, AgentError, AgentGoneError, StoreUnavailableError
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker


class Disk:
    """Lets commits fail while it is broken: the ``commit_hook`` of a store."""

    def __init__(self) -> None:
        self.is_broken = False

    def __call__(self, when: str, number: int) -> None:
        if self.is_broken and when == "before":
            raise sqlite3.OperationalError("disk I/O error")


class Fragile(Agent):
    """Breaks the disk of its store in its next start-up, if ``deps`` says so."""

    async def on_start(self) -> None:
        disk, modes = self.deps
        if not modes:
            return
        disk.is_broken = True
        try:
            await self.storage.put("started", True)
        except StoreUnavailableError:
            if modes.pop() == "raise":
                raise
        finally:
            disk.is_broken = False

    async def plan(self) -> None:
        await self.schedule(20, self.ring)

    async def ring(self) -> None:
        await self.storage.put("rang", True)

    async def rang(self) -> Any:
        return await self.storage.get("rang")


@pytest.mark.parametrize(("mode", "raised"), [("raise", StoreUnavailableError), ("swallow", AgentGoneError)])
async def test_failed_commit_of_a_start_up_leaves_the_agent_awake(
    tmp_path: Path, mode: str, raised: type[Exception]
) -> None:
    """The call is told, the agent is brought back, and its jobs run when they are due (SPEC 6.2, 6.5)."""
    disk = Disk()
    modes: list[str] = []
    store = SqliteStore(tmp_path / "agents.db", commit_hook=disk)
    async with ManualRuntime(Fragile, store=store, deps=(disk, modes), real_timeout=5) as runtime:
        ada = runtime.get(Fragile, "ada")
        await ada.plan()
        await runtime.evict(Fragile, "ada")
        modes.append(mode)

        with pytest.raises(raised):
            async with asyncio.timeout(5):
                await ada.rang()
        await runtime.advance(30)

        assert runtime.events.count("schedule:execute") == 1
        assert await ada.rang() is True


class Cancelled(Worker):
    """Awaits in its start-up what has been cancelled, while ``deps`` says so."""

    async def on_start(self) -> None:
        if self.deps.log and self.deps.log[-1] == "cancel":
            self.deps.log.append("cancelled")
            task = asyncio.ensure_future(asyncio.sleep(60))
            task.cancel()
            await task


@pytest.mark.parametrize("by", ["call", "alarm"])
async def test_start_up_that_awaits_something_cancelled_has_failed(manual_runtime: Start, by: str) -> None:
    """It is a failure like others: raised to the caller, and the jobs run at the fallback alarm (SPEC 2.4, 6.1)."""
    script = Script()
    runtime = await manual_runtime(Cancelled, deps=script)
    ada = runtime.get(Cancelled, "ada")
    await ada.push("work", after=10)
    await runtime.evict(Cancelled, "ada")
    script.log.append("cancel")

    if by == "call":
        with pytest.raises(AgentError, match="cancelled"):
            await ada.jobs()
    await runtime.advance(60)

    assert script.log == ["cancel", "cancelled", "work"]


class Circle(Agent):
    """Calls the agent that ``deps`` names in its start-up."""

    async def on_start(self) -> None:
        await self.get(Circle, self.deps[self.name]).ping()

    async def ping(self) -> None:
        """Be called."""


@pytest.mark.parametrize(
    "calls", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}], ids=["itself", "two", "three"]
)
async def test_start_ups_that_wait_for_each_other_are_refused(manual_runtime: Start, calls: dict[str, str]) -> None:
    """An error names the circle, instead of a wait without an end."""
    runtime = await manual_runtime(Circle, deps=calls)

    async with asyncio.timeout(5):
        with pytest.raises(AgentCallError, match="would wait for itself"):
            await runtime.get(Circle, "a").ping()


class Refreshing(Agent):
    """Starts a task in its start-up that calls the agent itself."""

    async def on_start(self) -> None:
        self.task = asyncio.ensure_future(self.get(Refreshing, self.name).refresh())
        await self.storage.put("started", True)

    async def refresh(self) -> str:
        return "refreshed"

    async def wait(self) -> str:
        return await self.task


async def test_task_of_a_start_up_may_call_the_agent(manual_runtime: Start) -> None:
    """What start-up doesn't wait for waits for the start-up."""
    runtime = await manual_runtime(Refreshing)

    assert await runtime.get(Refreshing, "ada").wait() == "refreshed"


class Brief(Agent):
    """Writes at the end of a short call."""

    async def work(self) -> str:
        await asyncio.sleep(0.002)
        await self.storage.put("worked", True)
        return "done"


async def test_call_that_meets_an_idle_eviction_is_answered(tmp_path: Path) -> None:
    """A call begins on an instance that stays, or on the next one; never on one that is being given up (SPEC 2.5)."""
    async with Runtime(
        Brief, store=f"sqlite:///{tmp_path}/agents.db", idle_timeout=0.02, durability="process"
    ) as runtime:

        async def call_in_the_rhythm_of_evictions(name: str) -> list[str]:
            answers = []
            for step in range(10):
                answers.append(await runtime.get(Brief, name).work())
                await asyncio.sleep(0.0195 + step * 0.0002)
            return answers

        names = [f"agent {number}" for number in range(60)]
        answers = await asyncio.gather(*map(call_in_the_rhythm_of_evictions, names))

    assert answers == [["done"] * 10] * 60


class Lost(Agent):
    """Notes when runs of its job begin and end."""

    async def push(self) -> None:
        await self.lifecycle.jobs.push("work", after=1)

    async def on_job(self, context: JobContext) -> None:
        self.deps.append("begun")
        try:
            await self.lifecycle.clock.sleep(30)
        finally:
            self.deps.append("ended")

    async def write(self) -> None:
        await self.storage.put("written", True)


async def test_job_of_a_lost_instance_ends_before_the_next_one_runs_it(tmp_path: Path) -> None:
    """A failed commit of a call drops the instance; its job is cut off and runs again alone (SPEC 2.3, 2.11)."""
    disk = Disk()
    happened: list[str] = []
    store = SqliteStore(tmp_path / "agents.db", commit_hook=disk)
    async with ManualRuntime(Lost, store=store, deps=happened) as runtime:
        ada = runtime.get(Lost, "ada")
        await ada.push()
        await runtime.advance(10)
        disk.is_broken = True
        with pytest.raises(StoreUnavailableError):
            await ada.write()
        disk.is_broken = False

        await runtime.advance(60)

        assert happened == ["begun", "ended"] * 2
