"""What a live agent costs: its memory with ten jobs, and the time to activate it."""

from __future__ import annotations

import asyncio
import gc
import time

from agentkit import Runtime
from agentkit.store.sqlite import SqliteStore
from benchmarks.figures import percentile
from benchmarks.fresh import run_fresh
from benchmarks.measures import Place
from benchmarks.probe import DAY, FILE, Probe, fill_store
from benchmarks.processes import resident_bytes
from benchmarks.report import Report, Row, below

_JOBS = 10
_BYTES = 8_000
_MILLISECONDS = 1.0
#: Activated first, so that caches and pools have their size before anything is counted.
_WARM_UP = 0.2


def fill(agents: int, jobs_each: int) -> None:
    """Fill a store (an entry point)."""
    fill_store(FILE, agents=agents, due_in=DAY, jobs_each=jobs_each)


def memory(agents: int) -> float:
    """Return the bytes that each live agent adds to the process (an entry point)."""
    return asyncio.run(_memory(agents))


async def _memory(agents: int) -> float:
    warm_up = int(agents * _WARM_UP)
    async with Runtime(Probe, store=SqliteStore(FILE)) as runtime:

        async def activate(numbers: range) -> None:
            for start in range(numbers.start, numbers.stop, 100):
                chunk = range(start, min(start + 100, numbers.stop))
                await asyncio.gather(*(runtime.activate(Probe, f"agent-{number}") for number in chunk))
            gc.collect()

        await activate(range(warm_up))
        before = resident_bytes()
        await activate(range(warm_up, agents))
        return (resident_bytes() - before) / (agents - warm_up)


def activation(agents: int) -> list[list[float]]:
    """Return the milliseconds of first calls and of second calls, one after another (an entry point)."""
    return asyncio.run(_activation(agents))


async def _activation(agents: int) -> list[list[float]]:
    async with Runtime(Probe, store=SqliteStore(FILE)) as runtime:
        stubs = [runtime.get(Probe, f"agent-{number}") for number in range(agents)]
        passes: list[list[float]] = []
        for _ in ("cold", "live"):
            spent = []
            for stub in stubs:
                began = time.perf_counter()
                await stub.ping()
                spent.append((time.perf_counter() - began) * 1000)
            passes.append(spent)
        return passes


def measure(place: Place) -> Report:
    """Measure memory, then activation, each in a process of its own."""
    scale = place.scale
    arguments = {"agents": scale.live_agents}
    with place.folder() as folder:
        run_fresh("benchmarks.measures.agents:fill", folder, jobs_each=_JOBS, **arguments)
        size = run_fresh("benchmarks.measures.agents:memory", folder, **arguments)
    arguments = {"agents": scale.cold_agents}
    with place.folder() as folder:
        run_fresh("benchmarks.measures.agents:fill", folder, jobs_each=1, **arguments)
        cold, live = run_fresh("benchmarks.measures.agents:activation", folder, **arguments)
    p50, p99 = percentile(cold, 0.5), percentile(cold, 0.99)
    return Report(
        rows=[
            Row(
                what=f"a live agent with {_JOBS} jobs (resident memory over {scale.live_agents:,} agents)",
                target=f"≤ {_BYTES:,} bytes",
                measured=f"{size:,.0f} bytes",
                is_met=size <= _BYTES,
            ),
            below(
                "a cold agent activated, p50",
                p50,
                _MILLISECONDS,
                shown=f"{p50:.2f} ms, p99 {p99:.2f} ms (a live one called: {percentile(live, 0.5):.3f} ms)",
                unit="ms",
            ),
        ],
        raw={"bytes": size, "cold_ms": [p50, p99], "live_ms": [percentile(live, 0.5), percentile(live, 0.99)]},
    )
