"""Agents that are overdue when the runtime starts: the first run, the last, and how far memory rises."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import Any

from agentkit import Runtime
from agentkit.store.sqlite import SqliteStore
from benchmarks.fresh import run_fresh
from benchmarks.measures import Place
from benchmarks.measures.dispatch import Progress
from benchmarks.probe import FILE, Probe, fill_store
from benchmarks.processes import resident_bytes
from benchmarks.report import Report, Row, below

_HOUR = 3_600
_FIRST_SECONDS = 0.1
_ALL_SECONDS = 15.0
#: What peak memory may differ by between a few and many overdue agents and still be called flat.
_FLAT_MB = 10.0


def fill(agents: int) -> None:
    """Fill a store with overdue agents (an entry point, apart so that its memory doesn't count)."""
    fill_store(FILE, agents=agents, due_in=-_HOUR)


def catch_up(agents: int) -> dict[str, Any]:
    """Run what is overdue (an entry point)."""
    return asyncio.run(_catch_up(agents))


async def _catch_up(agents: int) -> dict[str, Any]:
    store, progress = SqliteStore(FILE), Progress()
    before = resident_bytes()
    began, spent_before = time.perf_counter(), time.process_time()
    async with Runtime(Probe, store=store, deps=progress.ran):
        while progress.count < agents or not store.writer.is_idle:
            await asyncio.sleep(0.01)
        seconds, spent = time.perf_counter() - began, time.process_time() - spent_before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "first": progress.first_at - began,
        "all": seconds,
        "cpu": spent,
        "peak": peak,
        "above_start": peak - before,
    }


def measure(place: Place) -> Report:
    """Start on a few overdue agents, then on many."""
    found = {}
    for agents in place.scale.overdue:
        with place.folder() as folder:
            run_fresh("benchmarks.measures.overdue:fill", folder, agents=agents)
            found[agents] = run_fresh("benchmarks.measures.overdue:catch_up", folder, agents=agents)
    few, many = place.scale.overdue
    last = found[many]
    rise_mb = (last["peak"] - found[few]["peak"]) / 1e6
    what = f"{many:,} overdue agents at start"
    return Report(
        rows=[
            below(f"{what}: first run", last["first"], _FIRST_SECONDS, shown=f"{last['first']:.3f} s", unit="s"),
            below(
                f"{what}: all run",
                last["all"],
                _ALL_SECONDS,
                shown=f"{last['all']:.1f} s, {last['cpu']:.1f} s of processor time",
                unit="s",
            ),
            Row(
                what=f"{what}: peak memory",
                target=f"flat: within {_FLAT_MB:g} MB of that of {few:,}",
                measured=f"{last['above_start'] / 1e6:.1f} MB above start, {rise_mb:+.1f} MB over {few:,} agents",
                is_met=rise_mb < _FLAT_MB,
            ),
        ],
        raw={str(agents): figures for agents, figures in found.items()},
    )
