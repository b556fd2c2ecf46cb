"""Not a product: the least code that keeps the promise, to show what the machine allows.

One SQLite file, one writer thread that commits whatever has queued up since the last commit, one timer for the
earliest due row, one job at a time, the row deleted in a transaction after its run (so a crash runs it again).
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from benchmarks.event_log import noop, ready, slow_async
from benchmarks.peers.peer import DAY, Load, Peer, Pending, Timing, push_tasks

T = TypeVar("T")
Write = tuple[str, tuple[Any, ...], "asyncio.Future[None]"]
_TABLE = """create table if not exists job (
  id integer primary key, due real not null, function text not null, arguments text not null)"""
_INSERT = "insert into job (due, function, arguments) values (?,?,?)"
_DUE = "select id, function, arguments from job where due<=? order by due limit 100"


class Store:
    """The rows, and the thread that writes them."""

    def __init__(self, path: Path, *, synchronous: str, pause: float) -> None:
        self._path = path
        self._synchronous = synchronous
        self._pause = pause
        self._queue: queue.SimpleQueue[Write] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self.reader = self._connect()
        threading.Thread(target=self._serve, daemon=True).start()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("pragma journal_mode=wal")
        connection.execute(f"pragma synchronous={self._synchronous}")
        connection.execute(_TABLE)
        connection.execute("create index if not exists due on job (due)")
        return connection

    def _serve(self) -> None:
        connection = self._connect()
        while True:
            group = [self._queue.get()]
            while len(group) < 1000:
                try:
                    group.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            connection.execute("begin immediate")
            for sql, parameters, _ in group:
                connection.execute(sql, parameters)
            if self._pause:
                time.sleep(self._pause)
            connection.execute("commit")
            self._loop.call_soon_threadsafe(self._settle, group)

    @staticmethod
    def _settle(group: list[Write]) -> None:
        for *_, future in group:
            if not future.done():
                future.set_result(None)

    def write(self, sql: str, *parameters: Any) -> asyncio.Future[None]:
        """Run a statement in the next commit; durable once awaited."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((sql, parameters, future))
        return future

    def add(self, due: float, function: str, *arguments: Any) -> asyncio.Future[None]:
        """Store a job."""
        return self.write(_INSERT, due, function, json.dumps(arguments))


class Floor(Peer):
    """The floor with SQLite's ``synchronous`` at some level."""

    defaults = "one job at a time in the event loop, one timer, no polling"
    synchronous: ClassVar[str]
    pause: ClassVar[float] = 0.0
    lead = 1.0

    def _run(self, body: Callable[[Store], Awaitable[T]]) -> T:
        async def run() -> T:
            return await body(Store(self.folder / "floor.db", synchronous=self.synchronous, pause=self.pause))

        return asyncio.run(run())

    def enqueue(self, load: Load) -> Timing:
        return self._run(lambda store: push_tasks(lambda _, number: store.add(time.time() + DAY, "noop", number), load))

    def put(self, jobs: Sequence[Pending], function: str = "noop") -> None:
        async def body(store: Store) -> None:
            for start in range(0, len(jobs), 1000):
                due = [(number, due or time.time()) for number, due in jobs[start : start + 1000]]
                await asyncio.gather(*(store.add(moment, function, number, moment) for number, moment in due))

        self._run(body)

    def fill(self, count: int) -> None:
        self.put([(number, time.time() + DAY) for number in range(count)])

    def work(self) -> None:
        async def body(store: Store) -> None:
            ready()
            while True:
                await _run_due(store)
                earliest = store.reader.execute("select min(due) from job").fetchone()[0]
                await asyncio.sleep(min(3600, max(0, (earliest or 1e12) - time.time())))

        self._run(body)

    def drain(self) -> Timing:
        """Run everything that is due, and say how long it took."""

        async def body(store: Store) -> Timing:
            began = time.perf_counter()
            count = await _run_due(store, quiet=True)
            return Timing(count, time.perf_counter() - began)

        return self._run(body)


async def _run_due(store: Store, *, quiet: bool = False) -> int:
    ran = 0
    while rows := store.reader.execute(_DUE, (time.time(),)).fetchall():
        for id, function, text in rows:
            arguments = json.loads(text)
            if function == "slow":
                await slow_async(*arguments)
            elif not quiet:
                noop(*arguments)
            await store.write("delete from job where id=?", id)
            ran += 1
    return ran


class Full(Floor):
    name = "floor-full"
    durability = "SQLite WAL, synchronous=FULL, group commit"
    synchronous = "full"


class Normal(Floor):
    name = "floor-normal"
    durability = "SQLite WAL, synchronous=NORMAL: survives kill -9, power loss may drop the last commits"
    synchronous = "normal"


class Slow(Normal):
    name = "floor-slow"
    durability = "as floor-normal, with a sleep of 4 ms before each commit in place of the sync"
    pause = 0.004


PEERS = {peer.name: peer for peer in (Full, Normal, Slow)}


def drain(peer: str, count: int) -> Timing:
    """Dispatch so many due no-op jobs (an entry point)."""
    opened = PEERS[peer](Path.cwd())
    opened.put([(number, None) for number in range(count)])
    return opened.drain()
