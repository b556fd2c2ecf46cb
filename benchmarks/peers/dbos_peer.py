"""DBOS on SQLite."""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from benchmarks import event_log
from benchmarks.peers.peer import DAY, Load, Peer, Pending, Timing, push_tasks, push_threads

_QUEUE = "benchmark"


def noop(number: int, due: float = 0.0) -> None:
    """Run a job that does nothing."""
    event_log.noop(number, due)


def slow(number: int, due: float = 0.0) -> None:
    """Run a job that takes three seconds."""
    event_log.slow(number, due)


async def noop_async(number: int, due: float = 0.0) -> None:
    """Run a job that does nothing, in an event loop."""
    event_log.noop(number, due)


class Dbos(Peer):
    name = "dbos-sqlite"
    durability = "SQLite through SQLAlchemy: rollback journal, synchronous=FULL, one transaction a call (defaults)"
    defaults = "queue polled every 1 s, no limit of workers, this executor's jobs recovered at launch"
    lead = 20.0

    def _open(self, *, listens: bool) -> tuple[Any, dict[str, Any]]:
        dbos = importlib.import_module("dbos").DBOS
        dbos(
            config={
                "name": _QUEUE,
                "system_database_url": f"sqlite:///{self.folder / 'dbos.db'}",
                "application_version": "1",
                "log_level": "CRITICAL",
            }
        )
        functions = {function.__name__: dbos.workflow()(function) for function in (noop, slow, noop_async)}
        if not listens:
            dbos.listen_queues([])
        dbos.launch()
        dbos.register_queue(_QUEUE)
        return dbos, functions

    def reset(self) -> None:
        """Nothing: opening makes the store, and a process opens it once."""

    def enqueue(self, load: Load) -> Timing:
        dbos, functions = self._open(listens=False)
        options = importlib.import_module("dbos").SetEnqueueOptions

        def push(number: int) -> None:
            with options(delay_seconds=DAY):
                dbos.enqueue_workflow(_QUEUE, functions["noop"], number)

        async def push_async(_: int, number: int) -> None:
            with options(delay_seconds=DAY):
                await dbos.enqueue_workflow_async(_QUEUE, functions["noop_async"], number)

        if load.callers == 1:
            return push_threads(push, load)
        return asyncio.run(push_tasks(push_async, load))

    def put(self, jobs: Sequence[Pending], function: str = "noop") -> None:
        dbos, functions = self._open(listens=False)
        options = importlib.import_module("dbos").SetEnqueueOptions

        def push(job: Pending) -> None:
            number, due = job
            if due is None:
                dbos.enqueue_workflow(_QUEUE, functions[function], number, time.time())
                return
            with options(delay_seconds=max(0.001, due - time.time())):
                dbos.enqueue_workflow(_QUEUE, functions[function], number, due)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(push, jobs))

    def fill(self, count: int) -> None:
        """Clone one stored row under new ids."""
        self.put([(0, time.time() + DAY)])
        with closing(sqlite3.connect(self.folder / "dbos.db")) as connection:
            names = [row[1] for row in connection.execute("pragma table_info(workflow_status)")]
            picks = ", ".join("'job-' || n" if name == "workflow_uuid" else name for name in names)
            connection.execute(
                f"""with recursive series(n) as (select 1 union all select n + 1 from series where n < ?)
                  insert into workflow_status ({", ".join(names)}) select {picks} from series, workflow_status
                  where workflow_uuid not like 'job-%'""",
                (count - 1,),
            )
            connection.commit()

    def unfinished(self) -> int:
        with closing(sqlite3.connect(self.folder / "dbos.db")) as connection:
            sql = "select count(*) from workflow_status where status <> 'SUCCESS'"
            return int(connection.execute(sql).fetchone()[0])

    def work(self) -> None:
        self._open(listens=True)
        event_log.ready()
        while True:
            time.sleep(3_600)


PEERS = {Dbos.name: Dbos}
