"""The SQLite store: one file for all agents, one writer, group commit (``notes`` in ARCHITECTURE.md).

Small reads happen in the event loop's thread on a connection of their own: 12 µs, against 60 and more through
another thread.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from agentkit.errors import ConfigurationError, FencedError, StoreUnavailableError
from agentkit.store import claims
from agentkit.store.file_lock import FileLock
from agentkit.store.private import PrivateDatabases
from agentkit.store.schema import MIGRATIONS, check, migrate
from agentkit.store.store import (
    Activated,
    AgentId,
    AgentRow,
    AgentSummary,
    Batch,
    Claimed,
    HistoryRow,
    JobRow,
    Lease,
    Owner,
    PendingCommit,
    Settled,
    ValueRange,
)
from agentkit.store.writer import CommitHook, GroupWriter, unavailable

logger = logging.getLogger(__name__)

Durability = Literal["full", "process"]

_VALUE = "select value from key_values where agent_id=? and scope=? and key=?"
_HISTORY_COLUMNS = ",".join(HistoryRow._fields)
_JOB_COLUMNS = ",".join(JobRow._fields)
_KEY = "select agent_id from agents where class=? and name=?"
_RECENT = f"""select {_HISTORY_COLUMNS} from history where agent_id=? and (pinned=1 or seq > coalesce((
  select seq from history where agent_id=? and pinned=0 order by seq desc limit 1 offset ?), -1)) order by seq desc"""
_WAITING = """select agent_id, class, name from agents where agent_id>? and node is null and alarm_ms is not null
  and class in (select value from json_each(?)) order by agent_id limit ?"""
_AGENTS = """select class, name, alarm_ms, node is not null from agents
  where class=coalesce(?, class) order by class, name"""


class SqliteStore:
    """Agents in one SQLite file; see ``Store`` for what the methods promise.

    Attributes:
        id: See ``Store``.
        location: The file's absolute path, or ``:memory:``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        migrations: Sequence[str] = MIGRATIONS,
        commit_hook: CommitHook | None = None,
    ) -> None:
        """Name a store; nothing is opened yet.

        Args:
            path: The file, or ``:memory:`` for one that is gone when closed.
            durability: ``"full"`` survives power loss; ``"process"`` only the death of the process.
            migrations: Schema versions, in order (tests give their own).
            commit_hook: Called around each commit (fault tests kill the process there).
        """
        if durability not in ("full", "process"):
            message = f'durability must be "full" or "process", got {durability!r}'
            raise ConfigurationError(message)
        self.id = ""
        self._is_memory = str(path) == ":memory:"
        self.location = ":memory:" if self._is_memory else str(Path(path).expanduser().absolute())
        self._durable = "off" if self._is_memory else "full" if durability == "full" else "normal"
        self._migrations = migrations
        self._hook = commit_hook
        self._folder: str | None = None
        self._lock: FileLock | None = None
        self._reader: sqlite3.Connection | None = None
        self._writer: GroupWriter | None = None
        self._writing: sqlite3.Connection | None = None
        self._dead: set[str] = set()
        self._private: PrivateDatabases | None = None

    # --- opening and closing

    async def open(self) -> None:
        """See ``Store``."""
        if self._writer is not None:
            return
        path = self._prepare_path()
        lock = FileLock(path)
        try:
            lock.acquire(self.location)
        except OSError as error:
            message = f"{self.location} can't be opened: {error.strerror}; check the path and its permissions"
            raise StoreUnavailableError(message) from error
        try:
            self._writing = self._connect(path)
            if migrate(self._writing, self._migrations) == 0:
                logger.info("created a new store, %s", self.location)
            # A store that can't be written is found out now, not at the first job.
            self._writing.execute("begin immediate")
            self._writing.execute("update meta set value=value")
            self._writing.execute("rollback")
            self._reader = self._connect(path)
            self.id = self._read("select value from meta where key='store_id'")[0][0]
        except sqlite3.DatabaseError as error:
            self._let_go()
            lock.release()
            raise unavailable(self.location, error) from error
        except BaseException:
            self._let_go()
            lock.release()
            raise
        self._lock = lock
        self._writer = GroupWriter(self._writing, location=self.location, durable=self._durable, hook=self._hook)

    def _prepare_path(self) -> Path:
        if self._is_memory:
            self._folder = tempfile.mkdtemp(prefix="agentkit-")
            return Path(self._folder) / "memory.db"
        path = Path(self.location)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Made by us first, so that it is never readable by others, not even for a moment (SPEC 19).
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except PermissionError as error:
            if not os.path.exists(path):  # Path.exists raises in a folder that can't be searched
                message = f"{path} can't be made: {error.strerror}; check the permissions of {path.parent}"
                raise StoreUnavailableError(message) from error
        except OSError as error:
            message = f"{path} can't be opened: {error.strerror}; check the path"
            raise StoreUnavailableError(message) from error
        return path

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        check(connection, self.location, self._migrations)  # before anything in the file is touched
        mode = connection.execute("pragma journal_mode=wal").fetchone()[0]
        if mode != "wal":
            message = f"{self.location} can't use a write-ahead log (is it on a network drive?); use a local disk"
            raise StoreUnavailableError(message)
        if self._durable == "off":
            connection.execute("pragma synchronous=off")

    async def close(self) -> None:
        """See ``Store``."""
        if self._private is not None:
            await self._private.close()
            self._private = None
        if self._writer is not None:
            await self._writer.close()
            self._writer = None
        self._let_go()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _let_go(self) -> None:
        for connection in (self._reader, self._writing):
            if connection is not None:
                connection.close()
        self._reader = self._writing = None
        if self._folder is not None:
            for folder in (self._folder, f"{self._folder}.agents"):
                shutil.rmtree(folder, ignore_errors=True)
            self._folder = None

    @property
    def writer(self) -> GroupWriter:
        """The group writer: its counters, and whether it is idle."""
        if self._writer is None:
            message = f"the store {self.location} is not open"
            raise StoreUnavailableError(message)
        return self._writer

    def _read(self, sql: str, *parameters: object) -> list[Any]:
        if self._reader is None:
            message = f"the store {self.location} is not open"
            raise StoreUnavailableError(message)
        try:
            return self._reader.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise unavailable(self.location, error) from error

    # --- nodes

    async def join(self, address: str) -> str:
        """See ``Store``. The file lock proves that every other node is dead."""
        node = uuid.uuid4().hex
        await self.writer.call(lambda connection: claims.join(connection, node, address))
        return node

    async def leave(self, node: str) -> None:
        """See ``Store``."""
        await self.writer.call(lambda connection: claims.leave(connection, node), synced=True)

    # --- ownership

    async def activate(self, node: str, agent: AgentId, *, again: bool = False) -> Activated | Owner:
        """See ``Store``. The claim needs no sync: a lost one dies with its node."""
        return await self.writer.call(lambda connection: claims.activate(connection, node, agent, again=again))

    async def claim_due(self, node: str, classes: Sequence[str], now_ms: int, limit: int) -> Claimed:
        """See ``Store``."""
        return await self.writer.call(lambda connection: claims.claim_due(connection, node, classes, now_ms, limit))

    async def repair_alarms(self, after: int) -> int | None:
        """See ``Store``."""
        return await self.writer.call(lambda connection: claims.repair_alarms(connection, after))

    async def waiting(self, classes: Sequence[str], after: int, limit: int) -> list[tuple[int, AgentId]]:
        """See ``Store``."""
        rows = self._read(_WAITING, after, json.dumps(list(classes)), limit)
        return [(key, AgentId(class_name, name)) for key, class_name, name in rows]

    async def classes_waiting(self) -> list[str]:
        """See ``Store``."""
        return [row[0] for row in self._read(claims.CLASSES_WAITING)]

    # --- one agent's rows

    def commit(
        self,
        lease: Lease,
        row: AgentRow,
        batch: Batch,
        *,
        release: bool = False,
        settled: Settled | None = None,
    ) -> PendingCommit:
        """See ``Store``."""
        if lease.node in self._dead:
            raise FencedError(str(lease.agent))
        return self.writer.commit(lease, row, batch, release=release, settled=settled)

    def kill(self, node: str) -> None:
        """See ``Store``."""
        self._dead.add(node)
        self.writer.discard()

    async def mark(self, lease: Lease, running: str) -> None:
        """See ``Store``."""
        await self.writer.call(lambda connection: claims.mark(connection, lease, running))

    async def suspect(self, node: str, lease: Lease | None) -> None:
        """See ``Store``."""
        await self.writer.call(lambda connection: claims.suspect(connection, node, lease))

    async def value(self, lease: Lease, scope: str, key: str) -> str | None:
        """See ``Store``."""
        rows = self._read(_VALUE, lease.key, scope, key)
        return rows[0][0] if rows else None

    async def values(self, lease: Lease, scope: str, wanted: ValueRange) -> list[tuple[str, str]]:
        """See ``Store``."""
        sql = "select key, value from key_values where agent_id=? and scope=?"
        parameters: list[object] = [lease.key, scope]
        start = max(wanted.prefix, wanted.start or "")
        bounds = [("key>=?", start), ("key<?", wanted.end), ("key<?", _after_prefix(wanted.prefix))]
        for condition, bound in bounds:
            if bound is not None:
                sql += f" and {condition}"
                parameters.append(bound)
        sql += f" order by key {'desc' if wanted.reverse else 'asc'} limit ?"
        parameters.append(-1 if wanted.limit is None else wanted.limit)
        return self._read(sql, *parameters)

    async def sql(self, lease: Lease, statement: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        """See ``Store``."""
        return await self._private_databases().run(lease, statement, parameters)

    async def drop_sql(self, lease: Lease) -> None:
        """See ``Store``."""
        await self._private_databases().drop(lease)

    def _private_databases(self) -> PrivateDatabases:
        if self._private is None:
            folder = Path(self._folder) if self._folder else Path(self.location)
            path = folder.with_name(f"{folder.name}.agents")
            self._private = PrivateDatabases(path, synchronous=self._durable)
        return self._private

    async def history(self, agent: AgentId, limit: int) -> list[HistoryRow]:
        """See ``Store``."""
        keys = self._read(_KEY, *agent)
        if not keys:
            return []
        return [HistoryRow(*row) for row in self._read(_RECENT, keys[0][0], keys[0][0], limit)]

    async def run(self, agent: AgentId, run_id: str) -> HistoryRow | None:
        """See ``Store``."""
        sql = f"select {_HISTORY_COLUMNS} from history where agent_id=({_KEY}) and run_id=? order by seq desc"
        rows = self._read(sql, *agent, run_id)
        return HistoryRow(*rows[0]) if rows else None

    async def agents(self, class_name: str | None = None) -> list[AgentSummary]:
        """See ``Store``."""
        return [
            AgentSummary(AgentId(class_, name), alarm_ms, bool(is_live))
            for class_, name, alarm_ms, is_live in self._read(_AGENTS, class_name)
        ]

    async def jobs(self, agent: AgentId) -> list[JobRow]:
        """See ``Store``."""
        sql = f"select {_JOB_COLUMNS} from jobs where agent_id=({_KEY}) order by due_ms, run_id"
        return [JobRow(*row) for row in self._read(sql, *agent)]


def _after_prefix(prefix: str) -> str | None:
    """Return the first key past all that start with ``prefix``; None when there is no such bound."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates are no text; SQLite orders by code point.
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None
