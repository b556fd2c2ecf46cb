"""How late jobs start, and that none starts early."""

from __future__ import annotations

import time

from benchmarks.event_log import Event
from benchmarks.figures import percentile, short
from benchmarks.fresh import Worker, run_fresh
from benchmarks.measures import Place
from benchmarks.peers import peer_class
from benchmarks.report import Report, Row

_P50_MS = 5.0
_P99_MS = 50.0
_START_SECONDS = 2.0
_PATIENCE = 15.0


def late_ms(place: Place, peer: str, *, jobs: int, seconds: float, lead: float | None = None) -> list[float]:
    """Store jobs that come due over some seconds, start a worker, and return how late each began.

    Stored first, served second: a scheduler in the process that pushes need not notice another process.
    """
    with place.folder() as folder:
        lead = peer_class(peer).lead if lead is None else lead
        first_due = time.time() + lead + _START_SECONDS
        # Whole milliseconds: what every peer can store.
        due = [round(first_due + seconds * number / jobs, 3) for number in range(jobs)]
        run_fresh("benchmarks.peers.verbs:put", folder, jobs=list(enumerate(due)), peer=peer)
        with Worker("benchmarks.peers.verbs:work", folder, peer=peer) as worker:
            worker.wait("ready", 1, 30)
            patience = max(0.0, due[-1] - time.time()) + _PATIENCE
            ran: list[Event] = worker.wait("run", jobs, patience, step=0.05)
    return [(event.at - event.due) * 1000 for event in ran]


def measure(place: Place) -> Report:
    """Measure agentkit beside the floor, in turns."""
    scale = place.scale
    found: dict[str, list[float]] = {"agentkit-full": [], "floor-full": []}
    for _ in range(scale.repeat):
        for peer, lateness in found.items():
            lateness += late_ms(place, peer, jobs=scale.late_jobs, seconds=scale.late_seconds)
    own, floor = found["agentkit-full"], found["floor-full"]
    expected = scale.late_jobs * scale.repeat
    report = Report(raw=dict(found))
    if len(own) < expected:
        report.notes.append(f"lateness: only {len(own)} of {expected} jobs ran")
    for name, share, target in (("p50", 0.5, _P50_MS), ("p99", 0.99, _P99_MS)):
        value, beside = percentile(own, share), percentile(floor, share)
        report.rows.append(
            Row(
                what=f"lateness, {name}",
                target=f"< {target:g} ms",
                measured=f"{short(value)} ms (floor {short(beside)} ms)",
                is_met=value < target and len(own) == expected,
            )
        )
    report.rows.append(
        Row(
            what="lateness, least",
            target="never early",
            measured=f"{short(min(own))} ms of {len(own):,} jobs",
            is_met=min(own) >= 0,
        )
    )
    return report
