"""Whose code is running: what the runtime does of its own belongs to no agent, whoever's code brought it about."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from agentkit import Agent, Runtime
from agentkit.clock import SystemClock, Timer

_HASTE = 50


class HastyClock(SystemClock):
    """A clock that runs faster than the loop's; its timers call back in the context in which they were set."""

    def __init__(self) -> None:
        self._began_ms = super().now_ms()

    def now_ms(self) -> int:
        return self._began_ms + (super().now_ms() - self._began_ms) * _HASTE

    def call_at(self, moment_ms: int, callback: Callable[[], None]) -> Timer:
        wait = max(0, moment_ms - self.now_ms()) / _HASTE + 1
        return asyncio.get_running_loop().call_later(wait / 1000, callback)


class Other(Agent):
    """Schedules a callback that writes."""

    async def poke(self, delay: float) -> None:
        await self.schedule(delay, self.ring)

    async def ring(self) -> None:
        await self.storage.put("rang", True)

    async def rang(self) -> Any:
        return await self.storage.get("rang")


class Caller(Agent):
    """Arms the runtime's timer from inside of a block and of a job."""

    async def arm(self) -> None:
        await self.schedule(0.1, self.work)

    async def work(self) -> None:
        await self.storage.put("effect", "done")

    async def effect(self) -> Any:
        return await self.storage.get("effect")

    async def drop_a_long_block(self) -> None:
        with contextlib.suppress(KeyError):
            async with self.transaction():
                await self.get(Other, "other").poke(0.05)
                await asyncio.sleep(0.3)
                raise KeyError

    async def arm_stubborn(self) -> None:
        await self.schedule(1, self.stubborn, timeout=1)

    async def stubborn(self) -> None:
        """Arm the timer, then ignore the timeout's cancellation, and one at the end of the test."""
        await self.get(Other, "other").poke(10)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)


async def test_job_takes_no_part_in_the_block_that_armed_the_timer() -> None:
    """A job that fires while a call's block is open writes for itself, and keeps it when the block is dropped."""
    async with Runtime(Caller, Other, store="sqlite:///:memory:") as runtime:
        caller = runtime.get(Caller, "ada")
        await caller.arm()

        await caller.drop_a_long_block()

        assert await caller.effect() == "done"


async def test_abandoned_run_takes_no_alarm_of_others_along() -> None:
    """A timer that an abandoned run has armed fires jobs which may write."""
    async with Runtime(Caller, Other, store="sqlite:///:memory:", clock=HastyClock(), shutdown_grace=0) as runtime:
        await runtime.get(Caller, "ada").arm_stubborn()

        await asyncio.sleep(0.6)

        assert await runtime.get(Other, "other").rang() is True
