"""What was saved of a sandbox, as users see it: listed, copied from other agents, deleted (SPEC 12.7)."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from agentkit.clock import from_ms
from agentkit.sandbox.snapshot_rows import Row

if TYPE_CHECKING:
    from agentkit.sandbox.changes import Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A saved root file system.

    Attributes:
        id: Names it in its store.
        name: What it was called, if anything.
        created_at: By the agent's clock.
        expires_at: When it is deleted, unless it is restored before.
        size: Bytes that it adds to the image, as far as the engine can tell.
        is_autosave: It was made because its container had to go.
    """

    id: str
    name: str | None
    created_at: datetime
    expires_at: datetime
    size: int
    is_autosave: bool = False


class Snapshots:
    """The snapshots of one sandbox. One that isn't restored for 30 days is deleted."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def list(self) -> builtins.list[Snapshot]:
        """Return those there are, oldest first."""
        return [to_snapshot(row) for row in await self._changes.rows.all() if row.state == "ready"]

    async def get(self, id: str) -> Snapshot | None:
        """Return one, or None."""
        row = await self._changes.rows.get(id)
        return None if row is None else to_snapshot(row)

    async def delete(self, id: str) -> bool:
        """Delete one; False if there is none. What was started from it stays whole."""
        return await self._changes.scope.apart(self._changes.delete(id))

    async def fork(self, snapshot: Snapshot | str) -> Snapshot:
        """Copy a snapshot of another agent of this store; the copy is this agent's, with a life of its own.

        Raises:
            SnapshotNotFoundError: There is no such snapshot in the store.
        """
        return await self._changes.scope.apart(self._changes.copy(snapshot))


def to_snapshot(row: Row) -> Snapshot:
    """Return what users see of a stored snapshot."""
    return Snapshot(
        id=row.id,
        name=row.name,
        created_at=from_ms(row.created_ms),
        expires_at=from_ms(row.expires_ms),
        size=row.size,
        is_autosave=row.is_autosave,
    )
