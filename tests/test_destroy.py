"""The end of an agent: safe to ask for from anywhere, finished whatever happens, and the name is free afterwards."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit import AgentOptions, Capability, JobContext, RetryPolicy
from agentkit.errors import AgentDestroyedError
from agentkit.host import AgentContext
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker, at, history


class Part(Capability):
    """A capability whose ``on_destroy`` does what a test says."""

    id = "part"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def on_job(self, context: JobContext) -> None:
        """Do nothing."""

    async def on_destroy(self) -> None:
        self._script.log.append("on_destroy")
        run = self._script.runs.get("on_destroy")
        if run is not None:
            await run(self, None)  # type: ignore[arg-type]  # a hook has no job


class Host(Worker):
    """A worker with something to clean up, that notes its start-ups."""

    options = AgentOptions(retry=RetryPolicy(max_attempts=3, base_delay=10, max_delay=10))

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.part = self.lifecycle.use(Part(self.deps))

    async def on_start(self) -> None:
        self.deps.log.append("on_start")

    async def fill(self) -> None:
        """Store something of every kind."""
        await self.storage.put("key", 1)
        await self.set_state(None)
        await self.push("later", at=at(10_000))
        await self.schedule("0 8 * * *", self.daily)
        await self.part.lifecycle.storage.put("key", 1)
        await self.part.lifecycle.jobs.push("theirs", at=at(10_000))

    async def daily(self) -> None:
        """Do nothing."""

    async def destroy_and_reply(self) -> str:
        await self.destroy()
        return "farewell"

    async def look(self) -> list[Any]:
        """Return what is left."""
        return [
            await self.storage.list(),
            await self.part.lifecycle.storage.list(),
            await self.jobs(),
            await self.list_schedules(),
            await self.part.lifecycle.jobs.list(),
        ]


EMPTY: list[Any] = [{}, {}, [], [], []]


async def test_reply_gets_out_before_the_end(manual_runtime: Start) -> None:
    """``destroy()`` returns at once, so the call that asked for it is answered."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")

    reply = await ada.destroy_and_reply()
    await runtime.advance(0)

    assert reply == "farewell"
    assert script.log == ["on_start", "on_destroy"]
    assert runtime.events.count("destroy") == 1


async def test_every_row_goes_and_the_name_is_free(manual_runtime: Start) -> None:
    """Values, state, jobs, schedules and history go; using the name again starts an empty agent."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")
    await ada.push("done", at=at(1))
    await ada.fill()
    await runtime.advance(1)

    await ada.destroy()
    await runtime.advance(0)
    rows = await runtime.store.agents()
    recorded = await history(runtime, agent_class="Host")
    left = await ada.look()
    await runtime.advance(timedelta(days=3))

    assert rows == []
    assert recorded == []
    assert left == EMPTY
    assert script.log == ["on_start", "done", "on_destroy", "on_start"]


async def test_no_table_keeps_a_row_of_a_destroyed_agent(tmp_path: Path) -> None:
    """The file holds nothing of it either, and everything of the others."""
    import sqlite3

    path = tmp_path / "agents.db"
    async with ManualRuntime(Host, store=f"sqlite:///{path}", deps=Script()) as runtime:
        for name in ("ada", "bob"):
            await runtime.get(Host, name).fill()
        await runtime.destroy(Host, "ada")
        await runtime.advance(0)

    connection = sqlite3.connect(path)
    tables = {
        table: connection.execute(f"select count(distinct agent_id) from {table}").fetchone()[0]
        for table in ("agents", "jobs", "key_values")
    }
    connection.close()
    assert tables == {"agents": 1, "jobs": 1, "key_values": 1}


async def test_destroy_inside_a_job(manual_runtime: Start) -> None:
    """A job may end its own agent: the job is finished first."""

    async def work(agent: Worker, context: JobContext) -> None:
        await agent.destroy()
        await agent.lifecycle.clock.sleep(5)
        script.log.append("finished")

    script = Script(work=work)
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")
    await ada.push("work", at=at(1))
    await ada.push("other", at=at(1))

    await runtime.advance(60)

    assert script.log == ["on_start", "work", "finished", "on_destroy"]


async def test_nothing_else_runs_while_the_end_is_pending(manual_runtime: Start) -> None:
    """Due jobs of the agent don't run before the destroy job, nor after it."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")
    await ada.push("due", at=at(-10))

    await ada.destroy()
    await runtime.advance(60)

    assert script.log == ["on_start", "on_destroy"]


async def test_destroy_may_be_scheduled(manual_runtime: Start) -> None:
    """``schedule(when, self.destroy)`` ends the agent later."""

    class Mortal(Host):
        async def live_for(self, seconds: float) -> None:
            await self.schedule(seconds, self.destroy)

    script = Script()
    runtime = await manual_runtime(Mortal, deps=script)
    await runtime.get(Mortal, "ada").live_for(50)

    await runtime.advance(49)
    before = list(script.log)
    await runtime.advance(1)

    assert before == ["on_start"]
    assert script.log == ["on_start", "on_destroy"]
    assert await runtime.store.agents() == []


async def test_runtime_destroys_an_agent_from_outside(manual_runtime: Start) -> None:
    """``runtime.destroy`` does the same for an agent that isn't live."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    await runtime.get(Host, "ada").fill()
    await runtime.evict(Host, "ada")

    await runtime.destroy(Host, "ada")
    await runtime.advance(0)

    assert script.log == ["on_start", "on_start", "on_destroy"]
    assert await runtime.store.agents() == []


async def test_destroying_twice_is_no_error(manual_runtime: Start) -> None:
    """A second request before the first has run changes nothing."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")

    await ada.destroy()
    await ada.destroy()
    await runtime.advance(0)

    assert script.log == ["on_start", "on_destroy"]
    assert runtime.events.count("destroy") == 1


# --- hooks that raise (SPEC 11.1)


@pytest.mark.parametrize(("failures", "calls", "leftovers"), [(1, 2, 0), (2, 3, 0), (99, 3, 1)])
async def test_raising_hook_is_retried_and_then_named_as_leftover(
    manual_runtime: Start, failures: int, calls: int, leftovers: int
) -> None:
    """``on_destroy`` has the attempts of the retry policy; then teardown goes on and an event names what stayed."""

    async def on_destroy(part: Any, context: Any) -> None:
        if script.log.count("on_destroy") <= failures:
            raise ValueError("the bin is full")

    script = Script(on_destroy=on_destroy)
    runtime = await manual_runtime(Host, deps=script)
    await runtime.get(Host, "ada").destroy()

    await runtime.advance(60)

    assert script.log.count("on_destroy") == calls
    assert [event.payload["capability"] for event in runtime.events.of("destroy:leftover")] == ["part"] * leftovers
    assert runtime.events.count("destroy") == 1
    assert await runtime.store.agents() == []


async def test_hooks_of_several_capabilities_all_run(manual_runtime: Start) -> None:
    """One that raises to the end doesn't keep the next from cleaning up."""
    log: list[str] = []

    class Broken(Capability):
        id = "broken"

        async def on_destroy(self) -> None:
            log.append("broken")
            raise ValueError("no")

    class Good(Capability):
        id = "good"

        async def on_destroy(self) -> None:
            log.append("good")

    class Both(Worker):
        options = AgentOptions(retry=RetryPolicy(max_attempts=1))

        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle.use(Broken())
            self.lifecycle.use(Good())

    runtime = await manual_runtime(Both, deps=Script())
    await runtime.get(Both, "ada").destroy()

    await runtime.advance(0)

    assert log == ["broken", "good"]


# --- interruptions (SPEC 11.1)


async def test_teardown_cut_off_by_a_crash_is_finished_before_anything_else(manual_runtime: Start) -> None:
    """At the next start the hooks run again and every row goes; then a call finds an empty agent."""

    async def on_destroy(part: Any, context: Any) -> None:
        if script.log.count("on_destroy") == 1:
            await part.lifecycle.clock.sleep(1_000)

    script = Script(on_destroy=on_destroy)
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")
    await ada.fill()
    await ada.destroy()
    await runtime.advance(0)

    await runtime.crash()
    left = await ada.look()

    assert left == EMPTY
    assert script.log == ["on_start", "on_destroy", "on_destroy", "on_start"]
    assert runtime.events.count("destroy") == 1


async def test_teardown_cut_off_by_a_crash_is_finished_without_a_call(manual_runtime: Start) -> None:
    """Nobody has to ask for the agent: its alarm is still there."""

    async def on_destroy(part: Any, context: Any) -> None:
        if script.log.count("on_destroy") < 3:
            await part.lifecycle.clock.sleep(1_000)

    script = Script(on_destroy=on_destroy)
    runtime = await manual_runtime(Host, deps=script)
    await runtime.get(Host, "ada").fill()
    await runtime.get(Host, "ada").destroy()
    await runtime.advance(0)

    for _ in range(2):
        await runtime.crash()
        await runtime.advance(0)

    assert script.log == ["on_start", "on_destroy", "on_destroy", "on_destroy"]
    assert await runtime.store.agents() == []


async def test_crash_before_the_destroy_job_runs_keeps_it(manual_runtime: Start) -> None:
    """Once ``destroy()`` has returned the end is certain."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    await runtime.get(Host, "ada").fill()
    await runtime.get(Host, "ada").destroy()

    await runtime.crash()
    await runtime.advance(0)

    assert script.log[-1] == "on_destroy"
    assert await runtime.store.agents() == []


# --- calls around the end (SPEC 11.2)


async def test_call_during_teardown_raises(manual_runtime: Start) -> None:
    """Calls that arrive once it has begun raise ``AgentDestroyedError``, until the name is free."""

    async def on_destroy(part: Any, context: Any) -> None:
        await part.lifecycle.clock.sleep(100)

    script = Script(on_destroy=on_destroy)
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")
    await ada.destroy()
    await runtime.advance(50)

    with pytest.raises(AgentDestroyedError, match="Host/ada is being destroyed"):
        await ada.look()
    await runtime.advance(60)

    assert await ada.look() == EMPTY


async def test_calls_under_way_get_their_grace_and_are_then_cut_off(manual_runtime: Start) -> None:
    """A call that ends within ``shutdown_grace`` is answered; one that doesn't raises ``AgentDestroyedError``."""

    async def short(agent: Worker) -> str:
        await agent.lifecycle.clock.sleep(10)
        await agent.storage.put("last", "words")
        return "answered"

    async def long(agent: Worker) -> str:
        await agent.lifecycle.clock.sleep(1_000)
        return "never"

    script = Script()
    runtime = await manual_runtime(Host, deps=script, shutdown_grace=25)
    ada = runtime.get(Host, "ada")
    calls = [asyncio.create_task(ada.use(action)) for action in (short, long)]
    await runtime.advance(0)

    await ada.destroy()
    await runtime.advance(24)
    early = list(script.log)
    await runtime.advance(10)

    assert early == ["on_start"]
    assert await calls[0] == "answered"
    with pytest.raises(AgentDestroyedError):
        await calls[1]
    assert script.log == ["on_start", "on_destroy"]
    assert await runtime.store.agents() == []


async def test_tracked_work_gets_its_grace_and_is_then_cut_off(manual_runtime: Start) -> None:
    """Background work of an alarm is waited for, then cancelled."""
    log: list[str] = []

    async def work(agent: Worker, context: JobContext) -> None:
        async def background(seconds: float) -> None:
            try:
                await agent.lifecycle.clock.sleep(seconds)
                log.append(f"ended {seconds:g}")
            except asyncio.CancelledError:
                log.append(f"cancelled {seconds:g}")
                raise

        for seconds in (10, 1_000):
            agent.lifecycle.track_alarm_work(asyncio.create_task(background(seconds)))

    runtime = await manual_runtime(Host, deps=Script(work=work))
    ada = runtime.get(Host, "ada")
    await ada.push("work", at=at(1))
    await runtime.advance(1)

    await ada.destroy()
    await runtime.advance(60)

    assert log == ["ended 10", "cancelled 1000"]
    assert await runtime.store.agents() == []


async def test_destroyed_instance_cannot_write(manual_runtime: Start) -> None:
    """Code that holds on to it raises, and brings nothing back."""
    runtime = await manual_runtime(Host, deps=Script())

    async def itself(agent: Worker) -> Worker:
        return agent

    old = await runtime.get(Host, "ada").use(itself)
    await old.destroy()
    await runtime.advance(0)

    with pytest.raises(Exception, match="Host/ada"):
        await old.storage.put("late", 1)
    assert await runtime.store.agents() == []


async def test_name_can_be_used_and_destroyed_again(manual_runtime: Start) -> None:
    """The new agent is one like any other."""
    script = Script()
    runtime = await manual_runtime(Host, deps=script)
    ada = runtime.get(Host, "ada")

    for _ in range(3):
        await ada.fill()
        await ada.destroy()
        await runtime.advance(0)

    assert script.log == ["on_start", "on_destroy"] * 3
    assert runtime.events.count("destroy") == 3
