"""Stores full of schedules that are due later: how soon the runtime is ready, and what waiting costs."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from agentkit import Runtime
from agentkit.store.sqlite import SqliteStore
from benchmarks.event_log import ready
from benchmarks.fresh import Worker, forget_events, run_fresh
from benchmarks.measures import Place
from benchmarks.probe import DAY, FILE, Probe, fill_store
from benchmarks.report import Report, Row, below

_READY_SECONDS = 0.5
_MEMORY_MB = 5.0
#: Two of the kernel's ticks: what reads as nothing.
_IDLE_CPU = 0.02
_SETTLED = 0.01
_LONGEST_SETTLING = 60.0


def fill(agents: int) -> None:
    """Fill a store with one schedule an agent, due from tomorrow on (an entry point)."""
    fill_store(FILE, agents=agents, due_in=DAY, schedules=True)


def serve() -> None:
    """Serve the store until killed (an entry point)."""
    asyncio.run(_serve())


async def _serve() -> None:
    async with Runtime(Probe, store=SqliteStore(FILE)):
        ready()
        await asyncio.Event().wait()


def _watch(place: Place, agents: int) -> dict[str, Any]:
    with place.folder() as folder:
        if agents:
            run_fresh("benchmarks.measures.pending:fill", folder, agents=agents)
        forget_events(folder)
        with Worker("benchmarks.measures.pending:serve", folder) as worker:
            (first,) = worker.wait("ready", 1, 60, step=0.002)
            settled = _settle(worker)
            before = worker.cpu_seconds
            time.sleep(place.scale.idle)
            return {
                "ready": first.at - worker.launched_at,
                "settled_cpu": settled,
                "idle_cpu": worker.cpu_seconds - before,
                "memory": worker.memory,
            }


def _settle(worker: Worker) -> float:
    """Wait until what it does once after its start is over; returns the processor time spent by then."""
    deadline = time.monotonic() + _LONGEST_SETTLING
    spent = worker.cpu_seconds
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = worker.cpu_seconds
        if now - spent <= _SETTLED:
            return now
        spent = now
    return spent


def measure(place: Place) -> Report:
    """Compare full stores with an empty one."""
    empty = _watch(place, 0)
    report = Report(raw={"0": empty})
    for agents in place.scale.pending:
        found = report.raw[str(agents)] = _watch(place, agents)
        extra_mb = (found["memory"] - empty["memory"]) / 1e6
        what = f"{agents:,} pending schedules"
        report.rows += [
            below(
                f"{what}: ready",
                found["ready"],
                _READY_SECONDS,
                shown=f"{found['ready']:.2f} s after launch (empty {empty['ready']:.2f} s)",
                unit="s",
            ),
            below(
                f"{what}: memory over an empty store",
                extra_mb,
                _MEMORY_MB,
                shown=f"{extra_mb:.1f} MB (empty {empty['memory'] / 1e6:.0f} MB)",
                unit="MB",
            ),
            Row(
                what=f"{what}: CPU while idle",
                target="none",
                measured=f"{found['idle_cpu']:.2f} s in {place.scale.idle:g} s, after "
                f"{found['settled_cpu'] - empty['settled_cpu']:.1f} s once after start",
                is_met=found["idle_cpu"] <= _IDLE_CPU,
            ),
        ]
    return report
