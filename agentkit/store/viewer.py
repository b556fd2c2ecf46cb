"""Looks into a store that may be in use: read-only, without a lock, and never makes a file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from agentkit.errors import StoreError, StoreTooNewError, StoreUnavailableError
from agentkit.store.schema import APPLICATION_ID, MIGRATIONS
from agentkit.store.store import AgentId, HistoryRow, JobRow

_AGENTS = """select class, name, alarm_ms, (select count(*) from jobs where jobs.agent_id=agents.agent_id), runs
  from agents order by class, name"""
_IS_KNOWN = "select 1 from agents where class=? and name=?"
_STORE_ID = "select value from meta where key='store_id'"
_OF_AGENT = "class=coalesce(?, class) and name=coalesce(?, name)"
_JOBS = f"""select class, name, {",".join("jobs." + field for field in JobRow._fields)}
  from jobs join agents using (agent_id) where {_OF_AGENT} order by due_ms, jobs.run_id"""
_HISTORY = f"""select class, name, {",".join("history." + field for field in HistoryRow._fields)}
  from history join agents using (agent_id) where {_OF_AGENT} order by finished_ms desc, seq desc limit ?"""


class AgentLine(NamedTuple):
    """An agent as a listing shows it.

    Attributes:
        alarm_ms: When it wakes next; None if never.
        jobs: Jobs to come.
        runs: Runs recorded so far.
    """

    agent: AgentId
    alarm_ms: int | None
    jobs: int
    runs: int


class StoreViewer:
    """A look into a store's file. Each method sees what was committed when it was called."""

    def __init__(self, location: str) -> None:
        """Open a file that exists.

        Args:
            location: Its path.

        Raises:
            StoreUnavailableError: There is no such file, or it is no store that can be read.
            StoreTooNewError: A newer agentkit wrote it.
        """
        if location == ":memory:":
            message = "sqlite:///:memory: lives in the process that made it; name a file, as in sqlite:///bots.db"
            raise StoreUnavailableError(message)
        if not Path(location).is_file():
            message = f"there is no store at {location}; pass --store sqlite:///PATH, or set AGENTKIT_STORE"
            raise StoreUnavailableError(message)
        self._location = location
        try:
            # Nobody has a file open whose log is gone; then SQLite must not make one again for our sake.
            mode = "mode=ro" if Path(location + "-wal").exists() else "immutable=1"
            self._connection = sqlite3.connect(
                f"file:{quote(location)}?{mode}", uri=True, isolation_level=None, timeout=5.0
            )
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        try:
            self._check()
        except sqlite3.Error as error:
            self.close()
            raise self._unreadable(error) from error
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def store_id(self) -> str:
        """Return what tells the store from every other."""
        return str(self._read(_STORE_ID)[0][0])

    def agents(self) -> list[AgentLine]:
        """Return all agents, by class and name."""
        return [AgentLine(AgentId(*row[:2]), *row[2:]) for row in self._read(_AGENTS)]

    def has(self, agent: AgentId) -> bool:
        """Return whether the store knows an agent."""
        return bool(self._read(_IS_KNOWN, *agent))

    def jobs(self, agent: AgentId | None = None) -> list[tuple[AgentId, JobRow]]:
        """Return the jobs to come of one agent, or of all, by due time."""
        rows = self._read(_JOBS, *(agent or (None, None)))
        return [(AgentId(*row[:2]), JobRow(*row[2:])) for row in rows]

    def history(self, agent: AgentId | None = None, limit: int = 100) -> list[tuple[AgentId, HistoryRow]]:
        """Return the latest runs of one agent, or of all, newest first."""
        rows = self._read(_HISTORY, *(agent or (None, None)), limit)
        return [(AgentId(*row[:2]), HistoryRow(*row[2:])) for row in rows]

    def quick_check(self) -> str:
        """Return ``ok``, or what SQLite finds wrong with the file."""
        return "; ".join(str(row[0]) for row in self._read("pragma quick_check(5)"))

    def _check(self) -> None:
        application = self._connection.execute("pragma application_id").fetchone()[0]
        version = self._connection.execute("pragma user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise StoreUnavailableError(f"{self._location} is not an agentkit store; choose another path")
        if version > len(MIGRATIONS):
            raise StoreTooNewError(self._location, version, len(MIGRATIONS))
        if version < len(MIGRATIONS):
            message = (
                f"{self._location} has schema version {version}, this agentkit reads {len(MIGRATIONS)}; "
                "serve it once with this agentkit (agentkit run), which upgrades it"
            )
            raise StoreUnavailableError(message)

    def _read(self, sql: str, *parameters: object) -> list[Any]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: sqlite3.Error) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._location} can't be read: {error}")
