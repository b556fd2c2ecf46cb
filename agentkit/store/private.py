"""Agents' own SQLite databases, one file each, made on first use: what ``self.sql`` runs on."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.store.store import Lease

if TYPE_CHECKING:
    from aiosqlite import Connection

#: Databases kept open; one costs a thread, three descriptors and 150 kB.
MOST_OPEN = 32


@dataclass(slots=True)
class _Opened:
    connection: Connection
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PrivateDatabases:
    """The private databases of one store, in a folder beside its file."""

    def __init__(self, folder: Path, *, synchronous: str) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._open: OrderedDict[int, _Opened] = OrderedDict()
        self._opening = asyncio.Lock()

    async def run(self, lease: Lease, statement: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Run one statement in a transaction of its own, and return its rows by column name."""
        async with self._database(lease) as opened, opened.lock:
            cursor = await opened.connection.execute(statement, parameters)
            try:
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]
            finally:
                await cursor.close()

    async def drop(self, lease: Lease) -> None:
        """Remove an agent's database, if it has one."""
        opened = self._open.pop(lease.key, None)
        if opened is not None:
            await opened.connection.close()
        path = self._path(lease)
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")

    async def close(self) -> None:
        """Close what is open: an open one would keep the process from ending."""
        while self._open:
            _, opened = self._open.popitem()
            await opened.connection.close()

    @asynccontextmanager
    async def _database(self, lease: Lease) -> AsyncIterator[_Opened]:
        async with self._opening:
            opened = self._open.get(lease.key)
            if opened is None:
                opened = self._open[lease.key] = _Opened(await self._connect(self._path(lease)))
            self._open.move_to_end(lease.key)
            opened.users += 1
            await self._close_unused()
        try:
            yield opened
        finally:
            opened.users -= 1

    async def _close_unused(self) -> None:
        for key in list(self._open):
            if len(self._open) <= MOST_OPEN:
                return
            if not self._open[key].users:
                await self._open.pop(key).connection.close()

    async def _connect(self, path: Path) -> Connection:
        import aiosqlite

        self._folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = await aiosqlite.connect(path, isolation_level=None)
        try:
            await connection.execute("pragma journal_mode=wal")
            await connection.execute(f"pragma synchronous={self._synchronous}")
        except BaseException:
            await connection.close()
            raise
        return connection

    def _path(self, lease: Lease) -> Path:
        """Names become file names only through a hash; the key keeps a namesake's leftovers apart."""
        name = hashlib.sha256(str(lease.agent).encode()).hexdigest()[:24]
        return self._folder / f"{name}-{lease.key}.db"
