"""Huey on SQLite."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from benchmarks import event_log
from benchmarks.peers.peer import DAY, Load, Peer, Pending, Timing, push_threads


class Huey(Peer):
    name = "huey"
    durability = "SQLite WAL, synchronous=FULL, one transaction a call (defaults)"
    defaults = "1 worker thread, poll 0.1 s backing off to 10 s, schedules looked at every 1 s, results stored"

    def _open(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        huey = importlib.import_module("huey").SqliteHuey(
            "benchmark", filename=str(self.folder / "huey.db"), **settings
        )
        return huey, {"noop": huey.task()(event_log.noop), "slow": huey.task()(event_log.slow)}

    def reset(self) -> None:
        self._open()

    def enqueue(self, load: Load) -> Timing:
        noop = self._open()[1]["noop"]
        return push_threads(lambda number: noop.schedule(args=(number,), delay=DAY), load)

    def put(self, jobs: Sequence[Pending], function: str = "noop") -> None:
        task = self._open(fsync=False)[1][function]
        for number, due in jobs:
            if due is None:
                task(number, time.time())
            else:
                # Huey takes naive local times.
                task.schedule(args=(number, due), eta=datetime.fromtimestamp(due))

    def fill(self, count: int) -> None:
        """Write straight into the table of schedules."""
        huey, tasks = self._open(fsync=False)
        data, connection = huey.serialize_task(tasks["noop"].s(0)), huey.storage.conn
        rows = (("benchmark", data, time.time() + DAY + number) for number in range(count))
        connection.execute("begin")
        connection.executemany("insert into schedule (queue, data, timestamp) values (?,?,?)", rows)
        connection.execute("commit")

    def work(self) -> None:
        huey, _ = self._open()
        huey.on_startup()(event_log.ready)
        huey.create_consumer().run()


PEERS = {Huey.name: Huey}
