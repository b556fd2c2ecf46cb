"""Whose code is running: in calls, jobs, hooks, tasks and threads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentkit import Agent, Capability, JobContext, current_agent
from agentkit.host import AgentContext
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Script, Start, Worker


class Teller(Agent):
    """Tells who is running where."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.seen: list[Any] = []

    async def on_start(self) -> None:
        self.seen.append(current_agent())

    async def here(self) -> bool:
        return current_agent() is self

    async def in_a_task(self) -> bool:
        return await asyncio.create_task(self.here())

    async def in_a_task_of_a_task(self) -> bool:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.in_a_task())
        return task.result()

    async def in_a_thread(self) -> bool:
        return await asyncio.to_thread(current_agent) is self

    async def around_another(self, name: str) -> list[bool]:
        other = self.get(Teller, name)
        return [current_agent() is self, await other.here(), current_agent() is self]

    async def at_start(self) -> bool:
        return self.seen[0] is self


@pytest.mark.parametrize("where", ["here", "in_a_task", "in_a_task_of_a_task", "in_a_thread", "at_start"])
async def test_current_agent_is_the_one_whose_code_runs(manual_runtime: Start, where: str) -> None:
    """In start-up, calls, tasks and threads ``current_agent()`` is the instance."""
    runtime = await manual_runtime(Teller)

    assert await getattr(runtime.get(Teller, "ada"), where)() is True


async def test_current_agent_comes_back_after_a_call_to_another(manual_runtime: Start) -> None:
    """A call to another agent is that agent's code; afterwards it is one's own again."""
    runtime = await manual_runtime(Teller)

    assert await runtime.get(Teller, "ada").around_another("bob") == [True, True, True]


async def test_current_agent_is_known_in_jobs_and_hooks(manual_runtime: Start) -> None:
    """Jobs of the host and of capabilities, and hooks around them, run as code of the agent."""
    seen: dict[str, Any] = {}

    class Part(Capability):
        id = "part"

        async def on_start(self) -> None:
            seen["part.on_start"] = current_agent()

        async def on_job(self, context: JobContext) -> None:
            seen["part.on_job"] = current_agent()
            raise ValueError("for the next hook")

        async def on_job_error(self, context: JobContext, error: Exception) -> None:
            seen["part.on_job_error"] = current_agent()

        async def on_evict(self) -> None:
            seen["part.on_evict"] = current_agent()

        async def on_destroy(self) -> None:
            seen["part.on_destroy"] = current_agent()

    class Host(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.part = self.lifecycle.use(Part())

        async def on_job(self, context: JobContext) -> None:
            seen["on_job"] = current_agent()

        async def on_alarm(self) -> None:
            seen["on_alarm"] = current_agent()

        async def scenario(self) -> None:
            await self.push("work", after=1)
            await self.part.lifecycle.jobs.push("theirs", after=1)

        async def callback(self) -> None:
            seen["callback"] = current_agent()

        async def schedule_it(self) -> None:
            await self.schedule(5, self.callback)

    runtime = await manual_runtime(Host, deps=Script())
    ada = runtime.get(Host, "ada")
    await ada.scenario()
    await ada.schedule_it()
    await runtime.advance(60)
    await runtime.evict(Host, "ada")
    await ada.destroy()
    await runtime.advance(60)

    assert set(seen) == {
        "part.on_start",
        "part.on_job",
        "part.on_job_error",
        "part.on_evict",
        "part.on_destroy",
        "on_job",
        "on_alarm",
        "callback",
    }
    assert all(isinstance(agent, Host) and agent.name == "ada" for agent in seen.values())


async def test_agents_running_side_by_side_do_not_mix(manual_runtime: Start) -> None:
    """Each of many concurrent calls and jobs sees its own agent."""
    wrong: list[str] = []

    async def work(agent: Worker, context: JobContext) -> None:
        for _ in range(3):
            await agent.lifecycle.clock.sleep(1)
            if current_agent() is not agent:
                wrong.append(agent.name)

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    for number in range(10):
        await runtime.get(Worker, f"agent{number}").push("work", after=1)

    await runtime.advance(10)

    assert wrong == []


async def test_there_is_no_current_agent_outside() -> None:
    """Outside of any agent's code the look raises, saying where it works."""
    with pytest.raises(LookupError, match=r"calls, jobs, callbacks and tools"):
        current_agent()


async def test_call_leaves_no_current_agent_behind() -> None:
    """After a call the caller's code is nobody's again."""
    async with ManualRuntime(Teller) as runtime:
        await runtime.get(Teller, "ada").here()

        with pytest.raises(LookupError):
            current_agent()
