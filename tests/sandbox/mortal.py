"""Ends the owner of a sandbox at one point of a scenario, as ``kill -9`` would: between any two steps of it."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from agentkit.clock import Clock
from agentkit.testing import InMemoryEngine, ManualRuntime


class KilledError(sqlite3.OperationalError):
    """What a step meets that the kill came before; of a kind that the store doesn't try again entry by entry."""


class Death:
    """Comes at the n-th point: before and after each commit, and before and after each call of the engine.

    Attributes:
        points: How many points there were while it was awaited.
    """

    def __init__(self, number: int | None) -> None:
        """Come at a point, counted from 1; None means never."""
        self.points = 0
        self._number = number
        self._is_awaited = False
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._over = threading.Event()

    def commit_hook(self, when: str, commits: int) -> None:
        """Hold the store's writer at the point, until the owner is dead."""
        if self._is_here():
            self._loop.call_soon_threadsafe(self._reached.set)
            self._over.wait(10)
            if when == "before":
                raise KilledError

    async def point(self) -> None:
        """Hold whoever calls the engine at the point, until the owner is dead."""
        if self._is_here():
            self._reached.set()
            while not self._over.is_set():
                await asyncio.sleep(0.001)
            raise KilledError

    def _is_here(self) -> bool:
        if not self._is_awaited:
            return False
        self.points += 1
        return self.points == self._number

    async def during(self, runtime: ManualRuntime, work: Awaitable[Any]) -> bool:
        """Let work go on until the point, then start anew; False if it ended before."""
        self._is_awaited = True
        working, reached = asyncio.ensure_future(work), asyncio.ensure_future(self._reached.wait())
        await asyncio.wait({working, reached}, return_when=asyncio.FIRST_COMPLETED)
        self._is_awaited = False
        reached.cancel()
        if not self._reached.is_set():
            await working
            return False
        crashing = asyncio.ensure_future(runtime.crash())
        await asyncio.sleep(0)
        self._over.set()
        await crashing
        working.cancel()
        with suppress(Exception, asyncio.CancelledError):
            await working
        return True


class MortalEngine:
    """The in-memory engine, with points around its calls."""

    def __init__(self, engine: InMemoryEngine, death: Death) -> None:
        self.real = engine
        self._death = death

    @property
    def clock(self) -> Clock | None:
        """See ``SandboxEngine``."""
        return self.real.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.real.clock = clock

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.real, name)
        if not inspect.iscoroutinefunction(value) or name == "wait":
            return value

        async def call(*arguments: Any, **keywords: Any) -> Any:
            await self._death.point()
            result = await value(*arguments, **keywords)
            await self._death.point()
            return result

        return call
