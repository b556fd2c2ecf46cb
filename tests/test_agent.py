"""What an agent is given, and the small things users write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import Agent, AgentContext, AgentOptions, Lifecycle, Schedule
from agentkit.errors import QuotaError
from agentkit.schedules import Scheduler
from tests.jobs.worker import Start, at


@dataclass
class Deps:
    sent: list[str]


class Reminder(BaseModel):
    text: str


class Bot(Agent):
    """An agent with a part of its own."""

    options = AgentOptions(max_schedules=3, timezone="Europe/Berlin")

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.greeting = f"hello {context.name}"

    async def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "deps": self.deps,
            "greeting": self.greeting,
            "clock": self.lifecycle.clock,
            "lifecycle": isinstance(self.lifecycle, Lifecycle),
            "scheduler": isinstance(self.scheduler, Scheduler),
        }

    async def remind(self, when: Any, text: str, **options: Any) -> Schedule:
        return await self.schedule(when, self.send, Reminder(text=text), **options)

    async def send(self, payload: Reminder, schedule: Schedule) -> None:
        self.deps.sent.append(payload.text)


async def test_agent_knows_its_name_deps_and_clock(manual_runtime: Start) -> None:
    """An agent with its own ``__init__`` has all parts of any agent."""
    deps = Deps([])
    runtime = await manual_runtime(Bot, deps=deps)

    facts = await runtime.get(Bot, "ada").facts()

    assert (facts["name"], facts["greeting"]) == ("ada", "hello ada")
    assert facts["deps"] is deps
    assert facts["clock"] is runtime.clock
    assert facts["lifecycle"]
    assert facts["scheduler"]


async def test_reminder_is_sent_after_a_crash(manual_runtime: Start) -> None:
    """The first thing users build: schedule, crash, and the message arrives once at its time."""
    deps = Deps([])
    runtime = await manual_runtime(Bot, deps=deps)
    await runtime.get(Bot, "ada").remind(datetime(2026, 1, 2, 9, tzinfo=UTC), "stand up")

    await runtime.crash()
    await runtime.advance(33 * 3_600 - 1)
    early = list(deps.sent)
    await runtime.advance(3_600)

    assert early == []
    assert deps.sent == ["stand up"]


async def test_cron_of_a_class_goes_by_its_zone(manual_runtime: Start) -> None:
    """``options.timezone`` is the zone of expressions that name none."""
    runtime = await manual_runtime(Bot, deps=Deps([]))

    schedule = await runtime.get(Bot, "ada").remind("0 9 * * *", "stand up")

    assert schedule.timezone == "Europe/Berlin"
    assert schedule.next_run == datetime(2026, 1, 1, 8, tzinfo=UTC)


async def test_schedules_over_the_limit_name_the_option(manual_runtime: Start) -> None:
    """One more than ``max_schedules`` raises; once one is gone there is room again (SPEC 19)."""
    runtime = await manual_runtime(Bot, deps=Deps([]))
    ada = runtime.get(Bot, "ada")
    schedules = [await ada.remind(60 + number, f"text {number}") for number in range(3)]

    with pytest.raises(QuotaError, match="max_schedules=3") as raised:
        await ada.remind(100, "one too many")
    await ada.cancel_schedule(schedules[0].id)
    await ada.remind(100, "fits")

    assert (raised.value.quota, raised.value.limit) == ("max_schedules", 3)
    assert len(await ada.list_schedules()) == 3


async def test_replacing_a_schedule_at_the_limit_is_allowed(manual_runtime: Start) -> None:
    """A key or an idempotent schedule that exists needs no room."""
    runtime = await manual_runtime(Bot, deps=Deps([]))
    ada = runtime.get(Bot, "ada")
    await ada.remind("0 9 * * *", "daily")
    await ada.remind(60, "keyed", key="k")
    await ada.remind(60, "third")

    await ada.remind("0 9 * * *", "daily")
    replaced = await ada.remind(90, "keyed anew", key="k")

    assert replaced.next_run == at(90)
    assert len(await ada.list_schedules()) == 3


async def test_a_thousand_schedules_are_the_default_limit(manual_runtime: Start) -> None:
    """The option's default holds for an agent that sets none."""

    class Roomy(Bot):
        options = AgentOptions()

    runtime = await manual_runtime(Roomy, deps=Deps([]))
    ada = runtime.get(Roomy, "ada")
    for number in range(1_000):
        await ada.remind(60 + number, "text")

    with pytest.raises(QuotaError, match="max_schedules=1,000"):
        await ada.remind(10, "one too many")


async def test_jobs_of_the_scheduler_are_not_the_hosts(manual_runtime: Start) -> None:
    """A schedule isn't in the host's own queue."""

    class Looking(Bot):
        async def own_jobs(self) -> int:
            return len(await self.lifecycle.jobs.list())

    runtime = await manual_runtime(Looking, deps=Deps([]))
    ada = runtime.get(Looking, "ada")

    await ada.remind(60, "text")

    assert await ada.own_jobs() == 0


async def test_model_of_the_state_is_inherited(manual_runtime: Start) -> None:
    """``Agent[Model]`` counts for subclasses of the class that wrote it."""

    class Tally(BaseModel):
        n: int = 0

    class Parent(Agent[Tally]):
        initial_state = Tally()

    class Child(Parent):
        async def count(self) -> Tally:
            await self.set_state({"n": "5"})  # type: ignore[arg-type]  # validated into the model
            return self.state

    runtime = await manual_runtime(Child)

    assert await runtime.get(Child, "ada").count() == Tally(n=5)


async def test_unknown_option_of_schedule_is_a_type_error(manual_runtime: Start) -> None:
    """A misspelled option doesn't pass silently."""
    runtime = await manual_runtime(Bot, deps=Deps([]))
    ada = runtime.get(Bot, "ada")

    with pytest.raises(TypeError, match="time_zone"):
        await ada.remind(60, "text", time_zone="UTC")

    assert await ada.list_schedules() == []
