"""One instance from start-up to its end, seen from its hooks."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

from agentkit import AgentOptions, DurableObject, JobContext, Lifecycle, Runtime
from agentkit.errors import AgentGoneError, StoreUnavailableError
from agentkit.host import AgentContext
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker, at, history


class Diary(Worker):
    """Notes its hooks."""

    async def on_start(self) -> None:
        self.deps.log.append("on_start")

    async def on_alarm(self) -> None:
        self.deps.log.append("on_alarm")

    async def call(self) -> None:
        self.deps.log.append("call")


async def test_hooks_come_in_their_order(manual_runtime: Start) -> None:
    """Start-up first, then calls and jobs; an alarm's hook after its jobs; a new start-up after an eviction."""
    script = Script()
    runtime = await manual_runtime(Diary, deps=script)
    ada = runtime.get(Diary, "ada")

    await ada.call()
    await ada.push("work", after=1)
    await runtime.advance(1)
    await runtime.evict(Diary, "ada")
    await ada.call()

    assert script.log == ["on_start", "call", "work", "on_alarm", "on_start", "call"]


async def test_at_most_one_instance_of_an_agent_is_live(manual_runtime: Start) -> None:
    """Calls, alarms and evictions in any mixture never meet two instances that can write (SPEC 1)."""
    instances: list[Worker] = []
    most: list[int] = []

    def note() -> None:
        most.append(sum(instance.lifecycle.session.gone is None for instance in instances))

    class Counted(Worker):
        async def on_start(self) -> None:
            instances.append(self)
            note()
            await self.lifecycle.clock.sleep(0.1)

        async def on_alarm(self) -> None:
            note()
            await self.lifecycle.clock.sleep(0.5)

        async def call(self) -> None:
            note()
            await self.lifecycle.clock.sleep(0.5)

    runtime = await manual_runtime(Counted, deps=Script(), idle_timeout=1)
    ada = runtime.get(Counted, "ada")
    calls: list[asyncio.Task[Any]] = []
    for number in range(30):
        calls.append(asyncio.create_task(ada.push("work", after=number % 3)))
        calls.append(asyncio.create_task(ada.call()))
        await runtime.advance(0.7 if number % 2 else 4)

    await runtime.advance(10)
    await asyncio.gather(*calls)
    assert len(instances) > 10
    assert set(most) == {1}


async def test_options_may_be_given_to_the_lifecycle(manual_runtime: Start) -> None:
    """A plain host sets its options where it builds its lifecycle (SPEC 2.10)."""

    class Plain(DurableObject):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle = Lifecycle(self, options=AgentOptions(keep_history=2, max_value_bytes=10))

        async def on_job(self, context: JobContext) -> None:
            """Do nothing."""

        async def begin(self) -> None:
            for number in range(5):
                await self.lifecycle.jobs.push("work", after=number)

        async def put(self, value: str) -> None:
            await self.lifecycle.storage.put("key", value)

    runtime = await manual_runtime(Plain)
    ada = runtime.get(Plain, "ada")
    await ada.begin()

    await runtime.advance(10)

    assert len(await history(runtime, agent_class="Plain")) == 2
    with pytest.raises(ValueError, match="max_value_bytes"):
        await ada.put("x" * 20)


async def test_call_is_answered_when_what_it_saw_is_durable(tmp_path: Any) -> None:
    """A reply that shows another call's change comes after that change is on disk."""
    is_written: list[bool] = []
    order: list[str] = []

    def note(when: str, commits: int) -> None:
        if is_written and when == "after":
            order.append("durable")

    store = SqliteStore(tmp_path / "agents.db", durability="process", commit_hook=note)
    async with Runtime(Worker, store=store, deps=Script()) as runtime:
        ada = runtime.get(Worker, "ada")
        await ada.jobs()
        is_written.append(True)

        push = asyncio.create_task(ada.push("work", after=1_000))
        await asyncio.sleep(0)
        listed = await ada.jobs()
        order.append("answered")
        await push

    assert [job.function for job in listed] == ["work"]
    assert order[:2] == ["durable", "answered"]


async def test_instance_whose_commit_failed_is_loaded_again(tmp_path: Any) -> None:
    """What is in memory is then not what is on disk: the instance ends, and the next one reads the disk."""
    is_full: list[bool] = []

    def fail(when: str, commits: int) -> None:
        if is_full and when == "before":
            raise sqlite3.OperationalError("database or disk is full")

    store = SqliteStore(tmp_path / "agents.db", durability="process", commit_hook=fail)
    script = Script()
    async with ManualRuntime(Worker, store=store, deps=script) as runtime:
        ada = runtime.get(Worker, "ada")
        await ada.push("kept", at=at(100))

        async def itself(agent: Worker) -> Worker:
            return agent

        old = await ada.use(itself)
        is_full.append(True)
        with pytest.raises(StoreUnavailableError):
            await ada.push("lost", at=at(100))
        is_full.clear()
        await runtime.advance(60)

        new = await ada.use(itself)
        with pytest.raises(AgentGoneError):
            await old.push("late", at=at(100))
        await runtime.advance(60)

    assert new is not old
    assert script.log == ["kept"]


async def test_job_survives_a_store_that_fails_for_a_while(tmp_path: Any) -> None:
    """While nothing can be written no job is lost, and none counts as failed (SPEC 5.3)."""
    is_full: list[bool] = []

    def fail(when: str, commits: int) -> None:
        if is_full and when == "before":
            raise sqlite3.OperationalError("database or disk is full")

    store = SqliteStore(tmp_path / "agents.db", durability="process", commit_hook=fail)
    script = Script()
    async with ManualRuntime(Worker, store=store, deps=script) as runtime:
        await runtime.get(Worker, "ada").push("work", at=at(10))
        await runtime.get(Worker, "bob").push("work", at=at(10))
        is_full.append(True)
        await runtime.advance(30)
        is_full.clear()
        await runtime.advance(120)
        runs = [*await history(runtime, "ada"), *await history(runtime, "bob")]
        failed = runtime.events.count("job:failed")

    assert [run.outcome for run in runs] == ["completed", "completed"]
    assert failed == 0
