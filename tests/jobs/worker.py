"""An agent whose jobs do what a test says; shared by the tests of jobs and of what is around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from agentkit import Agent, Job, JobContext
from agentkit.store.store import AgentId, HistoryRow
from agentkit.testing import ManualRuntime

T = TypeVar("T")
Run = Callable[["Worker", JobContext], Awaitable[Any]]
#: The fixture ``manual_runtime``.
Start = Callable[..., Awaitable[ManualRuntime]]

#: Where a fake clock begins.
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the moment so many seconds after a fake clock's beginning."""
    return START + timedelta(seconds=seconds)


class Script:
    """What jobs do, by function, and what has run so far; given to a runtime as ``deps``.

    Attributes:
        runs: Called with the agent and the context; a function without one does nothing.
        log: Functions in the order in which they ran, one entry an attempt.
        contexts: What each attempt was told.
    """

    def __init__(self, **runs: Run) -> None:
        self.runs = runs
        self.log: list[str] = []
        self.contexts: list[JobContext] = []

    async def run(self, agent: Worker, context: JobContext) -> Any:
        """Note a run and do what the test says."""
        self.log.append(context.job.function)
        self.contexts.append(context)
        run = self.runs.get(context.job.function)
        return None if run is None else await run(agent, context)


class Worker(Agent):
    """Runs its jobs by the ``Script`` in its ``deps``."""

    async def on_job(self, context: JobContext) -> Any:
        return await self.deps.run(self, context)

    async def push(self, function: str, **options: Any) -> Job:
        """Push a job of the host."""
        return await self.lifecycle.jobs.push(function, **options)

    async def jobs(self) -> list[Job]:
        """Return the jobs of the host."""
        return await self.lifecycle.jobs.list()

    async def use(self, action: Callable[[Worker], Awaitable[T]]) -> T:
        """Run what a test wants to do inside the agent."""
        return await action(self)


async def history(runtime: ManualRuntime, name: str = "ada", agent_class: str = "Worker") -> list[HistoryRow]:
    """Return the recorded runs of an agent, newest first."""
    return await runtime.store.history(AgentId(agent_class, name), 1_000)
