"""Group commit: whatever waits when the writer comes round goes into one transaction.

The event loop forms the group, a thread of its own commits it, and while it does the next one gathers. A caller
resumes when its group is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from agentkit.errors import FencedError, StoreUnavailableError
from agentkit.store.apply import Change, apply_changes, row_values
from agentkit.store.store import AgentRow, Batch, Lease, Settled

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Called in the writer's thread around each commit, with ("before" | "after", number of the commit).
CommitHook = Callable[[str, int], None]


class Commit:
    """One agent's changes on their way; see ``store.PendingCommit``."""

    __slots__ = (
        "_loop",
        "batch",
        "change",
        "error",
        "is_settled",
        "is_taken",
        "lease",
        "release",
        "row",
        "settled",
        "waiters",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lease: Lease,
        row: AgentRow,
        batch: Batch,
        *,
        release: bool,
        settled: Settled | None,
    ) -> None:
        self._loop = loop
        self.lease = lease
        self.row = row
        self.batch = batch
        self.release = release
        self.settled = settled
        self.change: Change | None = None
        self.error: BaseException | None = None
        self.is_taken = False
        self.is_settled = False
        self.waiters: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """See ``store.PendingCommit``."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self.is_settled:
            _end(future, None, self.error)
        else:
            self.waiters.append(future)
        return future

    def take(self) -> None:
        """Freeze what is to be written."""
        self.is_taken = True
        self.change = Change(self.lease, row_values(self.row), self.batch, self.release)

    def settle(self) -> None:
        """Tell everyone how it went."""
        self.is_settled = True
        if self.settled is not None:
            self.settled(self.error)
        for future in self.waiters:
            _end(future, None, self.error)
        # An agent keeps its last commit: it must not keep what that wrote.
        self.waiters, self.batch, self.change, self.settled = [], _NOTHING, None, None


class Call:
    """A function to run inside a group's transaction, and who waits for it."""

    __slots__ = ("error", "function", "future", "result", "synced")

    def __init__(
        self, future: asyncio.Future[Any], function: Callable[[sqlite3.Connection], Any], *, synced: bool
    ) -> None:
        self.future = future
        self.function = function
        self.synced = synced
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Tell who waits how it went."""
        _end(self.future, self.result, self.error)


Entry = Commit | Call
_NOTHING = Batch()


def _end(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class GroupWriter:
    """The one writer of a SQLite file.

    Attributes:
        commits: Transactions committed so far.
        synced_commits: Those of them that waited for the disk.
    """

    def __init__(
        self, connection: sqlite3.Connection, *, location: str, durable: str, hook: CommitHook | None = None
    ) -> None:
        self.commits = 0
        self.synced_commits = 0
        self._connection = connection
        self._location = location
        self._durable = durable
        self._level = ""
        self._hook = hook
        self._loop = asyncio.get_running_loop()
        self._open: list[Entry] = []
        self._is_busy = False
        self._is_scheduled = False
        self._last_callers = 0
        self._queue: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="agentkit-writer", daemon=True)
        self._thread.start()

    def commit(self, lease: Lease, row: AgentRow, batch: Batch, *, release: bool, settled: Settled | None) -> Commit:
        """Commit an agent's batch, synced, with whatever else waits by then."""
        commit = Commit(self._loop, lease, row, batch, release=release, settled=settled)
        self._add(commit)
        return commit

    def call(self, function: Callable[[sqlite3.Connection], T], *, synced: bool = False) -> asyncio.Future[T]:
        """Run a function inside a group's transaction; not ``synced`` survives a crash of the process only."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._add(Call(future, function, synced=synced))
        return future

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._is_busy and not self._open

    async def close(self) -> None:
        """Finish what was asked for and end the thread."""
        while not self.is_idle:
            await self.call(lambda _: None)
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def discard(self) -> None:
        """Drop what no commit has begun with, as a kill would."""
        entries, self._open = self._open, []
        for entry in entries:
            entry.error = StoreUnavailableError(f"{self._location}: the process was killed", self._location)
            entry.settle()
            if isinstance(entry, Call):
                entry.future.exception()  # seen: whoever waited is being cancelled

    def _add(self, entry: Entry) -> None:
        self._open.append(entry)
        if self._is_busy or self._is_scheduled:
            return
        if self._last_callers > 1:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)
        else:
            # One caller at a time so far: nobody would join if it waited for the end of the loop's turn.
            self._flush()

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._open and not self._is_busy:
            self._is_busy = True
            group, self._open = self._open, []
            for entry in group:
                if isinstance(entry, Commit):
                    entry.take()
            self._queue.put(group)

    def _settle(self, group: list[Entry]) -> None:
        self._is_busy = False
        self._last_callers = 0
        for entry in group:
            self._last_callers += len(entry.waiters) if isinstance(entry, Commit) else 1
            entry.settle()
        # After the callers that were just woken: what they ask for next still joins this group.
        if self._open and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _serve(self) -> None:
        while (group := self._queue.get()) is not None:
            self._run_safely(group)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, group)
            del group

    def _run_safely(self, group: list[Entry]) -> None:
        try:
            self._run(group)
        except Exception as error:
            if concerns_all(error):
                self._fail(group, unavailable(self._location, error))
            elif len(group) == 1:
                self._fail(group, error)
            else:
                # One entry can't be written at all; it must not take the others of its group along.
                for entry in group:
                    self._run_safely([entry])

    def _run(self, group: list[Entry]) -> None:
        connection = self._connection
        changes = [entry.change for entry in group if isinstance(entry, Commit) and entry.change]
        calls = [entry for entry in group if isinstance(entry, Call)]
        synced = self._durable == "full" and (bool(changes) or any(call.synced for call in calls))
        level = "off" if self._durable == "off" else "full" if synced else "normal"
        if level != self._level:
            connection.execute(f"pragma synchronous={level}")
            self._level = level
        connection.execute("begin immediate")
        try:
            fenced = apply_changes(connection, changes)
            for call in calls:
                call.result = call.function(connection)
            for entry in group if fenced else ():
                if isinstance(entry, Commit) and entry.lease in fenced:
                    entry.error = FencedError(str(entry.lease.agent))
            self._tell("before")
            connection.execute("commit")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("rollback")
            raise
        self.commits += 1
        self.synced_commits += synced
        self._tell("after")

    def _tell(self, when: str) -> None:
        if self._hook is not None:
            self._hook(when, self.commits)

    @staticmethod
    def _fail(group: list[Entry], error: BaseException) -> None:
        for entry in group:
            entry.error = error


_ADVICE = {
    "full": "the disk is full: free some space; nothing was written",
    "readonly": "it is read-only: check the permissions of the file and its folder",
    "corrupt": "it is damaged: restore a backup; agentkit never replaces a damaged file",
    "notadb": "it is not a SQLite database: choose another path",
    "cantopen": "it can't be opened: check the path and its permissions",
    "busy": "another program holds it locked",
    "locked": "another program holds it locked",
    "ioerr": "the disk reports an error: check its space and health",
}


def concerns_all(error: Exception) -> bool:
    """Tell whether the file is at fault (full, locked, damaged), not what was to be written."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def unavailable(location: str, error: Exception) -> StoreUnavailableError:
    """Turn SQLite's error into one that says what to do."""
    name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").split("_")[0].lower()
    return StoreUnavailableError(f"{location}: {_ADVICE.get(name, str(error))}", location)
