"""What ``import agentkit`` and ``agentkit --help`` add to a Python that has the libraries they stand on."""

from __future__ import annotations

import importlib.util
import os
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
_HELP = "import sys; sys.argv = ['agentkit', '--help']; from agentkit.cli import main; main()"
_CASES = (("import", "`import agentkit`", "import agentkit", 0.1), ("help", "`agentkit --help`", _HELP, 0.25))


def _seconds(code: str, folder: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(place: Place) -> Report:
    """Start processes in pairs, the bare one first in every other pair."""
    cases = [case for case in _CASES if case[0] != "help" or importlib.util.find_spec("agentkit.cli.__main__")]
    extra: dict[str, list[float]] = {name: [] for name, *_ in cases}
    bare: list[float] = []
    with place.folder() as folder:
        for code in (_BARE, *(code for _, _, code, _ in cases)):
            _seconds(code, folder)  # writes what Python caches
        for number in range(place.scale.startups):
            for name, _, code, _ in cases:
                order = (_BARE, code) if number % 2 else (code, _BARE)
                spent = {each: _seconds(each, folder) for each in order}
                extra[name].append(spent[code] - spent[_BARE])
                bare.append(spent[_BARE])
    report = Report(raw={**extra, "bare": bare})
    for name, what, _, target in _CASES:
        if name not in extra:
            report.rows.append(Row(what=what, target=f"< {target} s", measured="not there yet", is_met=None))
            continue
        spread = Spread(tuple(extra[name]))
        quarters = f"{short(percentile(spread.values, 0.25))}..{short(percentile(spread.values, 0.75))}"
        report.rows.append(
            Row(
                what=f"{what} above `{_BARE}`",
                target=f"< {target} s",
                measured=f"{short(spread.median)} s (middle half {quarters}; bare {short(statistics.median(bare))} s)",
                is_met=spread.median < target,
            )
        )
    return report
