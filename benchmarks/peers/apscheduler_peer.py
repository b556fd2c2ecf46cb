"""APScheduler 3 with its SQLAlchemy job store."""

from __future__ import annotations

import importlib
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from benchmarks.event_log import noop, ready, slow
from benchmarks.peers.peer import DAY, Load, Peer, Pending, Timing, push_threads


class APScheduler(Peer):
    name = "apscheduler"
    durability = "SQLite through SQLAlchemy: rollback journal, synchronous=FULL, one transaction a call (defaults)"
    defaults = "10 threads, coalesce, max_instances=1; misfire_grace_time=None here, or late jobs are dropped"

    def _scheduler(self, kind: str, *, is_fast: bool = False) -> Any:
        schedulers = importlib.import_module(f"apscheduler.schedulers.{kind.lower()}")
        stores = importlib.import_module("apscheduler.jobstores.sqlalchemy")
        store = stores.SQLAlchemyJobStore(url=f"sqlite:///{self.folder / 'apscheduler.db'}")
        if is_fast:
            listen = importlib.import_module("sqlalchemy").event.listen
            listen(store.engine, "connect", lambda raw, _: raw.execute("pragma synchronous=off"))
        settings = {"misfire_grace_time": None}
        found = getattr(schedulers, f"{kind}Scheduler")
        return found(jobstores={"default": store}, timezone=UTC, job_defaults=settings)

    def _paused(self, *, is_fast: bool = False) -> Any:
        scheduler = self._scheduler("Background", is_fast=is_fast)
        scheduler.start(paused=True)
        return scheduler

    def enqueue(self, load: Load) -> Timing:
        scheduler, moment = self._paused(), datetime.fromtimestamp(time.time() + DAY, UTC)
        return push_threads(lambda number: scheduler.add_job(noop, "date", run_date=moment, args=(number,)), load)

    def put(self, jobs: Sequence[Pending], function: str = "noop") -> None:
        scheduler, called = self._paused(is_fast=True), slow if function == "slow" else noop
        now = time.time()
        for number, due in jobs:
            moment = due or now
            run_at = datetime.fromtimestamp(moment, UTC)
            scheduler.add_job(called, "date", run_date=run_at, args=(number, moment))

    def fill(self, count: int) -> None:
        """Clone one stored row: so many calls would take minutes."""
        self.put([(0, time.time() + DAY)])
        with closing(sqlite3.connect(self.folder / "apscheduler.db")) as connection:
            _, moment, state = connection.execute("select * from apscheduler_jobs").fetchone()
            rows = ((f"{number:032x}", moment, state) for number in range(count - 1))
            connection.executemany("insert into apscheduler_jobs values (?,?,?)", rows)
            connection.commit()

    def work(self) -> None:
        started = importlib.import_module("apscheduler.events").EVENT_SCHEDULER_STARTED
        scheduler = self._scheduler("Blocking")
        scheduler.add_listener(lambda _: ready(), started)
        scheduler.start()


PEERS = {APScheduler.name: APScheduler}
