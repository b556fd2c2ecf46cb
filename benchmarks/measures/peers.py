"""Every peer with its defaults: dispatch, lateness, start, memory, ``kill -9``."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.figures import percentile, short
from benchmarks.fresh import MeasurementError, Worker, forget_events, run_fresh
from benchmarks.measures import Place
from benchmarks.measures.crash import seconds_to_second_run
from benchmarks.measures.lateness import late_ms
from benchmarks.peers import open_peer, peer_class
from benchmarks.report import Report, Table

_OWN = ("floor-full", "agentkit-full")
_LATE_JOBS = 60
_LATE_SECONDS = 2.0
_CRASH_PATIENCE = 6.0
_LONGEST_IDLE = 5.0
_COLUMNS = (
    "",
    "due no-ops/s",
    "lateness p50 / p99 / least, ms",
    "{pending} pending: ready, memory, CPU idle",
    "`kill -9` in a job: runs again",
)


def measure(place: Place) -> Report:
    """Measure each peer once: what differs here differs by more than noise."""
    report = Report()
    lines = []
    pending = place.scale.pending[0]
    for peer in (*_OWN, *place.scale.peers):
        raw: dict[str, Any] = {}
        cells = [peer]
        for part in (_dispatch, _lateness, _idle, _crash):
            try:
                cells.append(part(place, peer, raw))
            except (MeasurementError, OSError, ValueError) as error:
                cells.append("failed")
                report.notes.append(f"{peer}: {error}")
        lines.append(cells)
        report.raw[peer] = raw
        peer_type = peer_class(peer)
        report.notes.append(f"{peer}: {peer_type.durability}; {peer_type.defaults}")
    columns = [column.format(pending=f"{pending:,}") for column in _COLUMNS]
    report.tables.append(Table(title="Beside the peers, each with its defaults", columns=columns, lines=lines))
    return report


def _dispatch(place: Place, peer: str, raw: dict[str, Any]) -> str:
    """Count from the worker's being ready to the last run, or to the last recorded end."""
    count = place.scale.peer_jobs
    with place.folder() as folder:
        jobs = [(number, None) for number in range(count)]
        run_fresh("benchmarks.peers.verbs:put", folder, jobs=jobs, peer=peer)
        with Worker("benchmarks.peers.verbs:work", folder, peer=peer) as worker:
            (ready,) = worker.wait("ready", 1, 30)[:1]
            ran = worker.wait("run", count, 30)
            last = max((event.at for event in ran), default=float("inf"))
            opened, deadline = open_peer(peer, folder), time.monotonic() + 30
            while opened.unfinished() and time.monotonic() < deadline:
                time.sleep(0.02)
                last = time.time()
    raw["dispatch"] = len(ran) / max(last - ready.at, 1e-3)
    return short(raw["dispatch"])


def _lateness(place: Place, peer: str, raw: dict[str, Any]) -> str:
    seconds = min(_LATE_SECONDS, place.scale.late_seconds)
    late = late_ms(place, peer, jobs=min(_LATE_JOBS, place.scale.late_jobs), seconds=seconds)
    raw["late_ms"] = late
    return " / ".join(short(figure) for figure in (percentile(late, 0.5), percentile(late, 0.99), min(late)))


def _idle(place: Place, peer: str, raw: dict[str, Any]) -> str:
    seconds = min(_LONGEST_IDLE, place.scale.idle)
    with place.folder() as folder:
        run_fresh("benchmarks.peers.verbs:fill", folder, count=place.scale.pending[0], peer=peer)
        forget_events(folder)
        with Worker("benchmarks.peers.verbs:work", folder, peer=peer) as worker:
            (ready,) = worker.wait("ready", 1, 60)[:1]
            time.sleep(min(2.0, seconds))
            before = worker.cpu_seconds
            time.sleep(seconds)
            raw["ready"] = ready.at - worker.launched_at
            raw["idle_cpu_share"] = (worker.cpu_seconds - before) / seconds
            raw["memory"] = worker.memory
    return f"{raw['ready']:.2f} s, {raw['memory'] / 1e6:.0f} MB, {raw['idle_cpu_share']:.1%}"


def _crash(place: Place, peer: str, raw: dict[str, Any]) -> str:
    again = raw["crash"] = seconds_to_second_run(place, peer, patience=_CRASH_PATIENCE)
    return f"not in {_CRASH_PATIENCE:g} s" if again is None else f"{again:.2f} s"
