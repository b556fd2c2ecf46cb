"""What agentkit's import and ``agentkit --help`` add to a Python that has the libraries they stand on."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Spread, percentile, short
from benchmarks.fresh import ROOT
from benchmarks.measures import Place
from benchmarks.report import Report, Row

_BARE = "import asyncio, sqlite3, pydantic"
_HELP = "import sys; sys.argv = ['agentkit', '--help']; from agentkit.cli import main; sys.exit(main())"
#: ``import agentkit`` alone loads next to nothing: what it offers is loaded when it is named.
_USED = f"{_BARE}; from agentkit import Agent, Runtime"
_CASES = (
    ("import", "`from agentkit import Agent, Runtime`", _USED, 0.1),
    ("help", "`agentkit --help`", _HELP, 0.25),
)


def _seconds(code: str, folder: Path) -> tuple[float, float]:
    """Return how long a process took, and the processor time it used."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began, before = time.perf_counter(), _children_cpu()
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began, _children_cpu() - before


def _children_cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def measure(place: Place) -> Report:
    """Start processes in pairs, the bare one first in every other pair."""
    extra: dict[str, list[float]] = {name: [] for name, *_ in _CASES}
    cpu: dict[str, list[float]] = {name: [] for name, *_ in _CASES}
    bare: list[float] = []
    with place.folder() as folder:
        for code in (_BARE, *(code for _, _, code, _ in _CASES)):
            _seconds(code, folder)  # writes what Python caches
        for number in range(place.scale.startups):
            for name, _, code, _ in _CASES:
                order = (_BARE, code) if number % 2 else (code, _BARE)
                spent = {each: _seconds(each, folder) for each in order}
                extra[name].append(spent[code][0] - spent[_BARE][0])
                cpu[name].append(spent[code][1] - spent[_BARE][1])
                bare.append(spent[_BARE][0])
    report = Report(raw={"seconds": extra, "cpu_seconds": cpu, "bare": bare})
    for name, what, _, target in _CASES:
        spread = Spread(tuple(extra[name]))
        quarters = f"{short(percentile(spread.values, 0.25))}..{short(percentile(spread.values, 0.75))}"
        report.rows.append(
            Row(
                what=f"{what} above `{_BARE}`",
                target=f"< {target} s",
                measured=f"{short(spread.median)} s (middle half {quarters}; processor time "
                f"{short(statistics.median(cpu[name]))} s; bare {short(statistics.median(bare))} s)",
                is_met=spread.median < target,
            )
        )
    return report
