"""``python -m benchmarks [NAME ...]``: run measures and print what they found as Markdown."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measures import (
    Measure,
    Place,
    agents,
    crash,
    dispatch,
    enqueue,
    harness,
    lateness,
    overdue,
    parser,
    peers,
    pending,
    sandbox,
    startup,
)
from benchmarks.report import Report, markdown
from benchmarks.scale import FULL, QUICK, TINY, Scale

MEASURES: dict[str, Measure] = {
    "enqueue": enqueue.measure,
    "slow-disk": enqueue.measure_slow_disk,
    "dispatch": dispatch.measure,
    "one-agent": dispatch.measure_one_agent,
    "lateness": lateness.measure,
    "pending": pending.measure,
    "overdue": overdue.measure,
    "crash": crash.measure,
    "agents": agents.measure,
    "startup": startup.measure,
    "parser": parser.measure,
    "harness": harness.measure,
    "sandbox": sandbox.measure,
    "peers": peers.measure,
}
#: Left out of a quick run, unless named.
_LONG = ("peers",)
_SCALES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def run(names: Sequence[str], scale: Scale) -> dict[str, Report]:
    """Run measures one after another; progress goes to stderr."""
    reports = {}
    with tempfile.TemporaryDirectory(prefix="agentkit-benchmarks-", ignore_cleanup_errors=True) as root:
        place = Place(root=Path(root), scale=scale)
        for name in names:
            began = time.monotonic()
            reports[name] = MEASURES[name](place)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return reports


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, run, print."""
    options = _options(arguments)
    if options.list:
        print("\n".join(MEASURES))
        return
    began = time.monotonic()
    names = options.names or [name for name in MEASURES if options.scale != "quick" or name not in _LONG]
    reports = run(names, _SCALES[options.scale])
    print(markdown(list(reports.values())))
    print(f"\n{_machine()}, {options.scale} run in {time.monotonic() - began:.0f} s")
    if options.json:
        raw = {name: report.raw for name, report in reports.items()}
        Path(options.json).write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    reader.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all by default")
    reader.set_defaults(scale="full")
    reader.add_argument("--quick", dest="scale", action="store_const", const="quick", help="below 3 minutes")
    reader.add_argument("--scale", choices=_SCALES, help=argparse.SUPPRESS)
    reader.add_argument("--json", metavar="FILE", help="write every figure of every round there")
    reader.add_argument("--list", action="store_true", help="name the measures")
    options = reader.parse_args(arguments)
    unknown = [name for name in options.names if name not in MEASURES]
    if unknown:
        reader.error(f"no measure {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    return options


def _machine() -> str:
    load = ", ".join(f"{share:.1f}" for share in os.getloadavg())
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} processors, load {load}"
    )


if __name__ == "__main__":
    main()
