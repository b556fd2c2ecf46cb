"""Looks after a sandbox though nobody calls: what is due, what a crash has left, and when to look again.

While a sandbox runs, that is once when it must have stopped by itself; when it has stopped, once when its container is
to be removed; and once when a snapshot expires. After that there is nothing, and no job.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from agentkit.clock import duration_of, from_ms
from agentkit.sandbox.changes import SLACK, Changes
from agentkit.sandbox.engine import Instance
from agentkit.sandbox.keeper import Keeper
from agentkit.sandbox.stops import Intent
from agentkit.sandbox.way_in import WayIn

#: What is looked at exactly when it is due may be not quite due yet.
_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """What comes of looking after a sandbox.

    Attributes:
        moment: When to look again.
        is_running: It runs.
        unused_since_ms: Nobody has entered it since then, by the clock inside; None unless it runs.
    """

    moment: datetime
    is_running: bool
    unused_since_ms: int | None


class Tending:
    """See the module."""

    def __init__(self, keeper: Keeper, way: WayIn, changes: Changes) -> None:
        self._keeper = keeper
        self._way = way
        self._changes = changes

    async def tend(self, unused_since_ms: int | None) -> Tended | None:
        """Do what is due, and say when to look again; None means that nothing is left to see to.

        Args:
            unused_since_ms: Nobody has entered the sandbox since then, as an earlier look has noted.
        """
        async with self._keeper.lock:
            found = await self._way.look()
            unused_since_ms = self._unused_since(unused_since_ms)
            if found is not None and found.is_running and (intent := await self._overdue(unused_since_ms)):
                await self._changes.stop_instance(found, intent)
                found = await self._way.look()
            record = await self._keeper.ledger.record()
            is_over = self._keeper.scope.clock.now() >= self._keeper.removal_at(record)
            if found is not None and not found.is_running and is_over:
                await self._changes.clear(found, save=self._keeper.spec.autosave)
                found = None
            await self._changes.rows.sweep(expired=True)
            moment = await self._next_look(found)
            if moment is None:
                return None
            is_running = found is not None and found.is_running
            # Noted only by an instance that has not used it: the next use enters it, which takes the note back.
            is_noted = is_running and self._way.activity.touched_ms is None
            return Tended(moment=moment, is_running=is_running, unused_since_ms=unused_since_ms if is_noted else None)

    def _unused_since(self, noted_ms: int | None) -> int:
        """Return since when it is surely unused, by the clock inside."""
        touched_ms = self._way.activity.touched_ms
        now_ms = self._keeper.clock.now_ms()
        if self._way.activity.is_active:
            return now_ms
        if touched_ms is not None:
            return touched_ms
        return now_ms if noted_ms is None else noted_ms

    async def _overdue(self, unused_since_ms: int) -> Intent | None:
        """Tell why it should have stopped by itself: what runs inside can keep the program from it that does that."""
        unused = timedelta(milliseconds=self._keeper.clock.now_ms() - unused_since_ms)
        if unused >= await self._keeper.inactivity() + SLACK:
            return "inactive"
        left = await self._lifetime_left()
        return "lifetime" if left is not None and left < -SLACK else None

    async def _lifetime_left(self) -> timedelta | None:
        started_ms = (await self._keeper.ledger.record()).started_ms
        if started_ms is None:
            return None
        lifetime = duration_of(self._keeper.spec.max_lifetime, "max_lifetime")
        return lifetime - timedelta(milliseconds=self._keeper.clock.now_ms() - started_ms)

    async def _next_look(self, found: Instance | None) -> datetime | None:
        now = self._keeper.scope.clock.now()
        moments = [from_ms(row.expires_ms) for row in await self._changes.rows.all()]
        if found is not None and found.is_running:
            moments.append(now + await self._inactivity_left() + SLACK)
            left = await self._lifetime_left()
            if left is not None:
                moments.append(now + max(left + SLACK, timedelta(0)) + _MOMENT)
        elif found is not None:
            moments.append(self._keeper.removal_at(await self._keeper.ledger.record()))
        return min(moments, default=None)

    async def _inactivity_left(self) -> timedelta:
        timeout, touched_ms = await self._keeper.inactivity(), self._way.activity.touched_ms
        if touched_ms is None or self._way.activity.is_active:
            return timeout
        since = timedelta(milliseconds=self._keeper.clock.now_ms() - touched_ms)
        return max(timeout - since, timedelta(0))
