"""Requests read by the rules."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import Any

from benchmarks.figures import percentile
from benchmarks.fresh import ROOT, run_fresh
from benchmarks.measures import Place
from benchmarks.report import Report, Row, below

_REQUESTS = ROOT / "tests" / "schedules" / "parser" / "data" / "dev.jsonl"
_MILLISECONDS = 0.5


def read(path: str, passes: int) -> dict[str, Any]:
    """Read every request several times, and return the milliseconds of each reading (an entry point)."""
    return asyncio.run(_read(path, passes))


async def _read(path: str, passes: int) -> dict[str, Any]:
    from agentkit.schedules.parser import parse_schedule

    with open(path, encoding="utf-8") as lines:
        requests = [json.loads(line) for line in lines if line.strip()]
    spent: list[float] = []
    first = 0.0
    for number in range(passes + 1):
        for request in requests:
            now = datetime.fromisoformat(request["now"])
            began = time.perf_counter()
            await parse_schedule(request["text"], now=now, timezone=request["tz"])
            seconds = time.perf_counter() - began
            first = first or seconds
            if number:  # the first pass loads languages and zones
                spent.append(seconds * 1000)
    return {
        "requests": len(requests),
        "first": first * 1000,
        "p50": percentile(spent, 0.5),
        "p99": percentile(spent, 0.99),
    }


def measure(place: Place) -> Report:
    """Read the requests that the parser's tests are made of."""
    if not _REQUESTS.exists():
        row = Row(
            what="rules parser, p50 a request",
            target=f"< {_MILLISECONDS} ms",
            measured=f"{_REQUESTS.relative_to(ROOT)} is not there",
            is_met=None,
        )
        return Report(rows=[row])
    with place.folder() as folder:
        found = run_fresh(
            "benchmarks.measures.parser:read", folder, path=str(_REQUESTS), passes=place.scale.parser_passes
        )
    row = below(
        f"rules parser, p50 a request ({found['requests']} requests)",
        found["p50"],
        _MILLISECONDS,
        shown=f"{found['p50']:.2f} ms, p99 {found['p99']:.2f} ms; the first one {found['first']:.0f} ms",
        unit="ms",
    )
    return Report(rows=[row], raw=found)
