"""What an adapter of a scheduler supplies, and the loops of callers that all share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

DAY = 86_400


class Load(NamedTuple):
    """What one enqueue measurement does.

    Attributes:
        callers: How many push at one time.
        agents: Over how many agents they are spread (agentkit only).
        method: What they call (agentkit only): ``push`` or ``remind``.
        budget: Longest time in seconds.
        most: Most jobs altogether.
    """

    callers: int
    agents: int
    method: str
    budget: float
    most: int


class Timing(NamedTuple):
    """How many jobs, in how many seconds."""

    jobs: int
    seconds: float


Pending = tuple[int, float | None]


class Peer:
    """One scheduler. Each method is called in a fresh process, on a store in ``folder``.

    Attributes:
        durability: What a push that has returned survives.
        defaults: The settings that shape the figures.
        lead: Seconds that the lateness measure leaves for storing its jobs.
    """

    name: ClassVar[str]
    durability: ClassVar[str]
    defaults: ClassVar[str]
    lead: ClassVar[float] = 2.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reset(self) -> None:
        """Make an empty store."""

    def enqueue(self, load: Load) -> Timing:
        """Push jobs that are due in a day; only the pushing is timed."""
        raise NotImplementedError

    def put(self, jobs: Sequence[Pending], function: str = "noop") -> None:
        """Store jobs, untimed: (number, due in seconds since the epoch, or None for now)."""
        raise NotImplementedError

    def fill(self, count: int) -> None:
        """Store so many jobs due in a day, untimed, by any short cut that leaves the same rows."""
        raise NotImplementedError

    def unfinished(self) -> int:
        """Count jobs not yet recorded as done; 0 where one job at a time makes it moot."""
        return 0

    def work(self) -> None:
        """Serve for ever with the defaults; calls ``ready()`` once a due job would be run."""
        raise NotImplementedError


def push_threads(one: Callable[[int], object], load: Load) -> Timing:
    """Push from threads, or from this one where there is one caller."""
    counts = [0] * load.callers
    began = time.perf_counter()
    deadline = began + load.budget

    def push(caller: int) -> None:
        while counts[caller] < load.most // load.callers and time.perf_counter() < deadline:
            one(caller * 1_000_000 + counts[caller])
            counts[caller] += 1

    if load.callers == 1:
        push(0)
    else:
        threads = [threading.Thread(target=push, args=(caller,)) for caller in range(load.callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return Timing(sum(counts), time.perf_counter() - began)


async def push_tasks(one: Callable[[int, int], Awaitable[object]], load: Load) -> Timing:
    """Push from tasks; ``one`` gets the caller's number and the job's."""
    counts = [0] * load.callers
    began = time.perf_counter()
    deadline = began + load.budget

    async def push(caller: int) -> None:
        while counts[caller] < load.most // load.callers and time.perf_counter() < deadline:
            await one(caller, caller * 1_000_000 + counts[caller])
            counts[caller] += 1

    await asyncio.gather(*(push(caller) for caller in range(load.callers)))
    return Timing(sum(counts), time.perf_counter() - began)
