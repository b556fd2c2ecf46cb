"""The job queue against a plain dictionary: whatever is pushed, moved, cancelled or cut off, the same jobs run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import JobContext, RescheduleAt
from agentkit.testing import ManualRuntime
from tests.jobs.worker import START, Script, Worker, at

Step = tuple[Any, ...]

_ids = st.sampled_from(["a", "b", "c", "d"])
_seconds = st.integers(min_value=-3, max_value=12)
#: What a run returns: done, once more after so many seconds, or once more at once.
_outcomes = st.sampled_from(["done", "again", "at once"])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), _ids, _seconds, _outcomes, st.booleans()),
        st.tuples(st.just("reschedule"), _ids, _seconds),
        st.tuples(st.just("cancel"), _ids),
        st.tuples(st.just("advance"), st.integers(min_value=0, max_value=8)),
        st.tuples(st.just("crash")),
        st.tuples(st.just("evict")),
        st.tuples(st.just("dropped transaction"), _ids, _seconds),
        st.tuples(st.just("transaction"), _ids, _ids, _seconds),
    ),
    max_size=25,
)


@dataclass
class Entry:
    """A job of the model."""

    due_at: datetime
    version: int
    outcome: str
    is_exclusive: bool
    created_at: datetime


@dataclass
class Model:
    """What the queue must do, in a few lines over a dictionary."""

    now: datetime = START
    jobs: dict[str, Entry] = field(default_factory=dict)
    ran: list[tuple[str, datetime]] = field(default_factory=list)
    versions: int = 0

    def version(self) -> int:
        """Return a version later than all others."""
        self.versions += 1
        return self.versions

    def push(self, id: str, due_at: datetime, outcome: str, is_exclusive: bool) -> None:
        """Put a job; its id's first push counts as its creation."""
        old = self.jobs.get(id)
        created_at = self.now if old is None else old.created_at
        self.jobs[id] = Entry(due_at, self.version(), outcome, is_exclusive, created_at)

    def reschedule(self, id: str, due_at: datetime) -> bool:
        """Move a job."""
        if id not in self.jobs:
            return False
        self.jobs[id].due_at, self.jobs[id].version = due_at, self.version()
        return True

    def cancel(self, id: str) -> bool:
        """Delete a job."""
        return self.jobs.pop(id, None) is not None

    def listed(self) -> list[tuple[str, datetime, datetime]]:
        """Return the jobs in due order."""
        ordered = sorted(self.jobs.items(), key=lambda item: (item[1].due_at, item[1].version))
        return [(id, entry.due_at, entry.created_at) for id, entry in ordered]

    def advance(self, seconds: int) -> None:
        """Fire what falls due, each at its own moment."""
        target = self.now + timedelta(seconds=seconds)
        while (due_at := self._next()) is not None and due_at <= target:
            self.now = max(self.now, due_at)
            self._alarm()
        self.now = target

    def _candidates(self) -> dict[str, Entry]:
        exclusive = {id: entry for id, entry in self.jobs.items() if entry.is_exclusive}
        return exclusive or self.jobs

    def _next(self) -> datetime | None:
        return min((entry.due_at for entry in self._candidates().values()), default=None)

    def _alarm(self) -> None:
        before = self.versions
        while True:
            due = [
                (entry.due_at, entry.version, id)
                for id, entry in self._candidates().items()
                if entry.due_at <= self.now and entry.version <= before
            ]
            if not due:
                return
            self._run(min(due)[2])

    def _run(self, id: str) -> None:
        entry = self.jobs[id]
        self.ran.append((id, self.now))
        match entry.outcome:
            case "done":
                del self.jobs[id]
            case "again":
                self.jobs[id] = Entry(
                    self.now + timedelta(seconds=5), self.version(), "done", entry.is_exclusive, entry.created_at
                )
            case "at once":
                self.jobs[id] = Entry(self.now, self.version(), "done", entry.is_exclusive, entry.created_at)


class Player:
    """Plays the same steps on a runtime and on the model."""

    def __init__(self, runtime: ManualRuntime) -> None:
        self.model = Model()
        self._runtime = runtime
        self._agent = runtime.get(Worker, "ada")

    async def play(self, step: Step) -> None:
        """Take one step on both, and compare what they answer."""
        match step:
            case ("push", id, seconds, outcome, is_exclusive):
                due_at = self.model.now + timedelta(seconds=seconds)
                await self._agent.push("work", at=due_at, id=id, payload=outcome, exclusive=is_exclusive)
                self.model.push(id, due_at, outcome, is_exclusive)
            case ("reschedule", id, seconds):
                due_at = self.model.now + timedelta(seconds=seconds)
                moved = await self._agent.use(lambda agent: agent.lifecycle.jobs.reschedule(id, due_at))
                assert moved is self.model.reschedule(id, due_at)
            case ("cancel", id):
                cancelled = await self._agent.use(lambda agent: agent.lifecycle.jobs.cancel(id))
                assert cancelled is self.model.cancel(id)
            case ("advance", seconds):
                await self._runtime.advance(seconds)
                self.model.advance(seconds)
            case ("crash",):
                await self._runtime.crash()
            case ("evict",):
                await self._runtime.evict(Worker, "ada")
            case ("dropped transaction", id, seconds):
                await self._agent.use(lambda agent: self._drop(agent, id, seconds))
            case ("transaction", first, second, seconds):
                due_at = self.model.now + timedelta(seconds=seconds)
                await self._agent.use(lambda agent: self._swap(agent, first, second, due_at))
                self.model.cancel(first)
                self.model.push(second, due_at, "done", False)

    async def _drop(self, agent: Worker, id: str, seconds: int) -> None:
        try:
            async with agent.transaction():
                await agent.lifecycle.jobs.cancel(id)
                await agent.push("dropped", after=seconds, payload="done")
                raise KeyError
        except KeyError:
            pass

    async def _swap(self, agent: Worker, first: str, second: str, due_at: datetime) -> None:
        async with agent.transaction():
            await agent.lifecycle.jobs.cancel(first)
            await agent.push("work", at=due_at, id=second, payload="done")

    async def compare(self, ran: list[tuple[str, datetime]]) -> None:
        """Check that both have run, and hold, the same jobs."""
        assert ran == self.model.ran
        listed = [(job.id, job.due_at, job.created_at) for job in await self._agent.jobs()]
        assert listed == self.model.listed()


async def _play(steps: list[Step]) -> None:
    ran: list[tuple[str, datetime]] = []

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        now = agent.lifecycle.clock.now()
        ran.append((context.job.id, now))
        match context.job.payload:
            case "again":
                return RescheduleAt(now + timedelta(seconds=5), "done")
            case "at once":
                return RescheduleAt(now, "done")
        return None

    async with ManualRuntime(Worker, deps=Script(work=work)) as runtime:
        player = Player(runtime)
        await runtime.advance(0)
        for step in steps:
            await player.play(step)
            # What is overdue runs at once; the model does so when asked.
            await runtime.advance(0)
            player.model.advance(0)
            await player.compare(ran)
        await runtime.advance(60)
        player.model.advance(60)
        await player.compare(ran)
        assert await runtime.get(Worker, "ada").jobs() == []


@settings(derandomize=True, deadline=None, max_examples=80)
@given(steps=_steps)
def test_queue_does_what_a_dictionary_says(steps: list[Step]) -> None:
    """After every step the runs and their moments, and the jobs that are left, are those of the model."""
    asyncio.run(_play(steps))


def test_model_runs_jobs_in_due_order() -> None:
    """The model itself is right about the simplest case."""
    model = Model()
    model.push("late", at(5), "again", False)
    model.push("early", at(1), "done", False)

    model.advance(20)

    assert model.ran == [("early", at(1)), ("late", at(5)), ("late", at(10))]
