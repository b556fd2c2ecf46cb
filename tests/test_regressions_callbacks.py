"""Callbacks that were accepted and never ran."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

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


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate without ``functools.wraps``."""

    async def around(*arguments: Any) -> None:
        await function(*arguments[:2])

    return around


class Decorated(Agent):
    """Has a callback that takes whatever it is given."""

    @noted
    async def note(self, payload: Any) -> None:
        await self.storage.put("noted", payload)

    async def plan(self) -> None:
        await self.schedule(1, "note", "tea")

    async def found(self) -> Any:
        return await self.storage.get("noted")


async def test_decorated_callback_gets_its_payload(manual_runtime: Start) -> None:
    """A first parameter of ``*arguments`` isn't self alone."""
    runtime = await manual_runtime(Decorated)
    ada = runtime.get(Decorated, "ada")
    await ada.plan()

    await runtime.advance(1)

    assert await ada.found() == "tea"


async def test_stub_method_of_the_same_agent_is_a_callback(manual_runtime: Start) -> None:
    """From outside, ``bot.schedule(1, bot.note)`` names the agent's own method; another agent's is refused."""
    runtime = await manual_runtime(Decorated)
    ada, bob = runtime.get(Decorated, "ada"), runtime.get(Decorated, "bob")

    await ada.schedule(1, ada.found)
    with pytest.raises(ScheduleError, match="another object's method"):
        await ada.schedule(1, bob.found)
    await runtime.advance(1)

    assert [run.outcome for run in await ada.history()] == ["completed"]
