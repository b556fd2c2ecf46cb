"""The rows of one sandbox's snapshots, and the engine's images behind them (SPEC 12.7).

A row precedes what the engine makes and outlives what it deletes, so that nothing is made that nobody knows. Only what
a row or a label says is this sandbox's is ever deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from agentkit.capability import Scope
from agentkit.clock import to_ms
from agentkit.errors import SnapshotNotFoundError
from agentkit.sandbox.engine import SNAPSHOT, STORE, SandboxEngine

logger = logging.getLogger(__name__)

#: Counted from the making of a snapshot, or from its last restore.
LIFE = timedelta(days=30)
_PREFIX = "snapshot:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A snapshot as stored.

    Attributes:
        state: ``making`` and ``deleting`` are finished, by deleting, after a crash.
        origin: The other agent's snapshot that it is a copy of.
    """

    id: str
    state: Literal["making", "ready", "deleting"]
    name: str | None
    created_ms: int
    expires_ms: int
    size: int = 0
    is_autosave: bool = False
    origin: str | None = None

    @property
    def stored(self) -> tuple[str, dict[str, Any]]:
        """Key and value in the storage."""
        return _PREFIX + self.id, asdict(self)


class SnapshotRows:
    """See the module."""

    def __init__(
        self, scope: Scope, engine: Callable[[], Awaitable[SandboxEngine]], *, labels: Mapping[str, str]
    ) -> None:
        self._scope = scope
        self._engine = engine
        self._labels = labels

    async def all(self) -> list[Row]:
        """Return every row, oldest first."""
        stored = await self._scope.storage.list(prefix=_PREFIX)
        return sorted((Row(**row) for row in stored.values()), key=lambda row: (row.created_ms, row.id))

    async def get(self, id: str) -> Row | None:
        """Return the row of a snapshot that can be used, or None."""
        stored = await self._scope.storage.get(_PREFIX + id)
        return None if stored is None or stored["state"] != "ready" else Row(**stored)

    async def begin(self, name: str | None, *, is_autosave: bool = False, origin: str | None = None) -> Row:
        """Store the row of a snapshot that is about to be made."""
        now = self._scope.clock.now()
        row = Row(
            id=self._scope.new_id(),
            state="making",
            name=name,
            created_ms=to_ms(now),
            expires_ms=to_ms(now + LIFE),
            is_autosave=is_autosave,
            origin=origin,
        )
        await self._scope.storage.put(*row.stored)
        return row

    async def restored(self, row: Row) -> None:
        """Let a snapshot live on from now."""
        renewed = replace(row, expires_ms=to_ms(self._scope.clock.now() + LIFE))
        await self._scope.storage.put(*renewed.stored)

    async def delete(self, row: Row) -> None:
        """Delete a snapshot: marked first, then the engine's image, then the row."""
        if row.state != "deleting":
            await self._scope.storage.put(*replace(row, state="deleting").stored)
        await (await self._engine()).delete_saved(row.id)
        await self._scope.storage.delete(_PREFIX + row.id)

    async def copied(self, snapshot: str, name: str | None) -> Row:
        """Return the copy of another agent's snapshot that belongs to this one, making it unless it is there.

        Raises:
            SnapshotNotFoundError: There is none of that id in this store.
        """
        for row in await self.all():
            if row.origin == snapshot and row.state == "ready":
                return row
        engine = await self._engine()
        store = self._labels[STORE]
        if not any(image.id == snapshot and image.labels.get(STORE) == store for image in await engine.saved()):
            raise SnapshotNotFoundError(snapshot)
        row = await self.begin(name, origin=snapshot)
        try:
            image = await engine.copy_saved(snapshot, row.id, self.labels(row.id))
        except SnapshotNotFoundError:
            await self.delete(row)
            raise
        ready = replace(row, state="ready", size=image.size)
        await self._scope.storage.put(*ready.stored)
        return ready

    def labels(self, id: str) -> dict[str, str]:
        """Return the labels of a snapshot of this sandbox."""
        return {**self._labels, SNAPSHOT: id}

    async def sweep(self, *, expired: bool) -> None:
        """Delete what a crash cut off, and with ``expired`` what nobody has restored for too long."""
        now_ms = self._scope.clock.now_ms()
        for row in await self.all():
            if row.state != "ready" or (expired and row.expires_ms <= now_ms):
                logger.info("deleting snapshot %s: %s", row.id, "expired" if row.state == "ready" else "unfinished")
                await self.delete(row)
