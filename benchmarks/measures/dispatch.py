"""Due no-op jobs: one an agent over many agents, and many of one agent."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import Any, cast

from agentkit import Runtime
from agentkit.store.sqlite import Durability, SqliteStore
from benchmarks.figures import ratios, short, spread
from benchmarks.fresh import run_fresh
from benchmarks.measures import Place
from benchmarks.probe import FILE, Probe, fill_store
from benchmarks.report import Report, Row, at_least

_HOUR = 3_600
_TARGETS = (("full", "floor-full", 5_000), ("process", "floor-normal", 8_000))
_FLOOR_JOBS = 1_000


class Progress:
    """Counts runs.

    Attributes:
        first_at: When the first began, by ``time.perf_counter``.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first_at = 0.0

    def ran(self, number: int, due: float) -> None:
        """Count a run (the ``deps`` of a probe)."""
        if not self.count:
            self.first_at = time.perf_counter()
        self.count += 1


def drain(agents: int, jobs_each: int, durability: str) -> dict[str, Any]:
    """Fill a store with due jobs and run them all (an entry point)."""
    fill_store(FILE, agents=agents, due_in=-_HOUR, jobs_each=jobs_each)
    found = asyncio.run(_drain(agents * jobs_each, durability))
    with closing(sqlite3.connect(FILE)) as connection:
        found["left"] = connection.execute("select count(*) from jobs").fetchone()[0]
        found["recorded"] = connection.execute("select count(*) from history").fetchone()[0]
    return found


async def _drain(count: int, durability: str) -> dict[str, Any]:
    store = SqliteStore(FILE, durability=cast(Durability, durability))
    progress = Progress()
    began, spent_before = time.perf_counter(), time.process_time()
    async with Runtime(Probe, store=store, deps=progress.ran):
        synced_before = store.writer.synced_commits
        while progress.count < count or not store.writer.is_idle:
            await asyncio.sleep(0.002)
        ended, spent = time.perf_counter(), time.process_time() - spent_before
        synced = store.writer.synced_commits - synced_before
    return {
        "count": progress.count,
        "seconds": ended - began,
        "cpu": spent,
        "first": progress.first_at - began,
        "synced": synced,
    }


def measure(place: Place) -> Report:
    """Dispatch over many agents, beside the floor, which runs one job after another."""
    rates: dict[str, list[float]] = {}
    cpu_rates: dict[str, list[float]] = {}
    report = Report(raw={"rates": rates, "cpu_rates": cpu_rates})
    agents = place.scale.due_agents
    for _ in range(place.scale.repeat):
        for durability, floor, _ in _TARGETS:
            with place.folder() as folder:
                found = run_fresh(
                    "benchmarks.measures.dispatch:drain",
                    folder,
                    agents=agents,
                    jobs_each=1,
                    durability=durability,
                )
            if found["left"] or found["recorded"] != agents:
                report.notes.append(f"dispatch, {durability}: {found['left']} jobs left, {found['recorded']} recorded")
            rates.setdefault(durability, []).append(found["count"] / found["seconds"])
            cpu_rates.setdefault(durability, []).append(found["count"] / found["cpu"])
            with place.folder() as folder:
                count, seconds = run_fresh(
                    "benchmarks.peers.floor:drain",
                    folder,
                    peer=floor,
                    count=min(agents, _FLOOR_JOBS),
                )
            rates.setdefault(floor, []).append(count / seconds)
    for durability, floor, target in _TARGETS:
        found_rates = spread(rates[durability])
        ratio = ratios(rates[durability], rates[floor])
        per_cpu = short(spread(cpu_rates[durability]).median)
        report.rows.append(
            at_least(
                f"due no-op jobs of {agents:,} agents, with history (`durability={durability!r}`)".replace("'", '"'),
                found_rates.median,
                target,
                shown=f"{found_rates.show()}/s ({per_cpu} a second of processor time), {ratio.show()} × {floor}",
                unit="/s",
            )
        )
    return report


def measure_one_agent(place: Place) -> Report:
    """Count the synced commits of one agent's due jobs."""
    jobs = place.scale.one_agent_jobs
    with place.folder() as folder:
        found = run_fresh(
            "benchmarks.measures.dispatch:drain",
            folder,
            agents=1,
            jobs_each=jobs,
            durability="full",
        )
    row = Row(
        what=f"{jobs:,} due jobs of one agent",
        target="one sync each",
        measured=f"{found['synced']:,} syncs, {found['count'] / found['seconds']:,.0f} jobs/s",
        is_met=found["synced"] <= jobs + 1,
    )
    return Report(rows=[row], raw=found)
