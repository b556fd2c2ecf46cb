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
from agentkit.store.apply import Change, apply_changes

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Called in the writer's thread around each commit, with ("before" | "after", number of the commit).
CommitHook = Callable[[str, int], None]
#: Told how an entry ended, even when nobody waits for it any more.
Settled = Callable[[BaseException | None], None]


class Entry:
    """One thing a group does, and who waits for it."""

    __slots__ = ("change", "error", "function", "future", "result", "settled", "synced")

    def __init__(
        self,
        future: asyncio.Future[Any],
        change: Change | None,
        function: Callable[[sqlite3.Connection], Any] | None,
        *,
        synced: bool,
        settled: Settled | None,
    ) -> None:
        self.future = future
        self.change = change
        self.function = function
        self.synced = synced
        self.settled = settled
        self.result: Any = None
        self.error: BaseException | None = None


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
        self._busy = False
        self._scheduled = False
        self._queue: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="agentkit-writer", daemon=True)
        self._thread.start()

    def change(self, change: Change, settled: Settled | None) -> asyncio.Future[None]:
        """Commit an agent's batch; the future ends when it is durable."""
        return self._add(change, None, synced=True, settled=settled)

    def call(
        self, function: Callable[[sqlite3.Connection], T], *, synced: bool = False
    ) -> asyncio.Future[T]:
        """Run a function inside a group's transaction; not ``synced`` survives a crash of the process only."""
        return self._add(None, function, synced=synced)

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._busy and not self._open

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
            entry.future.cancel()
            if entry.settled is not None:
                entry.settled(None)

    def _add(
        self,
        change: Change | None,
        function: Callable[[sqlite3.Connection], Any] | None,
        *,
        synced: bool,
        settled: Settled | None = None,
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._open.append(Entry(future, change, function, synced=synced, settled=settled))
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        self._scheduled = False
        if self._open and not self._busy:
            self._busy = True
            group, self._open = self._open, []
            self._queue.put(group)

    def _settle(self, group: list[Entry]) -> None:
        self._busy = False
        for entry in group:
            if entry.settled is not None:
                entry.settled(entry.error)
            future = entry.future
            if future.done():
                continue
            if entry.error is not None:
                future.set_exception(entry.error)
            else:
                future.set_result(entry.result)
        # After the callers that were just woken: what they ask for next still joins this group.
        if self._open and not self._scheduled:
            self._scheduled = True
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
        except sqlite3.DatabaseError as error:
            self._fail(group, self._unavailable(error))
        except Exception as error:
            if len(group) == 1:
                self._fail(group, error)
                return
            # One entry can't be written at all; it must not take the others of its group along.
            for entry in group:
                self._run_safely([entry])

    def _run(self, group: list[Entry]) -> None:
        connection = self._connection
        synced = self._durable == "full" and any(entry.synced for entry in group)
        level = "off" if self._durable == "off" else "full" if synced else "normal"
        if level != self._level:
            connection.execute(f"pragma synchronous={level}")
            self._level = level
        connection.execute("begin immediate")
        try:
            fenced = apply_changes(connection, [entry.change for entry in group if entry.change])
            for entry in group:
                if entry.function is not None:
                    entry.result = entry.function(connection)
                elif fenced and entry.change and entry.change.lease in fenced:
                    entry.error = FencedError(str(entry.change.lease.agent))
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

    def _unavailable(self, error: sqlite3.DatabaseError) -> StoreUnavailableError:
        return unavailable(self._location, error)


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


def unavailable(location: str, error: sqlite3.DatabaseError) -> StoreUnavailableError:
    """Turn SQLite's error into one that says what to do."""
    name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").split("_")[0].lower()
    return StoreUnavailableError(f"{location}: {_ADVICE.get(name, str(error))}")
