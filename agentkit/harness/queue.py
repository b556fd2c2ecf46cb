"""Which runs are to be driven: in submit order, one at a time, and the heartbeat that takes them up after a crash.

Everything here is called inside a transaction, together with what it belongs to.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from agentkit.capability import Scope
from agentkit.errors import QuotaError
from agentkit.harness.records import RunRecord, run_key, to_run

HEARTBEAT: Final = timedelta(seconds=30)
BEAT: Final = "beat"
_QUEUE: Final = "queue"


class RunQueue:
    """The runs of one harness that have no outcome yet."""

    def __init__(self, lifecycle: Scope, owner: str, *, longest: int) -> None:
        self._lifecycle = lifecycle
        self._beat_id = f"{owner}:{BEAT}"
        self._longest = longest

    async def add(self, run: RunRecord) -> None:
        """Put a run at the end.

        Raises:
            QuotaError: So many wait already; nothing is stored.
        """
        queue = await self._read()
        if len(queue["open"]) >= self._longest:
            raise QuotaError("max_queued", self._longest, f"{len(queue['open']):,} runs wait for their turn already")
        is_first = not queue["open"]
        queue["open"].append(run.id)
        await self._lifecycle.storage.put_many({_QUEUE: queue, run_key(run.id): run})
        if is_first:
            await self.beat()

    async def first(self) -> RunRecord | None:
        """Return the run whose turn it is; None if there is none, or it waits for a person."""
        queue = await self._read()
        if queue["parked"] or not queue["open"]:
            return None
        return await self.get(queue["open"][0])

    async def open_ids(self) -> list[str]:
        """Return the ids of the runs that have no outcome, in order; the first may be parked."""
        ids: list[str] = (await self._read())["open"]
        return ids

    async def get(self, id: str) -> RunRecord | None:
        """Return a run, whatever has become of it."""
        stored = await self._lifecycle.storage.get(run_key(id))
        return None if stored is None else to_run(stored)

    async def remove(self, id: str) -> None:
        """Take a run out that has its outcome; the heart stops with the last one."""
        queue = await self._read()
        was_parked = queue["parked"] and queue["open"][:1] == [id]
        queue["open"] = [each for each in queue["open"] if each != id]
        queue["parked"] = queue["parked"] and not was_parked
        await self._lifecycle.storage.put(_QUEUE, queue)
        if not queue["open"]:
            await self._lifecycle.jobs.cancel(self._beat_id)
        elif was_parked:
            await self.beat()

    async def park(self) -> None:
        """Let the first run wait for a person, and the others behind it: nothing beats, nothing costs."""
        await self._lifecycle.storage.put(_QUEUE, {**await self._read(), "parked": True})
        await self._lifecycle.jobs.cancel(self._beat_id)

    async def unpark(self) -> None:
        """Let the first run go on, if it was parked."""
        queue = await self._read()
        if queue["parked"]:
            await self._lifecycle.storage.put(_QUEUE, {**queue, "parked": False})
            await self.beat()

    @property
    def is_beating(self) -> bool:
        """There is a heartbeat to come."""
        return self._lifecycle.jobs.row(self._beat_id) is not None

    async def beat(self) -> None:
        """Let the heart beat from now on."""
        await self.beat_at(self._lifecycle.clock.now() + HEARTBEAT)

    async def beat_at(self, moment: datetime) -> None:
        """Let the heart beat again at a moment."""
        await self._lifecycle.jobs.push(BEAT, at=moment, id=self._beat_id, recovery_loop=True)

    async def _read(self) -> dict[str, Any]:
        queue: dict[str, Any] = await self._lifecycle.storage.get(_QUEUE, {"open": [], "parked": False})
        return queue
