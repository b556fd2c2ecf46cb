"""What has left the memory of a process: instances that were dropped, whatever they still have to do."""

from __future__ import annotations

import gc
import weakref
from datetime import timedelta

from agentkit import Agent
from tests.jobs.worker import Start

references: list[weakref.ref[Agent]] = []


class Weekly(Agent):
    """Remembers its instances weakly."""

    async def on_start(self) -> None:
        references.append(weakref.ref(self))

    async def plan(self, days: float) -> None:
        await self.schedule(timedelta(days=days), self.ring, key="ring")

    async def ring(self) -> None:
        """Do nothing."""


async def test_evicted_instances_with_a_later_alarm_are_freed(manual_runtime: Start) -> None:
    """An agent that waits for next week is a row, not an object that the timer holds."""
    references.clear()
    runtime = await manual_runtime(Weekly, idle_timeout=10)
    for number in range(20):
        await runtime.get(Weekly, f"agent {number}").plan(7)

    await runtime.advance(60)
    gc.collect()

    assert len(references) == 20
    assert [reference() for reference in references] == [None] * 20
    await runtime.advance(timedelta(days=7))
    assert runtime.events.count("schedule:execute") == 20


async def test_alarm_that_moves_often_leaves_nothing_behind(manual_runtime: Start) -> None:
    """A snoozed alarm takes its earlier moments out of the timer: it fires once, at the last of them."""
    runtime = await manual_runtime(Weekly)
    agent = runtime.get(Weekly, "ada")

    for day in range(1, 300):
        await agent.plan(day)
    await runtime.advance(timedelta(days=298))
    before = runtime.events.count("schedule:execute")
    await runtime.advance(timedelta(days=2))

    assert (before, runtime.events.count("schedule:execute")) == (0, 1)
