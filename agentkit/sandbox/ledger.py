"""Keeps the record of one sandbox in the agent's storage, and the jobs that follow from it.

Two jobs: ``tend`` is due when something must be seen to though nobody calls (it is the only one, and there is none
while nothing is left to see to), and one ``stopped`` for each stop that ``on_stop`` is to be told of.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context
from datetime import datetime
from typing import Any

from agentkit.capability import Scope
from agentkit.clock import from_ms, to_ms
from agentkit.events import SANDBOX
from agentkit.json_value import from_text
from agentkit.sandbox.record import Record
from agentkit.sandbox.stops import Stopped
from agentkit.store.store import JobRow

TEND = "tend"
STOPPED = "stopped"
_RECORD = "record"
_INACTIVITY = "inactivity_seconds"


class Ledger:
    """See the module. What is read once stays in memory: nobody else writes it."""

    def __init__(self, scope: Scope, sandbox: str, *, tells_stops: bool) -> None:
        """Read nothing yet.

        Args:
            scope: The capability's.
            sandbox: Its id, which begins the ids of its jobs.
            tells_stops: There is an ``on_stop``.
        """
        self.tend_id = tend_id(sandbox)
        self._scope = scope
        self._sandbox = sandbox
        self._tells_stops = tells_stops
        self._record: Record | None = None

    async def record(self) -> Record:
        """Return what is known of the sandbox."""
        if self._record is None:
            self._record = Record.from_json(await self._scope.storage.get(_RECORD))
        return self._record

    async def save(self, record: Record, others: Mapping[str, Any] | None = None) -> None:
        """Store a record, together with other values."""
        await self._scope.storage.put_many({_RECORD: record.to_json(), **(others or {})})
        self._record = record

    async def tell(self, record: Record, stop: Stopped) -> None:
        """Store a record with a stop in it, and have ``on_stop`` called.

        The job comes first: after a crash in between the stop is found again and told under the same id.
        """
        if self._tells_stops:
            job_id = f"{self._sandbox}:{STOPPED}:{stop.id}"
            await self._scope.jobs.push(STOPPED, after=0, id=job_id, payload=stop.to_json())
        await self.save(record)
        self._scope.emit(SANDBOX, "sandbox:stop", {"reason": stop.reason, "exit_code": stop.exit_code, "stop": stop.id})

    # when to look after it

    async def tend_by(self, moment: datetime, *, is_running: bool) -> None:
        """See to it that the sandbox is looked after at ``moment`` or before; looking too early does no harm."""
        row = self._scope.jobs.row(self.tend_id)
        if row is not None:
            if row.due_ms <= to_ms(moment) and _says_running(row) == is_running:
                return
            moment = min(moment, from_ms(row.due_ms))
        await self._scope.jobs.push(
            TEND, at=moment, id=self.tend_id, payload=tend_payload(is_running=is_running), recovery_loop=True
        )

    async def note_use(self) -> None:
        """Take back that nobody has entered it."""
        row = self._scope.jobs.row(self.tend_id)
        if row is not None and from_text(row.payload).get("unused_since_ms") is not None:
            payload = tend_payload(is_running=True)
            await self._scope.jobs.push(
                TEND, at=from_ms(row.due_ms), id=self.tend_id, payload=payload, recovery_loop=True
            )

    @property
    def may_run(self) -> bool:
        """A container may be running, as far as can be told without any input or output."""
        return may_run(self._scope, self._sandbox)

    # settings

    async def inactivity(self) -> float | None:
        """Return the inactivity timeout that was set, in seconds; None means the spec's."""
        seconds: float | None = await self._scope.storage.get(_INACTIVITY)
        return seconds

    async def set_inactivity(self, seconds: float) -> None:
        """Store an inactivity timeout."""
        await self._scope.storage.put(_INACTIVITY, seconds)


def may_run(scope: Scope, sandbox: str) -> bool:
    """Tell whether a container may be running, as far as can be told without any input or output."""
    # In no context: looking must not become part of a transaction.
    row = Context().run(scope.jobs.row, tend_id(sandbox))
    return row is not None and _says_running(row)


def tend_id(sandbox: str) -> str:
    """Return the id of the job that looks after a sandbox."""
    return f"{sandbox}:{TEND}"


def tend_payload(*, is_running: bool, unused_since_ms: int | None = None) -> dict[str, Any]:
    """Return the payload of the job that looks after a sandbox.

    Args:
        is_running: A container may be running.
        unused_since_ms: Nobody has entered it since then, by the clock inside.
    """
    return {"is_running": is_running, "unused_since_ms": unused_since_ms}


def _says_running(row: JobRow) -> bool:
    return bool(from_text(row.payload)["is_running"])
