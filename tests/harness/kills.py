"""Crashes a runtime right before or after one of its commits, as ``kill -9`` would."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Literal

from agentkit.errors import AgentKitError
from agentkit.testing import ManualRuntime

When = Literal["before", "after"]


class KilledError(sqlite3.OperationalError):
    """What a commit meets that a kill came before; of a kind that is not tried again entry by entry."""


class Killer:
    """The ``commit_hook`` of a store; ``arm`` it once what comes before has been committed."""

    def __init__(self, when: When, number: int) -> None:
        self._when = when
        self._left = number
        self._is_armed = False
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._released = threading.Event()

    def __call__(self, when: str, commits: int) -> None:
        """Hold the commit that it is to be, until the runtime is dead."""
        if not self._is_armed or when != self._when:
            return
        self._left -= 1
        if self._left:
            return
        self._is_armed = False
        self._loop.call_soon_threadsafe(self._reached.set)
        self._released.wait(10)
        if when == "before":
            raise KilledError

    async def kill_during(self, runtime: ManualRuntime, work: Awaitable[Any]) -> bool:
        """Let work go on until the commit; False if it ended before that came."""
        self._is_armed = True
        working, reached = asyncio.ensure_future(work), asyncio.ensure_future(self._reached.wait())
        await asyncio.wait({working, reached}, return_when=asyncio.FIRST_COMPLETED)
        self._is_armed = False
        if not self._reached.is_set():
            reached.cancel()
            await working
            return False
        crashing = asyncio.ensure_future(runtime.crash())
        await asyncio.sleep(0)
        self._released.set()
        await crashing
        with suppress(AgentKitError, asyncio.CancelledError):
            await working
        return True
