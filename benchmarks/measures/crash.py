"""``kill -9`` in a job: how long after the restart it runs again."""

from __future__ import annotations

import time

from benchmarks.figures import spread
from benchmarks.fresh import Worker, run_fresh
from benchmarks.measures import Place
from benchmarks.report import Report, below

_AGAIN_SECONDS = 0.5
_INTO_THE_JOB = 0.3


def seconds_to_second_run(place: Place, peer: str, *, patience: float) -> float | None:
    """Return the seconds from the launch of a new worker to the job's second run; None if there was none."""
    with place.folder() as folder:
        run_fresh("benchmarks.peers.verbs:put", folder, jobs=[(1, None)], function="slow", peer=peer)
        with Worker("benchmarks.peers.verbs:work", folder, peer=peer) as worker:
            if not worker.wait("run", 1, 20):
                return None
            time.sleep(_INTO_THE_JOB)
        with Worker("benchmarks.peers.verbs:work", folder, peer=peer) as worker:
            ran = worker.wait("run", 2, patience)
            return ran[1].at - worker.launched_at if len(ran) > 1 else None


def measure(place: Place) -> Report:
    """Kill agentkit and the floor in turns."""
    found: dict[str, list[float]] = {"agentkit-full": [], "floor-full": []}
    for _ in range(place.scale.repeat):
        for peer, seconds in found.items():
            again = seconds_to_second_run(place, peer, patience=30)
            seconds.append(float("inf") if again is None else again)
    own, floor = spread(found["agentkit-full"]), spread(found["floor-full"])
    row = below(
        "`kill -9` in a job: runs again after restart",
        own.median,
        _AGAIN_SECONDS,
        shown=f"{own.show()} s after launch (floor {floor.show()} s)",
        unit="s",
    )
    return Report(rows=[row], raw=dict(found))
