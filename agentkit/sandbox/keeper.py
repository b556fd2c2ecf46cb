"""Asks the engine what there is, compares it with the record, and tells what follows; one change at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from agentkit.capability import Scope
from agentkit.clock import Clock, duration_of
from agentkit.sandbox.engine import Instance, InstancePlan, SandboxEngine
from agentkit.sandbox.instance import Identity
from agentkit.sandbox.ledger import Ledger
from agentkit.sandbox.monitoring import Monitors
from agentkit.sandbox.record import Look, Record, look
from agentkit.sandbox.snapshot_rows import SnapshotRows
from agentkit.sandbox.spec import SandboxSpec

T = TypeVar("T")


class Keeper:
    """What one live agent instance knows of its sandbox.

    Attributes:
        lock: Held by whoever changes what exists; ``look`` needs it.
        ledger: The record and the jobs.
        snapshots: Their rows.
        monitors: Who listens.
    """

    def __init__(
        self,
        scope: Scope,
        spec: SandboxSpec,
        *,
        sandbox: str,
        open_engine: Callable[[], Awaitable[SandboxEngine]],
        tells_stops: bool,
    ) -> None:
        """Reach for nothing yet.

        Args:
            scope: The capability's.
            spec: What the code asks for now.
            sandbox: The capability's id.
            open_engine: Returns the engine, at first use.
            tells_stops: There is an ``on_stop``.
        """
        self.scope = scope
        self.spec = spec
        self.identity = Identity(store=scope.store_id, agent=scope.agent, sandbox=sandbox)
        self.name = self.identity.engine_name
        self.lock = asyncio.Lock()
        self.ledger = Ledger(scope, sandbox, tells_stops=tells_stops)
        self.snapshots = SnapshotRows(scope, self.engine, labels=self.identity.labels)
        self.monitors = Monitors()
        self._open_engine = open_engine
        self._engine: SandboxEngine | None = None
        self._thawed = asyncio.Event()
        self._thawed.set()

    # the engine

    async def engine(self) -> SandboxEngine:
        """Return the engine, opened at first use.

        Raises:
            EngineUnavailableError: There is none that works.
        """
        if self._engine is None:
            self._engine = await self._open_engine()
            if self._engine.clock is None:
                self._engine.clock = self.scope.clock
        return self._engine

    @property
    def clock(self) -> Clock:
        """Whose time passes inside."""
        return (self._engine and self._engine.clock) or self.scope.clock

    async def unbroken(self, change: Coroutine[Any, Any, T]) -> T:
        """Await a change of the engine's to its end, also when the caller is cancelled meanwhile.

        A change whose outcome nobody waits for would go on while the next one begins.
        """
        task = asyncio.ensure_future(change)
        is_cancelled = False
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            if not task.cancelled():
                task.exception()  # seen: the caller has left
            raise asyncio.CancelledError
        return task.result()

    # what there is

    async def look(self) -> Instance | None:
        """Return the instance as it is now, having told of a stop that was missed; the lock must be held."""
        engine = await self.engine()
        found = await engine.find(self.name)
        record = await self.ledger.record()
        seen = self._compare(record, found)
        if seen.must_go:
            await self.unbroken(engine.remove(self.name))
            found = None
            seen = self._compare(record, None)
        await self._settle(record, seen)
        return found

    def _compare(self, record: Record, found: Instance | None) -> Look:
        age = timedelta(0)
        if found is not None and found.stopped_at is not None:
            age = self.clock.now() - found.stopped_at
        return look(record, found, now=self.scope.clock.now(), age=age)

    async def _settle(self, record: Record, seen: Look) -> None:
        if seen.stop is not None:
            if seen.record.instance is not None:
                await self.ledger.tend_by(self.removal_at(seen.record), is_running=False)
            await self.ledger.tell(seen.record, seen.stop)
            self.monitors.publish(seen.stop)
        elif seen.record != record:
            await self.ledger.save(seen.record)

    def removal_at(self, record: Record) -> datetime:
        """Return when a stopped instance is removed."""
        stopped_at = self.scope.clock.now() if record.last is None else record.last.at
        return stopped_at + duration_of(self.spec.keep_stopped, "keep_stopped")

    async def plan(self, *, instance: str, source: str | None) -> InstancePlan:
        """Return what an instance is made, started and entered as."""
        return self.identity.plan(self.spec, instance=instance, source=source, inactivity=await self.inactivity())

    async def inactivity(self) -> timedelta:
        """Return after how much inactivity the sandbox stops."""
        seconds = await self.ledger.inactivity()
        return duration_of(self.spec.inactivity_timeout if seconds is None else seconds, "inactivity_timeout")

    # saving

    async def until_thawed(self) -> None:
        """Wait while a snapshot is being made: what began meanwhile might or might not be in it."""
        await self._thawed.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let nothing begin inside while the block runs."""
        self._thawed.clear()
        try:
            yield
        finally:
            self._thawed.set()
