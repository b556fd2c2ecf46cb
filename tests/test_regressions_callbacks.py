"""Callbacks that were accepted and never ran."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from agentkit import Agent
from agentkit.errors import ScheduleError
from tests.jobs.worker import Start


class Generating(Agent):
    """Has callbacks that only make a generator when they are called."""

    async def plan(self, callback: str) -> None:
        await self.schedule(1, callback)

    async def collect(self) -> AsyncIterator[int]:
        yield 1

    def produce(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("callback", ["collect", "produce"])
async def test_generator_is_refused_as_a_callback(manual_runtime: Start, callback: str) -> None:
    """Calling one runs nothing of it: said when it is scheduled, not recorded as completed."""
    runtime = await manual_runtime(Generating)

    with pytest.raises(ScheduleError, match="generator"):
        await runtime.get(Generating, "ada").plan(callback)
