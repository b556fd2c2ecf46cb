"""agentkit through its public path: methods of an agent, called on stubs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import ClassVar, TypeVar

from agentkit import Runtime
from agentkit.clock import Clock
from agentkit.store.sqlite import Durability, SqliteStore
from agentkit.testing import FakeClock
from benchmarks.event_log import noop, ready
from benchmarks.peers.peer import DAY, Load, Peer, Pending, Timing, push_tasks
from benchmarks.probe import Probe, fill_store

T = TypeVar("T")


class AgentKit(Peer):
    """agentkit with a durability; one agent a job where jobs are stored to be run."""

    defaults = "one job at a time per agent, up to 1,000 agents at a time, one timer, every run in the history"
    setting: ClassVar[Durability]
    pause: ClassVar[float] = 0.0
    lead = 1.0

    def _run(self, body: Callable[[Runtime], Awaitable[T]], *, clock: Clock | None = None) -> T:
        async def run() -> T:
            path = self.folder / "agentkit.db"
            hook = self._wait if self.pause else None
            store = SqliteStore(path, durability=self.setting, commit_hook=hook)
            async with Runtime(Probe, store=store, clock=clock, deps=noop) as runtime:
                return await body(runtime)

        return asyncio.run(run())

    def _wait(self, when: str, _: int) -> None:
        if when == "before":
            time.sleep(self.pause)

    def enqueue(self, load: Load) -> Timing:
        async def body(runtime: Runtime) -> Timing:
            stubs = [runtime.get(Probe, f"agent-{number}") for number in range(load.agents)]
            calls = [getattr(stubs[caller % load.agents], load.method) for caller in range(load.callers)]
            # Activates the agents, and loads what the first call of a process loads.
            await asyncio.gather(*(getattr(stub, load.method)(0) for stub in stubs))
            return await push_tasks(lambda caller, number: calls[caller](number), load)

        return self._run(body)

    def put(self, jobs: Sequence[Pending], function: str = "noop") -> None:
        async def body(runtime: Runtime) -> None:
            pushes = []
            for number, due in jobs:
                moment = time.time() if due is None else due
                stub = runtime.get(Probe, f"agent-{number}")
                pushes.append(stub.push_at(datetime.fromtimestamp(moment, UTC), function, number))
            await asyncio.gather(*pushes)

        # A clock that stands still long before, or what is due would be run here and now.
        self._run(body, clock=FakeClock())

    def fill(self, count: int) -> None:
        fill_store(str(self.folder / "agentkit.db"), agents=count, due_in=DAY)

    def work(self) -> None:
        async def body(runtime: Runtime) -> None:
            ready()
            await asyncio.Event().wait()

        self._run(body)


class Full(AgentKit):
    name = "agentkit-full"
    durability = "SQLite WAL, synchronous=FULL, group commit"
    setting = "full"


class Process(AgentKit):
    name = "agentkit-process"
    durability = "SQLite WAL, synchronous=NORMAL: survives kill -9, power loss may drop the last commits"
    setting = "process"


class Slow(Process):
    name = "agentkit-slow"
    durability = "as agentkit-process, with a sleep of 4 ms before each commit in place of the sync"
    pause = 0.004


PEERS = {peer.name: peer for peer in (Full, Process, Slow)}
